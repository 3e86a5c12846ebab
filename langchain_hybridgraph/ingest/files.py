"""Reads files and folders as documents."""

from __future__ import annotations

import json
import os
import posixpath
import re
import stat
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.errors import HybridGraphError
from langchain_hybridgraph.ingest.from_html import from_html
from langchain_hybridgraph.ingest.from_rst import from_rst
from langchain_hybridgraph.ingest.front_matter import front_matter, front_matter_end
from langchain_hybridgraph.ingest.outline import outline

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
_TEXT_KEYS = ("text", "page_content", "content")


class FileError(HybridGraphError, ValueError):
    """A file cannot be read as a document; the message names it (and the line) and says what to do."""


class _Read(NamedTuple):
    """What a reader got out of a file's text."""

    text: str
    title: str
    metadata: Mapping[str, Any]


class FileDocuments(Iterator["Document"]):
    """The documents in files, read one after the other; ``skipped`` names what was left out so far and why."""

    def __init__(self, paths: Sequence[Path], note: Callable[[str], None], *, follow_links: bool) -> None:
        self.skipped: list[str] = []
        self._note = note
        self._documents = self._read(paths, _Walk(paths, self._skip, follow_links=follow_links))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Document:
        return next(self._documents)

    def _skip(self, what: str) -> None:
        message = f"skipped {what}"
        self.skipped.append(message)
        self._note(message)

    def _read(self, paths: Sequence[Path], walk: _Walk) -> Iterator[Document]:
        places: dict[str, str] = {}
        read: set[str] = set()
        for path in paths:
            if not path.exists():
                raise FileError(f"{path}: there is no such file or folder")
            named = not path.is_dir()
            for file in [path] if named else walk.files(path):
                source = source_of(path, file)
                real = os.path.realpath(file)
                if places.setdefault(source, real) != real:
                    raise FileError(
                        f"{file} and {places[source]} would both be {source!r}: read their common folder, "
                        "or call from there with relative paths"
                    )
                if real in read:
                    continue  # reached twice, through a link or through overlapping arguments
                read.add(real)
                try:
                    _check_kind(file, may_be_pipe=named)
                    yield from _documents(file, source)
                except (FileError, OSError) as error:
                    if named or (isinstance(error, FileError) and not isinstance(error, _NotText)):
                        raise _as_file_error(file, error) from error
                    self._skip(str(_as_file_error(file, error)))


