"""Kinds of files that have a reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

INSTALL = 'pip install "langchain-hybridgraph[documents]"'


class FilePart(NamedTuple):
    """Part of a file: a page, a slide, some rows of a sheet, a definition in source code, or the complete file.

    ``text`` is Markdown or source code. ``metadata`` describes the part, mostly by its location, such as ``page``,
    ``sheet`` or ``section_heading``. A part with a ``number`` is a separate document, such as a message in a mailbox.
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


_CODE = (  # source code and logs, which are text but not Markdown
    "py pyi js jsx mjs cjs ts tsx mts cts go java kt kts scala cs swift dart php rs c h cc cpp cxx hh hpp rb lua sh "
    "bash zsh sql log"
)
KINDS: Mapping[str, FileKind] = {
    ".pdf": FileKind("pdf", "pypdf"),
    ".docx": FileKind("word", "docx"),
    ".pptx": FileKind("slides", "pptx"),
    ".xlsx": FileKind("sheets", "openpyxl"),
    ".epub": FileKind("books"),
    ".ipynb": FileKind("notebooks"),
    ".eml": FileKind("mail"),
    ".mbox": FileKind("mail"),
    ".csv": FileKind("sheets"),
    ".tsv": FileKind("sheets"),
    **{f".{name}": FileKind("code") for name in _CODE.split()},
}
"""Kinds of files by suffix."""

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)


def decode(raw: bytes, *, is_html: bool = False) -> str:
    """Decode the bytes of a text file. Without a byte order mark, the encodings tried are UTF-8, then the one that an
    HTML file declares, or otherwise cp1252 if most bytes are ASCII. Raise UnreadableError if the bytes cannot be
    decoded.

    >>> decode("naïve".encode("utf-16")), decode("a naïve idea".encode("cp1252"))
    ('naïve', 'a naïve idea')
    """
    for mark, encoding in _BOMS:
        if raw.startswith(mark):
            return _decode_as(raw, encoding)
    if _CONTROLS.search(raw, 0, 1 << 16) is None:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            declared = _CHARSET.search(raw, 0, 4_096) if is_html else None
            if declared:
                return _decode_as(raw, declared[1].decode("ascii"))
            if sum(byte < 0x80 for byte in raw[: 1 << 16]) >= 0.7 * len(raw[: 1 << 16]):
                return raw.decode("cp1252", "replace")
    raise UnreadableError("this is not text; convert it to UTF-8 text, Markdown, HTML or JSON Lines first")


def _decode_as(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise UnreadableError(
            f"it declares the encoding {encoding}, but cannot be decoded with it ({error}); save it as UTF-8"
        ) from error


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
