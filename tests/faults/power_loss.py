"""Disk of a machine that loses its power: system calls, replayed up to a point without what was not synced.

``record`` runs a command under strace. A :class:`Disk` replays the calls, and ``write_survivors`` writes what may be
left after a power failure at that point: all that was synced, and a random part of the rest. Writes are torn into
sectors of 512 bytes. Changes of folders (creations, renames, deletions) survive independently of each other, or, with
``is_ordered``, in their order, as in a journaling file system.
"""

import re
import subprocess
from collections import namedtuple
from pathlib import Path

SECTOR = 512
CALLS = (
    "openat,lseek,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat,"
    "write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile,fallocate,truncate,ftruncate,mmap,"
    "fsync,fdatasync,msync,sync_file_range"
)
NAMES = {"openat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir"}
LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\w+)(?:<[^>]*>)?(?: .*)?$")
UNFINISHED = re.compile(r"(\d+) +(\w+\(.*?),? <unfinished \.\.\.>$")
RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)$")
ARGUMENT = re.compile(r'"([^"]*)"|(\w+)<([^>]*)>|([^,"]+)')

Call = namedtuple("Call", "name texts handles rest result")
"""System call: its strings, its file handles as (number, path), its other arguments, and what it returned."""


def record(command, log, **options):
    """Run a command, and return the system calls that succeeded, in the order of their ends."""
    strace = ["strace", "-f", "-y", "-xx", "-s", str(1 << 24), "--seccomp-bpf", "-e", f"trace={CALLS}", "-o", str(log)]
    subprocess.run([*strace, *command], check=True, stdout=subprocess.PIPE, **options)
    unfinished = {}
    calls = []
    for line in log.read_text("ascii").splitlines():
        if begin := UNFINISHED.match(line):
            unfinished[begin[1]] = begin[2]
            continue
        end = RESUMED.match(line)
        match = LINE.match(f"{end[1]} {unfinished.pop(end[1])}{end[2]}" if end else line)
        if match and not match[4].startswith("-"):
            calls.append(_call(match[2], match[3], int(match[4], 0)))
    return calls


def _call(name, arguments, result):
    texts, handles, rest = [], [], []
    for match in ARGUMENT.finditer(arguments):
        text, number, path, other = match.groups()
        if text is not None:
            texts.append(_decoded(text))
        elif number is not None:
            handles.append((number, _decoded(path).decode()))
        elif other.strip():
            rest.append(other.strip())
    return Call(name, texts, handles, rest, result)


def _decoded(text):
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()


def output(call):
    """Return what a call writes to standard output; empty for other calls."""
    is_output = call.name == "write" and call.handles[0][0] == "1"
    return call.texts[0].decode() if is_output else ""


