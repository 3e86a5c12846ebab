"""Fusion compared with independent implementations: LangChain's EnsembleRetriever and ranx."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_classic.retrievers.ensemble import EnsembleRetriever
from langchain_core.documents import Document

from langchain_hybridgraph.records import Ranking
from langchain_hybridgraph.search.fusion import ConvexCombination, ReciprocalRankFusion

RAW = ReciprocalRankFusion(normalize="none")


# The oracle identifies by text and breaks ties by list order; equal only for non-empty lists without duplicates.
lists_of_ids = st.lists(
    st.lists(st.integers(0, 30).map("doc {}".format), min_size=1, max_size=20, unique=True), min_size=1, max_size=4
)
weights = st.lists(st.floats(0.05, 1), min_size=4, max_size=4)


def ranked(n, weight, ids):
    return Ranking(f"source {n}", weight, ids, dict.fromkeys(ids, 1.0))


@given(lists_of_ids, weights)
def test_reciprocal_ranks_are_those_of_the_ensemble_retriever(lists, weights):
    """Reciprocal rank fusion gives the same order as EnsembleRetriever, apart from ties."""
    retriever = EnsembleRetriever.model_construct(weights=weights[: len(lists)])  # its retrievers are not called
    documents = retriever.weighted_reciprocal_rank([[Document(page_content=id) for id in ids] for ids in lists])
    theirs = [document.page_content for document in documents]
    ours = RAW([ranked(n, weight, ids) for n, (weight, ids) in enumerate(zip(weights, lists, strict=False))])
    score = {one.id: one.score for one in ours}
    assert sorted(theirs) == sorted(score)
    assert [score[id] for id in theirs] == pytest.approx([one.score for one in ours], rel=1e-12)


def random_lists(seed):
    """Return two lists of ids with distinct scores between 0 and 1, best first."""
    some = random.Random(seed)
    return [
        dict(sorted(((f"d{i}", some.random()) for i in some.sample(range(40), 15)), key=lambda item: -item[1]))
        for _ in range(2)
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("fusion", "weights", "settings"),
    [
        (RAW, (1.0, 1.0), {"norm": None, "method": "rrf", "params": {"k": 60}}),
        (ConvexCombination(normalize="max"), (0.7, 0.3), {"norm": "max", "method": "wsum"}),
    ],
    ids=["reciprocal ranks", "convex combination"],
)
def test_scores_are_those_of_ranx(fusion, weights, settings, seed):
    """Reciprocal ranks with the constant 60, and a weighted sum of scores divided by the best, equal those of ranx."""
    import ranx  # takes a second

    lists = random_lists(seed)
    runs = [ranx.Run({"q": scores}) for scores in lists]
    theirs = dict(ranx.fuse(runs, **{"params": {"weights": weights}} | settings).run["q"])
    rankings = [
        Ranking(f"source {n}", weight, list(scores), scores)
        for n, (weight, scores) in enumerate(zip(weights, lists, strict=True))
    ]
    assert {one.id: one.score for one in fusion(rankings)} == pytest.approx(theirs)
