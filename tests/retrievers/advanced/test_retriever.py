"""AdvancedRetriever over this package's retrievers and others, alone and in chains."""

import asyncio
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.conversation import AppendHistory, HistoryTerms, LLMRewrite
from tests.support.models.function_retriever import FunctionRetriever
from tests.support.samples.cars import HISTORY, TEXTS, WHOLE, Words, rewrite
from tests.support.samples.document_lists import ids


class Failing(Words):
    """Retriever that fails for queries longer than ``longest``."""

    longest: int = 20

    def _get_relevant_documents(self, query, *, run_manager):
        if len(query) > self.longest:
            raise OSError("too long")
        return super()._get_relevant_documents(query, run_manager=run_manager)


# -- with and without a history -----------------------------------------------------------------------------------


@pytest.mark.parametrize("history", [None, [], [""], [HumanMessage("and its price?")]])
def test_without_a_history_the_answer_is_the_retrievers(hybrid, history):
    """Without a history, AdvancedRetriever returns the inner retriever's result for the unchanged query."""
    result = AdvancedRetriever(hybrid).retrieve_with_context("and its price?", history)
    assert result == hybrid.retrieve("and its price?")
    assert (result.plan["expanded_query"], result.plan["searched"]) == ("and its price?", "raw")


@pytest.mark.parametrize("text", ["Thanks, that's all!", "Danke, das war's!"])
@pytest.mark.parametrize("history", [None, HISTORY], ids=["alone", "in a conversation"])
def test_small_talk_is_not_searched(hybrid, store, text, history):
    """A message that is only a greeting, thanks or a goodbye has an empty answer, unless there is a vector."""
    retriever = AdvancedRetriever(hybrid)
    result = retriever.retrieve_with_context(text, history)
    assert (list(result), result.degraded, result.plan["searched"]) == ([], ("small-talk",), "none")
    assert result.warnings == ()
    assert asyncio.run(retriever.aretrieve_with_context(text, history)) == result
    assert list(retriever.stream({"input": text, "chat_history": history})) == [[]]
    assert len(retriever.retrieve_with_context(text, history, vector=store.embeddings.embed_query("red car"))) > 0


def test_ten_thousand_turns_are_read_at_their_ends(hybrid):
    """The context of ten thousand turns contains only the first question, the last question and the last answer."""
    turns = [*HISTORY, *["User: Really?", "Assistant: Yes."] * 5_000]
    result = AdvancedRetriever(hybrid, k=1).retrieve_with_context("how fast?", turns)
    assert ids(result) == ["roadster"]
    assert result.plan["context"] == "Which car is red? Really? Yes."


def test_a_complete_question_is_not_changed(hybrid):
    """A complete question on a new topic gives the same result as without a history."""
    query = "Which flour and salt does bread need in winter?"
    assert AdvancedRetriever(hybrid).retrieve_with_context(query, HISTORY) == hybrid.retrieve(query)


@pytest.mark.parametrize("is_async", [False, True])
def test_missing_words_of_a_question_come_from_the_conversation(hybrid, is_async):
    """Words that a follow-up question leaves out are taken from the conversation; its hits are not clearly worse."""
    retriever = AdvancedRetriever(hybrid)
    for query, text in (("and how fast?", "and how fast? car red Tesla roadster"), ("How large?", None)):
        if is_async:
            result = asyncio.run(retriever.aretrieve_with_context(query, HISTORY, k=1))
        else:
            result = retriever.retrieve_with_context(query, HISTORY, k=1)
        assert (ids(result), result.plan["searched"], result.plan["query"]) == (["roadster"], "mixed", query)
        assert text is None or (result.plan["expanded_query"], result.plan["weight"]) == (text, 0.5)


