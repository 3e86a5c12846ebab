"""Reading files in another process, with limits."""

import ast
import codecs
import csv
import io
import json
import logging
import queue
import re
import subprocess
import sys
import threading
import time
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import LONGEST_TITLE
from langchain_hybridgraph.errors import describe_error, shorten
from langchain_hybridgraph.execution.processes import start_python

Note = Callable[[str], None]

MAX_SECONDS, MAX_PART_SECONDS = 600.0, 60.0
"""Maximum number of seconds for reading a file, and for reading one of its pages or other parts."""
MAX_MEMORY = 2 << 30
"""Maximum memory of the process that reads files, in bytes."""
MAX_BYTES, MAX_CHARACTERS = 512 << 20, 64 << 20
"""Maximum size of a file in bytes, and of its text in characters."""
MAX_TEXT_BYTES = 4 * MAX_CHARACTERS + 5
"""Size of a text file, in bytes, from which it has too many characters in any encoding."""
MAX_UNPACKED, MAX_ENTRIES = 512 << 20, 20_000
"""Maximum total size of the files inside an archive in bytes, and maximum number of these files."""

_SMALLEST = 200  # characters that a part counts at least, because every part takes memory
_BOMS = {  # the longest first
    "utf-32": (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"),
    "utf-8-sig": (b"\xef\xbb\xbf",),
    "utf-16": (b"\xff\xfe", b"\xfe\xff"),
}
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_WEB_ENCODINGS = {  # the encodings that browsers use for the declared ones, https://encoding.spec.whatwg.org
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)


class FilePart(NamedTuple):
    """Part of a file: a page, a slide, some rows of a sheet, a definition in source code, or the complete file.

    ``text`` is Markdown or source code. ``metadata`` is mostly the location, such as ``page``, ``sheet`` or
    ``section_heading``.
    """

    text: str
    metadata: Mapping[str, Any]
    title: str = ""


class UnreadableError(Exception):
    """Error for a file that cannot be read. The message contains the reason."""


class BoundedReader:
    """Reader that reads one file at a time in a worker process, which is replaced when it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path, note: Note) -> list[FilePart]:
        """Return the parts of a file, with warnings to ``note``. Raises UnreadableError if it cannot be read."""
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableError(f"its size is {path.stat().st_size >> 20:,} MB; the limit is {MAX_BYTES >> 20} MB")
        if self._process is None or not self._kill.alive or self._process.poll() is not None:
            self._process = self._start()
        print(json.dumps(str(path.absolute())), file=self._process.stdin, flush=True)
        parts, size = list[FilePart](), 0
        deadline = time.monotonic() + MAX_SECONDS
        while size <= MAX_CHARACTERS:
            answer = self._answer(min(MAX_PART_SECONDS, deadline - time.monotonic()))
            if "note" in answer:
                note(answer["note"])
            elif "part" in answer:
                parts.append(FilePart(*answer["part"]))
                size += max(len(parts[-1].text), _SMALLEST)
            elif answer["end"] is not None:
                raise UnreadableError(answer["end"])
            else:
                return parts
        self._kill()
        raise too_long(f", counting at least {_SMALLEST} for each row, page or other part")

    def _start(self) -> subprocess.Popen[str]:
        code = f"from {__name__} import answer_requests; answer_requests()"
        process = start_python(code, text=True, encoding="utf-8", errors="surrogatepass")
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=_collect, args=(process.stdout, self._answers), daemon=True).start()
        self._kill = weakref.finalize(self, _kill, process)
        return process

    def _answer(self, seconds: float) -> Any:
        try:
            line = self._answers.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            self._kill()
            limits = f"{MAX_PART_SECONDS:.0f} s for a page or {MAX_SECONDS:.0f} s in total"
            raise UnreadableError(f"reading it takes more than {limits}") from None
        if not line:
            self._kill()
            raise UnreadableError("reading it failed: it is damaged, or needs too much memory")
        return json.loads(line)


def _collect(lines: Any, answers: queue.SimpleQueue[str]) -> None:
    with lines:
        for line in lines:
            answers.put(line)
    answers.put("")


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def too_long(counting: str = "") -> UnreadableError:
    """Return the error for a text that is too long, with a remark on how its characters are counted."""
    return UnreadableError(
        f"its text has more than {MAX_CHARACTERS:,} characters{counting}; split it into smaller files"
    )


def reason_of(error: Exception) -> str:
    """Return the reason why a file cannot be read, from an error of its reader, which may be any error.

    >>> reason_of(KeyError("page"))
    "it is damaged (KeyError: 'page')"
    """
    if isinstance(error, UnreadableError):
        return str(error)
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return "reading it takes too much memory"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return f"it is damaged ({describe_error(error)})"


def read_text(path: Path, *, is_html: bool = False) -> str:
    """Return the text of a file (see :func:`decode`), or raise UnreadableError, also if it is too long."""
    with path.open("rb") as file:
        raw = file.read(MAX_TEXT_BYTES)
    text = decode(raw, is_html=is_html) if len(raw) < MAX_TEXT_BYTES else ""
    if len(raw) == MAX_TEXT_BYTES or len(text) > MAX_CHARACTERS:
        raise too_long()
    return text


def decode(raw: bytes, *, is_html: bool = False) -> str:
    """Decode the bytes of a text file, or raise UnreadableError. Without a byte order mark, the encodings tried are
    UTF-8, then the one that an HTML file declares, or otherwise cp1252 if most bytes are ASCII. A few damaged bytes
    are replaced.
    """
    mark = next((encoding for encoding, marks in _BOMS.items() if raw.startswith(marks)), None)
    not_text = UnreadableError("this is not text; convert it to UTF-8 text, Markdown, HTML or JSON Lines first")
    if mark is None and _CONTROLS.search(raw, 0, 1 << 16):
        raise not_text
    encoding, reason = mark or "utf-8", f"it begins like {mark} but is not valid in this encoding"
    declared = _CHARSET.search(raw, 0, 4_096) if is_html and mark is None else None
    try:
        with suppress(UnicodeDecodeError):
            return raw.decode(encoding)
        if declared:
            label = declared[1].decode("ascii").lower()
            reason = f"it is not in the declared encoding {label}"
            encoding = codecs.lookup(label.removeprefix("x-")).name
            encoding = _WEB_ENCODINGS.get(encoding, encoding)
        if mark in (None, "utf-8-sig"):  # most binary data is valid UTF-16, with a few damaged characters
            raw = raw.removeprefix(codecs.BOM_UTF8)
            text = raw.decode(encoding, "replace")
            if len(text) - len(text.encode("ascii", "ignore")) > 2 * text.count("\ufffd"):
                return text  # with a few damaged bytes; in cp1252, hardly any byte above 127 is valid UTF-8
            is_mostly_ascii = sum(byte < 0x80 for byte in raw[: 1 << 16]) >= 0.7 * len(raw[: 1 << 16])
            if is_mostly_ascii and encoding in ("utf-8", "utf-8-sig", "cp1252"):
                return raw.decode("cp1252", "replace")
        if mark or declared:
            return raw.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise UnreadableError(f"{reason} ({error}); save it as UTF-8") from error
    raise not_text


# -- PDF, Office and CSV files -------------------------------------------------------------------------------------

INSTALL = 'pip install "langchain-hybridgraph[documents]"'

_WORD_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
# Elements around visible text that python-docx does not read: content controls, tracked changes and fields.
_WORD_WRAPPERS = ("w:sdt", "w:sdtContent", "w:ins", "w:moveTo", "w:smartTag", "w:customXml", "w:fldSimple")
_COLUMNS = 200
_QUOTED_CELL = re.compile(r'(?<![^,;\t|\r\n])(?:"[^"]*")+')
_SEPARATOR_LINE = re.compile(r'"?sep=([^"\r\n])"?\r?\n', re.IGNORECASE)  # written and read by Excel
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
        if (page := reader.get_destination_page_number(bookmark)) is not None and page >= 0:
            headings.setdefault(page + 1, " › ".join(filter(None, path)))


def read_word(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield each ``table`` (by number), and the text between tables, with the ``section_heading`` above it."""
    import docx
    from docx.oxml.ns import qn
    from lxml import etree

    document = docx.Document(str(path))
    etree.strip_tags(document.element.body, *map(qn, _WORD_WRAPPERS))
    title = flat(document.core_properties.title or "")
    blocks: list[str] = []
    heading, tables = "", 0
    part_heading = ""  # heading above the start of the current part
    for item in document.iter_inner_content():
        if not hasattr(item, "rows"):
            block, is_heading = _paragraph(item)
            heading = flat(item.text) if is_heading else heading
            blocks.append(block)
        # A cell that spans several columns occurs several times.
        elif text := table([list({cell._tc: cell.text for cell in row.cells}.values()) for row in item.rows]):
            if between := join_blocks(blocks):
                yield FilePart(between, _heading(part_heading), title)
            tables += 1
            yield FilePart(text, {"table": tables} | _heading(heading), title)
            blocks, part_heading = [], heading
    if rest := join_blocks(blocks):
        yield FilePart(rest, _heading(part_heading), title)


def _paragraph(paragraph: Any) -> tuple[str, bool]:
    style = (paragraph.style.name or "") if paragraph.style is not None else ""
    # A table of contents repeats the headings.
    text = paragraph.text.strip() if not style.lower().startswith("toc ") else ""
    match = _WORD_HEADING.fullmatch(style)
    level = int(match[1]) if match else 1 if style == "Title" else 0
    if level and text:
        return f"{'#' * level} {flat(text)}", True
    return f"- {text}" if text and style.startswith("List") else text, False


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
        sheet.reset_dimensions()  # some programs write a wrong size of the sheet
        values = sheet.iter_rows(values_only=True)
        rows = (["" if cell is None else str(cell) for cell in row] for row in values)
        for part in _rows(rows, note):
            yield FilePart(part.text, {"sheet": sheet.title, **part.metadata}, title)


def read_csv(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield each row as lines of column name and value, with its number, counted from 1 for the header, as ``row``."""
    text = read_text(path)
    # If the header has none of the separators, there is one column, which ends at a character that texts do not have.
    separators = "\x1f\t,;|" if path.suffix.lower() == ".tsv" else "\x1f,;\t|"
    if declared := _SEPARATOR_LINE.match(text):
        text, separators = text[declared.end() :], declared[1]
    header_line = re.split(r"[\r\n]", _QUOTED_CELL.sub("", text.lstrip()[: 1 << 16]), maxsplit=1)[0]
    csv.field_size_limit(MAX_CHARACTERS)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(separators, key=header_line.count))
    yield from _rows(rows, note)


def _rows(rows: Iterable[list[str]], note: Note) -> Iterator[FilePart]:
    """Yield the rows below the first one that is not empty. Only the first ``_COLUMNS`` columns are read."""
    full = ((number, row) for number, row in enumerate(rows, start=1) if any(cell.strip() for cell in row))
    names = [flat(name) for name in next(full, (0, list[str]()))[1][:_COLUMNS]]
    head = [shorten(name, LONGEST_TITLE) for name in names]
    if head != names:
        note(f"the middle of column names with more than {LONGEST_TITLE} characters")
    for number, row in full:
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


# -- source code and logs ------------------------------------------------------------------------------------------

_SMALL = 1_000  # characters of a class that is not split into its methods, because it fits into one chunk
_LARGE = 50_000  # characters after which a part ends at the next line
_DEEPEST = 8  # columns of indentation at which the method of a class in a namespace begins
_ABOVE = re.compile(r"\s*(?:#|//|/\*|\*|@|\[|--|template\b)")  # comments, decorators and attributes above a definition
_CLASS = re.compile(
    r"\s*(?:\w{1,40}(?:\([\w: ]{1,40}\))?[ \t]+){0,6}(?:class|interface|struct|enum|trait|impl|protocol|extension"
    r"|object|module|namespace|mod|record|union|actor)\b(?![^{(]{0,200}\*)"  # but not a function that returns a struct
)
# Statements with deeper lines that are not definitions.
_OTHER = re.compile(r"\s*(?:if|for|foreach|while|until|unless|switch|case|do|try|with)\b")
_WORD = re.compile(r"\w")
_CREATE = re.compile(r"\s*create\b", re.IGNORECASE)  # in SQL, a definition need not be indented
_CLOSING = re.compile(
    r"\s*(?:[^\w\s\"'`#/@<$~(\[-]|(?:end|fi|done|esac|then|else|elif|elsif|except|finally|catch|rescue)\b)"
)


def read_code(path: Path, note: Note) -> Iterator[FilePart]:
    """Yield the definitions of a source file and the lines between them. A log has no definitions.

    A class of more than ``_SMALL`` characters is divided into its head and its methods. In the metadata of a part,
    ``start_line`` and ``end_line`` are its first and last line, counted from 1. In Python, ``section_heading`` is the
    name of the definition, such as "Invoice.total". Comments and decorators directly above a definition belong to it.
    """
    lines = read_text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")  # the lines that ast counts
    parts = _parts(lines, path.suffix.lower())
    for first, last, name in parts:
        for start, end in _cut_lines(lines, first, last):
            metadata = {"start_line": start + 1, "end_line": end} | ({"section_heading": name} if name else {})
            yield FilePart("\n".join(lines[start:end]), metadata, path.name)
    if not parts:
        yield FilePart("", {}, path.name)


def _parts(lines: list[str], suffix: str) -> list[tuple[int, int, str]]:
    """Return (first line, line after the last, name) of each part, without blank lines around it."""
    names = {0: ""}
    try:
        names.update(_python_starts(ast.parse("\n".join(lines)).body, "", lines) if suffix in (".py", ".pyi") else ())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # written for another version of Python
        suffix = ""
    if suffix not in (".py", ".pyi", ".log"):
        names.update(dict.fromkeys(_starts(lines, 0, len(lines), 0), ""))
    parts: list[tuple[int, int, str]] = []
    for start, end in pairwise([*sorted(names), len(lines)]):
        full = [number for number in range(start, end) if lines[number].strip()]
        if parts and full and not any(_WORD.search(lines[number]) for number in full):  # such as closing brackets
            parts[-1] = parts[-1][0], full[-1] + 1, parts[-1][2]
        elif full:
            parts.append((full[0], full[-1] + 1, names[start]))
    return parts


def _python_starts(body: list[ast.stmt], above: str, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (first line, name) of each definition, and (first line, ``above``) of the lines after it."""
    end = 0
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first, last = min(line.lineno for line in (node, *node.decorator_list)) - 1, node.end_lineno or node.lineno
        while first > end and _ABOVE.match(lines[first - 1]):
            first -= 1
        name = f"{above}.{node.name}" if above else node.name
        yield first, name
        if isinstance(node, ast.ClassDef) and sum(map(len, lines[first:last])) > _SMALL:
            yield from _python_starts(node.body, name, lines)
        yield last, above
        end = last


def _starts(lines: list[str], first: int, last: int, indent: int) -> Iterator[int]:
    """Yield the first line of each definition with this indentation, in any language, and of the lines after it.

    A definition is a statement with deeper lines below it. It ends with a blank line or closing bracket, after which
    another statement begins.
    """
    starts = list(_statements(lines, first, last, indent))
    follows_definition = False
    for start, end in pairwise([*starts, last]):
        head = next((number for number in range(start, end) if not _ABOVE.match(lines[number])), end - 1)
        deeper = [_indent(line) for line in lines[head:end] if line.strip() and _indent(line) > indent]
        is_definition = _OTHER.match(lines[head]) is None and (bool(deeper) or _CREATE.match(lines[head]) is not None)
        if is_definition or follows_definition:
            yield start
        follows_definition = is_definition
        is_class = bool(deeper) and min(deeper) <= _DEEPEST and _CLASS.match(lines[head]) is not None
        if is_class and sum(map(len, lines[start:end])) > _SMALL:
            yield from _starts(lines, head + 1, end, min(deeper))


def _statements(lines: list[str], first: int, last: int, indent: int) -> Iterator[int]:
    """Yield the lines at which a statement with this indentation begins, except directly below a similar line."""
    is_open, may_start = False, True
    for number in range(first, last):
        line = lines[number]
        if _indent(line) == indent and line.strip():
            is_closing = _CLOSING.match(line) is not None
            if may_start and not is_open and not is_closing:
                yield number
            is_open = line.rstrip().endswith(("{", "(", "[")) or (is_open and not is_closing)
            may_start = is_closing
        else:
            may_start = not _ABOVE.match(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if "\t" not in line else _indent(line.expandtabs(4))


def _cut_lines(lines: list[str], first: int, last: int) -> Iterator[tuple[int, int]]:
    size = 0
    for number in range(first, last):
        size += len(lines[number]) + 1
        if size >= _LARGE:
            yield first, number + 1
            first, size = number + 1, 0
    if first < last:
        yield first, last


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
_WITHOUT_PARTS = dict.fromkeys((".xlsx", ".csv", ".tsv"), "it has no row with text below the column names") | {
    ".pdf": "it has no text; if its pages were scanned, add a text layer, for example with ocrmypdf"
}


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
        read = KINDS[path.suffix.lower()]
        if read is not read_code:  # an empty module of a package is as good as any other
            _check_size(path)
        part = None
        for part in read(path, lambda message: send({"note": message})):
            send({"part": part})
        send({"end": _WITHOUT_PARTS.get(path.suffix.lower(), "it has no text") if part is None else None})
    except ImportError:
        send({"end": f"to read this kind of file, install the extra: {INSTALL}"})
    except Exception as error:  # noqa: BLE001 - a damaged file may make a library raise anything
        send({"end": reason_of(error)})


def _check_size(path: Path) -> None:
    """Raise UnreadableError for an empty, encrypted or old Office file, or one that is too large when unpacked."""
    if path.stat().st_size == 0:
        raise UnreadableError("it is empty")
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            if file.read(len(_COMPOUND)) == _COMPOUND:
                raise UnreadableError("it is encrypted, or in an old format; save a current copy without a password")
        return
    with zipfile.ZipFile(path) as archive:
        inside = archive.infolist()
    size = sum(file.file_size for file in inside)
    if size > MAX_UNPACKED or len(inside) > MAX_ENTRIES:
        raise UnreadableError(f"it unpacks to {size >> 20:,} MB in {len(inside):,} files, which exceeds the limit")
    if any(file.flag_bits & 1 for file in inside):
        raise UnreadableError("it is encrypted; save a copy without a password")
