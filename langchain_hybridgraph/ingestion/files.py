"""Reading files and folders, and finding unchanged files."""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import posixpath
import stat
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache, cached_property, partial
from hashlib import blake2b, file_digest
from importlib import metadata as package_metadata
from itertools import islice
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.chunks import MOST_NESTED, is_nested_too_deeply
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError, as_path, quote_value, shorten
from langchain_hybridgraph.execution.processes import counted
from langchain_hybridgraph.ingestion import bounded, markdown
from langchain_hybridgraph.ingestion.bounded import KINDS, BoundedReader, UnreadableError
from langchain_hybridgraph.ingestion.markup import from_html, from_rst
from langchain_hybridgraph.records import FileRecord
from langchain_hybridgraph.stores.protocols import RecordsFiles

if TYPE_CHECKING:
    from langchain_core.documents import Document


def source_of(root: Path, file: Path) -> str:
    """Return the ``source`` of a file: its normalised path. ``root`` is the path that the user passed.

    If ``root`` is absolute or contains "..", the source begins with its name: for ``/data/docs``, the source of
    ``/data/docs/a.md`` is ``docs/a.md``. Bytes that are not valid UTF-8 are escaped, as in ``caf\\xe9.md``.
    """
    source = posixpath.normpath(file.as_posix())
    if root.is_absolute() or ".." in root.parts:
        base = root.resolve()
        source = (Path(base.name) / file.relative_to(root)).as_posix() if file != root else base.name
    return source.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_regular(file: Path, *, may_be_pipe: bool) -> bool:
    """Return whether a file can be read to its end: a regular file, or a pipe if ``may_be_pipe`` is set."""
    mode = file.stat().st_mode
    return stat.S_ISREG(mode) or (may_be_pipe and stat.S_ISFIFO(mode))


class FileError(HybridGraphError, ValueError):
    """Error for a file that cannot be read as a document, with its path, the reason and any line number."""


class File(NamedTuple):
    """File to read: passed by its own path if ``is_named``, and matching a pattern in ``as_text`` if ``is_text``."""

    path: Path
    source: str
    is_named: bool
    is_text: bool = False


