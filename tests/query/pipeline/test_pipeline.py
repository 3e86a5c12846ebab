"""The complete query pipeline: order of hits, and failures of stages."""

from __future__ import annotations

import pytest

from langchain_hybridgraph.errors import RetrievalError
from langchain_hybridgraph.records import Query
from tests.support.samples.small_pipeline import ListSource, Shelf, hybrid, ids, run


def test_two_lists_become_one():
    """Weighted reciprocal rank fusion of [a, b, c] and [c, d, a] with .7 and .3 gives a, c, b, d with literal
    scores.
    """
    hits, trace = hybrid("abc", "cda")
    assert ids(hits) == "acbd"
    assert [round(hit.score, 6) for hit in hits] == [0.990476, 0.977778, 0.688710, 0.295161]
    assert trace.reasons == ()


def test_a_hit_names_its_sources():
    """The source of a hit is "fused" if several sources found it, and the path of a seed is its own id."""
    hits, _ = hybrid("ab", "bc")
    assert {hit.id: hit.source for hit in hits} == {"a": "vector", "b": "fused", "c": "keyword"}
    assert [hit.path for hit in hits] == [(hit.id,) for hit in hits]


def test_a_smaller_k_gives_the_head_of_a_larger_one():
    """The results for any k from 1 to 6 are the first k results for k=6."""
    sources = (ListSource("vector", 0.7, "abcdef"), ListSource("keyword", 0.3, "fedgh"))
    answers = [run(Query("q", k), store=Shelf(*"abcdefgh"), sources=sources)[0] for k in range(1, 7)]
    assert [ids(hits) for hits in answers] == [ids(answers[-1])[:k] for k in range(1, 7)]


def failing(*arguments):
    raise OSError("down")


class Failing:
    """Reranker, fusion and store that always fail."""

    has_parents = True
    read = Shelf("a", "b", a={"parent_id": "p"}).read
    rerank = read_parents = vectors = __call__ = failing


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"reranker": Failing()}, "rerank"),
        ({"fusion": Failing()}, "fusion"),
        ({"store": Failing(), "parents": True}, "parents"),
        ({"store": Failing(), "mmr_lambda": 0.5}, "vector"),
    ],
)
def test_the_first_failure_of_any_stage_raises(settings, what):
    """A failed stage is skipped and reported, or raises RetrievalError with on_error="raise"."""
    _, trace = hybrid("ab", "b", **settings)
    assert f"{what}-failed" in trace.reasons
    with pytest.raises(RetrievalError, match=f"{what} failed .*down"):
        hybrid("ab", "b", on_error="raise", **settings)
