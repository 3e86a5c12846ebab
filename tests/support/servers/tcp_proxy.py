"""A TCP proxy that can stall, delay, garble or drop its connections, to test clients against a faulty network."""

import random
import socket
import threading
import time
from contextlib import suppress


class TcpProxy:
    """Proxy that forwards connections on ``port`` to a target port of this machine.

    ``stall()`` keeps connections open and forwards nothing, ``delay()`` waits before each piece, ``garble()`` answers
    with random bytes, ``drop()`` closes connections and refuses new ones. ``restore()`` ends all of these.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._flowing = threading.Event()
        self._flowing.set()
        self._is_dropping = self._is_garbling = False
        self._delay = 0.0
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Forward nothing until :meth:`restore`."""
        self._flowing.clear()

    def drop(self) -> None:
        """Close all connections, and every new one, until :meth:`restore`."""
        self._is_dropping = True
        self._close_connections()

    def delay(self, seconds: float) -> None:
        """Wait this long before each piece is forwarded, until :meth:`restore`."""
        self._delay = seconds

    def garble(self) -> None:
        """Answer each piece of data with random bytes, and forward nothing, until :meth:`restore`."""
        self._is_garbling = True

    def restore(self) -> None:
        """Resume forwarding."""
        self._is_dropping = self._is_garbling = False
        self._delay = 0.0
        self._flowing.set()

    def close(self) -> None:
        """Close the port and all connections."""
        self._is_dropping = True
        self._flowing.set()
        self._listener.close()
        self._close_connections()

    def _close_connections(self) -> None:
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
            self._sockets.discard(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_dropping:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except ConnectionRefusedError:
                    client.close()
                    continue
                self._sockets |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._flowing.wait()
                time.sleep(self._delay)
                if self._is_garbling:
                    source.sendall(random.randbytes(len(data)))
                else:
                    target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
