"""The suite for stores skips tests of features that a store lacks; HashedWords, its embedding."""

import pytest

from langchain_hybridgraph.stores.graph import InMemoryGraph
from tests.support.stores.suite import HashedWords, StoreSuite


def test_a_declared_lack_skips_with_its_reason():
    """The skip message contains the store, the missing feature and the reason."""
    store = InMemoryGraph()
    store.lacks = {"tenants": "It has edges only."}
    with pytest.raises(pytest.skip.Exception, match=r"InMemoryGraph lacks tenants: It has edges only\."):
        StoreSuite()._require("tenants", store)


def test_a_feature_that_is_not_declared_is_tested():
    """A store without declarations is expected to have every feature."""
    store = InMemoryGraph()
    assert StoreSuite()._require("tenants", store) is store


def test_shared_words_make_texts_similar():
    """The order and case of words do not change a vector, and a text without words has a vector of zeros."""
    embedding = HashedWords()
    assert embedding.embed_query("the Cat") == embedding.embed_query("cat the")
    assert sum(embedding.embed_query("one two two")) == 3.0
    assert embedding.embed_query("") == [0.0] * 64


def test_embedded_documents_are_listed():
    """The texts embedded as documents are listed in order; queries are not."""
    embedding = HashedWords()
    embedding.embed_documents(["b", "a"])
    embedding.embed_query("c")
    embedding.embed_documents(["d"])
    assert embedding.texts == ["b", "a", "d"]
