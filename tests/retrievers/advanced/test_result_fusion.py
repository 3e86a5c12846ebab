"""Fusion of the results of two searches, or a choice between them."""

import math

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Answerability, Hit
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever, is_new_topic
from langchain_hybridgraph.search.conversation import ExpandedQuery
from langchain_hybridgraph.search.rerankers import TextReranker
from tests.support.models.function_retriever import FunctionRetriever
from tests.support.samples.cars import HISTORY, TEXTS, WHOLE, rewrite
from tests.support.samples.document_lists import ids


@pytest.mark.parametrize(("is_sure", "weight"), [(True, 0.5), (False, 0.25)])
def test_fusion_over_a_foreign_retriever(is_sure, weight):
    """Documents without scores are fused by weighted reciprocal ranks; the stored ones are not changed."""
    a, b, c = (Document(id, id=id, metadata={"page": id, "score": 7.0}) for id in "abc")
    lists = {"why?": [a, b], "because": [b, c]}

    def expander(query, history):
        return ExpandedQuery("because", "", 0.5, sure=is_sure)

    retriever = AdvancedRetriever(FunctionRetriever(find=lists.get), expander=expander, fuse_raw=True)
    result = retriever.retrieve_with_context("why?", HISTORY, k=3)
    scores = {"a": 1 - weight, "b": (1 - weight) * 61 / 62 + weight, "c": weight * 61 / 62}
    order = sorted(scores, key=lambda id: -scores[id])
    assert [(one.id, one.metadata["score"]) for one in result] == [(id, pytest.approx(scores[id])) for id in order]
    assert [document.metadata["page"] for document in result] == order
    sources = {document.id: document.metadata["retrieval_source"] for document in result}
    assert sources == {"a": "question", "b": "fused", "c": "conversation"}
    parts = {"question": (1 - weight) * 61 / 62, "conversation": weight}
    assert result[order.index("b")].metadata["score_breakdown"] == pytest.approx(parts)
    assert b.metadata == {"page": "b", "score": 7.0}
    plain = retriever.invoke({"input": "why?", "chat_history": HISTORY}, k=3)
    assert sorted(plain, key=lambda one: one.id) == [a, b, c]


def test_two_searches_give_no_more_than_one():
    """Without k, two fused searches return as many hits as the longer one."""
    lsa = HybridGraphStore.from_texts(list(TEXTS.values()), "lsa").embeddings
    plain = InMemoryVectorStore.from_texts(list(TEXTS.values()), lsa)
    retriever = AdvancedRetriever(plain.as_retriever(search_kwargs={"k": 2}))
    result = retriever.retrieve_with_context("and its price?", HISTORY)
    assert (result.plan["searched"], len(result)) == ("both", 2)
    assert len(retriever.retrieve_with_context("and its price?", HISTORY, k=4)) == 4


def test_the_raw_question_is_searched_with_the_rewrite(hybrid):
    """With fuse_raw=True, a score is the weighted mean of the hit's scores in both searches, in one unit."""
    query = "and its price?"
    result = AdvancedRetriever(hybrid, expander=rewrite(), fuse_raw=True).retrieve_with_context(query, HISTORY, k=6)
    both = [hybrid.retrieve(text, k=50) for text in (query, WHOLE)]
    raw, rewritten = ({hit.id: hit.score / one.answerability.unit for hit in one.hits} for one in both)
    mean = {id: 0.2 * raw.get(id, 0.0) + 0.8 * rewritten.get(id, 0.0) for id in ids(result)}
    scores = {document.id: document.metadata["score"] for document in result}
    assert result.plan["searched"] == "both"
    unit = max(scores.values()) / max(mean.values())
    assert scores == pytest.approx({id: score * unit for id, score in mean.items()})
    assert max(scores.values()) <= max(one.hits[0].score for one in both)
    assert [hit.id for hit in result.hits] == ids(result) == sorted(mean, key=lambda id: (-mean[id], id))
    assert len(result.hits) > 1
    assert all(hit.score == pytest.approx(sum(hit.parts.values())) for hit in result.hits)


