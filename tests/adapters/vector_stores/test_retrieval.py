"""Retrieval over other vector stores: ids, cosines, edges and parents."""

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import GraphRetriever, HybridRetriever
from langchain_hybridgraph.records import Edge
from tests.support.models.function_retriever import FunctionRetriever
from tests.support.samples.document_lists import ids
from tests.support.stores.real_stores import CLOSED, COSINES, QUESTION, STORES, TEXTS, Fixed, close, documents


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module", params=STORES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def store(kind, folder):
    make, options = STORES[kind]
    vector_store = make(list(TEXTS.values()), folder, **options)
    yield vector_store
    close(vector_store)


def bm25(documents):
    return pytest.importorskip("langchain_community.retrievers").BM25Retriever.from_documents(documents, k=3)


def check_both_sides(result):
    """Check that each text is one hit and that hits of both sources have both scores."""
    assert sorted(document.page_content for document in result) == sorted(TEXTS.values())
    scores = {d.page_content: (d.metadata["vector_score"], d.metadata["bm25_score"]) for d in result}
    for id in ("ada", "engine"):
        cosine, words = scores[TEXTS[id]]
        assert words is not None
        assert words > 0
        assert cosine is None or cosine == pytest.approx(COSINES[id], abs=1e-4)


SIDES = {
    "documents": lambda documents: {"documents": documents},
    "keyword retriever": lambda documents: {"keyword_retriever": bm25(documents)},
    "a server": lambda documents: {"keyword_retriever": FunctionRetriever(find=bm25(documents).invoke)},
}


# -- one id per text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", SIDES)
def test_documents_with_the_applications_ids(store, side):
    """Hits have the ids of the given Documents, or of those of the keyword retriever, not the store's ids."""
    result = HybridRetriever(store, **SIDES[side](documents())).retrieve(QUESTION)
    assert sorted(ids(result)) == sorted(TEXTS)
    check_both_sides(result)


@pytest.mark.parametrize("side", ["documents", "keyword retriever"])
def test_documents_without_ids_take_the_stores(store, kind, side):
    """Documents without ids get the store's ids if the store can be listed."""
    bare = [Document(page_content=text) for text in TEXTS.values()]
    result = HybridRetriever(store, **SIDES[side](bare)).retrieve(QUESTION)
    check_both_sides(result)
    if kind not in CLOSED:
        assert sorted(ids(result)) == sorted(ids(HybridRetriever(store).invoke(QUESTION)))


def test_the_store_alone(store, kind):
    """Without documents, the keyword index is built from the store's texts if the store can be listed."""
    result = HybridRetriever(store).retrieve(QUESTION)
    if kind in CLOSED:
        assert "no-keyword-index" in result.degraded
    else:
        check_both_sides(result)
        assert result.degraded == ()


def test_ids_in_the_metadata(store):
    """With ``id_key``, the Documents' ids come from their metadata and the store's texts are matched to them."""
    user_documents = [Document(page_content=text, metadata={"name": id}) for id, text in TEXTS.items()]
    result = HybridRetriever(store, user_documents, index={"id_key": "name"}).retrieve(QUESTION)
    assert sorted(ids(result)) == sorted(TEXTS)
    check_both_sides(result)


def test_pieces_that_share_an_id_in_their_metadata_stay_apart(store):
    """Texts that share an ``id`` in their metadata, such as a document's id, stay separate hits."""
    user_documents = [Document(page_content=text, metadata={"id": "book"}) for text in TEXTS.values()]
    check_both_sides(HybridRetriever(store, user_documents).retrieve(QUESTION))


# -- cosines -----------------------------------------------------------------------------------------------------


def test_vector_scores_are_cosines(store, kind):
    """Vector scores are cosines for every metric, or None with no-cosine if the scores' meaning is unknown."""
    result = HybridRetriever(store, documents(), semantic_weight=1.0).retrieve(QUESTION)
    scores = {document.id: document.metadata["vector_score"] for document in result}
    if kind in CLOSED:
        assert set(scores.values()) == {None}
        assert result.degraded == ("no-cosine",)
    else:
        assert scores == pytest.approx(COSINES, abs=1e-4)
        assert result.degraded == ()


# -- graph -------------------------------------------------------------------------------------------------------


ONE_HOP = {"traversal": {"type": "bfs", "max_hops": 1}, "seed_k": 1}


