"""Reader of PDF files, page by page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError, flat


def read(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the pages that contain text. In the metadata, ``page`` is the page number, counted from 1, and
    ``section_heading`` is the page's heading in the bookmarks, if there is one.
    """
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("it is encrypted; save a copy without a password")
        headings = _headings(reader)
        title = flat(str((reader.metadata and reader.metadata.title) or ""))
        without_text = []
        for number, page in enumerate(reader.pages, start=1):
            text = page.extract_text()
            if text.strip():
                heading = headings.get(number)
                yield FilePart(text, {"page": number} | ({"section_heading": heading} if heading else {}), title)
            else:
                without_text.append(number)
    except DependencyError as error:
        raise UnreadableError('it is encrypted with AES; pip install "pypdf[crypto]" to read it') from error
    except PyPdfError as error:
        raise UnreadableError(f"it is damaged ({error})") from error
    if len(without_text) == len(reader.pages):
        raise UnreadableError(
            "no page contains text; if the pages were scanned, add a text layer, for example with ocrmypdf"
        )
    if without_text:
        note(f"{'page' if len(without_text) == 1 else 'pages'} {_ranges(without_text)} without text")


def _headings(reader: Any) -> Mapping[int, str]:
    """Return the heading of each page, by page number. The headings are taken from the bookmarks.

    A page's heading is the path of its first bookmark: the titles of the bookmarks above it and its own title, joined
    with " › ". A page without a bookmark has the same heading as the page before it. Pages before the first bookmark
    have the heading "".
    """
    starts: dict[int, str] = {}
    _collect(reader, reader.outline, (), starts)
    headings: dict[int, str] = {}
    heading = ""
    for number in range(1, len(reader.pages) + 1):
        heading = starts.get(number, heading)
        headings[number] = heading
    return headings


def _collect(reader: Any, bookmarks: list[Any], above: tuple[str, ...], starts: dict[int, str]) -> None:
    path = above
    for bookmark in bookmarks:
        if isinstance(bookmark, list):
            _collect(reader, bookmark, path, starts)
            continue
        path = (*above, flat(str(bookmark.title or "")))
        page = reader.get_destination_page_number(bookmark)
        if page is not None and page >= 0:
            starts.setdefault(page + 1, " › ".join(filter(None, path)))


def _ranges(numbers: list[int]) -> str:
    """Format ascending numbers as ranges.

    >>> _ranges([1, 2, 3, 7])
    '1–3, 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
