"""LangChain's classes and chains with the package's retrievers and store."""

from operator import itemgetter
from typing import Annotated, TypedDict

import pytest
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import EnsembleRetriever, MergerRetriever
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever, history_aware
from tests.support.samples.document_lists import ids
from tests.support.samples.retrievers import RETRIEVERS
from tests.support.samples.vehicles import TEXTS, documents

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")

HISTORY = [HumanMessage("Which car is red?"), AIMessage("The roadster by Tesla is red.")]
AS_OF = "2100-01-01"  # the same age of each memory in every call
FOLLOW_UP = {"input": "and its price?", "chat_history": HISTORY}


@pytest.fixture(scope="module")
def store():
    vector_store = HybridGraphStore()
    vector_store.add_documents(documents())
    return vector_store


@pytest.fixture(scope="module")
def other():
    return InMemoryVectorStore.from_documents(documents(), LSAEmbeddings().fit([text for text, _ in TEXTS.values()]))


# -- a conversation ------------------------------------------------------------------------------------------------


def answering():
    """Return a chain whose answer contains the messages and documents that it received."""
    prompt = ChatPromptTemplate([("system", "{context}"), MessagesPlaceholder("chat_history"), ("human", "{input}")])
    return create_stuff_documents_chain(RunnableLambda(lambda prompt: AIMessage(prompt.to_string())), prompt)


def test_create_retrieval_chain_hands_on_the_conversation(store):
    """create_retrieval_chain passes the conversation to history_aware, but only the question to a BaseRetriever."""
    answer = create_retrieval_chain(history_aware(HybridRetriever(store, k=1)), answering()).invoke(FOLLOW_UP)
    assert ids(answer["context"]) == ["roadster"]
    assert "200,000" in answer["answer"]
    with pytest.warns(UserWarning, match=r"create_retrieval_chain\(history_aware\(retriever\), …\)") as warned:
        alone = create_retrieval_chain(AdvancedRetriever(HybridRetriever(store, k=1)), answering())
    assert (len(warned), warned[0].filename) == (1, __file__)
    assert ids(alone.invoke(FOLLOW_UP | {"input": "and its maker?"})["context"]) != ["roadster"]
    assert not isinstance(history_aware(HybridRetriever(store)), BaseRetriever)


def test_lcel_hands_on_the_conversation(store):
    """In an LCEL chain, a history-aware retriever receives the question and the conversation."""
    retriever = history_aware(HybridRetriever(store, k=1))
    assert (retriever | ids).invoke(FOLLOW_UP) == ["roadster"]
    assert (RunnablePassthrough() | retriever.bound | ids).invoke(FOLLOW_UP) == ["roadster"]
    assert "conversation_history" in retriever.as_tool().args
    chain = RunnablePassthrough.assign(context=retriever) | itemgetter("context") | ids
    assert chain.invoke(FOLLOW_UP) == ["roadster"]
    assert ids(retriever.bind(filter={"kind": "train"}).with_config(tags=["mine"]).invoke(FOLLOW_UP)) == ["train"]


def test_message_history_hands_on_the_conversation(store):
    """RunnableWithMessageHistory keeps the messages of each session and passes them to the retriever."""
    histories = {}
    chat = RunnableWithMessageHistory(
        create_retrieval_chain(history_aware(HybridRetriever(store, k=1)), answering()),
        lambda session: histories.setdefault(session, InMemoryChatMessageHistory()),
        input_messages_key="input",
        history_messages_key="chat_history",
        output_messages_key="answer",
    )
    ada, bo = ({"configurable": {"session_id": name}} for name in ("ada", "bo"))
    assert ids(chat.invoke({"input": "Which car is red?"}, ada)["context"]) == ["roadster"]
    assert ids(chat.invoke({"input": "Which trains carry coal?"}, bo)["context"]) == ["train"]
    assert ids(chat.invoke({"input": "and its price?"}, ada)["context"]) == ["roadster"]


class State(TypedDict):
    messages: Annotated[list, add_messages]
    context: list[Document]


