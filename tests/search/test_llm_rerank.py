import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.rerankers import LLMReranker, apply_scores
from tests.support.models.saying_model import SayingModel
from tests.support.samples.clock import PATIENCE
from tests.support.servers.openai_server import OpenAIServer, Reply, material

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
    scored = hits(len(ratings))
    scores = reranked(by_text(lambda text: ratings[int(text)]), scored)
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


def of_cats(request):
    ratings = {"Cats purr.": 4, "Cats eat fish.": 10, "Dogs bark.": 0}
    return by_text(ratings.__getitem__)(material(request))


async def test_in_a_retriever(chroma, documents):
    """A retriever orders hits by the model's ratings, and their rerank scores are the ratings divided by ten."""
    with OpenAIServer(of_cats) as server:
        reranker = LLMReranker(server.chat_model(), batch_size=2)
        retriever = HybridRetriever(chroma, documents, k=3, reranker=reranker)
        for result in (retriever.retrieve("What do cats eat?"), await retriever.aretrieve("What do cats eat?")):
            assert [document.id for document in result] == ["b", "a", "c"]
            assert [document.metadata["rerank_score"] for document in result] == pytest.approx(
                [1.0, 0.4, 0.0], abs=1e-6
            )
            assert result.degraded == ()
        assert len(server.requests) == 4


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
