"""Kinds of evidence for a chunk, alone and combined with a traversal."""

import pytest

from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.search.evidence import CombinedTraversal, LinkEvidence
from langchain_hybridgraph.search.scores import HopDecay, NoisyOr
from langchain_hybridgraph.search.traversals import BFS, NO_SEED, Question, WaterCircle
from langchain_hybridgraph.stores.graph import InMemoryGraph


def mentions(entity, *chunks):
    return [Edge(chunk, entity, "mentions") for chunk in chunks]


# Four chunks: an entity that two of them mention has the rarity ln(4 / 2) / ln 4 = 1/2.
FOUR = mentions("entity:all", "a", "b", "c", "d")


def evidence_for(edges, seeds=(("a", 1.0),), **settings):
    """Return the value and the path of each reached chunk."""
    evidence = LinkEvidence(**settings)
    graph = InMemoryGraph(edges).scoped_graph(Scope(), evidence.edge_filter)
    result = evidence.traverse(graph, list(seeds), NoisyOr(), None)
    return {chunk.id: (pytest.approx(chunk.value), chunk.path) for chunk in result.chunks}


def test_evidence_of_a_shared_entity_is_its_rarity_squared():
    """A shared entity of rarity 1/2 gives evidence of (1/2)² · (.3 + 2 · .05)."""
    assert evidence_for([*FOUR, *mentions("entity:few", "a", "b")])["b"] == (0.1, ("a", "b"))


@pytest.mark.parametrize(("chunks", "mentioning", "count"), [(30, 10, 10), (30, 11, 1), (400, 20, 20), (400, 21, 1)])
def test_a_name_in_many_chunks_of_a_small_store_is_not_evidence(chunks, mentioning, count):
    """A shared entity leads to chunks if at most 5 % of them, or 10, mention it."""
    ids = [f"c{n}" for n in range(chunks)]
    edges = [*mentions("entity:all", *ids), *mentions("entity:some", *ids[:mentioning])]
    assert len(evidence_for(edges, seeds=[("c0", 1.0)])) == count


def test_evidence_of_a_link_is_proportional_to_its_weight():
    """A link of weight .5 gives evidence of .4 · .5."""
    assert evidence_for([*FOUR, Edge("a", "c", "cites", 0.5)])["c"] == (0.2, ("a", "c"))


@pytest.mark.parametrize(("missing", "evidence"), [(0.0, 0.02), (0.25, 0.1), (0.5, 0.4), (1.0, 0.4)])
def test_links_count_only_if_the_seeds_lack_words_of_the_question(missing, evidence):
    """A link hardly counts if a seed has all words of the question, and counts fully if all seeds lack half of them."""
    question = Question(missing=lambda: missing)
    assert evidence_for([*FOUR, Edge("a", "c", "cites")], question=question)["c"] == (evidence, ("a", "c"))


def test_the_next_passage_counts_even_if_a_seed_has_all_words():
    """A sequence edge counts fully in both directions, whatever the seeds contain."""
    question = Question(missing=lambda: 0.0)
    assert evidence_for([*FOUR, Edge("a", "c", "sequence")], question=question)["c"] == (0.4, ("a", "c"))
    assert evidence_for([*FOUR, Edge("c", "a", "sequence")], question=question)["c"] == (0.4, ("a", "c"))


def test_many_links_share_their_evidence():
    """The evidence of each of two links is divided by the fourth root of two."""
    assert evidence_for([*FOUR, Edge("a", "b", "cites"), Edge("a", "c", "cites")])["c"] == (0.4 * 2**-0.25, ("a", "c"))


def test_evidence_of_a_title_that_a_seed_mentions():
    """A seed that mentions b's title of rarity 1/2 gives evidence of 1/2, combined with .1 for the shared name."""
    edges = [*FOUR, *mentions("entity:b", "a", "b"), *mentions("title:b", "b")]
    assert evidence_for(edges)["b"] == (1 - 0.5 * 0.9, ("a", "b"))


def test_a_seeds_own_title_is_not_evidence():
    """A chunk that mentions the seed's own title shares no entity with the seed."""
    assert set(evidence_for([*FOUR, *mentions("entity:a", "a", "b"), *mentions("title:a", "a")])) == {"a"}


def test_evidence_is_proportional_to_the_score_of_the_seed():
    """A link from a seed with half the best seed's score gives half the evidence."""
    assert evidence_for([*FOUR, Edge("a", "c", "cites", 0.5)], [("d", 0.8), ("a", 0.4)])["c"] == (0.1, ("a", "c"))


