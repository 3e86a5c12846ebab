"""Searches with a filter and no question, in every store."""

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.filters.expressions import by_meta
from tests.support.models.query_embeddings import QueryEmbeddings
from tests.support.samples.document_lists import texts
from tests.support.samples.retrievers import RETRIEVERS
from tests.support.stores.real_stores import CLOSED, STORES, close

TEXTS = [f"note {number} about {word}" for number, word in enumerate(["zebras", "ada", "engines", "cats", "ships"] * 3)]
ODD = {"parity": "odd"}


class Refusing(QueryEmbeddings):
    """Embedding that cannot embed an empty text, like many embedding APIs."""

    def embed_query(self, text):
        assert text.strip(), "the text is empty"
        return [1.0, 0.5, len(text) / 10]


def documents():
    parities = ["even", "odd"]
    return [
        Document(text, id=f"n{n:02}", metadata={"parity": parities[n % 2], "uri": f"docs/{n:02}.md"})
        for n, text in enumerate(TEXTS)
    ]


MATCHING = [document.page_content for document in documents() if document.metadata["parity"] == "odd"]


@pytest.fixture(scope="module", params=["lsa", "another"])
def store(request):
    """Return the package's store, with each kind of embedding."""
    vector_store = HybridGraphStore(None, "lsa" if request.param == "lsa" else Refusing())
    vector_store.add_documents(documents())
    return vector_store


@pytest.mark.parametrize("kind", RETRIEVERS)
@pytest.mark.parametrize("blank", ["", "  \n"])
async def test_a_blank_query_with_a_filter_lists_the_matching_documents(store, kind, blank):
    """A blank query with a filter returns the first k matches in insertion order, sync and async."""
    retriever = kind(store, k=20)
    documents = retriever.invoke(blank, filter=ODD)
    assert texts(documents) == MATCHING
    assert documents == await retriever.ainvoke(blank, filter=by_meta(parity="odd"))
    assert retriever.invoke(blank, filter=ODD, k=3) == documents[:3]
    result = retriever.retrieve(blank, filter=ODD, k=2)
    assert "filter-only" in result.degraded
    assert result.warnings == ()
    assert retriever.invoke(blank) == []


def test_hits_report_the_filter_as_their_source(store):
    """In a filter-only search every hit has score 1 and "filter" as its only source."""
    result = HybridRetriever(store, k=2, filter=ODD).retrieve("")
    expected = (1.0, ("filter",), {"filter": 1.0})
    assert [(hit.score, hit.found_by, dict(hit.parts)) for hit in result.hits] == [expected] * 2
    assert result.plan["method"] == "filter"
    assert HybridRetriever(store, filter=ODD).explain("").startswith("(a filter, without words)\n7 hits in")


def test_later_stages(store):
    """In a filter-only search min_score drops nothing, max_per_document applies, and no edge is traversed."""
    assert len(HybridRetriever(store, k=20, min_score=0.9).invoke("", filter=ODD)) == len(MATCHING)
    graph = GraphRetriever(store, k=20, graph={"traversal": {"type": "bfs", "max_hops": 2}})
    assert len(graph.invoke("", filter=ODD)) == len(MATCHING)
    grouped = HybridGraphStore()
    grouped.add_documents([Document(f"text {n}", id=str(n), metadata={"source": f"{n % 2}.md"}) for n in range(6)])
    retriever = HybridRetriever(grouped, selection={"max_per_document": 1})
    assert [document.id for document in retriever.invoke("", filter={"source": {"$exists": True}})] == ["0", "1"]


def test_parents_take_the_position_of_their_first_child():
    """A filter-only search returns each parent once, in the position of its first child."""
    from langchain_hybridgraph.chunks import Chunk

    store = HybridGraphStore()
    children = [Chunk(f"c{9 - n}", f"child {n}", ODD, parent_id=f"p{n // 2}") for n in range(6)]
    store.upsert(children, parents=[Chunk(f"p{n}", f"parent {n}", ODD) for n in range(3)])
    store.flush()
    assert [document.id for document in HybridRetriever(store).invoke("", filter=ODD)] == ["p0", "p1", "p2"]


def test_memories_are_ordered_by_confidence_and_age():
    """A filter-only search lists memories by confidence and, for equal confidence, the newest first."""
    store = HybridGraphStore()
    times = {"old": "2020-01-01", "new": "2024-01-01"}
    store.add_documents(
        [
            Document(f"{name} {trust}", id=f"{name}-{trust}", metadata={"created_at": time, "confidence": trust} | ODD)
            for name, time in times.items()
            for trust in (0.1, 0.9)
        ]
    )
    result = MemoryRetriever(store, mode={"type": "general", "decay_per_hour": 1e-5}).invoke("", filter=ODD)
    assert [document.id for document in result] == ["new-0.9", "old-0.9", "new-0.1", "old-0.1"]
    assert MemoryRetriever(store).invoke("", labels=["none"]) == []


@pytest.mark.parametrize("search", ["similarity_search", "max_marginal_relevance_search"])
def test_the_stores_own_search(store, search):
    """The store's own search methods, which SelfQueryRetriever calls, list the matches of a filter for an empty
    query.
    """
    assert texts(getattr(store, search)("", k=3, filter=ODD)) == MATCHING[:3]
    assert [score for _, score in store.similarity_search_with_relevance_scores("", k=2, filter=ODD)] == [1.0, 1.0]


@pytest.mark.parametrize("kind", STORES)
def test_every_vector_store(kind, tmp_path):
    """A filter-only search finds all matches in any vector store, in the order of the given documents or else of the
    store.
    """
    make, options = STORES[kind]
    vector_store = make(TEXTS, tmp_path, **options)
    try:
        assert texts(HybridRetriever(vector_store, documents(), k=20).invoke("", filter=ODD)) == MATCHING
        if kind in CLOSED:
            return
        alone = HybridRetriever(vector_store, k=20)
        filter = {"$or": [{"parity": "odd"}, {"parity": {"$exists": False}}]}
        matches = texts(alone.invoke("", filter=filter))
        assert sorted(matches) == sorted(TEXTS)
        assert texts(alone.invoke("", filter=filter, k=4)) == matches[:4]
        if kind.startswith(("chroma", "faiss", "in memory")):
            assert matches == TEXTS
    finally:
        close(vector_store)


def test_a_store_that_cannot_be_listed(tmp_path):
    """In a store that cannot be listed, a filter-only search filters the results for an empty text."""
    make, options = STORES["bare"]
    with pytest.warns(UserWarning, match=r"cannot be listed.*documents=\[…\]"):
        retriever = HybridRetriever(make(TEXTS, tmp_path, **options), k=20)
    assert sorted(texts(retriever.invoke("", filter={"parity": {"$exists": False}}))) == sorted(TEXTS)
    assert retriever.invoke("", filter=ODD) == []


def test_texts_that_are_added_later_are_listed():
    """A filter-only search lists texts that were added after construction and omits texts that were deleted."""
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(Refusing())
    retriever = HybridRetriever(store)
    store.add_documents(documents()[:4])
    assert texts(retriever.invoke("", filter=ODD)) == MATCHING[:2]
    store.delete(["n01"])
    assert texts(retriever.invoke("", filter=ODD)) == MATCHING[1:2]