class FileDocuments(Iterator["Document"]):
    """Iterator over the documents in files. Each file is read when its first document is requested.

    If nothing is read, the iteration ends with FileError, unless ``may_be_empty`` is set.

    Three attributes describe the files and subfolders that were left out so far:

    - ``skipped`` lists messages with the reasons.
    - ``passed_over`` is the number of files that were left out, by suffix.
    - ``unread`` contains the reason for each path that was not read, or of which some lines of JSON were not read.

    ``unread_sources`` lists the sources of files that were not read, and of folders that could not be listed, which end
    with ``/``. Documents with these sources are not pruned.
    """

    def __init__(
        self, paths: Sequence[Path], note: Callable[[str], None], *, follow_links: bool, as_text: Sequence[str] = ()
    ) -> None:
        from langchain_hybridgraph.stores.index import CATALOG, LOCK  # imports the engines

        self.as_text = as_text
        self.may_be_empty = not paths
        self.skipped: list[str] = []
        self.unread: dict[str, str] = {}
        self.unread_sources: list[str] = []
        self._paths = paths
        self._note = note
        self._follow_links = follow_links
        self._reader = BoundedReader()
        self._unsuitable = Counter[str]()  # files that are not of a kind to read, by suffix
        self._roots = [os.path.realpath(path) for path in paths]
        self._visited: set[tuple[int, int]] = set()
        self._index_files = {CATALOG, LOCK}
        self._documents = self._read_all()

    def __next__(self) -> Document:
        return next(self._documents)

    @property
    def passed_over(self) -> dict[str, int]:
        """Number of files that were left out so far, completely or in part, by suffix ("" for files without one)."""
        unread = Counter(path.suffix.lower() for path in map(Path, self.unread) if not path.is_dir())
        return dict(sorted((self._unsuitable + unread).items()))

    @cached_property
    def files(self) -> list[File]:
        """Files to read, without duplicates. Raises FileError for a missing path or a repeated ``source``."""
        files = list(self._find())
        if self._unsuitable:
            self._report(f"skipped {listed_suffixes(self._unsuitable)}: files of this kind are not read{_AS_TEXT}")
        for pattern in self.as_text:
            if not any(file.path.match(pattern) for file in files):
                self._report(f'no file matches as_text="{pattern}"; a pattern is the end of a path, as in {_PATTERNS}')
        return files

    def check(self, count: int) -> None:
        """Raise FileError if the number of documents read (``count``) is 0."""
        if not count and not self.may_be_empty:
            raise self.nothing_read()

    def nothing_read(self) -> FileError:
        """Return the error for the case that nothing was read."""
        reasons = [f"{path}: {reason}" for path, reason in islice(self.unread.items(), 3)]
        folders = ", ".join(map(str, self._paths))
        return FileError(f"nothing was read in {folders}: {'; '.join(reasons) or 'the files contain no documents'}")

    def _read_all(self) -> Iterator[Document]:
        count = 0
        self.check(len(self.files))
        for file in self.files:
            for document in self.read(file):
                count += 1
                yield document
        self.check(count)

    def read(self, file: File) -> Iterator[Document]:
        """Yield the documents of one file. Skip an unreadable file, or raise FileError if it is the only path."""
        suffix = "" if file.is_text else file.path.suffix.lower()
        try:
            if not is_regular(file.path, may_be_pipe=file.is_named):
                raise UnreadableError("this is not a regular file; copy its content into a regular file")
            if suffix in KINDS:
                parts = self._reader.read(file.path, lambda message: self._report(f"skipped {file.path}: {message}"))
                yield from (_as_document(file.source, *part) for part in parts)
            elif suffix in LINES:
                yield from _rows(file)
            else:
                yield _document(file)
        except Exception as error:  # noqa: BLE001 - a file may make a reader raise anything
            self.leave_out(file, error)

    def leave_out(self, file: File, error: Exception) -> None:
        """Record that a file could not be read, or raise FileError if it is the only path."""
        reason = bounded.reason_of(error)
        if file.is_named and len(self._paths) == 1:
            raise FileError(f"{file.path}: {reason}") from error
        self.unread_sources.append(file.source)
        self._leave_out(file.path, reason)

    def _leave_out(self, path: Path, reason: str) -> None:
        self.unread[str(path)] = reason
        self._report(f"skipped {path}: {reason}")

    def _report(self, message: str) -> None:
        self.skipped.append(message)
        self._note(message)

    # -- finding files ---------------------------------------------------------------------------------------------

    def _find(self) -> Iterator[File]:
        paths_by_source: dict[str, str] = {}
        real_paths: set[str] = set()
        for number, path in enumerate(self._paths):
            if not os.path.exists(path):  # Path.exists raises for a name that is too long
                advice = f"; write read_files(glob.glob({str(path)!r}))" if "*" in str(path) else ""
                raise FileError(f"{path}: there is no such file or folder{advice}")
            is_named = not path.is_dir()
            before = self._unsuitable.copy()
            files = [path] if is_named else list(self._scan(path))
            # A folder that was searched before yields no file.
            if not files and not any(map(Path(self._roots[number]).is_relative_to, self._roots[:number])):
                contents = listed_suffixes(self._unsuitable - before) or "no files"
                if str(path) not in self.unread:
                    self._leave_out(path, f"found {contents}; folders are searched for {_SEARCHED}{_AS_TEXT}")
            for file in files:
                source = source_of(path, file)
                real_path = os.path.realpath(file)
                if paths_by_source.setdefault(source, real_path) != real_path:
                    raise FileError(
                        f"{file} and {paths_by_source[source]} would both have the source {source!r}: pass the "
                        "folder that contains both, or run in that folder and pass relative paths"
                    )
                if real_path not in real_paths:  # skip a file found again through a link or another argument
                    real_paths.add(real_path)
                    yield File(file, source, is_named, self._is_text(file))

    def _scan(self, folder: Path) -> Iterator[Path]:
        """Yield the files to read in a folder and its subfolders, and count the others.

        Symbolic links are followed last, so that files are found directly if possible.
        """
        links = deque[Path]()
        stack = [(folder, True)]  # not recursive: folders may be nested deeper than Python's recursion limit
        while stack or links:
            if not stack:
                link = links.popleft()
                is_folder = os.path.isdir(link)
                if (is_folder or self._is_suitable(link)) and self._may_follow(link):
                    stack.append((link, is_folder))
                continue
            path, is_folder = stack.pop()
            if is_folder:
                try:
                    stack += reversed(self._entries(path, links))
                except OSError as error:
                    # The source of a file in the folder, without its name; below ".", it is the name only.
                    self.unread_sources.append(source_of(folder, path / "_")[:-1])
                    self._leave_out(path, f"it cannot be read: {error.strerror or error}")
            elif self._is_suitable(path):
                yield path

    def _entries(self, folder: Path, links: deque[Path]) -> list[tuple[Path, bool]]:
        """Return (path, is_folder) for the visible entries, sorted by name; symbolic links go to ``links``.

        The list is empty if the folder was visited before, contains an index or installed packages.
        """
        status = folder.stat()
        identity = status.st_dev, status.st_ino
        if identity in self._visited:
            return []
        self._visited.add(identity)
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=attrgetter("name"))
        visible = [entry for entry in ordered if entry.name[0] != "." and entry.name != "__pycache__"]
        names = {entry.name for entry in visible}
        is_index = self._index_files <= names
        if is_index or folder.name == "node_modules" or "pyvenv.cfg" in names:
            is_root = os.path.realpath(folder) in self._roots
            if is_index and is_root:
                self._leave_out(folder, "this folder is an index; pass the folder of the documents")
            elif not is_index and not is_root:
                self._leave_out(folder, "this folder contains installed packages; to read it, pass its path")
            if is_index or not is_root:
                return []
        links.extend(folder / entry.name for entry in visible if entry.is_symlink())
        return [(folder / entry.name, entry.is_dir()) for entry in visible if not entry.is_symlink()]

    def _is_text(self, path: Path) -> bool:
        return any(path.match(pattern) for pattern in self.as_text)

    def _is_suitable(self, path: Path) -> bool:
        if path.suffix.lower() in SUPPORTED_SUFFIXES or self._is_text(path):
            return True
        self._unsuitable[path.suffix.lower()] += 1
        return False

    def _may_follow(self, link: Path) -> bool:
        real = os.path.realpath(link)
        # Reading reports a broken link.
        if self._follow_links or not os.path.exists(real) or any(map(Path(real).is_relative_to, self._roots)):
            return True
        self._leave_out(link, f"this link points outside the folder, to {real}; pass follow_links=True to follow it")
        return False