def test_a_node_of_langgraph_hands_on_the_conversation(store):
    """A LangGraph state with messages can be passed to the retriever, which can also be part of a node's chain."""
    retriever = history_aware(HybridRetriever(store, k=1))
    for node in (lambda state: {"context": retriever.invoke(state)}, {"context": retriever} | RunnablePassthrough()):
        graph = StateGraph(State)
        graph.add_node("retrieve", node)
        graph.add_edge(START, "retrieve")
        state = graph.compile().invoke({"messages": [*HISTORY, HumanMessage("and its price?")]})
        assert ids(state["context"]) == ["roadster"]


def test_settings_of_history_aware(store):
    """history_aware accepts the settings of AdvancedRetriever, but none if it receives an AdvancedRetriever."""
    inner = AdvancedRetriever(HybridRetriever(store), k=1)
    for retriever in (history_aware(inner), history_aware(inner.retriever, k=1)):
        assert len(retriever.invoke(FOLLOW_UP)) == 1
    with pytest.raises(ConfigurationError, match="accepts no settings with an AdvancedRetriever, got k"):
        history_aware(inner, k=2)
    with pytest.raises(ValueError, match="fuse"):
        history_aware(inner.retriever, fuse=True)


# -- Documents as they were stored ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_documents_are_returned_as_they_were_stored(store, other, kind):
    """By default every retriever returns Documents equal to the stored ones, without added metadata."""
    stored = {document.id: document for document in documents()}
    for vector_store in (store, other):
        for question in ("red roadster", "coal", "What sleeps?"):
            result = kind(vector_store).invoke(question)
            assert result
            assert result == [stored[document.id] for document in result]


@pytest.mark.parametrize("kind", RETRIEVERS)
async def test_scores_are_returned_on_request(store, kind):
    """Scores are added on request, by the setting or per call, and retrieve always adds them."""
    retriever = kind(store, k=2, as_of=AS_OF)
    (first, *_) = hits = retriever.retrieve("red roadster").hits
    scores = {"relevance_score": pytest.approx(first.score), "score": pytest.approx(first.score)}
    plain = documents()[0].metadata
    for result in (
        retriever.invoke("red roadster", return_scores=True),
        await retriever.ainvoke("red roadster", annotate="score"),
        kind(store, k=2, annotate="score", as_of=AS_OF).invoke("red roadster"),
    ):
        assert result[0].metadata == {**plain, **scores}
    annotated = retriever.invoke("red roadster", annotate="all")
    relevance = [document.metadata["relevance_score"] for document in annotated]
    assert relevance == pytest.approx([hit.score for hit in hits])
    assert annotated[0].metadata.keys() == retriever.retrieve("red roadster")[0].metadata.keys()
    noted = kind(store, k=2, annotate="all")
    assert noted.invoke("red roadster")[0].metadata.keys() == annotated[0].metadata.keys()
    assert noted.invoke("red roadster", annotate="none")[0].metadata == plain
    with pytest.raises(ValueError, match="annotate"):
        retriever.invoke("red roadster", annotate="some")


# -- classes around a retriever ------------------------------------------------------------------------------------


def test_merger_and_ensemble_retriever(store):
    """EnsembleRetriever merges equal Documents from this package's retriever and the store's own retriever."""
    plain = store.as_retriever(search_kwargs={"k": 3})
    merged = MergerRetriever(retrievers=[HybridRetriever(store, k=3), plain]).invoke("red roadster")
    assert merged[0] == merged[1]
    for id_key in (None, "source"):
        ensemble = EnsembleRetriever(retrievers=[HybridRetriever(store, k=5), plain], weights=[0.5, 0.5], id_key=id_key)
        documents = ensemble.invoke("red roadster")
        assert documents[0].id == "roadster"
        assert len(ids(documents)) == len(set(ids(documents)))


def test_create_retriever_tool(store):
    """create_retriever_tool returns the hits' texts, or formats each hit with a document prompt."""
    tool = create_retriever_tool(HybridRetriever(store, k=1), "cars", "Finds cars.")
    assert tool.invoke({"query": "red roadster"}) == TEXTS["roadster"][0]
    prompt = PromptTemplate.from_template("{source} ({year}): {page_content}")
    tool = create_retriever_tool(HybridRetriever(store, k=1), "cars", "Finds cars.", document_prompt=prompt)
    assert tool.invoke({"query": "red roadster"}) == "roadster.md (2020): " + TEXTS["roadster"][0]
