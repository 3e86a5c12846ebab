"""Errors for options, arguments and inputs that retrievers reject, with the line to write instead."""

import re

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
)
from langchain_hybridgraph.errors import ConfigurationError, NotAnIndexError
from langchain_hybridgraph.options.models import GraphOptions
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.fusion import ReciprocalRankFusion
from tests.support.samples.retrievers import STORE_RETRIEVERS

TEXTS = ["The cat sleeps.", "A dog barks."]


@pytest.fixture(scope="module")
def foreign():
    return InMemoryVectorStore.from_texts(TEXTS, DeterministicFakeEmbedding(size=8), ids=["cat", "dog"])


def line_in(error):
    """Return the call that an error message says to write."""
    return re.search(r"write ((?:\w+\.)?\w+\(.*?\))(?= \[type|;|$)", str(error.value).replace("\n", " "))[1]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (HybridRetriever, {"semantic_wieght": 1}, "no option 'semantic_wieght'; did you mean 'semantic_weight'?"),
        (HybridRetriever, {"mmr": 1}, "did you mean 'mmr_lambda'? It is an option of selection="),
        (HybridRetriever, {"mmr_lambda": 1}, "write HybridRetriever(vector_store, selection={'mmr_lambda': 1})"),
        (AdvancedRetriever, {"sinks": 1}, "write AdvancedRetriever(retriever, telemetry={'sinks': 1})"),
        (GraphRetriever, {"tau": 1.0}, "graph={'score': {'type': 'distance_decay', 'tau': 1.0}}"),
        (GraphRetriever, {"graph": {"min_traversal_score": 0.5}}, "write {'traversal': {'type': 'bfs', 'min_weight': "),
        (HybridRetriever, {"tau": 1.0}, "no option 'tau'; the options are"),
        (GraphRetriever, {"on_error": "degraded"}, "must be degrade, empty or raise, got 'degraded'; did you mean"),
        (HybridRetriever, {"selection": {"budget": "x"}}, "or a mapping of max_tokens and fill, got 'x'"),
        (HybridRetriever, {"reranker": "llm"}, 'needs model; write {type: llm, model: "openai:'),
        (HybridRetriever, {"fusion": {"rank_constant": 3}}, "has no 'type'; expected one of rrf, "),
        (HybridRetriever, {"fusion": ReciprocalRankFusion}, "ReciprocalRankFusion'>; expected one of rrf, "),
        (GraphRetriever, {"graph": {"traversal": {"type": "bfs", "max_hop": 1}}}, "did you mean 'max_hops'? expected "),
    ],
)
def test_the_error_of_a_constructor_says_what_to_write(store, kind, options, message):
    """The error for an option has what to write, and no link to Pydantic's pages."""
    with pytest.raises(ValidationError, match=re.escape(message)) as error:
        kind(HybridRetriever(store) if kind is AdvancedRetriever else store, **options)
    assert "http" not in str(error.value)


