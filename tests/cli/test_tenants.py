"""``hybridgraph tenants`` lists and drops tenants."""

import json
import sqlite3
import subprocess
import sys

import pytest

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.stores.check import list_tenants
from tests.cli.commands import answer, hybridgraph


@pytest.fixture
def index(tmp_path):
    """Return an index of two tenants."""
    for tenant, texts in (("ada", ["Ada likes tea.", "Ada lives in Paris."]), ("bo", ["Bo plays chess."])):
        HybridGraphStore.from_texts(texts, "lsa", path=tmp_path / "index", tenant=tenant).close()
    return tmp_path / "index"


def test_tenants_are_listed(index):
    """tenants prints one line per tenant, or one JSON object with --json."""
    assert hybridgraph("tenants", "--index", index).stdout == "ada  2 chunks\nbo  1 chunk\n"
    assert answer("tenants", "--index", index) == {"tenants": {"ada": 2, "bo": 1}}


def test_a_tenant_is_dropped(index):
    """tenants drop --yes drops a tenant without asking and reports what it deleted."""
    assert answer("tenants", "drop", "ada", "--index", index, "--yes")["dropped"]["chunks"] == 2
    assert list_tenants(index) == {"bo": 1}


def test_dropping_asks_first(index):
    """Without --yes, a tenant is dropped only after the answer "y"."""
    for input in ("n\n", ""):
        declined = hybridgraph("tenants", "drop", "ada", "--index", index, input=input)
        assert declined.exit_code == 1
        assert declined.stderr.endswith("hybridgraph: nothing was deleted: answer y, or pass --yes\n")
    assert list_tenants(index) == {"ada": 2, "bo": 1}
    assert hybridgraph("tenants", "drop", "ada", "--index", index, input="y\n").exit_code == 0
    assert list_tenants(index) == {"bo": 1}


def test_dropping_with_closed_input(index):
    """Without standard input, drop deletes nothing and asks for --yes."""
    command = [sys.executable, "-m", "langchain_hybridgraph.cli", "tenants", "drop", "ada", "--index", str(index)]
    done = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "hybridgraph: nothing was deleted: answer y, or pass --yes\n"
    assert list_tenants(index) == {"ada": 2, "bo": 1}


@pytest.mark.parametrize("verb", ["check", "repair"])
def test_all_tenants_are_checked_at_once(index, verb):
    """check and repair cover the texts of all tenants without --tenant."""
    with sqlite3.connect(index / "catalogue.sqlite") as catalog:
        of_bo = "SELECT node FROM nodes WHERE tenant = 'bo' AND kind <> 'graph'"
        catalog.execute(f"DELETE FROM learned WHERE node = ({of_bo})")
    done = hybridgraph(verb, "--index", index, "--json")
    result = json.loads(done.stdout)
    assert result["counts"]["chunks"] == 3
    if verb == "check":
        assert done.exit_code == 1
        assert "1 chunks have no learned values, so searches miss them" in result["problems"][0]
    else:
        assert (done.exit_code, result["problems"]) == (0, [])


def test_a_tenant_without_data(index):
    """Dropping an unknown tenant gives a one-line error with exit code 2."""
    done = hybridgraph("tenants", "drop", "adda", "--yes", "--index", index)
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "no data of tenant 'adda'" in done.stderr
