"""Search for files in folders."""

from __future__ import annotations

import os
import posixpath
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path


class FolderScan:
    """Search for files in folders.

    Symbolic links are followed last. A file that can be found both directly and through a link is therefore found
    directly.

    Only files for which ``is_read`` returns True are yielded; ``passed_over`` counts the others by suffix. Hidden
    files, the files of an index and Python's bytecode are neither yielded nor counted.

    ``leave_out`` is called with a path and a reason for each folder that cannot be read, for each of the ``paths`` that
    is the folder of an index, and for folders of installed packages below ``paths``. ``leave_out_link`` is called in
    the same way for each symbolic link that is not followed.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        is_read: Callable[[Path], bool],
        leave_out: Callable[[Path, str], None],
        leave_out_link: Callable[[Path, str], None],
        *,
        follow_links: bool,
    ) -> None:
        from langchain_hybridgraph.stores.folder import CATALOG, LOCK  # imports the engines

        self.passed_over: Counter[str] = Counter()
        self._roots = [os.path.realpath(path) for path in paths]
        self._is_read = is_read
        self._leave_out = leave_out
        self._leave_out_link = leave_out_link
        self._follow_links = follow_links
        self._visited: set[tuple[int, int]] = set()
        self._names_in_index = {CATALOG, LOCK}

    def files(self, folder: Path) -> Iterator[Path]:
        """Yield the files to read in a folder and its subfolders. Each folder is visited only once."""
        links = deque[Path]()
        yield from self._files_in(folder, links)
        while links:
            link = links.popleft()
            if os.path.isdir(link):
                if self._may_follow(link):
                    yield from self._files_in(link, links)
            elif self._passes(link) and self._may_follow(link):
                yield link

    def _files_in(self, folder: Path, links: deque[Path]) -> Iterator[Path]:
        stack = [iter([(folder, True)])]  # not recursive: folders may be nested deeper than Python's recursion limit
        while stack:
            path, is_folder = next(stack[-1], (None, False))
            if path is None:
                stack.pop()
            elif is_folder:
                stack.append(iter(self._entries(path, links)))
            elif self._passes(path):
                yield path

    def _entries(self, folder: Path, links: deque[Path]) -> list[tuple[Path, bool]]:
        """Return (path, is_folder) for the visible entries of a folder, sorted by name. Symbolic links are added to
        ``links`` instead.

        The list is empty if the folder was visited before, cannot be read, or contains an index.
        """
        try:
            status = folder.stat()
            identity = status.st_dev, status.st_ino
            if identity in self._visited:
                return []
            self._visited.add(identity)
            with os.scandir(folder) as entries:
                entries_by_name = {entry.name: entry for entry in entries if entry.name[0] != "."}
            entries_by_name.pop("__pycache__", None)
            names, visible = entries_by_name.keys(), [entries_by_name[name] for name in sorted(entries_by_name)]
            is_installed = folder.name == "node_modules" or "pyvenv.cfg" in names
            if is_installed and os.path.realpath(folder) not in self._roots:
                self._leave_out(folder, "this folder contains installed packages; to read it, pass its path")
                return []
            if self._names_in_index <= names:
                if os.path.realpath(folder) in self._roots:
                    self._leave_out(folder, "this folder is an index; pass the folder of the documents")
                return []
            links.extend(folder / entry.name for entry in visible if entry.is_symlink())
            return [(folder / entry.name, entry.is_dir()) for entry in visible if not entry.is_symlink()]
        except OSError as error:
            self._leave_out(folder, f"it cannot be read: {error.strerror or error}")
            return []

    def _passes(self, path: Path) -> bool:
        if self._is_read(path):
            return True
        self.passed_over[path.suffix.lower()] += 1
        return False

    def _may_follow(self, link: Path) -> bool:
        real = os.path.realpath(link)
        if self._follow_links or not os.path.exists(real):  # reading reports a broken link
            return True
        inside = any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in self._roots)
        if not inside:
            self._leave_out_link(
                link, f"this link points outside the folder, to {real}; pass follow_links=True to follow it"
            )
        return inside


def source_of(root: Path, file: Path) -> str:
    """Return the ``source`` of a file. ``root`` is the path that the user passed: the file itself or a folder that
    contains it.

    The source is the normalised path of the file. If ``root`` is absolute or contains "..", the source begins with the
    name of ``root``: if ``root`` is ``/data/docs``, the source of ``/data/docs/a.md`` is ``docs/a.md``. Bytes of the
    path that are not valid UTF-8 are escaped, as in ``caf\\xe9.md``.
    """
    source = posixpath.normpath(file.as_posix())
    if root.is_absolute() or ".." in root.parts:
        base = root.resolve()
        inside = file.relative_to(root)
        source = (Path(base.name) / inside).as_posix() if file != root else base.name
    return source.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_regular(file: Path, *, may_be_pipe: bool) -> bool:
    """Return whether a file is a regular file, or a pipe if ``may_be_pipe`` is set. Devices are excluded because
    reading one may never end.
    """
    mode = file.stat().st_mode
    return stat.S_ISREG(mode) or (may_be_pipe and stat.S_ISFIFO(mode))
