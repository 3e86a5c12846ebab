"""Retriever that searches over HTTP."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from datetime import date
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import httpx
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, SecretStr

from langchain_hybridgraph.errors import ConfigurationError, RetrievalError, StoreUnavailableError, quote_value
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.options.arguments import HISTORY
from langchain_hybridgraph.options.base import call_text
from langchain_hybridgraph.options.objects import read, session_in
from langchain_hybridgraph.records import Annotate
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.base import EARLY, EarlyDocuments, HandOut, StreamingRetriever
from langchain_hybridgraph.server.access import refusal_text


def _check_url(url: str) -> str:
    scheme, _, rest = url.rstrip("/").rpartition("://")
    address = f"{'https' if scheme == 'https' else 'http'}://{rest.removesuffix('/stream').removesuffix('/search')}"
    if address != url.rstrip("/"):
        expected = f"url must be the address of a service, without the path of a request, got {quote_value(url)}"
        raise ValueError(f"{expected}; write RemoteRetriever({quote_value(address)})")
    return url


class RemoteRetriever(StreamingRetriever):
    """LangChain retriever that searches through a service, with the same results as the service's own retriever.

    ``url`` is the address of the service, ``token`` a bearer token, and ``retriever`` the retriever that answers.
    ``options`` apply to every call; those of a call take precedence. Their values must be JSON values, filters, times,
    messages, sets or arrays. ``stream`` and ``astream`` yield each Document as soon as the service sends it.

    Raises ConfigurationError for invalid options and tokens, StoreUnavailableError if the service cannot be reached or
    is busy, and RetrievalError if it fails.

    >>> retriever = RemoteRetriever("http://localhost:8000", retriever="graph", options={"k": 3})
    >>> retriever.invoke("How long does a parcel take?")  # doctest: +SKIP
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    url: Annotated[str, AfterValidator(_check_url)] = Field(kw_only=False, description="Address of the service.")
    token: SecretStr | None = Field(None, description="Bearer token.")
    retriever: Literal["hybrid", "graph", "hierarchical", "memory", "advanced"] = Field(
        "hybrid", description="Retriever of the service that answers."
    )
    annotate: Annotate = Field("none", description="Metadata of the Documents that invoke returns.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of every call.")
    timeout: float = Field(60.0, gt=0, description="Maximum time, in seconds, without data from the service.")

    _client: httpx.Client = PrivateAttr()
    _by_loop: WeakKeyDictionary[Any, httpx.AsyncClient] = PrivateAttr(default_factory=WeakKeyDictionary)

    def __init__(self, url: str, token: str | SecretStr | None = None, *others: Any, **settings: Any) -> None:
        if others:
            options = call_text(dict(zip(("retriever", "annotate", "options", "timeout"), others, strict=False)))
            advice = f"options by name; write RemoteRetriever(url, token, {options})"
            raise TypeError(f"RemoteRetriever takes url and token by position, and {advice}")
        super().__init__(**{**settings, "url": url, "token": token})
        self._client = httpx.Client(**self._connection)

    @property
    def _connection(self) -> dict[str, Any]:
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token.get_secret_value()}"}
        return {"base_url": self.url, "headers": headers, "timeout": self.timeout}

    @property
    def _async_client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = httpx.AsyncClient(**self._connection)
        return self._by_loop[loop]

    @property
    def _streams_early(self) -> bool:
        return True

    def _read(self, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        names = self.options.keys() | options.keys()
        if self.retriever == "advanced":
            query, conversation = read(input, config)
            return query, {name: value for name, value in conversation.items() if name == HISTORY} | options
        if self.retriever == "memory" and names.isdisjoint({"session", "session_id"}):
            return input, {**options, **session_in(config)}
        return input, options

    # -- retrieving -----------------------------------------------------------------------------------------

    def retrieve(self, query: str | None, k: int | None = None, **options: Any) -> RetrievalResult[Document]:
        """Return the same result as the ``retrieve`` of the local retriever."""
        with self._errors():
            answer = self._client.post("/search", **self._body(query, {"annotate": "all", "k": k, **options}))
        return _result(answer)

    async def aretrieve(self, query: str | None, k: int | None = None, **options: Any) -> RetrievalResult[Document]:
        """Return the same result as :meth:`retrieve`, without blocking the event loop."""
        body = self._body(query, {"annotate": "all", "k": k, **options})
        with self._errors():
            answer = await self._async_client.post("/search", **body)
        return _result(answer)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        options = {"annotate": self.annotate, **options}
        if EARLY not in options:
            return list(self.retrieve(query, **options))
        events = _Events(options.pop(EARLY))
        with self._errors(), self._client.stream("POST", "/search/stream", **self._body(query, options)) as answer:
            if not _is_stream(answer):
                answer.read()
                raise _error_in(answer)
            with _expected(answer):
                for data in answer.iter_bytes():
                    events.feed(data)
        return events.documents()

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        options = {"annotate": self.annotate, **options}
        if EARLY not in options:
            return list(await self.aretrieve(query, **options))
        events = _Events(options.pop(EARLY))
        body = self._body(query, options)
        with self._errors():
            async with self._async_client.stream("POST", "/search/stream", **body) as answer:
                if not _is_stream(answer):
                    await answer.aread()
                    raise _error_in(answer)
                with _expected(answer):
                    async for data in answer.aiter_bytes():
                        events.feed(data)
        return events.documents()

    def _body(self, query: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        of_call = {name: value for name, value in options.items() if value is not None}
        body = {"retriever": self.retriever, "query": query, **self.options, **of_call}
        body = {name: value.isoformat() if isinstance(value, date) else value for name, value in body.items()}
        return {"content": json.dumps(body, default=_as_json), "headers": {"Content-Type": "application/json"}}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPError as error:
            message = f"the service at {self.url} cannot be reached ({type(error).__name__}: {error})"
            raise StoreUnavailableError(message) from error


def _as_json(value: Any) -> Any:
    if isinstance(value, Filter):
        return value.to_dict()
    if isinstance(value, BaseMessage):
        return {"role": value.type, "content": value.text}
    if isinstance(value, date):  # in a filter; _body converts dates that are options
        return {"$date": value.isoformat()}
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # a NumPy value
        return value.tolist()
    raise ConfigurationError(
        f"{quote_value(value)} cannot be sent to a service; pass JSON values, such as a mapping instead of a "
        f"{type(value).__name__}"
    )


class _Events:
    """Events of a stream, from the bytes of the response."""

    def __init__(self, hand_out: HandOut) -> None:
        self._early = EarlyDocuments(hand_out)
        self._documents: dict[str | None, Document] = {}
        self._order: Sequence[str] | None = None
        self._rest, self._name = b"", ""

    def feed(self, data: bytes) -> None:
        """Read more bytes. Only a line feed ends a line, whereas httpx also splits lines at other characters."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            field, _, value = line.partition(b": ")
            if field == b"event":
                self._name = value.decode()
            elif field == b"data":
                self._receive(json.loads(value))

    def _receive(self, data: Any) -> None:
        if self._name == "error":
            raise _error(data["status"], data["detail"])
        if self._name not in ("hit", "answer"):
            return
        hits = [data] if self._name == "hit" else data["changed"]
        documents = [Document.model_validate(hit) for hit in hits]
        self._documents |= {document.id: document for document in documents}
        if self._name == "hit":
            self._early.hand_out(documents)
        else:
            self._order = data["order"]

    def documents(self) -> list[Document]:
        """Return the answer, in which the early Documents have all of their metadata."""
        if self._order is None:
            raise RetrievalError("the stream of the service ended before its answer; search again")
        return self._early.completed([self._documents[id] for id in self._order])


def _is_stream(answer: httpx.Response) -> bool:
    return answer.is_success and answer.headers.get("content-type", "").startswith("text/event-stream")


def _result(answer: httpx.Response) -> RetrievalResult[Document]:
    if not answer.is_success:
        raise _error_in(answer)
    with _expected(answer):
        result: RetrievalResult[Document] = RetrievalResult.from_dict(answer.json())
    return result


@contextmanager
def _expected(answer: httpx.Response) -> Iterator[None]:
    """Raise one error for content that is not that of a service, such as the page of a proxy."""
    try:
        yield
    except ConfigurationError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _foreign(answer, type(error).__name__) from error


def _error_in(answer: httpx.Response) -> Exception:
    with suppress(ValueError, LookupError, TypeError):
        if answer.status_code != 404:  # a service has this path, so url is another address
            return _error(answer.status_code, answer.json()["detail"])
    return _foreign(answer, quote_value(answer.text))


def _foreign(answer: httpx.Response, content: str) -> Exception:
    """Return the error for an answer that does not come from a service."""
    message = (
        f"{answer.request.url} answered {answer.status_code}, but not as a service of this package ({content}): check "
        "that url is the address of hybridgraph serve, and any proxy in between"
    )
    return _KINDS.get(answer.status_code, RetrievalError)(message)


_KINDS: Mapping[int, Callable[[str], Exception]] = {
    **dict.fromkeys((400, 401, 403, 404, 413, 422), ConfigurationError),
    **dict.fromkeys((429, 502, 503), StoreUnavailableError),
}


def _error(status: int, detail: Any) -> Exception:
    return _KINDS.get(status, RetrievalError)(f"the service answered {status}: {refusal_text(detail)}")
