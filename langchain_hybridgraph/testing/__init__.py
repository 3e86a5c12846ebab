"""Test suite for stores.

To test a store, subclass the suite in a test file:

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self):
            return MyStore(embedding=self.embedding)

``stores.features`` lists all features and their protocols. If a store lacks features, the store's attribute ``lacks``
must map the name of each missing feature to the reason. The suite skips the tests of missing features. It checks that
the store implements the protocols of all other features, and none of those of the missing features. The suite requires
pytest.
"""

from __future__ import annotations

from langchain_hybridgraph.testing.embedding import HashedWords
from langchain_hybridgraph.testing.suite import StoreSuite

__all__ = ["HashedWords", "StoreSuite"]
