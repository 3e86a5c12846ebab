"""Conversion of reStructuredText to the Markdown that is indexed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from langchain_hybridgraph.ingestion.markdown import outline

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*$")
_DIRECTIVE = re.compile(r"\.\. +(?:\|[^|]+\| +)?(?P<name>[\w:.+-]+)::(?:\s+(?P<argument>.*))?$")
_EXPLICIT = re.compile(r"\.\.(?:\s|$)")
_OPTION = re.compile(r"\s+:[\w-]+:(?:\s|$)")
_DOC = re.compile(r":doc:`(?:(?P<label>[^`<>]{0,500}?)\s*<(?P<target>[^`<>]+)>|~?(?P<plain>[^`<>]+))`")
_ROLE = re.compile(r":[a-z:+-]{1,40}:`(?P<sign>[~!]?)(?P<text>[^`<>]{1,500}?)(?:\s*<[^`<>]{1,500}>)?`")
_LINK = re.compile(r"`([^`<>]{0,500}?)\s*<([^`<>\s]+)>`__?")
_LITERAL = re.compile(r"(?<!`)``(?=\S)(.{1,1000}?)``(?!`)")
_ENTRY = re.compile(r"\s*(?:(?P<label>[^<>]{1,500}?)\s*<(?P<target>[^<>]+)>|(?P<plain>[^\s:]\S*))\s*$")
_LABELS = {
    "versionadded": "Added in version ",
    "versionchanged": "Changed in version ",
    "deprecated": "Deprecated since ",
}


def _directives(names: str) -> frozenset[str]:
    return frozenset(names.split())


_CODE = _directives("code code-block sourcecode parsed-literal doctest testcode ipython productionlist")
_DROPPED = _directives(
    "image figure contents highlight index raw meta tabularcolumns sectionauthor moduleauthor default-role role "
    "testsetup testcleanup testoutput graphviz math csv-table replace unicode module automodule currentmodule "
    "program"
)
_WITHOUT_PROSE = _CODE | _DROPPED | {"toctree", "include", "literalinclude"}
# Directives without a domain that describe an object, such as ``.. function:: run(x)``.
_OBJECTS = _directives("attribute class confval data describe envvar exception function method object option")


class RstText(NamedTuple):
    """Text of a document, and its title, which may be empty."""

    text: str
    title: str


def from_rst(source: str) -> RstText:
    """Convert reStructuredText to Markdown.

    Titles become headings; their levels follow the order in which the adornments first appear. Code becomes fenced
    blocks. Links to documents (``:doc:``, entries of a toctree) and embedded URLs become Markdown links; other roles
    are replaced by their text. Descriptions of objects (``.. py:function::``) become headings. Included files are not
    read; their names become snippet lines (``--8<-- "FILE"``). The argument and content of most other directives are
    kept. Comments, images and options are left out. The title is the visible text of the first heading.

    >>> from_rst("Guide\\n=====\\n\\nSee :doc:`install` or run::\\n\\n   make\\n")
    RstText(text='# Guide\\n\\nSee [install](install.rst) or run:\\n\\n```\\nmake\\n```', title='Guide')
    """
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(_converted(source.expandtabs().splitlines()))).strip()
    return RstText(text, outline(text).title or "")


def _converted(lines: Sequence[str]) -> Iterator[str]:
    levels: dict[str, int] = {}
    level, at = 0, 0
    depths = [0]  # indents of the bodies of directives that contain the line
    while at < len(lines):
        line = lines[at].rstrip()
        while line and _indent(line) < depths[-1]:
            depths.pop()
        line = line[depths[-1] :]
        if (heading := _heading(lines, at)) is not None:
            title, style, used = heading
            level = levels.setdefault(style, len(levels) + 1)
            yield from ("", f"{'#' * min(level, 6)} {_inline(title)}", "")
            at += used
        elif directive := _DIRECTIVE.match(line):
            domain, _, name = directive["name"].rpartition(":")
            argument = directive["argument"] or ""
            at += 1
            while at < len(lines) and _OPTION.match(lines[at]):
                at += 1
            body, end = _indented(lines, at, depths[-1])
            if name in _WITHOUT_PROSE:
                yield from _without_prose(name, argument, body)
                at = end
            else:
                is_object = argument and (domain or name in _OBJECTS)
                signature = f"{'#' * min(level + len(depths), 6)} `{argument.replace('`', '')}`"
                yield from ("", signature if is_object else _inline(_LABELS.get(name, "") + argument), "")
                if any(body):
                    depths.append(min(_indent(lines[place]) for place in range(at, end) if lines[place].strip()))
        elif _EXPLICIT.match(line):
            _, at = _indented(lines, at + 1, depths[-1])
        elif line.endswith("::"):
            yield _inline(line[:-1] if line.strip() != "::" else "")
            body, at = _indented(lines, at + 1, depths[-1] + _indent(line))
            yield from _fenced(body)
        else:
            yield _inline(line)
            at += 1


def _without_prose(name: str, argument: str, body: Sequence[str]) -> Iterator[str]:
    if name in _CODE:
        yield from _fenced(body)
    elif name == "toctree":
        entries = filter(None, map(_ENTRY.match, body))
        yield from (f"- [{each['label'] or each['plain']}]({_document(each)})" for each in entries)
    elif name in ("include", "literalinclude"):
        yield f'--8<-- "{argument}"'


def _heading(lines: Sequence[str], at: int) -> tuple[str, str, int] | None:
    """Return (title, style, number of lines) of the title starting at line ``at``, or None if no title starts there."""
    line = lines[at].rstrip()
    after, third = (lines[place].rstrip() if place < len(lines) else "" for place in (at + 1, at + 2))
    is_adornment, underline = _ADORNMENT.match(line), _ADORNMENT.match(after)
    if is_adornment and after.strip() and third == line and len(line) >= len(after.strip()):
        return after.strip(), line[0] * 2, 3
    starts_block = at == 0 or not lines[at - 1].strip()
    if underline and line and not line[0].isspace() and not is_adornment and starts_block and len(after) >= len(line):
        return line, after[0], 2
    return None


def _indented(lines: Sequence[str], at: int, indent: int) -> tuple[list[str], int]:
    """Return (block, index of the line after it).

    The block begins at line ``at`` and ends before the first line that is neither blank nor indented deeper than
    ``indent``. Its common indent is removed.
    """
    start = at
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > indent):
        at += 1
    block = lines[start:at]
    depth = min((_indent(line) for line in block if line.strip()), default=0)
    return [line[depth:].rstrip() for line in block], at


def _fenced(body: Sequence[str]) -> Iterator[str]:
    if text := "\n".join(body).strip("\n"):
        yield from ("", "```", text, "```", "")


def _inline(text: str) -> str:
    if "`" not in text:
        return text
    parts = _LITERAL.split(text)
    parts[::2] = map(_references, parts[::2])
    parts[1::2] = (f"`` {literal} ``" if "`" in literal else f"`{literal}`" for literal in parts[1::2])
    return "".join(parts)


def _references(text: str) -> str:
    text = _DOC.sub(lambda match: f"[{match['label'] or match['target'] or match['plain']}]({_document(match)})", text)
    # Sphinx shows only the last part of a name after "~".
    text = _ROLE.sub(lambda match: match["text"].rpartition(".")[2] if match["sign"] == "~" else match["text"], text)
    return _LINK.sub(lambda match: f"[{match[1] or match[2]}]({match[2]})", text)


def _document(link: re.Match[str]) -> str:
    target = link["target"] or link["plain"]
    return target if target.endswith((".rst", ".html", ".md")) or "://" in target else f"{target}.rst"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
