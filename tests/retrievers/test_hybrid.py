"""HybridRetriever with the package's store, any VectorStore, or only a Chroma collection."""

import copy
from uuid import uuid4

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import Edge, GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, RetrievalError, TenantError
from langchain_hybridgraph.filters.expressions import by_meta
from langchain_hybridgraph.records import ALL_TIME
from tests.support.models.function_retriever import FunctionRetriever
from tests.support.samples.document_lists import ids
from tests.support.samples.retrievers import STORE_RETRIEVERS
from tests.support.stores.bare_store import BareStore

TEXTS = {
    "cat": "The cat sleeps on the warm windowsill all afternoon.",
    "dog": "A dog barks at the postman every single morning.",
    "car": "The red car needs new tyres before the winter.",
    "kiwi": "Kiwi birds cannot fly and sleep during the day.",
    "code": "Error code E4711 means that the pump has no water.",
    "pump": "Before starting the pump open the water valve.",
}


KINDS = {"car": "machine", "code": "machine", "pump": "machine"}


def documents(**metadata) -> list[Document]:
    return [
        Document(id=id, page_content=text, metadata={"n": n, "kind": KINDS.get(id, "animal")} | metadata)
        for n, (id, text) in enumerate(TEXTS.items())
    ]


def embedding() -> LSAEmbeddings:
    return LSAEmbeddings().fit(list(TEXTS.values()))


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore() as store:
        store.add_documents(documents())
        yield store


@pytest.fixture
def retriever(store):
    return HybridRetriever(store, k=3)


# -- what is returned ---------------------------------------------------------------------------------------------


def test_annotated_documents_have_rank_score_and_sources(retriever):
    """With annotate="all", rank, score, sources and path are added to the user's metadata."""
    best = retriever.invoke("water pump valve", annotate="all")[0]
    expected = {"kind": "machine", "retrieval_rank": 1, "retrieval_method": "hybrid", "retrieval_source": "fused"}
    expected |= {"chunk_id": "pump", "source_path": ["pump"], "score": best.metadata["relevance_score"]}
    assert best.id == "pump"
    assert best.metadata | expected == best.metadata
    assert sum(best.metadata["score_breakdown"].values()) == pytest.approx(best.metadata["score"])
    assert best.metadata["bm25_score"] > 0
    assert 0 < best.metadata["vector_score"] <= 1
    assert "degraded" not in best.metadata


def test_a_prefix_keeps_the_users_own_keys():
    """With metadata_prefix, a ``score`` in the user's metadata is not overwritten."""
    store = HybridGraphStore.from_texts(["alpha beta"], "lsa", [{"score": "mine"}])
    (result,) = HybridRetriever(store, metadata_prefix="hg_", annotate="all").invoke("alpha")
    assert result.metadata["score"] == "mine"
    assert result.metadata["hg_retrieval_rank"] == 1


def test_documents_given_to_the_constructor_are_not_changed():
    """Changing nested metadata of a result does not change the Documents passed to the constructor."""
    documents = [Document(id="a", page_content="alpha", metadata={"tags": ["x"]})]
    before = copy.deepcopy(documents)
    retriever = HybridRetriever(InMemoryVectorStore.from_documents(documents, embedding()), documents)
    retriever.invoke("alpha")[0].metadata["tags"].append("y")
    assert documents == before
    assert retriever.invoke("alpha")[0].metadata["tags"] == ["x"]


# -- settings of one call ----------------------------------------------------------------------------------------


def test_the_filters_of_retriever_and_call_are_combined(store):
    """A hit must match both the retriever's filter and the call's, in either filter language."""
    retriever = HybridRetriever(store, filter={"kind": "machine"})
    assert set(ids(retriever.invoke("the cat and the water and the car"))) <= {"car", "code", "pump"}
    assert ids(retriever.invoke("the cat and the water and the car", filter={"n": {"$lt": 3}})) == ["car"]
    assert ids(retriever.invoke("the cat", filter=by_meta(kind="animal"))) == []


def test_weights_of_a_call(store):
    """A single weight given in a call determines the other weight, and a source without weight is not searched."""
    retriever = HybridRetriever(store)
    assert retriever.retrieve("pump water", keyword_weight=1.0).plan["weights"] == {"keyword": 1.0}
    assert retriever.retrieve("pump water", semantic_weight=1.0).plan["weights"] == {"vector": 1.0}
    assert HybridRetriever(store, semantic_weight=0).retrieve("pump").plan["weights"] == {"keyword": 1.0}
    assert retriever.retrieve("pump water", keyword_weight=0.25).plan["weights"] == {"vector": 0.75, "keyword": 0.25}