class File:
    """Synced contents of a file, later writes (offset, data) and truncations (size, None), and the current offset."""

    def __init__(self):
        self.synced, self.pending, self.position = bytearray(), [], 0

    def write(self, data, offset):
        self.pending.append((offset, data))

    def truncate(self, size):
        self.pending.append((size, None))

    def sync(self):
        self.synced = self.survivors(lambda: True)
        self.pending = []

    def survivors(self, survives):
        """Return the synced contents with those later writes, sector by sector, for which ``survives`` returns true."""
        contents = bytearray(self.synced)
        for offset, data in self.pending:
            if data is None:
                if survives():
                    del contents[offset:]
                    contents.extend(bytes(offset - len(contents)))
                continue
            start = offset
            while start < offset + len(data):
                stop = min((start // SECTOR + 1) * SECTOR, offset + len(data))
                if survives():
                    contents.extend(bytes(max(0, start - len(contents))))
                    contents[start:stop] = data[start - offset : stop - offset]
                start = stop
        return contents


class Folder:
    """Entries of a folder, now and as synced."""

    def __init__(self):
        self.entries, self.synced = {}, {}


class Disk:
    """Replays system calls on files below ``root``, which exists and is empty before the first call."""

    def __init__(self, root, *, is_ordered):
        self.root, self._is_ordered = root, is_ordered
        self._top = Folder()
        self._changes = []
        """Changes of folders that are not synced: lists of (folder, name, entry or None)."""

    def concerns(self, call):
        """Return whether a call writes to, syncs or names a file below the root."""
        is_name = call.name in NAMES
        paths = self._paths(call) if is_name else [Path(path) for _, path in call.handles]
        return any(path.is_relative_to(self.root) for path in paths) and not any("(deleted)" in str(p) for p in paths)

    def replay(self, call):
        """Apply one call."""
        getattr(self, f"_{call.name}" if call.name != "write" else "_write_call")(call)

    def write_survivors(self, target, dice):
        """Write what is left after a power failure to a new folder."""
        share = dice.choice([0, 0.1, 0.5, 0.9, 1])
        if self._is_ordered:
            changes = self._changes[: dice.randint(0, len(self._changes))]
        else:
            changes = [change for change in self._changes if dice.random() < share]
        self._write(self._top, _final_entries(changes), target, lambda: dice.random() < share)

    def write_all(self, target):
        """Write the current contents, as if everything had been synced."""
        self._write(self._top, _final_entries(self._changes), target, lambda: True)

    def _write(self, folder, changes, target, survives):
        target.mkdir()
        for name, entry in (folder.synced | changes.get(folder, {})).items():
            if isinstance(entry, Folder):
                self._write(entry, changes, target / name, survives)
            elif entry is not None:
                (target / name).write_bytes(entry.survivors(survives))

    # -- paths ----------------------------------------------------------------------------------------------

    def _place(self, path):
        """Return the folder and the name of a path; None for the name of the root."""
        folder, parts = self._top, Path(path).relative_to(self.root).parts
        for part in parts[:-1]:
            folder = folder.entries[part]
        return folder, parts[-1] if parts else None

    def _find(self, path):
        folder, name = self._place(path)
        return folder if name is None else folder.entries[name]

    def _handle(self, call):
        return self._find(call.handles[0][1])

    def _paths(self, call):
        bases = [path for _, path in call.handles] or [""]
        return [Path(bases[min(place, len(bases) - 1)]) / text.decode() for place, text in enumerate(call.texts)]

    def _change(self, *effects):
        for folder, name, entry in effects:
            if entry is None:
                del folder.entries[name]
            else:
                folder.entries[name] = entry
        self._changes.append(effects)

    # -- system calls ---------------------------------------------------------------------------------------

    def _openat(self, call):
        folder, name = self._place(self._paths(call)[0])
        flags = call.rest[0]
        if "O_CREAT" in flags and name not in folder.entries:
            self._change((folder, name, File()))
        elif "O_TRUNC" in flags:
            folder.entries[name].truncate(0)
        assert "O_APPEND" not in flags, f"the position of {call} is not replayed"
        if "O_RDONLY" not in flags:
            folder.entries[name].position = 0

    def _lseek(self, call):
        entry = self._handle(call)
        if isinstance(entry, File):
            entry.position = call.result

    def _mkdir(self, call):
        self._change((*self._place(self._paths(call)[0]), Folder()))

    def _rename(self, call):
        old, new = map(self._place, self._paths(call))
        self._change((*new, self._find(self._paths(call)[0])), (*old, None))

    def _unlink(self, call):
        self._change((*self._place(self._paths(call)[0]), None))

    _mkdirat, _renameat, _renameat2, _unlinkat, _rmdir = _mkdir, _rename, _rename, _unlink, _unlink

    def _write_call(self, call):
        file = self._handle(call)
        file.write(call.texts[0], file.position)
        file.position += len(call.texts[0])

    def _pwrite64(self, call):
        self._handle(call).write(call.texts[0], int(call.rest[-1]))

    def _ftruncate(self, call):
        self._handle(call).truncate(int(call.rest[-1]))

    def _fsync(self, call):
        entry = self._handle(call)
        if isinstance(entry, File):
            entry.sync()
            return
        is_synced = [self._is_ordered or any(folder is entry for folder, _, _ in change) for change in self._changes]
        for change, is_on_disk in zip(self._changes, is_synced, strict=True):
            for folder, name, new in change if is_on_disk else ():
                folder.synced[name] = new
        self._changes = [change for change, is_on_disk in zip(self._changes, is_synced, strict=True) if not is_on_disk]

    _fdatasync = _fsync

    def _mmap(self, call):
        is_written = "PROT_WRITE" in "".join(call.rest) and "MAP_SHARED" in "".join(call.rest)
        assert not is_written or call.handles[0][1].endswith("-shm"), f"writes through {call} are not replayed"


def _final_entries(changes):
    entries = {}
    for change in changes:
        for folder, name, entry in change:
            entries.setdefault(folder, {})[name] = entry
    return entries
