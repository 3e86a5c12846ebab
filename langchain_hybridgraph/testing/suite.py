"""Complete test suite for stores."""

from __future__ import annotations

from langchain_hybridgraph.testing.graph import GraphTests
from langchain_hybridgraph.testing.memory import MemoryTests
from langchain_hybridgraph.testing.reading import ReadingTests
from langchain_hybridgraph.testing.search import SearchTests
from langchain_hybridgraph.testing.tenants import TenantTests
from langchain_hybridgraph.testing.writing import WritingTests


class StoreSuite(ReadingTests, SearchTests, GraphTests, WritingTests, MemoryTests, TenantTests):
    """Tests that every store must pass. Subclass it and define the fixture ``store``, which returns an empty store.

    ``embedding`` must be the store's embedding. Override :meth:`fill` for a store that is not filled by ``upsert``, the
    fixture ``open_tenant`` for a store with tenants, and ``open_again`` for a store to which several processes can
    write.
    """
