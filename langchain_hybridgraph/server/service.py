"""Requests and searches of the service, over any protocol."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, get_type_hints

from langchain_core.documents import Document
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import replace_surrogates, to_json
from langchain_hybridgraph.errors import quote_value, shorten
from langchain_hybridgraph.execution.threads import OverloadedError
from langchain_hybridgraph.options import base, models
from langchain_hybridgraph.options.arguments import HISTORY, CallSettings
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.retrievers.base import EARLY, HandOut, stream_documents
from langchain_hybridgraph.retrievers.graph import GraphRetriever
from langchain_hybridgraph.retrievers.hierarchical import HierarchicalRetriever
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.retrievers.memory import MemoryRetriever
from langchain_hybridgraph.server.access import Access, Limits, Refusal, Token, Tokens, invalid, problem
from langchain_hybridgraph.settings import HybridGraphSettings
from langchain_hybridgraph.telemetry import PrometheusSink
from langchain_hybridgraph.vectorstores.document_store import DocumentStore
from langchain_hybridgraph.vectorstores.hybrid_graph_store import store_from_settings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# -- requests -------------------------------------------------------------------------------------------------

KINDS: Mapping[str, type[HybridRetriever]] = {
    "hybrid": HybridRetriever,
    "graph": GraphRetriever,
    "hierarchical": HierarchicalRetriever,
    "memory": MemoryRetriever,
}
ADVANCED = "advanced"
_SUBJECTS = ("query", "filter", "vector", "labels", "seed_ids")  # a request needs at least one of them


class SearchRequest(BaseModel):
    """Question and options of a search. A subclass has the call options of one retriever as fields."""

    model_config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False)

    kind: ClassVar[type[BaseModel]]
    retriever: str = Field("hybrid", description="Retriever that answers.")
    query: str | None = Field(None, description="Question or keywords; may be left out with a vector or a filter.")

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of the call that are set."""
        return {name: getattr(self, name) for name in self.model_fields_set - SearchRequest.model_fields.keys()}

    def refusal(self, message: str) -> Refusal:
        """Return the refusal for an error message, with the path of the first option that it names."""
        paths: dict[str, tuple[str, ...]] = {name: (name,) for name in ("query", *self.options)}
        paths["history"] = paths.get(HISTORY) or paths.get("session", ())
        mentions = [paths[word] for word in re.findall(r"\w+", message) if word in paths]
        return invalid(message, *(mentions[0] if mentions else ()))


@cache
def request_models(inner: str) -> Mapping[str, type[SearchRequest]]:
    """Return the model of the requests for each retriever; ``inner`` is the one that ``advanced`` wraps."""
    by_name = {name: _model(kind, kind, frozenset()) for name, kind in KINDS.items()}
    return {**by_name, ADVANCED: _model(AdvancedRetriever, KINDS[inner], frozenset({HISTORY}))}


def _model(kind: type[Any], inner: type[HybridRetriever], own: frozenset[str]) -> type[SearchRequest]:
    hints = get_type_hints(CallSettings, localns=vars(models))
    names = sorted(inner._call_options | own)
    fields: Any = {each: _field(each, inner, hints.get(each, Any)) for each in names}
    model = create_model(f"{kind.__name__}Request", __base__=SearchRequest, **fields)
    model.kind = kind
    return model


def _field(name: str, kind: type[BaseModel], hint: Any) -> tuple[Any, Any]:
    """Return the type and the field of an option: those of the retriever, or else those of the call."""
    option = kind.model_fields.get(name)
    if option is None:
        return hint if hint is Any else hint | None, Field(None, strict=base.is_plain(hint) or None)
    annotation: Any = option.annotation
    is_strict = base.is_plain(annotation) or None  # otherwise, pydantic would convert strings and bools to numbers
    if option.metadata:
        annotation = Annotated[annotation, *option.metadata]
    return annotation | None, Field(None, description=option.description, strict=is_strict)


def read_request(body: Mapping[str, Any], by_name: Mapping[str, type[SearchRequest]]) -> SearchRequest:
    """Return the request in a JSON object. Raises Refusal with all of its problems.

    >>> read_request({"query": "cats", "k": 3}, request_models("hybrid")).options
    {'k': 3}
    >>> read_request({"query": "cats", "k": -3}, request_models("hybrid"))
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.server.access.Refusal: [{'path': ['k'], 'message': 'k must be an integer ≥ 0, got -3'}]
    """
    name = body.get("retriever", "hybrid")
    if not isinstance(name, str) or name not in by_name:
        expected = f"{nearest(name, by_name)}expected one of {', '.join(by_name)}"
        raise invalid(f"retriever {quote_value(name)} is unknown; {expected}", "retriever")
    model = by_name[name]
    problems = []
    for other in [each for each in body if each not in model.model_fields]:
        advice = base.option_advice(model.kind, other, body[other], model.model_fields, json.dumps)
        owners = [each for each in KINDS if other in KINDS[each].model_fields]
        if capable := [each for each in by_name if other in by_name[each].model_fields]:
            advice = f"it is an option of {base.all_of(capable)}: add {json.dumps({'retriever': capable[0]})}"
        elif owners and "hybrid" not in owners:
            advice = f"the settings of the service set it, for {base.all_of(owners)}"
        option = shorten(other, 100)
        problems.append(problem(f"{name} has no option {option!r}; {shorten(advice, 500)}", option))
    if not problems and all(body.get(each) is None for each in _SUBJECTS):
        problems.append(problem('query is missing; write {"query": "a question"}, or a filter or a vector', "query"))
    try:
        request = model.model_validate(body)
    except ValidationError as error:
        problems += [problem(message, *path) for path, message, _ in base.problems_in(model, error, body)]
    if problems:
        raise Refusal(422, problems)
    return request


