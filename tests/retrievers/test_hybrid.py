"""HybridRetriever: over the store, over any VectorStore, over a Chroma collection alone."""

from __future__ import annotations

import copy
import json

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from langchain_hybridgraph import (
    ALL_TIME,
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    by_meta,
)
from langchain_hybridgraph.embeddings import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, FilterError, RetrievalError, TenantError
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


def ids(documents) -> list[str]:
    return [document.id for document in documents]


class TestStandard(RetrieversIntegrationTests):
    """langchain-tests' suite, over the store."""

    @property
    def retriever_constructor(self):
        return HybridRetriever

    @property
    def retriever_constructor_params(self):
        store = HybridGraphStore()
        store.add_documents(documents())
        return {"vector_store": store, "k": 3}

    @property
    def retriever_query_example(self):
        return "the pump needs water and the car new tyres"


class TestStandardOverPlainStore(TestStandard):
    """langchain-tests' suite, over LangChain's own in-memory store."""

    @property
    def retriever_constructor_params(self):
        return {"vector_store": InMemoryVectorStore.from_documents(documents(), embedding()), "documents": documents()}


# -- what comes back ---------------------------------------------------------------------------------------------


def test_words_find_what_vectors_do_not(retriever):
    """A code that appears in one text is found by its letters."""
    assert ids(retriever.invoke("E4711"))[0] == "code"


def test_documents_say_how_they_were_found(retriever):
    """Rank, score, sources and path are added to the user's metadata."""
    best = retriever.invoke("water pump valve", annotate="all")[0]
    assert best.id == "pump"
    assert best.metadata["kind"] == "machine"
    assert best.metadata["retrieval_rank"] == 1
    assert best.metadata["retrieval_method"] == "hybrid"
    assert best.metadata["retrieval_source"] == "fused"
    assert best.metadata["chunk_id"] == "pump"
    assert best.metadata["source_path"] == ["pump"]
    assert best.metadata["score"] == best.metadata["relevance_score"]
    assert sum(best.metadata["score_breakdown"].values()) == pytest.approx(best.metadata["score"])
    assert best.metadata["bm25_score"] > 0
    assert 0 < best.metadata["vector_score"] <= 1
    assert "degraded" not in best.metadata


def test_ranks_and_scores_descend(retriever):
    """Ranks count from 1, scores lie in [0, 1] and fall."""
    result = retriever.invoke("sleep in the day", k=6, annotate="all")
    scores = [document.metadata["score"] for document in result]
    assert [document.metadata["retrieval_rank"] for document in result] == list(range(1, len(result) + 1))
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1


def test_a_prefix_keeps_the_users_own_keys():
    """A user's ``score`` is not overwritten if a prefix is set."""
    store = HybridGraphStore.from_texts(["alpha beta"], "lsa", [{"score": "mine"}])
    (result,) = HybridRetriever(store, metadata_prefix="hg_", annotate="all").invoke("alpha")
    assert result.metadata["score"] == "mine"
    assert result.metadata["hg_retrieval_rank"] == 1


def test_returned_metadata_is_the_callers_own(store):
    """Changing an answer changes nothing that is stored or returned later."""
    retriever = HybridRetriever(store, k=1)
    retriever.invoke("cat")[0].metadata["kind"] = "spoilt"
    assert retriever.invoke("cat")[0].metadata["kind"] == "animal"


def test_documents_given_to_the_constructor_are_not_changed():
    """Nested metadata of the user's Documents stays theirs."""
    documents = [Document(id="a", page_content="alpha", metadata={"tags": ["x"]})]
    before = copy.deepcopy(documents)
    retriever = HybridRetriever(InMemoryVectorStore.from_documents(documents, embedding()), documents)
    retriever.invoke("alpha")[0].metadata["tags"].append("y")
    assert documents == before
    assert retriever.invoke("alpha")[0].metadata["tags"] == ["x"]


def test_retrieve_tells_about_itself(retriever):
    """A result is a sequence of Documents with degradation, time and plan."""
    result = retriever.retrieve("water pump", 2)
    assert len(result) == 2
    assert result == retriever.invoke("water pump", k=2, annotate="all")
    assert result.degraded == ()
    assert result.took_ms > 0
    assert result.plan["k"] == 2
    assert result.hits[0].explain().startswith("score ")


def test_small_answers_are_heads_of_large_ones(retriever):
    """k = 1 … 6 agree."""
    whole = ids(retriever.invoke("the water of the sleeping pump", k=6))
    for k in range(7):
        assert ids(retriever.invoke("the water of the sleeping pump", k=k)) == whole[:k]


