"""Names: the ids of graph-only nodes (entities, titles of documents), and where a uri stands."""

import re

ENTITY = "entity:"
TITLE = "title:"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def directory_of(uri: str) -> str:
    """The uri of what contains this one, empty for the top: a directory's, or the page's for a section of a web page.

    >>> directory_of("python://asyncio/Queue"), directory_of("python://asyncio"), directory_of("docs/a.md")
    ('python://asyncio', '', 'docs')
    >>> directory_of("https://docs.org/use#install")
    'https://docs.org/use'
    """
    found = _SCHEME.match(uri)
    scheme = found[0] if found else ""
    path = uri[len(scheme) :]
    if scheme.lower() in ("http://", "https://") and "#" in path:
        above = path.partition("#")[0].rstrip("/")
    else:
        above = path.rpartition("/")[0].rstrip("/")
    return f"{scheme}{above}" if above else ""


def plain_uri(uri: str) -> str:
    """The uri without slashes (and an empty section) at its end.

    >>> plain_uri("docs/api/"), plain_uri("python://"), plain_uri("https://docs.org/use/#")
    ('docs/api', 'python://', 'https://docs.org/use')
    """
    found = _SCHEME.match(uri)
    scheme = found[0] if found else ""
    path = uri[len(scheme) :]
    if scheme:
        path = path.removesuffix("#")
    return scheme + (path.rstrip("/") or path[:1])
