"""Stores with embeddings for tests; the only module of the tests that knows how a store is put together."""

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.stores.index import IndexSettings
from langchain_hybridgraph.stores.store import EmbeddedStore
from tests.support.stores.suite import HashedWords


class Words(HashedWords, Embeddings):
    """HashedWords with LangChain's interface."""


def open_words(path=None, **options):
    """Open a store at this path, or in memory, whose embedding counts words."""
    return HybridGraphStore(path, Words(), **options)


def open_named(path, embedding, name, **options):
    """Open a store whose embedding has this name; ``load`` reads an embedding that was fitted to the texts."""
    return EmbeddedStore(IndexSettings(path=path, embedding=embedding, name=name, **options))