async def test_both_ways_of_asking_agree(retriever):
    """invoke, ainvoke, retrieve, aretrieve, batch, stream and astream give the same."""
    question = "sleeping animals"
    expected = ids(retriever.invoke(question))
    assert ids(await retriever.ainvoke(question)) == expected
    assert ids(retriever.retrieve(question)) == expected
    assert ids(await retriever.aretrieve(question)) == expected
    assert ids(retriever.batch([question, "E4711"])[0]) == expected
    assert ids(one for part in retriever.stream(question) for one in part) == expected
    assert ids([one async for part in retriever.astream(question) for one in part]) == expected


def test_a_chain_streams_what_it_invokes(retriever):
    """Lists of one add up in a chain."""
    chain = retriever | RunnablePassthrough()
    streamed = [document for part in chain.stream("water") for document in part]
    assert ids(streamed) == ids(chain.invoke("water"))


# -- settings of one call ----------------------------------------------------------------------------------------


def test_a_call_may_ask_for_more_than_the_constructor(retriever):
    """k larger than the constructor's works."""
    assert len(retriever.invoke("the water and the cat sleep in the car", k=5)) == 5


def test_filters_narrow(store):
    """A call's filter narrows the retriever's own; both languages of filters work."""
    retriever = HybridRetriever(store, filter={"kind": "machine"})
    assert set(ids(retriever.invoke("the cat and the water and the car"))) <= {"car", "code", "pump"}
    assert ids(retriever.invoke("the cat and the water and the car", filter={"n": {"$lt": 3}})) == ["car"]
    assert ids(retriever.invoke("the cat", filter=by_meta(kind="animal"))) == []


@pytest.mark.parametrize("bad", [{"n": {"$near": 3}}, {"$or": 3}, "kind = animal"])
def test_a_malformed_filter_is_refused(retriever, bad):
    """Never dropped, never degraded."""
    with pytest.raises(FilterError):
        retriever.invoke("cat", filter=bad)


def test_weights_of_a_call(store):
    """All weight on one side asks only that side; one weight gives the other the rest."""
    retriever = HybridRetriever(store)
    assert retriever.retrieve("pump water", keyword_weight=1.0).plan["weights"] == {"keyword": 1.0}
    assert retriever.retrieve("pump water", semantic_weight=1.0).plan["weights"] == {"vector": 1.0}
    assert retriever.retrieve("pump water", keyword_weight=0.25).plan["weights"] == {"vector": 0.75, "keyword": 0.25}


def test_a_vector_may_stand_for_the_text(store):
    """Without a text the words are silent, and the answer says so."""
    vector = store.embeddings.embed_query(TEXTS["kiwi"])
    result = HybridRetriever(store, k=1).retrieve(None, vector=vector)
    assert ids(result) == ["kiwi"]
    assert result.degraded == ("no-query-text",)


def test_a_vector_with_the_text(store):
    """The vector serves the vector side, the text the words."""
    vector = store.embeddings.embed_query(TEXTS["kiwi"])
    result = HybridRetriever(store, k=2).retrieve("E4711", vector=vector, semantic_weight=0.5)
    assert set(ids(result)) == {"kiwi", "code"}


def test_min_score(store):
    """Hits below it are left out, hits above it stay."""
    retriever = HybridRetriever(store)
    everything = retriever.retrieve("water pump")
    bound = everything[1].metadata["score"]
    assert ids(retriever.invoke("water pump", min_score=bound)) == ids(everything[:2])


def test_mmr_spreads_the_answer():
    """The second of two near twins is replaced by another document."""
    texts = ["the blue whale sings", "the blue whale sings loud", "a whale is a mammal", "stones are hard"]
    store = HybridGraphStore.from_texts(texts, "lsa", ids=["a", "twin", "other", "stone"])
    plain = ids(HybridRetriever(store, k=2).invoke("blue whale sings"))
    spread = ids(HybridRetriever(store, k=2, selection={"mmr_lambda": 0.3}).invoke("blue whale sings"))
    assert set(plain) == {"a", "twin"}
    assert "twin" not in spread or "a" not in spread


def test_time():
    """A text that is not valid now is found as of its time and at all times, but not now."""
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


def test_an_unknown_option_of_a_call_is_refused(retriever):
    """A misspelt option does not pass silently."""
    with pytest.raises(TypeError, match="fliter"):
        retriever.invoke("cat", fliter={})


