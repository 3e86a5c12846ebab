"""Features that stores declare as missing, and the table made from them."""

import subprocess
import sys
from pathlib import Path

from langchain_hybridgraph.stores.graph import InMemoryGraph
from langchain_hybridgraph.stores.milvus import store as milvus
from langchain_hybridgraph.stores.store import LACKS, LACKS_IN_MEMORY
from tests.support.stores.suite import NAMES, wrong_declarations

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_docs_is_up_to_date():
    """The table in docs/engines.md matches the features that the stores declare."""
    command = [sys.executable, ROOT / "docs" / "feature_table.py", "--check"]
    checked = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_only_known_features_are_declared():
    """All features that stores declare as missing are known, since a misspelt one would skip no test."""
    for lacks in (LACKS, LACKS_IN_MEMORY, milvus.LACKS):
        assert lacks
        assert lacks.keys() <= NAMES


def test_wrong_declarations_are_reported():
    """A feature wrongly declared as missing, one not declared and an unknown one are all reported."""

    class GraphOnly(InMemoryGraph):
        pass

    store = GraphOnly()
    store.lacks = {"edges": "None at all.", "wings": "None either."}
    wrong = wrong_declarations(store)
    assert "GraphOnly lacks 'edges' but implements HasGraph" in wrong
    assert "GraphOnly does not declare 'vectors' but lacks SearchesVectors" in wrong
    assert any(message.startswith("'wings' is not a feature; the features are ") for message in wrong)
