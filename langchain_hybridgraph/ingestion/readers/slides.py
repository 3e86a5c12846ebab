"""Reader of PowerPoint presentations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError, flat, join_blocks, table


def read(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the slides that contain text, including tables and notes. In the metadata, ``page`` is the slide's number,
    counted from 1, and ``section_heading`` is its title, if there is one.
    """
    import pptx

    presentation = pptx.Presentation(str(path))
    title = flat(presentation.core_properties.title or "")
    is_empty = True
    for number, slide in enumerate(presentation.slides, start=1):
        title_shape = slide.shapes.title
        heading = flat(title_shape.text_frame.text) if title_shape is not None and title_shape.has_text_frame else ""
        blocks = [f"## {heading}"] if heading else []
        blocks += _blocks(
            shape for shape in slide.shapes if title_shape is None or shape.shape_id != title_shape.shape_id
        )
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            blocks.append(slide.notes_slide.notes_text_frame.text)
        text = join_blocks(iter(blocks))
        if text:
            is_empty = False
            yield FilePart(text, {"page": number} | ({"section_heading": heading} if heading else {}), title)
    if is_empty:
        raise UnreadableError("no slide contains text; pictures are not read")


def _blocks(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if getattr(shape, "has_table", False):
            yield table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_text_frame", False):
            yield shape.text_frame.text
        elif hasattr(shape, "shapes"):
            yield from _blocks(shape.shapes)
