"""Endpoints and ASGI application of the service."""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Annotated, Any, Literal

from langchain_core.documents import Document
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from langchain_hybridgraph.errors import needs_extra, quote_value

with needs_extra("create_app", "FastAPI", "server"):
    from fastapi import APIRouter, Body, Depends, FastAPI, Query, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, Response, StreamingResponse
    from fastapi.security import HTTPBearer
    from starlette.exceptions import HTTPException

from langchain_hybridgraph.adapters.documents import to_document
from langchain_hybridgraph.chunks import ParsedMetadata, to_json
from langchain_hybridgraph.display import explain_result
from langchain_hybridgraph.ingestion import ingest
from langchain_hybridgraph.records import SESSION, Scope, check_name, memory_id
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.search.conversation import SKIPPED_ROLES, SPEAKERS
from langchain_hybridgraph.server import guard
from langchain_hybridgraph.server.access import CLIENT_CLOSED, Access, Limits, Refusal, Token, invalid
from langchain_hybridgraph.server.guard import CanManage, CanRead, CanWrite, Json, encode
from langchain_hybridgraph.server.service import Opener, Service
from langchain_hybridgraph.settings import HybridGraphSettings
from langchain_hybridgraph.stores.store import LONGEST_TTL
from langchain_hybridgraph.times import parse_time
from langchain_hybridgraph.vectorstores.document_store import DocumentStore

ROLES = [*SPEAKERS, *sorted(SKIPPED_ROLES)]

# -- bodies ---------------------------------------------------------------------------------------------------


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _example(**values: Any) -> dict[str, Any]:
    return {"examples": [values]}


def _storable(value: Any) -> Any:
    """Return the value. Raises ValueError for numbers and characters that a store would change without notice."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"numbers must be finite, and texts valid Unicode, to be stored: {error}") from None
    return value


def _check_id(id: str) -> str:
    check_name(id, "id")
    if id.startswith(SESSION):
        raise ValueError(f"{SESSION!r} begins the ids of turns: choose another id, or POST /sessions/{{id}}")
    return id


def _check_turn(turn: list[str]) -> list[str]:
    if turn[0].lower() not in ROLES:
        hint = f"{nearest(turn[0], ROLES)}expected one of {', '.join(ROLES)}"
        raise ValueError(f"the role {quote_value(turn[0])} is unknown; {hint}")
    if not turn[1].strip():
        raise ValueError("a turn without a text cannot be stored: leave out the turn")
    return turn


Text = Annotated[str, AfterValidator(_storable)]
Metadata = Annotated[dict[str, Any], AfterValidator(_storable)]


class DocumentBody(_Model):
    """Document, as in the answer to a search."""

    page_content: Text
    metadata: Metadata = Field(default_factory=dict)
    id: Annotated[str, Field(min_length=1), AfterValidator(_check_id)] | None = None
    type: Literal["Document"] = "Document"

    def document(self, **defaults: str) -> Document:
        """Return the Document, with ``defaults`` in its metadata; without an id, the store derives one."""
        return Document(self.page_content, metadata=defaults | self.metadata, id=self.id)


class SearchAnswer(BaseModel):
    """Result of a search; ``hits`` are the documents with their scores, paths and reasons, in the same order."""

    documents: list[DocumentBody]
    hits: list[dict[str, Any]]
    degraded: list[str]
    took_ms: float
    plan: dict[str, Any]
    answerability: dict[str, Any] | None


_REFUSALS = {
    400: "The request is not valid HTTP, or its Host header is not that of the service.",
    403: "The token does not allow the request, or the store is read-only.",
    404: "No item that is visible to the token has this id.",
    422: "The request is invalid; detail lists the path and the message of each problem.",
    501: "The store, such as Milvus, cannot do this.",
}
_STORE = (503, 504)
_BODY = (413, *_STORE)


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses with these statuses, by default described by the status's own phrase."""
    return {status: {"description": _REFUSALS.get(status, HTTPStatus(status).phrase)} for status in statuses}


_FACT = {"id": "home", "page_content": "Ada lives in Kent."}
_PARCEL = {"id": "parcels", "page_content": "A parcel takes two days.", "metadata": {"source": "faq.md"}}


