"""The query pipeline as a whole: order of hits, and failures of stages."""

from __future__ import annotations

import pytest

from langchain_hybridgraph.errors import RetrievalError
from langchain_hybridgraph.records import Query
from tests.support.samples.small_pipeline import ListSource, Shelf, hybrid, ids, run


def test_two_lists_become_one():
    """Weighted reciprocal rank fusion with .7 and .3 over [a,b,c] and [c,d,a] has this literal result."""
    hits, trace = hybrid("abc", "cda")
    assert ids(hits) == "acbd"
    assert [round(hit.score, 6) for hit in hits] == [0.990476, 0.977778, 0.688710, 0.295161]
    assert trace.reasons == ()


def test_a_hit_names_its_sources():
    """ "fused" means more than one source; the path of a seed is its own id."""
    hits, _ = hybrid("ab", "bc")
    assert {hit.id: hit.source for hit in hits} == {"a": "vector", "b": "fused", "c": "keyword"}
    assert [hit.path for hit in hits] == [(hit.id,) for hit in hits]


def test_a_smaller_k_gives_the_head_of_a_larger_one():
    """The results for k = 1, 2, … are heads of the result for k = 6."""
    sources = (ListSource("vector", 0.7, "abcdef"), ListSource("keyword", 0.3, "fedgh"))
    answers = [run(Query("q", k), store=Shelf(*"abcdefgh"), sources=sources)[0] for k in range(1, 7)]
    assert [ids(hits) for hits in answers] == [ids(answers[-1])[:k] for k in range(1, 7)]


def failing(*arguments):
    raise OSError("down")


class Failing:
    """A reranker, a fusion, parents and remembered things that cannot be reached."""

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
    """on_error='raise' applies to every stage; without it, failed stages are left out and reported."""
    _, trace = hybrid("ab", "b", **settings)
    assert f"{what}-failed" in trace.reasons
    with pytest.raises(RetrievalError, match=f"{what} failed .*down"):
        hybrid("ab", "b", on_error="raise", **settings)
