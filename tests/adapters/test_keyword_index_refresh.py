"""Updates of the keyword index over another vector store."""

import os
import signal
import threading
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import GraphRetriever, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.adapters.vector_stores import InMemoryAdapter
from langchain_hybridgraph.errors import ConfigurationError
from tests.support.samples.document_lists import texts
from tests.support.stores.bare_store import BareStore
from tests.support.stores.real_stores import QUESTION, STORES, TEXTS, Fixed, close, documents

LATER = "Quokkas smile at visitors."
LISTABLE = ["chroma", "faiss l2", "qdrant", "milvus cosine", "in memory", "llama_index"]  # one of each kind


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(params=LISTABLE)
def store(request, folder):
    make, options = STORES[request.param]
    vector_store = make(list(TEXTS.values()), folder, **options)
    yield vector_store
    close(vector_store)


def add(store, text):
    """Add a text in the way that the store requires and return its id there."""
    if hasattr(store, "index") and hasattr(store, "nodes"):
        from llama_index.core.schema import TextNode

        node = TextNode(text=text)
        store.index.insert_nodes([node])
        return node.node_id
    options = {"ids": ["later"]} if type(store).__name__ == "Milvus" and not store.auto_id else {}
    id = str(store.add_texts([text], **options)[0])
    # langchain-qdrant returns a UUID without its hyphens.
    return str(UUID(id)) if type(store).__name__ == "QdrantVectorStore" else id


def delete(store, id):
    if hasattr(store, "index") and hasattr(store, "nodes"):
        store.index.delete_nodes([id])
    else:
        store.delete([int(id)] if type(store).__name__ == "Milvus" and store.auto_id else [id])


def by_words(retriever, question="quokkas"):
    return retriever.retrieve(question, keyword_weight=1.0)


# -- over every store --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user_documents", [None, documents()], ids=["store alone", "documents given"])
def test_later_texts_are_found_by_their_words(store, user_documents):
    """Keyword search finds a text added after construction, and no longer finds it after its deletion."""
    retriever = HybridRetriever(store, user_documents)
    assert texts(by_words(retriever)) == []
    id = add(store, LATER)
    result = by_words(retriever)
    assert (texts(result), result.degraded) == ([LATER], ())
    assert result[0].id == id
    delete(store, id)
    assert texts(by_words(retriever)) == []
    assert LATER not in texts(retriever.invoke(QUESTION))


def test_refresh_never_reports_a_stale_index(store):
    """With refresh="never", the index changes only on refresh(), and results report keyword-stale until then."""
    retriever = HybridRetriever(store, documents(), index={"refresh": "never"})
    assert by_words(retriever).degraded == ()
    add(store, LATER)
    result = by_words(retriever)
    assert (texts(result), result.degraded) == ([], ("keyword-stale",))
    assert "refresh()" in result.plan["remarks"]["keyword-stale"]
    assert retriever.refresh() == (1, 0, 0)
    result = by_words(retriever)
    assert (texts(result), result.degraded) == ([LATER], ())


# -- settings ----------------------------------------------------------------------------------------------------


@pytest.fixture
def plain():
    return InMemoryVectorStore.from_documents(documents(), Fixed())


def test_the_interval_between_two_checks(plain):
    """With refresh=3600, new texts are not found within an hour of the last check, unless refresh() is called."""
    retriever = HybridRetriever(plain, index={"refresh": 3600})
    assert texts(by_words(retriever)) == []
    plain.add_texts([LATER])
    assert texts(by_words(retriever)) == []
    assert retriever.refresh().added == 1
    assert texts(by_words(retriever)) == [LATER]


def test_a_changed_text_needs_a_refresh(plain):
    """A changed text is found by its new words only after refresh(), because the number of texts is the same."""
    retriever = HybridRetriever(plain)
    plain.add_documents([Document(id="zebra", page_content=LATER)])
    assert texts(by_words(retriever)) == []
    assert retriever.refresh() == (0, 1, 0)
    assert texts(by_words(retriever)) == [LATER]
    assert texts(by_words(retriever, "stripes")) == []


# -- which texts are added -----------------------------------------------------------------------------------------