def _check_known_keys(body: DocumentBody) -> DocumentBody:
    ParsedMetadata.check(body.metadata)
    return body


NewDocument = Annotated[DocumentBody, AfterValidator(_check_known_keys)]


class NewDocuments(_Model, json_schema_extra=_example(documents=[_PARCEL], split="flat")):
    """Documents to add or replace."""

    documents: list[NewDocument] = Field(min_length=1)
    split: Literal["flat", "parent_child"] | None = Field(
        None, description="Strategy for splitting the texts; null does not split them."
    )


class NewTurns(_Model, json_schema_extra=_example(turns=[["user", "Which car is red?"], ["assistant", "A roadster."]])):
    """Turns of a conversation, as pairs of a role and a text, oldest first."""

    turns: list[Annotated[list[Text], Field(min_length=2, max_length=2), AfterValidator(_check_turn)]]
    ttl: float | None = Field(None, gt=0, le=LONGEST_TTL, description="Seconds after which the turns expire.")
    metadata: Metadata = Field(default_factory=dict)


class NewMemories(_Model, json_schema_extra=_example(documents=[_FACT])):
    """Memories to add."""

    documents: list[NewDocument]
    contradictions: bool = True


class MemoryIds(_Model, json_schema_extra=_example(ids=["home"])):
    """Ids of memories."""

    ids: list[str]


class Feedback(MemoryIds, json_schema_extra=_example(ids=["home"], verb="validate")):
    """Feedback on memories."""

    verb: Literal["validate", "refute", "useful", "stale"]


class Successor(_Model, json_schema_extra=_example(old_id="home", document={"page_content": "Ada lives in Bath."})):
    """Fact that replaces the one with the id ``old_id``."""

    old_id: str
    document: DocumentBody
    at: Annotated[float | str | None, AfterValidator(lambda at: None if at is None else parse_time(at))] = None


# -- searches --------------------------------------------------------------------------------------------------

_EXAMPLES: dict[str, dict[str, Any]] = {
    "hybrid": {"query": "How long does a parcel take?", "k": 5},
    "graph": {"retriever": "graph", "query": "Who wrote it?", "filter": {"year": {"$gte": 2020}}},
    "memory": {"retriever": "memory", "query": "Where does Ada live?", "as_of": "2024-05-01"},
    "advanced": {
        "retriever": "advanced",
        "query": "and its price?",
        "conversation_history": ["User: Which car is red?", "Assistant: The roadster."],
    },
}


REFERENCE = "#/components/schemas/{model}"


def _search_schema(service: Service, *names: str) -> dict[str, Any]:
    """Return the OpenAPI description of a search with these retrievers, by default all."""
    schemas = []
    for name in names or service.models:
        model = service.models[name]
        schema = model.model_json_schema(ref_template=REFERENCE)
        schema.pop("$defs", None)  # create_app adds them to the components
        schema["properties"]["retriever"] = {"const": name}
        required = [] if name == "hybrid" or len(names) == 1 else ["retriever"]
        schemas.append(schema | {"required": required, "additionalProperties": False})
    examples = {name: {"value": _EXAMPLES[name]} for name in names or _EXAMPLES}
    content = {"application/json": {"schema": {"oneOf": schemas}, "examples": examples}}
    return {"requestBody": {"content": content}}


SearchBody = Annotated[dict[str, Any], Body()]


async def _search(service: Service, body: SearchBody, access: Access, request: Request) -> RetrievalResult[Document]:
    """Return the result of a search, which is cancelled if the client closes the connection."""
    searching = asyncio.create_task(service.search(access, service.read(access, body)))

    async def cancel_if_closed() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        searching.cancel()

    watching = asyncio.create_task(cancel_if_closed())
    try:
        return await searching
    except asyncio.CancelledError:
        if not watching.done():
            raise
        raise Refusal(CLIENT_CLOSED, "the client has closed the connection") from None
    finally:
        watching.cancel()