def read_text_file(file: File) -> Document | None:
    """Return the document in a text file, or None for another kind of file. Raises any error of its reader."""
    suffix = file.path.suffix.lower()
    if not file.is_text and (suffix in LINES or suffix in KINDS):
        return None
    return _document(file) if is_regular(file.path, may_be_pipe=False) else None


def read_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    skipped: Callable[[str], None] | None = None,
    follow_links: bool = False,
    as_text: str | Iterable[str] = (),
) -> FileDocuments:
    """Return an iterator over the documents in files and folders; files in folders are ordered by name.

    Each text, Markdown, HTML or reStructuredText file is one document. Each line of a JSON Lines file is one document,
    with ``text`` (or ``page_content``, ``content``) and optional ``id`` and ``metadata``; other keys become metadata.

    ``source`` in the metadata is the path of the file. If the argument is an absolute path or contains "..", ``source``
    begins with the last part of that path: the files in ``/home/ada/docs`` have a ``source`` such as ``docs/a.md``.
    Documents also have a ``title`` and a ``uri``, which equals ``source``; documents from JSON Lines have neither
    unless the line contains them.

    Front matter, and ids of headings that equal the heading (``## Title { #title }``), are removed from the text of
    Markdown, so ``start_index`` in the metadata of a chunk is a position in the remaining text, not in the file.

    Source code, logs and CSV files are also read, as are PDF, Word, PowerPoint and Excel files if the extra
    ``documents`` is installed. Such a file may become several Documents with one ``source``. Each contains its location
    in the metadata: ``page`` (page or slide, from 1), ``section_heading``, ``table``, ``sheet``, ``row``, or
    ``start_line`` and ``end_line``. These files are read in another process with limited time and memory. Source code
    is split at definitions; in Python, their names are in ``section_heading``.

    In folders, hidden files, indexes, folders of installed packages (``node_modules``, virtual environments) and files
    whose suffix is not in SUPPORTED_SUFFIXES are left out. Each folder is visited only once. Symbolic links to targets
    outside these folders are followed only with ``follow_links=True``. Files that match ``as_text``, one or several
    patterns such as ``"*.conf"`` or ``"etc/*.ini"``, are read as plain text, as is a file with another suffix that is
    passed by its own path.

    Files that cannot be read (damaged, encrypted, not text, a device, or a pipe in a folder) are also left out. The
    ``unread`` attribute of the result, and of the report of ``ingest``, contains the reason for each of them, for each
    of ``paths`` that is the folder of an index, and for each JSON Lines file with invalid lines, whose other lines are
    read. ``skipped`` is called with a message about each omission; by default, a Python warning is issued.

    While the documents are read, FileError is raised for a path that does not exist, for two different files with the
    same ``source``, and if nothing can be read. If ``paths`` is a single file, FileError is also raised if the file
    cannot be read or has an invalid line of JSON.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "cats.md").write_text("# Cats\\n\\nThey purr.")
    ...     [(document.metadata["title"], document.page_content) for document in read_files(folder)]
    [('Cats', '# Cats\\n\\nThey purr.')]
    """
    several = not isinstance(paths, str | bytes | Mapping) and isinstance(paths, Iterable)
    every: Any = paths if several else [paths]
    patterns: Any = [as_text] if isinstance(as_text, str) or not isinstance(as_text, Iterable) else list(as_text)
    if not all(isinstance(pattern, str) and pattern.strip("/.") for pattern in patterns):
        raise ConfigurationError(
            f"as_text must be a pattern or a list of patterns, got {as_text!r}; a pattern is the end of a path, as in "
            f"{_PATTERNS}"
        )
    note = skipped or (lambda message: warnings.warn(message, stacklevel=2))
    return FileDocuments([as_path("path", path) for path in every], note, follow_links=follow_links, as_text=patterns)


