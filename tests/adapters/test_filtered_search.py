"""Filtered searches of other vector stores: exact results at a bounded cost."""

from datetime import UTC, datetime, timedelta
from functools import cache
from uuid import uuid4

import chromadb
import numpy as np
import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.adapters import chroma
from langchain_hybridgraph.filters import by_document, created_after, exclude_document, has_labels, parse_filter
from langchain_hybridgraph.records import Query, Scope
from tests.support.models.query_embeddings import QueryEmbeddings
from tests.support.stores.real_stores import FAISS

SIZE, WIDTH = 2_400, 8
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
VECTORS = np.random.default_rng(5).normal(size=(SIZE, WIDTH)).astype(np.float32)


class Numbered(QueryEmbeddings):
    """Embedding in which "text 17" has the vector in row 17."""

    def embed_query(self, text):
        number = int(text.split()[-1])
        return VECTORS[number % SIZE].tolist()


def metadata(n):
    """Return metadata with values of every type; no key occurs in all texts."""
    time = BEGIN + timedelta(hours=n)
    values = {"percent": n % 100, "near": bool(VECTORS[n, 0] > 0)}
    if n % 2:
        values |= {"document_id": f"d{n // 10}", "created_at": time.isoformat()}
    if n % 3:
        values |= {"source": f"s{n // 20}", "score": n / 7, "made.at": time.timestamp()}
    if n % 5:
        values |= {"labels": [f"l{n % 7}", f"m{n % 5}"], "label": f"l{n % 7}"}
    if n % 400 == 0:
        values |= {"rare": 1.0, "created_at": time.timestamp()}
    if n % 11 == 0:
        values["tenant"] = "t1"
    return values


def documents():
    return [Document(f"text {n}", id=f"t{n}", metadata=metadata(n)) for n in range(SIZE)]


FILTERS = {
    "by_document": by_document("d7"),
    "by_document, derived from the source": by_document("s3"),
    "exclude_document": exclude_document("d7", "s3"),
    "created_after": created_after("2024-02-01"),
    "has_labels": has_labels(any_of=["l1", "l2"], all_of=["m3"]),
    "$eq of a float": parse_filter({"rare": 1}),
    "$nin": parse_filter({"label": {"$nin": ["l1", "l2"]}}),
    "$gt": parse_filter({"score": {"$gt": 100.5}}),
    "$contains in a text": parse_filter({"created_at": {"$contains": "-03-"}}),
    "$not_contains": parse_filter({"labels": {"$not_contains": "m3"}}),
    "$not": parse_filter({"$not": {"percent": {"$lt": 50}}}),
    "$and": parse_filter({"percent": {"$lt": 50}, "created_at": {"$gt": "2024-03-20"}}),
    "a key with a dot": parse_filter({r"made\.at": {"$gt": (BEGIN + timedelta(days=60)).timestamp()}}),
    "nothing": parse_filter({"percent": -1}),
}


def exact(filter, question, n):
    """Return the ids of the n nearest matching texts, computed from all cosines."""
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    cosines = unit @ unit[question]
    matching = [m for m in range(SIZE) if filter is None or filter.matches(filterable(m))]
    return [f"t{m}" for m in sorted(matching, key=lambda m: -cosines[m])[:n]]


@cache
def filterable(n):
    values = metadata(n)
    return {"document_id": values.get("source", f"t{n}"), **values}


@pytest.fixture(scope="module", params=["cosine", "l2", "ip", "FAISS", "InMemoryVectorStore"])
def store(request, tmp_path_factory):
    if request.param == "FAISS":
        return FAISS.from_documents(documents(), Numbered())
    if request.param == "InMemoryVectorStore":
        return InMemoryVectorStore.from_documents(documents(), Numbered())
    return Chroma.from_documents(
        documents(),
        Numbered(),
        persist_directory=str(tmp_path_factory.mktemp(request.param)),
        collection_configuration={"hnsw": {"space": request.param, "ef_search": 400}},
    )


@pytest.fixture(scope="module")
def retriever(store):
    return HybridRetriever(store)


def nearest(retriever, filter, question, n, tenant=None):
    query = Query(f"text {question}", n, Scope(filter, tenant))
    result = retriever.index.adapter.vector_search(query, n)
    assert result.reason is None, "the store must evaluate the filter"
    return list(result.ids)


@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS)
def test_results_equal_those_of_checking_every_text(store, retriever, filter):
    """A filtered search finds exactly the matching texts, the nearest first, for any share of matches."""
    for question in (0, 1234):
        expected = exact(filter, question, 20)
        result = nearest(retriever, filter, question, 20)
        assert len(result) == len(expected)
        assert all(filter.matches(filterable(int(id[1:]))) for id in result)
        if isinstance(store, InMemoryVectorStore):  # Chroma, and the spaces l2 and ip, do not rank exactly by cosine
            assert result == expected
    total = sum(filter.matches(filterable(n)) for n in range(SIZE))
    if total <= 300 and not isinstance(store, FAISS):  # FAISS orders by its own metric
        assert nearest(retriever, filter, 7, 300) == exact(filter, 7, 300)


def test_a_tenant_is_a_filter(store, retriever):
    """A search in a tenant returns only texts of that tenant, not texts without one."""
    assert sorted(nearest(retriever, None, 5, 500, tenant="t1")) == sorted(f"t{n}" for n in range(0, SIZE, 11))


# -- cost ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def over_chroma(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("watched"))
    return HybridRetriever(Chroma.from_documents(documents(), Numbered(), persist_directory=folder))


