"""Test suite for stores.

To test a store, subclass the suite in a test file:

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self):
            return MyStore(embedding=self.embedding)

``stores.features`` lists the features of stores. If a store lacks features, its attribute ``lacks`` maps their names to
the reasons, and the suite skips the tests of these features. A test fails if the store does not implement the protocol
of a feature that is not in ``lacks``, or implements that of a feature in ``lacks``. The suite requires pytest.
"""

from __future__ import annotations

from langchain_hybridgraph.testing.embedding import HashedWords
from langchain_hybridgraph.testing.suite import StoreSuite

__all__ = ["HashedWords", "StoreSuite"]
