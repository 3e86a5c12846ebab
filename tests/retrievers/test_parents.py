"""Parents named in the metadata, on every store."""

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.migration import migrate
from langchain_hybridgraph.records import Scope
from tests.support.samples.clock import PATIENCE
from tests.support.stores.document_stores import DOCUMENT_STORES
from tests.support.stores.words import Words

PARENT = Document("The boiler of the machine, in full.", id="machine", metadata={"owner": "bob"})
CHILD = Document("Descale the boiler in spring.", id="spring", metadata={"owner": "ada", "parent_id": "machine"})
OTHER = Document("Roses need pruning.", id="roses", metadata={"owner": "ada"})
QUESTION = "Descale the boiler"


@pytest.fixture(params=DOCUMENT_STORES)
def store(request, tmp_path):
    """Return a store of each kind that contains one text."""
    opened = DOCUMENT_STORES[request.param]([OTHER], tmp_path)
    yield opened
    if hasattr(opened, "close"):
        opened.close()


def ids_of_hits(store, **options):
    hits = HybridRetriever(store).retrieve(QUESTION, **options).hits
    return [(hit.id, None if hit.child is None else hit.child.id) for hit in hits if hit.id != "roses"]


@pytest.mark.parametrize("batches", [[[PARENT, CHILD]], [[CHILD], [PARENT]], [[PARENT], [CHILD]]])
def test_a_parent_in_the_metadata_replaces_its_child(store, batches):
    """A Document with ``parent_id`` in its metadata is replaced by its parent, whichever of them was added first."""
    for batch in batches:
        store.add_documents(batch)
    assert ids_of_hits(store) == [("machine", "spring")]


def test_a_parent_that_fails_the_filter_is_not_returned(store):
    """If the parent does not pass the filter of the call, the child is returned, and nothing is reported."""
    store.add_documents([PARENT, CHILD])
    result = HybridRetriever(store).retrieve(QUESTION, filter={"owner": "ada"})
    assert [document.id for document in result if document.id != "roses"] == ["spring"]
    assert "parents-failed" not in result.degraded


def test_the_child_of_a_missing_parent_is_returned(store):
    """A child whose parent is not in the store is returned with the reason parents-failed."""
    store.add_documents([CHILD])
    result = HybridRetriever(store).retrieve(QUESTION)
    assert (result[0].id, "parents-failed" in result.degraded) == ("spring", True)


def test_the_child_of_a_parent_that_is_not_valid_is_returned(store):
    """If the parent is not valid at the time of the call, its child is returned."""
    store.add_documents([PARENT.model_copy(update={"metadata": {"valid_until": "2021-01-01T00:00:00Z"}}), CHILD])
    assert ids_of_hits(store, as_of="2022-01-01") == [("spring", None)]
    assert ids_of_hits(store, as_of="2020-01-01") == [("machine", "spring")]


def test_a_parent_of_another_tenant_is_not_returned(tmp_path):
    """In another library's store, a parent of another tenant does not replace its child."""
    texts = [
        text.model_copy(update={"metadata": {**text.metadata, "tenant": tenant}})
        for text, tenant in ((PARENT, "north"), (CHILD, "south"))
    ]
    assert ids_of_hits(InMemoryVectorStore.from_documents(texts, Words()), tenant="south") == [("spring", None)]


def test_a_copy_of_a_store_keeps_its_parents(tmp_path):
    """A folder that is copied to Milvus gives the same hits, whether parents are Documents or were split."""
    pytest.importorskip("milvus_lite")
    from langchain_hybridgraph import MilvusStore

    with HybridGraphStore.from_documents([OTHER, PARENT, CHILD], Words(), path=tmp_path / "index") as store:
        ingest([Document("Warm the cups. " * 400, id="cups")], store, split="parent_child")
        assert len(store.read_parents(["machine"], Scope())) == 1
    migrate(tmp_path / "index", f"milvus:{tmp_path / 'lite.db'}")
    with MilvusStore(f"milvus:{tmp_path / 'lite.db'}", Words(), timeout=PATIENCE) as copy:
        assert ids_of_hits(copy)[0] == ("machine", "spring")
        assert all(hit.child is not None for hit in HybridRetriever(copy, k=1).retrieve("Warm the cups").hits)
