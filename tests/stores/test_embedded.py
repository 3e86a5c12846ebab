"""The embedded store: one folder (or none), one truth, three indexes beside it."""

import pytest

from langchain_hybridgraph.stores.embedded import EmbeddedStore
from langchain_hybridgraph.testing import StoreSuite


class TestOnDisk(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path):
        store = EmbeddedStore(tmp_path / "index", embedding=self.embedding, name="words")
        yield store
        store.close()


class TestInMemory(StoreSuite):
    @pytest.fixture
    def store(self):
        store = EmbeddedStore(None, embedding=self.embedding, name="words")
        yield store
        store.close()