def _document(file: File) -> Document:
    suffix, source = file.path.suffix.lower(), file.source
    text = bounded.read_text(file.path, is_html=suffix in _HTML)
    title, metadata = "", dict[str, Any]()
    if suffix in _MARKDOWN and not file.is_text:
        metadata = markdown.front_matter(text)
        text = markdown.without_heading_ids(text[markdown.front_matter_end(text) :])
        title = str(metadata.get("title") or markdown.outline(text).title or "")
    elif suffix in _HTML | _RST and not file.is_text:
        text, title = from_html(text) if suffix in _HTML else from_rst(text)
    return _as_document(source, text, metadata, title)


def _as_document(source: str, text: str, metadata: Mapping[str, Any], title: str) -> Document:
    from langchain_core.documents import Document

    location = {"title": title or PurePosixPath(source).stem, "source": source, "uri": source}
    return Document(page_content=text, metadata={**metadata, **location})


def _rows(file: File) -> Iterator[Document]:
    """Yield one document per line of a JSON Lines file. Then raise UnreadableError if lines are invalid."""
    reason, count = "", 0
    for number, line in _lines(file.path):
        try:
            yield _row(line, file.source, number)
        except UnreadableError as error:
            reason, count = reason or f"line {number}: {error}", count + 1
    if count:
        raise UnreadableError(f"{reason} (invalid lines: {count:,})")


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    with file.open("rb") as lines:
        read = partial(lines.readline, bounded.MAX_TEXT_BYTES)
        for number, raw in enumerate(iter(read, b""), start=1):
            rest = raw
            while len(rest) == bounded.MAX_TEXT_BYTES and not rest.endswith(b"\n"):  # the line is too long
                rest = read()
            if (line := raw.decode("utf-8-sig" if number == 1 else "utf-8", "replace")).strip():
                yield number, line


