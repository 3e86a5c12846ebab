"""Reader of Word documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError, flat, join_blocks, table

_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)


def read(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield each table, and the text between tables, as separate parts in Markdown. In the metadata, ``table`` is the
    number of a table, and ``section_heading`` is the heading above the part, if there is one.
    """
    import docx

    document = docx.Document(str(path))
    title = flat(document.core_properties.title or "")
    blocks: list[str] = []
    heading, tables = "", 0
    part_heading = ""  # heading above the start of the current part
    for item in document.iter_inner_content():
        if hasattr(item, "rows"):
            text = table([_cells(row) for row in item.rows])
            if not text:
                continue
            yield from _text(blocks, title, part_heading)
            tables += 1
            yield FilePart(text, {"table": tables} | _heading_metadata(heading), title)
            blocks, part_heading = [], heading
            continue
        block, level = _paragraph(item)
        if level:
            heading = flat(item.text)
        blocks.append(block)
    yield from _text(blocks, title, part_heading)
    if not tables and not any(block.strip() for block in blocks):
        raise UnreadableError("it has no text")


def _text(blocks: list[str], title: str, heading: str) -> Iterator[FilePart]:
    text = join_blocks(iter(blocks))
    if text:
        yield FilePart(text, _heading_metadata(heading), title)


def _heading_metadata(heading: str) -> dict[str, Any]:
    return {"section_heading": heading} if heading else {}


def _paragraph(paragraph: Any) -> tuple[str, int]:
    """Return a paragraph as Markdown, and its heading level (0 if it is not a heading)."""
    style = (paragraph.style.name or "") if paragraph.style is not None else ""
    text = paragraph.text.strip()
    match = _HEADING.fullmatch(style)
    level = int(match[1]) if match else 1 if style == "Title" else 0
    if level and text:
        return f"{'#' * level} {flat(text)}", level
    return (f"- {text}" if text and style.startswith("List") else text), 0


def _cells(row: Any) -> list[str]:
    """Return the texts of the cells in a row. A cell that spans several columns is included only once."""
    cells: list[Any] = []
    for cell in row.cells:
        if not cells or cell._tc is not cells[-1]._tc:
            cells.append(cell)
    return [cell.text for cell in cells]