def test_a_vector_without_a_text(store):
    """With a vector and no text, only vectors are searched and the result reports no-query-text."""
    result = HybridRetriever(store, k=1).retrieve(None, vector=store.embeddings.embed_query(TEXTS["kiwi"]))
    assert ids(result) == ["kiwi"]
    assert result.degraded == ("no-query-text",)


def test_time():
    """A text that is not valid now is found only with an earlier as_of or with ALL_TIME."""
    with HybridGraphStore() as kings:
        kings.add_documents(
            [
                Document(id="old", page_content="the king is Charles", metadata={"valid_until": "2000-01-01"}),
                Document(id="new", page_content="the king is William", metadata={"valid_from": "2000-01-02"}),
            ]
        )
        retriever = HybridRetriever(kings)
        assert ids(retriever.invoke("king")) == ["new"]
        assert ids(retriever.invoke("king", as_of="1999-06-01")) == ["old"]
        assert sorted(ids(retriever.invoke("king", as_of=ALL_TIME))) == ["new", "old"]


def test_another_tenant_is_refused():
    """Passing another tenant in a call raises an error."""
    retriever = HybridRetriever(HybridGraphStore(tenant="a"))
    with pytest.raises((TenantError, ConfigurationError)):
        retriever.invoke("cat", tenant="b")
    plain = InMemoryVectorStore.from_documents(documents(), embedding())
    with pytest.raises(TenantError, match="is for tenant 'a', but the call requests 'b'"):
        HybridRetriever(plain, tenant="a").invoke("cat", tenant="b")


# -- over other stores -------------------------------------------------------------------------------------------


def test_a_collection_larger_than_a_page_is_read_completely(tmp_path):
    """All 2,300 texts of a collection, which take three pages, are read into the keyword index."""
    store = Chroma(embedding_function=embedding(), persist_directory=str(tmp_path))
    store.add_texts([f"number x{n}" for n in range(2300)], ids=[str(n) for n in range(2300)])
    retriever = HybridRetriever(store, keyword_weight=1.0)
    assert len(retriever.index.adapter.texts.chunks) == 2300
    assert ids(retriever.invoke("x2299")) == ["2299"]


def test_vectors_alone_when_there_are_no_texts():
    """If the store's texts cannot be read, only vectors are searched and the result reports no-keyword-index."""
    result = HybridRetriever(BareStore(documents(), embedding()), k=2).retrieve("water pump")
    assert len(result) == 2
    assert result.degraded == ("no-cosine", "no-keyword-index")
    assert result[0].metadata["retrieval_method"] == "vector"


class DownStore(InMemoryVectorStore):
    """Vector store whose server is down."""

    def similarity_search_with_score_by_vector(self, embedding, k=4, filter=None, **kwargs):
        raise ConnectionError("refused")


def test_a_failing_vector_side_leaves_the_words():
    """If vector search fails the keyword hits are returned, and if both fail RetrievalError names both."""
    down = DownStore(embedding())
    result = HybridRetriever(down, documents(), k=2).retrieve("E4711")
    assert (ids(result), result.degraded) == (["code"], ("vector-failed",))
    with pytest.raises(RetrievalError, match=r"vector.*keyword"):
        HybridRetriever(down, keyword_retriever=FunctionRetriever(find=lambda query: 1 / 0)).invoke("E4711")


@pytest.fixture(params=[True, False], ids=["collection alone", "documents handed in"])
def halls(request, tmp_path):
    """Return a collection of 200 notes and a rare text whose words the vectors do not know, and the documents or
    None.
    """
    texts = {"rare": "secret zebra"} | {f"n{n}": f"note number {n}" for n in range(200)}
    documents = [Document(id=id, page_content=text, metadata={"n": n}) for n, (id, text) in enumerate(texts.items())]
    notes = LSAEmbeddings().fit([document.page_content for document in documents[1:]])
    collection = Chroma.from_documents(documents, notes, persist_directory=str(tmp_path))
    return collection, None if request.param else documents


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, MemoryRetriever])
def test_texts_deleted_from_a_collection_are_not_returned(halls, kind):
    """A text deleted from the collection is neither returned nor a cause of failure, although the keyword index has
    it.
    """
    collection, documents = halls
    retriever = kind(collection, documents, k=2, on_error="raise")
    assert ids(retriever.invoke("zebra"))[0] == "rare"
    collection.delete(["rare"])
    for options in ({}, {"filter": {"n": {"$gte": 0}}}, {"keyword_weight": 1.0}, {"selection": {"mmr_lambda": 0.5}}):
        result = retriever.retrieve("zebra note", **options)
        assert "rare" not in ids(result)
        assert len(result) == 2
        assert "vector-failed" not in result.degraded