def test_the_vector_is_between_question_and_context(hybrid, store):
    """The search vector is the weighted mean of the question's and the context's unit vectors, and LSA also searches
    for context words.
    """
    retriever = AdvancedRetriever(hybrid, expander=HistoryTerms(weight=0.2))
    result = retriever.retrieve_with_context("and its price?", HISTORY)
    question, context = (store.embeddings.embed_query(text) for text in ("and its price?", result.plan["context"]))
    mixed = [0.8 * a + 0.2 * b for a, b in zip(question, context, strict=True)]
    assert result.plan["expanded_query"] == "and its price? car red Tesla roadster"
    text = "and its price? and its price? car red Tesla roadster"
    expected = hybrid.retrieve(text, vector=mixed)
    assert ids(result) == ids(expected)
    cosines = [hit.vector_score for hit in expected.hits]
    assert [hit.vector_score for hit in result.hits] == pytest.approx(cosines, abs=1e-6)
    assert ids(retriever.retrieve_with_context("and its price?", HISTORY, vector=question)) == ids(result)
    assert retriever.retrieve_with_context(None, HISTORY, vector=question).degraded == ("no-query-text",)


def test_a_question_on_a_new_topic_is_searched_alone(hybrid):
    """If the raw question's best hit is clearly better than that of the mixed vector, the raw question's hits are
    returned.
    """
    result = AdvancedRetriever(hybrid).retrieve_with_context("What has salt water?", HISTORY)
    own = hybrid.retrieve("What has salt water?")
    assert (ids(result), result.plan["searched"]) == (ids(own), "raw")
    assert [hit.score for hit in result.hits] == pytest.approx([hit.score for hit in own.hits], abs=1e-6)
    assert ids(result)[0] == "sea"


@pytest.mark.parametrize("fuse_raw", [None, False])
def test_over_a_foreign_retriever_both_are_searched(fuse_raw):
    """Over a foreign retriever, the raw and the expanded question are searched, or only this with fuse_raw=False."""
    words = Words()
    result = AdvancedRetriever(words, fuse_raw=fuse_raw).retrieve_with_context("and its price?", HISTORY)
    text = "and its price? car red Tesla roadster"
    assert sorted(words.queries) == ["and its price?", text][fuse_raw is False :]
    assert result.plan["searched"] == ("both" if fuse_raw is None else "expanded")
    assert set(ids(result)) == set(ids(words.invoke(text)))


def test_a_rewrite_replaces_the_question(hybrid):
    """A rewritten question is searched instead of the original, over this package's retrievers and others."""
    for below in (hybrid, Words()):
        result = AdvancedRetriever(below, expander=rewrite()).retrieve_with_context("and its price?", HISTORY)
        assert (result.plan["searched"], ids(result)) == ("expanded", ids(below.invoke(WHOLE)))


# -- explain ----------------------------------------------------------------------------------------------


def test_explain_shows_the_question_searched(hybrid):
    """explain shows the question that was searched, and the inner retriever's explanation or at least the texts."""
    lines = AdvancedRetriever(hybrid, expander=rewrite()).explain("and its price?", HISTORY, k=1).splitlines()
    assert lines[:2] == [f"Searched for: {WHOLE}", "and its price?"]
    assert lines[2].startswith("1 hit in ")
    assert AdvancedRetriever(hybrid).explain("What has salt water?", k=1).startswith("What has salt water?\n1 hit in ")
    assert AdvancedRetriever(Words(), k=1).explain("coal trains") == f"coal trains\n1. {TEXTS['train']}"


# -- options ------------------------------------------------------------------------------------------------------


def test_options_of_a_call_reach_the_retriever(hybrid):
    """A filter given in a call applies to every hit, whether one question or two are searched."""
    for retriever in (AdvancedRetriever(hybrid), AdvancedRetriever(hybrid, expander=AppendHistory())):
        result = retriever.invoke({"input": "and its price?", "chat_history": HISTORY}, filter={"n": {"$gt": 2}})
        assert result
        assert all(document.metadata["n"] > 2 for document in result)


def test_options_of_a_graph_search_reach_the_retriever(store):
    """A follow-up question may be searched for with options of the graph, as a mapping."""
    retriever = AdvancedRetriever(GraphRetriever(store), k=1)
    result = retriever.retrieve_with_context("and its price?", HISTORY, graph={"seed_k": 3})
    assert (ids(result), result.plan["searched"]) == (["roadster"], "mixed")


