"""Finds the links in a text, and what they may mean."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# Every repetition is bounded, so that no text makes a search quadratic.
_INLINE = re.compile(
    r"(?<!!)\[(?P<label>[^\[\]]{0,500})\]\(\s{0,9}(?:<(?P<angled>[^<>\n]{1,2000})>"
    r"|(?P<target>(?:[^\s()<>]|\([^\s()]{0,500}\)){1,2000}))(?:\s{1,9}[\"'(][^\n]{0,500}?[\"')])?\s{0,9}\)"
)
_REFERENCE = re.compile(r"(?<!!)\[(?P<label>[^\[\]]{1,500})\](?:\[(?P<name>[^\[\]]{0,300})\])?(?![\[(:])")
_DEFINITION = re.compile(r"^ {0,3}\[([^\[\]\n^][^\[\]\n]{0,300})\]:[ \t]*<?([^\s<>]{1,2000})>?", re.MULTILINE)
_WIKI = re.compile(r"\[\[([^\[\]|\n]{1,300})(?:\|([^\[\]\n]{0,300}))?\]\]")
_ANCHOR_TAG = re.compile(r"<a\s(?:[^<>]{0,500}?\s)?href\s{0,9}=\s{0,9}[\"']?([^\"'\s<>]{1,2000})", re.IGNORECASE)
_REST = re.compile(r"`(?P<label>[^`<>]{0,500})<(?P<target>[^`<>\s]{1,2000})>`_")
_ROLE = re.compile(r":(?P<role>(?:[a-z]{1,20}:)?[a-z]{1,20}):`(?P<inside>[^`]{1,1000})`")
_ROLE_TARGET = re.compile(r"(?P<label>.*)<(?P<target>[^<>]+)>\Z", re.DOTALL)
_URL = re.compile(r"https?://[^\s<>\"'`\[\]{}|\\^]{1,2000}")
_INLINE_CODE = re.compile(r"``[^\n]{1,2000}?``|`[^`\n]{1,2000}`")
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}+|~{3,}+)(?P<info>[^\n]*)$", re.MULTILINE)

# What a link may say in place of the name that the document has here.
_SUFFIXES = (".md", ".rst", ".html", ".markdown", ".htm", ".txt")
_INDEXES = ("index.md", "README.md", "index.rst", "index.html", "readme.md", "README.rst")
_NO_DOCUMENTS = frozenset({"mailto", "javascript", "data", "tel", "sms", "irc", "about", "blob"})

PATH, NAME, WIKI, ROLE = "path", "name", "wiki", "role"


class Link(NamedTuple):
    """A link as it is written.

    ``kind`` is ``path`` (relative to its document), ``wiki`` (a title), ``role`` (what a reStructuredText
    role names) or ``name`` (from metadata: an id, a URL, a path or a title).
    """

    kind: str
    target: str
    label: str = ""


def find_links(text: str, definitions: Mapping[str, str] | None = None) -> Iterator[Link]:
    """The Markdown, HTML, wiki and reStructuredText links of a text; images and code have none.

    ``definitions`` are those of the whole document, by :func:`find_definitions`.

    >>> list(find_links("See [the guide](a.md#use), [[Ada Lovelace|Ada]] and `this <b.rst>`_."))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Link(kind='path', target='b.rst', label='this'), Link(kind='path', target='a.md#use', label='the guide'),
     Link(kind='wiki', target='Ada Lovelace', label='Ada')]
    """
    if "`" in text:
        yield from _rest_links(text)
        text = _INLINE_CODE.sub(" ", _without_fences(text))
    if "](" in text:
        for found in _INLINE.finditer(text):
            yield Link(PATH, html.unescape(found["angled"] or found["target"]), _label(found["label"]))
    if "[[" in text:
        for found in _WIKI.finditer(text):
            yield Link(WIKI, found[1].strip(), _label(found[2] or ""))
    if definitions:
        for found in _REFERENCE.finditer(text):
            target = definitions.get(_folded(found["name"] or found["label"]))
            if target is not None:
                yield Link(PATH, target, _label(found["label"]))
    if "<a" in text or "<A" in text:
        for found in _ANCHOR_TAG.finditer(text):
            yield Link(PATH, html.unescape(found[1]))
    if "://" in text:
        for found in _URL.finditer(text):
            yield Link(PATH, found[0].rstrip(".,;:!?)"))


def find_definitions(text: str) -> dict[str, str]:
    """The targets of Markdown's reference links, by folded name; the first definition of a name counts.

    >>> find_definitions("[The Guide]: docs/guide.md")
    {'the guide': 'docs/guide.md'}
    """
    if "]:" not in text:
        return {}
    return {_folded(name): target for name, target in reversed(_DEFINITION.findall(text))}


def split_fragment(target: str) -> tuple[str, str]:
    """The target without its fragment and query, and the fragment, both decoded.

    >>> split_fragment("my%20notes.md?plain=1#first-steps")
    ('my notes.md', 'first-steps')
    """
    path, _, fragment = target.partition("#")
    return unquote(path.partition("?")[0]), unquote(fragment)


def is_external(target: str) -> bool:
    """Whether a target is a URL on the web, which is only linked when a document has that very URL."""
    return urlsplit_scheme(target) in {"http", "https", "ftp"}


def urlsplit_scheme(target: str) -> str:
    """The scheme of a URL in lower case, empty for a path."""
    try:
        scheme = urlsplit(target).scheme
    except ValueError:  # such as "http://[": no URL
        return ""
    return scheme if len(scheme) > 1 else ""


def candidates(path: str, base: str) -> list[str]:
    """The names that a document may have which is linked as ``path`` from the document ``base``, best first.

    >>> candidates("../install", "docs/guide/use.md")[:3]
    ['docs/install', 'docs/install.md', 'docs/install.rst']
    >>> candidates("/faq.html", "https://example.org/docs/a")[0]
    'https://example.org/faq.html'
    """
    scheme = urlsplit_scheme(path)
    if scheme in _NO_DOCUMENTS:
        return []
    whole = [path] if scheme else _joined(path, base)
    names = [variant for name in whole for variant in _variants(name)]
    return list(dict.fromkeys(names))


def _joined(path: str, base: str) -> list[str]:
    root, slashes, rest = base.partition("://")
    if slashes:
        host, _, below = rest.partition("/")
        root = f"{root}://{host}/"
    else:
        root, below = "", base
    if path.startswith("/"):
        return [root + posixpath.normpath(path).lstrip("/"), *([] if root else [posixpath.normpath(path)])]
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(below), path)) if path else below
    return [root + joined]


def _variants(name: str) -> Iterator[str]:
    name = name.rstrip("/") or name
    yield name
    stem, suffix = posixpath.splitext(name)
    if suffix.lower() in _SUFFIXES:
        # A page is linked by the name under which it is published, too.
        yield from (stem + other for other in _SUFFIXES if other != suffix)
        yield stem
        return
    yield from (name + suffix for suffix in _SUFFIXES)
    yield from (f"{name}/{index}" for index in _INDEXES)


def _without_fences(text: str) -> str:
    """Return the text without the fenced code blocks that are closed in it."""
    lines = list(_FENCE.finditer(text))
    kept, after, place = list[str](), 0, 0
    unclosed: dict[str, int] = {}  # mark character → shortest mark for which no later line is a closing one
    while place < len(lines):
        mark = lines[place]["mark"]
        closing = None
        if len(mark) < unclosed.get(mark[0], len(mark) + 1):
            closing = next((n for n in range(place + 1, len(lines)) if _closes(lines[n], mark)), None)
        if closing is None:
            unclosed[mark[0]] = min(len(mark), unclosed.get(mark[0], len(mark)))
            place += 1
            continue
        kept.append(text[after : lines[place].start()])
        after, place = lines[closing].end(), closing + 1
    return " ".join([*kept, text[after:]])


def _closes(line: re.Match[str], mark: str) -> bool:
    return line["mark"].startswith(mark) and not line["info"].strip("`~").strip(" \t")


def _rest_links(text: str) -> Iterator[Link]:
    for found in _REST.finditer(text):
        yield Link(PATH, found["target"], _label(found["label"]))
    for found in _ROLE.finditer(text):
        inside = _ROLE_TARGET.match(found["inside"])
        target = (inside["target"] if inside else found["inside"]).strip()
        if target.startswith("!"):
            continue
        label = _label(inside["label"]) if inside else ""
        if found["role"] == "doc":
            yield Link(PATH, target, label)
        else:
            yield Link(ROLE, target.lstrip("~.").removesuffix("()"), label)


def _label(text: str) -> str:
    return " ".join(text.split())[:120]


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
