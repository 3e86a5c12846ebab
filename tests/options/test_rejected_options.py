"""Errors for options and first arguments that retrievers reject."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from langchain_core.documents import Document
from pydantic import ValidationError

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
)
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.models import GraphOptions
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore.from_texts(["The cat sleeps.", "A dog barks."], "lsa", ids=["cat", "dog"]) as store:
        yield store


@pytest.mark.parametrize(
    ("kind", "name", "similar"),
    [
        (HybridRetriever, "semantic_wieght", "semantic_weight"),
        (GraphRetriever, "preest", "preset"),
        (MemoryRetriever, "session_ids", "session_id"),
        (HybridRetriever, "mmr", "mmr_lambda"),
    ],
)
def test_the_error_for_a_misspelt_setting_suggests_a_similar_one(store, kind, name, similar):
    """A misspelt setting raises a ValidationError that suggests the correct one and has no link to Pydantic's pages."""
    with pytest.raises(ValidationError, match=f"has no option '{name}'; did you mean '{similar}'") as error:
        kind(store, **{name: 1})
    assert isinstance(error.value, ValueError)
    assert "http" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "similar"), [({"preset": "hopdecay"}, "hop_decay"), ({"on_error": "degraded"}, "degrade")]
)
def test_the_error_for_a_misspelt_value_suggests_a_similar_one(store, options, similar):
    """The error for a misspelt value lists all values and suggests one."""
    with pytest.raises(ValidationError, match=f"must be .*'{similar}'.*; did you mean '{similar}'"):
        GraphRetriever(store, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "both"}, "graph={'traversal': {'type': 'bfs', 'direction': 'both'}}"),
        ({"hub_degree": None}, "graph={'traversal': {'type': 'bfs', 'hub_degree': None}}"),
        ({"damping": 0.9}, "graph={'traversal': {'type': 'pagerank', 'damping': 0.9}}"),
        ({"tau": 1.0}, "graph={'score': {'type': 'distance_decay', 'tau': 1.0}}"),
    ],
)
def test_an_error_names_the_place_of_a_stage_parameter(store, options, message):
    """The error for a parameter of a traversal or score shows where to pass it, but only for retrievers with a
    graph.
    """
    with pytest.raises(ValidationError, match=re.escape(message)):
        GraphRetriever(store, **options)
    with pytest.raises(ValidationError, match="has no option") as error:
        HybridRetriever(store, **options)
    assert "graph=" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_hops": 1},
            "max_hops per call; write retriever.invoke(query, graph={'traversal': {'type': 'bfs', 'max_hops': 1}});",
        ),
        ({"tau": 1.0}, "write retriever.invoke(query, graph={'score': {'type': 'distance_decay', 'tau': 1.0}});"),
        ({"seed_k": 1}, "seed_k is an option of graph=: write retriever.invoke(query, graph={'seed_k': 1});"),
        ({"mmr_lambda": 0.5}, "selection=: write retriever.invoke(query, selection={'mmr_lambda': 0.5});"),
        ({"semantic_wieght": 1}, "did you mean 'semantic_weight'?"),
        ({"reranker": None}, "reranker is an option of HybridRetriever;"),
    ],
)
def test_an_error_names_the_place_of_a_constructor_option(store, options, message):
    """The error for a constructor option in a call shows where to pass it, even through AdvancedRetriever."""
    for retriever in (GraphRetriever(store), AdvancedRetriever(GraphRetriever(store))):
        with pytest.raises(TypeError, match=re.escape(message)):
            retriever.invoke("cat", **options)


def test_the_error_lists_all_settings_if_none_is_similar(store):
    """The error for a setting that resembles no other lists all settings of the class."""
    with pytest.raises(ValueError, match=r"the options are .*expander, .*fuse_raw"):
        AdvancedRetriever(HybridRetriever(store), zzz=1)


def test_a_retriever_as_a_store_is_rejected(store):
    """Passing a retriever as the store raises an error with the correct line."""
    with pytest.raises(ValueError, match=r"class VectorStoreRetriever; .* HybridRetriever\(retriever.vectorstore\)"):
        HybridRetriever(store.as_retriever())
    with pytest.raises(ValueError, match=r"GraphRetriever\(store, keyword_retriever=retriever\)"):
        GraphRetriever(HybridRetriever(store))


