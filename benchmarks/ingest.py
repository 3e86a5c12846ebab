"""Time to ingest a folder: first run, unchanged, and with one file changed.

    python benchmarks/ingest.py FOLDER [--files 1000 10000] [--versus CHECKOUT] [--into FOLDER] [--rounds 1]

FOLDER is a real documentation tree. Its text files are copied, repeatedly if necessary, until there are ``--files`` of
them. In repeated copies a number is appended to every fifth longer word, so that all texts differ. Each time is that of
a complete run of ``hybridgraph ingest`` with LSA; CPU is the time of all its processes.

``--versus`` also measures another checkout of the package; the two take turns. ``--into`` is a folder that is already
in the index (its own ingest is not timed).
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".md", ".rst", ".txt")
_WORD = re.compile(r"\b[a-z]{4,}\b")


def main() -> None:
    """Print a line for each size and checkout."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="folder with the documentation")
    options.add_argument(
        "--files", type=int, nargs="+", default=[1_000, 10_000], help="numbers of files, one measurement for each"
    )
    options.add_argument("--versus", type=Path, help="another checkout of the package, measured in turn")
    options.add_argument("--into", type=Path, metavar="FOLDER", help="folder that is already in the index (untimed)")
    options.add_argument("--rounds", type=int, default=1, help="number of rounds")
    arguments = options.parse_args()
    checkouts = {"this": Path(__file__).parents[1]} | ({"versus": arguments.versus} if arguments.versus else {})
    for checkout in checkouts.values():
        compileall.compile_dir(checkout / "langchain_hybridgraph", quiet=1)  # as pip does when it installs a package
    for size in arguments.files:
        runs_by_checkout: dict[str, list[list[CommandRun]]] = {name: [] for name in checkouts}
        for _ in range(arguments.rounds):
            for name, checkout in checkouts.items():
                runs_by_checkout[name].append(measure(arguments.folder, size, checkout, arguments.into))
        for name, figures in runs_by_checkout.items():
            runs = [CommandRun(*map(statistics.median, zip(*each, strict=True))) for each in zip(*figures, strict=True)]
            print(f"{size:6,} files, {name:6}: {describe(runs)}", flush=True)


class CommandRun(NamedTuple):
    """Times of one run of the command, in seconds."""

    wall: float
    cpu: float


def describe(runs: Sequence[CommandRun]) -> str:
    """Describe three runs: the first, one over unchanged files, and one with a changed file."""
    first = runs[0]
    parts = [
        f"{kind} {run.wall:.1f} s, CPU {run.cpu:.1f} s ({run.cpu / first.cpu:.1%})"
        for kind, run in zip(("first", "unchanged", "one changed"), runs, strict=True)
    ]
    return "; ".join(parts)


def measure(folder: Path, size: int, checkout: Path, into: Path | None = None) -> list[CommandRun]:
    """Return the runs of a checkout with this number of files: first, unchanged, one file changed."""
    with tempfile.TemporaryDirectory() as place:
        docs, index = Path(place, "docs"), Path(place, "index")
        grow(folder, docs, size)
        if into:
            ingested(into, index, checkout)
        time.sleep(2.5)  # a file written less than two seconds ago is not treated as unchanged
        first, unchanged = ingested(docs, index, checkout), ingested(docs, index, checkout)
        page = max(path for path in docs.rglob("*") if path.is_file())
        page.write_text(page.read_text(encoding="utf-8") + "\nOne more line.\n", encoding="utf-8")
        return [first, unchanged, ingested(docs, index, checkout)]


def ingested(docs: Path, index: Path, checkout: Path) -> CommandRun:
    """Run the command of a checkout."""
    started_at, used = time.perf_counter(), cpu_of_children()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "langchain_hybridgraph.cli",
            "ingest",
            docs.absolute(),
            "--index",
            index,
            "--embedding",
            "lsa",
        ],
        env={**os.environ, "PYTHONPATH": str(checkout.absolute())},
        capture_output=True,
        text=True,
        check=False,
        cwd=index.parent,  # Python looks for modules there first
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return CommandRun(time.perf_counter() - started_at, cpu_of_children() - used)


def cpu_of_children() -> float:
    """Return the processor time of all child processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def grow(folder: Path, target: Path, size: int) -> None:
    """Copy the text files of a tree until the number is reached."""
    pages = [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    if not pages:
        raise SystemExit(f"{folder} has no text files; give a folder with files in {', '.join(SUFFIXES)}")
    copies = ((number, page) for number in count() for page in pages)
    for number, page in islice(copies, size):
        text = page.read_text(encoding="utf-8", errors="replace")
        copy = target / str(number) / page.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(vary(text, number), encoding="utf-8")


def vary(text: str, number: int) -> str:
    """Return the text with the number appended to every fifth word of four or more letters. 0 leaves the text
    unchanged.
    """
    if not number:
        return text
    places = count(1)
    return _WORD.sub(lambda word: word[0] if next(places) % 5 else f"{word[0]}{number}", text)


if __name__ == "__main__":
    main()
