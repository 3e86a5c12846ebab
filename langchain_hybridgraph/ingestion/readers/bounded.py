"""Reading files in another process, with limits."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers import limits
from langchain_hybridgraph.ingestion.readers.kinds import FilePart, UnreadableError

_SMALLEST = 200  # characters that a part counts at least, because every part takes memory


class BoundedReader:
    """Reader that reads one file at a time in a worker process. If the process has ended, the next file is read in a
    new process.
    """

    def __init__(self) -> None:
        self._worker: _ReaderProcess | None = None

    def read(self, path: Path, note: Callable[[str], None]) -> list[FilePart]:
        """Return the parts of a file. ``note`` is called with warnings. Raises UnreadableError if the file cannot be
        read.
        """
        if path.stat().st_size > limits.BYTES:
            raise UnreadableError(f"its size is {path.stat().st_size >> 20:,} MB; the limit is {limits.BYTES >> 20} MB")
        if self._worker is None or self._worker.is_over:
            self._worker = _ReaderProcess()
        worker, parts, size = self._worker, list[FilePart](), 0
        worker.ask(path)
        deadline = time.monotonic() + limits.SECONDS
        while True:
            answer = worker.answer(min(limits.PART_SECONDS, deadline - time.monotonic()))
            if "note" in answer:
                note(answer["note"])
            elif "part" in answer:
                parts.append(FilePart(*answer["part"]))
                size += max(len(parts[-1].text), _SMALLEST)
            elif answer["end"] is not None:
                raise UnreadableError(answer["end"])
            else:
                return parts
            if size > limits.CHARACTERS:
                worker.end()
                raise UnreadableError(
                    f"its text has more than {limits.CHARACTERS:,} characters; split it into smaller files"
                )


class _ReaderProcess:
    """Worker process that reads files, with a thread that collects its answers."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="surrogatepass",
            env={**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8:surrogatepass"},
            start_new_session=True,  # Ctrl-C must not reach this process, only the one that started it
        )
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=_take, args=(self._process.stdout, self._answers), daemon=True).start()
        self._finalizer = weakref.finalize(self, _end, self._process)

    @property
    def is_over(self) -> bool:
        return not self._finalizer.alive or self._process.poll() is not None

    def ask(self, path: Path) -> None:
        """Send a request for the parts of a file."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(str(path.absolute())) + "\n")
        self._process.stdin.flush()

    def answer(self, seconds: float) -> Any:
        """Return the next answer. Raises UnreadableError if the process fails or does not answer within ``seconds``."""
        try:
            line = self._answers.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            self.end()
            raise UnreadableError(
                f"reading it takes more than {limits.PART_SECONDS:.0f} s for a page or {limits.SECONDS:.0f} s in total"
            ) from None
        if not line:
            self.end()
            raise UnreadableError("reading it failed: it is damaged, or needs too much memory")
        return json.loads(line)

    def end(self) -> None:
        self._finalizer()


def _take(lines: Any, answers: queue.SimpleQueue[str]) -> None:
    with lines:
        for line in lines:
            answers.put(line)
    answers.put("")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