def read_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    skipped: Callable[[str], None] | None = None,
    follow_links: bool = False,
) -> FileDocuments:
    """Return the documents in files and folders, folders in the order of their names.

    Text, Markdown, HTML and reStructuredText files are one document each, of a JSON Lines file every line is
    one: ``text`` (or ``page_content``, ``content``), ``id`` and ``metadata`` where it has them, all other
    keys become metadata. Each has ``source``, the path as it was given (an absolute one from its last folder
    on), and files have ``uri``, the same, and ``title``.

    In folders, hidden files and files with another suffix than SUPPORTED_SUFFIXES are passed over. Each real folder is
    visited once, and a symbolic link that leads out of the given folders is followed with ``follow_links=True`` only.
    Files that are left out for this or another reason (unreadable, not text, a pipe or a device) are listed in
    ``skipped`` of the result and in the report of ``ingest``; the argument ``skipped`` is called with each (default: a
    Python warning). A file that is named is read as text whatever its suffix.

    Raises FileError for a path that does not exist, a named file that is not text (or a device), a bad line of
    JSON (named as file:line), and two different files with the same ``source``.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "cats.md").write_text("# Cats\\n\\nThey purr.")
    ...     [(document.metadata["title"], document.page_content) for document in read_files(folder)]
    [('Cats', '# Cats\\n\\nThey purr.')]
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    return FileDocuments([Path(path) for path in given], skipped or _warn, follow_links=follow_links)


class _NotText(FileError):
    """A file in a folder that is passed over."""


class _Walk:
    """Finds the files in folders. Links come last, so that a file that has a path without a link is read by it."""

    def __init__(self, given: Sequence[Path], skip: Callable[[str], None], *, follow_links: bool) -> None:
        self._roots = [os.path.realpath(path) for path in given]
        self._skip = skip
        self._follow_links = follow_links
        self._visited: set[tuple[int, int]] = set()

    def files(self, folder: Path) -> Iterator[Path]:
        """The files below a folder that are to be read, each folder that was not visited before."""
        links = deque[Path]()
        yield from self._below(folder, links)
        while links:
            link = links.popleft()
            if os.path.isdir(link):
                if self._may_follow(link):
                    yield from self._below(link, links)
            elif link.suffix.lower() in SUPPORTED_SUFFIXES and self._may_follow(link):
                yield link

    def _below(self, folder: Path, links: deque[Path]) -> Iterator[Path]:
        waiting = [iter([folder])]  # not recursive: folders may be nested deeper than Python's calls
        while waiting:
            path = next(waiting[-1], None)
            if path is None:
                waiting.pop()
            elif path != folder and os.path.islink(path):
                links.append(path)
            elif os.path.isdir(path):  # Path.is_dir raises where a folder may not be searched
                waiting.append(iter(self._entries(path)))
            elif path.suffix.lower() in SUPPORTED_SUFFIXES:
                yield path

    def _entries(self, folder: Path) -> list[Path]:
        try:
            status = folder.stat()
            here = status.st_dev, status.st_ino
            if here in self._visited:
                return []
            self._visited.add(here)
            return [folder / name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
        except OSError as error:
            self._skip(str(_as_file_error(folder, error)))
            return []

    def _may_follow(self, link: Path) -> bool:
        real = os.path.realpath(link)
        if self._follow_links or not os.path.exists(real):  # reading it reports a link that leads nowhere
            return True
        inside = any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in self._roots)
        if not inside:
            self._skip(f"{link}: this link leads out of the folder, to {real}; follow_links=True follows it")
        return inside


def source_of(given: Path, file: Path) -> str:
    """The name of a file: the path as it was given, an absolute one from the last folder of what was given."""
    if given.is_absolute() or ".." in given.parts:
        base = given.resolve()
        inside = file.relative_to(given)
        return (Path(base.name) / inside).as_posix() if file != given else base.name
    return posixpath.normpath(file.as_posix())


def _check_kind(file: Path, *, may_be_pipe: bool) -> None:
    """Refuse files that may never end: devices, and pipes that nobody named."""
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode) and not (may_be_pipe and stat.S_ISFIFO(mode)):
        raise _NotText(f"{file}: this is not a regular file; write its content to one")


def _documents(file: Path, source: str) -> Iterator[Document]:
    from langchain_core.documents import Document

    suffix = file.suffix.lower()
    if suffix in LINES:
        yield from _rows(file, source)
        return
    found = _READERS.get(suffix, _read_text)(_decoded(file, file.read_bytes()))
    title = found.title or posixpath.splitext(posixpath.basename(source))[0]
    yield Document(
        page_content=found.text, metadata={**found.metadata, "title": title, "source": source, "uri": source}
    )


def _decoded(file: Path, raw: bytes) -> str:
    """The text of a file: UTF-8, or what its first bytes say, or Western European if it is surely text."""
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
    raise _NotText(f"{file}: this is no text; convert it to UTF-8 text, Markdown, HTML or JSON Lines first")


def _decode_as(file: Path, raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise _NotText(f"{file}: it says that it is {encoding}, but it is not ({error}); save it as UTF-8") from error


def _read_text(text: str) -> _Read:
    return _Read(text, "", {})


def _read_markdown(text: str) -> _Read:
    metadata = front_matter(text)
    body = text[front_matter_end(text) :]
    return _Read(body, str(metadata.get("title") or outline(body).title or ""), metadata)


def _read_html(text: str) -> _Read:
    page = from_html(text)
    return _Read(page.text, page.title, {})


def _read_rst(text: str) -> _Read:
    found = from_rst(text)
    return _Read(found.text, found.title, {})


def _rows(file: Path, source: str) -> Iterator[Document]:
    with file.open("rb") as lines:
        for number, raw in enumerate(lines, start=1):
            line = raw.decode("utf-8-sig", "replace") if number == 1 else raw.decode("utf-8", "replace")
            if line.strip():
                yield _row(line, f"{file}:{number}", source, number)


def _row(line: str, place: str, source: str, number: int) -> Document:
    from langchain_core.documents import Document

    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{place}: this line is no JSON ({error}); each line must be one JSON object") from error
    if not isinstance(row, dict):
        raise FileError(f'{place}: this line is no JSON object; write it as {{"text": "…"}}')
    metadata = row.pop("metadata", None)
    if metadata is not None and not isinstance(metadata, dict):
        raise FileError(f"{place}: metadata is {type(metadata).__name__}, an object is wanted")
    key = next((key for key in _TEXT_KEYS if isinstance(row.get(key), str)), None)
    if key is None:
        raise FileError(f'{place}: there is no text; give it as "text" (found: {", ".join(row) or "nothing"})')
    text, id = row.pop(key), row.pop("id", None)
    merged = {"source": source, **row, **(metadata or {})}
    if id is None:
        # Without an id a line is known by its place.
        merged.setdefault("document_id", f"{source}:{number}")
    return Document(page_content=text, metadata=merged, id=None if id is None else str(id))


def _as_file_error(path: Path, error: Exception) -> FileError:
    if isinstance(error, FileError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return FileError(f"{path}: it cannot be read: {reason}")


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


_HTML = frozenset([".html", ".htm", ".xhtml"])
LINES = frozenset([".jsonl", ".ndjson"])
"""The suffixes of files of which every line is a document."""
_READERS: dict[str, Callable[[str], _Read]] = {
    ".txt": _read_text,
    ".text": _read_text,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".mdx": _read_markdown,
    ".rst": _read_rst,
    ".rest": _read_rst,
    **dict.fromkeys(_HTML, _read_html),
}
SUPPORTED_SUFFIXES = tuple(sorted([*_READERS, *LINES]))
"""The suffixes of the files that are read in folders."""