@pytest.fixture
def requests(monkeypatch):
    """Count texts requested from Chroma, by kind of request."""
    from chromadb.api.models.Collection import Collection

    calls = []
    get, query = Collection.get, Collection.query

    def watched_get(self, *args, **options):
        result = get(self, *args, **options)
        calls.append(("get", "documents" in options.get("include", ()), len(result["ids"])))
        return result

    def watched_query(self, *args, **options):
        result = query(self, *args, **options)
        calls.append(("query", "documents" in options.get("include", ()), len(result["ids"][0])))
        return result

    monkeypatch.setattr(Collection, "get", watched_get)
    monkeypatch.setattr(Collection, "query", watched_query)
    return calls


@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS)
def test_chroma_reads_no_more_texts_than_it_returns(over_chroma, requests, filter):
    """A filtered search makes at most two queries to Chroma and reads only the texts of the hits."""
    nearest(over_chroma, filter, 3, 20)  # the sample of vectors for the background is taken once
    requests.clear()
    nearest(over_chroma, filter, 3, 20)
    assert sum(number for _, with_texts, number in requests if with_texts) <= 20
    assert sum(number for _, _, number in requests) <= 2_000
    assert sum(kind == "query" for kind, _, _ in requests) <= 2


# -- changes -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["in a folder", "in memory"])
def changing(request, tmp_path):
    """Return a collection of 40 texts and a retriever that has already searched it."""
    folder = None if request.param == "in memory" else str(tmp_path)
    store = Chroma.from_documents(
        documents()[:40], Numbered(), collection_name=f"texts-{uuid4()}", persist_directory=folder
    )
    retriever = HybridRetriever(store)
    nearest(retriever, by_document("d1"), 3, 5)
    return store, retriever


def test_an_added_text_is_found_by_a_filter(changing):
    """A filter finds a text added after the first search, because the number of texts has changed."""
    store, retriever = changing
    store.add_documents([Document("text 41", id="new", metadata={"made": "2030-01-01"})])
    assert nearest(retriever, parse_filter({"made": {"$gt": "2029-01-01"}}), 3, 5) == ["new"]


def test_a_deleted_text_is_not_found(changing):
    """A deleted text is not found, even if adding another one keeps the number of texts the same."""
    store, retriever = changing
    rare = parse_filter({"rare": {"$exists": True}})
    assert nearest(retriever, rare, 3, 5) == ["t0"]
    store.delete(["t0"])
    store.add_documents([Document("text 42", id="other", metadata={"rare": 2.0})])
    assert nearest(retriever, rare, 3, 5) == ["other"]


def test_filters_use_changed_metadata(changing):
    """After a change of metadata, a text is found only by filters that match its new metadata."""
    store, retriever = changing
    store.update_document("t5", Document("text 5", metadata={"percent": 777}))
    assert [hit.id for hit in retriever.invoke("text 3", filter={"percent": 777})] == ["t5"]
    hits = retriever.invoke("text 5", k=39, filter={"percent": {"$lt": 100}})
    assert len(hits) == 39
    assert "t5" not in [hit.id for hit in hits]


# -- data in memory ------------------------------------------------------------------------------------------------


def next_tick(folder):
    """Wait until a new change of Chroma's database file gets another time than the last one."""
    while True:
        (folder / "tick").write_text("")
        if (folder / "tick").stat().st_ctime_ns > (folder / "chroma.sqlite3").stat().st_ctime_ns:
            return


@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("is_settled", [True, False], ids=["a folder", "a folder that was just written"])
def test_a_text_that_is_embedded_again_is_scored_by_its_new_vector(tmp_path, monkeypatch, space, is_settled):
    """After a change in place, the scores come from the new vector, although vectors are kept in memory."""
    configuration = {"hnsw": {"space": space}}
    store = Chroma.from_documents(
        documents()[:40], Numbered(), persist_directory=str(tmp_path), collection_configuration=configuration
    )
    retriever = HybridRetriever(store, k=40)
    monkeypatch.setattr(chroma, "SETTLED_SECONDS", 0.0 if is_settled else 3600.0)
    assert len(retriever.invoke("text 30")) == 40
    next_tick(tmp_path)
    store.update_document("t5", Document("text 30", metadata={"percent": 777}))
    scores = {hit.id: hit.vector_score for hit in retriever.retrieve("text 30").hits}
    assert scores["t5"] == pytest.approx(1.0, abs=1e-6)
    assert scores["t5"] == pytest.approx(scores["t30"], abs=1e-6)


@pytest.fixture
def in_memory():
    """Return a collection of 40 texts in memory and a retriever that has already searched it."""
    store = Chroma.from_documents(documents()[:40], Numbered(), collection_name=f"texts-{uuid4()}")
    retriever = HybridRetriever(store, k=40)
    assert len(retriever.invoke("text 30")) == 40
    return store, retriever


def test_a_change_by_another_object_in_memory_is_noticed(in_memory):
    """A text changed in place through another Chroma object is returned with its new text and its new vector."""
    store, retriever = in_memory
    Chroma(store._collection.name, Numbered()).update_document("t5", Document("text 30", metadata={"percent": 777}))
    hits = {hit.id: hit for hit in retriever.retrieve("text 30").hits}
    assert (hits["t5"].chunk.text, hits["t5"].chunk.metadata["percent"]) == ("text 30", 777)
    assert hits["t5"].vector_score == pytest.approx(hits["t30"].vector_score, abs=1e-6)


def test_a_failed_change_in_memory_does_not_stop_the_detection_of_changes(in_memory):
    """After a change that Chroma refuses, the next change is noticed."""
    store, retriever = in_memory
    with pytest.raises(chromadb.errors.ChromaError):
        store._collection.add(ids=["bad"], embeddings=[[1.0, 2.0]], documents=["text of another dimension"])
    store.delete(["t5"])
    assert "t5" not in {hit.id for hit in retriever.invoke("text 5")}
