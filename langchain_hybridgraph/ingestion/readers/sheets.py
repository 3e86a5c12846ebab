"""Reader of Excel workbooks and CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers import limits
from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError, decode, flat, table

_PART_LENGTH = 1_500
"""Number of characters after which a part ends. A part has to fit into one chunk together with the header row."""
_COLUMNS = 200


def read(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the sheets in parts of several rows. Every part begins with the header row of its sheet, which is the first
    row that is not empty.

    In the metadata of a part, ``sheet`` is the name of the sheet and ``rows`` is the range of row numbers, such as
    "2–40". A cell with a formula is read as its last computed value. Only the first ``_COLUMNS`` columns are read.

    Every row of a CSV file is a part of its own, with one line per cell: the name of the column and the value. ``row``
    is its number, counted from 1 for the header.
    """
    if path.suffix.lower() != ".xlsx":
        yield from _read_csv(path)
        return
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    title = (book.properties.title or "").strip()
    is_empty = True
    for sheet in book.worksheets:
        for part in _parts(sheet, title):
            is_empty = False
            yield part
    if is_empty:
        raise UnreadableError("all cells are empty")


def _read_csv(path: Path) -> Iterator[FilePart]:
    text = decode(path.read_bytes())
    header_line = text.lstrip().partition("\n")[0]
    separators = "\t,;|" if path.suffix.lower() == ".tsv" else ",;\t|"
    csv.field_size_limit(limits.CHARACTERS)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(separators, key=header_line.count))
    head: list[str] | None = None
    is_empty = True
    for number, row in enumerate(rows, start=1):
        if not any(cell.strip() for cell in row):
            continue
        if head is None:
            head = [flat(name) for name in row]
            continue
        is_empty = False
        names = [*head, *[""] * (len(row) - len(head))][:_COLUMNS]
        cells = enumerate(zip(names, row, strict=False), start=1)
        text = "\n".join(f"{name or f'column {at}'}: {cell.strip()}" for at, (name, cell) in cells if cell.strip())
        yield FilePart(text, {"row": number})
    if is_empty:
        raise UnreadableError("it has no row below the header" if head else "all cells are empty")


def _parts(sheet: Any, title: str) -> Iterator[FilePart]:
    head: list[str] = []
    rows: list[list[str]] = []
    first = last = size = 0
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        row = ["" if value is None else str(value) for value in islice(values, _COLUMNS)]
        if not any(cell.strip() for cell in row):
            continue
        if not head:
            head, first = row, number
        else:
            rows.append(row)
            first = first if len(rows) > 1 else number
        last = number
        size += sum(map(len, row)) + 3 * len(row)
        if size > _PART_LENGTH and rows:
            yield _part(sheet, title, [head, *rows], (first, last))
            rows, size = [], sum(map(len, head))
    if rows or (head and last == first):
        yield _part(sheet, title, [head, *rows], (first, last))


def _part(sheet: Any, title: str, rows: list[list[str]], row_range: tuple[int, int]) -> FilePart:
    first, last = row_range
    metadata = {"sheet": sheet.title, "rows": f"{first}–{last}" if last > first else str(first)}
    return FilePart(f"## {sheet.title}\n\n{table(rows)}", metadata, title)