# -- the service ----------------------------------------------------------------------------------------------

Opener = Callable[[str | None], DocumentStore]
"""Function that opens the store of a tenant; the service closes it."""

LOGGER = logging.getLogger("langchain_hybridgraph.server")
_LIMITED = ("k", "overfetch", "rerank_depth", "seed_k", "start_k")
_UNAVAILABLE = (
    "the store is busy or cannot be read: try again, and if its folder was moved, deleted or replaced, put it back or "
    "restart the service"
)

_REFUSALS: Sequence[tuple[type[Exception] | tuple[type[Exception], ...], Refusal]] = [
    (errors.ReadOnlyError, Refusal(403, "the store is open read-only")),
    (
        (errors.StoreLockedError, errors.StoreUnavailableError, OverloadedError, errors.RetrievalError),
        Refusal(503, _UNAVAILABLE, {"Retry-After": "1"}),
    ),
    (TimeoutError, Refusal(504, "the request took longer than the service allows")),
]


def refusal_for(error: Exception) -> Refusal:
    """Return the refusal for an error of a request; it does not disclose unexpected errors.

    >>> refusal_for(errors.ConfigurationError("k must be an integer ≥ 0, got -1")).detail
    [{'path': [], 'message': 'k must be an integer ≥ 0, got -1'}]
    >>> refusal_for(KeyError("secret")).status, refusal_for(KeyError("secret")).detail
    (500, 'internal error')
    """
    if isinstance(error, Refusal):
        return error
    for kinds, refusal in _REFUSALS:
        if isinstance(error, kinds):
            return refusal
    if isinstance(error, errors.ConfigurationError | errors.FilterError):
        return invalid(str(error))
    return Refusal(500, "internal error")