def test_a_collection_of_chromadb_is_rejected():
    """Passing a chromadb collection raises an error with the line that opens it with langchain_chroma."""
    client = pytest.importorskip("chromadb").EphemeralClient()
    collection = client.get_or_create_collection("notes")
    with pytest.raises(ValueError, match=r"Collection of chromadb; .*Chroma\(client=client, collection_name='notes'"):
        HybridRetriever(collection)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("notes", r"HybridGraphStore\('notes'\)"),
        ([Document("a text")], r"HybridRetriever.from_documents\(documents\)"),
        (None, "Expected a LangChain VectorStore. This is None; "),
    ],
)
def test_the_error_shows_how_to_create_a_store(argument, message):
    """The error for a path, Documents or None as the store shows how to create one."""
    with pytest.raises(ValueError, match=message):
        HybridRetriever(argument)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (42, r"Expected a LangChain retriever. This is an object of the class int; .*from_store\("),
        (None, "Expected a LangChain retriever. This is None; "),
        ("notes", r"AdvancedRetriever.from_store\(HybridGraphStore\('notes'\)\)"),
        ([Document("a text")], r"AdvancedRetriever.from_documents\(documents\)"),
        (HybridRetriever, r"the class HybridRetriever; .* AdvancedRetriever\(HybridRetriever\(…\)\)"),
    ],
)
def test_the_error_shows_how_to_create_a_retriever(argument, message):
    """The error for an invalid inner retriever shows how to create one and has no link to Pydantic's pages."""
    with pytest.raises(ValidationError, match=message) as error:
        AdvancedRetriever(argument)
    assert "http" not in str(error.value)


def test_a_store_as_a_retriever_is_rejected(store):
    """The error for a store as the inner retriever shows how to create a retriever over it."""
    message = r"class HybridGraphStore, which is a store; write AdvancedRetriever.from_store\(store\)"
    with pytest.raises(ValueError, match=message):
        AdvancedRetriever(store)


def test_a_class_is_rejected():
    """The error for a class instead of a store has the line that creates an instance."""
    with pytest.raises(ValueError, match=r"HybridRetriever\(HybridGraphStore\(…\)\)"):
        HybridRetriever(HybridGraphStore)


@pytest.mark.parametrize(
    "option",
    [
        {"min_score": 3},
        {"min_score": -1},
        {"min_score": math.nan},
        {"min_score": "0.5"},
        {"deadline_ms": 0},
        {"max_tokens": 0},
    ],
)
def test_a_call_rejects_invalid_values(store, option):
    """An invalid value in a call raises a ConfigurationError that contains the option and the value."""
    ((name, value),) = option.items()
    with pytest.raises(ConfigurationError, match=rf"{name} (is|must be .*, got) {value!r}"):
        HybridRetriever(store).invoke("cat", **option)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"selection": {"mmr_lambda": 1.5}}, r"mmr_lambda must be a number from 0 to 1, or None, got 1.5"),
        ({"selection": {"mmr": 1}}, r"SelectionOptions has no option 'mmr'; did you mean 'mmr_lambda'\?"),
        ({"selection": 3}, "expected SelectionOptions or a mapping of its options, got 3"),
        ({"graph": {"traversal": "dfs"}}, "traversal 'dfs' is unknown; did you mean 'bfs'"),
    ],
)
def test_a_call_rejects_invalid_groups(store, group, message):
    """An invalid name or value in an option group passed to a call is quoted in the ConfigurationError."""
    with pytest.raises(ConfigurationError, match=message):
        GraphRetriever(store).invoke("cat", **group)


@pytest.mark.parametrize(
    ("kind", "name", "group"),
    [
        (HybridRetriever, "mmr_lambda", "selection"),
        (GraphRetriever, "slots", "graph"),
        (MemoryRetriever, "hotness", "memory"),
        (HierarchicalRetriever, "alpha", "tree"),
        (HybridRetriever, "refresh", "index"),
        (AdvancedRetriever, "sinks", "telemetry"),
    ],
)
def test_an_error_names_the_group_of_an_option(store, kind, name, group):
    """The error for an option passed outside its group shows how to pass it."""
    first = HybridRetriever(store) if kind is AdvancedRetriever else store
    place = "retriever" if kind is AdvancedRetriever else "vector_store"
    message = f"{name} is an option of {group}=: write {kind.__name__}({place}, {group}={{{name!r}: 1}})"
    with pytest.raises(ValidationError, match=re.escape(message)):
        kind(first, **{name: 1})


def test_an_error_names_the_group_of_a_misspelt_option(store):
    """The error for a misspelt option suggests a similar one and names its group."""
    with pytest.raises(ValidationError, match=r"did you mean 'candidates'\? It is an option of graph="):
        GraphRetriever(store, candidate=5)


