"""Upsert requests that are filled column by column."""

from unittest.mock import patch

import pytest

from langchain_hybridgraph import Edge
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.stores.milvus import write
from langchain_hybridgraph.stores.milvus.schema import upsert_request
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.stores.milvus_calls import WordEmbeddings

pytest.importorskip("pymilvus")

METADATA = {"n": 1, "labels": ["a", "b"], "nested": {"deep": None}, "text": "Ünïcödé \u2028 \x00", "flag": True}


def test_requests_equal_those_of_pymilvus(tmp_path):
    """The requests for chunks, parents and edges equal the ones pymilvus makes."""
    from pymilvus.client.prepare import Prepare

    requests = []

    def recorded(collection, rows, kinds):
        request = upsert_request(collection, rows, kinds)
        requests.append((collection, [dict(row) for row in rows], request))
        return request

    store = MilvusStore(f"milvus:{tmp_path / 'lite.db'}", WordEmbeddings())
    chunks = [Chunk("a", "Ein Fluß, the 数据", METADATA), Chunk("b", "", {}, parent_id="p")]
    with patch.object(write, "upsert_request", recorded):
        store.upsert(chunks, parents=[Chunk("p", "parent")], edges=[Edge("a", "b", "cites", 0.5)])
    assert [collection for collection, *_ in requests] == [
        "hybridgraph_parents",
        "hybridgraph_chunks",
        "hybridgraph_edges",
    ]
    for collection, rows, request in requests:
        described = store._index.connection.call("describe_collection", collection_name=collection)
        plain = [{name: getattr(value, "tolist", lambda v=value: v)() for name, value in row.items()} for row in rows]
        assert request == Prepare.row_upsert_param(collection, plain, "", described["fields"])
    assert store.get(["a"])[0].metadata == METADATA


@pytest.mark.parametrize("count", [1, 31, 32, 127, 128, 4_097])
def test_a_vector_of_any_length_arrives(count):
    """Vectors whose length needs one, two or three bytes are encoded correctly."""
    import numpy as np

    vector = np.arange(count, dtype=np.float32)
    request = upsert_request("c", [{"vector": vector}], {"vector": "FLOAT_VECTOR"})
    assert list(request.fields_data[0].vectors.float_vector.data) == vector.tolist()
    assert request.fields_data[0].vectors.dim == count


def test_a_field_of_another_type_is_refused():
    """A field type that the package does not support raises a TypeError."""
    with pytest.raises(TypeError, match="INT8"):
        upsert_request("c", [{"n": 1}], {"n": "INT8"})
