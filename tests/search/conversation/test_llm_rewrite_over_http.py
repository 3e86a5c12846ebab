"""Questions rewritten by a model that is called through langchain-openai."""

import openai
import pytest
from langchain_core.tools import tool

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.conversation import LLMRewrite, turns
from tests.support.samples.clock import PATIENCE
from tests.support.servers.openai_server import OpenAIServer, Reply, material

HISTORY = ["User: Which car is red?", "Assistant: The roadster."]
WHOLE = "What does the roadster cost?"
TEXTS = {"roadster": "The roadster costs 200,000.", "van": "The van costs 9,000.", "trains": "Trains are slow."}
FAILURES = [
    Reply("rate limit", 429),
    Reply("broken", 500),
    Reply("who are you?", 401),
    Reply(raw=b'{"choices": ['),
    Reply(raw=b"<html>bad gateway</html>"),
    Reply(raw=b"{}"),
    Reply(""),
    Reply(WHOLE, hangs=True),
]


@pytest.fixture(scope="module")
def cars():
    with HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS)) as store:
        yield HybridRetriever(store, k=1)


@pytest.mark.parametrize("streaming", [False, True])
async def test_over_http(streaming):
    """The model receives the conversation as JSON and its question is returned, with and without streaming, sync and
    async.
    """
    with OpenAIServer(WHOLE) as server:
        rewrite = LLMRewrite(server.chat_model(streaming=streaming))
        assert rewrite("and its price?", turns(HISTORY)).text == WHOLE
        assert (await rewrite.acall("and its price?", turns(HISTORY))).text == WHOLE
        assert [bool(request.get("stream")) for request in server.requests] == [streaming] * 2
        assert [answer["text"] for answer in material(server.requests[0])["conversation"]] == [
            "Which car is red?",
            "The roadster.",
        ]


@pytest.mark.parametrize("streaming", [False, True])
def test_a_call_of_a_tool_is_not_a_question(streaming):
    """A model that calls a tool instead of rewriting raises ValueError."""

    @tool
    def price(car: str) -> str:
        """Return the price of a car."""
        return "200"

    with OpenAIServer({"car": "roadster"}) as server:
        model = server.chat_model(streaming=streaming).bind_tools([price])
        with pytest.raises(ValueError, match="question"):
            LLMRewrite(model)("and its price?", turns(HISTORY))


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply("slow down", 429), openai.RateLimitError),
        (Reply("broken", 500), openai.InternalServerError),
        (Reply(WHOLE, hangs=True), TimeoutError),
        (Reply(""), ValueError),
    ],
)
async def test_an_expander_called_alone_raises(reply, error):
    """Outside a retriever, a failed rewrite raises the model's error, TimeoutError or ValueError."""
    with OpenAIServer(reply) as server:
        rewrite = LLMRewrite(server.chat_model(), timeout=0.05 if reply.hangs else PATIENCE)
        with pytest.raises(error):
            rewrite("and its price?", turns(HISTORY))
        with pytest.raises(error):
            await rewrite.acall("and its price?", turns(HISTORY))


@pytest.mark.parametrize("reply", FAILURES)
async def test_failures_over_http_leave_the_raw_question(cars, reply):
    """After any failure of the model, the retriever searches for the user's question and reports the failure."""
    raw = [document.id for document in cars.invoke("what costs 9,000?")]
    assert raw
    with OpenAIServer(reply) as server:
        rewrite = LLMRewrite(server.chat_model(), timeout=0.05 if reply.hangs else PATIENCE)
        talk = AdvancedRetriever(cars, expander=rewrite)
        for result in (
            talk.retrieve_with_context("what costs 9,000?", HISTORY),
            await talk.aretrieve_with_context("what costs 9,000?", HISTORY),
        ):
            assert [document.id for document in result] == raw
            assert result.degraded == ("expander-failed",)


async def test_in_a_retriever(cars):
    """A retriever searches for the rewritten question in sync and async calls, also after status 429."""
    with OpenAIServer([Reply("slow down", 429), WHOLE, WHOLE]) as server:
        talk = AdvancedRetriever(cars, expander=LLMRewrite(server.chat_model(max_retries=1)))
        for result in (
            talk.retrieve_with_context("and its price?", HISTORY),
            await talk.aretrieve_with_context("and its price?", HISTORY),
        ):
            assert (result[0].id, result.plan["expanded_query"], result.degraded) == ("roadster", WHOLE, ())
        assert len(server.requests) == 3


def test_without_a_conversation_no_model_is_called(cars):
    """A question without a conversation is searched without calling the model."""
    with OpenAIServer(WHOLE) as server:
        AdvancedRetriever(cars, expander=LLMRewrite(server.chat_model())).invoke("What costs 9,000?")
        assert server.requests == []
