"""A service that listens on a port of this machine, in a thread of the test."""

import socket
import threading
import time
from contextlib import contextmanager

import uvicorn


@contextmanager
def running(app, **options):
    """Serve an application; the value is its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, **options))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
        assert not thread.is_alive()
