"""Rerankers: scores, cross-encoders and chat models."""

import json
import math
import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.rerankers import (
    CrossEncoderReranker,
    LLMReranker,
    ScoreReranker,
    TextReranker,
    apply_scores,
)
from tests.support.models.saying_model import SayingModel
from tests.support.samples.clock import PATIENCE
from tests.support.servers.openai_server import OpenAIServer, Reply

KEEPS = TextReranker(lambda query, texts: [])
DROPS = TextReranker(lambda query, texts: [], filters=True)


def hit(id, score=0.5, text=""):
    return Hit(Chunk(id, text), score, "fused", {"vector": score * 0.75, "keyword": score * 0.25})


def ids_and_scores(hits):
    return [(h.id, pytest.approx(h.score, abs=1e-6)) for h in hits]


def test_logits_go_through_a_sigmoid():
    """If one score is outside [0, 1], a sigmoid is applied to all: 2 → .880797, .5 → .622459, −2 → .119203."""
    reranked = apply_scores([hit("a"), hit("b"), hit("c")], [-2.0, 0.5, 2.0], KEEPS)
    assert ids_and_scores(reranked) == [("c", 0.880797), ("b", 0.622459), ("a", 0.119203)]


def test_the_earlier_breakdown_is_not_erased():
    """Reranking keeps the fused parts of a score and adds the difference as the part ``rerank``."""
    (reranked,) = apply_scores([hit("a", 0.8)], [0.5], KEEPS)
    assert reranked.parts == pytest.approx({"vector": 0.6, "keyword": 0.2, "rerank": -0.3})
    assert reranked.rerank_score == 0.5


def test_unscored_hits_rank_below_in_their_earlier_order():
    """Hits without a score are evenly spread below the lowest one, in their earlier order."""
    reranked = apply_scores([hit("z"), hit("a"), hit("m"), hit("b")], [None, 0.4, None, 0.8], KEEPS)
    assert ids_and_scores(reranked) == [("b", 0.8), ("a", 0.4), ("z", 0.4 * 2 / 3), ("m", 0.4 / 3)]
    assert [h.rerank_score for h in reranked] == [0.8, 0.4, None, None]


@pytest.mark.parametrize("reranker", [KEEPS, DROPS])
@pytest.mark.parametrize("scores", [[0.1], [0.1, 0.2, 0.3], [0.1, math.nan]])
def test_the_scores_must_be_a_number_per_hit(scores, reranker):
    """Fewer or more scores than hits, and NaN, raise ValueError."""
    with pytest.raises(ValueError, match=f"TextReranker must return .*, got (NaN|{len(scores)} scores for 2 hits)"):
        apply_scores([hit("a"), hit("b")], scores, reranker)


@given(st.lists(st.none() | st.floats(-20, 20) | st.sampled_from([0.0, 0.5, 1.0]), max_size=8), st.booleans())
def test_properties(scores, filters):
    """No hit is lost or added, scores are in [0, 1] in descending order, and parts sum to the score; inputs are
    unchanged.
    """
    hits = [hit(f"h{(i * 5) % 8}", 1 - i / 10) for i in range(len(scores))]
    before = [(h.score, dict(h.parts)) for h in hits]
    reranked = apply_scores(hits, scores, DROPS if filters else KEEPS)
    stay = {h.id for h, score in zip(hits, scores, strict=True) if score is not None or not filters}
    assert sorted(h.id for h in reranked) == sorted(stay)
    assert all(0 <= h.score <= 1 for h in reranked)
    assert [h.score for h in reranked] == sorted((h.score for h in reranked), reverse=True)
    assert all(math.fsum(h.parts.values()) == pytest.approx(h.score) for h in reranked)
    assert [(h.score, dict(h.parts)) for h in hits] == before