@pytest.mark.parametrize("kind", STORE_RETRIEVERS)
@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"search_kwargs": {"k": 1, "filter": {"a": 1}}}, "k=1, filter={'a': 1}"),
        ({"weights": [0.4, 0.6]}, "semantic_weight=0.4, keyword_weight=0.6"),
        ({"top_k": 3}, "k=3"),
        ({"bm25_weight": 0.2}, "keyword_weight=0.2"),
    ],
)
def test_an_option_of_another_library_is_answered_with_a_line_that_works(store, kind, option, advice):
    """The error for an option of another library, in a constructor or a call, contains a call that works."""
    with pytest.raises(ValidationError, match=f"has no option {next(iter(option))!r}") as error:
        kind(store, **option)
    assert line_in(error) == f"{kind.__name__}(vector_store, {advice})"
    retriever = eval(line_in(error), {kind.__name__: kind, "vector_store": store})
    with pytest.raises(TypeError, match="per call") as error:
        retriever.invoke("cat", **option)
    assert line_in(error) == f"retriever.invoke(query, {advice})"
    assert isinstance(eval(line_in(error), {"retriever": retriever, "query": "cat"}), list)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_hops": 1}, TypeError, "write retriever.invoke(query, graph={'traversal': {'type': 'bfs', 'max_hops': "),
        ({"seed_k": 1}, TypeError, "write retriever.invoke(query, graph={'seed_k': 1})"),
        ({"on_error": "raise"}, TypeError, "on_error is an option of the constructor"),
        ({"min_score": "0.5"}, ConfigurationError, "min_score must be a number from 0 to 1, got '0.5'"),
        ({"selection": {"mmr": 1}}, ConfigurationError, "has no option 'mmr'; did you mean 'mmr_lambda'?"),
        ({"graph": {"traversal": "dfs"}}, ConfigurationError, "traversal 'dfs' is unknown; did you mean 'bfs'"),
    ],
)
def test_the_error_of_a_call_says_what_to_write(store, options, error, message):
    """The error for an option of a call has what to write, even through AdvancedRetriever."""
    for retriever in (GraphRetriever(store), AdvancedRetriever(GraphRetriever(store))):
        with pytest.raises(error, match=re.escape(message)):
            retriever.invoke("cat", **options)


def test_a_call_changes_only_the_named_options_of_a_group(store):
    """A group in a call, as a mapping or object, changes only the given options and not the retriever."""
    retriever = GraphRetriever(store, graph={"candidates": "reached", "seed_labels": ["none"]})
    assert "no-seeds" in retriever.retrieve("cat").degraded
    for change in ({"seed_labels": []}, GraphOptions(seed_labels=frozenset())):
        result = retriever.retrieve("cat", graph=change, min_score=np.float32(0))
        assert (result[0].id, "no-seeds" in result.degraded) == ("cat", False)
    assert retriever.graph == GraphOptions(candidates="reached", seed_labels=frozenset({"none"}))


@pytest.mark.parametrize("value", [0, 0.0, False, {}, {"a": 1}])
def test_an_empty_value_of_another_type_is_not_the_empty_list_of_labels(store, value):
    """A number, a bool or a mapping as labels is refused, instead of searching without a restriction."""
    message = re.escape(f"labels must be a string or a list of strings, got {value!r}")
    for kind, options in ((GraphRetriever, {"graph": {"seed_labels": value}}), (MemoryRetriever, {"labels": value})):
        with pytest.raises(ValidationError, match=message):
            kind(store, **options)
        with pytest.raises(ConfigurationError, match=message):
            kind(store).invoke("cat", **options)


# -- arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "argument", "message"),
    [
        (HybridRetriever, HybridGraphStore().as_retriever(), r"HybridRetriever\(retriever.vectorstore\)"),
        (AdvancedRetriever, HybridGraphStore(), r"class HybridGraphStore; write AdvancedRetriever.from_store\(store\)"),
        (HybridRetriever, "notes", r"got an object of the class str; write HybridRetriever\(store\)"),
        (HybridRetriever, [Document("cat")], r"class list; write .*, or HybridRetriever.from_documents\(documents\)"),
        (HybridRetriever, HybridRetriever(HybridGraphStore()), r"write HybridRetriever\(store, keyword_retriever=retr"),
    ],
)
def test_the_error_for_the_first_argument_shows_what_to_write(kind, argument, message):
    """The error for a first argument of another kind shows the call to write."""
    with pytest.raises(ConfigurationError, match=message):
        kind(argument)


def test_weights_and_k_by_position_are_answered_with_their_names(foreign):
    """Positional weights and k are refused with the call that names them, which works."""
    documents = [Document(id="cat", page_content=TEXTS[0])]
    with pytest.raises(TypeError, match="options by name") as error:
        HybridRetriever(foreign, documents, 0.7, 0.3, 10)
    line = "HybridRetriever(vector_store, documents, semantic_weight=0.7, keyword_weight=0.3, k=10)"
    assert line_in(error) == line
    eval(line, {"HybridRetriever": HybridRetriever, "vector_store": foreign, "documents": documents})


def test_retrievers_of_an_ensemble_are_answered_with_their_places(foreign):
    """``retrievers=`` and ``weights=`` of an EnsembleRetriever are answered with a call that uses both retrievers."""
    keyword = HybridRetriever(foreign)
    retrievers, weights = [keyword, foreign.as_retriever()], [0.4, 0.6]
    with pytest.raises(TypeError, match="needs its first argument, vector_store") as error:
        HybridRetriever(retrievers=retrievers, weights=weights)
    assert "keyword_retriever=retrievers[0], semantic_weight=0.6, keyword_weight=0.4)" in line_in(error)
    built = eval(line_in(error), {"HybridRetriever": HybridRetriever, "retrievers": retrievers})
    assert (built.vector_store, built.keyword_retriever) == (foreign, keyword)
    with pytest.raises(ConfigurationError, match=re.escape("write HybridRetriever(retrievers[1]")):
        HybridRetriever(retrievers)


