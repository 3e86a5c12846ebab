"""Readers of office documents, books, e-mail and notebooks."""

from __future__ import annotations

import csv
import io
import json
import logging
import posixpath
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree

from langchain_hybridgraph.chunks import LONGEST_TITLE
from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.ingestion.bounded import (
    MAX_CHARACTERS,
    MAX_ENTRIES,
    MAX_MEMORY,
    MAX_UNPACKED,
    FilePart,
    UnreadableError,
    read_text,
    reason_of,
)
from langchain_hybridgraph.ingestion.code import read_code
from langchain_hybridgraph.ingestion.markup import from_html

if TYPE_CHECKING:
    from email.message import EmailMessage

INSTALL = 'pip install "langchain-hybridgraph[documents]"'

Note = Callable[[str], None]
_WORD_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
_SHEET_LENGTH = 1_500  # characters after which a part of a sheet ends; it has to fit into a chunk with the header row
_COLUMNS = 200
_COMPOUND = b"\xd0\xcf\x11\xe0"  # start of a file in an old Office format, or of an encrypted one
_MAX_OUTPUT = 2_000  # characters kept of each output of a cell of a notebook; longer outputs are mostly data
_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


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
        heading, without_text = "", list[int]()
        for number, page in enumerate(reader.pages, start=1):
            heading = headings.get(number, heading)
            text = page.extract_text()
            if text.strip():
                yield FilePart(text, {"page": number} | _heading(heading), title)
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


def _ranges(numbers: list[int]) -> str:
    """Format ascending numbers as ranges, such as "1–3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


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
    elif not tables:
        raise UnreadableError("it has no text")


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
    is_empty = True
    for number, slide in enumerate(presentation.slides, start=1):
        title_shape = slide.shapes.title
        heading = flat(title_shape.text_frame.text) if title_shape is not None and title_shape.has_text_frame else ""
        others = (shape for shape in slide.shapes if title_shape is None or shape.shape_id != title_shape.shape_id)
        blocks = [f"## {heading}" if heading else "", *_shapes(others)]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            blocks.append(slide.notes_slide.notes_text_frame.text)
        if text := join_blocks(blocks):
            is_empty = False
            yield FilePart(text, {"page": number} | _heading(heading), title)
    if is_empty:
        raise UnreadableError("no slide contains text; pictures are not read")


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if getattr(shape, "has_table", False):
            yield table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_text_frame", False):
            yield shape.text_frame.text
        elif hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)


def read_workbook(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield the sheets in parts of several rows, each below the first row that is not empty as its header.

    In the metadata, ``sheet`` is the name of the sheet and ``rows`` the range of row numbers, such as "2–40". A formula
    is read as its last computed value. Only the first ``_COLUMNS`` columns are read.
    """
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    title = (book.properties.title or "").strip()
    is_empty = True
    for sheet in book.worksheets:
        for rows, first, last in _sheet_parts(sheet, note):
            is_empty = False
            metadata = {"sheet": sheet.title, "rows": f"{first}–{last}" if last > first else str(first)}
            yield FilePart(f"## {sheet.title}\n\n{table(rows)}", metadata, title)
    if is_empty:
        raise UnreadableError("all cells are empty")


def _sheet_parts(sheet: Any, note: Note) -> Iterator[tuple[list[list[str]], int, int]]:
    """Yield (header row and other rows, number of the first row, number of the last row)."""
    head: list[str] = []
    rows: list[list[str]] = []
    first = last = size = 0
    for number, values in enumerate(sheet.iter_rows(values_only=True), start=1):
        row = ["" if value is None else str(value) for value in islice(values, _COLUMNS)]
        if not any(cell.strip() for cell in row):
            continue
        if not head:
            head, first = _column_names(row, note), number
        else:
            rows.append(row)
            first = first if len(rows) > 1 else number
        last = number
        size += sum(map(len, row)) + 3 * len(row)
        if size > _SHEET_LENGTH and rows:
            yield [head, *rows], first, last
            rows, size = [], sum(map(len, head))
    if rows or (head and last == first):
        yield [head, *rows], first, last


