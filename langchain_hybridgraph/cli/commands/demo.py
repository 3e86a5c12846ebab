"""Demo that searches the documentation of Python's standard library."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph.cli.open_index import existing, existing_or_new
from langchain_hybridgraph.cli.terminal_output import show_result, terminal
from langchain_hybridgraph.ingestion import read_python_docs
from langchain_hybridgraph.ingestion.pipeline import ingest
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever


class DemoQuestion(NamedTuple):
    """Question for the demo, its search options, and a remark to print with it."""

    text: str
    remark: str = ""
    filter: Mapping[str, Any] | None = None
    explain: bool = False
    k: int = 3


QUESTIONS = (
    DemoQuestion("How do I run a command with a timeout?"),
    DemoQuestion("What is the difference between a deep and a shallow copy?"),
    DemoQuestion("How do I cache the results of a function?"),
    DemoQuestion("a temporary file that is deleted when it is closed"),
    DemoQuestion("What does yield from do?"),
    DemoQuestion(
        "a lock that the same thread may acquire again",
        "Each score is the sum of a part from the vectors and a part from the keywords.",
        explain=True,
    ),
    DemoQuestion("log messages to a rotating file"),
    DemoQuestion(
        "log messages to a rotating file",
        'Only among classes: --filter \'{"labels": {"$contains": "class"}}\'',
        filter={"labels": {"$contains": "class"}},
    ),
    DemoQuestion(
        "floccinaucinihilipilification", "A word that occurs nowhere: the answer is empty, and gives the reason."
    ),
)


def run(index: Path, embedding: str) -> None:
    """Index the documentation of Python's standard library, and show the answers to some questions."""
    screen = terminal()
    screen.print(f"The documentation of Python {platform.python_version()}'s standard library", style="bold")
    with closing(existing_or_new(index, embedding)) as store:
        screen.print(str(ingest(list(read_python_docs()), store, progress=True)))
    with existing(index, embedding=None if embedding == "auto" else embedding) as store:
        retriever = HybridRetriever(store)
        for question in QUESTIONS:
            screen.print(f"\n> {question.text}", style="bold cyan")
            if question.remark:
                screen.print(question.remark, style="dim")
            result = retriever.retrieve(question.text, k=question.k, filter=question.filter)
            show_result(screen, result, language=store.language, explain=question.explain)
    screen.print(f'\nAsk your own: {_command()} search "…" --index {index}', soft_wrap=True)


def _command() -> str:
    """Return the command that runs this program in the user's shell, even if ``hybridgraph`` is not on the PATH."""
    if shutil.which("hybridgraph"):
        return "hybridgraph"
    installed = Path(sys.executable).with_name("hybridgraph")
    if not installed.exists():
        return "python -m langchain_hybridgraph.cli"
    relative = os.path.relpath(installed)
    return str(installed) if relative.startswith("..") else relative