def test_another_tenant_is_refused():
    """A call cannot reach beyond its store."""
    retriever = HybridRetriever(HybridGraphStore(tenant="a"))
    with pytest.raises((TenantError, ConfigurationError)):
        retriever.invoke("cat", tenant="b")


# -- settings of the constructor ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"semantic_wieght": 0.5},
        {"k": -1},
        {"semantic_weight": -0.1},
        {"semantic_weight": 0, "keyword_weight": 0},
        {"fusion": "magic"},
        {"min_score": 2},
        {"keyword_weight": float("nan")},
    ],
)
def test_bad_settings_are_refused_at_construction(store, settings):
    """A misspelt name, a negative k or weight, weights of nothing, an unknown fusion."""
    with pytest.raises((ValidationError, ConfigurationError, ValueError)):
        HybridRetriever(store, **settings)


def test_documents_for_a_store_with_its_own_index_are_refused(store):
    """Two truths would disagree."""
    with pytest.raises(ConfigurationError, match="add_documents"):
        HybridRetriever(store, documents())


@pytest.mark.parametrize("fusion", ["rrf", "convex", "distribution", "max", "interleave", "concat"])
def test_every_fusion_answers(store, fusion):
    """All of them find the obvious first."""
    result = HybridRetriever(store, fusion=fusion, k=4).retrieve("open the water valve of the pump")
    assert result[0].id == "pump"
    assert len(result) <= 4
    assert result.degraded == ()


def test_fields_can_be_configured_at_run_time(store):
    """LangChain's configurable_fields makes a new retriever; its index is not built again."""
    vector_store = InMemoryVectorStore.from_documents(documents(), embedding())
    retriever = HybridRetriever(vector_store, documents(), k=3)
    runnable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    assert len(runnable.with_config(configurable={"k": 1}).invoke("water pump")) == 1
    assert len(runnable.invoke("water pump for the car")) == 3
    prepared, _ = runnable.prepare({"configurable": {"k": 2}})
    assert prepared.index.adapter is retriever.index.adapter is not None


def test_statistics(store):
    """Calls, errors, times and degradations are counted."""
    retriever = HybridRetriever(store)
    retriever.invoke("cat")
    retriever.retrieve(None, vector=store.embeddings.embed_query("cat sleeps"))
    report = retriever.get_retrieval_stats()
    assert report["calls"] == 2
    assert report["degraded"] == {"no-query-text": 1}
    assert report["p50_ms"] > 0


# -- over other stores -------------------------------------------------------------------------------------------


@pytest.fixture
def chroma(tmp_path):
    chromadb = pytest.importorskip("langchain_chroma")
    return chromadb.Chroma.from_documents(
        documents(),
        embedding(),
        persist_directory=str(tmp_path),
        collection_configuration={"hnsw": {"space": "cosine"}},
    )


def test_a_chroma_collection_alone_is_enough(chroma):
    """Its texts are read to make the keyword index; hits of both sides merge by id."""
    retriever = HybridRetriever(chroma, k=2)
    best = retriever.retrieve("water for the pump")[0]
    assert best.id == "pump"
    assert best.metadata["retrieval_source"] == "fused"
    assert ids(retriever.invoke("E4711", keyword_weight=1.0)) == ["code"]


def test_a_collection_larger_than_a_page_is_read_whole(tmp_path):
    """2,300 texts take three pages."""
    from langchain_chroma import Chroma

    store = Chroma(embedding_function=embedding(), persist_directory=str(tmp_path))
    store.add_texts([f"number x{n}" for n in range(2300)], ids=[str(n) for n in range(2300)])
    retriever = HybridRetriever(store, keyword_weight=1.0)
    assert len(retriever.index.adapter.texts.ids) == 2300
    assert ids(retriever.invoke("x2299")) == ["2299"]


def test_documents_without_ids_take_those_of_the_collection(chroma):
    """Equal texts without ids merge with the stored ones instead of doubling."""
    bare = [Document(page_content=text) for text in TEXTS.values()]
    result = HybridRetriever(chroma, bare, k=6).invoke("water for the pump and the car")
    assert sorted(ids(result)) == sorted(set(ids(result)))
    assert set(ids(result)) <= set(TEXTS)


def test_filters_over_chroma(chroma):
    """Several keys in one object, which langchain-chroma itself refuses."""
    result = HybridRetriever(chroma, k=6).invoke("the water and the car", filter={"kind": "machine", "n": {"$gt": 2}})
    assert sorted(ids(result)) == ["code", "pump"]


