"""Milvus store run through the common store suite."""

import itertools
from contextlib import closing, contextmanager

import pytest

from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from tests.support.stores.suite import StoreSuite

pytest.importorskip("milvus_lite")

numbers = itertools.count()


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    return f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}"


class TestMilvus(StoreSuite):
    @pytest.fixture
    def store(self, uri):
        store = MilvusChunkStore(uri, embedding=self.embedding, name="hashed words", collection=f"c{next(numbers)}")
        yield store
        for name in store._index.names:
            store._index.connection.call("drop_collection", collection_name=name)

    @pytest.fixture
    def open_tenant(self, uri):
        name = f"c{next(numbers)}"

        @contextmanager
        def open_tenant(tenant):
            yield MilvusChunkStore(uri, embedding=self.embedding, name="hashed words", collection=name, tenant=tenant)

        return open_tenant

    @pytest.fixture
    def open_again(self, uri, store):
        name = store._index.names.chunks.removesuffix("_chunks")
        return lambda: closing(MilvusChunkStore(uri, embedding=self.embedding, name="hashed words", collection=name))


@pytest.mark.parametrize(
    ("part", "name", "advice"),
    [
        ("memory", "remember", "keep memories in a HybridGraphStore"),
        ("memory", "retract", "keep memories in a HybridGraphStore"),
        ("sessions", "add", "write each turn as a chunk"),
        (None, "admin", "Milvus' own tools"),
        (None, "files", "ingest reads all files"),
    ],
)
def test_missing_parts_name_alternatives(uri, part, name, advice):
    """Each missing part says what to do instead, and is missing for hasattr."""
    store = MilvusChunkStore(uri, embedding=StoreSuite.embedding, name="hashed words", collection="lacking")
    owner = store if part is None else getattr(store, part)
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=f"a store in Milvus has no .*{name}: .*{advice}"):
        getattr(owner, name)


def test_an_unknown_attribute_is_an_ordinary_error(uri):
    """Anything else is reported as Python does."""
    store = MilvusChunkStore(uri, embedding=StoreSuite.embedding, name="hashed words", collection="lacking")
    with pytest.raises(AttributeError, match="'MilvusChunkStore' object has no attribute 'nonsense'"):
        store.nonsense  # noqa: B018