def test_an_index_is_not_written_to_a_folder_with_other_files(foreign, tmp_path):
    """A folder with other contents is refused, and stays as it was."""
    (tmp_path / "notes.md").write_text("notes")
    with pytest.raises(NotAnIndexError, match="contains no keyword index"):
        HybridRetriever(foreign, index={"path": tmp_path})
    assert [each.name for each in tmp_path.iterdir()] == ["notes.md"]


@pytest.mark.parametrize("kind", [*STORE_RETRIEVERS, AdvancedRetriever])
def test_a_retriever_is_made_from_texts(kind):
    """``from_texts`` makes a retriever over a store in memory, with metadata, ids, embedding and options."""
    embedding = DeterministicFakeEmbedding(size=8)
    retriever = kind.from_texts(TEXTS, embedding, [{"year": 1}, {"year": 2}], ids=["cat", "dog"], k=1)
    (document,) = retriever.invoke("cat", filter={"year": 2})
    assert (document.id, document.page_content) == ("dog", TEXTS[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("one text",), r"texts must be a list of texts as strings, got 'one text'; write texts=\['one text'\]"),
        ((TEXTS, None, [{}]), "metadatas must be a list with an entry for each of 2 texts, got 1 entries"),
    ],
)
def test_invalid_texts_are_refused(arguments, message):
    """Errors of ``from_texts`` say what was passed and what to write."""
    with pytest.raises(ConfigurationError, match=message):
        HybridRetriever.from_texts(*arguments)


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("openai", "langchain_openai:OpenAIEmbeddings"),
        ("openai:text-embedding-3-large", "langchain_openai:OpenAIEmbeddings"),
        ("sentence-transformers/all-mpnet-base-v2", "langchain_huggingface:HuggingFaceEmbeddings"),
        ("sentence-transformers/all-MiniLM-L6-v2", "minilm"),
        ("all-MiniLM-L6-v2", "minilm"),
    ],
)
def test_the_name_of_a_provider_is_answered_with_its_class(name, accepted):
    """A provider or model as embedding is answered with the line that opens a store with it."""
    line = f'HybridGraphStore(path, "{accepted}")'
    with pytest.raises(ConfigurationError, match=re.escape(f"is unknown; write {line}")):
        HybridGraphStore(None, name)


# -- inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORE_RETRIEVERS)
def test_a_dict_as_input_is_answered_with_its_key(store, kind):
    """A dict as input is answered with two lines that pass its text, and the first one works."""
    retriever, input = kind(store), {"topic": "cat"}
    with pytest.raises(ConfigurationError, match=re.escape('itemgetter("topic") | retriever')) as error:
        retriever.invoke(input)
    line = re.search(r"write (.*?\))", str(error.value))[1]
    assert next(each.id for each in eval(line, {"retriever": retriever, "input": input})) == "cat"


def test_a_dict_with_a_history_is_answered_with_the_right_call(store):
    """A dict with a chat history is answered with the call that accepts it."""
    with pytest.raises(ConfigurationError, match=re.escape("AdvancedRetriever(retriever).invoke(input)")):
        HybridRetriever(store).invoke({"input": "cat", "chat_history": []})


@pytest.mark.parametrize("kind", [HybridRetriever, MemoryRetriever, HierarchicalRetriever])
@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_k_instead_of_the_config_is_answered_with_its_name(store, kind, method):
    """A number as the second argument of LangChain's methods is refused with ``k=``."""
    with pytest.raises(ConfigurationError, match="write k=1"):
        list(getattr(kind(store), method)("cat", 1))
    with pytest.raises(ConfigurationError, match=r"has no 'filter'; .* write filter=…"):
        list(getattr(kind(store), method)("cat", {"filter": {"owner": "bob"}}))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], r"2 of them\); .*: \[retriever.retrieve\(None, vector=each\) for each in vectors\]"),
        ("cat", "vector must be a list of numbers .*, got 'cat'; pass .*embed_query"),
        ([], "vector must be a list of numbers"),
        ([[1.0], [1.0, 2.0]], "vector must be a list of numbers"),
    ],
)
async def test_other_values_than_vectors_are_rejected(store, value, message):
    """The error for a value that is not a vector shows how to compute one, sync and async."""
    with pytest.raises(ConfigurationError, match=message):
        GraphRetriever(store).retrieve("cat", vector=value)
    with pytest.raises(ConfigurationError, match=message):
        await AdvancedRetriever(HybridRetriever(store)).aretrieve_with_context("And a dog?", ["The cat?"], vector=value)
    with pytest.raises(ConfigurationError, match=message):
        store.similarity_search_by_vector(value, k=1)
