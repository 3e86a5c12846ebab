"""Arguments and inputs that people who know other libraries write."""

import re

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
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
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever

TEXTS = ["The cat sleeps.", "A dog barks."]
STORE_RETRIEVERS = [HybridRetriever, GraphRetriever, MemoryRetriever, HierarchicalRetriever]


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore.from_texts(TEXTS, "lsa", ids=["cat", "dog"]) as store:
        yield store


@pytest.fixture(scope="module")
def foreign():
    return InMemoryVectorStore.from_texts(TEXTS, DeterministicFakeEmbedding(size=8), ids=["cat", "dog"])


def line_in(error):
    """Return the call that an error message says to write."""
    return re.search(r"write ((?:\w+\.)?\w+\(.*?\))(?= \[type|;|$)", str(error.value).replace("\n", " "))[1]


@pytest.mark.parametrize("kind", STORE_RETRIEVERS)
@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ({"search_kwargs": {"k": 3}}, "k=3"),
        ({"search_kwargs": {"k": 1, "filter": {"a": 1}}}, "k=1, filter={'a': 1}"),
        ({"weights": [0.4, 0.6]}, "semantic_weight=0.4, keyword_weight=0.6"),
        ({"top_k": 3}, "k=3"),
        ({"bm25_weight": 0.2}, "keyword_weight=0.2"),
    ],
)
def test_an_option_of_another_library_is_answered_with_a_line_that_works(store, kind, option, advice):
    """The error for an option of another library contains the call to write, and that call works."""
    with pytest.raises(ValidationError, match=f"has no option {next(iter(option))!r}") as error:
        kind(store, **option)
    line = line_in(error)
    assert line == f"{kind.__name__}(vector_store, {advice})"
    assert isinstance(eval(line, {kind.__name__: kind, "vector_store": store}), kind)


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ({"top_k": 1}, "retriever.invoke(query, k=1)"),
        ({"search_kwargs": {"k": 1}}, "retriever.invoke(query, k=1)"),
        ({"weights": [0, 1]}, "retriever.invoke(query, semantic_weight=0, keyword_weight=1)"),
        ({"alpha": 0.5}, "retriever.invoke(query, semantic_weight=0.5)"),
        ({"score_threshold": 0.2}, "retriever.invoke(query, min_score=0.2)"),
    ],
)
def test_an_option_of_another_library_in_a_call_is_answered_with_a_line_that_works(store, option, line):
    """The error for an option of a call contains the call to write, and that call works."""
    retriever = HybridRetriever(store)
    with pytest.raises(TypeError, match="per call") as error:
        retriever.invoke("cat", **option)
    assert line_in(error) == line
    assert isinstance(eval(line, {"retriever": retriever, "query": "cat"}), list)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((0.7, 0.3, 10), "HybridRetriever(vector_store, documents, semantic_weight=0.7, keyword_weight=0.3, k=10)"),
        ((0.7,), "HybridRetriever(vector_store, documents, semantic_weight=0.7)"),
    ],
)
def test_weights_and_k_by_position_are_answered_with_their_names(foreign, arguments, line):
    """Positional weights and k are refused with the call that names them, which works."""
    documents = [Document(id="cat", page_content=TEXTS[0])]
    with pytest.raises(TypeError, match="options by name") as error:
        HybridRetriever(foreign, documents, *arguments)
    assert line_in(error) == line
    eval(line, {"HybridRetriever": HybridRetriever, "vector_store": foreign, "documents": documents})


@pytest.mark.parametrize(("option", "line"), [({"top_k": 1}, "k=1"), ({"where": {"a": 1}}, "filter={'a': 1}")])
def test_a_search_of_a_store_answers_options_of_other_stores(store, option, line):
    """``similarity_search`` refuses unknown options with the call to write, which works."""
    with pytest.raises(TypeError, match="does not take") as error:
        store.similarity_search("cat", **option)
    assert line_in(error) == f"similarity_search(query, {line})"
    eval(line_in(error), {"similarity_search": store.similarity_search, "query": "cat"})


def test_a_search_of_a_store_refuses_a_negative_k(store):
    """A negative k is an error, not an empty list."""
    with pytest.raises(ConfigurationError, match="k must be an integer ≥ 0, got -1"):
        store.similarity_search("cat", k=-1)


def test_an_index_is_not_written_to_a_folder_with_other_files(foreign, tmp_path):
    """An empty path and a folder with other contents are refused, and the folder stays as it was."""
    (tmp_path / "notes.md").write_text("notes")
    with pytest.raises(NotAnIndexError, match="contains no keyword index"):
        HybridRetriever(foreign, index={"path": tmp_path})
    assert [each.name for each in tmp_path.iterdir()] == ["notes.md"]
    with pytest.raises(ValidationError, match="path must be a folder, got ''"):
        HybridRetriever(foreign, index={"path": ""})


