"""Reading files and folders as documents."""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.errors import HybridGraphError, quote_value, shorten
from langchain_hybridgraph.ingestion.folder_scan import FolderScan, is_regular, source_of
from langchain_hybridgraph.ingestion.front_matter import front_matter, front_matter_end
from langchain_hybridgraph.ingestion.markdown import Anchor, outline, without_heading_ids
from langchain_hybridgraph.ingestion.readers.bounded import BoundedReader
from langchain_hybridgraph.ingestion.readers.html import from_html
from langchain_hybridgraph.ingestion.readers.kinds import INSTALL, KINDS, UnreadableError
from langchain_hybridgraph.ingestion.readers.rst import from_rst
from langchain_hybridgraph.path_checks import as_path
from langchain_hybridgraph.records.chunk_metadata import MOST_NESTED, is_nested_too_deeply

if TYPE_CHECKING:
    from typing import Self

    from langchain_core.documents import Document

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_MOST_LINES = 10  # number of invalid lines of a file that a message lists
_PACKAGE = __name__.partition(".")[0]
_TEXT_KEYS = ("text", "page_content", "content")


class FileError(HybridGraphError, ValueError):
    """Error for a file that cannot be read as a document. The message contains the path, the reason and, for an invalid
    line of a JSON Lines file, the line number.
    """


class _ReadText(NamedTuple):
    text: str
    title: str
    metadata: Mapping[str, Any]
    anchors: tuple[Anchor, ...] = ()


class File(NamedTuple):
    """File to read. ``is_named`` is True for a file passed by its own path, and False for a file found in a folder."""

    path: Path
    source: str
    is_named: bool