def add_searches(router: APIRouter, service: Service) -> None:
    """Add the endpoints that search."""

    of_search: dict[str, Any] = {"openapi_extra": _search_schema(service), "tags": ["search"]}

    @router.post("/search", **of_search, responses={200: {"model": SearchAnswer}, **refusals(*_BODY)})
    async def search(body: SearchBody, access: CanRead, request: Request) -> Response:
        """Return the best hits, with their scores and provenance."""
        return Json((await _search(service, body, access, request)).to_dict())

    @router.post("/explain", **of_search, responses=refusals(*_BODY))
    async def explain(body: SearchBody, access: CanRead, request: Request) -> Response:
        """Explain the result of a search in words."""
        result = await _search(service, body, access, request)
        hits = [{"id": hit.id, "explanation": hit.explain()} for hit in result.hits]
        return Json({"explanation": explain_result(result), "hits": hits})

    @router.post("/search/stream", **of_search, responses=refusals(*_BODY))
    async def stream(body: SearchBody, access: CanRead) -> Response:
        """Send each hit as soon as it is certain to be in the answer (server-sent events).

        The first event is ``started``. Each ``hit`` event contains a document. The last event is ``answer``, with the
        ids in their final ``order``, or ``error``.
        """
        request = service.read(access, body)

        async def lines() -> AsyncIterator[bytes]:
            async with aclosing(service.events(access, request)) as events:
                async for event in events:
                    yield b"event: %s\ndata: %s\n\n" % (event.name.encode(), encode(event.data))

        return StreamingResponse(lines(), media_type="text/event-stream")


# -- documents -------------------------------------------------------------------------------------------------


def _existing(value: Any, what: str) -> Any:
    """Return what a request reads or deletes. Raises Refusal if there is nothing."""
    if not value:
        raise Refusal(404, f"no {what} has this id")
    return value


def add_documents(router: APIRouter, service: Service) -> None:
    """Add the endpoints that add, read and delete documents."""

    def ids_of(store: Any, id: str) -> list[str]:
        """Return an id, and the ids of all chunks of the document with this id."""
        return list(dict.fromkeys([id, *sorted(store.document_chunks([id])[id])]))

    @router.post("/documents", tags=["documents"], responses=refusals(*_BODY))
    async def add(body: NewDocuments, access: CanWrite) -> Response:
        """Add documents, or replace those with the same ids, and connect them by edges."""
        documents = [each.document() for each in body.documents]
        for document in documents:
            document.id = document.id or memory_id(document.page_content, document.metadata)
        store = await asyncio.to_thread(service.store, access.tenant)
        report = await asyncio.to_thread(ingest, documents, store, split=body.split)
        return Json({"ids": [document.id for document in documents], "report": to_json(report)})

    @router.get("/documents/{id:path}", tags=["documents"], responses=refusals(404, *_STORE))
    async def get(id: str, access: CanRead) -> Response:
        """Return a chunk, or all chunks of a document."""

        def read() -> Any:
            store: Any = service.store(access.tenant)
            ids = ids_of(store, id)
            if access.filter is not None:
                visible = store.read(ids, Scope(access.filter, access.tenant), {})
                ids = [each for each in ids if each in visible]
            return store.get_by_ids(ids)

        documents = _existing(await asyncio.to_thread(read), "document")
        return Json({"documents": to_json(documents)})

    @router.delete("/documents/{id:path}", tags=["documents"], responses=refusals(404, *_STORE))
    async def delete(id: str, access: CanWrite) -> Response:
        """Delete a chunk, or all chunks of a document."""

        def remove() -> Any:
            store: Any = service.store(access.tenant)
            return store.remove(ids_of(store, id))

        return Json({"deleted": _existing(await asyncio.to_thread(remove), "document")})


# -- sessions and memories -------------------------------------------------------------------------------------


