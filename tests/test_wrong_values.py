"""Values of wrong types in the public API: the error names the argument, the value and what is accepted."""

import asyncio
import re
from decimal import Decimal

import numpy as np
import pytest
from pydantic import ValidationError

from langchain_hybridgraph import (
    GraphRetriever,
    HybridGraphSettings,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    drop_tenant,
    ingest,
    list_tenants,
    open_store,
)
from langchain_hybridgraph.display import draw
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.filters import by_source, has_labels
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.ingestion.edges.links import LinkEdges
from langchain_hybridgraph.ingestion.edges.vectors import SimilarityEdges
from langchain_hybridgraph.migration import migrate
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.scores import HopDecay
from langchain_hybridgraph.search.traversals import BFS
from langchain_hybridgraph.vectorstores.hybrid_graph_store import configured_embedding

PATHS = {
    "path": [HybridGraphStore, open_store, list_tenants, HybridGraphSettings.from_file, read_files],
    "source": [lambda value: migrate(value, "new")],
    "destination": [lambda value: migrate("milvus:other.db", value), lambda value: migrate("milvus:old.db", value)],
}
PATHS["path"] += [lambda value: drop_tenant(value, "ada"), lambda value: read_files(["a.md", value])]


def of_call(**options):
    """Return calls of an AdvancedRetriever with these options, with and without a conversation."""

    def call(store):
        AdvancedRetriever(MemoryRetriever(store)).retrieve("and its dog?", conversation_history=["cat"], **options)

    return call


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: draw(HybridRetriever(store).invoke("cat")), "draw shows the result of retriever.retrieve"),
        (of_call(deadline_ms="x"), "deadline_ms must be a number > 0, got 'x'"),
        (of_call(session_id={}), "session_id must be a string, got {}"),
        (lambda _: has_labels(any_of=0), "any_of must be a label or a list of labels, got 0; write any_of="),
        (lambda _: has_labels(all_of={"a": 1}), "all_of must be a label or a list of labels, got {'a': 1}"),
        (lambda _: by_source("a", key=None), "the key of a filter must be a string, got None"),
        (lambda _: configured_embedding({"type": "lsa", "dims": 64}), "no parameter 'dims'; expected language"),
        (lambda _: configured_embedding({"type": "minilm", "size": 8}), "has no parameter 'size'; it takes none"),
        (lambda _: HybridGraphStore(None, "lsa", language=0), "language 0 is not known"),
        (lambda _: HybridGraphStore(None, write_timeout=float("inf")), "write_timeout must be a number from 0 to"),
        (lambda _: HybridGraphStore(""), "path must be a string or a Path that can name a file, got ''"),
        (lambda _: HybridGraphStore("a\0b"), "path must be a string or a Path that can name a file, got 'a\\x00b'"),
        (lambda _: list(read_files("a" * 5_000)), "there is no such file or folder"),
        (lambda store: store.add_texts(["a"], [5]), "metadata must be a mapping, got 5"),
        (lambda store: store.add_texts(["a"], "m"), "must be a list with an entry for each of 1 texts, got 'm'"),
        (lambda store: store.add_texts(["a"], ids={"x"}), "ids must be a list with an entry for each of 1 texts"),
        (lambda store: store.add_texts(["a"], vectors=[[1, 2], [3]]), "must be"),
        (lambda _: HopDecay(vector_weight=np.float32("inf")), "vector_weight must be a number"),
        (lambda store: HybridRetriever(store).invoke("q", ["handler"]), "got ['handler']; options are passed by name"),
        (lambda store: store.add_texts(["a"], batch_size=0), "batch_size must be an integer ≥ 1, got 0"),
        (lambda store: store.add_documents(None), "documents must be a list of LangChain Documents, got None"),
        (lambda store: store.delete({"cat": 1}), "ids must be a list of ids as strings, got {'cat': 1}"),
        (lambda store: store.get([5]), "ids must be a list of ids as strings, got [5]"),
        (lambda store: store.similarity_search(5), "query must be a string, got 5"),
        (lambda store: store.graph.prune(min_weight="x"), "min_weight must be a number from 0 to 1, got 'x'"),
        (lambda store: store.memory.supersede(5, "new"), "old_id must be a string with at least one character, got 5"),
        (lambda store: store.sessions.add("s", [], ttl="60"), "ttl (a timedelta, or seconds) must be a number > 0"),
        (lambda store: store.sessions.add("s", [], ttl=10**400), "ttl (a timedelta, or seconds) must be a number > 0"),
        (lambda store: store.sessions.add("s", None), "must be a list of messages or (role, text) pairs, got None"),
        (lambda store: store.sessions.add("s", [5]), "a turn must be a message or a (role, text) pair, got 5"),
        (lambda store: ingest([], store, edges=[LinkEdges(relation=[])]), "a relation must be a string"),
        (lambda _: BFS(relations=5), "relations must be a list of relations as strings, got 5"),
        (lambda _: HopDecay(hop_decay=[]), "hop_decay must be a list with a number per hop"),
        (lambda store: HybridRetriever(store).invoke("cat", []), "is LangChain's config, a mapping, got []"),
        (lambda store: HybridRetriever(store).batch(["cat"], {"k": 1}), "which has no 'k'"),
        (lambda store: HybridRetriever(store).batch_as_completed(["cat"], [{"filter": {}}]), "which has no 'filter'"),
        (lambda store: asyncio.run(HybridRetriever(store).abatch(["cat"], {"k": 1})), "which has no 'k'"),
        (lambda store: HybridRetriever(store).abatch_as_completed(["cat"], {"k": 1}), "which has no 'k'"),
        (lambda store: HybridRetriever(store).retrieve("q", return_scores="x"), "return_scores must be true or false"),
        (lambda store: HybridRetriever.from_settings(5, store=store), "be a HybridGraphSettings object, got 5; write"),
        (lambda _: HybridGraphStore.from_settings({}), "must be a HybridGraphSettings object, got {}; write"),
        (lambda store: AdvancedRetriever(HybridRetriever(store)).history_for([]), "session_id must be a string with"),
        (lambda store: ingest([], store, split=b"x"), "split=b'x' is not a splitter; pass 'flat'"),
        (lambda store: store.graph.prune(max_per_source=10**400), "max_per_source must be an integer from 0 to 1e+18"),
        (lambda _: SimilarityEdges(k=10**400), "k must be an integer from 1 to 1e+18, got 1000"),
        (of_call(annotate=0), "annotate must be"),
        (of_call(vector=[None]), "vector must be a list of numbers"),
        (of_call(deadline_ms=Decimal(5)), "deadline_ms must be a number"),
        (lambda store: HybridRetriever(store).as_tool(args_schema=5), "5 has no field 'query'"),
        *(
            (lambda _, call=call: call(5), f"{name} must be a string or a Path")
            for name in PATHS
            for call in PATHS[name]
        ),
    ],
)
def test_the_error_says_what_is_accepted(store, call, message):
    """No other error than those of this package is raised."""
    with pytest.raises(HybridGraphError, match=re.escape(message)):
        call(store)