class FileDocuments(Iterator["Document"]):
    """Iterator over the documents in files. Each file is read when its first document is requested.

    Three attributes describe the files and subfolders that were left out so far:

    - ``skipped`` lists messages with the reasons.
    - ``passed_over`` is the number of files that were left out, by suffix.
    - ``unread`` contains the reason for each path that could not be read. Links that are not followed are not included.

    If only some lines of a JSON Lines file are invalid, the file is in ``unread`` but not counted in ``passed_over``,
    because its other lines are read.
    """

    def __init__(self, paths: Sequence[Path], note: Callable[[str], None], *, follow_links: bool) -> None:
        self.skipped: list[str] = []
        self.unread: dict[str, str] = {}
        self._partly_read: set[str] = set()
        self._paths = paths
        self._note = note
        self._reader = BoundedReader()
        self._links: list[Path] = []
        self._scan = FolderScan(paths, _readable(), self._leave_out, self._leave_out_link, follow_links=follow_links)
        self._documents = (document for file in self.files for document in self.read(file))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Document:
        return next(self._documents)

    @property
    def passed_over(self) -> dict[str, int]:
        """Number of files that were left out so far, by suffix ("" for files without a suffix)."""
        paths = [*self._links, *(Path(path) for path in self.unread if path not in self._partly_read)]
        unread = Counter(path.suffix.lower() for path in paths if not path.is_dir())
        return dict(sorted((self._scan.passed_over + unread).items()))

    @cached_property
    def files(self) -> list[File]:
        """Files to read, without duplicates. Raises FileError for a missing path, and for two files with the same
        ``source``.
        """
        files = list(self._find())
        missing = {suffix: count for suffix, count in self._scan.passed_over.items() if suffix in KINDS}
        others = {suffix: count for suffix, count in self._scan.passed_over.items() if suffix not in KINDS}
        if missing:
            self._skip(f"{listed_suffixes(missing)}: install the extra: {INSTALL}")
        if others:
            self._skip(f"{listed_suffixes(others)}: files of this kind are not read")
        return files

    def read(self, file: File) -> Iterator[Document]:
        """Yield the documents of one file. A file that cannot be read raises FileError if its path is the only one that
        was passed. Otherwise, it is left out, with a message in ``skipped``.
        """
        try:
            if not is_regular(file.path, may_be_pipe=file.is_named):
                raise FileError(f"{file.path}: this is not a regular file; copy its content into a regular file")
            kind = KINDS.get(file.path.suffix.lower())
            if kind is not None and kind.is_installed:
                yield from self._parts(file)
            elif kind is not None:
                raise FileError(f"{file.path}: to read this kind of file, install the extra: {INSTALL}")
            elif file.path.suffix.lower() in LINES:
                yield from self._rows(file)
            else:
                yield _document(file.path, file.source)
        except (FileError, OSError) as error:
            if self._is_only_path(file):
                raise _as_file_error(file.path, error) from error
            self._leave_out(file.path, str(_as_file_error(file.path, error)).removeprefix(f"{file.path}: "))

    def _parts(self, file: File) -> Iterator[Document]:
        """Read a file in another process and yield its parts as Documents with one ``source``."""
        from langchain_core.documents import Document

        try:
            parts = self._reader.read(file.path, lambda message: self._skip(f"{file.path}: {message}"))
        except UnreadableError as error:
            raise FileError(f"{file.path}: {error}") from error
        for part in parts:
            metadata = {**part.metadata, "title": part.title or _stem(file.source), "source": file.source}
            if part.number is not None:
                metadata["document_id"] = f"{file.source}:{part.number}"
            yield Document(page_content=part.text, metadata={**metadata, "uri": file.source})

    def _rows(self, file: File) -> Iterator[Document]:
        """Yield one document per line of a JSON Lines file. An invalid line raises FileError if the file's path is the
        only one that was passed. Otherwise, the line is left out and reported.
        """
        invalid: list[tuple[int, str]] = []  # the first ones; all lines of a large file may be invalid
        count, is_read = 0, False
        for number, line in _lines(file.path):
            try:
                document = _row(line, file.source, number)
            except FileError as error:
                if self._is_only_path(file):
                    raise FileError(f"{file.path}:{number}: {error}") from error
                count += 1
                if count <= _MOST_LINES:
                    invalid.append((number, str(error)))
                continue
            is_read = True
            yield document
        if invalid:
            self._leave_out_lines(file.path, invalid, count, is_read=is_read)

    def _is_only_path(self, file: File) -> bool:
        return file.is_named and len(self._paths) == 1

    def _leave_out_lines(self, path: Path, invalid: Sequence[tuple[int, str]], count: int, *, is_read: bool) -> None:
        """Report that a file has ``count`` invalid lines. ``invalid`` contains (line number, reason) for the first
        ones. If no line was read, the complete file is reported as left out.
        """
        (first, reason), *others = invalid
        if not is_read:
            self._leave_out(path, f"it has no valid line; line {first}: {reason}")
            return
        self._partly_read.add(str(path))
        reason = f"line {first}: {reason}"
        if others:
            numbers = ", ".join(str(number) for number, _ in invalid) + (", …" if count > len(invalid) else "")
            reason = f"{count:,} lines are invalid ({numbers}); {reason}"
        self.unread[str(path)] = reason
        self._skip(f"{'lines' if others else 'a line'} of {path}: {reason}")

    def _leave_out(self, path: Path, reason: str) -> None:
        self.unread[str(path)] = reason
        self._skip(f"{path}: {reason}")

    def _leave_out_link(self, link: Path, reason: str) -> None:
        self._links.append(link)
        self._skip(f"{link}: {reason}")

    def _skip(self, what: str) -> None:
        message = f"skipped {what}"
        self.skipped.append(message)
        self._note(message)

    def _find(self) -> Iterator[File]:
        paths_by_source: dict[str, str] = {}
        real_paths: set[str] = set()
        folders: dict[str, str] = {}
        for path in self._paths:
            if not path.exists():
                raise FileError(f"{path}: there is no such file or folder")
            is_named = not path.is_dir()
            for file in [path] if is_named else self._scan.files(path):
                source = source_of(path, file)
                real_path = _real_path(file, folders)
                if paths_by_source.setdefault(source, real_path) != real_path:
                    raise FileError(
                        f"{file} and {paths_by_source[source]} would both have the source {source!r}: pass the "
                        "folder that contains both, or run in that folder and pass relative paths"
                    )
                if real_path not in real_paths:  # skip a file found again through a link or another argument
                    real_paths.add(real_path)
                    yield File(file, source, is_named)


def read_text_file(file: File) -> Document | None:
    """Return the document in a text file. Return None for another kind of file and for a file that cannot be read.
    These are left to the caller, which also reports any problem.
    """
    suffix = file.path.suffix.lower()
    if suffix in LINES or suffix in KINDS:
        return None
    try:
        return _document(file.path, file.source) if is_regular(file.path, may_be_pipe=False) else None
    except (FileError, OSError):
        return None