def test_texts_changed_in_a_collection_are_returned_as_changed(halls):
    """Texts and metadata come from the collection, and filters apply to its current metadata."""
    collection, documents = halls
    retriever = HybridRetriever(collection, documents, k=1)
    changed = Document(id="rare", page_content="zebra, not secret any more", metadata={"n": 777})
    collection.update_document("rare", changed)
    assert retriever.invoke("zebra")[0].page_content == "zebra, not secret any more"
    assert ids(retriever.invoke("zebra", filter={"n": 777})) == ["rare"]
    assert ids(retriever.invoke("zebra", filter={"n": {"$lt": 1}})) == []


def test_documents_named_by_metadata_are_looked_up_by_the_stores_id(tmp_path):
    """With id_key, hits have the ids in the metadata but are looked up by the collection's own ids."""
    with_names = [Document(id=f"c-{d.id}", page_content=d.page_content, metadata={"name": d.id}) for d in documents()]
    collection = Chroma.from_documents(with_names, embedding(), persist_directory=str(tmp_path))
    retriever = HybridRetriever(collection, k=1, index={"id_key": "name"}, keyword_weight=1.0)
    assert ids(retriever.invoke("E4711")) == ["code"]
    collection.delete(["c-code"])
    assert ids(retriever.invoke("E4711")) == []


def test_a_failing_lookup_is_reported(tmp_path):
    """If the lookup by id fails, keyword hits are returned as indexed and the result reports lookup-failed."""
    chroma = Chroma.from_documents(documents(), embedding(), persist_directory=str(tmp_path))
    retriever = HybridRetriever(chroma, k=1, keyword_weight=1.0)
    chroma.delete_collection()
    result = retriever.retrieve("E4711")
    assert (ids(result), result.degraded) == (["code"], ("lookup-failed",))
    with pytest.raises(RetrievalError, match="lookup failed"):
        retriever.model_copy(update={"on_error": "raise"}).invoke("E4711")


# -- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    ["", "   ", 'C++ AND (" OR *', '"x', "a AND", "\x00", "\ud800", "word " * 20_000, "((((", "field:value", "水 πυρ"],
)
def test_no_text_is_a_syntax_error(retriever, query):
    """No query string is a syntax error, not even one with operators, null bytes or lone surrogates."""
    assert isinstance(retriever.invoke(query), list)


def test_an_empty_store_has_an_empty_answer():
    """An empty store gives an empty result that says so, even if the store belongs to another library."""
    for store in (HybridGraphStore(), InMemoryVectorStore(DeterministicFakeEmbedding(size=8))):
        result = HybridRetriever(store).retrieve("anything")
        assert (list(result), result.degraded, result.answerable) == ([], ("empty-index",), None)


@pytest.mark.filterwarnings("ignore:the texts of Chroma could not be listed")
def test_a_failed_search_gives_no_verdict(monkeypatch):
    """If the server is down and there is no keyword index, nothing was searched, so answerable is None."""

    def refuse(*_, **__):
        raise ConnectionError("Connection refused")

    chroma = Chroma.from_texts(["Ada likes tea."], DeterministicFakeEmbedding(size=8), collection_name=uuid4().hex)
    for method in ("query", "get", "count"):
        monkeypatch.setattr(type(chroma._collection), method, refuse)
    result = HybridRetriever(chroma, on_error="empty").retrieve("What does Ada like?")
    assert (list(result), result.warnings) == ([], ("vector-failed", "no-keyword-index"))
    assert result.answerable is None


# -- identity ----------------------------------------------------------------------------------------------------


def test_another_retrievers_documents_without_ids_merge(store):
    """A text found by vectors and by a keyword retriever without ids is one hit, with the store's id."""
    bm25 = pytest.importorskip("langchain_community.retrievers").BM25Retriever.from_texts(TEXTS.values(), k=6)
    for vector_store in (store, InMemoryVectorStore.from_documents(documents(), embedding())):
        result = HybridRetriever(vector_store, keyword_retriever=bm25, k=12).retrieve("water for the pump")
        assert ids(result)[0] == "pump"
        assert sorted(ids(result)) == sorted(TEXTS)
        assert result[0].metadata["retrieval_source"] == "fused"


def test_an_id_that_a_keyword_retriever_returns_twice():
    """The first of two Documents with the same id counts, with its score and its text."""
    twice = [Document(text, id="x", metadata={"score": score}) for text, score in (("first", 0.9), ("second", 0.3))]
    both = FunctionRetriever(find=lambda query: twice)
    [hit] = HybridRetriever(InMemoryVectorStore(embedding()), keyword_retriever=both).retrieve("water").hits
    assert (hit.chunk.text, hit.bm25_score) == ("first", 0.9)