@pytest.mark.parametrize("options", [{"keyword_retriever": {}}, {"index": {"refresh": True}}, {"edges": ""}])
def test_a_value_of_a_wrong_type_is_not_converted(store, options):
    """An empty mapping, a bool or an empty string does not become a retriever, a number of seconds or a list."""
    with pytest.raises(ValidationError, match="must be"):
        GraphRetriever(store, **options)


def test_values_that_no_type_excludes_have_an_effect(store, tmp_path):
    """A huge k returns all texts, without an expander a question is not completed, and a file may contain only null."""
    assert len(HybridRetriever(store).retrieve("cat", k=10**400)) == 2
    assert len(store.similarity_search("cat", k=10**400)) == 2
    plan = AdvancedRetriever(HybridRetriever(store), expander=None).retrieve_with_context("and its dog?", ["cat"]).plan
    assert plan["searched"] == "raw"
    (tmp_path / "empty.yaml").write_text("null\n...\n")
    assert HybridGraphSettings.from_file(tmp_path / "empty.yaml") == HybridGraphSettings()


def test_numbers_and_lists_of_other_libraries():
    """A number of numpy, and the keys of a mapping, are accepted."""
    assert HopDecay(vector_weight=np.float32(0.5)).vector_weight == 0.5
    with HybridGraphStore.from_texts(["a bird"], "lsa", ids={"bird": 1}.keys()) as store:
        assert [chunk.id for chunk in store.get(["bird"])] == ["bird"]


def test_messages_can_be_printed():
    """Values that are nested too deeply, and halves of surrogate pairs, do not break a message."""
    nested = []
    for _ in range(5_000):
        nested = [nested]
    for value, text in ((nested, "an object of the class list"), ("\ud800", "\\ud800")):
        with pytest.raises(ConfigurationError, match=re.escape(text)) as error:
            HybridGraphStore(None, value)
        assert str(error.value).encode()