NOTED = ("vector_score", "bm25_score", "rerank_score")


@pytest.mark.parametrize("reranked", [False, True])
def test_every_score_is_kept_when_two_searches_are_fused(hybrid, reranked):
    """A fused hit keeps scores that only one search has."""
    reranker = TextReranker(lambda _, texts: [0.5] * len(texts)) if reranked else None
    below = hybrid.model_copy(update={"reranker": reranker})
    retriever = AdvancedRetriever(below, expander=rewrite(), fuse_raw=True)
    result = retriever.retrieve_with_context("and its price?", HISTORY, k=6)
    both = [{one.id: one.metadata for one in below.retrieve(text, k=50)} for text in ("and its price?", WHOLE)]
    raw, rewritten = both
    assert any(raw[id]["bm25_score"] is None and rewritten[id]["bm25_score"] is not None for id in ids(result))
    for hit, document in zip(result.hits, result, strict=True):
        metadata = document.metadata
        for name in NOTED:
            expected = next((one[hit.id][name] for one in both if one[hit.id][name] is not None), None)
            assert metadata[name] == getattr(hit, name) == pytest.approx(expected), name
        assert hit.parts == pytest.approx(metadata["score_breakdown"])
        assert math.fsum(hit.parts.values()) == pytest.approx(metadata["score"])
        assert hit.parts.keys() == {
            part for one in both if one[hit.id]["score"] for part in one[hit.id]["score_breakdown"]
        }


def test_a_prefix_and_a_smaller_k(store):
    """With metadata_prefix, every key that a fusion adds has the prefix, and a smaller k gives the first hits."""
    retriever = AdvancedRetriever(HybridRetriever(store, metadata_prefix="hg_"), expander=rewrite(), fuse_raw=True)
    hits = retriever.retrieve_with_context("and its price?", HISTORY, k=6)
    assert hits[0].metadata["hg_bm25_score"] is not None
    assert all(key.startswith("hg_") for key in hits[0].metadata.keys() - {"n"})
    for k in range(6):
        assert ids(retriever.retrieve_with_context("and its price?", HISTORY, k=k)) == ids(hits)[:k]


def test_min_score_applies_to_fused_scores(hybrid):
    """min_score applies to the fused score, not to each search, whether set by the call or the constructor."""
    retriever = AdvancedRetriever(hybrid, expander=rewrite(), fuse_raw=True)
    every = retriever.retrieve_with_context("and its price?", HISTORY, k=6)
    scores = [document.metadata["score"] for document in every]
    least = (scores[0] + scores[1]) / 2
    assert ids(retriever.retrieve_with_context("and its price?", HISTORY, k=6, min_score=least)) == ids(every)[:1]
    strict = AdvancedRetriever(hybrid.model_copy(update={"min_score": least}), expander=rewrite(), fuse_raw=True)
    assert ids(strict.retrieve_with_context("and its price?", HISTORY, k=6)) == ids(every)[:1]


def result_of(*scores, unit=1.0):
    hits = tuple(Hit(Chunk(str(place), "text"), score, "fused", {}) for place, score in enumerate(scores))
    return RetrievalResult([], hits=hits, answerability=Answerability(0.5, unit=unit))


@pytest.mark.parametrize(
    ("by_question", "by_context", "expected"),
    [
        (result_of(0.8, 0.1), result_of(0.71, 0.1), True),
        (result_of(0.8, 0.1), result_of(0.73, 0.1), False),
        (result_of(0.8), result_of(0.4, unit=0.5), False),  # scores are compared before calibration
        (result_of(0.1), result_of(), True),
        (result_of(), result_of(), False),
    ],
)
def test_the_topic_is_new_if_the_question_alone_finds_a_clearly_better_hit(by_question, by_context, expected):
    """The topic is new if the best score with the context is below 0.9 times the question's best score."""
    assert is_new_topic(by_question, by_context) is expected
