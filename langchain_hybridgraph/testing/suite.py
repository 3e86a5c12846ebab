"""Complete test suite for stores."""

from __future__ import annotations

from langchain_hybridgraph.testing.graph import GraphTests
from langchain_hybridgraph.testing.memory import MemoryTests
from langchain_hybridgraph.testing.reading import ReadingTests
from langchain_hybridgraph.testing.search import SearchTests
from langchain_hybridgraph.testing.tenants import TenantTests
from langchain_hybridgraph.testing.writing import WritingTests


class StoreSuite(ReadingTests, SearchTests, GraphTests, WritingTests, MemoryTests, TenantTests):
    """Tests that every store must pass.

    To test a store, subclass this class, set ``embedding`` to the store's embedding, and define the fixture ``store``,
    which returns an empty store. Override :meth:`fill` if the store is not filled by ``upsert``, the fixture
    ``open_tenant`` if the store has tenants, and the fixture ``open_again`` if several processes can write to it.
    """
