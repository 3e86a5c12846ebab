"""Finds the files in folders."""

from __future__ import annotations

import os
import posixpath
import stat
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path


class Walk:
    """Finds the files that are to be read. Links come last, so that a file with a path without a link is read by it.

    ``suffixes`` are read; ``passed_over`` counts the other files by suffix. Hidden files are neither read nor counted.
    """

    def __init__(
        self, given: Sequence[Path], suffixes: Container[str], skip: Callable[[str], None], *, follow_links: bool
    ) -> None:
        self.passed_over: Counter[str] = Counter()
        self._roots = [os.path.realpath(path) for path in given]
        self._suffixes = suffixes
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
            elif self._is_read(link) and self._may_follow(link):
                yield link

    def _below(self, folder: Path, links: deque[Path]) -> Iterator[Path]:
        waiting = [iter([(folder, True)])]  # not recursive: folders may be nested deeper than Python's calls
        while waiting:
            path, is_folder = next(waiting[-1], (None, False))
            if path is None:
                waiting.pop()
            elif is_folder:
                waiting.append(iter(self._entries(path, links)))
            elif self._is_read(path):
                yield path

    def _entries(self, folder: Path, links: deque[Path]) -> list[tuple[Path, bool]]:
        """Yield the contents of a folder that was not visited before, each with whether it is a folder."""
        try:
            status = folder.stat()
            here = status.st_dev, status.st_ino
            if here in self._visited:
                return []
            self._visited.add(here)
            with os.scandir(folder) as entries:
                shown = sorted((entry for entry in entries if entry.name[0] != "."), key=lambda entry: entry.name)
            links.extend(folder / entry.name for entry in shown if entry.is_symlink())
            return [(folder / entry.name, entry.is_dir()) for entry in shown if not entry.is_symlink()]
        except OSError as error:
            self._skip(f"{folder}: it cannot be read: {error.strerror or error}")
            return []

    def _is_read(self, path: Path) -> bool:
        suffix = path.suffix.lower()
        if suffix in self._suffixes:
            return True
        self.passed_over[suffix] += 1
        return False

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


def is_regular(file: Path, *, may_be_pipe: bool) -> bool:
    """Whether reading a file comes to an end: it is not a device, and a pipe only if it was named."""
    mode = file.stat().st_mode
    return stat.S_ISREG(mode) or (may_be_pipe and stat.S_ISFIFO(mode))
