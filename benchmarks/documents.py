"""Number of PDF and Office files that are read and the time this takes, compared with markitdown if it is installed.

    python benchmarks/documents.py FOLDER

Reads every PDF, Word, PowerPoint and Excel file below a folder. A file counts as read if it yields text.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from langchain_hybridgraph.ingestion.bounded import BoundedReader, UnreadableError


def main() -> None:
    """Print the table, and the reasons for files left out."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="folder with the files to read")
    folder = options.parse_args().folder
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    reader, reasons = BoundedReader(), Counter[str]()

    def read_with_package(path: Path) -> str:
        try:
            return "".join(part.text for part in reader.read(path, lambda message: None))
        except UnreadableError as error:
            reasons[str(error)] += 1
            return ""

    readers: dict[str, Callable[[Path], str]] = {"hybridgraph": read_with_package}
    try:
        from markitdown import MarkItDown  # type: ignore[import-not-found]  # not a dependency
    except ImportError:
        print("markitdown is not installed")
    else:
        readers["markitdown"] = lambda path: str(MarkItDown().convert(str(path)).text_content)
    for suffix in (".pdf", ".docx", ".pptx", ".xlsx"):
        files = sorted(folder.rglob(f"*{suffix}"))
        for name, read in readers.items():
            print(f"{suffix:6} {name:12} {len(files):4} files, {measure(read, files)}")
    for reason, count in reasons.most_common():
        print(f"{count:4} × {reason}")


def measure(read: Callable[[Path], str], files: list[Path]) -> str:
    """Return the number of files read, the number of characters, and the time."""
    started_at, full, size = time.perf_counter(), 0, 0
    for path in files:
        try:
            text = read(path)
        except Exception:  # noqa: BLE001 - any exception of a library means that the file was not read
            text = ""
        full += bool(text.strip())
        size += len(text)
    return f"{full:4} read, {size:9,} characters, {time.perf_counter() - started_at:6.1f} s"


if __name__ == "__main__":
    main()
