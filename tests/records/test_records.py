"""Explanations of hits, headings of chunks, ids, and checks of edges."""

import math
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge, Hit, checked_edges, memory_id


def step(one, relation, weight, description, **entity):
    return {"from_chunk_id": one, "relation": relation, "weight": weight, "description": description, **entity}


def graph_hit(*path, parts, context):
    rest = {"hops": len(path) - 1, "path": path, "graph_context": context}
    return Hit(Chunk(path[-1], "t"), sum(parts.values()), "graph", parts, **rest)


def test_explaining_a_search_hit():
    """explain() lists the parts of the score, the sources, the cosine and the BM25 score."""
    hit = Hit(Chunk("a", "t"), 0.9, "fused", {"vector": 0.6, "keyword": 0.3}, 0.8, 2.5, found_by=("vector", "keyword"))
    assert hit.explain() == (
        "score 0.900 = vector 0.600 + keyword 0.300 · found by vector and keyword · cosine 0.800 · BM25 2.50"
    )


def test_explaining_a_graph_hit():
    """explain() lists the parts of the score, and describes each step from the seed."""
    # graph_context lists the last step first.
    context = (
        step("b", "depends_on", 0.8, "C needs B."),
        step("a", "mentions", 0.35, "Both mention ada.", entity="entity:ada"),
    )
    hit = graph_hit("a", "b", "c", parts={"vector": 0.2, "keyword": 0.1, "graph": 0.3}, context=context)
    assert hit.explain() == (
        "score 0.600 = vector 0.200 + keyword 0.100 + graph 0.300 · "
        "found by graph · 2 hops from a via b to c: both mention ada (weight 0.35), "
        "then depends on (weight 0.80, “C needs B.”)"
    )


def test_a_graph_part_without_a_path_means_a_named_title():
    """A seed with a graph part is explained by the question naming its title."""
    hit = Hit(Chunk("a", "t"), 0.5, "vector", {"vector": 0.2, "graph": 0.3}, found_by=("vector",), path=("a",))
    assert hit.explain().endswith(" · the question names its title")


def test_a_long_path_is_shortened():
    """In a long path, only the first and the last chunk between the seed and the hit are named."""
    assert graph_hit(*"abcdefg", parts={"graph": 0.4}, context=()).explain().endswith("6 hops from a via b, …, f to g")


@pytest.mark.parametrize(
    ("metadata", "headings"),
    [
        ({}, ""),
        ({"title": "Guide"}, "Guide"),
        ({"title": "Guide", "section_heading": "Install > Linux"}, "Guide > Install > Linux"),
        ({"title": None, "section_heading": "Install"}, "Install"),
        ({"title": 7, "section_heading": ["Install"]}, ""),
        ({"title": "a\ud800b"}, "a\ufffdb"),
    ],
)
def test_headings_are_the_title_and_the_section_heading(metadata, headings):
    """The headings are those metadata values that are strings, joined by ``>``."""
    assert Chunk("a", "text", metadata).headings == headings


def test_ids_of_memories_are_the_same_in_every_run():
    """An id made from content depends on text and metadata, but not on the order of keys."""
    assert memory_id("t", {"a": 1, "b": 2}) == memory_id("t", {"b": 2, "a": 1})
    assert memory_id("t", {"a": 1}) != memory_id("t", {"a": 2})
    assert memory_id("t", {}) != memory_id("u", {})


# -- edges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1970-01-02", datetime(1970, 1, 2), 86_400, np.float32(86_400)], ids=repr)
def test_an_edge_stores_its_times_in_seconds(value):
    """Times of any form are stored in seconds, so edges built with different forms are equal."""
    edge = Edge("a", "b", "cites", valid_from=value)
    assert (edge.valid_from, type(edge.valid_from)) == (86_400.0, float)
    assert edge == Edge("a", "b", "cites", valid_from=86_400.0)


@pytest.mark.parametrize("value", ["1970-01-01", date(1970, 1, 1)], ids=repr)
def test_valid_until_includes_its_day(value):
    """A valid_until that is only a date means the last moment of that day."""
    assert Edge("a", "b", "cites", valid_until=value).valid_until == 86_399.999999
    assert Edge("a", "b", "cites", valid_from=value, valid_until=value).valid_from == 0.0


@pytest.mark.parametrize("name", ["valid_from", "valid_until"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "soon", "", [2024], 1.7e12], ids=repr)
def test_an_invalid_time_of_an_edge_raises(name, value):
    """An invalid time raises a ValueError that names the edge, the field and the value."""
    with pytest.raises(ValueError, match=rf"'a' → 'b' \(cites\), {name}: .* not a time"):
        Edge("a", "b", "cites", **{name: value})


def test_valid_until_before_valid_from_raises():
    """valid_until before valid_from raises a ValueError; equal times are valid."""
    with pytest.raises(ValueError, match=r"valid_until \('2023'?.*\) before valid_from \('2024-01-01'\)"):
        Edge("a", "b", "cites", valid_from="2024-01-01", valid_until="2023-12-31")
    assert Edge("a", "b", "cites", valid_from=5, valid_until=5.0).valid_until == 5.0


@pytest.mark.parametrize(
    "weight", ["x", "0.5", None, True, math.nan, math.inf, 0, -1, 1.5, [0.5], Decimal("0.5"), np.ones(2)], ids=repr
)
def test_an_invalid_weight_raises(weight):
    """An invalid weight raises a ValueError that names the edge and shows a valid weight."""
    with pytest.raises(ValueError, match=r"'a' → 'b' \(cites\) has weight .*; pass .* such as weight="):
        Edge("a", "b", "cites", weight=weight)


@pytest.mark.parametrize("weight", [1, np.float32(0.5), np.float64(0.25)], ids=repr)
def test_the_weight_of_an_edge_is_a_float(weight):
    """A weight passed as a NumPy number is stored as a float, since SQLite cannot store NumPy numbers."""
    edge = Edge("a", "b", "cites", weight)
    assert (edge.weight, type(edge.weight)) == (weight, float)


def test_descriptions_are_cleaned():
    """Lone surrogates in an edge's description become U+FFFD."""
    assert checked_edges([Edge("a", "b", "r", description="x\ud800")])[0].description == "x\ufffd"


END = r"an edge's (source|target|relation) must be a string with at least one character, got"
DESCRIPTION = r"edge 'a' → 'b' \(r\) has description .*; pass a string, such as description="


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("a", "b", "cites")], r"must be an Edge, such as Edge\(.* got \('a', 'b', 'cites'\)"),
        (Edge("a", "b", "cites"), r'must be a list of Edge, such as \[Edge\("a"'),
        (None, "must be a list of Edge"),
        ([Edge("a", "b", "r", description=None)], DESCRIPTION),
        ([Edge("a", "b", "r", description=b"text")], DESCRIPTION),
        *[([Edge(*ends)], END) for ends in ((None, "b", "r"), ("", "b", "r"), ("a", 7, "r"), ("a", "b", ""))],
    ],
    ids=repr,
)
def test_edges_that_cannot_be_stored_are_refused(edges, message):
    """Anything but a list of Edge, and an end, relation or description that cannot be stored, raises ValueError."""
    with pytest.raises(ValueError, match=message):
        checked_edges(edges)
