"""Finds the headings and code fences of Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

# One pass finds every line that can matter: headings, fences, underlines of headings.
_MARKS = re.compile(
    r"^ {0,3}(?:(?P<hashes>#{1,6})(?:[ \t]+(?P<heading>[^\n]*))?"
    r"|(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)"
    r"|(?P<under>={3,}|-{3,}))[ \t\r]*$",
    re.MULTILINE,
)
_NOT_A_TITLE = re.compile(r"\s*(?:[>|#*+-]|\d+[.)]\s|```|~~~|={3,}|$)")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_CLOSING = re.compile(r"(?<![ \t])[ \t]+#+\s*$")
_ATTRIBUTES = re.compile(r"\{(?=[#.:])(?:#(?P<id>[\w.:-]+))?[.:\w\s=\"'-]*\}$")
_LONGEST_HEADING = 1_000
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


class Section(NamedTuple):
    """A heading with the text below it, up to the next heading: characters [start, end) of the text.

    ``path`` names the headings from the outermost to this one, without the document's title.
    ``anchor`` is None when no link can mean this section alone: no heading, or one that occurs twice.
    """

    start: int
    end: int
    path: tuple[str, ...] = ()
    anchor: str | None = None


class Outline(NamedTuple):
    """The sections, which cover the text without a gap, its title and its code fences as (start, end)."""

    sections: tuple[Section, ...]
    title: str | None = None
    fences: tuple[tuple[int, int], ...] = ()


class _Heading(NamedTuple):
    start: int
    body: int
    level: int
    text: str
    anchor: str


def outline(text: str, *, headings: bool = True) -> Outline:
    """The sections of a Markdown text; with ``headings=False`` one section that is the whole text.

    The title is the first heading when that is of level 1. ``#`` inside a code fence is no heading. A heading
    without text of its own goes with the section that follows.

    >>> found = outline("# Guide\\n## Install\\nRun it.\\n```\\n# no heading\\n```\\n## Use\\nEasy.")
    >>> found.title, [section.path for section in found.sections]
    ('Guide', [('Install',), ('Use',)])
    """
    found, fences = _scan(text)
    if not headings or not found:
        return Outline((Section(0, len(text)),), None, fences)
    title = found[0].text if found[0].level == 1 and found[0].text else None
    return Outline(tuple(_sections(text, found, title)), title, fences)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and most renderers of Markdown make it.

    >>> slug("What's new in 3.12?")
    'whats-new-in-312'
    """
    return _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")


def _scan(text: str) -> tuple[list[_Heading], tuple[tuple[int, int], ...]]:
    headings: list[_Heading] = []
    fences: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for mark in _MARKS.finditer(text):
        if opened is not None:
            if _closes(mark, opened):
                fences.append((opened.start(), mark.end()))
                opened = None
        elif mark["fence"]:
            opened = mark
        elif mark["hashes"]:
            headings.append(_heading(mark.start(), mark.end(), len(mark["hashes"]), mark["heading"] or ""))
        elif (title := _underlined(text, mark.start())) is not None:
            level = 1 if mark["under"][0] == "=" else 2
            headings.append(_heading(title, mark.end(), level, text[title : mark.start()]))
    if opened is not None:
        fences.append((opened.start(), len(text)))
    return headings, tuple(fences)


def _closes(mark: re.Match[str], opened: re.Match[str]) -> bool:
    return bool(mark["fence"]) and mark["fence"].startswith(opened["fence"]) and not mark["info"].strip()


def _underlined(text: str, underline: int) -> int | None:
    """Where the one-line paragraph above this underline starts, None when there is none."""
    start = text.rfind("\n", 0, max(underline - 1, 0)) + 1
    above = text[text.rfind("\n", 0, max(start - 1, 0)) + 1 : start]
    if underline == 0 or above.strip() or _NOT_A_TITLE.match(text, start, underline):
        return None
    return start


def _heading(start: int, body: int, level: int, written: str) -> _Heading:
    """The heading without its markup; its anchor is the one that it names (``## Use {#use}``), else its slug."""
    written = written.strip()[:_LONGEST_HEADING]
    attributes = _ATTRIBUTES.search(written)
    text = _CLOSING.sub("", written[: attributes.start()] if attributes else written)
    text = _LINK.sub(r"\1", text).replace("`", "").replace("**", "").strip()
    return _Heading(start, body, level, text, attributes["id"] if attributes and attributes["id"] else slug(text))


def _sections(text: str, headings: list[_Heading], title: str | None) -> Iterator[Section]:
    times = Counter(heading.anchor for heading in headings)
    start, path = 0, list[_Heading]()
    if text[: headings[0].start].strip():
        yield Section(0, headings[0].start)
        start = headings[0].start
    ends = [heading.start for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        path = [above for above in path if above.level < heading.level] + [heading]
        if end < len(text) and not text[heading.body : end].strip():
            continue
        named = path[1:] if path[0].text == title else path
        anchor = heading.anchor if times[heading.anchor] == 1 else None
        yield Section(start, end, tuple(above.text for above in named if above.text), anchor)
        start = end