@pytest.mark.parametrize("side", ["documents", "keyword retriever"])
def test_edges_between_the_applications_ids_are_traversed(store, side):
    """Edges between the Documents' ids lead from the best hit to a text without any word of the question."""
    edges = [Edge("ada", "zebra", "references")]
    retriever = GraphRetriever(store, edges=edges, graph=ONE_HOP, **SIDES[side](documents()))
    by_id = {document.id: document.metadata for document in retriever.retrieve(QUESTION)}
    assert by_id["zebra"]["source_path"] == ["ada", "zebra"]
    assert by_id["zebra"]["hops"] == 1


async def test_edges_between_the_stores_ids_are_traversed(store, kind):
    """Without Documents, edges between the store's ids are traversed."""
    if kind in CLOSED:
        pytest.skip("this store does not return ids")
    id_of_text = {document.page_content: document.id for document in HybridRetriever(store).invoke(QUESTION)}
    source, target = id_of_text[TEXTS["ada"]], id_of_text[TEXTS["zebra"]]
    retriever = GraphRetriever(store, edges=[Edge(source, target, "references")], graph=ONE_HOP)
    paths = {document.id: document.metadata["source_path"] for document in await retriever.aretrieve(QUESTION)}
    assert paths[target] == [source, target]


# -- keyword retrievers whose Documents are not known in advance ---------------------------------------------------


def test_equal_texts_of_different_sources_are_two_hits():
    """A given Document is not matched to a stored text with another source."""
    sources = [{"source": "a.md"}, {"source": "b.md"}]
    store = InMemoryVectorStore.from_texts([TEXTS["ada"]] * 2, Fixed(), sources)
    user_documents = [Document(id=d["source"], page_content=TEXTS["ada"], metadata=d) for d in sources]
    for side in SIDES.values():
        result = HybridRetriever(store, **side(user_documents)).retrieve(QUESTION)
        assert {document.id: document.metadata["source"] for document in result} == {"a.md": "a.md", "b.md": "b.md"}
        assert [document.metadata["retrieval_source"] for document in result] == ["fused", "fused"]


# -- parents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["in the store", "among the documents"])
def test_a_child_is_replaced_by_its_parent(kind, folder, where):
    """A child is replaced by the parent that ``parent_id`` names, in the store or among the documents."""
    if kind in CLOSED and where == "in the store":
        pytest.skip("this store cannot list its texts")
    make, options = STORES[kind]
    children = ["ada", "engine"]
    there = list(TEXTS) if where == "in the store" else children
    user_documents = [Document(id=id, page_content=TEXTS[id], metadata={"parent_id": "zebra"}) for id in children]
    parent = Document(id="zebra", page_content=TEXTS["zebra"])
    store = make([TEXTS[id] for id in there], folder, **options)
    result = HybridRetriever(store, [*user_documents, parent]).retrieve(QUESTION)
    assert (ids(result), result.degraded) == (["zebra"], ("no-cosine",) if kind in CLOSED else ())
    assert result[0].metadata["chunk_id"] == "ada"
    assert len(HybridRetriever(store, [*user_documents, parent], return_parents=False).invoke(QUESTION)) == len(there)
    close(store)


def test_metadata_that_only_the_documents_have(store):
    """Filters use metadata that only the given Documents have, for vector hits and keyword hits."""
    user_documents = [Document(id=d.id, page_content=d.page_content, metadata={"kind": d.id}) for d in documents()]
    for options in ({"semantic_weight": 1.0}, {"keyword_weight": 1.0}, {}):
        result = HybridRetriever(store, user_documents).invoke(QUESTION, filter={"kind": "ada"}, **options)
        assert [(document.id, document.metadata["kind"]) for document in result] == [("ada", "ada")]


# -- diversity ---------------------------------------------------------------------------------------------------


def test_diversity_is_measured_with_the_stores_vectors(store, kind):
    """MMR uses the vectors of every store that returns them."""
    if kind in {*CLOSED, "llama_index"}:
        pytest.skip("this store returns no vectors")
    plain = ids(HybridRetriever(store, documents(), k=2, selection={"mmr_lambda": 1.0}).invoke(QUESTION))
    spread = ids(HybridRetriever(store, documents(), k=2, selection={"mmr_lambda": 0.0}).invoke(QUESTION))
    assert (plain, spread) == (["ada", "engine"], ["ada", "zebra"])