@pytest.mark.parametrize("space", ["l2", "ip"])
def test_scores_are_cosines_in_every_space(tmp_path, space):
    """A collection's distances become the cosine of query and text."""
    from langchain_chroma import Chroma

    model = embedding()
    store = Chroma.from_documents(
        documents(), model, persist_directory=str(tmp_path), collection_configuration={"hnsw": {"space": space}}
    )
    question, best = "water pump", HybridRetriever(store, semantic_weight=1.0, k=1).retrieve("water pump")[0]
    (vector,) = model.embed_documents([best.page_content])
    cosine = sum(a * b for a, b in zip(model.embed_query(question), vector, strict=True))
    assert best.metadata["vector_score"] == pytest.approx(cosine, abs=1e-4)


def test_more_is_requested_of_a_store_without_filters():
    """The only match is far down the list of the nearest."""
    many = [Document(id=f"d{n}", page_content=f"water pump {n}", metadata={"n": n}) for n in range(500)]
    store = BareStore(many, LSAEmbeddings().fit([d.page_content for d in many]))
    result = HybridRetriever(store, semantic_weight=1.0).retrieve("water pump 3", filter={"n": 499})
    assert ids(result) == ["d499"]
    assert "filter-post-applied" in result.degraded


def test_vectors_alone_when_there_are_no_texts():
    """A store that cannot be read and no documents: the vector side answers, and the answer says so."""
    result = HybridRetriever(BareStore(documents(), embedding()), k=2).retrieve("water pump")
    assert len(result) == 2
    assert result.degraded == ("no-cosine", "no-keyword-index")
    assert result[0].metadata["retrieval_method"] == "vector"


def test_the_keyword_side_may_be_another_retriever():
    """langchain-community's BM25Retriever, or any other."""
    bm25 = pytest.importorskip("langchain_community.retrievers")
    store = InMemoryVectorStore.from_documents(documents(), embedding())
    other = bm25.BM25Retriever.from_documents(documents(), k=4)
    result = HybridRetriever(store, keyword_retriever=other, k=3).retrieve("E4711")
    assert result[0].id == "code"
    assert result[0].metadata["retrieval_source"] == "fused"


class Down(BaseRetriever):
    """A retriever whose server is down."""

    def _get_relevant_documents(self, query, *, run_manager):
        raise ConnectionError("refused")


def test_a_failing_keyword_side_leaves_the_vectors():
    """The ladder's next rung, named."""
    store = InMemoryVectorStore.from_documents(documents(), embedding())
    result = HybridRetriever(store, keyword_retriever=Down(), k=2).retrieve("water pump")
    assert len(result) == 2
    assert result.degraded == ("keyword-failed",)
    assert result[0].metadata["degraded"] == ["keyword-failed"]


class DownStore(InMemoryVectorStore):
    """A vector store whose server is down."""

    def similarity_search_with_score_by_vector(self, embedding, k=4, filter=None, **kwargs):
        raise ConnectionError("refused")


def test_a_failing_vector_side_leaves_the_words():
    """And both failing is an error that names them."""
    down = DownStore(embedding())
    result = HybridRetriever(down, documents(), k=2).retrieve("E4711")
    assert (ids(result), result.degraded) == (["code"], ("vector-failed",))
    with pytest.raises(RetrievalError, match=r"vector.*keyword"):
        HybridRetriever(down, keyword_retriever=Down()).invoke("E4711")


@pytest.fixture(params=[True, False], ids=["collection alone", "documents handed in"])
def halls(request, tmp_path):
    """A collection of 200 notes and a rare word that the vectors do not know, and the documents to make words of."""
    from langchain_chroma import Chroma

    texts = {"rare": "secret zebra"} | {f"n{n}": f"note number {n}" for n in range(200)}
    documents = [Document(id=id, page_content=text, metadata={"n": n}) for n, (id, text) in enumerate(texts.items())]
    notes = LSAEmbeddings().fit([document.page_content for document in documents[1:]])
    collection = Chroma.from_documents(documents, notes, persist_directory=str(tmp_path))
    return collection, None if request.param else documents


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, MemoryRetriever])
def test_texts_deleted_from_a_collection_do_not_come_back(halls, kind):
    """Its text is still in the keyword index; neither a filter nor on_error="raise" makes it a hit or a failure."""
    collection, documents = halls
    retriever = kind(collection, documents, k=2, on_error="raise")
    assert ids(retriever.invoke("zebra"))[0] == "rare"
    collection.delete(["rare"])
    for options in ({}, {"filter": {"n": {"$gte": 0}}}, {"keyword_weight": 1.0}, {"selection": {"mmr_lambda": 0.5}}):
        result = retriever.retrieve("zebra note", **options)
        assert "rare" not in ids(result)
        assert len(result) == 2
        assert "vector-failed" not in result.degraded