# -- reranking and k -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numbered():
    with HybridGraphStore() as store:
        store.add_texts([f"water number {n}" for n in range(120)], ids=[str(n) for n in range(120)])
        yield store


def test_a_smaller_k_gives_a_prefix_of_reranked_hits(numbered):
    """The number of texts that a reranker reads does not depend on k, so a smaller k gives a prefix."""
    retriever = HybridRetriever(numbered, reranker=lambda _, texts: [1 / (1 + int(text[13:])) for text in texts])
    whole = ids(retriever.invoke("water", k=60))
    assert len(whole) == 60
    for k in (1, 10, 20):
        assert ids(retriever.invoke("water", k=k)) == whole[:k]


def test_diversity_over_a_store_without_vectors_is_refused():
    """mmr_lambda over a store that returns no vectors raises ConfigurationError."""
    store = BareStore(documents(), embedding())
    with pytest.raises(ConfigurationError, match="mmr_lambda"):
        HybridRetriever(store, documents(), selection={"mmr_lambda": 0.5}).invoke("pump")


# -- other arguments ---------------------------------------------------------------------------------------------


class Forgetful(HybridGraphStore):
    """Store whose keyword search cannot score the hits of other searches."""

    def keyword_scores(self, text, ids):
        raise OSError("disk")


def test_a_failure_to_score_other_hits_is_reported():
    """If keyword search cannot score the hits of vector search, the result reports keyword-failed."""
    forgetful = Forgetful(None, DeterministicFakeEmbedding(size=8))
    forgetful.add_texts([f"pump {n}" for n in range(200)])
    assert "keyword-failed" in HybridRetriever(forgetful).retrieve("pump").degraded
    with pytest.raises(RetrievalError):
        HybridRetriever(forgetful, on_error="raise").invoke("pump")


def test_a_keyword_search_that_lists_every_match_is_the_only_one(store):
    """If few texts contain a word of the question, the keyword search is not asked again for the other hits."""
    forgetful = Forgetful()
    forgetful.add_documents(documents())
    hits = HybridRetriever(forgetful, on_error="raise").retrieve("the water pump").hits
    bm25 = {hit.id: hit.bm25_score for hit in hits if hit.bm25_score is not None}
    assert set(bm25) == {"code", "pump"} < {hit.id for hit in hits}
    assert bm25 == pytest.approx(store.keyword_scores("the water pump", [hit.id for hit in hits]))


def test_chunks_that_were_not_searched_get_keyword_scores(store):
    """A chunk that edges reach from a filtered search has the BM25 score of any other search."""
    edges = [Edge("car", "pump", "needs")]
    retriever = GraphRetriever(store, edges=edges, graph={"seed_filter": {"n": 2}, "candidates": "reached"})
    hits = retriever.retrieve("the car needs a water pump").hits
    bm25 = {hit.id: hit.bm25_score for hit in hits if hit.bm25_score is not None}
    assert bm25 == pytest.approx(store.keyword_scores("the car needs a water pump", [hit.id for hit in hits]))


def test_a_budget_keeps_its_counter():
    """max_tokens in a call changes the limit of the budget but keeps its token counter."""
    from langchain_hybridgraph.search.context import TokenBudget

    store = HybridGraphStore.from_texts(["alpha one", "alpha two", "alpha three"], "lsa")
    retriever = HybridRetriever(store, selection={"budget": TokenBudget(100, counter=lambda text: 10)})
    assert len(retriever.invoke("alpha")) == 3
    assert len(retriever.invoke("alpha", max_tokens=20)) == 2


@pytest.mark.parametrize("kind", STORE_RETRIEVERS)
def test_another_vector_store_needs_another_retriever(kind):
    """Assigning a foreign vector store raises an error, because its texts are read only at construction."""
    embedding = DeterministicFakeEmbedding(size=8)
    foreign = InMemoryVectorStore.from_texts(["quokka"], embedding)
    own = HybridGraphStore.from_texts(["coal"], embedding)
    for retriever in (kind(own), kind(InMemoryVectorStore.from_texts(["coal"], embedding))):
        with pytest.raises(ConfigurationError, match=rf"create another retriever: {kind.__name__}\(vector_store\)"):
            retriever.vector_store = foreign
        assert [result.page_content for result in retriever.invoke("coal")] == ["coal"]
    retriever = kind(own)
    retriever.vector_store = HybridGraphStore.from_texts(["quokka"], embedding)
    assert [result.page_content for result in retriever.invoke("quokka")] == ["quokka"]