def test_a_call_changes_only_the_named_options_of_a_group(store):
    """A group in a call, as a mapping or object, changes only the given options and not the retriever."""
    retriever = GraphRetriever(store, graph={"candidates": "reached", "seed_labels": ["none"]})
    assert "no-seeds" in retriever.retrieve("cat").degraded
    for change in ({"seed_labels": []}, GraphOptions(seed_labels=frozenset())):
        result = retriever.retrieve("cat", graph=change)
        assert (result[0].id, "no-seeds" in result.degraded) == ("cat", False)
    assert retriever.graph == GraphOptions(candidates="reached", seed_labels=frozenset({"none"}))


def test_numpys_numbers_are_numbers(store):
    """Calls accept NumPy's numbers."""
    assert HybridRetriever(store, k=1).invoke("cat", min_score=np.float32(0.1))[0].id == "cat"


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"seed_labels": [3]}, "seed_labels must be a string or a list of strings, got [3]; write "
         "seed_labels=['home', 'tea']"),
    ],
)  # fmt: skip
def test_the_error_for_a_string_instead_of_a_list_shows_the_list(store, graph, message):
    """The error for a string instead of a list of strings shows the list to write."""
    for kind in (GraphRetriever, MemoryRetriever):
        with pytest.raises(ValidationError, match=re.escape(message)):
            kind(store, graph=graph)


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, MemoryRetriever])
async def test_the_error_for_several_query_vectors_shows_the_loop(store, kind):
    """A list of query vectors raises an error that shows the loop to write, sync and async."""
    vector = store.embeddings.embed_query("cat")
    message = r"vector must be the vector of one query, got a list of vectors \(2 of them\); .* for each in vectors\]"
    with pytest.raises(ConfigurationError, match=message):
        kind(store).retrieve("cat", vector=[vector, vector])
    with pytest.raises(ConfigurationError, match=message):
        await kind(store).ainvoke("cat", vector=np.array([vector, vector]))
    with pytest.raises(ConfigurationError, match=r"vectors \(1 of them\)"):
        kind(store).retrieve(None, vector=[vector])


def test_a_store_rejects_several_vectors(store):
    """The store's searches by vector accept one vector and reject a list of vectors."""
    vector = store.embeddings.embed_query("cat")
    for search in (store.similarity_search_by_vector, store.max_marginal_relevance_search_by_vector):
        assert search(vector, k=1)[0].id == "cat"
        with pytest.raises(ConfigurationError, match=r"got a list of vectors \(2 of them\); search once for each"):
            search([vector, vector], k=1)


@pytest.mark.parametrize("value", ["cat", [], [[1.0], [1.0, 2.0]], {"a": 1}, 3.0])
def test_other_values_than_vectors_are_rejected(store, value):
    """The error for a value that is not a vector shows how to compute one."""
    with pytest.raises(ConfigurationError, match=r"vector must be a list of numbers, got .*embed_query"):
        HybridRetriever(store).retrieve("cat", vector=value)
    advanced = AdvancedRetriever(HybridRetriever(store))
    with pytest.raises(ConfigurationError, match="vector must be a list of numbers"):
        advanced.retrieve_with_context("And a dog?", ["The cat?"], vector=value)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (GraphRetriever, {"graph": {"date_boost": 1}}, "date_boost is an option of memory= of MemoryRetriever"),
        (HybridRetriever, {"selection": {"seed_k": 1}}, "seed_k is an option of graph= of GraphRetriever"),
        (HybridRetriever, {"selection": {"k": 3}}, "write HybridRetriever(…, k=3)"),
    ],
)
def test_an_option_in_the_wrong_group_is_reported_with_its_own_group(store, kind, options, message):
    """The error for an option in the wrong group names the group and retriever it belongs to."""
    with pytest.raises(ValidationError, match=re.escape(message)):
        kind(store, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusion": {"type": "rrf", "rank_constant": "x"}}, "rank_constant must be a number ≥ 0, got 'x'"),
        ({"fusion": {"type": "concat", "quota": 0.5}}, "quota must be an integer ≥ 1, got 0.5"),
        ({"graph": {"traversal": {"type": "bfs", "max_hops": "x"}}}, "max_hops must be an integer ≥ 0"),
        ({"graph": {"score": {"type": "distance_decay", "tau": 0}}}, "tau must be a number > 0, got 0"),
    ],
)
def test_the_parameters_of_stages_are_checked_in_the_words_of_options(store, options, message):
    """The error for a stage's parameter has the accepted range and the invalid value."""
    with pytest.raises(ValidationError, match=re.escape(message)):
        GraphRetriever(store, **options)
