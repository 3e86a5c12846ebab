"""Collections that a store cannot use are refused with a reason."""

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    FormatVersionError,
    NotAnIndexError,
    TenantError,
)
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.stores.milvus_calls import WordEmbeddings

pymilvus = pytest.importorskip("pymilvus")


class WiderEmbeddings(WordEmbeddings):
    """Another model, with vectors of another length."""

    def embed_query(self, text):
        return [*super().embed_query(text), 0.0]


class OtherEmbeddings(WordEmbeddings):
    """Another model, with vectors of the same length."""


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    uri = f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}"
    MilvusStore(uri, WordEmbeddings(), collection="plain")
    MilvusStore(uri, WordEmbeddings(), collection="shared", tenant="ada")
    return uri


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"embedding": WiderEmbeddings()}, EmbeddingMismatchError, r"\(64 dimensions\), but .* \(65\) was passed"),
        ({"embedding": OtherEmbeddings()}, EmbeddingMismatchError, "made with the embedding"),
        ({"language": "german"}, ConfigurationError, "language='english', but language='german' was passed"),
        ({"tenant": "ada"}, TenantError, "made without tenants"),
        ({"collection": "shared"}, TenantError, "open it with tenant="),
        ({"collection": "a-b"}, ConfigurationError, "letters, digits and underscores, got 'a-b'"),
        ({"consistency": "strong"}, ConfigurationError, "one of Strong, Session, Bounded, Eventually"),
        ({"timeout": 0}, ConfigurationError, "seconds above 0, got 0"),
        ({"embedding": "lsa"}, ConfigurationError, "fitted to the corpus of one machine"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_another_configuration_is_refused(uri, options, error, message):
    """Invalid options, or options that differ from those of the collection, raise an error that contains the values."""
    with pytest.raises(error, match=message):
        MilvusStore(uri, **{"embedding": WordEmbeddings(), "collection": "plain"} | options)


def test_a_collection_made_by_hand_is_refused(uri):
    """A collection made by another application is refused."""
    client = MilvusStore(uri, WordEmbeddings(), collection="plain")._index.connection._client()
    client.create_collection("hand_chunks", dimension=64)
    with pytest.raises(NotAnIndexError, match=r"'hand_chunks' .* was not made by this package"):
        MilvusStore(uri, WordEmbeddings(), collection="hand")


def test_another_format_is_refused(uri):
    """A collection of a later format is refused with an error that contains both formats."""
    client = MilvusStore(uri, WordEmbeddings(), collection="plain")._index.connection._client()
    client.create_collection("later_chunks", dimension=64, properties={"hybridgraph": '{"hybridgraph": 99}'})
    with pytest.raises(FormatVersionError, match="has format 99, but this version of the package reads format 3"):
        MilvusStore(uri, WordEmbeddings(), collection="later")


@pytest.mark.parametrize(
    "uri", ["localhost:19530", "ftp://host", "milvus://[::1]:19530", "milvus://", "index", "http://host:port"]
)
def test_a_uri_that_is_not_one_is_refused(uri):
    """An invalid URI raises a ConfigurationError that shows the accepted form."""
    with pytest.raises(ConfigurationError, match="must be milvus://host:19530/database"):
        MilvusStore(uri, WordEmbeddings())


def test_a_text_that_milvus_cannot_hold_is_refused(uri):
    """A text of more than 65,535 bytes raises an error with its size, and none of the batch is written."""
    store = MilvusStore(uri, WordEmbeddings(), collection="plain")
    with pytest.raises(ValueError, match="the text of 'long' has 70,000 bytes; Milvus stores up to 65,535"):
        store.upsert([Chunk("short", "short"), Chunk("long", "x" * 70_000)])
    assert store.get(["short"]) == []
