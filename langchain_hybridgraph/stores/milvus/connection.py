"""Calls to a Milvus server, with a time limit."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from langchain_hybridgraph.errors import (
    MissingExtraError,
    StoreError,
    StoreUnavailableError,
)
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.stores.milvus.uri import Address

if TYPE_CHECKING:
    from pymilvus import AsyncMilvusClient, MilvusClient
    from pymilvus.grpc_gen.milvus_pb2 import UpsertRequest

Result = TypeVar("Result")

TIMEOUT = 10.0
"""Default time limit for a call to the server, in seconds."""

# Loggers to which the client writes a traceback for every failed call.
_CLIENT_LOGGERS = ("pymilvus.decorators", "pymilvus.client.connection_manager")
_is_translated: ContextVar[bool] = ContextVar("_is_translated", default=False)


def _is_logged(record: logging.LogRecord) -> bool:
    """Return whether to keep a log record that pymilvus wrote.

    Warnings and errors that pymilvus logs during a call by this package are dropped, because the call raises an
    exception instead.
    """
    return record.levelno < logging.WARNING or not _is_translated.get()


class ServerCall(NamedTuple):
    """One call to the server: a method of the client and its arguments."""

    method: str
    arguments: Mapping[str, Any]


# Generator for one read or search: it yields calls to the server and receives their results.
Calls = Generator[ServerCall, Any, Result]


class MilvusConnection:
    """Connection to Milvus, with one client for all threads and one for each event loop.

    Each client is created at its first use. ``timeout`` is the time limit in seconds for each call, including retries.
    A connection can be pickled, and it can be used after a fork.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        self.address, self.timeout = address, timeout
        self._is_lite: bool | None = None
        self._pid = os.getpid()
        self._lock = ForkSafeLock()
        self._threads_client: MilvusClient | None = None
        self._loop_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncMilvusClient] = WeakKeyDictionary()

    def __getstate__(self) -> tuple[Address, float]:
        return self.address, self.timeout

    def __setstate__(self, state: tuple[Address, float]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a new connection to the same server

    def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the client and return its result.

        If the collection is not loaded, it is loaded and the call is repeated. This is needed because milvus-lite
        forgets at a restart which collections were loaded. Raises StoreUnavailableError if the server cannot be
        reached, denies access or does not answer in time. Raises StoreError for other errors of the client.
        """
        with self._translating_errors(method):
            client = self._client()
            try:
                return getattr(client, method)(timeout=self.timeout, **arguments)
            except Exception as error:
                if not _is_not_loaded(error) or "collection_name" not in arguments:
                    raise
                client.load_collection(arguments["collection_name"], timeout=self.timeout)
                return getattr(client, method)(timeout=self.timeout, **arguments)

    async def acall(self, method: str, **arguments: Any) -> Any:
        """Return the result of :meth:`call` without blocking the event loop."""
        with self._translating_errors(method):
            client = self._async_client()
            try:
                return await getattr(client, method)(timeout=self.timeout, **arguments)
            except Exception as error:
                if not _is_not_loaded(error) or "collection_name" not in arguments:
                    raise
                await client.load_collection(arguments["collection_name"], timeout=self.timeout)
                return await getattr(client, method)(timeout=self.timeout, **arguments)

    def upsert(self, request: UpsertRequest) -> None:
        """Send an upsert request. Raises the same errors as :meth:`call`."""
        with self._translating_errors("upsert"):
            client = self._client()
            client._get_connection().upsert(
                request.collection_name,
                [],
                timeout=self.timeout,
                context=client._generate_call_context(),
                schema={"fields": []},  # a complete request needs no schema, but pymilvus would fetch a missing one
                upsert_param=request,
            )

    def run(self, calls: Calls[Result]) -> Result:
        """Run a generator that yields calls to the server, and return its result.

        Each call is made when it is yielded, and its result is sent to the generator.
        """
        try:
            call = next(calls)
            while True:
                call = calls.send(self.call(call.method, **call.arguments))
        except StopIteration as stop:
            result: Result = stop.value
            return result
        finally:
            calls.close()

    async def arun(self, calls: Calls[Result]) -> Result:
        """Return the result of :meth:`run` without blocking the event loop."""
        try:
            call = next(calls)
            while True:
                call = calls.send(await self.acall(call.method, **call.arguments))
        except StopIteration as stop:
            result: Result = stop.value
            return result
        finally:
            calls.close()

    @property
    def is_lite(self) -> bool:
        """Whether the server is milvus-lite, in this process or in another process."""
        if self._is_lite is None:
            self._is_lite = "lite" in str(self.call("get_server_version")).lower()
        return self._is_lite

    @property
    def is_missing(self) -> bool:
        """Whether the store is a milvus-lite file that does not exist yet; any call would create it."""
        return not self.address.uri.startswith("http") and not os.path.exists(self.address.uri)

    def close(self) -> None:
        """Close the client that threads share; the next call creates a new one.

        The clients of event loops are not closed.
        """
        client, self._threads_client = self._threads_client, None
        if client is not None and self._pid == os.getpid():
            client.close()

    def _leave_parent(self) -> None:
        """Discard the clients copied by a fork, because their network channels do not work in the child."""
        if self._pid != os.getpid():
            self._pid, self._threads_client, self._loop_clients = os.getpid(), None, WeakKeyDictionary()

    def _client(self) -> MilvusClient:
        with self._lock:
            self._leave_parent()
            if self._threads_client is None:
                client = client_library().MilvusClient
                self._threads_client = client(**self._arguments())
            return self._threads_client

    def _async_client(self) -> AsyncMilvusClient:
        loop = asyncio.get_running_loop()
        self._leave_parent()
        client = self._loop_clients.get(loop)
        if client is None:
            client = self._loop_clients[loop] = client_library().AsyncMilvusClient(**self._arguments())
        return client

    def _arguments(self) -> dict[str, Any]:
        uri, token, database = self.address
        return {"uri": uri, "token": token, "db_name": database, "timeout": self.timeout, "dedicated": True}

    @contextmanager
    def _translating_errors(self, method: str) -> Iterator[None]:
        """Convert the client's errors to this package's errors, and prevent the client from logging them."""
        from pymilvus.exceptions import MilvusException

        for name in _CLIENT_LOGGERS:
            logging.getLogger(name).addFilter(_is_logged)
        token = _is_translated.set(True)
        try:
            yield
        except Exception as error:
            if isinstance(error, MilvusException | OSError) or _is_of_grpc(error):
                raise self._translated(error, method) from error
            raise
        finally:
            _is_translated.reset(token)

    def _translated(self, error: Exception, method: str) -> StoreError:
        refusal = _refusal(error)
        message = _message(refusal or error)
        kind = f"{_status(refusal or error)} {message}".lower()
        where = f"Milvus at {self.address}"
        if any(word in kind for word in ("unauthenticated", "auth check failure", "permission", "token")):
            return StoreUnavailableError(
                f"{where} refused access ({message}); pass the right token= or user and password"
            )
        if any(word in kind for word in ("deadline", "timeout", "timed out")):
            return StoreUnavailableError(
                f"{where} did not answer {method} within {self.timeout:g} s ({message}); check that it runs and is "
                "reachable, or raise timeout="
            )
        if any(word in kind for word in ("unavailable", "connect", "database not found", "oserror")):
            return StoreUnavailableError(f"{where} cannot be reached ({message}); start it, or check the URI")
        return StoreError(f"{where} refused {method}: {message}")


def client_library() -> Any:
    """Return the pymilvus module; raise MissingExtraError if it is not installed."""
    try:
        import pymilvus
    except ImportError as error:
        raise MissingExtraError(
            'a Milvus store needs pymilvus; install the extra: pip install "langchain-hybridgraph[milvus]"'
        ) from error
    return pymilvus


def _is_not_loaded(error: Exception) -> bool:
    """Return whether a server or milvus-lite reports that a collection is not loaded."""
    message = _message(error)
    return "not loaded" in message or "state 'released'" in message


def _is_of_grpc(error: Exception) -> bool:
    return any(kind.__module__.split(".")[0] == "grpc" for kind in type(error).__mro__)


def _refusal(error: Exception) -> Exception | None:
    """Return the gRPC error with which the server refused the token, or None if ``error`` has another cause.

    The client's own error is less precise: it reports only that the connection failed.
    """
    cause = error.__cause__
    if isinstance(cause, Exception) and _is_of_grpc(cause) and "UNAUTHENTICATED" in _status(cause):
        return cause
    return None


def _message(error: Exception) -> str:
    details = getattr(error, "details", None)
    return str(details() if callable(details) else getattr(error, "message", "") or error)


def _status(error: Exception) -> str:
    code = getattr(error, "code", "")
    code = code() if callable(code) else code
    return f"{type(error).__name__} {getattr(code, 'name', code)}"