def test_nothing_is_left_of_what_only_the_words_found(halls):
    """All of it may be deleted: an empty answer then, and no failure."""
    collection, documents = halls
    retriever = HybridRetriever(collection, documents, k=2, keyword_weight=1.0)
    collection.delete(["rare"])
    result = retriever.retrieve("zebra")
    assert (ids(result), result.degraded) == ([], ())


def test_texts_changed_in_a_collection_come_back_changed(halls):
    """Text and metadata are the collection's, and so is whether a filter admits it."""
    collection, documents = halls
    retriever = HybridRetriever(collection, documents, k=1)
    changed = Document(id="rare", page_content="zebra, not secret any more", metadata={"n": 777})
    collection.update_document("rare", changed)
    assert retriever.invoke("zebra")[0].page_content == "zebra, not secret any more"
    assert ids(retriever.invoke("zebra", filter={"n": 777})) == ["rare"]
    assert ids(retriever.invoke("zebra", filter={"n": {"$lt": 1}})) == []


def test_documents_named_by_metadata_are_looked_up_by_the_stores_id(tmp_path):
    """id_key= gives other ids than those of the collection."""
    from langchain_chroma import Chroma

    with_names = [Document(id=f"c-{d.id}", page_content=d.page_content, metadata={"name": d.id}) for d in documents()]
    collection = Chroma.from_documents(with_names, embedding(), persist_directory=str(tmp_path))
    retriever = HybridRetriever(collection, k=1, index={"id_key": "name"}, keyword_weight=1.0)
    assert ids(retriever.invoke("E4711")) == ["code"]
    collection.delete(["c-code"])
    assert ids(retriever.invoke("E4711")) == []


def test_any_store_that_can_be_asked_by_id_is_asked():
    """Texts that it deleted are gone; texts that it never had are found by their words."""
    store = InMemoryVectorStore(embedding())
    store.add_documents(documents())
    other = Document(id="own", page_content="A zebra is in no store.")
    retriever = HybridRetriever(store, [*documents(), other], k=6, keyword_weight=1.0)
    store.delete(["code"])
    assert ids(retriever.invoke("E4711 zebra")) == ["own"]


def test_a_failing_lookup_is_named(chroma):
    """Hits of the keyword search are returned as they were read."""
    retriever = HybridRetriever(chroma, k=1, keyword_weight=1.0)
    chroma.delete_collection()
    result = retriever.retrieve("E4711")
    assert (ids(result), result.degraded) == (["code"], ("lookup-failed",))
    with pytest.raises(RetrievalError, match="lookup failed"):
        retriever.model_copy(update={"on_error": "raise"}).invoke("E4711")


def test_both_keyword_engines_agree_on_the_obvious():
    """rank_bm25 and Tantivy find the same best text."""
    store = InMemoryVectorStore.from_documents(documents(), embedding())
    for engine in ("tantivy", "rank_bm25"):
        retriever = HybridRetriever(store, documents(), index={"engine": engine}, keyword_weight=1.0)
        assert ids(retriever.invoke("open the valve of the pump"))[0] == "pump"


# -- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    ["", "   ", 'C++ AND (" OR *', '"x', "a AND", "\x00", "\ud800", "word " * 20_000, "((((", "field:value", "水 πυρ"],
)
def test_no_text_is_a_syntax_error(retriever, query):
    """Operators and half characters are text; an empty query has an empty answer."""
    assert isinstance(retriever.invoke(query), list)


def test_an_empty_store_has_an_empty_answer():
    """No error, and no degradation either."""
    result = HybridRetriever(HybridGraphStore()).retrieve("anything")
    assert (list(result), result.degraded) == ([], ())


def test_k_beyond_the_corpus(store):
    """Every text comes back once."""
    result = HybridRetriever(store, k=100).invoke("the cat, a dog, the car, kiwi, code, pump")
    assert len(result) == len(set(ids(result))) <= len(TEXTS)


def test_a_question_of_unknown_words_is_answered_by_nothing(store):
    """The vector side says that it knows none of the words."""
    result = HybridRetriever(store).retrieve("zzzzqqq xxyy")
    assert list(result) == []
    assert result.degraded == ("query-out-of-vocabulary",)


def test_all_weight_on_the_words_is_one_weight(store):
    """semantic_weight=0 alone gives the words all the weight."""
    assert HybridRetriever(store, semantic_weight=0).retrieve("pump").plan["weights"] == {"keyword": 1.0}


