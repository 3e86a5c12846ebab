"""Reading files in another process, with limits."""

import json
import queue
import re
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import describe_error
from langchain_hybridgraph.execution.processes import start_python

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
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
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

    def read(self, path: Path, note: Callable[[str], None]) -> list[FilePart]:
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
        raise too_long()

    def _start(self) -> subprocess.Popen[str]:
        code = f"from {__package__}.office import answer_requests; answer_requests()"
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
            raise UnreadableError(
                f"reading it takes more than {MAX_PART_SECONDS:.0f} s for a page or {MAX_SECONDS:.0f} s in total"
            ) from None
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


def too_long() -> UnreadableError:
    """Return the error for a text that is too long."""
    return UnreadableError(f"its text has more than {MAX_CHARACTERS:,} characters; split it into smaller files")


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
    UTF-8, then the one that an HTML file declares, or otherwise cp1252 if most bytes are ASCII.
    """
    encoding = next((encoding for mark, encoding in _BOMS if raw.startswith(mark)), None)
    if encoding is None and _CONTROLS.search(raw, 0, 1 << 16) is None:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            declared = _CHARSET.search(raw, 0, 4_096) if is_html else None
            if declared:
                encoding = declared[1].decode("ascii")
            elif sum(byte < 0x80 for byte in raw[: 1 << 16]) >= 0.7 * len(raw[: 1 << 16]):
                return raw.decode("cp1252", "replace")
    if encoding is None:
        raise UnreadableError("this is not text; convert it to UTF-8 text, Markdown, HTML or JSON Lines first")
    try:
        return raw.decode(encoding)
    except (UnicodeError, LookupError) as error:
        raise UnreadableError(
            f"it declares the encoding {encoding}, but cannot be decoded with it ({error}); save it as UTF-8"
        ) from error