def _column_names(names: list[str], note: Note) -> list[str]:
    """Return the names of columns, which every part repeats, shortened if they are long."""
    short = [shorten(name, LONGEST_TITLE) for name in names]
    if short != names:
        note(f"the middle of column names with more than {LONGEST_TITLE} characters")
    return short


def read_csv(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield each row as lines of column name and value, with its number, counted from 1 for the header, as ``row``."""
    text = read_text(path)
    header_line = text.lstrip().partition("\n")[0]
    separators = "\t,;|" if path.suffix.lower() == ".tsv" else ",;\t|"
    csv.field_size_limit(MAX_CHARACTERS)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(separators, key=header_line.count))
    head: list[str] | None = None
    is_empty = True
    for number, row in enumerate(rows, start=1):
        if not any(cell.strip() for cell in row):
            continue
        if head is None:
            head = _column_names([flat(name) for name in row], note)
            continue
        is_empty = False
        names = [*head, *[""] * (len(row) - len(head))][:_COLUMNS]
        cells = enumerate(zip(names, row, strict=False), start=1)
        text = "\n".join(f"{name or f'column {at}'}: {cell.strip()}" for at, (name, cell) in cells if cell.strip())
        yield FilePart(text, {"row": number})
    if is_empty:
        raise UnreadableError("it has no row below the header" if head else "all cells are empty")


def read_book(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield the chapters that contain text, in reading order, with the number of each, from 1, as ``chapter``."""
    with zipfile.ZipFile(path) as book:
        container = ElementTree.fromstring(book.read("META-INF/container.xml"))
        root = container.find(f".//{_CONTAINER}rootfile")
        if root is None:
            raise UnreadableError("it is not a valid book: META-INF/container.xml has no rootfile element")
        name = root.get("full-path", "")
        package = ElementTree.fromstring(book.read(name))
        title = (package.findtext(f".//{_TITLE}") or "").strip()
        files = {item.get("id"): item.get("href", "") for item in package.iter(f"{_PACKAGE}item")}
        paths = [files.get(item.get("idref"), "") for item in package.iter(f"{_PACKAGE}itemref")]
        if "META-INF/rights.xml" in book.namelist():
            raise UnreadableError("it is encrypted")
        chapter = 0
        for chapter_path in filter(None, paths):
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(chapter_path)))
            page = from_html(book.read(inside).decode("utf-8", "replace"))
            if page.text.strip():
                chapter += 1
                heading = page.title if page.title != title else ""
                yield FilePart(page.text, {"chapter": chapter} | _heading(heading), title)
        if not chapter:
            raise UnreadableError("no chapter contains text")