def test_the_text_is_embedded_as_it_was_asked():
    """Blanks around a question reach the embedding: an embedding that looks vectors up by text needs them."""
    queries = []

    class Listening(LSAEmbeddings):
        def embed_query(self, text):
            queries.append(text)
            return super().embed_query(text)

    store = InMemoryVectorStore.from_documents(documents(), Listening().fit(list(TEXTS.values())))
    queries.clear()  # a small number of texts is embedded one by one
    HybridRetriever(store, documents()).invoke("  water pump ")
    assert queries == ["  water pump "]


def test_fixed_weights_do_not_look_at_the_question(store):
    """The two kinds of weights differ in the parts of a vague question."""
    adaptive = HybridRetriever(store, k=1).retrieve("sleep day").hits[0].parts
    fixed = (
        HybridRetriever(store, k=1, fusion={"type": "convex", "adaptive": False}).retrieve("sleep day").hits[0].parts
    )
    assert adaptive != fixed


# -- identity ----------------------------------------------------------------------------------------------------


def bm25_over(texts: list[Document]) -> BaseRetriever:
    return pytest.importorskip("langchain_community.retrievers").BM25Retriever.from_documents(texts, k=6)


def bare() -> list[Document]:
    return [Document(page_content=text) for text in TEXTS.values()]


def test_another_retrievers_documents_without_ids_merge_with_a_plain_store():
    """A text found by both sides is one hit, under the store's id."""
    store = InMemoryVectorStore.from_documents(documents(), embedding())
    result = HybridRetriever(store, keyword_retriever=bm25_over(bare()), k=12).retrieve("water for the pump")
    assert sorted(ids(result)) == sorted(TEXTS)
    assert result[0].metadata["retrieval_source"] == "fused"


def test_another_retrievers_documents_without_ids_merge_with_our_store(store):
    """They are found in the catalog by text and source."""
    result = HybridRetriever(store, keyword_retriever=bm25_over(bare()), k=12).retrieve("water for the pump")
    assert ids(result)[0] == "pump"
    assert sorted(ids(result)) == sorted(TEXTS)
    assert result[0].metadata["retrieval_source"] == "fused"


def test_equal_texts_with_ids_of_their_own_stay_two(tmp_path):
    """Identity is the id: a filter on one of them brings that one alone."""
    from langchain_chroma import Chroma

    years = {"a": 1, "b": 2}
    twins = [Document(id=id, page_content="the same text", metadata={"year": year}) for id, year in years.items()]
    store = Chroma.from_documents(twins, embedding(), persist_directory=str(tmp_path))
    retriever = HybridRetriever(store)
    assert sorted(ids(retriever.invoke("same text"))) == ["a", "b"]
    assert ids(retriever.invoke("same text", filter={"year": 1})) == ["a"]


def test_a_filter_that_matches_nothing_is_an_empty_answer(tmp_path):
    """Also in Chroma's default space, where vectors are fetched by id."""
    from langchain_chroma import Chroma

    store = Chroma.from_documents(documents(), embedding(), persist_directory=str(tmp_path))
    result = HybridRetriever(store).retrieve("pump", filter={"n": 99})
    assert (list(result), result.degraded) == ([], ())


def test_a_filter_on_the_derived_document_over_chroma(tmp_path):
    """The collection knows the source only; the document's id is derived from it."""
    from langchain_chroma import Chroma

    from langchain_hybridgraph import by_document

    store = Chroma.from_documents(documents(source="a.md"), embedding(), persist_directory=str(tmp_path))
    result = HybridRetriever(store, semantic_weight=1.0).invoke("sleeping animals", filter=by_document("a.md"))
    assert len(result) == len(TEXTS)


# -- reranking and k -----------------------------------------------------------------------------------------------


class ByNumber:
    """A reranker that likes small numbers, and reads whatever it is given."""

    filters = False

    def rerank(self, query, hits):
        return [1 / (1 + int(hit.id)) for hit in hits]


@pytest.fixture(scope="module")
def numbered():
    with HybridGraphStore() as store:
        store.add_texts([f"water number {n}" for n in range(120)], ids=[str(n) for n in range(120)])
        yield store


def test_reranked_answers_are_heads_of_larger_ones(numbered):
    """The number of texts that a reranker reads does not depend on k."""
    retriever = HybridRetriever(numbered, reranker=ByNumber())
    whole = ids(retriever.invoke("water", k=60))
    assert len(whole) == 60
    for k in (1, 10, 20):
        assert ids(retriever.invoke("water", k=k)) == whole[:k]


