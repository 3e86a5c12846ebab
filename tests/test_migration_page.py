"""The code in docs/migration.md runs, and the old and the new code give the same results."""

import importlib.util
import re
from pathlib import Path

import chromadb
import pytest
from langchain_core.language_models import FakeListChatModel

from langchain_hybridgraph import HybridRetriever
from tests.support.samples.document_lists import texts
from tests.support.servers.openai_server import OpenAIServer

PAGE = (Path(__file__).parent.parent / "docs" / "migration.md").read_text(encoding="utf-8")
SHARED, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
SECTIONS = [section for section in SECTIONS if "```" in section]
BY_NAME = {section.split("\n", 1)[0]: section for section in SECTIONS}
OLD = ("langchain_classic", "langchain_community", "langchain_graph_retriever")

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::langchain_core._api.LangChainDeprecationWarning"
)


def blocks(section):
    """Return the section's blocks of code, each with whether it needs the old package."""
    matches = re.findall(r"^```python( before)?\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [(bool(before), code) for before, code in matches]


def run(name, only_new=False, **names):
    """Return the names defined by a section's code, after all of it has run."""
    namespace = dict(names)
    for before, code in blocks(SHARED) + blocks(BY_NAME[name]):
        if not (before and only_new):
            exec(compile(code, f"migration.md, {name}", "exec"), namespace)
    return namespace


@pytest.fixture(autouse=True)
def _no_collections():
    """Delete Chroma's in-memory collections before and after each test, since all tests of the process share them."""

    def delete_collections():
        client = chromadb.Client()
        for collection in client.list_collections():
            if collection.name in ("langchain", "pieces", "animals", "summaries"):
                client.delete_collection(collection.name)

    delete_collections()
    yield
    delete_collections()


@pytest.fixture
def conversation_server():
    """Start a server with a chat model that rewrites the question."""
    with OpenAIServer("How long is the link valid that resets a password?") as server:
        yield server


def old_and_new(name, conversation_server=None):
    """Return the names defined by a section, including old code; skip the test if an old package is missing."""
    for needed in OLD:
        if needed in BY_NAME[name] and importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    answer = '```json\n{"query": "", "filter": "eq(\\"source\\", \\"billing.md\\")"}\n```'
    llm = conversation_server and conversation_server.chat_model()
    return run(name, llm=llm, structured_llm=FakeListChatModel(responses=[answer]))


@pytest.mark.parametrize("name", BY_NAME)
def test_the_new_runs_without_the_old(name, conversation_server):
    """The new code of each section runs without the old packages."""
    assert "now" in run(name, only_new=True, llm=conversation_server.chat_model())


def test_every_row_of_the_table_has_a_section():
    """Each row of the table links a section, and each section has old and new code."""
    rows = re.findall(r"^\| \[[^\]]+\]\(#([a-z0-9_-]+)\)", PAGE, re.MULTILINE)
    assert rows == [name.lower().replace(" ", "-") for name in BY_NAME]
    assert all({before for before, _ in blocks(section)} == {True, False} for section in SECTIONS)


def test_ensemble_retriever():
    """A shared keyword retriever and rrf give EnsembleRetriever's order, and the package's own index the same first
    hit.
    """
    page = old_and_new("EnsembleRetriever")
    assert len(page["before"]) == 5
    assert texts(page["same"]) == texts(page["before"])
    assert texts(page["rrf"])[0] == texts(page["now"])[0] == texts(page["before"])[0]


@pytest.mark.parametrize("name", ["BM25Retriever", "TimeWeightedVectorStoreRetriever", "MultiVectorRetriever"])
def test_the_first_text_is_found_by_the_old_code_too(name):
    """The text that the new code finds first is also found by the old code."""
    page = old_and_new(name)
    assert texts(page["now"])[0] in texts(page["before"])


def test_parent_document_retriever():
    """Both the old and the new code find a piece and return its parent."""
    page = old_and_new("ParentDocumentRetriever")
    assert texts(page["now"]) == texts(page["before"]) == [page["long"][0].page_content]
    children = HybridRetriever(page["store"], return_parents=False).invoke(page["question"])
    assert len(children) == 5
    assert HybridRetriever(page["store"]).retrieve(page["question"]).hits[0].child.id == children[0].id


def test_contextual_compression_retriever():
    """The old and the new code return the same Documents in the same order."""
    page = old_and_new("ContextualCompressionRetriever")
    assert 0 < len(page["before"]) < 5
    assert texts(page["same"]) == texts(page["before"])
    reranked = HybridRetriever(page["chroma"], k=5, reranker=page["ScoreReranker"](min_score=0.2))
    hits = reranked.retrieve(page["question"]).hits
    assert [hit.id for hit in hits] == [document.id for document in page["now"]]
    assert all(hit.score >= 0.2 for hit in hits)


def test_create_history_aware_retriever(conversation_server):
    """The old and the new code find the same document, with the model's rewrite and without a model."""
    page = old_and_new("create_history_aware_retriever", conversation_server)
    assert page["before"][0].id == "login"
    assert [document.id for document in page["rewritten"]] == [document.id for document in page["before"]]
    assert [document.id for document in page["now"]] == ["login"]
    assert len(conversation_server.requests) == 2
    for chain in ("in_a_chain", "new_chain"):
        assert "one hour" in page[chain].invoke(page["said"])["answer"]


def test_self_query_retriever():
    """A question that consists of a filter returns the matching document with each variant of the code."""
    page = old_and_new("SelfQueryRetriever")
    for way in ("before", "same", "hybrid", "now"):
        assert [document.metadata["source"] for document in page[way]] == ["billing.md"], way


def test_create_retriever_tool():
    """The new tool returns ids and scores of the texts that match the filter, while the old one returns only texts."""
    page = old_and_new("create_retriever_tool")
    assert page["texts"]["errors"] in page["before"]
    assert page["now"].count("score: ") == 2
    assert page["texts"]["billing"] not in page["now"]


def test_langchain_graph_retriever():
    """The old and the new code find the same documents at the same depths."""
    page = old_and_new("langchain-graph-retriever")
    depths = {document.id: document.metadata["_depth"] for document in page["before"]}
    assert depths == {"otter": 0, "capybara": 1, "heron": 1, "pike": 2}
    assert {document.id: document.metadata["hops"] for document in page["now"]} == depths