def _row(line: str, source: str, number: int) -> Document:
    from langchain_core.documents import Document

    if len(line) > bounded.MAX_CHARACTERS:
        raise UnreadableError(f"this line has more than {bounded.MAX_CHARACTERS:,} characters; split its text")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"this line is not JSON ({error}); each line must be one JSON object") from error
    if not isinstance(row, dict):
        raise UnreadableError('this line is not a JSON object; write it as {"text": "…"}')
    metadata = row.pop("metadata", None)
    if metadata is not None and not isinstance(metadata, dict):
        raise UnreadableError(f"metadata must be an object, got {quote_value(metadata)}")
    key = next((key for key in ("text", "page_content", "content") if isinstance(row.get(key), str)), None)
    if key is None:
        fields = shorten(", ".join(row) or "nothing", 200)
        raise UnreadableError(f'the text is missing; put it in the field "text" (fields: {fields})')
    text, id = row.pop(key), row.pop("id", None)
    merged = {"source": source, **row, **(metadata or {})}
    # Counting brackets takes a fraction of the time, and rules out nearly every line.
    if line.count("[") + line.count("{") > MOST_NESTED and is_nested_too_deeply(merged):
        raise UnreadableError(f"the metadata is nested more than {MOST_NESTED} levels deep; flatten it")
    if id == "":
        raise UnreadableError("the id is empty; change it, or leave it out")
    for name, value in {**merged, "id": id}.items():
        if name in ("id", "document_id", "source") and "\0" in str(value):
            raise UnreadableError(f"the {name} {quote_value(value)} contains a NUL character; remove it")
    if id is None:
        # Without an id, a line is identified by its number.
        merged.setdefault("document_id", f"{source}:{number}")
    return Document(page_content=text, metadata=merged, id=None if id is None else str(id))


def listed_suffixes(counts: Mapping[str, int]) -> str:
    """Return the number of files for each suffix as one string, the most frequent suffix first."""
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count} {suffix or 'without a suffix'}" for suffix, count in ordered)


_PLAIN = frozenset([".txt", ".text"])
_MARKDOWN = frozenset([".md", ".markdown", ".mdx"])
_HTML = frozenset([".html", ".htm", ".xhtml"])
_RST = frozenset([".rst", ".rest"])
LINES = frozenset([".jsonl", ".ndjson"])
"""Suffixes of files with one document per line."""
_PATTERNS = '"*.conf", "etc/*.ini" or "Makefile"'
_AS_TEXT = '; to read them as text, pass a pattern, such as as_text="*.conf"'
_SEARCHED = "text, Markdown, HTML, reStructuredText, JSON Lines, CSV, logs, source code, PDF and Office files"
SUPPORTED_SUFFIXES = tuple(sorted([*_PLAIN, *_MARKDOWN, *_HTML, *_RST, *LINES, *KINDS]))
"""Suffixes of the files that are read in folders; some need the extra ``documents``."""

# -- unchanged files -------------------------------------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]
# Libraries used to read files or split text.
_READERS = ("markdown-it-py", "pypdf", "python-docx", "python-pptx", "openpyxl", "langchain-text-splitters")


def fingerprint(splitter: Any, builders: Iterable[Any], as_text: Sequence[str]) -> bytes | None:
    """Return a digest of the options and code of an ingest, or None if other processes cannot identify an option.

    It covers the splitter and the edge builders, ``as_text``, the package's ingestion code, and the versions of Python
    and of the libraries that read files. Options that other processes cannot identify are lambdas, functions or classes
    that are local or defined in ``__main__``, and models.
    """
    options = io.BytesIO()
    try:
        _OptionsPickler(options).dump((splitter, list(map(_options, builders)), list(as_text)))
    except Exception:  # noqa: BLE001 - an option may raise anything when it is pickled
        return None
    words = options.getvalue()
    return None if b"__main__" in words else blake2b(_code() + words, digest_size=16).digest()