def test_a_chunk_with_uncovered_words_has_more_evidence():
    """A chunk with half of the words that no seed covers gets evidence of (1/2)² · (.3 + 2 · .5)."""
    question = Question(coverage=lambda ids: dict.fromkeys(ids, 0.5))
    assert evidence_for([*FOUR, *mentions("entity:few", "a", "b")], question=question)["b"] == (0.325, ("a", "b"))


def test_the_path_of_a_seed_starts_at_the_seed_that_supports_it():
    """Two linked seeds are evidence for each other, and the path of each starts at the other."""
    evidence = evidence_for([*FOUR, Edge("a", "b", "cites", 0.5)], [("a", 0.8), ("b", 0.4), ("d", 0.2)])
    assert evidence == {"b": (0.2, ("a", "b")), "a": (0.1, ("b", "a")), "d": (0.0, ("d",))}


def test_a_seed_keeps_its_value_if_the_traversal_sets_the_score():
    """With a score that replaces the search's scores, a linked seed keeps its own path and the value of a seed."""
    evidence = LinkEvidence()
    graph = InMemoryGraph([*FOUR, Edge("a", "b", "cites", 0.5)]).scoped_graph(Scope(), evidence.edge_filter)
    result = evidence.traverse(graph, [("a", 0.8), ("b", 0.4)], HopDecay(), None)
    assert [(chunk.path, round(chunk.value, 6)) for chunk in result.chunks] == [(("a",), 0.86), (("b",), 0.58)]


def test_a_chunk_named_by_the_question_has_no_seed():
    """A chunk whose title is in the question gets evidence of .7 · 1/2, has no seed, and its path is its own id."""
    evidence = LinkEvidence().for_question(Question(("b",)))
    edges = [*FOUR, *mentions("entity:b", "a", "b"), *mentions("title:b", "b")]
    graph = InMemoryGraph(edges).scoped_graph(Scope(), evidence.edge_filter)
    (chunk,) = (chunk for chunk in evidence.traverse(graph, [("d", 1.0)], NoisyOr(), None).chunks if chunk.value)
    assert (chunk.path, chunk.seed, round(chunk.value, 9)) == (("b",), NO_SEED, 0.35)


LINE = [Edge("a", "b", "cites"), Edge("b", "c", "cites"), Edge("c", "d", "cites"), Edge("d", "e", "cites")]


def combined_chunks(traversal, seeds=(("a", 1.0),)):
    graph = InMemoryGraph(LINE).scoped_graph(Scope(), traversal.edge_filter)
    return {chunk.id: chunk for chunk in traversal.traverse(graph, list(seeds), NoisyOr(), None).chunks}


def test_a_combined_traversal_reaches_as_far_as_its_second_part():
    """Evidence reaches one hop; a combined traversal also reaches the chunks of its second traversal."""
    assert set(combined_chunks(LinkEvidence())) == {"a", "b"}
    assert set(combined_chunks(CombinedTraversal(beyond=WaterCircle(max_hops=3, direction="both")))) == set("abcd")
    assert set(combined_chunks(CombinedTraversal(beyond=BFS(max_hops=2, direction="both")))) == set("abc")


def test_a_chunk_has_the_better_of_both_values():
    """A chunk that evidence and traversal both reach has the higher of the two values."""
    combined, evidence, ring = (
        combined_chunks(one) for one in (CombinedTraversal(), LinkEvidence(), WaterCircle(direction="both"))
    )
    assert evidence.keys() | ring.keys() >= set("bcd")
    for id in "bcd":
        assert combined[id].value == max(other[id].value for other in (evidence, ring) if id in other)


@pytest.mark.parametrize(("sources", "expected"), [(1, {"b"}), (2, {"b", "c", "e"})])
def test_the_second_part_starts_at_the_best_seeds(sources, expected):
    """With sources=1, only the neighbours of the best seed are reached."""
    combined = CombinedTraversal(LinkEvidence(sources=sources), BFS(max_hops=1, direction="both"))
    chunks = combined_chunks(combined, [("d", 0.5), ("a", 0.9)])
    assert {id for id, chunk in chunks.items() if chunk.hops} == expected


def test_a_seed_is_not_evidence_for_itself():
    """A seed without evidence from other chunks has the value 0."""
    assert combined_chunks(CombinedTraversal(), [("e", 0.9), ("a", 0.5)])["a"].value == 0.0
