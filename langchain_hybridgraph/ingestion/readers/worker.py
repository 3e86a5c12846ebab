"""Worker process that reads files."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.readers import limits
from langchain_hybridgraph.ingestion.readers.kinds import KINDS, UnreadableError

_COMPOUND = b"\xd0\xcf\x11\xe0"


def main() -> None:
    """Answer requests from standard input until it is closed. Each request is the path of a file, as a line of JSON."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limits.MEMORY, limits.MEMORY))
    out = sys.stdout
    sys.stdout = sys.stderr  # output printed by a library must not be read as an answer
    for line in sys.stdin:
        _answer(Path(json.loads(line)), lambda answer: print(json.dumps(answer), file=out, flush=True))


def _answer(path: Path, send: Callable[[dict[str, Any]], None]) -> None:
    try:
        module = KINDS[path.suffix.lower()].module
        if module != "code":  # an empty module of a package is as good as any other
            _check_size(path)
        reader = import_module(f"{__package__}.{module}")
        for part in reader.read(path, lambda message: send({"note": message})):
            send({"part": part})
        send({"end": None})
    except UnreadableError as error:
        send({"end": str(error)})
    except MemoryError:
        send({"end": f"reading it takes more than {limits.MEMORY >> 30} GB of memory"})
    except RecursionError:
        send({"end": "it is nested too deeply"})
    except Exception as error:  # noqa: BLE001 - a damaged file may make a library raise anything
        send({"end": f"it is damaged ({type(error).__name__}: {error})"})


def _check_size(path: Path) -> None:
    """Raise UnreadableError for a file that is empty, encrypted, in an old Office format, or too large when
    unpacked.
    """
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
    if size > limits.UNPACKED or len(inside) > limits.ENTRIES:
        raise UnreadableError(f"it unpacks to {size >> 20:,} MB in {len(inside):,} files, which exceeds the limit")
    if any(file.flag_bits & 1 for file in inside):
        raise UnreadableError("it is encrypted; save a copy without a password")


if __name__ == "__main__":
    main()
