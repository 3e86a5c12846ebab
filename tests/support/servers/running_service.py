"""A service that listens on a port of this machine, in a thread of the test."""

import socket
import threading
from contextlib import contextmanager

import uvicorn


@contextmanager
def running(app, **options):
    """Serve an application; the value is its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, **options))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        started = threading.Event()
        server_startup = server.startup

        async def startup(*arguments, **keywords):
            await server_startup(*arguments, **keywords)
            started.set()

        server.startup = startup
        thread.start()
        try:
            assert started.wait(30)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
        assert not thread.is_alive()
