"""Command that serves an index."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from langchain_hybridgraph.cli.ingest import ingest_files
from langchain_hybridgraph.cli.settings import IndexLocation, configured, milvus_uri
from langchain_hybridgraph.errors import ConfigurationError, StoreError
from langchain_hybridgraph.server.access import LOCAL_HOSTS, Limits, check_host, read_tokens
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.server.service import Service
from langchain_hybridgraph.times import iso_time

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.applications import Starlette

    from langchain_hybridgraph.vectorstores.document_store import DocumentStore

LOGGER = logging.getLogger("langchain_hybridgraph.server")
HEAD_SECONDS = 10.0
SHUTDOWN_SECONDS = 30


def make_app(
    index: IndexLocation,
    *,
    host: str,
    tokens_file: Path | None,
    watch: Path | None,
    read_only: bool,
    limits: Limits,
    grpc_port: int | None = None,
) -> FastAPI:
    """Return the application for an index.

    Raises ConfigurationError if other machines could reach it without a token, and the errors of
    ``IndexLocation.open``.
    """
    tokens = read_tokens(tokens_file)
    check_host(host, tokens)
    if read_only and watch is not None:
        raise ConfigurationError("--watch changes the index, and --read-only refuses changes: leave one of them out")
    if read_only and milvus_uri(index.path) is not None:
        raise ConfigurationError(
            f"--read-only is for an index in a folder, got {index.path}: leave it out, and give tokens only the right "
            "read"
        )

    def open_store(tenant: str | None) -> DocumentStore:
        return index._replace(tenant=tenant).open(read_only=read_only)

    def update(folder: Path) -> None:
        """Index what has changed, and delete documents whose files no longer exist."""
        location = index._replace(embedding=index.embedding or "auto")
        report = ingest_files([folder], partial(location.open_or_create, quiet=True), prune=True)
        LOGGER.info("indexed %s: %s", folder, report)

    background: list[Callable[[Service], AbstractAsyncContextManager[None]]] = []
    if watch is not None:
        update(watch)
        background.append(lambda _: following(watch, update))
    if grpc_port is not None:
        from langchain_hybridgraph.server.rpc import serving_grpc

        listen(host, grpc_port, "--grpc-port").close()  # gRPC itself would not say which port is in use
        background.append(
            lambda service: serving_grpc(service, f"[{host}]:{grpc_port}" if ":" in host else f"{host}:{grpc_port}")
        )
    settings = configured(index.config)
    app = create_app(
        open_store, settings=settings, tokens=tokens, limits=limits, background=background, tenant=index.tenant
    )
    app.state.service.check()  # report an index that cannot be opened before serving
    if not tokens:  # otherwise, another website could reach the service by DNS rebinding
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOCAL_HOSTS, "[::1]"])
    return app


def log_as_json() -> None:
    """Write log records to stderr, each as a JSON object."""
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[log], level=logging.INFO, force=True)


def listen(host: str, port: int, option: str) -> socket.socket:
    """Return a socket that listens on a port, which ``option`` chooses. Raises ConfigurationError if it is in use."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}, port {port} ({error.strerror}): choose another one with {option} or --host"
        ) from error


def run(app: Starlette, host: str, port: int, option: str = "--port", path: str = "/") -> None:
    """Serve the application until it is interrupted; running requests are completed.

    A terminal shows the address of ``path``, which is the search page by default.

    Raises ConfigurationError if it cannot listen on the port.
    """
    listener = listen(host, port, option)
    if sys.stderr.isatty():  # elsewhere, every line is JSON
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
        typer.echo(f"Serving {address} (press Ctrl+C to stop)", err=True)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        access_log=False,  # the application logs each request
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    server.run([listener])
    if not server.started:  # the reason is in the log
        raise StoreError("the service could not be started; the reason is in the log above")


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # a class that uvicorn chooses
    """uvicorn's protocol, extended to close connections that do not send a request in time."""

    _last_request: Any = ...  # the request after which a time limit was started; None before the first request

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of the first request."""
        super().connection_made(transport)
        self._limit_next()

    def data_received(self, data: bytes) -> None:
        """Read data; the first data after an answer starts the time limit of the next request."""
        super().data_received(data)
        self._limit_next()

    def _limit_next(self) -> None:
        last = self.cycle
        if last is not self._last_request and (last is None or last.response_complete):
            self._last_request = last
            self.loop.call_later(HEAD_SECONDS, self._close_without_next, last)

    def _close_without_next(self, last: Any) -> None:
        if self.cycle is last:
            self.transport.close()


class JsonFormatter(logging.Formatter):
    """Formatter that writes each log record as one JSON object, without exception messages."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON."""
        fields = {"time": iso_time(record.created), "level": record.levelname, "logger": record.name}
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        message = record.msg.partition(" %")[0] if extra else record.getMessage()
        error = None if record.exc_info is None or record.exc_info[0] is None else record.exc_info[0].__name__
        return json.dumps({**fields, "message": message, **extra, **({"error": error} if error else {})}, default=str)


_STANDARD = {*vars(logging.makeLogRecord({})), "message", "color_message"}


@asynccontextmanager
async def following(folder: Path, update: Callable[[Path], None]) -> AsyncIterator[None]:
    """Call ``update`` at the start and when files in a folder have changed, until the end of the ``with`` block."""
    task = asyncio.create_task(_follow(folder, update))
    try:
        yield
    finally:
        task.cancel()


async def _follow(folder: Path, update: Callable[[Path], None]) -> None:
    from watchfiles import awatch

    is_first = True  # files may have changed since they were read, and before they were watched
    async for changes in awatch(folder, rust_timeout=1_000, yield_on_timeout=True):
        if is_first or changes:
            try:
                await asyncio.to_thread(update, folder)
            except Exception as error:
                LOGGER.exception("the changes in %s are not indexed yet: %s", folder, error)
        is_first = False
