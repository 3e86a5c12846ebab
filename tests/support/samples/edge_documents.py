"""Documents for the tests of edge builders, and the stores that result from them."""

from functools import partial

from langchain_core.documents import Document

from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter
from tests.support.stores.memory_store import MemoryStore

ingest = partial(ingest_documents, split=RecursiveSplitter(join_sections=False))  # each section is a chunk


def page(text, source, id=None, **metadata):
    return Document(page_content=text, metadata={"source": source, "uri": source, **metadata}, id=id)


def stored(documents, edges, store=None, **options):
    """Return the store, by default a new MemoryStore, after ingesting the documents with these edge builders."""
    store = store or MemoryStore()
    ingest(documents, store, edges=edges, **options)
    return store
