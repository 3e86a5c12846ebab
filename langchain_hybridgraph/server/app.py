"""ASGI application of the service."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import MissingExtraError

try:
    from fastapi import APIRouter, Depends, FastAPI
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse
    from fastapi.security import HTTPBearer
    from starlette.exceptions import HTTPException
except ModuleNotFoundError as missing:
    raise MissingExtraError(
        'create_app needs FastAPI, which is not installed: pip install "langchain-hybridgraph[server]"'
    ) from missing

from langchain_hybridgraph.server import routes
from langchain_hybridgraph.server.access import Limits, Token
from langchain_hybridgraph.server.guard import Guard, answer_http_error, answer_invalid
from langchain_hybridgraph.server.service import ServedStore, Service

if TYPE_CHECKING:
    from langchain_hybridgraph.settings import HybridGraphSettings
    from langchain_hybridgraph.vectorstores.document_store import DocumentStore


def create_app(
    store: DocumentStore | HybridGraphSettings | ServedStore,
    *,
    settings: HybridGraphSettings | None = None,
    tokens: Sequence[Token] = (),
    limits: Limits | None = None,
    background: Sequence[Callable[[Service], AbstractAsyncContextManager[object]]] = (),
) -> FastAPI:
    """Return an ASGI application that serves a store.

    ``store`` is an open store, which the application does not close, or the settings of one. ``settings`` (by default
    those of the store, or those in the environment) configure the retrievers. Each function in ``background`` takes
    the service and returns an asynchronous context manager, which stays open while the application runs. Without
    ``tokens``, every request has all rights.

    >>> from langchain_hybridgraph import HybridGraphStore
    >>> app = create_app(HybridGraphStore.from_texts(["Cats purr."], "lsa"))
    >>> "/search/stream" in app.openapi()["paths"]
    True
    """
    service = Service(store, settings=settings, tokens=tokens, limits=limits)

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
        responses=routes.refusals(400, 500),
    )
    app.state.service = service
    app.add_middleware(Guard, tokens=service.tokens, limits=service.limits, registry=service.registry)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_http_error)
    routes.add_health(app.router, service)
    add_page(app.router)
    # The following endpoints are described with a token, which the middleware checks.
    app.router.dependencies.append(Depends(HTTPBearer(auto_error=False)))
    app.router.responses |= routes.refusals(401, 403, 422, 429)
    for add in (routes.add_searches, routes.add_documents, routes.add_memory, routes.add_metrics):
        add(app.router, service)
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        document = describe()
        for model in service.models.values():
            document["components"]["schemas"] |= model.model_json_schema(ref_template=routes.REFERENCE).get("$defs", {})
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