def read_mail(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield the message or, for a mailbox, each message as a separate document.

    The metadata are ``from``, ``to``, ``created_at``, and the names of the ``attachments``, which are not read.
    """
    import email.policy
    import mailbox

    if path.suffix.lower() != ".mbox":
        yield _message_part(email.message_from_bytes(path.read_bytes(), policy=email.policy.default), note, None)
        return
    number = 0
    for number, raw in enumerate(mailbox.mbox(path, create=False), start=1):
        message = email.message_from_bytes(raw.as_bytes(), policy=email.policy.default)
        yield _message_part(message, note, number)
    if not number:
        raise UnreadableError("it contains no messages")


def _message_part(message: EmailMessage, note: Note, number: int | None) -> FilePart:
    from email.utils import parsedate_to_datetime

    names = {name: flat(str(message.get(name, ""))) for name in ("from", "to", "cc", "date", "subject")}
    if not names["from"] and not names["subject"]:
        what = "it" if number is None else f"message {number}"
        raise UnreadableError(f"{what} has neither a sender nor a subject")
    metadata: dict[str, Any] = {name: names[name] for name in ("from", "to") if names[name]}
    with suppress(ValueError):  # without a date, or with an invalid one
        metadata["created_at"] = parsedate_to_datetime(names["date"]).isoformat()
    attachments = [flat(part.get_filename() or part.get_content_type()) for part in message.iter_attachments()]
    if attachments:
        metadata["attachments"] = attachments
        all_names = shorten(", ".join(attachments), 1_000)
        note(f"{'' if number is None else f'message {number}: '}attachments are not read: {all_names}")
    head = "\n".join(f"{name.title()}: {value}" for name, value in names.items() if value and name != "subject")
    body = message.get_body(("plain", "html"))
    text = "" if body is None else str(body.get_content())
    if body is not None and body.get_content_subtype() == "html":
        text = from_html(text).text
    return FilePart(f"# {names['subject']}\n\n{head}\n\n{text}", metadata, names["subject"], number)


def read_notebook(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield one part with the text, code and printed output of all cells."""
    book = json.loads(path.read_bytes())
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        raise UnreadableError("it is not in notebook format 4; open it in Jupyter and save it")
    metadata = book.get("metadata", {})
    language = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language", "")
    text = join_blocks(block for cell in cells for block in _cell_blocks(cell, language))
    if not text:
        raise UnreadableError("no cell contains text")
    yield FilePart(text, {"language": language} if language and isinstance(language, str) else {})


def _cell_blocks(cell: Mapping[str, Any], language: str) -> Iterator[str]:
    source = _cell_text(cell.get("source"))
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip():
        yield f"```{language}\n{source}\n```"
    for output in cell.get("outputs", ()):
        output_text = _cell_text(output.get("text") or output.get("data", {}).get("text/plain"))
        if output_text.strip():
            yield f"```text\n{output_text[:_MAX_OUTPUT].rstrip()}\n```"


def _cell_text(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(map(str, lines or ()))


# -- parts of Markdown ---------------------------------------------------------------------------------------------


def table(rows: list[list[str]]) -> str:
    """Return rows as a Markdown table with the first row as its header, or "" if no row has text.

    >>> print(table([["a", "b"], ["1", "2|3"]]))
    | a | b |
    | --- | --- |
    | 1 | 2\\|3 |
    """
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


class FileKind(NamedTuple):
    """Kind of file: the function that reads it, and the ``library`` that this function needs ("" if none)."""

    read: Callable[[Path, Note], Iterator[FilePart]]
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
    ".pdf": FileKind(read_pdf, "pypdf"),
    ".docx": FileKind(read_word, "docx"),
    ".pptx": FileKind(read_slides, "pptx"),
    ".xlsx": FileKind(read_workbook, "openpyxl"),
    ".csv": FileKind(read_csv),
    ".tsv": FileKind(read_csv),
    ".epub": FileKind(read_book),
    ".eml": FileKind(read_mail),
    ".mbox": FileKind(read_mail),
    ".ipynb": FileKind(read_notebook),
    **{f".{name}": FileKind(read_code) for name in _CODE.split()},
}
"""Kinds of files that are read in another process, by suffix."""


# -- the process that reads files -----------------------------------------------------------------------------------


def answer_requests() -> None:
    """Answer requests from standard input until it is closed. Each request is the path of a file, as a line of JSON."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    out = sys.stdout
    sys.stdout = sys.stderr  # output printed by a library must not be read as an answer
    for line in sys.stdin:
        _answer_request(Path(json.loads(line)), lambda answer: print(json.dumps(answer), file=out, flush=True))


def _answer_request(path: Path, send: Callable[[dict[str, Any]], None]) -> None:
    try:
        read = KINDS[path.suffix.lower()].read
        if read is not read_code:  # an empty module of a package is as good as any other
            _check_size(path)
        for part in read(path, lambda message: send({"note": message})):
            send({"part": part})
        send({"end": None})
    except Exception as error:  # noqa: BLE001 - a damaged file may make a library raise anything
        send({"end": reason_of(error)})


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
    if size > MAX_UNPACKED or len(inside) > MAX_ENTRIES:
        raise UnreadableError(f"it unpacks to {size >> 20:,} MB in {len(inside):,} files, which exceeds the limit")
    if any(file.flag_bits & 1 for file in inside):
        raise UnreadableError("it is encrypted; save a copy without a password")
