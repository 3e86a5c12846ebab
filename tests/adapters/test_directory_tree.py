"""HierarchicalRetriever over other vector stores whose texts can be listed."""

import random
import threading

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HierarchicalRetriever, HybridGraphStore
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.fusion import ConvexCombination
from tests.support.samples.clock import PATIENCE, make_late
from tests.support.stores.bare_store import BareStore
from tests.support.stores.real_stores import FAISS

TOPICS = {
    "pets": "cats purr and dogs bark at the parrot",
    "cars": "a roadster is a fast car with an engine",
    "food/soup": "the soup needs salt and a carrot",
    "food/bread": "bread needs flour and an oven",
    "skills/agent": "install the oven before baking bread",
}


WORDS = [f"{first}{second}" for first in "blrmkst" for second in ("ano", "ine", "oru", "uke", "eda", "ito")]


def documents():
    """Return forty documents of two chunks each in five directories, one of them nested."""
    dice = random.Random(3)  # words that make every text another
    return [
        Document(
            f"{text} {' '.join(dice.choices(WORDS, k=9))} thing{n}x{part}",
            id=f"{directory}/{n}#{part}",
            metadata={"uri": f"{directory}/{n}.md", "chunk_index": part, "year": 2020 + n}
            | ({"context_type": "skill"} if directory.startswith("skills") else {}),
        )
        for directory, text in TOPICS.items()
        for n in range(8)
        for part in range(2)
    ]


def embedding():
    return LSAEmbeddings().fit([document.page_content for document in documents()])


KINDS = ["cosine", "l2", "FAISS", "InMemoryVectorStore"]


@pytest.fixture(scope="module", params=KINDS)
def retriever_over_store(request, tmp_path_factory):
    """Return a retriever over a vector store of another package."""
    settings = {"k": 6, "fusion": ConvexCombination("bound"), "semantic_weight": 0.5}
    if request.param == "FAISS":
        return HierarchicalRetriever(FAISS.from_documents(documents(), embedding()), **settings)
    if request.param == "InMemoryVectorStore":
        return HierarchicalRetriever(InMemoryVectorStore.from_documents(documents(), embedding()), **settings)
    folder = str(tmp_path_factory.mktemp(request.param))
    configuration = {"hnsw": {"space": request.param, "ef_search": 400}}  # the nearest are found, not approximated
    store = Chroma.from_documents(
        documents(), embedding(), persist_directory=folder, collection_configuration=configuration
    )
    return HierarchicalRetriever(store, **settings)


@pytest.fixture(scope="module")
def own():
    with HybridGraphStore(None, embedding()) as store:
        store.add_documents(documents())
        yield HierarchicalRetriever(store, k=6, fusion=ConvexCombination("bound"), semantic_weight=0.5)


def contents(result):
    return [(context.uri, context.context_type, context.is_leaf, context.abstract) for context in result]


QUESTIONS = ["Which pets purr?", "thing3x1", "bread in the oven", "a fast engine", "salt"]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "options", [{}, {"target_uri": "food"}, {"filter": {"year": {"$gte": 2024}}}, {"k": 12}]
)  # beyond, cosines differ by rounding only
def test_results_equal_those_of_the_embedded_store(retriever_over_store, own, question, options):
    """Any store with the same texts and embedding gives the same documents, in the same order, as the package's
    store.
    """
    result, expected = retriever_over_store.find(question, **options), own.find(question, **options)
    assert contents(result) == contents(expected)
    assert [each.score for each in result] == pytest.approx([each.score for each in expected], abs=1e-5)
    assert result.degraded == expected.degraded
    assert "no-layers" in result.degraded


def test_texts_added_and_deleted_later(tmp_path):
    """Texts that were added or deleted in the vector store appear in or disappear from the tree at the next search."""
    store = Chroma.from_documents(documents(), embedding(), persist_directory=str(tmp_path))
    retriever = HierarchicalRetriever(store, k=3)
    retriever.find("zebra")
    store.add_documents([Document("a zebra with stripes", id="z", metadata={"uri": "zoo/zebra.md"})])
    assert retriever.find("zebra", target_uri="zoo").contexts[0].uri == "zoo/zebra.md"
    store.delete(["z"])
    with pytest.raises(ConfigurationError, match="there is nothing under 'zoo' in the scope of this call"):
        retriever.find("zebra", target_uri="zoo")


def test_a_wide_directory_is_not_read_in_full(tmp_path, monkeypatch):
    """In a directory of 1,200 documents, fewer than 900 are read because only those near the query are compared."""
    from chromadb.api.models.Collection import Collection

    many = [Document(f"note {n} about thing{n}", id=f"d{n}") for n in range(1_200)]
    model = LSAEmbeddings().fit([document.page_content for document in many])
    retriever = HierarchicalRetriever(Chroma.from_documents(many, model, persist_directory=str(tmp_path)), k=3)
    retriever.find("thing7")
    read, get = [], Collection.get

    def watched(self, *args, **options):
        result = get(self, *args, **options)
        read.append(len(result["ids"]))
        return result

    monkeypatch.setattr(Collection, "get", watched)
    assert retriever.find("thing123").contexts[0].uri == "d123"
    assert sum(read) < 900


@pytest.mark.parametrize("on_error", ["degrade", "empty"])
async def test_a_tree_that_is_read_too_slowly_is_reported(on_error, monkeypatch):
    """If the tree cannot be read before the deadline, the result is empty and reports deadline-exceeded:tree."""
    make_late(monkeypatch, "tree")
    store, gate = InMemoryVectorStore.from_documents(documents()[:8], embedding()), threading.Event()
    retriever = HierarchicalRetriever(store, deadline_ms=1e5, on_error=on_error)
    monkeypatch.setattr(type(retriever.index.adapter), "scoped_tree", lambda *_: gate.wait(PATIENCE))
    try:
        for result in (retriever.retrieve("cats"), await retriever.aretrieve("cats"), retriever.find("cats")):
            assert (list(result), result.degraded) == ([], ("deadline-exceeded:tree",))
    finally:
        gate.set()


def test_given_documents_are_the_tree():
    """Over a store that cannot be listed, the tree is built from the given documents."""
    retriever = HierarchicalRetriever(BareStore(documents(), embedding(), by_id=True), documents(), k=4)
    result = retriever.find("thing3x1 soup", target_uri="food")
    assert result.contexts[0].uri == "food/soup/3.md"
    assert all(context.uri.startswith("food/") for context in result)
    assert retriever.read("food/soup/3.md").startswith("the soup needs salt")


def test_a_store_whose_texts_cannot_be_listed_is_refused():
    """A store that cannot be listed raises ConfigurationError at construction, unless documents are given."""
    with pytest.raises(ConfigurationError, match=r"BareStore cannot be listed.*documents=\["):
        HierarchicalRetriever(BareStore(documents(), embedding()))
