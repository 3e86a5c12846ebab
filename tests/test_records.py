"""What an edge takes in, and what a hit says of itself."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest

from langchain_hybridgraph.records import Chunk, Edge, Hit, RetrievalResult, content_id


def step(one, relation, weight, description, **entity):
    return {"from_chunk_id": one, "relation": relation, "weight": weight, "description": description, **entity}


def led(*path, parts, context):
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
def test_an_edges_times_are_kept_in_seconds(value):
    """Whatever form they are given in, as those of a chunk's metadata; then the edges are equal."""
    edge = Edge("a", "b", "cites", valid_from=value)
    assert (edge.valid_from, type(edge.valid_from)) == (86_400.0, float)
    assert edge == Edge("a", "b", "cites", valid_from=86_400.0)


@pytest.mark.parametrize("value", ["1970-01-01", date(1970, 1, 1)], ids=repr)
def test_an_edge_holds_on_the_day_until_which_it_holds(value):
    """A date without a time is its last moment as an end."""
    assert Edge("a", "b", "cites", valid_until=value).valid_until == 86_399.999999
    assert Edge("a", "b", "cites", valid_from=value, valid_until=value).valid_from == 0.0


@pytest.mark.parametrize("name", ["valid_from", "valid_until"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "soon", "", [2024], 1.7e12], ids=repr)
def test_what_is_no_time_makes_no_edge(name, value):
    """The error names the edge, the value, and what a time is."""
    with pytest.raises(ValueError, match=rf"'a' → 'b' \(cites\), {name}: .* not a time"):
        Edge("a", "b", "cites", **{name: value})


def test_an_edge_that_would_never_be_valid():
    """Its end is before its begin; a moment is a period."""
    with pytest.raises(ValueError, match=r"valid_until \('2023'?.*\) before valid_from \('2024-01-01'\)"):
        Edge("a", "b", "cites", valid_from="2024-01-01", valid_until="2023-12-31")
    assert Edge("a", "b", "cites", valid_from=5, valid_until=5.0).valid_until == 5.0


@pytest.mark.parametrize(
    "weight", ["x", "0.5", None, True, math.nan, math.inf, 0, -1, 1.5, [0.5], Decimal("0.5"), np.ones(2)], ids=repr
)
def test_what_is_no_weight_makes_no_edge(weight):
    """The error names the edge, the value and a weight that is one."""
    with pytest.raises(
        ValueError, match=r"'a' → 'b' \(cites\) has weight .*; pass a weight above 0 and up to 1, such as"
    ):
        Edge("a", "b", "cites", weight=weight)


@pytest.mark.parametrize("weight", [1, np.float32(0.5), np.float64(0.25)], ids=repr)
def test_an_edges_weight_is_a_float(weight):
    """One of numpy's could not be stored."""
    edge = Edge("a", "b", "cites", weight)
    assert (edge.weight, type(edge.weight)) == (weight, float)


def test_a_plain_hit():
    """Without a walk: the parts of the score, the finders and their own scores."""
    hit = Hit(Chunk("a", "t"), 0.9, "fused", {"vector": 0.6, "keyword": 0.3}, 0.8, 2.5, found_by=("vector", "keyword"))
    assert hit.explain() == (
        "score 0.900 = vector 0.600 + keyword 0.300 · found by vector and keyword · cosine 0.800 · BM25 2.50"
    )


def test_a_walked_hit():
    """Which part is the search's and which the graph's, the seed, and each step from it in words."""
    # graph_context has the very last step first.
    context = (
        step("b", "depends_on", 0.8, "C needs B."),
        step("a", "mentions", 0.35, "Both mention ada.", entity="entity:ada"),
    )
    hit = led("a", "b", "c", parts={"vector": 0.2, "keyword": 0.1, "graph": 0.3}, context=context)
    assert hit.explain() == (
        "score 0.600 = vector 0.200 + keyword 0.100 + graph 0.300 · 0.300 from search, 0.300 from the graph · "
        "found by graph · 2 hops from a via b to c: both mention ada (weight 0.35), "
        "then depends on (weight 0.80, “C needs B.”)"
    )


def test_a_score_of_the_walk_alone():
    """A walk whose score takes the place of the search's has nothing to divide."""
    said = led("a", "b", parts={"graph": 0.4}, context=()).explain()
    assert said == "score 0.400 = graph 0.400 · found by graph · 1 hop from a to b"


def test_what_a_reranker_changed_is_neither():
    """The reranker's part counts neither for the search nor for the graph."""
    parts = {"vector": 0.2, "keyword": 0.1, "graph": 0.3, "rerank": 0.4}
    assert "0.300 from search, 0.300 from the graph" in led("a", "b", parts=parts, context=()).explain()


def test_nothing_is_said_twice():
    """Where one part is the search's and one the graph's, the parts have said it."""
    said = led("a", "b", parts={"vector": 0.2, "graph": 0.3}, context=()).explain()
    assert said == "score 0.500 = vector 0.200 + graph 0.300 · found by graph · 1 hop from a to b"


def test_several_finders():
    """Three finders stand in a list."""
    hit = Hit(Chunk("a", "t"), 0.5, "fused", {"vector": 0.5}, found_by=("vector", "keyword", "graph"))
    assert "found by vector, keyword and graph" in hit.explain()


def test_a_hit_that_the_question_names():
    """What the graph gives without an edge, it gives because the question names the hit's title."""
    hit = Hit(Chunk("a", "t"), 0.5, "vector", {"vector": 0.2, "graph": 0.3}, found_by=("vector",), path=("a",))
    assert hit.explain().endswith(" · the question names its title")


def test_a_long_path_stays_on_one_line():
    """Of many chunks between seed and hit the first and the last are named."""
    assert led(*"abcdefg", parts={"graph": 0.4}, context=()).explain().endswith("6 hops from a via b, …, f to g")


def test_a_result_prints_as_a_list():
    """A line each with place, score, id and first words, then what did not work; its repr is one short line."""
    made = Chunk(content_id("Dogs bark.", "dogs.md"), "Dogs bark.", {"source": "dogs.md"})
    hits = [Hit(Chunk("cat", "The cat\n" + "sleeps " * 20), 0.9, "vector", {}), Hit(made, 0.25, "keyword", {})]
    result = RetrievalResult(["…", "…"], hits=hits, degraded=["vector-failed"], took_ms=1.25)
    first, second, last = str(result).splitlines()
    assert first == " 1. 0.900  cat  The cat " + "sleeps " * 10 + "s…"
    assert second == " 2. 0.250  dogs.md  Dogs bark."
    assert last == "degraded: vector-failed"
    assert repr(result) == "RetrievalResult(2 documents in 1.2 ms, degraded=['vector-failed'])"


def test_a_result_without_hits_prints_as_it_is():
    """There is nothing to list."""
    assert str(RetrievalResult([], degraded=["no-query-text"])) == repr(RetrievalResult([], degraded=["no-query-text"]))
