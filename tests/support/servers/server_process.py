"""Servers in processes of their own."""

import socket
import subprocess
import time
from contextlib import suppress


def free_port():
    """Return a port on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class ServerProcess:
    """Process of a server that can be killed and started again; ``{port}`` in its command is replaced by its port."""

    def __init__(self, *command):
        self.port = free_port()
        self._command = [str(part).format(port=self.port) for part in command]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self._command} has ended")

    def kill(self):
        self.process.kill()
        self.process.wait()
