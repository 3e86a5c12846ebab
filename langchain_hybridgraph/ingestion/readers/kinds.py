"""Kinds of files that have a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

INSTALL = 'pip install "langchain-hybridgraph[documents]"'


class FilePart(NamedTuple):
    """Part of a file: a page, a slide, some rows of a sheet, or the complete file.

    ``text`` is Markdown. ``metadata`` describes the part, mostly by its location, such as ``page``, ``sheet`` or
    ``section_heading``. A part with a ``number`` is a separate document, such as a message in a mailbox.
    """

    text: str
    metadata: Mapping[str, Any]
    title: str = ""
    number: int | None = None


class UnreadableError(Exception):
    """Error for a file that cannot be read. The message contains the reason."""


class FileKind(NamedTuple):
    """Kind of file: the ``module`` that reads it, and the ``library`` that this module needs ("" if none)."""

    module: str
    library: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the library that the reader needs is installed."""
        return not self.library or find_spec(self.library) is not None


KINDS: Mapping[str, FileKind] = {
    ".pdf": FileKind("pdf", "pypdf"),
    ".docx": FileKind("word", "docx"),
    ".pptx": FileKind("slides", "pptx"),
    ".xlsx": FileKind("sheets", "openpyxl"),
    ".epub": FileKind("books"),
    ".ipynb": FileKind("notebooks"),
    ".eml": FileKind("mail"),
    ".mbox": FileKind("mail"),
}
"""Kinds of files by suffix."""


def table(rows: list[list[str]]) -> str:
    """Return rows as a Markdown table with the first row as its header, or "" if no row has text.

    >>> print(table([["a", "b"], ["1", "2|3"]]))
    | a | b |
    | --- | --- |
    | 1 | 2\\|3 |
    """
    full = [row for row in rows if any(cell.strip() for cell in row)]
    if not full:
        return ""
    width = max(map(len, full))
    lines = [_line([*row, *[""] * (width - len(row))]) for row in full]
    return "\n".join([lines[0], _line(["---"] * width), *lines[1:]])


def flat(text: str) -> str:
    """Return the text as one line, with every run of white space replaced by a space.

    >>> flat(" a\\n b ")
    'a b'
    """
    return " ".join(text.split())


def join_blocks(blocks: Iterator[str]) -> str:
    """Join blocks of Markdown with blank lines, leaving out empty blocks."""
    return "\n\n".join(block for block in blocks if block.strip())


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(flat(cell).replace("|", "\\|") for cell in cells) + " |"
