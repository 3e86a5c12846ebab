"""Turns reStructuredText into the Markdown that is indexed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*$")
_DIRECTIVE = re.compile(r"(?P<indent>\s*)\.\. +(?:\|[^|]+\| +)?(?P<name>[\w:.+-]+)::(?:\s+(?P<argument>.*))?$")
_EXPLICIT = re.compile(r"\s*\.\.(?:\s|$)")
_OPTION = re.compile(r"\s+:[\w-]+:(?:\s|$)")
_TITLED_ROLE = re.compile(r":doc:`([^`<>]{0,500}?)\s*<([^`<>]+)>`")
_PLAIN_DOC = re.compile(r":doc:`~?([^`<>]+)`")
_ROLE = re.compile(r":(?:[a-z]+:)?[a-z]+:`[~!]?([^`<>]{0,500}?)(?:\s*<[^`<>]+>)?`")
_LINK = re.compile(r"`([^`<>]{0,500}?)\s*<([^`<>\s]+)>`__?")
_LITERAL = re.compile(r"``([^`\n]+)``")
_ENTRY = re.compile(r"(?:(?P<label>.{0,500}?)\s*<(?P<titled>[^<>]+)>|(?P<plain>\S+))\s*$")


def _directives(names: str) -> frozenset[str]:
    return frozenset(names.split())


_CODE = _directives("code code-block sourcecode parsed-literal doctest testcode ipython productionlist")
_DROPPED = _directives(
    "image figure include literalinclude contents highlight currentmodule index raw meta tabularcolumns sectionauthor "
    "moduleauthor default-role role testsetup testcleanup testoutput only graphviz math csv-table replace unicode"
)


class Text(NamedTuple):
    """A document's text and its title, empty when it has none."""

    text: str
    title: str


class _Block(NamedTuple):
    """A directive, or what stands indented after ``::``."""

    name: str
    argument: str
    body: list[str]


def from_rst(source: str) -> Text:
    """The text as Markdown: titles become headings by the order of their adornments, code becomes fences.

    Links to documents (``:doc:``, entries of a toctree) and embedded URLs become Markdown links, other roles
    their text, directives their argument and content; comments, targets, images and options are left out. The
    title is the first heading.

    >>> from_rst("Guide\\n=====\\n\\nSee :doc:`install` or run::\\n\\n   # now\\n   make\\n")
    Text(text='# Guide\\n\\nSee [install](install.rst) or run:\\n\\n```\\n# now\\nmake\\n```', title='Guide')
    """
    levels: dict[str, int] = {}
    lines = list(_converted(source.expandtabs().splitlines(), levels))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    first = next((line for line in lines if line.startswith("# ")), "")
    return Text(text, first[2:])


def _converted(lines: Sequence[str], levels: dict[str, int]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        heading = _heading(lines, at)
        if heading is not None:
            title, style, used = heading
            yield from ("", f"{'#' * min(levels.setdefault(style, len(levels) + 1), 6)} {_inline(title)}", "")
            at += used
            continue
        directive = _DIRECTIVE.match(line)
        if directive or _EXPLICIT.match(line):
            body, at = _indented(lines, at + 1, _indent(line))
            if directive:
                name = directive["name"].rpartition(":")[2]
                yield from _directive(_Block(name, directive["argument"] or "", body), levels)
            continue
        if line.endswith("::"):
            yield _inline(line[:-1] if line.strip() != "::" else "")
            body, at = _indented(lines, at + 1, _indent(line))
            yield from _fenced(body)
            continue
        yield _inline(line)
        at += 1


def _heading(lines: Sequence[str], at: int) -> tuple[str, str, int] | None:
    """The title that starts at this line, its style and how many lines it takes."""
    line = lines[at].rstrip()
    after = lines[at + 1].rstrip() if at + 1 < len(lines) else ""
    over = _adornment(line)
    if (
        over
        and at + 2 < len(lines)
        and after.strip()
        and lines[at + 2].rstrip() == line
        and len(line) >= len(after.strip())
    ):
        return after.strip(), over * 2, 3
    under = _adornment(after)
    blank_above = at == 0 or not lines[at - 1].strip()
    if under and line and not line[0].isspace() and not over and blank_above and len(after) >= len(line.strip()):
        return line, under, 2
    return None


def _adornment(line: str) -> str:
    return line[0] if len(line) >= 2 and _ADORNMENT.match(line) else ""


def _indented(lines: Sequence[str], at: int, indent: int) -> tuple[list[str], int]:
    """The block that is indented deeper than ``indent``, without its indent, and where it ends."""
    start = at
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > indent):
        at += 1
    block = lines[start:at]
    depth = min((_indent(line) for line in block if line.strip()), default=0)
    return [line[depth:].rstrip() for line in block], at


def _directive(block: _Block, levels: dict[str, int]) -> Iterator[str]:
    body = list(block.body)
    while body and _OPTION.match(f" {body[0]}"):
        body.pop(0)
    yield ""
    if block.name in _CODE:
        yield from _fenced(body)
    elif block.name == "toctree":
        yield from (f"- {_entry(line.strip())}" for line in body if line.strip())
    elif block.name not in _DROPPED:
        if block.argument:
            yield _inline(block.argument)
        yield ""
        yield from _converted(body, levels)
    yield ""


def _entry(entry: str) -> str:
    found = _ENTRY.match(entry)
    if not found:
        return entry
    target = found["titled"] or found["plain"]
    return f"[{found['label'] or target}]({_document(target)})" if "://" not in target else found["label"] or target


def _fenced(body: Sequence[str]) -> Iterator[str]:
    text = "\n".join(body).strip("\n")
    if text:
        yield from ("", "```", text, "```", "")


def _inline(text: str) -> str:
    if "`" not in text:
        return text
    text = _TITLED_ROLE.sub(lambda found: f"[{found[1]}]({_document(found[2])})", text)
    text = _PLAIN_DOC.sub(lambda found: f"[{found[1]}]({_document(found[1])})", text)
    text = _ROLE.sub(r"\1", text)
    text = _LINK.sub(lambda found: f"[{found[1] or found[2]}]({found[2]})", text)
    return _LITERAL.sub(r"`\1`", text)


def _document(target: str) -> str:
    return target if target.endswith((".rst", ".html", ".md")) else f"{target}.rst"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