def test_hits_that_a_reranker_did_not_read_rank_below(numbered):
    """No hit is lost because the reranker read only the best."""
    result = HybridRetriever(numbered, reranker=ByNumber(), selection={"rerank_depth": 5}).retrieve("water", k=20)
    assert len(result) == 20
    assert [document.metadata["rerank_score"] is None for document in result] == [False] * 5 + [True] * 15


def test_diversity_over_chroma(chroma):
    """MMR is measured with the collection's own vectors."""
    plain = ids(HybridRetriever(chroma, k=3, selection={"mmr_lambda": 1.0}).invoke("water for the pump"))
    spread = ids(HybridRetriever(chroma, k=3, selection={"mmr_lambda": 0.0}).invoke("water for the pump"))
    assert plain[0] == spread[0]
    assert plain != spread


def test_diversity_over_a_store_without_vectors_is_refused():
    """It is not silently left out."""
    store = BareStore(documents(), embedding())
    with pytest.raises(ConfigurationError, match="mmr_lambda"):
        HybridRetriever(store, documents(), selection={"mmr_lambda": 0.5}).invoke("pump")


# -- what is passed on ---------------------------------------------------------------------------------------------


def test_a_plain_function_is_a_fusion(store):
    """Any callable of the shape will do."""
    result = HybridRetriever(store, fusion=lambda rankings: []).retrieve("pump")
    assert (list(result), result.degraded) == ([], ())


def test_failing_own_scores_are_named(store):
    """A side that answered but could not score what the other found says so."""

    class Forgetful(HybridGraphStore):
        def keyword_scores(self, text, ids):
            raise OSError("disk")

    forgetful = Forgetful()
    forgetful.add_documents(documents())
    result = HybridRetriever(forgetful).retrieve("E4711 sleeps")
    assert "keyword-failed" in result.degraded
    with pytest.raises(RetrievalError):
        HybridRetriever(forgetful, on_error="raise").invoke("E4711 sleeps")


async def test_an_empty_answer_streams_alike(store):
    """One empty list, in both ways."""
    retriever = HybridRetriever(store, filter={"n": 99})
    assert list(retriever.stream("pump")) == [[]]
    assert [part async for part in retriever.astream("pump")] == [[]]


def test_a_users_own_label_stays():
    """``label`` is written only where there are labels."""
    store = HybridGraphStore.from_texts(["alpha", "beta"], "lsa", [{"label": "mine"}, {"labels": ["x", "y"]}])
    retriever = HybridRetriever(store, k=1, annotate="all")
    assert retriever.invoke("alpha")[0].metadata["label"] == "mine"
    assert retriever.invoke("beta")[0].metadata["label"] == "x"


def test_a_budget_keeps_its_counter():
    """max_tokens of a call changes the number, not how it is counted."""
    from langchain_hybridgraph import TokenBudget

    store = HybridGraphStore.from_texts(["alpha one", "alpha two", "alpha three"], "lsa")
    retriever = HybridRetriever(store, selection={"budget": TokenBudget(100, counter=lambda text: 10)})
    assert len(retriever.invoke("alpha")) == 3
    assert len(retriever.invoke("alpha", max_tokens=20)) == 2


def test_an_empty_store_is_a_store(tmp_path):
    """from_config takes the store that it is given, also an empty one."""
    config = tmp_path / "hybridgraph.yaml"
    config.write_text("retriever_k: 4\n", encoding="utf-8")
    retriever = HybridRetriever.from_config(config, store=HybridGraphStore())
    assert (retriever.k, retriever.invoke("anything")) == (4, [])


def test_sub_retrievers_run_as_children(store):
    """LangChain's callbacks see one run with the keyword retriever below it."""
    from langchain_core.callbacks import BaseCallbackHandler

    parents = []

    class Watching(BaseCallbackHandler):
        def on_retriever_start(self, serialized, query, *, parent_run_id=None, **kwargs):
            parents.append(parent_run_id)

    retriever = HybridRetriever(store, keyword_retriever=bm25_over(documents()))
    retriever.invoke("pump", config={"callbacks": [Watching()]})
    assert len(parents) == 2
    assert parents[0] is None
    assert parents[1] is not None


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, MemoryRetriever, HierarchicalRetriever])
def test_another_vector_store_needs_another_retriever(kind):
    """The texts of a foreign vector store are read once, so another one would be answered with the old texts."""
    embedding = DeterministicFakeEmbedding(size=8)
    foreign = InMemoryVectorStore.from_texts(["quokka"], embedding)
    own = HybridGraphStore.from_texts(["coal"], embedding)
    for retriever in (kind(own), kind(InMemoryVectorStore.from_texts(["coal"], embedding))):
        with pytest.raises(ConfigurationError, match=rf"make another one: {kind.__name__}\(vector_store\)"):
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
    """A store whose vectors know nothing of the words."""
    embedding = DeterministicFakeEmbedding(size=32)
    texts, ids = list(PARTS.values()), list(PARTS)
    if kind == "own":
        return HybridGraphStore.from_texts(texts, embedding, ids=ids)
    return InMemoryVectorStore.from_texts(texts, embedding, ids=ids)


