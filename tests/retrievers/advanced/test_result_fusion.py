"""Fusion of the results of two searches."""

import asyncio
import math

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.conversation import AppendHistory, ExpandedQuery
from langchain_hybridgraph.search.rerankers import TextReranker
from tests.support.samples.cars import HISTORY, TEXTS, WHOLE, Words, ids, rewrite


def test_fusion_by_rank():
    """Results are fused by weighted reciprocal ranks, with 1 as the highest possible score."""
    lists = {"why?": ["a", "b"], "why? because": ["b", "c"]}

    class ListRetriever(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [Document(id=id, page_content=id) for id in lists[query]]

    expander = lambda query, history: f"{query} because"  # noqa: E731 - any callable is an expander
    retriever = AdvancedRetriever(ListRetriever(), expander=expander, fuse_raw=True)
    result = retriever.retrieve_with_context("why?", HISTORY, k=3)
    assert ids(result) == ["b", "a", "c"]
    scores = [document.metadata["relevance_score"] for document in result]
    assert scores == pytest.approx([(61 / 62 + 1) / 2, 1 / 2, 61 / 62 / 2])
    assert [document.metadata["retrieval_rank"] for document in result] == [1, 2, 3]
    assert result[0].metadata["retrieval_source"] == "fused"


def test_an_unsure_expansion_has_half_the_weight():
    """In a fusion of two searches, an expansion that is not sure has a weight of .25 instead of .5."""

    class ListRetriever(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [Document(id=query, page_content=query)]

    expander = lambda query, history: ExpandedQuery("because", "", 0.5, sure=False)  # noqa: E731 - as any callable
    result = AdvancedRetriever(ListRetriever(), expander=expander).retrieve_with_context("why?", HISTORY, k=2)
    assert [(one.id, one.metadata["score"]) for one in result] == [("why?", 0.75), ("because", 0.25)]


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
    retriever = AdvancedRetriever(hybrid, expander=rewrite(), fuse_raw=True)
    result = retriever.retrieve_with_context(query, HISTORY, k=6)
    both = [hybrid.retrieve(text, k=50) for text in (query, WHOLE)]
    raw, rewritten = ({hit.id: hit.score / one.answerability.unit for hit in one.hits} for one in both)
    mean = {id: 0.2 * raw.get(id, 0.0) + 0.8 * rewritten.get(id, 0.0) for id in ids(result)}
    scores = {document.id: document.metadata["score"] for document in result}
    assert result.plan["searched"] == "both"
    assert scores == pytest.approx(
        {id: score * max(scores.values()) / max(mean.values()) for id, score in mean.items()}
    )
    assert max(scores.values()) <= max(one.hits[0].score for one in both)
    assert [hit.id for hit in result.hits] == ids(result) == sorted(mean, key=lambda id: (-mean[id], id))
    assert len(result.hits) > 1
    assert all(hit.score == pytest.approx(sum(hit.parts.values())) for hit in result.hits)


NOTED = ("vector_score", "bm25_score", "rerank_score")


@pytest.mark.parametrize("reranked", [False, True])
@pytest.mark.parametrize("method", ["retrieve", "invoke"])
def test_every_score_is_kept_when_two_searches_are_fused(hybrid, reranked, method):
    """A fused hit keeps scores that only one search has."""
    query, k = "and its price?", 6
    below = hybrid.model_copy(
        update={"reranker": TextReranker(lambda _, texts: [0.5] * len(texts))} if reranked else {}
    )
    retriever = AdvancedRetriever(below, expander=rewrite(), fuse_raw=True)
    if method == "retrieve":
        result = retriever.retrieve_with_context(query, HISTORY, k=k)
        for hit, document in zip(result.hits, result, strict=True):
            assert {name: getattr(hit, name) for name in NOTED} == {name: document.metadata[name] for name in NOTED}
            assert hit.parts == pytest.approx(document.metadata["score_breakdown"])
    else:
        result = retriever.invoke(
            {"input": query, "chat_history": HISTORY}, {"callbacks": [BaseCallbackHandler()]}, k=k, annotate="all"
        )
    raw, rewritten = ({one.id: one.metadata for one in below.retrieve(text, k=50)} for text in (query, WHOLE))
    assert any(raw[id]["bm25_score"] is None and rewritten[id]["bm25_score"] is not None for id in ids(result))
    for document in result:
        metadata = document.metadata
        for name in NOTED:
            expected = raw[document.id][name] if raw[document.id][name] is not None else rewritten[document.id][name]
            assert metadata[name] == pytest.approx(expected), name
        assert math.fsum(metadata["score_breakdown"].values()) == pytest.approx(metadata["score"])
        counted = [one[document.id] for one in (raw, rewritten) if one[document.id]["score"]]
        assert metadata["score_breakdown"].keys() == {part for one in counted for part in one["score_breakdown"]}


def test_metadata_of_a_foreign_retriever_are_kept_when_two_searches_are_fused():
    """Over a foreign retriever, a fused hit keeps the metadata of both searches."""
    lists = {
        "why?": [Document("a", id="a", metadata={"score": 3.0, "lang": "en", "bm25_score": None})],
        "why? because": [
            Document("b", id="b", metadata={"score": 9.0}),
            Document("a", id="a", metadata={"score": 7.0, "bm25_score": 4.5, "page": 2}),
        ],
    }

    class ListRetriever(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return lists[query]

    expander = lambda query, history: f"{query} because"  # noqa: E731 - any callable is an expander
    retriever = AdvancedRetriever(ListRetriever(), expander=expander, fuse_raw=True)
    first, second = retriever.retrieve_with_context("why?", HISTORY, k=3)
    metadata = first.metadata
    assert (first.id, metadata["lang"], metadata["page"], metadata["bm25_score"]) == ("a", "en", 2, 4.5)
    assert metadata["score"] == pytest.approx((1 + 61 / 62) / 2)
    assert metadata["score_breakdown"] == pytest.approx({"question": 1 / 2, "conversation": 61 / 62 / 2})
    assert (second.metadata["retrieval_source"], second.metadata["score"]) == ("conversation", 0.5)


def test_a_prefix_comes_before_every_key_of_two_searches(store):
    """With metadata_prefix, every key that a fusion adds has the prefix."""
    below = HybridRetriever(store, metadata_prefix="hg_")
    retriever = AdvancedRetriever(below, expander=rewrite(), fuse_raw=True)
    metadata = retriever.retrieve_with_context("and its price?", HISTORY)[0].metadata
    assert metadata["hg_bm25_score"] is not None
    assert all(key.startswith("hg_") for key in metadata.keys() - store.get_by_ids(["roadster"])[0].metadata.keys())


def test_min_score_applies_to_fused_scores(hybrid):
    """min_score applies to the fused score, not to each search, whether set by the call or the constructor."""
    retriever = AdvancedRetriever(hybrid, expander=rewrite(), fuse_raw=True)
    every = retriever.retrieve_with_context("and its price?", HISTORY, k=6)
    scores = [document.metadata["score"] for document in every]
    least = (scores[0] + scores[1]) / 2
    assert ids(retriever.retrieve_with_context("and its price?", HISTORY, k=6, min_score=least)) == ids(every)[:1]
    strict = AdvancedRetriever(hybrid.model_copy(update={"min_score": least}), expander=rewrite(), fuse_raw=True)
    assert ids(strict.retrieve_with_context("and its price?", HISTORY, k=6)) == ids(every)[:1]


def test_a_smaller_k_gives_a_prefix_of_fused_hits(hybrid):
    """In a fusion of two searches, the hits for a smaller k are a prefix of those for a larger k."""
    retriever = AdvancedRetriever(hybrid, expander=AppendHistory())
    whole = ids(retriever.retrieve_with_context("and its price?", HISTORY, k=6))
    assert len(whole) > 1
    assert all(ids(retriever.retrieve_with_context("and its price?", HISTORY, k=k)) == whole[:k] for k in range(6))


def test_stored_documents_are_not_changed():
    """The stored Documents that a foreign retriever returns are not changed."""
    stored = Document(id="a", page_content="a", metadata={"own": 1})

    class StoredDocument(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [stored]

    AdvancedRetriever(StoredDocument()).retrieve_with_context("why?", HISTORY)
    assert stored.metadata == {"own": 1}


def test_sync_and_async_agree(hybrid):
    """Sync and async methods return the same documents, over this package's retrievers and others."""
    for retriever in (AdvancedRetriever(hybrid), AdvancedRetriever(Words())):
        waited = asyncio.run(retriever.aretrieve_with_context("and its price?", HISTORY, k=3))
        assert waited == retriever.retrieve_with_context("and its price?", HISTORY, k=3)
        answer = asyncio.run(retriever.ainvoke({"input": "and its price?", "chat_history": HISTORY}, k=3))
        assert ids(answer) == ids(waited)
