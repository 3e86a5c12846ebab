"""URIs of directories and documents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.records.chunk_metadata import reference

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def directory_of(uri: str) -> str:
    """Return the URI of the directory that contains this URI, or "" if no directory contains it.

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


def chunk_uri(id: str, document: str, metadata: Mapping[str, Any]) -> str:
    """Return the URI under which a chunk is found in the directory tree.

    It is the first of these that exists:

    - ``uri`` in the metadata
    - ``url`` in the metadata
    - the id of the document, if it is a URI
    - ``source`` in the metadata, followed by the id of the document if the two differ
    - the id of the document, or the id of the chunk if the document's is empty

    >>> chunk_uri("c1", "doc", {"uri": "docs/a.md/"}), chunk_uri("c1", "a.md#2", {"source": "docs"})
    ('docs/a.md', 'docs/a.md#2')
    """
    for key in ("uri", "url"):
        uri = metadata.get(key)
        if isinstance(uri, str) and uri.strip():
            return plain_uri(reference(uri))
    document = document or id
    source = metadata.get("source")
    if "://" in document or not (isinstance(source, str) and source.strip()):
        return plain_uri(document)
    source = reference(source)
    return plain_uri(source if source == document else f"{source.rstrip('/')}/{document}")
