"""The Markdown parser, with the extensions of documentation tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token as Token  # noqa: PLC0414 - markdown.py has it from here

# Every repetition is bounded, so that no text makes a search quadratic.
_CONTAINER = re.compile(r"(?:!!!|\?\?\?\+?|===[!+]?(?=[ \t]+[\"']))[ \t]+\S")
_WIKI = re.compile(r"\[\[([^\[\]|\n]{1,300})(?:\|([^\[\]\n]{0,300}))?\]\]")
_ROLE = re.compile(r"[:{](?P<role>(?:[a-z]{1,20}:)?[a-z-]{1,20})[:}]`(?P<inside>[^`]{1,1000})`")
_REST = re.compile(r"`(?P<label>[^`<>]{0,500})<(?P<target>[^`<>\s]{1,2000})>`_")
_ROLE_TARGET = re.compile(r"(?P<label>.*)<(?P<target>[^<>]+)>\Z", re.DOTALL)
_LONGEST_LABEL = 120
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


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """Return a CommonMark parser with tables, MkDocs containers, reStructuredText roles and wiki links."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import autolink, html_inline, link

    class Parser(MarkdownIt):
        """Parser that does not change the targets of links."""

        def normalizeLink(self, url: str) -> str:
            return url

        def validateLink(self, url: str) -> bool:
            return True

    commonmark = Parser("commonmark").enable("table")
    ends = ["paragraph", "reference", "blockquote", "list"]
    commonmark.block.ruler.before("fence", "container", _container, {"alt": ends})
    for name, rule in {"link": link, "autolink": autolink, "html_inline": html_inline}.items():
        commonmark.inline.ruler.at(name, _recording_position(rule))
    commonmark.inline.ruler.before("backticks", "role", _role)
    commonmark.inline.ruler.before("link", "wiki", _wiki)
    return commonmark


def label_of(text: str) -> str:
    """Return the text of a link as one line, shortened if it is long."""
    return " ".join(text.split())[:_LONGEST_LABEL]


def _recording_position(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Wrap a parser rule so that the tokens of links and HTML tags also contain their position."""

    def record_position(state: StateInline, silent: bool) -> bool:
        start, before = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        if not silent:
            token = next(token for token in state.tokens[before:] if token.type in ("link_open", "html_inline"))
            token.meta["at"] = start
        return True

    return record_position


def _container(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Parse a MkDocs admonition or tab, whose indented content is Markdown, not code."""
    if state.is_code_block(first):
        return False
    if not _CONTAINER.match(state.src, state.bMarks[first] + state.tShift[first], state.eMarks[first]):
        return False
    if silent:
        return True
    indent, last = state.sCount[first] + 4, first + 1
    while last < end and (state.isEmpty(last) or state.sCount[last] >= indent):
        last += 1
    before = state.lineMax, state.blkIndent, state.parentType
    state.lineMax, state.blkIndent, state.parentType = last, indent, "container"
    state.push("container_open", "div", 1).map = [first, last]
    state.md.block.tokenize(state, first + 1, last)
    state.push("container_close", "div", -1)
    state.lineMax, state.blkIndent, state.parentType = before
    state.line = last
    return True


def _wiki(state: StateInline, silent: bool) -> bool:
    match = _WIKI.match(state.src, state.pos, state.posMax) if state.src.startswith("[[", state.pos) else None
    if match and not silent:
        _push(state, Link(WIKI, match[1].strip(), label_of(match[2] or "")))
    return _advance(state, match)


def _role(state: StateInline, silent: bool) -> bool:
    character = state.src[state.pos]
    if character == "`":
        match = _REST.match(state.src, state.pos, state.posMax)
        if match and not silent:
            _push(state, Link(PATH, match["target"], label_of(match["label"])))
        return _advance(state, match)
    match = _ROLE.match(state.src, state.pos, state.posMax) if character in ":{" else None
    if match and not silent:
        inside = _ROLE_TARGET.match(match["inside"])
        target = (inside["target"] if inside else match["inside"]).strip()
        label = label_of(inside["label"]) if inside else ""
        if match["role"] == "doc":
            _push(state, Link(PATH, target, label))
        else:  # Sphinx shows only the last part of a name after "~"
            name = target.rpartition(".")[2] if target.startswith("~") else target.removeprefix("!")
            state.push("code_inline", "code", 0).content = label or name
    return _advance(state, match)


def _push(state: StateInline, link: Link) -> None:
    """Add a link token. Its visible text is the link's label or, without one, its target."""
    state.push("link", "", 0).meta = {"at": state.pos, "link": link, "text": link.label or link.target}


def _advance(state: StateInline, match: re.Match[str] | None) -> bool:
    if match is None:
        return False
    state.pos = match.end()
    return True


# -- targets of links ------------------------------------------------------------------------------------------


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