def test_score_reranker_keeps_from_min_score_on():
    """ScoreReranker keeps hits with at least ``min_score``, with their scores and order."""
    reranker = ScoreReranker(0.5)
    hits = [hit("b", 0.9), hit("c", 0.5), hit("a", 0.4999)]
    assert ids_and_scores(apply_scores(hits, reranker.rerank("q", hits), reranker)) == [("b", 0.9), ("c", 0.5)]


class FakeCrossEncoder:
    """Cross-encoder whose logit is the number of words that query and text share, minus one."""

    num_labels = 1

    def __init__(self, name="", device=None, max_length=None):
        self.made_with = (name, device, max_length)
        self.batch_sizes = []

    def predict(self, inputs, *, batch_size, show_progress_bar, activation_fn):
        assert not show_progress_bar
        self.batch_sizes.append(batch_size)
        return activation_fn([len(set(query.split()) & set(text.split())) - 1 for query, text in inputs])


def test_cross_encoder_scores_are_sigmoids():
    """The logits 1, 0 and −1 become .731059, .5 and .268941, although two of them are in [0, 1]."""
    hits = [hit("a", text="red car"), hit("b", text="car"), hit("c", text="boat")]
    scores = CrossEncoderReranker(FakeCrossEncoder()).rerank("the red car", hits)
    assert scores == pytest.approx([0.731059, 0.5, 0.268941], abs=1e-6)


def test_cross_encoder_is_loaded_at_construction(monkeypatch):
    """A cross-encoder is loaded by name with the given options, and called with the configured batch size."""
    library = ModuleType("sentence_transformers")
    library.CrossEncoder = FakeCrossEncoder
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    reranker = CrossEncoderReranker("some/model", batch_size=7, device="cpu", max_length=128)
    assert reranker.model.made_with == ("some/model", "cpu", 128)
    reranker.rerank("q", [hit("a")])
    assert reranker.model.batch_sizes == [7]


def test_cross_encoder_without_the_extra(monkeypatch):
    """If sentence-transformers is missing, construction raises an error with the command that installs it."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r'pip install "langchain-hybridgraph\[rerank\]"'):
        CrossEncoderReranker()


def test_cross_encoder_with_several_labels():
    """A classifier with several labels is refused at construction."""
    model = FakeCrossEncoder()
    model.num_labels = 3
    with pytest.raises(ConfigurationError, match="gives 3 numbers per text"):
        CrossEncoderReranker(model)


TEXTS = {"a": "Cats purr.", "b": "Cats eat fish.", "c": "Dogs bark."}
HITS = [Hit(Chunk(id, text), 0.9 - place / 10, "fused", {}) for place, (id, text) in enumerate(TEXTS.items())]
RATINGS = {"ratings": [{"passage": 1, "rating": 4}, {"passage": 2, "rating": 10}, {"passage": 3, "rating": 0}]}
SCORES = pytest.approx([0.4, 1.0, 0.0], abs=1e-6)


def hits(n):
    return [Hit(Chunk(f"{i:03}", str(i)), 1 - i / n, "fused", {}) for i in range(n)]


def reranked(answer, hits=HITS, **options):
    return LLMReranker(SayingModel(answer=answer), **options).rerank("What do cats eat?", hits)


def by_text(rating):
    """Return a model's answer that scores each passage by its text."""

    def answer(prompt):
        return {"ratings": [{"passage": one["passage"], "rating": rating(one["text"])} for one in prompt["passages"]]}

    return answer


@given(st.lists(st.integers(0, 10), min_size=1, max_size=60))
def test_equal_ratings_keep_the_earlier_order(ratings):
    """Scores equal a tenth of the ratings within a millionth, and hits with equal ratings keep their order."""
    scores = reranked(by_text(lambda text: ratings[int(text)]), hits(len(ratings)))
    assert scores == pytest.approx([rating / 10 for rating in ratings], abs=1e-6)
    assert all(0 <= score <= 1 for score in scores)
    expected = sorted(range(len(ratings)), key=lambda i: (-ratings[i], i))
    assert sorted(range(len(ratings)), key=lambda i: -scores[i]) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "Passage [2] is best.\n" + json.dumps(RATINGS["ratings"]) + "\nThat is all.",
        {"ratings": [{"passage": "2", "rating": "10 of 10"}, *RATINGS["ratings"]]},
        {"ratings": RATINGS["ratings"] + [{"passage": number, "rating": 9} for number in (1, 4, 0)]},
    ],
)
def test_wrong_forms_are_understood(answer):
    """Ratings are read from prose, lists and strings; repeated and unknown passages are ignored."""
    assert reranked(answer) == SCORES


