"""Errors for strings passed instead of Documents."""

import asyncio
import re
from pathlib import Path

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.adapters.documents import annotate
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Hit

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
    """The error for strings instead of Documents contains the value, the expected type and how to create it."""
    with HybridGraphStore(None, "lsa") as store:
        with pytest.raises(ConfigurationError, match=r"(?s)Documents.*str|'The cat|Documents.*The cat") as raised:
            CALLS[call](store, texts)
        assert "Document(" in str(raised.value) or "[document]" in str(raised.value)
        assert not len(store)


@pytest.mark.parametrize("call", [*CALLS, "texts", "supersede"])
def test_an_empty_id_is_refused(call):
    """An empty string as an id raises ValueError and writes nothing."""
    with HybridGraphStore() as store:
        store.add_texts(["Cats purr."], ids=["cat"])
        nameless = [Document("Dogs bark.", id="")]
        calls = CALLS | {
            "texts": lambda store, documents: store.add_texts([documents[0].page_content], ids=[""]),
            "supersede": lambda store, documents: store.memory.supersede("cat", documents[0]),
        }
        with pytest.raises(ValueError, match=r"empty id|id must not be empty"):
            calls[call](store, nameless)
        assert len(store) == 1


def test_labels_of_a_memory_are_a_string_or_a_list():
    """Labels of a memory that are neither a string nor a list raise ValueError."""
    with HybridGraphStore() as store:
        for write in (store.memory.remember, lambda memories: store.memory.supersede("old", memories[0])):
            store.add_texts(["Ada lives in Paris."], ids=["old"])
            with pytest.raises(ValueError, match=r"labels: 3 is not a list of strings; write \[3\]"):
                write([Document("Ada lives in Rome.", metadata={"labels": 3})])
        assert len(store) == 1


def test_a_string_is_the_label_of_a_hit():
    """If the labels in the metadata are a string, ``label`` is this string."""
    (document,) = annotate([Hit(Chunk("a", "Cats purr.", {"labels": "cat"}), 0.5, "vector", {"vector": 0.5})], "vector")
    assert document.metadata["label"] == "cat"


def test_the_added_metadata_are_documented():
    """docs/results.md lists every key that ``annotate="all"`` adds, and no other one."""
    page = Path(__file__).parents[2].joinpath("docs", "results.md").read_text(encoding="utf-8")
    table = page.partition("## Metadata")[2].partition("\n## ")[0]
    documented = [key for row in re.findall(r"(?m)^\| (`.*?) \|", table) for key in re.findall(r"`(\w+)`", row)]
    chunk = Chunk("a", "Cats purr.", {"labels": ["cat"]})
    (document,) = annotate([Hit(chunk, 0.5, "vector", {"vector": 0.5})], "vector", degraded=["keyword-failed"])
    assert sorted(documented) == sorted(document.metadata.keys() - chunk.metadata.keys())