def add_memory(router: APIRouter, service: Service) -> None:
    """Add the endpoints for sessions and memories."""

    async def answer(access: Access, name: str, *arguments: Any, ids: Sequence[str] = (), **options: Any) -> Any:
        """Call a method of a store's memory or sessions, and return its result. All of the ``ids`` must exist."""
        part, verb = name.split(".")

        def call() -> Any:
            store: Any = service.store(access.tenant)
            method = getattr(getattr(store, part), verb, None)
            if method is None:
                raise Refusal(501, f"this store has no {name}; serve an index in a folder instead")
            if ids and len(store.get(ids)) < len({*ids}):
                raise Refusal(404, "not all of these ids exist")
            return method(*arguments, **options)

        return await asyncio.to_thread(call)

    @router.post("/sessions/{id:path}", tags=["sessions"], responses=refusals(501, *_BODY))
    async def add_turns(id: str, body: NewTurns, access: CanWrite) -> Response:
        """Add turns to a session."""
        turns = [(role, text) for role, text in body.turns]
        ids = await answer(access, "sessions.add", id, turns, ttl=body.ttl, metadata=body.metadata)
        return Json({"ids": ids})

    @router.get("/sessions/{id:path}", tags=["sessions"], responses=refusals(404, 501, *_STORE))
    async def get_turns(id: str, access: CanRead, n: Annotated[int, Query(ge=1, le=1_000)] = 100) -> Response:
        """Return the last turns of a session, oldest first."""
        turns = await answer(access, "sessions.turns", id, n, Scope(access.filter, access.tenant))
        return Json({"turns": [to_json(to_document(turn)) for turn in reversed(_existing(turns, "session"))]})

    @router.delete("/sessions/{id:path}", tags=["sessions"], responses=refusals(404, 501, *_STORE))
    async def delete_session(id: str, access: CanWrite) -> Response:
        """Delete all turns of a session."""
        return Json({"deleted": _existing(await answer(access, "sessions.delete", id), "session")})

    @router.post("/memory", tags=["memory"], responses=refusals(501, *_BODY))
    async def remember(body: NewMemories, access: CanWrite) -> Response:
        """Add memories, and report for each whether it was added, joined to another one or refused."""
        documents = [each.document(memory_type="semantic") for each in body.documents]
        admissions = await answer(access, "memory.remember", documents, contradictions=body.contradictions)
        return Json({"admissions": to_json(admissions)})

    of_recall: dict[str, Any] = {"openapi_extra": _search_schema(service, "memory"), "tags": ["memory"]}

    @router.post("/memory/recall", **of_recall, responses={200: {"model": SearchAnswer}, **refusals(*_BODY)})
    async def recall(body: SearchBody, access: CanRead, request: Request) -> Response:
        """Search with the retriever ``memory``, as ``/search`` does; documents that are not memories count less."""
        if body.setdefault("retriever", "memory") != "memory":
            message = "retriever must be 'memory' here, or left out; POST /search takes all retrievers"
            raise invalid(message, "retriever")
        return Json((await _search(service, body, access, request)).to_dict())

    @router.post("/memory/feedback", tags=["memory"], responses=refusals(404, 501, *_BODY))
    async def feedback(body: Feedback, access: CanWrite) -> Response:
        """Record feedback, which changes the confidence and the utility of memories."""
        return Json({"ids": await answer(access, "memory.feedback", body.ids, body.verb, ids=body.ids)})

    @router.post("/memory/supersede", tags=["memory"], responses=refusals(404, 501, *_BODY))
    async def supersede(body: Successor, access: CanWrite) -> Response:
        """Replace a fact; searches as of an earlier time still find the old one."""
        old_id, fact = body.old_id, body.document.document(memory_type="semantic")
        return Json({"id": await answer(access, "memory.supersede", old_id, fact, at=body.at, ids=[old_id])})

    @router.post("/memory/retract", tags=["memory"], responses=refusals(404, 501, *_BODY))
    async def retract(body: MemoryIds, access: CanWrite) -> Response:
        """Withdraw statements; only searches with an earlier ``known_at`` find them."""
        return Json({"retracted": await answer(access, "memory.retract", body.ids, ids=body.ids)})

    @router.post("/memory/expire", tags=["memory"], responses=refusals(501, *_STORE))
    async def expire(access: CanManage) -> Response:
        """Delete memories and turns that have expired."""
        return Json({"deleted": await answer(access, "memory.expire")})


# -- operations ------------------------------------------------------------------------------------------------