def test_a_misspelt_option_is_an_error_with_a_suggestion(hybrid):
    """A misspelt option or key of the input raises an error that suggests the correct one."""
    retriever = AdvancedRetriever(hybrid)
    message = "AdvancedRetriever(HybridRetriever) does not take filtre per call; did you mean 'filter'?"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
        retriever.retrieve("why?", filtre={"n": 1})
    with pytest.raises(TypeError, match=r"did you mean 'conversation_history'\?"):
        retriever.retrieve("and its price?", conversation_histroy=HISTORY)
    with pytest.raises(TypeError, match=r"per call; write retriever.invoke\(query, conversation_history=history\)$"):
        retriever.retrieve("and its price?", chat_history=HISTORY * 7)
    with pytest.raises(ConfigurationError, match="has the key 'history_chat'; did you mean 'history'"):
        retriever.invoke({"input": "and its price?", "history_chat": HISTORY})
    with pytest.raises(ValueError, match="unknown"):
        retriever.retrieve_with_context("and its price?", HISTORY, filter={"n": {"$unknown": 1}})


def test_an_option_that_the_retriever_does_not_take_is_an_error(store):
    """An option that the inner retriever, or no search of its vector store, accepts raises TypeError."""
    with pytest.raises(TypeError, match=r"AdvancedRetriever\(Words\) does not take filter per call"):
        AdvancedRetriever(Words()).invoke("why?", filter={"n": 1})
    plain = InMemoryVectorStore.from_texts(list(TEXTS.values()), store.embeddings)
    retriever = AdvancedRetriever(plain.as_retriever())
    with pytest.raises(TypeError, match=r"VectorStoreRetriever\) does not take fliter, as_of per call"):
        retriever.invoke("why?", fliter=None, as_of="2020-01-01")
    only = retriever.invoke("coal trains", filter=lambda document: "Trains" in document.page_content)
    assert [document.page_content for document in only] == [TEXTS["train"]]


def test_k_cuts_the_answer_of_a_retriever_without_k(store):
    """k limits the hits of an inner retriever that does not accept k, and is passed on to a vector store's."""
    assert len(AdvancedRetriever(Words(), k=1).invoke("salt water")) == 1
    assert len(AdvancedRetriever(Words(), k=1).invoke("salt water", k=2)) == 2
    plain = InMemoryVectorStore.from_texts(list(TEXTS.values()), store.embeddings)
    assert len(AdvancedRetriever(plain.as_retriever()).invoke("and its price?", k=5)) == 5


@pytest.mark.parametrize(
    "wrong", [{"k": -1}, {"k": True}, {"conversation_history": "User: red car"}, {"conversation_history": [7]}]
)
def test_invalid_values_are_errors(hybrid, wrong):
    """An invalid k or conversation_history in a call raises ConfigurationError."""
    with pytest.raises(ConfigurationError):
        AdvancedRetriever(hybrid).retrieve("and its price?", **wrong)


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"expander": "history"}, "expander"), ({"fuse": True}, "fuse"), ({"expander": HistoryTerms}, "object itself")],
)
def test_invalid_settings_are_rejected(hybrid, setting, message):
    """Invalid settings, such as an expander's class instead of an instance, are rejected at construction."""
    with pytest.raises(ValueError, match=message):
        AdvancedRetriever(hybrid, **setting)


# -- failures -----------------------------------------------------------------------------------------------------


def broken(query, history):
    raise OSError("no model")


@pytest.mark.parametrize("expander", [broken, lambda query, history: None, LLMRewrite(RunnableLambda(lambda _: ""))])
def test_an_expander_that_fails_leaves_the_raw_question(hybrid, expander):
    """If the expander fails, the raw question is searched and expander-failed is reported in result, metadata and
    statistics.
    """
    retriever = AdvancedRetriever(hybrid, expander=expander)
    result = retriever.retrieve_with_context("and its price?", HISTORY)
    assert ids(result) == ids(hybrid.retrieve("and its price?"))
    assert result.degraded == ("expander-failed",)
    assert result[0].metadata["degraded"] == ["expander-failed"]
    assert "expander" in result.plan["errors"]
    assert retriever.get_retrieval_stats()["degraded"] == {"expander-failed": 1}
    assert "degraded" not in retriever.invoke({"input": "and its price?", "chat_history": HISTORY})[0].metadata


