"""HashedWords, the embedding of the store suite."""

from langchain_hybridgraph.testing import HashedWords


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
