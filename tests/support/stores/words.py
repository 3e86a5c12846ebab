"""Stores whose embedding counts words, for tests that need no trained model."""

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.testing import HashedWords


class Words(HashedWords, Embeddings):
    """HashedWords with LangChain's interface."""


def opened(path=None, **options):
    """Open a store at this path, or in memory."""
    return HybridGraphStore(path, Words(), **options)