def test_one_of_two_searches_may_fail():
    """If one of two fused searches fails, the other's hits are returned and the result reports conversation-failed."""
    result = AdvancedRetriever(Failing()).retrieve_with_context("and its price?", HISTORY)
    assert ids(result) == ids(Words().invoke("and its price?"))
    assert result.degraded == ("conversation-failed",)


def test_a_reranker_receives_the_expanded_question(store):
    """A reranker receives the expanded question, because it does not see the mixed vector."""
    read = []
    hybrid = HybridRetriever(store, reranker=lambda query, texts: read.append(query) or [0.5] * len(texts))
    AdvancedRetriever(hybrid).retrieve_with_context("and how fast?", HISTORY)
    assert read == ["and how fast? car red Tesla roadster"]


def test_when_all_searches_fail_the_call_fails():
    """If all searches fail, the inner retriever's own error is raised and counted."""
    retriever = AdvancedRetriever(Failing(longest=1))
    with pytest.raises(OSError, match="too long"):
        retriever.retrieve_with_context("and its price?", HISTORY)
    assert retriever.get_retrieval_stats()["errors"] == {"OSError": 1}


# -- sessions -----------------------------------------------------------------------------------------------------


def test_the_history_of_the_session_is_used(hybrid):
    """The history is that of the session or thread of the call or configuration, unless the call passes a history."""
    retriever = AdvancedRetriever(hybrid, get_session_history={"a": HISTORY, "7": HISTORY}.get)
    assert "roadster" in retriever.retrieve("and how fast?", session_id="a").plan["expanded_query"]
    assert retriever.retrieve("and how fast?").plan["expanded_query"] == "and how fast?"
    assert retriever.retrieve_with_context("and how fast?", [], session_id="a").plan["searched"] == "raw"
    for configurable, session in (({"thread_id": 7}, "7"), ({"thread_id": "b", "session_id": "a"}, "a")):
        configured = retriever.invoke("and its price?", {"configurable": configurable})
        assert ids(configured) == ids(retriever.retrieve("and its price?", session_id="a"))
        assert retriever.history_for(session)[-1] == "and its price?"
    assert retriever.history_for("b") == []


def test_a_pickle_contains_no_texts_of_calls(tmp_path):
    """Neither queries nor messages of a session are pickled; the copy finds the same texts."""
    with HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", path=tmp_path / "index") as store:
        retriever = AdvancedRetriever(MemoryRetriever(store), k=1)
        session = [HumanMessage("Roadster? zebra")]
        before = retriever.invoke("Which car is red? quagga", session=session)
        pickled = pickle.dumps(retriever)
        copy = pickle.loads(pickled)
        assert (b"quagga" in pickled, b"zebra" in pickled) == (False, False)
        assert (retriever.query_history, copy.query_history) == (["Which car is red? quagga"], [])
        assert ids(copy.invoke("Which car is red? quagga", session=session)) == ids(before)