def read_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    skipped: Callable[[str], None] | None = None,
    follow_links: bool = False,
) -> FileDocuments:
    """Return an iterator over the documents in files and folders; files in folders are ordered by name.

    Each text, Markdown, HTML or reStructuredText file is one document. Each line of a JSON Lines file is one document,
    with ``text`` (or ``page_content``, ``content``) and optional ``id`` and ``metadata``; other keys become metadata.

    ``source`` in the metadata is the path of the file. If the argument is an absolute path or contains "..", ``source``
    begins with the last part of that path: the files in ``/home/ada/docs`` have a ``source`` such as ``docs/a.md``.
    Documents also have a ``title`` and a ``uri``, which equals ``source``; documents from JSON Lines have neither
    unless the line contains them.

    Front matter and ids at the end of headings (``## Title { #id }``) are removed from the text of Markdown, and labels
    from the text of reStructuredText; links to the ids and labels still work. ``start_index`` in the metadata of a
    chunk is a position in the remaining text, not in the file.

    EPUB books, notebooks and e-mail are also read, as are PDF, Word, PowerPoint and Excel files if the extra
    ``documents`` is installed. Such a file may become several Documents with one ``source``. Each contains its location
    in the metadata, such as ``page`` (page or slide, from 1), ``chapter``, ``section_heading``, ``table``, ``sheet`` or
    ``rows``. These files are read in another process with limited time and memory.

    In folders, hidden files, indexes and files whose suffix is not in SUPPORTED_SUFFIXES are left out. Each folder is
    visited only once, even if several paths or links lead to it. Symbolic links to targets outside these folders are
    followed only with ``follow_links=True``. A file passed by its own path is read as text if its suffix is not
    supported.

    Files are also left out if they cannot be read (damaged, encrypted, not text, a device, or a pipe in a folder). The
    ``unread`` attribute of the result, and of the report of ``ingest``, contains the reason for each of them. It also
    contains each of ``paths`` that is the folder of an index, and each JSON Lines file with invalid lines. The other
    lines of such a file are read. ``skipped`` is called with a message about each omission. By default, a Python
    warning is issued.

    While the documents are read, FileError is raised for a path that does not exist, and for two different files with
    the same ``source``. If ``paths`` is a single file, FileError is also raised if the file cannot be read or has an
    invalid line of JSON.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "cats.md").write_text("# Cats\\n\\nThey purr.")
    ...     [(document.metadata["title"], document.page_content) for document in read_files(folder)]
    [('Cats', '# Cats\\n\\nThey purr.')]
    """
    paths_list: Iterable[object] = (
        [paths] if isinstance(paths, str | bytes | Mapping) or not isinstance(paths, Iterable) else paths
    )
    return FileDocuments([as_path("path", path) for path in paths_list], skipped or _warn, follow_links=follow_links)


def _real_path(file: Path, folders: dict[str, str]) -> str:
    """Return the path without symbolic links. Each folder is resolved only once, because resolving is slow."""
    if os.path.islink(file):
        return os.path.realpath(file)
    folder, name = os.path.split(file)  # pathlib takes several times as long
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def _document(file: Path, source: str) -> Document:
    from langchain_core.documents import Document

    content = _READERS.get(file.suffix.lower(), _read_text)(_decoded(file, file.read_bytes()))
    metadata = {**content.metadata, "title": content.title or _stem(source), "source": source, "uri": source}
    if content.anchors:
        from langchain_hybridgraph.ingestion.readers.converted_document import ConvertedDocument

        return ConvertedDocument(content.text, content.anchors, metadata)
    return Document(page_content=content.text, metadata=metadata)


def _stem(source: str) -> str:
    return posixpath.splitext(posixpath.basename(source))[0]


def _decoded(file: Path, raw: bytes) -> str:
    """Decode the bytes of a file. Without a byte order mark, the encodings tried are UTF-8, then the one that an HTML
    file declares, or otherwise cp1252 if most bytes are ASCII. Raise FileError if the bytes cannot be decoded.
    """
    for mark, encoding in _BOMS:
        if raw.startswith(mark):
            return _decode_as(file, raw, encoding)
    if _CONTROLS.search(raw, 0, 1 << 16) is None:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            declared = _CHARSET.search(raw, 0, 4_096) if file.suffix.lower() in _HTML else None
            if declared:
                return _decode_as(file, raw, declared[1].decode("ascii"))
            if sum(byte < 0x80 for byte in raw[: 1 << 16]) >= 0.7 * len(raw[: 1 << 16]):
                return raw.decode("cp1252", "replace")
    raise FileError(f"{file}: this is not text; convert it to UTF-8 text, Markdown, HTML or JSON Lines first")


