"""URIs of directories and documents."""

import re

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def directory_of(uri: str) -> str:
    """Return the URI of the directory that contains a URI, or "" at the top.

    For a section of a web page, the result is the URI of the page.

    >>> directory_of("python://asyncio/Queue"), directory_of("python://asyncio"), directory_of("docs/a.md")
    ('python://asyncio', '', 'docs')
    >>> directory_of("https://docs.org/use#install")
    'https://docs.org/use'
    """
    match = _SCHEME.match(uri)
    scheme = match[0] if match else ""
    path = uri[len(scheme) :]
    if scheme.lower() in ("http://", "https://") and "#" in path:
        parent = path.partition("#")[0].rstrip("/")
    else:
        parent = path.rpartition("/")[0].rstrip("/")
    return f"{scheme}{parent}" if parent else ""


def plain_uri(uri: str) -> str:
    """Return the URI without trailing slashes and without an empty section.

    >>> plain_uri("docs/api/"), plain_uri("python://"), plain_uri("https://docs.org/use/#")
    ('docs/api', 'python://', 'https://docs.org/use')
    """
    match = _SCHEME.match(uri)
    scheme = match[0] if match else ""
    path = uri[len(scheme) :]
    if scheme:
        path = path.removesuffix("#")
    return scheme + (path.rstrip("/") or path[:1])