def test_concurrent_sessions_do_not_mix():
    """Concurrent calls of one retriever, in threads and tasks, each use their own conversation."""
    together = threading.Barrier(4)

    def expander(query, history):
        together.wait(120)
        return f"{query} {history[0].text}"

    retriever = AdvancedRetriever(
        FunctionRetriever(find=lambda query: [Document(query)]), expander=expander, fuse_raw=False
    )
    questions = [f"why? topic {n}" for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        queries = [
            pool.submit(retriever.retrieve_with_context, "why?", [f"topic {n}"], session_id=str(n)) for n in range(4)
        ]
        assert [one.result()[0].page_content for one in queries] == questions

    async def all_at_once():
        calls = [retriever.aretrieve_with_context("why?", [f"topic {n}"], session_id=str(n)) for n in range(4)]
        return [result[0].page_content for result in await asyncio.gather(*calls)]

    assert asyncio.run(all_at_once()) == questions
    assert [retriever.history_for(str(n)) for n in range(4)] == [["why?", "why?"]] * 4


# -- as a Runnable ------------------------------------------------------------------------------------------------


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
MESSAGES = [HumanMessage("Which car is red?"), AIMessage("The roadster by Tesla is red.")]


@pytest.mark.parametrize(
    "input",
    [
        {"input": "and how fast?", "chat_history": HISTORY, "other": 1},
        [*MESSAGES, HumanMessage([IMAGE, "and how fast?"])],
        {
            "messages": [
                *MESSAGES,
                HumanMessage("and how fast?"),
                AIMessage("Let me look at trains that carry coal."),
                AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
                ToolMessage("Trains carry coal.", tool_call_id="1"),
            ]
        },
    ],
)
def test_inputs_of_a_chain(hybrid, input):
    """The input may be a mapping or a list of messages, whose last user message is the question."""
    retriever = AdvancedRetriever(hybrid, k=1)
    assert ids(retriever.invoke(input)) == ["roadster"]
    assert retriever.query_history == ["and how fast?"]


@pytest.mark.parametrize("input", [{"text": "why?"}, {}, [], 7, [AIMessage("")], [AIMessage("It is red.")]])
def test_an_input_without_a_question_is_an_error(hybrid, input):
    """An input without a question raises ConfigurationError, but a single message is always the question."""
    with pytest.raises(ConfigurationError):
        AdvancedRetriever(hybrid).invoke(input)
    assert ids(AdvancedRetriever(hybrid, k=1).invoke(AIMessage("trains that carry coal"))) == ["train"]


def call(**arguments):
    return {"name": "cars", "args": arguments, "id": "1", "type": "tool_call"}


def test_as_a_tool(hybrid, store):
    """A tool takes the conversation, or uses the thread_id as the session, and a filter only if the retriever does."""
    for retriever, n in ((hybrid, 4), (Words(), 3), (InMemoryVectorStore(store.embeddings).as_retriever(), 4)):
        assert len(AdvancedRetriever(retriever).as_tool().args) == n
    tool = AdvancedRetriever(hybrid, k=1).as_tool()
    message = tool.invoke({"query": "How large?", "conversation_history": HISTORY})
    assert message.splitlines()[2] == TEXTS["roadster"]
    tool = AdvancedRetriever(hybrid, k=1, get_session_history={"a": HISTORY}.get).as_tool(name="cars")
    assert set(tool.args) == {"query", "k", "filter"}
    message = tool.invoke(call(query="and how fast?"), {"configurable": {"thread_id": "a"}})
    assert (ids(message.artifact), message.content.splitlines()[2]) == (["roadster"], TEXTS["roadster"])
    assert ids(tool.invoke(call(query="salt", k=3, filter={"n": {"$lt": 5}})).artifact)[0] == "bread"


def test_from_documents_store_and_config(store, tmp_path):
    """from_documents, from_store and from_config make the inner retriever and pass each setting to the right one."""
    retriever = AdvancedRetriever.from_documents([Document("coal", id="a")], "lsa", k=3, fuse_raw=False)
    assert (retriever.retriever.k, retriever.fuse_raw, ids(retriever.invoke("coal"))) == (3, False, ["a"])
    assert AdvancedRetriever.from_store(store, expander=HistoryTerms(weight=0.2)).expander.weight == 0.2
    (tmp_path / "h.yaml").write_text("retriever_k: 2\n")
    assert AdvancedRetriever.from_config(tmp_path / "h.yaml", store=store).retriever.k == 2


# -- input and config schemas -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["input", "query", "question", "messages"])
@pytest.mark.parametrize("history_key", ["chat_history", "history"])
def test_inputs_allowed_by_the_schema_can_be_invoked(hybrid, key, history_key):
    """Every input key in the schema can be invoked and gives the same documents."""
    retriever = AdvancedRetriever(hybrid)
    expected = ids(retriever.retrieve_with_context("How large?", HISTORY))
    assert expected[0] == "roadster"
    input = {key: "How large?", history_key: HISTORY}
    jsonschema.validate(input, retriever.get_input_jsonschema())
    assert ids(retriever.invoke(input)) == expected
    assert ids(retriever.invoke(retriever.input_schema.model_validate(input).root)) == expected
    messages = [*HISTORY, "User: How large?"]
    for whole in (messages, {"messages": messages}):
        jsonschema.validate(whole, retriever.get_input_jsonschema())
        assert ids(retriever.invoke(retriever.input_schema.model_validate(whole).root)) == expected
