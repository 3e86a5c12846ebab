"""Connection to a Milvus server, and its limits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit
from weakref import WeakKeyDictionary

from langchain_hybridgraph import errors
from langchain_hybridgraph.execution.threads import ForkSafeLock

if TYPE_CHECKING:
    from pymilvus import AsyncMilvusClient, MilvusClient

TIMEOUT = 10.0
"""Default time limit for a call to the server, in seconds."""

# Maximum number of rows that Milvus returns for one call.
MOST_RESULTS = 16_384
# Maximum number of keys in one expression.
MOST_KEYS = 4_000
# Maximum number of bytes in a text or JSON field, and in a name.
MOST_BYTES = 65_535
MOST_NAME = 4_096
# Maximum number of elements in an array field.
MOST_ELEMENTS = 4_096
# Parts of messages about a server that denies access, and about one that cannot be reached.
_REFUSED = ("unauthenticated", "auth check failure", "permission", "token")
_UNREACHABLE = ("unavailable", "connect", "database not found", "oserror")
# Schemes of the URIs of Milvus stores; a location without one of them is a folder.
SCHEMES = ("milvus", "http", "https")


class Address(NamedTuple):
    """A milvus-lite file or a database on a Milvus server, with the access token for it."""

    uri: str
    token: str
    database: str

    @classmethod
    def parse(cls, uri: str, token: str = "", database: str = "") -> Address:
        """Return the address of a Milvus server or a milvus-lite file; raise ConfigurationError for any other string.

        A server is ``milvus://[user:password@]host[:port][/database]``, or the same with ``http://`` or ``https://``. A
        milvus-lite file is a path that ends in ``.db``, optionally with the prefix ``milvus:``.

        >>> Address.parse("milvus://ada:secret@db.example:19530/notes")
        Address(uri='http://db.example:19530', token='ada:secret', database='notes')
        """
        wrong = errors.ConfigurationError(
            "a Milvus URI must be milvus://host:19530/database, https://host:19530 or a milvus-lite file such as "
            f"milvus:notes.db, got {errors.quote_value(uri)}"
        )
        scheme, _, rest = uri.partition(":")
        if not rest.startswith("//"):
            check_scheme(uri)
            path = rest if scheme == "milvus" else uri
            if not path.endswith(".db"):
                raise wrong
            return cls(path, token, database)
        parts = urlsplit(uri)
        try:
            port = parts.port or 19530
        except ValueError:
            raise wrong from None
        if scheme not in SCHEMES or not parts.hostname or ":" in parts.hostname:  # pymilvus rejects IPv6 addresses
            raise wrong
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        protocol = "https" if scheme == "https" else "http"
        return cls(f"{protocol}://{parts.hostname}:{port}", token or user, database or unquote(parts.path.strip("/")))

    def __str__(self) -> str:
        return f"{self.uri}/{quote(self.database)}" if self.database else self.uri


def is_milvus_uri(location: str) -> bool:
    """Return whether a location is a store in Milvus; without the prefix ``milvus:``, a milvus-lite file is a folder.

    >>> is_milvus_uri("milvus://localhost"), is_milvus_uri("https://db.example:19530"), is_milvus_uri("data/index")
    (True, True, False)
    """
    return location.startswith(("milvus:", "http://", "https://"))


def check_scheme(location: str) -> None:
    """Raise ConfigurationError for a misspelt scheme, such as ``milvs:notes.db``, which would be read as a folder name.

    >>> check_scheme("C:/index"), check_scheme("milvus:notes.db"), check_scheme("notes:2024")
    (None, None, None)
    """
    scheme, colon, rest = location.partition(":")
    if not colon or scheme in SCHEMES or len(scheme) < 2 or not scheme.isalnum():
        return
    if rest.startswith("/") or get_close_matches(scheme.lower(), SCHEMES, 1):
        raise errors.ConfigurationError(
            f"the scheme of a store must be milvus, http or https, got {errors.quote_value(location)}; if it is the "
            "name of a folder, pass its absolute path"
        )


class ServerCall(NamedTuple):
    """One call to the server: a method of the client and its arguments."""

    method: str
    arguments: Mapping[str, Any]


Result = TypeVar("Result")
# Generator for one read or search: it yields calls to the server and receives their results.
Calls = Generator[ServerCall, Any, Result]


class MilvusConnection:
    """Connection to Milvus, with one client for all threads and one for each event loop.

    ``timeout`` is the time limit in seconds for each call, including retries. A connection can be pickled, and it can
    be used after a fork.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        self.address, self.timeout = address, timeout
        self._pid = os.getpid()
        self._lock = ForkSafeLock()
        self._threads_client: MilvusClient | None = None
        self._loop_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncMilvusClient] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return MilvusConnection, (self.address, self.timeout)

    def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the client and return its result.

        A collection that is not loaded is loaded first, because milvus-lite forgets at a restart which collections were
        loaded. Raises StoreUnavailableError if the server cannot be reached, denies access or does not answer in time,
        and StoreError for other errors of the client.
        """
        with self._translating_errors(method):
            client = self._client()
            try:
                return getattr(client, method)(timeout=self.timeout, **arguments)
            except Exception as error:
                if not _is_not_loaded(error):
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
                if not _is_not_loaded(error):
                    raise
                await client.load_collection(arguments["collection_name"], timeout=self.timeout)
                return await getattr(client, method)(timeout=self.timeout, **arguments)

    def run(self, calls: Calls[Result]) -> Result:
        """Run a generator that yields calls to the server, and return its result."""
        try:
            call = next(calls)
            while True:
                call = calls.send(self.call(call.method, **call.arguments))
        except StopIteration as stop:
            return cast("Result", stop.value)

    async def arun(self, calls: Calls[Result]) -> Result:
        """Return the result of :meth:`run` without blocking the event loop."""
        try:
            call = next(calls)
            while True:
                call = calls.send(await self.acall(call.method, **call.arguments))
        except StopIteration as stop:
            return cast("Result", stop.value)

    @cached_property
    def is_lite(self) -> bool:
        """Whether the server is milvus-lite, in this process or in another process."""
        return "lite" in str(self.call("get_server_version")).lower()

    def close(self) -> None:
        """Close the client that threads share, but not those of event loops; the next call creates a new one."""
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
                self._threads_client = client_library().MilvusClient(**self._arguments())
            return self._threads_client

    def _async_client(self) -> AsyncMilvusClient:
        self._leave_parent()
        loop = asyncio.get_running_loop()
        if loop not in self._loop_clients:
            self._loop_clients[loop] = client_library().AsyncMilvusClient(**self._arguments())
        return self._loop_clients[loop]

    def _arguments(self) -> dict[str, Any]:
        uri, token, database = self.address
        return {"uri": uri, "token": token, "db_name": database, "timeout": self.timeout, "dedicated": True}

    @contextmanager
    def _translating_errors(self, method: str) -> Iterator[None]:
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except Exception as error:
            if isinstance(error, MilvusException | OSError) or _is_of_grpc(error):
                raise self._translated(error, method) from error
            raise

    def _translated(self, error: Exception, method: str) -> errors.StoreError:
        cause = error.__cause__
        if isinstance(cause, Exception) and _is_of_grpc(cause) and "UNAUTHENTICATED" in _status(cause):
            error = cause  # the client's own error reports only that the connection failed
        message = _message(error)
        kind = f"{_status(error)} {message}".lower()
        for words, problem, advice in (
            (_REFUSED, "refused access", "pass the right token= or user and password"),
            (
                ("deadline", "timeout", "timed out"),
                f"did not answer {method} within {self.timeout:g} s",
                "check that it runs and is reachable, or raise timeout=",
            ),
            (_UNREACHABLE, "cannot be reached", "start it, or check the URI"),
        ):
            if any(word in kind for word in words):
                return errors.StoreUnavailableError(f"Milvus at {self.address} {problem} ({message}); {advice}")
        return errors.StoreError(f"Milvus at {self.address} refused {method}: {message}")


def client_library() -> Any:
    """Return the pymilvus module; raise MissingExtraError if it is not installed."""
    try:
        import pymilvus
    except ImportError as error:
        raise errors.MissingExtraError(
            'a Milvus store needs pymilvus; install the extra: pip install "langchain-hybridgraph[milvus]"'
        ) from error
    return pymilvus


def _is_not_loaded(error: Exception) -> bool:
    message = _message(error)
    return "not loaded" in message or "state 'released'" in message


def _is_of_grpc(error: Exception) -> bool:
    return any(kind.__module__.split(".")[0] == "grpc" for kind in type(error).__mro__)


def _message(error: Exception) -> str:
    details = getattr(error, "details", None)
    return str(details() if callable(details) else getattr(error, "message", "") or error)


def _status(error: Exception) -> str:
    code = getattr(error, "code", "")
    code = code() if callable(code) else code
    return f"{type(error).__name__} {getattr(code, 'name', code)}"
