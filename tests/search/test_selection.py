import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.search.pipeline import marginal_relevance, select_hits


def hit(id, score, document=None):
    return Hit(Chunk(id, "", document_id=document or id), score, "vector", {"vector": score})


def ids(hits):
    return "".join(one.id for one in hits)


HITS = [hit("a", 0.9), hit("b", 0.85), hit("c", 0.6)]
# cos(a, b) = .95 and cos(a, c) = .1
TOWARDS = np.array([[1, 0], [0.95, math.sqrt(1 - 0.95**2)], [0.1, math.sqrt(1 - 0.1**2)]], np.float32)


@st.composite
def candidates(draw):
    scores = sorted(draw(st.lists(st.floats(0, 1), max_size=12)), reverse=True)
    documents = draw(st.lists(st.sampled_from("xyz"), min_size=len(scores), max_size=len(scores)))
    hits = [hit(f"{i:02d}", score, document) for i, (score, document) in enumerate(zip(scores, documents, strict=True))]
    vectors = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(len(hits), 4)).astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return hits, vectors


@st.composite
def selections(draw):
    return {
        "min_score": draw(st.floats(0, 1)),
        "mmr_lambda": draw(st.none() | st.floats(0, 1)),
        "max_per_document": draw(st.none() | st.integers(1, 3)),
    }


def test_a_score_equal_to_the_threshold_stays():
    """A score equal to min_score is kept, and a lower one is dropped."""
    assert ids(select_hits(HITS, 10, min_score=0.85)) == "ab"


def test_diversity_before_similarity():
    """With λ = .7, b is ranked after c because it is too similar to a."""
    assert ids(select_hits(HITS, 3, mmr_lambda=0.7, vectors=TOWARDS)) == "acb"


def test_a_hit_without_a_vector_is_unlike_all():
    """A hit with a zero vector is treated as dissimilar to all others."""
    vectors = TOWARDS.copy()
    vectors[1] = 0
    assert ids(select_hits(HITS, 3, mmr_lambda=0.7, vectors=vectors)) == "abc"


def test_the_threshold_comes_before_diversity():
    """A hit below min_score is dropped even if it is dissimilar to the others."""
    assert ids(select_hits(HITS, 3, min_score=0.7, mmr_lambda=0.1, vectors=TOWARDS)) == "ab"


def test_hits_per_document_are_limited():
    """With max_per_document=2, the third hit of a document is replaced by the next document's."""
    hits = [hit("a", 0.9, "x"), hit("b", 0.8, "x"), hit("c", 0.7, "x"), hit("d", 0.6, "y")]
    assert ids(select_hits(hits, 3, max_per_document=2)) == "abd"


def test_the_limit_per_document_applies_after_diversity():
    """With max_per_document, the hits that diversity ranks first are kept."""
    hits = [hit("a", 0.9, "x"), hit("b", 0.85, "x"), hit("c", 0.6, "x")]
    assert ids(select_hits(hits, 3, mmr_lambda=0.7, max_per_document=2, vectors=TOWARDS)) == "ac"


@given(candidates(), selections(), st.integers(0, 12), st.integers(0, 12))
def test_a_smaller_k_gives_the_head_of_a_larger_one(sample, settings, k, more):
    """For any settings, the result for a smaller k is the start of the result for a larger one."""
    hits, settings["vectors"] = sample
    assert select_hits(hits, k + more, **settings)[:k] == select_hits(hits, k, **settings)


@given(candidates(), st.floats(0, 1))
def test_marginal_relevance_follows_its_definition(sample, weight):
    """The incremental computation selects the same hits as the definition, up to rounding."""
    hits, vectors = sample
    scores = np.array([one.score for one in hits])
    cosines = (vectors @ vectors.T).astype(np.float64)
    selected = []
    for place in marginal_relevance(scores, vectors, weight):
        worth = [
            weight * scores[i] - (1 - weight) * (max(cosines[i][j] for j in selected) if selected else 0.0)
            for i in range(len(hits))
        ]
        left = [i for i in range(len(hits)) if i not in selected]
        assert worth[place] >= max(worth[i] for i in left) - 1e-6
        selected.append(place)
    assert len(selected) == len(hits)


# -- token budget ---------------------------------------------------------------------------------------------------


def sized(id, text):
    return Hit(Chunk(id, text), 0.5, "vector", {"vector": 0.5})


def words(**counts):
    return [sized(id, "word " * n) for id, n in counts.items()]


def test_smaller_hits_fill_the_rest():
    """A smaller hit is kept after one that does not fit: with 13 of 30 tokens used, 26 more do not fit, but 1 more
    does.
    """
    assert TokenBudget(30).fit(words(a=10, b=20, c=1)) == (words(a=10, c=1), [])


def test_the_first_is_kept_whatever_its_size():
    """A first hit that exceeds the budget is kept alone and reported."""
    fitting, reasons = TokenBudget(5).fit([*words(a=10), sized("b", "")])
    assert (ids(fitting), reasons) == ("a", ["single-chunk-exceeds-budget"])
    hit = sized("a", "xxxxx")
    assert TokenBudget(5, counter=len).fit([hit]) == ([hit], [])


@given(st.lists(st.integers(0, 50), max_size=10), st.integers(1, 100), st.booleans())
def test_no_more_than_the_budget(sizes, most, fill):
    """The hits together stay within the budget unless the first one alone exceeds it."""
    hits = [sized(str(i), "x" * size) for i, size in enumerate(sizes)]
    fitting, reasons = TokenBudget(most, counter=len, fill=fill).fit(hits)
    total = sum(len(one.chunk.text) for one in fitting)
    assert total <= most or (len(fitting) == 1 and reasons == ["single-chunk-exceeds-budget"])
    assert fitting == [one for one in hits if one in fitting]
    assert fitting[:1] == hits[:1]


@pytest.mark.parametrize("most", [0, -1])
def test_a_budget_below_1_is_refused(most):
    """A budget below 1 raises ConfigurationError at construction."""
    with pytest.raises(ConfigurationError, match="max_tokens"):
        TokenBudget(most)
