"""Readers of PDF, Office and CSV files."""

import csv
import io
import json
import logging
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from langchain_hybridgraph.chunks import LONGEST_TITLE
from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.ingestion import bounded
from langchain_hybridgraph.ingestion.bounded import FilePart, UnreadableError
from langchain_hybridgraph.ingestion.code import read_code

INSTALL = 'pip install "langchain-hybridgraph[documents]"'

Note = Callable[[str], None]
_WORD_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
_COLUMNS = 200
_COMPOUND = b"\xd0\xcf\x11\xe0"  # start of a file in an old Office format, or of an encrypted one


def read_pdf(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield the pages that contain text, with ``page`` (from 1) and the bookmark as ``section_heading``."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("it is encrypted; save a copy without a password")
        headings: dict[int, str] = {}
        _bookmarks(reader, reader.outline, (), headings)
        title = flat(str((reader.metadata and reader.metadata.title) or ""))
        heading, without_text = "", 0
        for number, page in enumerate(reader.pages, start=1):
            heading = headings.get(number, heading)
            text = page.extract_text()
            if text.strip():
                yield FilePart(text, {"page": number} | _heading(heading), title)
            else:
                without_text += 1
        if 0 < without_text < len(reader.pages):
            note(f"{without_text} of its {len(reader.pages)} pages, which have no text")
    except DependencyError as error:
        raise UnreadableError('it is encrypted with AES; pip install "pypdf[crypto]" to read it') from error
    except PyPdfError as error:
        raise UnreadableError(f"it is damaged ({error})") from error


def _bookmarks(reader: Any, bookmarks: list[Any], above: tuple[str, ...], headings: dict[int, str]) -> None:
    path = above
    for bookmark in bookmarks:
        if isinstance(bookmark, list):
            _bookmarks(reader, bookmark, path, headings)
            continue
        path = (*above, flat(str(bookmark.title or "")))
        page = reader.get_destination_page_number(bookmark)
        if page is not None and page >= 0:
            headings.setdefault(page + 1, " › ".join(filter(None, path)))


def read_word(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield each ``table`` (by number), and the text between tables, with the ``section_heading`` above it."""
    import docx

    document = docx.Document(str(path))
    title = flat(document.core_properties.title or "")
    blocks: list[str] = []
    heading, tables = "", 0
    part_heading = ""  # heading above the start of the current part
    for item in document.iter_inner_content():
        if not hasattr(item, "rows"):
            block, is_heading = _paragraph(item)
            heading = flat(item.text) if is_heading else heading
            blocks.append(block)
        elif text := table([_cells(row) for row in item.rows]):
            if between := join_blocks(blocks):
                yield FilePart(between, _heading(part_heading), title)
            tables += 1
            yield FilePart(text, {"table": tables} | _heading(heading), title)
            blocks, part_heading = [], heading
    if rest := join_blocks(blocks):
        yield FilePart(rest, _heading(part_heading), title)


def _paragraph(paragraph: Any) -> tuple[str, bool]:
    style = (paragraph.style.name or "") if paragraph.style is not None else ""
    text = paragraph.text.strip()
    match = _WORD_HEADING.fullmatch(style)
    level = int(match[1]) if match else 1 if style == "Title" else 0
    if level and text:
        return f"{'#' * level} {flat(text)}", True
    return f"- {text}" if text and style.startswith("List") else text, False


def _cells(row: Any) -> list[str]:
    """Return the texts of the cells in a row, each once even if it spans several columns."""
    cells: list[Any] = []
    for cell in row.cells:
        if not cells or cell._tc is not cells[-1]._tc:
            cells.append(cell)
    return [cell.text for cell in cells]


def read_slides(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield the slides that contain text, tables or notes, with ``page`` (from 1) and title as ``section_heading``."""
    import pptx

    presentation = pptx.Presentation(str(path))
    title = flat(presentation.core_properties.title or "")
    for number, slide in enumerate(presentation.slides, start=1):
        title_shape = slide.shapes.title
        heading = flat(title_shape.text_frame.text) if title_shape is not None and title_shape.has_text_frame else ""
        others = (shape for shape in slide.shapes if title_shape is None or shape.shape_id != title_shape.shape_id)
        blocks = [f"## {heading}" if heading else "", *_shapes(others)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            blocks.append(slide.notes_slide.notes_text_frame.text)
        if text := join_blocks(blocks):
            yield FilePart(text, {"page": number} | _heading(heading), title)


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if getattr(shape, "has_table", False):
            yield table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_text_frame", False):
            yield shape.text_frame.text
        elif hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)


def read_workbook(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield each row of the sheets as :func:`read_csv` does, with the name of its ``sheet`` in the metadata.

    A formula is read as its last computed value.
    """
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    title = (book.properties.title or "").strip()
    for sheet in book.worksheets:
        values = sheet.iter_rows(values_only=True)
        rows = (["" if cell is None else str(cell) for cell in row] for row in values)
        for part in _rows(rows, note):
            yield FilePart(part.text, {"sheet": sheet.title, **part.metadata}, title)


def read_csv(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield each row as lines of column name and value, with its number, counted from 1 for the header, as ``row``."""
    text = bounded.read_text(path)
    header_line = text.lstrip().partition("\n")[0]
    separators = "\t,;|" if path.suffix.lower() == ".tsv" else ",;\t|"
    csv.field_size_limit(bounded.MAX_CHARACTERS)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(separators, key=header_line.count))
    yield from _rows(rows, note)


def _rows(rows: Iterable[list[str]], note: Note) -> Iterator[FilePart]:
    """Yield the rows below the first one that is not empty. Only the first ``_COLUMNS`` columns are read."""
    head: list[str] | None = None
    for number, row in enumerate(rows, start=1):
        if not any(cell.strip() for cell in row):
            continue
        if head is None:
            names = [flat(name) for name in row[:_COLUMNS]]
            head = [shorten(name, LONGEST_TITLE) for name in names]
            if head != names:
                note(f"the middle of column names with more than {LONGEST_TITLE} characters")
            continue
        names = [*head, *[""] * (len(row) - len(head))][:_COLUMNS]
        cells = enumerate(zip(names, row, strict=False), start=1)
        text = "\n".join(f"{name or f'column {at}'}: {cell.strip()}" for at, (name, cell) in cells if cell.strip())
        yield FilePart(text, {"row": number})


# -- parts of Markdown ---------------------------------------------------------------------------------------------


def table(rows: list[list[str]]) -> str:
    """Return rows as a Markdown table with the first row as its header, or "" if no row has text."""
    full = [row for row in rows if any(cell.strip() for cell in row)]
    width = max(map(len, full), default=0)
    cells = [[flat(cell).replace("|", "\\|") for cell in row] + [""] * (width - len(row)) for row in full]
    lines = [f"| {' | '.join(row)} |" for row in [*cells[:1], ["---"] * width, *cells[1:]]]
    return "\n".join(lines) if full else ""


def flat(text: str) -> str:
    """Return the text as one line, with every run of white space replaced by a space."""
    return " ".join(text.split())


def join_blocks(blocks: Iterable[str]) -> str:
    """Join blocks of Markdown with blank lines, leaving out empty blocks."""
    return "\n\n".join(block for block in blocks if block.strip())


def _heading(heading: str) -> dict[str, Any]:
    return {"section_heading": heading} if heading else {}


_CODE = (  # source code and logs, which are text but not Markdown
    "py pyi js jsx mjs cjs ts tsx mts cts go java kt kts scala cs swift dart php rs c h cc cpp cxx hh hpp rb lua sh "
    "bash zsh sql log"
)
KINDS: Mapping[str, Callable[[Path, Note], Iterator[FilePart]]] = {
    ".pdf": read_pdf,
    ".docx": read_word,
    ".pptx": read_slides,
    ".xlsx": read_workbook,
    ".csv": read_csv,
    ".tsv": read_csv,
    **{f".{name}": read_code for name in _CODE.split()},
}
"""Readers of the files that are read in another process, by suffix."""
_WITHOUT_PARTS = "it has no text; if its pages were scanned, add a text layer, for example with ocrmypdf"


# -- the process that reads files -----------------------------------------------------------------------------------


def answer_requests() -> None:
    """Answer requests from standard input until it is closed. Each request is the path of a file, as a line of JSON."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (bounded.MAX_MEMORY, bounded.MAX_MEMORY))
    out = sys.stdout
    sys.stdout = sys.stderr  # output printed by a library must not be read as an answer
    for line in sys.stdin:
        _answer_request(Path(json.loads(line)), lambda answer: print(json.dumps(answer), file=out, flush=True))


def _answer_request(path: Path, send: Callable[[dict[str, Any]], None]) -> None:
    try:
        read = KINDS[path.suffix.lower()]
        if read is not read_code:  # an empty module of a package is as good as any other
            _check_size(path)
        part = None
        for part in read(path, lambda message: send({"note": message})):
            send({"part": part})
        send({"end": _WITHOUT_PARTS if part is None else None})
    except ImportError:
        send({"end": f"to read this kind of file, install the extra: {INSTALL}"})
    except Exception as error:  # noqa: BLE001 - a damaged file may make a library raise anything
        send({"end": bounded.reason_of(error)})


def _check_size(path: Path) -> None:
    """Raise UnreadableError for an empty, encrypted or old Office file, or one that is too large when unpacked."""
    if path.stat().st_size == 0:
        raise UnreadableError("it is empty")
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            if file.read(len(_COMPOUND)) == _COMPOUND:
                raise UnreadableError(
                    "it is encrypted, or in an old format; save a copy in the current format without a password"
                )
        return
    with zipfile.ZipFile(path) as archive:
        inside = archive.infolist()
    size = sum(file.file_size for file in inside)
    if size > bounded.MAX_UNPACKED or len(inside) > bounded.MAX_ENTRIES:
        raise UnreadableError(f"it unpacks to {size >> 20:,} MB in {len(inside):,} files, which exceeds the limit")
    if any(file.flag_bits & 1 for file in inside):
        raise UnreadableError("it is encrypted; save a copy without a password")