def test_passages_without_a_rating_follow_in_their_earlier_order():
    """Passages without a valid rating are ranked after those with one, in their earlier order."""
    invalid = [{"passage": 1, "rating": "good"}, {"passage": 3}, {"rating": 4}, {"passage": 1.5, "rating": 1}, "3"]
    reranker = LLMReranker(SayingModel(answer={"ratings": [{"passage": 2, "rating": 3}, *invalid]}))
    scores = reranker.rerank("What do cats eat?", HITS)
    assert (scores[0], scores[2]) == (None, None)
    assert [hit.id for hit in apply_scores(HITS, scores, reranker)] == ["b", "a", "c"]


@pytest.mark.parametrize(
    "answer",
    [
        "The second is best.",
        {"ratings": [1, 2]},
        {"ratings": "high"},
        {"ratings": [{"passage": 9, "rating": 3}]},
        {"ratings": [{"passage": 1, "rating": 95}, {"passage": 2, "rating": 7}]},
        {"ratings": [{"passage": 1, "rating": -1}]},
    ],
)
def test_an_unusable_answer_is_an_error(answer):
    """An answer without ratings, with too few of them, or on another scale raises ValueError."""
    with pytest.raises(ValueError, match="model"):
        reranked(answer)


def test_the_prompt_is_bounded():
    """Long chunks and queries are shortened in the prompt."""
    prompts = []
    model = SayingModel(answer=lambda prompt: prompts.append(prompt) or by_text(lambda text: 1)(prompt))
    LLMReranker(model, max_characters=100).rerank("q" * 10**6, [Hit(Chunk("a", "x" * 10**6), 1.0, "fused", {})])
    assert len(json.dumps(prompts[0])) < 4_300


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 0}, {"workers": 0}, {"max_characters": 0}, {"timeout": 0}, {"timeout": float("nan")}]
)
def test_wrong_settings_are_refused(wrong):
    """Options out of range raise ConfigurationError at construction."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        LLMReranker(SayingModel(answer=RATINGS), **wrong)


# -- over HTTP ----------------------------------------------------------------------------------------------


@pytest.fixture
def documents():
    return [Document(text, id=id) for id, text in TEXTS.items()]


@pytest.fixture
def chroma(documents):
    store = Chroma("cats", DeterministicFakeEmbedding(size=8))
    store.add_documents(documents)
    yield store
    store.delete_collection()


@pytest.mark.parametrize(
    "reply",
    [
        Reply("rate limit", 429),
        Reply(raw=b'{"choices": ['),
        Reply("The second is best."),
        Reply({}, arguments='{"ratings": [{"pass'),
        Reply(RATINGS, hangs=True),
    ],
)
async def test_failures_over_http_keep_the_earlier_order(chroma, documents, reply):
    """After any failure of the model, hits keep their order and ``rerank-failed`` is reported."""
    before = HybridRetriever(chroma, documents, k=3).retrieve("What do cats eat?")
    assert len(before) == 3
    with OpenAIServer(reply) as server:
        reranker = LLMReranker(server.chat_model(), timeout=0.05 if reply.hangs else PATIENCE)
        retriever = HybridRetriever(chroma, documents, k=3, reranker=reranker)
        for result in (retriever.retrieve("What do cats eat?"), await retriever.aretrieve("What do cats eat?")):
            assert [document.id for document in result] == [document.id for document in before]
            assert result.degraded == ("rerank-failed",)