@pytest.mark.parametrize("kind", ["own", "another"])
async def test_an_identifier_outranks_similarity(kind):
    """Alone and in a question, whatever the embedding, sync and async, over any store."""
    retriever = HybridRetriever(sample_texts(kind), k=1)
    for question, expected in (
        ("ruby-faker", "ruby-faker"),
        ("what is the php-faker package for?", "php-faker"),
        ("Who looked after pump P-1208 and when?", "pump"),
        ("P-1209", "other pump"),
    ):
        assert ids(retriever.invoke(question)) == ids(await retriever.ainvoke(question)) == [expected]


def test_an_exact_match_is_a_part_of_the_score():
    """The answer shows why it comes first; fixed weights have no such part."""
    with sample_texts("own") as store:
        (best,) = HybridRetriever(store, k=1).retrieve("ruby-faker").hits
        assert best.parts["exact"] > 0.9
        assert f"exact {best.parts['exact']:.3f}" in best.explain()
        assert "keyword" in best.found_by
        fixed = HybridRetriever(store, fusion={"type": "convex", "adaptive": False}).retrieve("P-1208")
        assert fixed.hits
        assert all("exact" not in hit.parts for hit in fixed.hits)


def test_an_identifier_outside_the_scope_is_not_meant():
    """A filter and a text that was deleted since leave the others as they were."""
    with sample_texts("own") as store:
        store.delete(["ruby-faker"])
        assert "ruby-faker" not in ids(HybridRetriever(store, k=5).invoke("ruby-faker"))


# -- answerability ---------------------------------------------------------------------------------------------

ANSWERABLE, UNANSWERABLE = "When does the dog bark at the postman?", "What is the capital of Mongolia?"


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever])
async def test_a_threshold_separates_questions_without_an_answer(store, kind):
    """The best hit has the value of the answer, the others less, and .5 lets a question without one go."""
    retriever = kind(store, k=3)
    answer = retriever.retrieve(ANSWERABLE)
    assert answer.answerable
    assert answer[0].metadata["relevance_score"] == pytest.approx(answer.answerability.value)
    assert ids(retriever.invoke(ANSWERABLE, min_score=0.5)) == ["dog"]
    nothing = await retriever.aretrieve(UNANSWERABLE, min_score=0.5)
    assert (ids(nothing), nothing.answerable) == ([], False)
    assert "not answerable (0.00): words matched 0.00" in retriever.explain(UNANSWERABLE)


def test_calibrated_scores_keep_order_and_parts(store):
    """The parts sum to the score, in the unit that the answer names; the order is that of the scores before."""
    answer = HybridRetriever(store, k=6).retrieve(ANSWERABLE)
    fixed = HybridRetriever(store, k=6, fusion="rrf").retrieve(ANSWERABLE)
    assert len(answer.hits) > 1
    assert all(sum(hit.parts.values()) == pytest.approx(hit.score) for hit in answer.hits)
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    assert answer.answerability.unit != 1
    assert fixed.answerability.unit == 1
    assert fixed.answerability.value == answer.answerability.value


def test_diversity_does_not_depend_on_the_unit(store):
    """MMR weighs the scores that rank."""
    result = [
        HybridRetriever(store, k=4, selection={"mmr_lambda": 0.5}).retrieve(ANSWERABLE, min_score=least)
        for least in (0.0, 1e-9)
    ]
    assert ids(result[0])[:1] == ids(result[1])[:1] == ["dog"]


@pytest.mark.parametrize("retriever", ["no cosines", "another store", "no words"])
def test_answerability_of_what_is_known(retriever):
    """The words alone, both over another store, and the similarity alone."""
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


def test_answerability_round_trips(store):
    """Through JSON, as all of a result."""
    answer = HybridRetriever(store).retrieve(ANSWERABLE)
    again = type(answer).from_dict(json.loads(json.dumps(answer.to_dict())))
    assert again.answerability == answer.answerability
