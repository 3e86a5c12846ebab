"""Printing of results."""

from langchain_hybridgraph.records import Chunk, Hit, content_id
from langchain_hybridgraph.result import RetrievalResult


def test_a_result_prints_as_a_list():
    """A result prints one line per hit and then the degradation reasons, while its repr is one short line."""
    hashed = Chunk(content_id("Dogs bark.", "dogs.md"), "Dogs bark.", {"source": "dogs.md"})
    hits = [Hit(Chunk("cat", "The cat\n" + "sleeps " * 20), 0.9, "vector", {}), Hit(hashed, 0.25, "keyword", {})]
    result = RetrievalResult(["…", "…"], hits=hits, degraded=["vector-failed"], took_ms=1.25)
    first, second, last = str(result).splitlines()
    assert first == " 1. 0.900  cat  The cat " + "sleeps " * 10 + "s…"
    assert second == " 2. 0.250  dogs.md  Dogs bark."
    assert last == "degraded: vector-failed"
    assert repr(RetrievalResult([1])).startswith("RetrievalResult(1 document in")
    assert repr(result) == "RetrievalResult(2 documents in 1.2 ms, degraded=['vector-failed'])"


def test_a_result_without_hits_prints_its_repr():
    """An empty result prints its repr."""
    assert str(RetrievalResult([], degraded=["no-query-text"])) == repr(RetrievalResult([], degraded=["no-query-text"]))
