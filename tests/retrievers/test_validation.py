"""What is said of settings and first arguments that a retriever cannot take."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from langchain_core.documents import Document
from pydantic import ValidationError

from langchain_hybridgraph import AdvancedRetriever, GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.errors import ConfigurationError


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore.from_texts(["The cat sleeps.", "A dog barks."], "lsa", ids=["cat", "dog"]) as store:
        yield store


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        (HybridRetriever, "semantic_wieght", "semantic_weight"),
        (GraphRetriever, "max_hop", "max_hops"),
        (MemoryRetriever, "session_ids", "session_id"),
    ],
)
def test_a_misspelt_setting_is_named_with_the_one_that_is_alike(store, kind, name, meant):
    """An error of pydantic's, a ValueError, without a page of pydantic's to read."""
    with pytest.raises(ValidationError, match=f"{name}\n.*no such setting. Did you mean '{meant}'") as error:
        kind(store, **{name: 1})
    assert isinstance(error.value, ValueError)
    assert "http" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"direction": "both"}, "Give traversal={'type': 'bfs', 'direction': 'both'}"),
        ({"hub_degree": None}, "Give traversal={'type': 'bfs', 'hub_degree': None}"),
        ({"damping": 0.9}, "Give traversal={'type': 'pagerank', 'damping': 0.9}"),
        ({"tau": 1.0}, "Give score={'type': 'distance_decay', 'tau': 1.0}"),
    ],
)
def test_a_parameter_of_a_stage_is_told_its_place(store, given, said):
    """Where one of a traversal or a score is given to the retriever itself; HybridRetriever has neither."""
    with pytest.raises(ValidationError, match=re.escape(said)):
        GraphRetriever(store, **given)
    with pytest.raises(ValidationError, match="no such setting") as error:
        HybridRetriever(store, **given)
    assert "Give" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_hops": 1}, "takes no max_hops per call; per call give traversal={'type': 'bfs', 'max_hops': 1};"),
        (
            {"bidirectional": True, "relation_filter": ["cites"], "hop_decay": [1.0]},
            "give traversal={'type': 'bfs', 'direction': 'both', 'relations': ['cites']}; "
            "per call give score={'type': 'hop_decay', 'hop_decay': [1.0]};",
        ),
        ({"relation_filter": "cites"}, "per call give traversal={'type': 'bfs', 'relations': ['cites']};"),
        ({"seed_kk": 1}, "did you mean seed_k?"),
    ],
)
def test_shorthand_is_told_what_a_call_takes_instead(store, given, said):
    """Of a GraphRetriever, asked itself or by another one."""
    for retriever in (GraphRetriever(store), AdvancedRetriever(GraphRetriever(store))):
        with pytest.raises(TypeError, match=re.escape(said)):
            retriever.invoke("cat", **given)


def test_all_settings_are_named_where_none_is_alike(store):
    """Of a retriever that asks another one, too."""
    with pytest.raises(ValueError, match=r"There are .*expander, .*fuse_raw"):
        AdvancedRetriever(HybridRetriever(store), zzz=1)


def test_a_retriever_is_no_store(store):
    """Neither one over a store nor any other; each has a line that mends it."""
    with pytest.raises(ValueError, match=r"a VectorStoreRetriever; .* HybridRetriever\(retriever.vectorstore\)"):
        HybridRetriever(store.as_retriever())
    with pytest.raises(ValueError, match=r"GraphRetriever\(store, keyword_retriever=retriever\)"):
        GraphRetriever(HybridRetriever(store))


def test_chromadbs_own_collection_is_no_store():
    """langchain_chroma's Chroma over it is."""
    client = pytest.importorskip("chromadb").EphemeralClient()
    collection = client.get_or_create_collection("notes")
    with pytest.raises(ValueError, match=r"a Collection of chromadb; .*Chroma\(client=client, collection_name='notes'"):
        HybridRetriever(collection)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("notes", r"HybridGraphStore\('notes'\)"),
        ([Document("a text")], r"HybridRetriever.from_documents\(documents\)"),
        (None, "wanted a LangChain VectorStore. This is a NoneType"),
    ],
)
def test_what_is_no_store_is_told_how_to_become_one(given, said):
    """A folder, Documents, nothing."""
    with pytest.raises(ValueError, match=said):
        HybridRetriever(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (42, r"wanted a LangChain retriever. This is an int; HybridRetriever\(store\) is one"),
        (None, "This is a NoneType; "),
        ("notes", r"AdvancedRetriever.from_store\(HybridGraphStore\('notes'\)\)"),
        ([Document("a text")], r"AdvancedRetriever.from_documents\(documents\)"),
        (HybridRetriever, r"the class HybridRetriever; .* AdvancedRetriever\(HybridRetriever\(…\)\)"),
    ],
)
def test_what_is_no_retriever_is_told_how_to_become_one(given, said):
    """As of what is no store, without a page of pydantic's to read."""
    with pytest.raises(ValidationError, match=said) as error:
        AdvancedRetriever(given)
    assert "http" not in str(error.value)