class _OptionsPickler(pickle.Pickler):
    """Pickler that refuses models and other large objects, whose states are not options."""

    def reducer_override(self, value: Any) -> Any:
        package = type(value).__module__.partition(".")[0]
        is_option = isinstance(value, type) or is_dataclass(value)
        if is_option or package in ("builtins", "langchain_text_splitters", _PACKAGE):
            return NotImplemented
        raise pickle.PicklingError(f"{type(value).__name__} is not an option")


@cache
def _code() -> bytes:
    digest = blake2b(f"{sys.version_info}".encode())
    for name in (_PACKAGE.replace("_", "-"), *_READERS):
        with suppress(package_metadata.PackageNotFoundError):
            digest.update(f"{name} {package_metadata.version(name)}\0".encode())
    package = Path(__file__).parents[1]
    for file in sorted([*(package / "ingestion").rglob("*.py"), *(package / "text").glob("*.[pt]*")]):
        digest.update(file.read_bytes())
    return digest.digest()


def _options(builder: Any) -> list[Any]:
    """Return a builder's class, relations and arguments, which are attributes with or without "_"."""
    names = [name for name in inspect.signature(type(builder)).parameters if name != "relation"]
    values = [getattr(builder, name, getattr(builder, f"_{name}", builder)) for name in names]
    return [type(builder), tuple(builder.relations), values]


_TICK = 2_000_000_000
"""Nanoseconds within which two changes of a file may get the same modification time, in the coarsest file system."""


