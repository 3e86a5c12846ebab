"""Stores with embeddings for tests; the only module of the tests that knows how a store is put together."""

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import EdgeFilter, Query, Scope
from langchain_hybridgraph.stores.index import IndexSettings
from langchain_hybridgraph.stores.store import EmbeddedStore
from langchain_hybridgraph.stores.vectors import unit
from tests.support.stores.suite import HashedWords


class Words(HashedWords, Embeddings):
    """HashedWords with LangChain's interface."""


def open_words(path=None, **options):
    """Open a store at this path, or in memory, whose embedding counts words."""
    return HybridGraphStore(path, Words(), **options)


def open_named(path, embedding, name, **options):
    """Open a store whose embedding has this name; ``load`` reads an embedding that was fitted to the texts."""
    return EmbeddedStore(IndexSettings(path=path, embedding=embedding, name=name, **options))


def chunk(id, text=None, **metadata):
    """Return a chunk, whose text is "text of" its id by default."""
    return Chunk(id, text or f"text of {id}", metadata)


def ids_by_vector(store, text, k=10_000, **scope):
    """Return the ids that a vector search finds, nearest first."""
    return list(store.vector_search(Query(text, k, Scope(**scope)), k).ids)


def ids_by_word(store, text, k=10_000, **scope):
    """Return the ids that a keyword search finds, best first."""
    return list(store.keyword_search(Query(text, k, Scope(**scope)), k).ids)


def has_own_vectors(store, texts):
    """Return whether the stored vector of each id is that of its text."""
    vectors = unit(store.embedding.embed_documents(list(texts.values())))
    return abs(store.vectors(list(texts)) - vectors).max() < 1e-5


def everywhere(store, hidden=("a", "b", "c", "new", "old"), **times):
    """Return the ids that every search for "text" and every read finds, after asserting that all agree.

    ``hidden`` are ids that may be in the store and out of scope.
    """
    scope = Scope(tenant=store.tenant, **times)
    ids = set(store.find(scope))
    looked_up = sorted({*ids, *hidden})
    nodes = store.scoped_graph(scope, EdgeFilter()).nodes(looked_up).tolist()
    assert {
        "vectors": set(ids_by_vector(store, "text", tenant=store.tenant, **times)),
        "words": set(ids_by_word(store, "text", tenant=store.tenant, **times)),
        "graph": {id for id, node in zip(looked_up, nodes, strict=True) if node >= 0},
        "reads": set(store.read(looked_up, scope, {})),
    } == dict.fromkeys(("vectors", "words", "graph", "reads"), ids)
    return ids