def test_a_store_is_no_retriever(store):
    """What stands between the two is named."""
    said = r"This is a HybridGraphStore, a store: AdvancedRetriever\(HybridRetriever\(store\)\)"
    with pytest.raises(ValueError, match=said):
        AdvancedRetriever(store)


def test_a_class_is_no_store():
    """One of the kind is."""
    with pytest.raises(ValueError, match=r"HybridRetriever\(HybridGraphStore\(…\)\)"):
        HybridRetriever(HybridGraphStore)


@pytest.mark.parametrize(
    "option",
    [
        {"min_score": 3},
        {"min_score": -1},
        {"min_score": math.nan},
        {"min_score": "0.5"},
        {"mmr_lambda": 1.5},
        {"deadline_ms": 0},
        {"max_tokens": 0},
    ],
)
def test_a_call_takes_what_the_constructor_takes(store, option):
    """Another value is an error that names it."""
    ((name, value),) = option.items()
    with pytest.raises(ConfigurationError, match=f"{name} is {value!r}"):
        HybridRetriever(store).invoke("cat", **option)


def test_numpys_numbers_are_numbers(store):
    """A call takes them."""
    assert HybridRetriever(store, k=1).invoke("cat", min_score=np.float32(0.1))[0].id == "cat"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"relation_filter": "cites"}, "relation_filter must be a list of relations, got the text 'cites'; write "
         "relation_filter=['cites']"),
        ({"relation_filter": 3}, "relation_filter must be a list of relations, got 3; write relation_filter=['3']"),
        ({"seed_labels": "Claim"}, "seed_labels must be a list of labels, got the text 'Claim'; write "
         "seed_labels=['Claim']"),
        ({"seed_labels": [3]}, "seed_labels must be a list of labels, which are texts, got [3]; write "
         "seed_labels=['3']"),
    ],
)  # fmt: skip
def test_one_text_in_place_of_a_list_names_the_list(store, given, said):
    """The error says what was given, what was expected and how to fix it; a text is not read letter by letter."""
    for kind in (GraphRetriever, MemoryRetriever):
        with pytest.raises(ValidationError, match=re.escape(said)):
            kind(store, **given)


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, MemoryRetriever])
async def test_several_query_vectors_are_refused_with_the_loop_to_write(store, kind):
    """Two vectors, and one in a list of its own; sync, async and by ``invoke``."""
    vector = store.embeddings.embed_query("cat")
    said = r"vector must be the vector of one query, got a list of vectors \(2 of them\); .* for each in vectors\]"
    with pytest.raises(ConfigurationError, match=said):
        kind(store).retrieve("cat", vector=[vector, vector])
    with pytest.raises(ConfigurationError, match=said):
        await kind(store).ainvoke("cat", vector=np.array([vector, vector]))
    with pytest.raises(ConfigurationError, match=r"vectors \(1 of them\)"):
        kind(store).retrieve(None, vector=[vector])


def test_a_store_refuses_several_vectors_too(store):
    """Its searches by vector take one."""
    vector = store.embeddings.embed_query("cat")
    for search in (store.similarity_search_by_vector, store.max_marginal_relevance_search_by_vector):
        assert search(vector, k=1)[0].id == "cat"
        with pytest.raises(ConfigurationError, match=r"got a list of vectors \(2 of them\); search once for each"):
            search([vector, vector], k=1)


@pytest.mark.parametrize("given", ["cat", [], [[1.0], [1.0, 2.0]], {"a": 1}, 3.0])
def test_what_is_not_a_vector_is_refused(store, given):
    """A text, nothing, a ragged list, a mapping, a number: the error says how a vector is made."""
    with pytest.raises(ConfigurationError, match=r"vector must be a list of numbers, got .*embed_query"):
        HybridRetriever(store).retrieve("cat", vector=given)
    advanced = AdvancedRetriever(HybridRetriever(store))
    with pytest.raises(ConfigurationError, match="vector must be a list of numbers"):
        advanced.retrieve_with_context("And a dog?", ["The cat?"], vector=given)
