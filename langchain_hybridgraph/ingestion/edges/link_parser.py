"""Parser for links and their possible targets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# Suffixes by which a link may differ from the name of the document that it points to.
_SUFFIXES = (".md", ".rst", ".html", ".markdown", ".htm", ".txt")
_INDEXES = ("index.md", "README.md", "index.rst", "index.html", "readme.md", "README.rst")
_NO_DOCUMENTS = frozenset({"mailto", "javascript", "data", "tel", "sms", "irc", "about", "blob"})

_WORDS = re.compile(r"[^\W_]+")

PATH, NAME, WIKI, ROLE, INCLUDE = "path", "name", "wiki", "role", "include"


class Link(NamedTuple):
    """Link as written in the text.

    ``kind`` is ``path`` (the target is relative to the document), ``include`` (relative to the document's folder or a
    folder above it), ``wiki`` (a title), ``role`` (the target of a reStructuredText role) or ``name`` (an id, a URL, a
    path or a title from metadata).
    """

    kind: str
    target: str
    label: str = ""


def split_fragment(target: str) -> tuple[str, str]:
    """Return the target without its fragment and query, and the fragment, both decoded.

    >>> split_fragment("my%20notes.md?plain=1#first-steps")
    ('my notes.md', 'first-steps')
    """
    path, _, fragment = target.partition("#")
    return unquote(path.partition("?")[0]), unquote(fragment)


def folded_anchor(anchor: str) -> str:
    """Normalise an anchor for comparison, because renderers treat letters and hyphens differently.

    >>> folded_anchor("Cats_&-Dogs"), folded_anchor("cats--dogs")
    ('cats-dogs', 'cats-dogs')
    """
    return "-".join(_WORDS.findall(anchor.casefold().replace("_", "-")))


def is_external(target: str) -> bool:
    """Return whether a target is a web URL. A link to a web URL matches only a document with exactly this URL."""
    return urlsplit_scheme(target) in {"http", "https", "ftp"}


def urlsplit_scheme(target: str) -> str:
    """Return the scheme of a URL in lower case, or "" for a path."""
    try:
        scheme = urlsplit(target).scheme
    except ValueError:  # such as "http://[", which is not a URL
        return ""
    return scheme if len(scheme) > 1 else ""


def candidates(path: str, base: str) -> list[str]:
    """Return possible names of the document that a link ``path`` in the document ``base`` points to, the best first.

    >>> candidates("../install", "docs/guide/use.md")[:3]
    ['docs/install', 'docs/install.md', 'docs/install.rst']
    >>> candidates("/faq.html", "https://example.org/docs/a")[0]
    'https://example.org/faq.html'
    """
    scheme = urlsplit_scheme(path)
    if scheme in _NO_DOCUMENTS:
        return []
    whole = [path] if scheme else _join_path(path, base)
    names = [variant for name in whole for variant in _variants(name)]
    return list(dict.fromkeys(names))


def _join_path(path: str, base: str) -> list[str]:
    root, slashes, rest = base.partition("://")
    if slashes:
        host, _, rest_of_path = rest.partition("/")
        root = f"{root}://{host}/"
    else:
        root, rest_of_path = "", base
    if path.startswith("/"):
        return [root + posixpath.normpath(path).lstrip("/"), *([] if root else [posixpath.normpath(path)])]
    joined_path = posixpath.normpath(posixpath.join(posixpath.dirname(rest_of_path), path)) if path else rest_of_path
    return [root + joined_path]


def _variants(name: str) -> Iterator[str]:
    name = name.rstrip("/") or name
    yield name
    stem, suffix = posixpath.splitext(name)
    if suffix.lower() in _SUFFIXES:
        # A link may use the name under which a page is published.
        yield from (stem + other for other in _SUFFIXES if other != suffix)
        yield stem
        return
    yield from (name + suffix for suffix in _SUFFIXES)
    yield from (f"{name}/{index}" for index in _INDEXES)
