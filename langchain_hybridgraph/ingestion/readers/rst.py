"""Conversion of reStructuredText to the Markdown that is indexed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_hybridgraph.ingestion.markdown import Anchor, outline
from langchain_hybridgraph.ingestion.sphinx_anchors import (
    is_object,
    is_reference,
    object_anchors,
    object_name,
    term_anchor,
)

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*\s*$")
_DIRECTIVE = re.compile(r"(?P<indent>\s*)\.\. +(?:\|[^|]+\| +)?(?P<name>[\w:.+-]+)::(?:\s+(?P<argument>.*))?$")
_EXPLICIT = re.compile(r"\s*\.\.(?:\s|$)")
_OPTION = re.compile(r"\s+:[\w-]+:(?:\s|$)")
_TITLED_ROLE = re.compile(r":doc:`([^`<>]{0,500}?)\s*<([^`<>]+)>`")
_PLAIN_DOC = re.compile(r":doc:`~?([^`<>]+)`")
_ROLE = re.compile(r":(?P<role>(?:[a-z]+:)?[a-z-]+):`(?P<inside>[~!]?(?P<label>[^`<>]{0,500}?)(?:\s*<[^`<>]+>)?)`")
_TARGET = re.compile(r"\s*\.\. +_(?P<name>`[^`]{1,300}`|[^:`]{1,300}):\s*$")
_CLASSIFIER = re.compile(r"\s+:\s.*")
_LINK = re.compile(r"`([^`<>]{0,500}?)\s*<([^`<>\s]+)>`__?")
_LITERAL = re.compile(r"(?<!`)``(?=\S)(.{1,1000}?)``(?!`)")
_NO_INDEX = re.compile(r":no-?index:")
_ENTRY = re.compile(r"(?:(?P<label>.{0,500}?)\s*<(?P<titled>[^<>]+)>|(?P<plain>\S+))\s*$")


def _directives(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since",
}
_CODE = _directives("code code-block sourcecode parsed-literal doctest testcode ipython productionlist")
_DROPPED = _directives(
    "image figure contents highlight index raw meta tabularcolumns sectionauthor "
    "moduleauthor default-role role testsetup testcleanup testoutput only graphviz math csv-table replace unicode"
)


class RstText(NamedTuple):
    """Text of a document, its title (which may be empty), and its anchors, which are not part of the text."""

    text: str
    title: str
    anchors: tuple[Anchor, ...] = ()


class _Anchors(tuple[str, ...]):
    """Names of the anchors that belong to the next line of converted text."""

    __slots__ = ()


class _Block(NamedTuple):
    """Directive with its argument and the indented lines below it."""

    name: str
    argument: str
    body: list[str]


@dataclass
class _Context:
    """State of a conversion: the heading level of each adornment, and the module and program to which the described
    objects belong.
    """

    levels: dict[str, int] = field(default_factory=dict)
    module: str = ""
    program: str = ""


def from_rst(source: str) -> RstText:
    """Convert reStructuredText to Markdown. Titles become headings; their levels follow the order in which the
    adornments first appear. Code becomes fenced blocks.

    Links to documents (``:doc:``, entries of a toctree) and embedded URLs become Markdown links. Roles that refer to
    labels and objects become MyST roles; other roles are replaced by their text. Descriptions of objects (``..
    confval::``, ``.. py:function::``) and the terms of a glossary become headings. Included files are not read; their
    names become snippet lines (``--8<-- "FILE"``). The argument and content of other directives are kept. Comments,
    images and options are left out. The title is the visible text of the first heading.

    The anchors are the names to which roles can refer: the document's targets, and the names of its objects and terms.
    They are not part of the text, so they are neither indexed nor shown.

    >>> from_rst(".. _guide:\\n\\nGuide\\n=====\\n\\nSee :doc:`install` or run::\\n\\n   make\\n")
    ... # doctest: +NORMALIZE_WHITESPACE
    RstText(text='# Guide\\n\\nSee [install](install.rst) or run:\\n\\n```\\nmake\\n```', title='Guide',
            anchors=(Anchor(start=0, name='guide', explicit=True),))
    """
    lines: list[str] = []
    anchors: list[Anchor] = []
    names: list[str] = []
    end = 0
    for line in _converted(source.expandtabs().splitlines(), _Context(), ()):
        if isinstance(line, _Anchors):
            names += line
        elif line or (lines and lines[-1]):
            anchors += [Anchor(end, name, explicit=True) for name in names if line]
            names = [] if line else names
            lines.append(line if lines else line.lstrip())
            end += len(lines[-1]) + 1
    text = "\n".join(lines).rstrip()
    return RstText(text, outline(text).title or "", tuple(anchors))


def _converted(lines: Sequence[str], context: _Context, inside: tuple[str, ...]) -> Iterator[str | _Anchors]:
    """Yield the lines as Markdown. ``inside`` lists the names of the objects whose descriptions contain the lines."""
    levels = context.levels
    at, level = 0, max(levels.values(), default=0)
    while at < len(lines):
        line = lines[at].rstrip()
        heading = _heading(lines, at)
        if heading is not None:
            title, style, used = heading
            level = levels.setdefault(style, len(levels) + 1)
            yield from ("", f"{'#' * min(level, 6)} {_inline(title)}", "")
            at += used
            continue
        target = _TARGET.match(line)
        if target:
            yield _Anchors([target["name"].strip("`")])
            at += 1
            continue
        directive = _DIRECTIVE.match(line)
        if directive or _EXPLICIT.match(line):
            body, at = _indented(lines, at + 1, _indent(line))
            if directive:
                block = _Block(directive["name"], directive["argument"] or "", body)
                yield from _directive(block, context, level, inside)
            continue
        if line.endswith("::"):
            yield _inline(line[:-1] if line.strip() != "::" else "")
            body, at = _indented(lines, at + 1, _indent(line))
            yield from _fenced(body)
            continue
        yield _inline(line)
        at += 1


def _heading(lines: Sequence[str], at: int) -> tuple[str, str, int] | None:
    """Return (title, style, number of lines) of the title starting at line ``at``, or None if no title starts there."""
    line = lines[at].rstrip()
    after = lines[at + 1].rstrip() if at + 1 < len(lines) else ""
    overline = _adornment(line)
    if (
        overline
        and at + 2 < len(lines)
        and after.strip()
        and lines[at + 2].rstrip() == line
        and len(line) >= len(after.strip())
    ):
        return after.strip(), overline * 2, 3
    underline = _adornment(after)
    blank_above = at == 0 or not lines[at - 1].strip()
    if (
        underline
        and line
        and not line[0].isspace()
        and not overline
        and blank_above
        and len(after) >= len(line.strip())
    ):
        return line, underline, 2
    return None


def _adornment(line: str) -> str:
    return line[0] if len(line) >= 2 and _ADORNMENT.match(line) else ""


def _indented(lines: Sequence[str], at: int, indent: int) -> tuple[list[str], int]:
    """Return (block, index of the line after it). The block begins at line ``at`` and ends before the first line that
    is neither blank nor indented deeper than ``indent``. Its common indent is removed.
    """
    start = at
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > indent):
        at += 1
    block = lines[start:at]
    depth = min((_indent(line) for line in block if line.strip()), default=0)
    return [line[depth:].rstrip() for line in block], at


def _directive(block: _Block, context: _Context, level: int, inside: tuple[str, ...]) -> Iterator[str | _Anchors]:
    domain, _, name = block.name.removesuffix(":option").rpartition(":")
    body = list(block.body)
    signatures = [block.argument]
    if is_object(block.name) and block.argument:
        while body and body[0] and not _OPTION.match(f" {body[0]}"):
            signatures.append(body.pop(0).strip())
    indexed = True
    while body and _OPTION.match(f" {body[0]}"):
        indexed = _NO_INDEX.match(body.pop(0).strip()) is None and indexed
    if name in ("module", "automodule", "currentmodule"):
        context.module = "" if block.argument == "None" else block.argument
    yield ""
    if name in _CODE:
        yield from _fenced(body)
    elif name == "program":
        context.program = block.argument
    elif name == "glossary":
        yield from _glossary(body, context, level, inside)
    elif name == "toctree":
        yield from (f"- {_entry(line.strip())}" for line in body if line.strip())
    elif name in ("include", "literalinclude"):
        yield f'--8<-- "{block.argument}"'
    elif block.argument and is_object(block.name):
        parent = inside[-1] if inside else ""
        anchor_lists = (
            object_anchors(block.name, signature, inside=parent, module=context.module, program=context.program)
            for signature in (signatures if indexed else ())
        )
        yield _Anchors(dict.fromkeys(anchor for anchors in anchor_lists for anchor in anchors))
        text = ", ".join(f"`{signature.replace('`', '')}`" for signature in signatures)
        yield from (_object_heading(text, level + len(inside)), "")
        yield from _converted(body, context, (*inside, object_name(block.name, block.argument, parent)))
    elif name != "currentmodule" and (domain or name not in _DROPPED):
        if block.argument:
            label = _VERSIONS.get(name)
            yield _inline(f"{label} {block.argument}" if label else block.argument)
        yield ""
        yield from _converted(body, context, inside)
    yield ""


def _object_heading(text: str, above: int) -> str:
    return f"{'#' * min(above + 1, 6)} {text}"


def _glossary(lines: Sequence[str], context: _Context, level: int, inside: tuple[str, ...]) -> Iterator[str | _Anchors]:
    """Yield each term, or each group of terms with one definition, as a heading followed by the definition."""
    terms: list[str] = []
    at = 0
    while at < len(lines):
        if lines[at] and not lines[at][0].isspace() and not _EXPLICIT.match(lines[at]):
            terms.append(_CLASSIFIER.sub("", lines[at].strip()))
            at += 1
            continue
        body, at = _indented(lines, at + 1 if _EXPLICIT.match(lines[at]) else at, 0)
        if terms:
            yield _Anchors(map(term_anchor, terms))
            yield from ("", _object_heading(_inline(", ".join(terms)), level + len(inside)), "")
            terms = []
        yield from _converted(body, context, inside)


def _entry(entry: str) -> str:
    match = _ENTRY.match(entry)
    if not match:
        return entry
    target = match["titled"] or match["plain"]
    return f"[{match['label'] or target}]({_document(target)})" if "://" not in target else match["label"] or target


def _fenced(body: Sequence[str]) -> Iterator[str]:
    text = "\n".join(body).strip("\n")
    if text:
        yield from ("", "```", text, "```", "")


def _inline(text: str) -> str:
    if "`" not in text:
        return text
    parts = _LITERAL.split(text)
    parts[::2] = map(_references, parts[::2])
    parts[1::2] = (f"`` {literal} ``" if "`" in literal else f"`{literal}`" for literal in parts[1::2])
    return "".join(parts)


def _references(text: str) -> str:
    text = _TITLED_ROLE.sub(lambda match: f"[{match[1]}]({_document(match[2])})", text)
    text = _PLAIN_DOC.sub(lambda match: f"[{match[1]}]({_document(match[1])})", text)
    text = _ROLE.sub(_reference, text)
    return _LINK.sub(lambda match: f"[{match[1] or match[2]}]({match[2]})", text)


def _reference(match: re.Match[str]) -> str:
    refers = is_reference(match["role"]) and not match["inside"].startswith("!")
    return f"{{{match['role']}}}`{match['inside']}`" if refers else match["label"]


def _document(target: str) -> str:
    return target if target.endswith((".rst", ".html", ".md")) else f"{target}.rst"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
