"""Real Chroma server that a test can start, stop and restart."""

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path


class ChromaRun:
    """Process of ``chroma run`` on a free port with its own folder."""

    def __init__(self, folder):
        self.folder = Path(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = None

    def start(self):
        """Start the server and wait until it answers."""
        command = [Path(sys.executable).with_name("chroma"), "run", "--path", self.folder, "--host", "127.0.0.1"]
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/api/v2/heartbeat", timeout=1):
                return
            time.sleep(0.05)
        raise TimeoutError("chroma run did not answer within a minute")

    @contextmanager
    def frozen(self):
        """Suspend the server, which keeps its connections open but does not answer."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self):
        """Kill the server, if it is running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
