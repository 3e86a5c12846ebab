"""Explanations of hits, headings of chunks, and ids."""

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Hit, memory_id


def step(one, relation, weight, description, **entity):
    return {"from_chunk_id": one, "relation": relation, "weight": weight, "description": description, **entity}


def graph_hit(*path, parts, context):
    return Hit(
        Chunk(path[-1], "t"), sum(parts.values()), "graph", parts, hops=len(path) - 1, path=path, graph_context=context
    )


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