def error_fields(error: BaseException) -> dict[str, Any]:
    """Return the fields of a log record for an error, without messages and source lines, which may quote the query."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "traceback": lines}


class Event(NamedTuple):
    """Event of a stream: ``started``, ``hit``, ``answer`` or ``error``, with its data as a JSON object."""

    name: str
    data: dict[str, Any]


class Service:
    """Stores and retrievers of a service, opened when they are first used, with its tokens and limits."""

    def __init__(
        self,
        store: DocumentStore | HybridGraphSettings | Opener,
        *,
        tenant: str | None = None,
        settings: HybridGraphSettings | None = None,
        tokens: Sequence[Token] = (),
        limits: Limits | None = None,
    ) -> None:
        from prometheus_client import CollectorRegistry

        if settings is None:
            settings = store if isinstance(store, HybridGraphSettings) else HybridGraphSettings()
        self.settings, self.limits = settings, limits or Limits()
        if isinstance(store, HybridGraphSettings):
            tenant = store.store_tenant
        elif not callable(store):
            tenant = getattr(store, "tenant", None)
        self._store, self._tenant = store, tenant
        self.tokens = Tokens(tokens, tenant, self.limits)
        self.registry: CollectorRegistry = CollectorRegistry()
        self._sink = PrometheusSink(self.registry)
        self._advanced = settings.arguments("advanced")
        self._inner = self._advanced.pop("retriever", "hybrid")
        self.models = request_models(self._inner)
        self._stores: dict[str | None, DocumentStore] = {}
        self._retrievers: dict[tuple[str | None, str], HybridRetriever | AdvancedRetriever] = {}
        self._lock = threading.RLock()

    # -- stores and retrievers ------------------------------------------------------------------------------

    def store(self, tenant: str | None) -> DocumentStore:
        """Return the store of a tenant, and open it if necessary."""
        with self._lock:
            if tenant not in self._stores:
                self._stores[tenant] = self._open(tenant)
            return self._stores[tenant]

    def _open(self, tenant: str | None) -> DocumentStore:
        if isinstance(self._store, HybridGraphSettings):
            return store_from_settings(self._store.model_copy(update={"store_tenant": tenant} if tenant else {}))
        if callable(self._store):
            return self._store(tenant)
        if tenant != self._tenant:
            raise errors.TenantError(f"the store is for tenant {self._tenant!r}, but a token is for tenant {tenant!r}")
        return self._store

    def check(self) -> int:
        """Check the settings and that the store can be read; return the number of chunks of its first tenant."""
        tenant = self.tokens.tenants[0]
        store: Any = self.store(tenant)
        self._make_retriever(tenant, "hybrid")
        return len(store)

    def close(self) -> None:
        """Close the stores that the service has opened."""
        with self._lock:
            stores = [store for store in self._stores.values() if store is not self._store]
            self._stores.clear()
            self._retrievers.clear()
        for store in stores:
            store.close()

    async def _retriever(self, access: Access, name: str) -> HybridRetriever | AdvancedRetriever:
        key = (access.tenant, name)
        if key not in self._retrievers:
            await asyncio.to_thread(self._make_retriever, *key)
        return self._retrievers[key]

    def _make_retriever(self, tenant: str | None, name: str) -> None:
        telemetry = {"sinks": [self._sink]}
        with self._lock:
            if (tenant, name) in self._retrievers:
                return
            kind = KINDS[self._inner if name == ADVANCED else name]
            retriever: Any = kind.from_settings(self.settings, store=self.store(tenant), telemetry=telemetry)
            if name == ADVANCED:
                retriever = AdvancedRetriever(retriever, **self._advanced, telemetry=telemetry)
            self._retrievers[tenant, name] = retriever

    # -- searches -------------------------------------------------------------------------------------------

    def read(self, access: Access, body: Mapping[str, Any]) -> SearchRequest:
        """Return the request in a JSON object.

        Raises Refusal for invalid options, for those beyond the limits, and without the right to search.
        """
        access.check("read")
        request = read_request(body, self.models)
        if request.options.get("tenant") not in (None, access.tenant):
            raise Refusal(403, "the token does not allow this request")
        limits = dict.fromkeys(_LIMITED, self.limits.k) | {"deadline_ms": int(self.limits.deadline * 1e3)}
        values: dict[tuple[str, ...], Any] = {(name,): value for name, value in request.options.items()}
        for name, group in request.options.items():
            if isinstance(group, base.OptionGroup):
                values |= {(name, option): value for option, value in group.own_options().items()}
        for path, value in values.items():
            most = limits.get(path[-1])
            if most is not None and isinstance(value, int | float) and value > most:
                raise invalid(f"{path[-1]} must be at most {most} here, got {value}", *path)
        return request

    async def search(
        self, access: Access, request: SearchRequest, hand_out: HandOut | None = None
    ) -> RetrievalResult[Document]:
        """Return the answer. ``hand_out`` receives Documents as soon as they are certain to be in it."""
        options = request.options
        options.pop("tenant", None)
        if access.filter is not None:
            own = options.get("filter")
            options["filter"] = access.filter if own is None else access.filter & own
        retriever: Any = await self._retriever(access, request.retriever)
        if hand_out is not None and retriever._streams_early:
            options[EARLY] = hand_out
        query = None if request.query is None else replace_surrogates(request.query)
        try:
            async with asyncio.timeout(self.limits.deadline):
                result: RetrievalResult[Document] = await retriever.aretrieve(query, **options)
                return result
        except (errors.ConfigurationError, errors.FilterError, errors.EmbeddingMismatchError) as error:
            raise request.refusal(str(error)) from error

    async def events(self, access: Access, request: SearchRequest) -> AsyncGenerator[Event, None]:
        """Yield ``started`` at once, each hit as soon as it is certain, and then the answer; an error is an event.

        ``answer`` has the ids in the final ``order``, and the hits that have ``changed`` since they were sent: their
        rank, or the score that a reranker gave them. Closing the generator cancels the search.
        """
        results: list[RetrievalResult[Document]] = []

        async def search(hand_out: HandOut) -> Sequence[Document]:
            results.append(await self.search(access, request, hand_out))
            return results[0]

        yield Event("started", {"retriever": request.retriever})
        sent_documents: dict[str | None, Any] = {}
        try:
            async with aclosing(stream_documents(search)) as parts:
                async for part in parts:
                    for document in part:
                        sent_documents[document.id] = to_json(document)
                        yield Event("hit", sent_documents[document.id])
        except Exception as error:  # noqa: BLE001 - the stream has begun, so the error is sent as an event
            refusal = refusal_for(error)
            if refusal.status >= 500:
                LOGGER.error("stream", extra=error_fields(error))
            yield Event("error", {"status": refusal.status, "detail": refusal.detail})
            return
        (result,) = results
        final = {document.id: to_json(document) for document in result}
        yield Event(
            "answer",
            {
                "order": list(final),
                "changed": [document for id, document in final.items() if document != sent_documents.get(id)],
                "degraded": list(result.degraded),
                "warnings": list(result.warnings),
                "took_ms": result.took_ms,
                "plan": result["plan"],
                "answerability": result["answerability"],
            },
        )
