"""Texts where Documents are wanted: the error names the fix."""

import asyncio

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.errors import ConfigurationError

CALLS = {
    "add": lambda store, texts: store.add_documents(texts),
    "aadd": lambda store, texts: asyncio.run(store.aadd_documents(texts)),
    "store": lambda store, texts: HybridGraphStore.from_documents(texts, "lsa"),
    "async store": lambda store, texts: asyncio.run(HybridGraphStore.afrom_documents(texts, "lsa")),
    "hybrid": lambda store, texts: HybridRetriever.from_documents(texts, "lsa"),
    "graph": lambda store, texts: GraphRetriever.from_documents(texts, "lsa"),
    "ingest": lambda store, texts: ingest(texts, store),
}


@pytest.mark.parametrize("texts", [["The cat sat."], "The cat sat."], ids=["texts", "one text"])
@pytest.mark.parametrize("call", CALLS)
def test_texts_are_refused_with_the_fix(call, texts):
    """The error says what was given, what is expected, and how to make it."""
    with HybridGraphStore(None, "lsa") as store:
        with pytest.raises(ConfigurationError, match=r"(?s)Documents.*str|'The cat|Documents.*The cat") as raised:
            CALLS[call](store, texts)
        assert "Document(page_content=" in str(raised.value) or "[document]" in str(raised.value)
        assert not len(store)


def test_documents_are_taken():
    """With their ids, in a store, and one after the other."""
    with HybridGraphStore.from_documents([Document("The cat sat.", id="cat")], "lsa") as store:
        assert store.add_documents([Document("Dogs bark.", id="dog")]) == ["dog"]
        assert asyncio.run(store.aadd_documents([Document("Birds sing.", id="bird")])) == ["bird"]
        assert len(store) == 3
