"""Errors for options and first arguments that retrievers reject."""

from __future__ import annotations

import re

import numpy as np
import pytest
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
        (GraphRetriever, "candidate", "candidates'? It is an option of graph="),
    ],
)
def test_the_error_for_a_misspelt_setting_suggests_a_similar_one(store, kind, name, similar):
    """A misspelt setting raises a ValidationError that suggests the correct one and has no link to Pydantic's pages."""
    with pytest.raises(ValidationError, match=re.escape(f"has no option '{name}'; did you mean '{similar}")) as error:
        kind(store, **{name: 1})
    assert isinstance(error.value, ValueError)
    assert "http" not in str(error.value)


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
            "max_hops per call; write retriever.invoke(query, graph={'traversal': {'type': 'bfs', 'max_hops': 1}})",
        ),
        ({"tau": 1.0}, "write retriever.invoke(query, graph={'score': {'type': 'distance_decay', 'tau': 1.0}})"),
        ({"seed_k": 1}, "seed_k is an option of graph=: write retriever.invoke(query, graph={'seed_k': 1})"),
        ({"mmr_lambda": 0.5}, "selection=: write retriever.invoke(query, selection={'mmr_lambda': 0.5})"),
        ({"semantic_wieght": 1}, "did you mean 'semantic_weight'?"),
        ({"reranker": None}, "reranker is an option of the constructor"),
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


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"selection": {"mmr_lambda": 1.5}}, r"mmr_lambda must be a number from 0 to 1, got 1.5"),
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


def test_a_call_changes_only_the_named_options_of_a_group(store):
    """A group in a call, as a mapping or object, changes only the given options and not the retriever."""
    retriever = GraphRetriever(store, graph={"candidates": "reached", "seed_labels": ["none"]})
    assert "no-seeds" in retriever.retrieve("cat").degraded
    for change in ({"seed_labels": []}, GraphOptions(seed_labels=frozenset())):
        result = retriever.retrieve("cat", graph=change)
        assert (result[0].id, "no-seeds" in result.degraded) == ("cat", False)
    assert retriever.graph == GraphOptions(candidates="reached", seed_labels=frozenset({"none"}))


@pytest.mark.parametrize(
    ("kind", "argument", "message"),
    [
        (HybridRetriever, HybridGraphStore().as_retriever(), r"HybridRetriever\(retriever.vectorstore\)"),
        (GraphRetriever, HybridRetriever(HybridGraphStore()), r"GraphRetriever\(store, keyword_retriever=retriever\)"),
        (AdvancedRetriever, HybridGraphStore(), r"which is a store; write AdvancedRetriever.from_store\(store\)"),
        (HybridRetriever, "notes", r"class str; write HybridRetriever\(store\) .* HybridRetriever.from_documents\("),
        (AdvancedRetriever, None, r"Expected a LangChain retriever. This is None; write AdvancedRetriever.from_store"),
    ],
)
def test_the_error_for_the_first_argument_shows_what_to_write(kind, argument, message):
    """The error for a first argument of another kind shows the call to write."""
    with pytest.raises(ValidationError, match=message):
        kind(argument)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_score": 3}, "min_score must be a number from 0 to 1, got 3"),
        ({"min_score": "0.5"}, "min_score must be .*, got '0.5'"),
        ({"max_tokens": 0}, "max_tokens must be an integer ≥ 1"),
        ({"on_error": "degraded"}, "does not take on_error"),
    ],
)
def test_a_call_rejects_invalid_values(store, options, message):
    """An invalid value in a call is an error that contains the option and the value; NumPy's numbers are valid."""
    with pytest.raises((ConfigurationError, TypeError), match=message):
        HybridRetriever(store).invoke("cat", **options)
    assert HybridRetriever(store, k=1).invoke("cat", min_score=np.float32(0.1))[0].id == "cat"


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


@pytest.mark.parametrize("value", ["cat", [], [[1.0], [1.0, 2.0]], {"a": 1}, 3.0])
def test_other_values_than_vectors_are_rejected(store, value):
    """The error for a value that is not a vector shows how to compute one."""
    with pytest.raises(ConfigurationError, match=r"vector must be a list of numbers, got .*embed_query"):
        HybridRetriever(store).retrieve("cat", vector=value)
    advanced = AdvancedRetriever(HybridRetriever(store))
    with pytest.raises(ConfigurationError, match="vector must be a list of numbers"):
        advanced.retrieve_with_context("And a dog?", ["The cat?"], vector=value)


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
