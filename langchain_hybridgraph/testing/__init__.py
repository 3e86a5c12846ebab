"""Test suite for stores.

To test a store, subclass the suite in a test file:

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self):
            return MyStore(embedding=self.embedding)

A store that lacks a feature in ``stores.features`` declares it in its attribute ``lacks``, and the suite skips the
tests of that feature. A test fails if a protocol is missing without a declaration. The suite requires pytest.
"""

from __future__ import annotations

from langchain_hybridgraph.testing.embedding import HashedWords
from langchain_hybridgraph.testing.suite import StoreSuite

__all__ = ["HashedWords", "StoreSuite"]
