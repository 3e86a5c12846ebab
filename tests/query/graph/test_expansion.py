"""Merging of candidates with reached chunks: order, scores and parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import FusedCandidate
from langchain_hybridgraph.search.expansion import Expansion
from langchain_hybridgraph.search.scores import HopDecay, NoisyOr
from langchain_hybridgraph.search.traversals import BFS, ReachedChunk, best_first

IDS = [f"c{number}" for number in range(12)]


def expansion_with(score, traversal=None, **options):
    return Expansion(traversal or BFS(), score, **{"seed_k": 10} | options)


EXPANSION = expansion_with(HopDecay())


def fused_candidates(**scores):
    return {id: FusedCandidate(id, score, {"vector": score}) for id, score in scores.items()}


def reached_chunk(id, value, *, hops=1):
    path = ("s", id) if hops else (id,)
    return ReachedChunk(id, value, hops, path, path[0])


def test_a_reached_chunk_has_the_score_of_the_traversal():
    """Reached chunks have the traversal's score, which for a seed includes a search part; other candidates have only
    that part.
    """
    own = fused_candidates(s=0.9, far=0.8)
    fused = EXPANSION.fuse(own, {"s": 0.9, "far": 0.5}, [reached_chunk("s", 0.93, hops=0), reached_chunk("new", 0.6)])
    assert [(one.id, one.score) for one in fused] == [("s", 0.93), ("new", 0.6), ("far", pytest.approx(0.35))]
    assert fused[0].parts == {"search": pytest.approx(0.63), "seed": pytest.approx(0.3)}
    assert fused[1].parts == {"graph": 0.6}
    assert fused[2].parts == {"search": pytest.approx(0.35)}


@pytest.mark.parametrize("score", [HopDecay(), NoisyOr()])
def test_only_reached_chunks_may_be_returned(score):
    """With candidates="reached", a candidate that is neither a seed nor reached is left out."""
    expansion = expansion_with(score, candidates="reached")
    own = fused_candidates(s=0.9, far=0.8, a=0.2)
    fused = expansion.fuse(own, {"s": 0.9, "far": 0.8}, [reached_chunk("s", 0.9, hops=0), reached_chunk("a", 0.4)])
    assert {one.id for one in fused} == {"s", "a"}


def test_an_unknown_value_of_candidates_is_refused():
    """The error for an invalid value of candidates contains the value and the accepted ones."""
    with pytest.raises(ConfigurationError, match=r"must be 'all' .* or 'reached' .*, got 'seeds'"):
        expansion_with(HopDecay(), candidates="seeds")


def test_a_mixed_score_never_lowers_a_score():
    """A mixed score adds evidence to the search score and never lowers it."""
    expansion = expansion_with(NoisyOr())
    own = fused_candidates(a=0.8, b=0.4)
    fused = expansion.fuse(own, {"a": 0.8, "b": 0.4}, [reached_chunk("b", 0.5)])
    assert [(one.id, one.score) for one in fused] == [("a", 0.8), ("b", pytest.approx(0.8 * 0.75))]


def test_the_score_of_a_seed_is_its_clipped_cosine_or_fused_score():
    """A seed's score is its cosine, clipped to [0, 1], or its fused score if the cosine is unknown."""
    own = fused_candidates(a=0.5, b=7.0)
    assert EXPANSION.strengths(own, ["c"], {"a": -0.2, "c": 1.1}) == {"a": 0.0, "b": 7.0, "c": 1.0}


reached_ones = st.lists(
    st.tuples(st.sampled_from(IDS), st.sampled_from([0.0, 0.2, 0.2 + 1e-14, 0.5, 0.9]), st.integers(0, 2)),
    unique_by=lambda one: one[0],
)
candidates = st.dictionaries(st.sampled_from(IDS), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))


@given(reached_ones, candidates, st.sampled_from(["all", "reached"]), st.sampled_from([HopDecay(), NoisyOr()]))
def test_every_chunk_is_fused_once_best_first(rows, strength, option, score):
    """Every allowed candidate and reached chunk appears once, ordered by score and then id."""
    expansion = expansion_with(score, candidates=option)
    chunks = sorted((reached_chunk(id, value, hops=hops) for id, value, hops in rows), key=best_first)
    own = fused_candidates(**dict.fromkeys((chunk.id for chunk in chunks), 0.0) | strength)
    fused = expansion.fuse(own, {} if option == "reached" else dict.fromkeys(strength, 0.0), chunks)
    ids = {chunk.id for chunk in chunks} | (set() if option == "reached" else strength.keys())
    assert sorted(one.id for one in fused) == sorted(ids)
    assert fused == sorted(fused, key=lambda one: (-one.score, one.id))