def test_given_documents_are_not_extended(plain):
    """If documents are passed, other texts that were already in the store are not added to the index."""
    retriever = HybridRetriever(plain, documents()[:1])
    plain.add_texts([LATER])
    assert texts(by_words(retriever, "stripes quokkas")) == [LATER]


@pytest.fixture
def unlistable():
    """Return a collection that can be searched, but fails when its texts are listed."""
    from langchain_chroma import Chroma

    class Unlistable(Chroma):
        fails = False

        def get(self, *args, **options):
            if self.fails:
                raise ConnectionError("refused")
            return super().get(*args, **options)

    store = Unlistable("unlistable", Fixed(), collection_metadata={"hnsw:space": "cosine"})
    store.add_documents(documents())
    store.fails = True
    yield store
    store.delete_collection()


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, MemoryRetriever])
def test_a_store_that_fails_at_construction_is_searched_by_vector(unlistable, kind):
    """If the texts cannot be listed at construction, the vector search answers, and the result says why."""
    with pytest.warns(UserWarning, match=r"could not be listed \(ConnectionError: refused\).*documents=\[…\]"):
        retriever = kind(unlistable, k=2)
    result = retriever.retrieve("stripes")
    assert len(result) == 2
    assert {hit.source for hit in result.hits} == {"vector"}
    assert "no-keyword-index" in result.degraded
    assert "refused" in result.plan["remarks"]["no-keyword-index"]


def test_a_store_that_failed_at_construction_is_read_later(unlistable):
    """Once the store can be listed, the next search finds its texts by keyword and is no longer degraded."""
    with pytest.warns(UserWarning, match="could not be listed"):
        retriever = HybridRetriever(unlistable)
    unlistable.fails = False
    result = by_words(retriever, "stripes")
    assert (texts(result), result.degraded) == ([TEXTS["zebra"]], ())
    unlistable.add_texts([LATER])
    assert texts(by_words(retriever)) == [LATER]


def test_a_store_that_cannot_be_read_now_is_tried_again(unlistable):
    """If new texts cannot be read, the result reports keyword-stale, and the next search reads them again."""
    unlistable.fails = False
    retriever = HybridRetriever(unlistable)
    unlistable.add_texts([LATER])
    unlistable.fails = True
    result = by_words(retriever, "quokkas stripes")
    assert "refused" in result.plan["remarks"]["keyword-stale"]
    unlistable.fails = False
    result = by_words(retriever, "quokkas")
    assert (texts(result), result.degraded) == ([LATER], ())


# -- stores that cannot be listed ----------------------------------------------------------------------------------


def test_a_store_that_cannot_be_listed_takes_documents():
    """In a store that cannot be listed, refresh(documents) replaces the documents passed before."""
    store = BareStore(documents(), Fixed())
    retriever = HybridRetriever(store, documents())
    with pytest.raises(ConfigurationError, match=r"refresh\(documents\)"):
        retriever.refresh()
    later = Document(id="later", page_content=LATER)
    store.add_documents([later])
    changed = Document(id="ada", page_content="Ada was a countess.")
    new_page = documents()[1].model_copy(update={"metadata": {"page": 2}})
    assert retriever.refresh([changed, new_page, later]) == (1, 2, 1)
    assert [document.id for document in by_words(retriever)] == ["later"]
    assert [document.id for document in by_words(retriever, "countess")] == ["ada"]
    assert texts(by_words(retriever, "stripes")) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_child_is_not_blocked_by_a_thread_of_its_parent(monkeypatch):
    """A child process forked while a thread reads the store can search."""
    texts = InMemoryVectorStore.from_texts(["a cat sat"], Fixed())
    retriever = HybridRetriever(texts, k=2)
    texts.add_texts(["dogs bark"])
    is_reading, may_go_on, listing_adapter = threading.Event(), threading.Event(), InMemoryAdapter.ids

    def slowly(self):
        if os.getpid() == parent:
            is_reading.set()
            assert may_go_on.wait(60)
        return listing_adapter(self)

    parent = os.getpid()
    monkeypatch.setattr(InMemoryAdapter, "ids", slowly)
    thread = threading.Thread(target=retriever.invoke, args=("dogs",))
    thread.start()
    assert is_reading.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(30)  # a child that hangs ends by a signal
        os._exit(len(retriever.invoke("dogs")))
    may_go_on.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
