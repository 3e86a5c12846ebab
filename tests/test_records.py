"""Edges, hits and results."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest

from langchain_hybridgraph.records import Chunk, Edge, Hit, content_id
from langchain_hybridgraph.result import RetrievalResult


def step(one, relation, weight, description, **entity):
    return {"from_chunk_id": one, "relation": relation, "weight": weight, "description": description, **entity}


def graph_hit(*path, parts, context):
    return Hit(
        Chunk(path[-1], "t"), sum(parts.values()), "graph", parts, hops=len(path) - 1, path=path, graph_context=context
    )


@pytest.mark.parametrize(
    "value",
    [
        "1970-01-02",
        "19700102T000000Z",
        date(1970, 1, 2),
        datetime(1970, 1, 2),
        datetime(1970, 1, 2, tzinfo=UTC),
        86_400,
        np.float32(86_400),
    ],
    ids=repr,
)
def test_an_edge_stores_its_times_in_seconds(value):
    """Edges are equal whatever form of time they were built with."""
    edge = Edge("a", "b", "cites", valid_from=value)
    assert (edge.valid_from, type(edge.valid_from)) == (86_400.0, float)
    assert edge == Edge("a", "b", "cites", valid_from=86_400.0)


@pytest.mark.parametrize("value", ["1970-01-01", date(1970, 1, 1)], ids=repr)
def test_valid_until_includes_its_day(value):
    """A date without a time means the last moment of that day."""
    assert Edge("a", "b", "cites", valid_until=value).valid_until == 86_399.999999
    assert Edge("a", "b", "cites", valid_from=value, valid_until=value).valid_from == 0.0


@pytest.mark.parametrize("name", ["valid_from", "valid_until"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "soon", "", [2024], 1.7e12], ids=repr)
def test_an_invalid_time_of_an_edge_raises(name, value):
    """The error names the edge, the field and the value."""
    with pytest.raises(ValueError, match=rf"'a' → 'b' \(cites\), {name}: .* not a time"):
        Edge("a", "b", "cites", **{name: value})


def test_valid_until_before_valid_from_raises():
    """Equal times are allowed."""
    with pytest.raises(ValueError, match=r"valid_until \('2023'?.*\) before valid_from \('2024-01-01'\)"):
        Edge("a", "b", "cites", valid_from="2024-01-01", valid_until="2023-12-31")
    assert Edge("a", "b", "cites", valid_from=5, valid_until=5.0).valid_until == 5.0


@pytest.mark.parametrize(
    "weight", ["x", "0.5", None, True, math.nan, math.inf, 0, -1, 1.5, [0.5], Decimal("0.5"), np.ones(2)], ids=repr
)
def test_an_invalid_weight_raises(weight):
    """The error names the edge, the value and an example of a valid weight."""
    with pytest.raises(
        ValueError, match=r"'a' → 'b' \(cites\) has weight .*; pass a weight above 0 and up to 1, such as"
    ):
        Edge("a", "b", "cites", weight=weight)


@pytest.mark.parametrize("weight", [1, np.float32(0.5), np.float64(0.25)], ids=repr)
def test_the_weight_of_an_edge_is_a_float(weight):
    """SQLite cannot store a NumPy number."""
    edge = Edge("a", "b", "cites", weight)
    assert (edge.weight, type(edge.weight)) == (weight, float)


def test_explaining_a_search_hit():
    """Parts of the score, sources and their own scores."""
    hit = Hit(Chunk("a", "t"), 0.9, "fused", {"vector": 0.6, "keyword": 0.3}, 0.8, 2.5, found_by=("vector", "keyword"))
    assert hit.explain() == (
        "score 0.900 = vector 0.600 + keyword 0.300 · found by vector and keyword · cosine 0.800 · BM25 2.50"
    )


def test_explaining_a_graph_hit():
    """The explanation splits the score into search and graph and describes each step from the seed."""
    # graph_context lists the last step first.
    context = (
        step("b", "depends_on", 0.8, "C needs B."),
        step("a", "mentions", 0.35, "Both mention ada.", entity="entity:ada"),
    )
    hit = graph_hit("a", "b", "c", parts={"vector": 0.2, "keyword": 0.1, "graph": 0.3}, context=context)
    assert hit.explain() == (
        "score 0.600 = vector 0.200 + keyword 0.100 + graph 0.300 · 0.300 from search, 0.300 from the graph · "
        "found by graph · 2 hops from a via b to c: both mention ada (weight 0.35), "
        "then depends on (weight 0.80, “C needs B.”)"
    )


def test_a_score_from_the_graph_alone_is_not_split():
    """When the graph score replaces the search score there is only one part."""
    explanation = graph_hit("a", "b", parts={"graph": 0.4}, context=()).explain()
    assert explanation == "score 0.400 = graph 0.400 · found by graph · 1 hop from a to b"


def test_the_part_of_a_reranker_belongs_to_neither_search_nor_graph():
    """The split into search and graph leaves out the reranker's part."""
    parts = {"vector": 0.2, "keyword": 0.1, "graph": 0.3, "rerank": 0.4}
    assert "0.300 from search, 0.300 from the graph" in graph_hit("a", "b", parts=parts, context=()).explain()


def test_two_parts_are_not_split_again():
    """One part from search and one from the graph already show the split."""
    explanation = graph_hit("a", "b", parts={"vector": 0.2, "graph": 0.3}, context=()).explain()
    assert explanation == "score 0.500 = vector 0.200 + graph 0.300 · found by graph · 1 hop from a to b"


def test_several_sources_are_listed():
    """Three sources are separated by a comma and "and"."""
    hit = Hit(Chunk("a", "t"), 0.5, "fused", {"vector": 0.5}, found_by=("vector", "keyword", "graph"))
    assert "found by vector, keyword and graph" in hit.explain()


def test_a_graph_part_without_a_path_means_a_named_title():
    """A seed gets a graph part when the question names its title."""
    hit = Hit(Chunk("a", "t"), 0.5, "vector", {"vector": 0.2, "graph": 0.3}, found_by=("vector",), path=("a",))
    assert hit.explain().endswith(" · the question names its title")


def test_a_long_path_is_shortened():
    """Only the first and the last chunk between seed and hit are named."""
    assert graph_hit(*"abcdefg", parts={"graph": 0.4}, context=()).explain().endswith("6 hops from a via b, …, f to g")


def test_a_result_prints_as_a_list():
    """One line per hit with rank, score, id and text, then the degradation reasons; the repr is one short line."""
    hashed = Chunk(content_id("Dogs bark.", "dogs.md"), "Dogs bark.", {"source": "dogs.md"})
    hits = [Hit(Chunk("cat", "The cat\n" + "sleeps " * 20), 0.9, "vector", {}), Hit(hashed, 0.25, "keyword", {})]
    result = RetrievalResult(["…", "…"], hits=hits, degraded=["vector-failed"], took_ms=1.25)
    first, second, last = str(result).splitlines()
    assert first == " 1. 0.900  cat  The cat " + "sleeps " * 10 + "s…"
    assert second == " 2. 0.250  dogs.md  Dogs bark."
    assert last == "degraded: vector-failed"
    assert repr(result) == "RetrievalResult(2 documents in 1.2 ms, degraded=['vector-failed'])"


def test_a_result_without_hits_prints_its_repr():
    """An empty result has no lines to list."""
    assert str(RetrievalResult([], degraded=["no-query-text"])) == repr(RetrievalResult([], degraded=["no-query-text"]))