def _decode_as(file: Path, raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise FileError(
            f"{file}: it declares the encoding {encoding}, but cannot be decoded with it ({error}); save it as UTF-8"
        ) from error


def _read_text(text: str) -> _ReadText:
    return _ReadText(text, "", {})


def _read_markdown(text: str) -> _ReadText:
    metadata = front_matter(text)
    body, anchors = without_heading_ids(text[front_matter_end(text) :])
    return _ReadText(body, str(metadata.get("title") or outline(body).title or ""), metadata, anchors)


def _read_html(text: str) -> _ReadText:
    page = from_html(text)
    return _ReadText(page.text, page.title, {})


def _read_rst(text: str) -> _ReadText:
    document = from_rst(text)
    return _ReadText(document.text, document.title, {})


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of each line that is not blank."""
    with file.open("rb") as lines:
        for number, raw in enumerate(lines, start=1):
            line = raw.decode("utf-8-sig", "replace") if number == 1 else raw.decode("utf-8", "replace")
            if line.strip():
                yield number, line


def _row(line: str, source: str, number: int) -> Document:
    """Return the document in a line of JSON Lines. Raises FileError with the reason only, without the file and line
    number.
    """
    from langchain_core.documents import Document

    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileError(f"this line is not JSON ({error}); each line must be one JSON object") from error
    if not isinstance(row, dict):
        raise FileError('this line is not a JSON object; write it as {"text": "…"}')
    metadata = row.pop("metadata", None)
    if metadata is not None and not isinstance(metadata, dict):
        raise FileError(f"metadata must be an object, got {quote_value(metadata)}")
    key = next((key for key in _TEXT_KEYS if isinstance(row.get(key), str)), None)
    if key is None:
        fields = shorten(", ".join(row) or "nothing", 200)
        raise FileError(f'the text is missing; put it in the field "text" (fields: {fields})')
    text, id = row.pop(key), row.pop("id", None)
    merged = {"source": source, **row, **(metadata or {})}
    # Counting brackets takes a fraction of the time, and rules out nearly every line.
    if line.count("[") + line.count("{") > MOST_NESTED and is_nested_too_deeply(merged):
        raise FileError(f"the metadata is nested more than {MOST_NESTED} levels deep; flatten it")
    if id == "":
        raise FileError("the id is empty; change it, or leave it out")
    for name, value in (("id", id), *((name, merged.get(name)) for name in ("document_id", "source"))):
        if "\0" in str(value):
            raise FileError(f"the {name} {quote_value(value)} contains a NUL character; remove it")
    if id is None:
        # Without an id, a line is identified by its number.
        merged.setdefault("document_id", f"{source}:{number}")
    return Document(page_content=text, metadata=merged, id=None if id is None else str(id))


def _as_file_error(path: Path, error: Exception) -> FileError:
    if isinstance(error, FileError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return FileError(f"{path}: it cannot be read: {reason}")


def listed_suffixes(counts: Mapping[str, int]) -> str:
    """Return the number of files for each suffix as one string, the most frequent suffix first.

    >>> listed_suffixes({".docx": 3, ".pdf": 12, "": 1})
    '12 .pdf, 3 .docx, 1 without a suffix'
    """
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} {suffix or 'without a suffix'}" for suffix, count in ordered)


def _is_library(module: str) -> bool:
    return module == "functools" or module.partition(".")[0] == _PACKAGE


def _warn(message: str) -> None:
    """Issue a Python warning that refers to the line of the user's program that reads the documents."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_library(str(frame.f_globals.get("__name__"))):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


_HTML = frozenset([".html", ".htm", ".xhtml"])
LINES = frozenset([".jsonl", ".ndjson"])
"""Suffixes of files with one document per line."""
SEVERAL = LINES | {".mbox"}
"""Suffixes of files that contain several documents."""
_READERS: dict[str, Callable[[str], _ReadText]] = {
    ".txt": _read_text,
    ".text": _read_text,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".mdx": _read_markdown,
    ".rst": _read_rst,
    ".rest": _read_rst,
    **dict.fromkeys(_HTML, _read_html),
}
SUPPORTED_SUFFIXES = tuple(sorted([*_READERS, *LINES, *KINDS]))
"""Suffixes of the files that are read in folders; some need the extra ``documents``."""


def _readable() -> frozenset[str]:
    """Return the suffixes of the files that the installed libraries can read."""
    missing = {suffix for suffix, kind in KINDS.items() if not kind.is_installed}
    return frozenset(SUPPORTED_SUFFIXES) - missing
