"""Search page of the service."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import HTMLResponse


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
