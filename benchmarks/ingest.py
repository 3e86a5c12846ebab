"""Time to ingest a folder: the first time, again unchanged, and with one changed file.

    python benchmarks/ingest.py FOLDER [--files 1000 10000] [--versus CHECKOUT]

FOLDER is a real documentation tree. Its text files are copied into one folder until their number is reached. In the
copies of each further round every fifth word gets the number of the round, so that all texts differ. ``--versus``
measures another checkout of the package in turn, each in a process of its own. The embedding is LSA, which is made
from the texts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count, islice
from pathlib import Path

SUFFIXES = (".md", ".rst", ".txt")
_WORD = re.compile(r"\b[a-z]{4,}\b")

MEASURED = """
import json, sys, time
from pathlib import Path
from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.ingestion import ingest, read_files

def seconds():
    began = time.perf_counter(), time.process_time()
    with HybridGraphStore(sys.argv[2], "lsa") as store:
        report = ingest(read_files(sys.argv[1], skipped=lambda said: None), store)
    return time.perf_counter() - began[0], time.process_time() - began[1], report.chunks

first, first_cpu, chunks = seconds()
again, *_ = seconds()
page = sorted(Path(sys.argv[1]).rglob("*.md"))[-1]
page.write_text(page.read_text(encoding="utf-8") + "\\nOne more line.\\n", encoding="utf-8")
changed, *_ = seconds()
print(json.dumps({"first": first, "cpu": first_cpu, "again": again, "changed": changed, "chunks": chunks}))
"""


def main() -> None:
    """Print a line for each size and checkout."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000])
    options.add_argument("--versus", type=Path)
    options.add_argument("--rounds", type=int, default=1)
    chosen = options.parse_args()
    checkouts = {"this": Path(__file__).parents[1]} | ({"beside": chosen.versus} if chosen.versus else {})
    for size in chosen.files:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
        for _ in range(chosen.rounds):
            for name, checkout in checkouts.items():
                found[name].append(measured(chosen.folder, size, checkout))
        for name, figures in found.items():
            first, cpu, again, changed = (statistics.median(each[key] for each in figures) for key in MEASURES)
            print(
                f"{size:6,} files, {figures[0]['chunks']:7,} chunks, {name:6}: "
                f"first {first:6.1f} s (CPU {cpu:6.1f}), unchanged "
                f"{again:5.2f} s ({again / first:.1%}), one changed {changed:5.2f} s",
                flush=True,
            )


MEASURES = ("first", "cpu", "again", "changed")


def measured(folder: Path, size: int, checkout: Path) -> dict[str, float]:
    """Return the times of one checkout with this number of files."""
    with tempfile.TemporaryDirectory() as place:
        docs = Path(place, "docs")
        grow(folder, docs, size)
        time.sleep(2.5)  # files written just now do not count as unchanged
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, str(docs), str(Path(place, "index"))],
            env={**os.environ, "PYTHONPATH": str(checkout.absolute())},
            capture_output=True,
            text=True,
            check=False,
            cwd=place,  # Python looks for modules there first
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def grow(folder: Path, target: Path, size: int) -> None:
    """Copy the text files of a tree until the number is reached."""
    pages = [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    copies = ((number, page) for number in count() for page in pages)
    for number, page in islice(copies, size):
        text = page.read_text(encoding="utf-8", errors="replace")
        copy = target / str(number) / page.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(varied(text, number), encoding="utf-8")


def varied(text: str, number: int) -> str:
    """Return the text with the number appended to every fifth word of four or more letters; 0 changes nothing."""
    if not number:
        return text
    places = count(1)
    return _WORD.sub(lambda word: word[0] if next(places) % 5 else f"{word[0]}{number}", text)


if __name__ == "__main__":
    main()
