from langchain_hybridgraph.ingestion.edges.llm import LLMCache, edge_hash
from langchain_hybridgraph.records import Edge

EDGE = Edge("a", "b", "supports", 0.5, "A backs B.")


def test_an_answer_outlives_the_process(tmp_path):
    """An answer that one ledger recorded is found by the next ledger with the same file."""
    LLMCache(tmp_path / "asked").note("q", [EDGE])
    assert LLMCache(tmp_path / "asked").is_answered("q", {edge_hash(EDGE)})
    assert not LLMCache(tmp_path / "asked").is_answered("other", {edge_hash(EDGE)})


def test_an_answer_is_valid_while_its_edges_are_stored():
    """An answer is valid only while its edges are stored; an answer without edges is always valid."""
    ledger = LLMCache(None)
    ledger.note("q", [EDGE])
    ledger.note("none", [])
    assert not ledger.is_answered("q", set())
    assert ledger.is_answered("none", set())


def test_the_hash_depends_on_the_ends_and_the_relation():
    """The hash of an edge depends on its source, target and relation, but not on its weight or description."""
    assert edge_hash(EDGE) == edge_hash(Edge("a", "b", "supports", 1, ""))
    assert edge_hash(EDGE) != edge_hash(Edge("b", "a", "supports", 0.5))


def test_a_line_that_was_cut_off(tmp_path):
    """Incomplete and invalid lines of a ledger are skipped, and later lines are read."""
    path = tmp_path / "asked"
    LLMCache(path).note("one", [EDGE])
    with path.open("a") as file:
        file.write('[]\n{"question": 1}\n{"question": "two", "ed')
    LLMCache(path).note("three", [])
    ledger = LLMCache(path)
    assert ledger.is_answered("one", {edge_hash(EDGE)})
    assert ledger.is_answered("three", set())
    assert not ledger.is_answered("two", set())