def test_retrievers_of_an_ensemble_are_answered_with_their_places(foreign):
    """``retrievers=`` and ``weights=`` of an EnsembleRetriever are answered with a call that uses both retrievers."""
    keyword = HybridRetriever(foreign)
    retrievers, weights = [keyword, foreign.as_retriever()], [0.4, 0.6]
    with pytest.raises(TypeError, match="needs its first argument, vector_store") as error:
        HybridRetriever(retrievers=retrievers, weights=weights)
    line = line_in(error)
    assert line == (
        "HybridRetriever(retrievers[1].vectorstore, keyword_retriever=retrievers[0], "
        "semantic_weight=0.6, keyword_weight=0.4)"
    )
    built = eval(line, {"HybridRetriever": HybridRetriever, "retrievers": retrievers})
    assert built.vector_store is foreign
    assert built.keyword_retriever is keyword
    with pytest.raises(ValidationError, match=re.escape("These are retrievers; write HybridRetriever(retrievers[1]")):
        HybridRetriever(retrievers)


@pytest.mark.parametrize("kind", STORE_RETRIEVERS)
@pytest.mark.parametrize("key", ["query", "input", "question", "topic"])
def test_a_dict_as_input_is_answered_with_its_key(store, kind, key):
    """A dict as input is answered with two lines that pass its text, and the first one works."""
    retriever, input = kind(store), {key: "cat"}
    with pytest.raises(ConfigurationError, match=re.escape(f'itemgetter("{key}") | retriever')) as error:
        retriever.invoke(input)
    line = re.search(r"write (.*?\))", str(error.value))[1]
    assert next(each.id for each in eval(line, {"retriever": retriever, "input": input})) == "cat"


def test_a_dict_with_a_history_is_answered_with_the_retriever_that_uses_it(store):
    """If the dict has a chat history, the error names AdvancedRetriever, which accepts it."""
    input = {"input": "cat", "chat_history": []}
    with pytest.raises(ConfigurationError, match=re.escape("AdvancedRetriever(retriever).invoke(input)")):
        HybridRetriever(store).invoke(input)
    assert AdvancedRetriever(HybridRetriever(store)).invoke(input)[0].id == "cat"


def test_several_questions_and_messages_are_answered_with_the_right_call(store):
    """A list of questions and a message are answered with the calls that accept them."""
    with pytest.raises(ConfigurationError, match=re.escape("retriever.batch(questions)")):
        HybridRetriever(store).invoke(TEXTS)
    with pytest.raises(ConfigurationError, match=re.escape("retriever.invoke(message.text)")):
        HybridRetriever(store).invoke(HumanMessage("cat"))


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
        ((TEXTS, None, [{}]), "metadatas has 1 entries for 2 texts; pass one for each text, or none"),
        (([Document(page_content="a")],), "texts must be a list of texts as strings"),
    ],
)
def test_invalid_texts_are_refused(arguments, message):
    """Errors of ``from_texts`` say what was passed and what to write."""
    with pytest.raises(ConfigurationError, match=message):
        HybridRetriever.from_texts(*arguments)
    with pytest.raises(ConfigurationError, match="ids has 1 entries for 2 texts"):
        HybridRetriever.from_texts(TEXTS, ids=["a"])


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("openai", 'HybridGraphStore(path, "langchain_openai:OpenAIEmbeddings")'),
        ("OpenAIEmbeddings", 'HybridGraphStore(path, "langchain_openai:OpenAIEmbeddings")'),
        ("text-embedding-3-small", 'HybridGraphStore(path, "langchain_openai:OpenAIEmbeddings")'),
        ("openai:text-embedding-3-large", 'HybridGraphStore(path, "langchain_openai:OpenAIEmbeddings")'),
        ("huggingface", 'HybridGraphStore(path, "langchain_huggingface:HuggingFaceEmbeddings")'),
    ],
)
def test_the_name_of_a_provider_is_answered_with_its_class(name, line):
    """A provider or model as embedding is answered with the line that opens a store with it."""
    with pytest.raises(ConfigurationError, match=re.escape(f"is unknown; write {line}")):
        HybridGraphStore(None, name)


@pytest.mark.parametrize("kind", [HybridRetriever, MemoryRetriever, HierarchicalRetriever])
@pytest.mark.parametrize("method", ["invoke", "batch", "stream"])
def test_k_instead_of_the_config_is_answered_with_its_name(store, kind, method):
    """A number as the second argument of LangChain's methods is refused with ``k=``."""
    with pytest.raises(ConfigurationError, match="write k=1"):
        list(getattr(kind(store), method)(["cat"] if method == "batch" else "cat", 1))


@pytest.mark.parametrize(
    ("kind", "option"), [(HybridRetriever, "reranker"), (HierarchicalRetriever, "planner"), (None, "expander")]
)
def test_a_chat_model_without_its_name_is_answered_with_the_mapping(store, kind, option):
    """The bare name ``llm`` is refused with the mapping that names a model."""
    with pytest.raises(ValidationError, match=re.escape('needs model; write {type: llm, model: "openai:')):
        (kind or AdvancedRetriever.from_store)(store, **{option: "llm"})