# -- identifiers -----------------------------------------------------------------------------------------------

PARTS = {
    "ruby-faker": "ruby-faker: fake data\nA port of another library, for Ruby programs.",
    "php-faker": "php-faker: fake data\nFaker, for PHP programs; Faker is a port of ruby faker.",
    "pump": "In hall 4 the pump P-1208 was serviced by Ada.",
    "other pump": "In hall 4 the pump P-1209 was serviced by Tom.",
} | {f"n{n}": f"In hall {n} nothing was serviced, and no pump is there." for n in range(30)}


def sample_texts(kind):
    """Return a store whose vectors are unrelated to the words of its texts."""
    embedding = DeterministicFakeEmbedding(size=32)
    texts, ids = list(PARTS.values()), list(PARTS)
    if kind == "own":
        return HybridGraphStore.from_texts(texts, embedding, ids=ids)
    return InMemoryVectorStore.from_texts(texts, embedding, ids=ids)


@pytest.mark.parametrize("kind", ["own", "another"])
async def test_an_identifier_outranks_similarity(kind):
    """A text that contains an identifier from the question is ranked first for any embedding and store, sync and
    async.
    """
    retriever = HybridRetriever(sample_texts(kind), k=1)
    for question, expected in (
        ("ruby-faker", "ruby-faker"),
        ("what is the php-faker package for?", "php-faker"),
        ("Who looked after pump P-1208 and when?", "pump"),
        ("P-1209", "other pump"),
    ):
        assert ids(retriever.invoke(question)) == ids(await retriever.ainvoke(question)) == [expected]


def test_an_exact_match_is_a_part_of_the_score():
    """An exact match adds an "exact" part to the score, which does not exist with fixed weights."""
    with sample_texts("own") as store:
        (best,) = HybridRetriever(store, k=1).retrieve("ruby-faker").hits
        assert best.parts["exact"] > 0.9
        assert f"exact {best.parts['exact']:.3f}" in best.explain()
        assert "keyword" in best.found_by
        fixed = HybridRetriever(store, fusion={"type": "convex", "adaptive": False}).retrieve("P-1208")
        assert fixed.hits
        assert all("exact" not in hit.parts for hit in fixed.hits)


# -- answerability ---------------------------------------------------------------------------------------------

ANSWERABLE, UNANSWERABLE = "When does the dog bark at the postman?", "What is the capital of Mongolia?"


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever])
async def test_a_threshold_separates_questions_without_an_answer(store, kind):
    """min_score=.5 keeps the hit of an answerable question and drops all hits of an unanswerable one."""
    retriever = kind(store, k=3)
    answer = retriever.retrieve(ANSWERABLE)
    assert answer.answerable
    assert answer[0].metadata["relevance_score"] == pytest.approx(answer.answerability.value)
    assert ids(retriever.invoke(ANSWERABLE, min_score=0.5)) == ["dog"]
    nothing = await retriever.aretrieve(UNANSWERABLE, min_score=0.5)
    assert (ids(nothing), nothing.answerable) == ([], False)
    assert "): words matched 0.00" in retriever.explain(UNANSWERABLE)


def test_calibrated_scores_keep_order_and_parts(store):
    """Calibrated scores are the sums of their parts, are in descending order, and use the unit that the result
    reports.
    """
    answer = HybridRetriever(store, k=6).retrieve(ANSWERABLE)
    fixed = HybridRetriever(store, k=6, fusion="rrf").retrieve(ANSWERABLE)
    assert len(answer.hits) > 1
    assert all(sum(hit.parts.values()) == pytest.approx(hit.score) for hit in answer.hits)
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert answer.answerability.unit != 1
    assert fixed.answerability.unit == 1
    assert fixed.answerability.value == answer.answerability.value


@pytest.mark.parametrize("retriever", ["no cosines", "another store", "no words"])
def test_answerability_with_one_or_both_sources(retriever):
    """Answerability is judged by keywords alone, by both sources, or by similarity alone, depending on what is
    available.
    """
    texts, ids = list(TEXTS.values()), list(TEXTS)
    vectors = InMemoryVectorStore.from_texts(texts, embedding(), ids=ids)
    stores = {
        "no cosines": lambda: HybridRetriever(BareStore(documents(), embedding()), documents()),
        "another store": lambda: HybridRetriever(vectors, documents()),
        "no words": lambda: HybridRetriever(vectors, documents(), semantic_weight=1.0),
    }[retriever]()
    judged = stores.retrieve(ANSWERABLE).answerability
    assert judged.is_answerable
    assert (judged.matched is None) == (retriever == "no words")