class KnownFiles:
    """Records of ingested files, which let an ingest skip the files that have not changed.

    A file is not read if its stamp (size, times and inode) or the digest of its bytes equals the recorded one. Files
    recorded with another :func:`fingerprint` are read again; if it is None, all files are read.
    """

    def __init__(self, store: RecordsFiles, splitter: Any, builders: Iterable[Any], as_text: Sequence[str]) -> None:
        self._store = store
        self._made_by = made_by = fingerprint(splitter, builders, as_text)
        records = {record.source: record for record in store.files.read()}
        self._stored_documents = {source: record.documents for source, record in records.items()}
        self._records = {source: record for source, record in records.items() if record.made_by == made_by}
        self._owners = {document: source for source, record in self._records.items() for document in record.documents}
        self._shared: set[str] = set()  # files with the same document: the last one replaces the others
        self.unread: dict[str, tuple[File, FileRecord]] = {}  # unchanged files, without those that share a document
        self._reading: dict[str, FileRecord] = {}  # files that are read in this ingest
        self._documents: dict[str, dict[str, None]] = {}  # their documents

    def check_sources(self, files: Sequence[File]) -> str | None:
        """Return a warning if some of these files are also in the store under another ``source``, else None.

        Raises FileError if a ``source`` of these files belongs to another file in the store that still exists.
        """
        paths = dict(self._store.files.paths())
        for file in files:
            path = paths.get(file.source)
            if path is not None and path != _absolute(file.path) and _is_another_file(path, file.path):
                raise FileError(
                    f"{file.path} would have the source {file.source!r}, but an earlier ingest used this source "
                    f"for {os.fsdecode(path)}: pass the folder that contains both, run in that folder and pass "
                    "relative paths, or use another store"
                )
        own = {file.source for file in files}
        sources = {path: source for source, path in paths.items() if source not in own}
        if not sources:
            return None
        pairs = [(file.source, sources[path]) for file in files if (path := _absolute(file.path)) in sources]
        if not pairs:
            return None
        count = counted(len(pairs), "file is", "files are")
        return (
            f"{count} also in the index under another source, for example {pairs[0][0]!r} as {pairs[0][1]!r}; ingest "
            "in the same working folder each time, and delete the documents with one of the two sources"
        )

    def is_unchanged(self, file: File) -> bool:
        """Return whether a file has not changed; if so, count it as unread."""
        if (record := self._records.get(file.source)) is None:
            return False
        stamp = _stamp(file.path)
        if (not stamp or stamp != record.stamp) and _digest_of(file.path) != record.digest:
            return False
        self.unread[file.source] = file, record._replace(stamp=stamp or record.stamp, path=_absolute(file.path))
        return True

    def start_reading(self, file: File) -> None:
        """Record the stamp and digest of a file before it is read."""
        source, path, made_by = file.source, file.path, self._made_by or b""
        self.unread.pop(source, None)
        digest = _digest_of(path) if made_by else b""
        self._reading[source] = FileRecord(source, _stamp(path), digest, made_by, 0, 0, (), _absolute(path))
        self._documents[source] = {}

    def forget(self, file: File) -> None:
        """Let the next ingest read this file again."""
        self._reading[file.source] = self._reading[file.source]._replace(digest=b"")

    def stored_documents(self, sources: Sequence[str]) -> Iterator[str]:
        """Yield the ids of the stored documents of files whose source begins with one of ``sources``."""
        beginnings = tuple(sources)
        for source, documents in self._stored_documents.items():
            if source.startswith(beginnings):
                yield from documents

    def add(self, file: File, document: str, chunks: int, parents: int) -> str | None:
        """Record a document of the file that is being read, with the numbers of its chunks and parents.

        Return a warning for the first document that it has in common with another existing file, else None.
        """
        source = file.source
        reading = self._reading[source]
        self._reading[source] = reading._replace(chunks=reading.chunks + chunks, parents=reading.parents + parents)
        self._documents[source][document] = None
        if (owner := self._owners.setdefault(document, source)) == source:
            return None
        is_new = not self._shared.issuperset((owner, source))
        self._shared.update((owner, source))
        record = self._records.pop(owner, None)
        self.unread.pop(owner, None)
        if not is_new or (record is not None and not os.path.exists(record.path)):
            return None
        return f"{owner} and {source} both have the id {document!r}: only the text that was read last is kept"

    def outdated(self) -> list[File]:
        """Return the unchanged files to read after all, because a file on which their edges depend has changed."""
        sources = self._store.files.sources() if self.unread else ()
        files = [file for source, (file, _) in self.unread.items() if source not in sources]
        for file in files:
            del self.unread[file.source], self._records[file.source]
        return files

    def save(self) -> None:
        """Store records, stamps and paths. Call this only when all chunks of the files are in the store."""
        records = [
            record._replace(documents=tuple(documents), digest=b"" if source in self._shared else record.digest)
            for source, record in self._reading.items()
            if (documents := self._documents[source])
        ]
        of_moved_files = [record for source, (_, record) in self.unread.items() if record != self._records[source]]
        self._store.files.write([*records, *of_moved_files])


def _absolute(path: Path) -> bytes:
    """Return the absolute path in the encoding of the file system, with symbolic links, whose targets may change."""
    return os.fsencode(os.path.join(os.getcwd(), path))  # pathlib takes twenty times as long


def _is_another_file(recorded: bytes, path: Path) -> bool:
    """Return whether the recorded file still exists (or cannot be checked) and is not the file at ``path``."""
    try:
        status = os.stat(recorded)
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    with suppress(OSError):  # reading the file reports the reason
        return not os.path.samestat(status, os.stat(path))
    return False


def _stamp(path: Path) -> str:
    """Return the size, times and inode of a file as one string, to detect changes, or "" if this could miss one.

    The next change of a file that was changed less than ``_TICK`` ago could get the same modification time.
    """
    now = time.time_ns()
    try:
        status = os.stat(path)
    except OSError:
        return ""  # reading the file reports the reason
    if not stat.S_ISREG(status.st_mode) or now - max(status.st_mtime_ns, status.st_ctime_ns) < _TICK:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _digest_of(path: Path) -> bytes:
    with suppress(OSError):  # reading the file reports the reason
        if path.is_file():
            with path.open("rb") as file:
                return file_digest(file, partial(blake2b, digest_size=16)).digest()
    return b""
