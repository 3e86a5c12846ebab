"""Reader of Jupyter notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError, join_blocks

_MAX_OUTPUT = 2_000
"""Maximum number of characters kept of each output of a cell. Longer outputs are mostly data."""


def read(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield one part with the text, code and printed output of all cells."""
    book = json.loads(path.read_bytes())
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        raise UnreadableError("it is not in notebook format 4; open it in Jupyter and save it")
    metadata = book.get("metadata", {})
    language = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language", "")
    text = join_blocks(block for cell in cells for block in _blocks(cell, language))
    if not text:
        raise UnreadableError("no cell contains text")
    yield FilePart(text, {"language": language} if language and isinstance(language, str) else {})


def _blocks(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    source = _text(cell.get("source"))
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip():
        yield f"```{language}\n{source}\n```"
    for output in cell.get("outputs", ()):
        output_text = _text(output.get("text") or output.get("data", {}).get("text/plain"))
        if output_text.strip():
            yield f"```text\n{output_text[:_MAX_OUTPUT].rstrip()}\n```"


def _text(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(map(str, lines or ()))
