"""Links, and functions that parse their targets."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_WORDS = re.compile(r"[^\W_]+")

PATH, NAME, WIKI, INCLUDE = "path", "name", "wiki", "include"


class Link(NamedTuple):
    """Link as written in a text. Only a link of kind ``name`` comes from the metadata.

    ``kind`` determines the meaning of ``target``: ``path`` (a path relative to the document), ``include`` (a path
    relative to the document's folder or a folder above it), ``wiki`` (a title) or ``name`` (an id, a
    URL, a path or a title).
    """

    kind: str
    target: str
    label: str = ""


def split_fragment(target: str) -> tuple[str, str]:
    """Split the target of a link into its path and its fragment. Both are decoded, and the query is dropped.

    >>> split_fragment("my%20notes.md?plain=1#first-steps")
    ('my notes.md', 'first-steps')
    """
    path, _, fragment = target.partition("#")
    return unquote(path.partition("?")[0]), unquote(fragment)


def folded_anchor(anchor: str) -> str:
    """Normalise an anchor for comparison: renderers use different case, hyphens and punctuation for the same heading.

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
