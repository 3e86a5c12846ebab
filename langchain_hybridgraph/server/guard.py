"""Tokens, limits and logs of HTTP requests."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import Depends, HTTPException, Request
from fastapi.responses import Response
from starlette.routing import Match

from langchain_hybridgraph.server.access import CLIENT_CLOSED, Access, Limits, Refusal, Right, Tokens, invalid, problem
from langchain_hybridgraph.server.service import LOGGER, error_fields, refusal_for

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp, Message, Receive, Send
    from starlette.types import Scope as ASGIScope

PUBLIC = frozenset({"/", "/healthz", "/readyz", "/openapi.json"})
"""Paths that need no token."""

_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def encode(data: Any) -> bytes:
    r"""Return JSON in which ``<``, ``>`` and ``&`` are escaped, so that no browser interprets a text as HTML.

    >>> encode({"text": "<b>"})
    b'{"text":"\\u003cb\\u003e"}'
    """
    try:
        text = orjson.dumps(data)
    except TypeError:  # a lone surrogate, or an integer beyond 64 bits
        text = json.dumps(data).encode()
    for character, escaped in _ESCAPED:
        text = text.replace(character, escaped)
    return text


class Json(Response):
    """Response with JSON that is safe in HTML."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the content as JSON."""
        return encode(content)


class Guard:
    """ASGI middleware that checks tokens and limits, and logs and counts each request."""

    def __init__(self, app: ASGIApp, tokens: Tokens, limits: Limits, registry: CollectorRegistry | None = None) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.app, self._tokens, self._limits = app, tokens, limits
        registry = registry or CollectorRegistry()
        self._count = Counter(
            "hybridgraph_http_requests_total", "HTTP requests.", ["method", "route", "status"], registry=registry
        )
        self._duration = Histogram(
            "hybridgraph_http_request_duration_seconds", "Duration of HTTP requests.", ["route"], registry=registry
        )

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, request_id = time.perf_counter(), 0, uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        error: BaseException | None = None

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode()), *own]
            await send(message)

        try:
            async with asyncio.timeout(2 * self._limits.deadline):
                await self._answer(scope, receive, send_counted)
        except Exception as raised:  # noqa: BLE001 - the service keeps running; the error is logged
            error = raised
            if not status:
                refusal = refusal_for(raised)
                await Json({"detail": refusal.detail}, refusal.status, refusal.headers)(scope, receive, send_counted)
        finally:
            status = status or CLIENT_CLOSED
            route = _route(scope)
            duration = time.perf_counter() - started
            self._count.labels(scope["method"], route, status).inc()
            self._duration.labels(route).observe(duration)
            self._log(scope, route, status, duration, error)

    async def _answer(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if scope["path"].removeprefix(scope.get("root_path", "")) not in PUBLIC:
            authorization = headers.get(b"authorization", b"").decode("latin-1")
            scope["state"]["access"] = self._tokens.admit(authorization)
        await self.app(scope, self._limited(headers, receive), send)

    def _limited(self, headers: Mapping[bytes, bytes], receive: Receive) -> Receive:
        """Return ``receive`` with an error for a body that is too large."""
        most, size = self._limits.body, 0
        too_large = 413, f"the body must have at most {most:,} bytes"
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > most:
            raise Refusal(*too_large)

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(*too_large)  # the framework passes on only its own exceptions
            return message

        return limited

    def _log(self, scope: ASGIScope, route: str, status: int, duration: float, error: BaseException | None) -> None:
        access: Access | None = scope["state"].get("access")
        fields: dict[str, Any] = {
            "request_id": scope["state"]["request_id"],
            "method": scope["method"],
            "route": route,
            "status": status,
            "took_ms": round(1e3 * duration, 3),
            "token": None if access is None else access.name,
            "tenant": None if access is None else access.tenant,
        }
        if status >= 500 and error is not None:
            fields |= error_fields(error)
        LOGGER.log(logging.ERROR if status >= 500 else logging.INFO, "request %s", json.dumps(fields), extra=fields)


def _route(scope: ASGIScope) -> str:
    """Return the path of the route, also of a request that was refused before it reached the router."""
    routes = [scope["route"]] if "route" in scope else scope["app"].routes
    return next((each.path for each in routes if each.matches(scope)[0] is not Match.NONE), "other")


def needs(right: Right) -> Callable[[Request], Coroutine[Any, Any, Access]]:
    """Return a dependency that refuses requests whose token does not have a right."""

    async def check(request: Request) -> Access:  # a plain function would run in a thread
        access: Access = request.state.access
        access.check(right)
        accepted = {each.alias for each in request.scope["route"].dependant.query_params}
        for name in request.query_params.keys() - accepted:
            raise invalid("not a parameter of the request; options belong in its body", name)
        return access

    return check


CanRead = Annotated[Access, Depends(needs("read"))]
CanWrite = Annotated[Access, Depends(needs("write"))]
CanManage = Annotated[Access, Depends(needs("admin"))]


async def answer_invalid(request: Request, error: Any) -> Response:
    """Return the response to a request that is not valid for its endpoint."""
    problems = []
    for each in error.errors():
        _, *path = each["loc"]  # the first part is "body", "query" or "path"
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "json_invalid":
            path, message = [], f"the body is not JSON ({each['ctx']['error']} at character {each['loc'][1]})"
        elif not path:
            message = "the body must be a JSON object, sent with Content-Type: application/json"
        problems.append(problem(message, *path))
    return Json({"detail": problems}, 422)


async def answer_http_error(request: Request, error: Any) -> Response:
    """Return the response for an error of the framework, such as an unknown path."""
    if error.status_code == 400:  # a body that is not UTF-8, or is nested too deeply
        return Json({"detail": [problem(str(error.detail))]}, 422)
    return Json({"detail": error.detail}, error.status_code, error.headers)
