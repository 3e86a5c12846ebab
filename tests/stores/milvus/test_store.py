"""Milvus store run through the common store suite."""

import itertools
from contextlib import closing, contextmanager

import pytest

from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from tests.support.samples.clock import PATIENCE
from tests.support.stores.suite import StoreSuite

pytest.importorskip("milvus_lite")

numbers = itertools.count()


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    return f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}"


class TestMilvus(StoreSuite):
    @pytest.fixture
    def store(self, uri):
        store = MilvusChunkStore(uri, self.embedding, timeout=PATIENCE, collection=f"c{next(numbers)}")
        yield store
        for name in store._index.names:
            store._index.connection.call("drop_collection", collection_name=name)

    @pytest.fixture
    def open_tenant(self, uri):
        name = f"c{next(numbers)}"

        @contextmanager
        def open_tenant(tenant):
            yield MilvusChunkStore(uri, self.embedding, timeout=PATIENCE, collection=name, tenant=tenant)

        return open_tenant

    @pytest.fixture
    def open_again(self, uri, store):
        name = store._index.names.chunks.removesuffix("_chunks")
        return lambda: closing(MilvusChunkStore(uri, self.embedding, timeout=PATIENCE, collection=name))