def add_health(router: APIRouter, service: Service) -> None:
    """Add the health and readiness endpoints."""

    @router.get("/healthz", tags=["operations"])
    async def health() -> Response:
        """Return 200 as long as the process is running."""
        return Json({"status": "ok"})

    @router.get("/readyz", tags=["operations"], responses=refusals(*_STORE))
    async def readiness() -> Response:
        """Return 200 if the store can be read, and otherwise 503."""
        with suppress(Exception):
            await asyncio.to_thread(service.check)
            return Json({"status": "ready"})
        raise Refusal(503, "the store cannot be read")


def add_metrics(router: APIRouter, service: Service) -> None:
    """Add the endpoint with metrics."""

    @router.get("/metrics", tags=["operations"])
    async def metrics(access: CanManage) -> Response:
        """Return the metrics for Prometheus."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return Response(generate_latest(service.registry), media_type=CONTENT_TYPE_LATEST)


# -- the application ------------------------------------------------------------------------------------------


def create_app(
    store: DocumentStore | HybridGraphSettings | Opener,
    *,
    tenant: str | None = None,
    settings: HybridGraphSettings | None = None,
    tokens: Sequence[Token] = (),
    limits: Limits | None = None,
    background: Sequence[Callable[[Service], AbstractAsyncContextManager[object]]] = (),
) -> FastAPI:
    """Return an ASGI application that serves a store.

    ``store`` is an open store, which the application does not close, the settings of one, or a function that opens the
    store of a tenant; ``tenant`` is then that of requests whose token has none. ``settings`` (by default
    those of the store, or those in the environment) configure the retrievers. Each function in ``background`` takes
    the service and returns an asynchronous context manager, which stays open while the application runs. Without
    ``tokens``, every request has all rights.

    >>> from langchain_hybridgraph import HybridGraphStore
    >>> app = create_app(HybridGraphStore.from_texts(["Cats purr."], "lsa"))
    >>> "/search/stream" in app.openapi()["paths"]
    True
    """
    service = Service(store, tenant=tenant, settings=settings, tokens=tokens, limits=limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.check)
        try:
            async with AsyncExitStack() as stack:
                for part in background:
                    await stack.enter_async_context(part(service))
                yield
        finally:
            await asyncio.to_thread(service.close)

    app = FastAPI(
        title="langchain-hybridgraph",
        description="Hybrid, graph and memory retrieval.",
        lifespan=lifespan,
        docs_url=None,  # these pages load their scripts from another host
        redoc_url=None,
        responses=refusals(400, 500),
    )
    app.state.service = service
    app.add_middleware(guard.Guard, tokens=service.tokens, limits=service.limits, registry=service.registry)
    app.add_exception_handler(RequestValidationError, guard.answer_invalid)
    app.add_exception_handler(HTTPException, guard.answer_http_error)
    add_health(app.router, service)
    add_page(app.router)
    # The following endpoints are described with a token, which the middleware checks.
    app.router.dependencies.append(Depends(HTTPBearer(auto_error=False)))
    app.router.responses |= refusals(401, 403, 422, 429)
    for add in (add_searches, add_documents, add_memory, add_metrics):
        add(app.router, service)
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        document = describe()
        for model in service.models.values():
            document["components"]["schemas"] |= model.model_json_schema(ref_template=REFERENCE).get("$defs", {})
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's way to extend the description
    return app


def add_page(router: APIRouter) -> None:
    """Add the search page as ``/``. It contains no data, so it needs no token; its searches do."""
    page = (files(__package__) / "page.html").read_text("utf-8")
    headers = {
        "Content-Security-Policy": security_policy(page),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }

    @router.get("/", include_in_schema=False)
    async def show() -> HTMLResponse:
        """Return the search page."""
        return HTMLResponse(page, headers=headers)


def security_policy(page: str) -> str:
    """Return a Content-Security-Policy that allows the page's own script and style, and requests to its own host.

    >>> security_policy("<style>b {}</style><script>run()</script>").split("; ")[1]
    "style-src 'sha256-zy87ZYlZV4kMyp51wB+3ABJeEclAGRFupKDmlDS9DAw='"
    """

    def digests(tag: str) -> str:
        contents = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return " ".join(f"'sha256-{b64encode(sha256(each.encode()).digest()).decode()}'" for each in contents)

    rules = {
        "default-src": "'none'",
        "style-src": digests("style"),
        "script-src": digests("script"),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())
