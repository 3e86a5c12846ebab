"""Reading of the candidates that are in scope."""

from __future__ import annotations

from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Query, Scope
from tests.support.samples.small_pipeline import ListSource, Shelf, ids, run


def test_deleted_chunks_take_no_place():
    """Deleted chunks in the results of an engine are skipped before the list is cut to k."""
    sources = (ListSource("vector", 1, "abcdefgh"),)
    hits, _ = run(Query("q", 2), store=Shelf("g", "h"), sources=sources)
    assert ids(hits) == "gh"


def test_only_as_many_chunks_are_read_as_are_used():
    """A search with k=2 and no reordering stages reads two chunks if all candidates exist."""
    shelf = Shelf(*"abcdefgh")
    run(Query("q", 2), store=shelf, sources=(ListSource("vector", 1, "abcdefgh"),))
    assert shelf.read_ids == list("ab")


def test_the_filter_is_checked_for_every_hit():
    """The filter is checked again for every hit, so a source that ignores it leaks nothing."""
    shelf = Shelf("a", "b", a={"x": 1}, b={"x": 2})
    query = Query("q", 5, Scope(filter=parse_filter({"x": 2})))
    hits, _ = run(query, store=shelf, sources=(ListSource("vector", 1, "ab"),))
    assert ids(hits) == "b"
