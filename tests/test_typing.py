"""Checks of a user's program by mypy and pyright."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROGRAM = """
from langchain_core.documents import Document

from langchain_hybridgraph import (
    AdvancedRetriever,
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    history_aware,
)
from langchain_hybridgraph.options.models import GraphOptions
from langchain_hybridgraph.options.models import MemoryOptions

store = HybridGraphStore()
documents = [Document("text")]

hybrid = HybridRetriever(store, semantic_weight=0.7, k=5, filter={"year": 2024}, tags=["mine"])
HybridRetriever(store, index={"refresh": "auto"})
HybridRetriever(store, semantic_wieght=0.7)  # wrong
HybridRetriever(store, k="five")  # wrong
HybridRetriever(store, max_hops=2)  # wrong
HybridRetriever(store, reranker=lambda query, texts: [1.0 for _ in texts], fusion="rrf")
HybridRetriever.from_documents(documents, "lsa", keyword_weight=0.5)
HybridRetriever.from_documents(documents, "lsa", keyword_wieght=0.5)  # wrong
HybridRetriever.from_config(store=store, annotate="score")
HybridRetriever.from_config(store=store, annotate="scores")  # wrong

GraphRetriever(store, k=3, preset=None, graph={"seed_k": 3})
GraphRetriever(store, graph=GraphOptions(traversal={"type": "bfs"}, seed_k=3))
GraphRetriever(store, graph=GraphOptions(seed=3))  # wrong
GraphOptions(seed_k="three")  # wrong
GraphRetriever(store, slot=2)  # wrong
GraphRetriever.from_store(store, edges=[], keyword_weight=0.5)
GraphRetriever.from_store(store, edge=[])  # wrong

MemoryRetriever(store, mode={"type": "general"}, session_id="5")
MemoryRetriever(store, session_ids="5")  # wrong
MemoryRetriever.from_documents(documents, memory=MemoryOptions(hotness=0.2)).invoke("text")
MemoryRetriever.from_documents(documents, language="german", label="x")  # wrong

HierarchicalRetriever.from_config(store=store, tree={"start_k": 3})
HierarchicalRetriever.from_config(store=store, trees={})  # wrong
HierarchicalRetriever(store, max_hops=3)  # wrong

AdvancedRetriever(hybrid, fuse_raw=True, expander="strip_question")
AdvancedRetriever(hybrid, fuse=True)  # wrong
AdvancedRetriever.from_store(store, fuse_raw=True, keyword_weight=0.5)
history_aware(hybrid, k=2, get_session_history=lambda session: [])
history_aware(hybrid, get_history=lambda session: [])  # wrong

slots: int = GraphRetriever(store, documents, graph={"slots": 1}).graph.slots
hybrid.documents  # wrong
hybrid.selection = {"overfetch": 5}
hybrid.selection = 5  # wrong
hybrid.retrieve("text", k=3, min_score=0.2, selection={"overfetch": 5})
hybrid.retrieve("text", min_scor=0.2)  # wrong
MemoryRetriever(store).retrieve("text", labels=["x"])
HierarchicalRetriever(store).find("text", score_threshold="high")  # wrong
"""

MYPY = """
[mypy]
follow_imports = skip
ignore_missing_imports = True
[mypy-langchain_hybridgraph.*,langchain_core.*,pydantic.*,typing_extensions]
follow_imports = silent
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Return the lines with an error by checker; both checkers run at the same time."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "mypy.ini").write_text(MYPY, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}))
    commands = {
        "mypy": ["mypy", "--config-file", "mypy.ini", "--cache-dir", str(ROOT / ".mypy_cache" / "program")],
        "pyright": ["basedpyright", "--pythonpath", sys.executable],
    }
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", *command, "program.py"],
            cwd=folder,
            env={"MYPYPATH": str(ROOT), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, command in commands.items()
    }
    outputs = {name: process.communicate(timeout=600)[0] for name, process in running.items()}
    pattern = {"mypy": r"program\.py:(\d+): error", "pyright": r"program\.py:(\d+):\d+ - error"}
    return {name: ({int(line) for line in re.findall(pattern[name], text)}, text) for name, text in outputs.items()}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_misspelt_setting_is_an_error_and_nothing_else_is(errors, checker):
    """The type checkers report errors exactly in the lines that are marked as wrong."""
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), start=1) if line.endswith("# wrong")}
    errors_found, text = errors[checker]
    assert errors_found == wrong, text
