"""langchain-openai works with the fixed replies of the local server."""

import openai
import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from tests.support.servers.openai_server import OpenAIServer, Reply


@tool
def price(car: str) -> str:
    """Price of a car."""
    return "200"


def test_a_text():
    """A string is the content of the completion, and the server records the request."""
    with OpenAIServer("A roadster.") as server:
        assert server.chat_model().invoke("Which car?").content == "A roadster."
        assert server.requests[0]["messages"] == [{"role": "user", "content": "Which car?"}]


def test_replies_in_turn():
    """The replies of a sequence are sent in order and the last one repeats; a function can make the reply."""
    with OpenAIServer(["a", "b"]) as server:
        assert [server.chat_model().invoke("x").content for _ in range(3)] == ["a", "b", "b"]
    with OpenAIServer(lambda request: request["messages"][-1]["content"] * 2) as server:
        assert server.chat_model().invoke("x").content == "xx"


def test_a_stream():
    """A streamed text arrives in several pieces."""
    with OpenAIServer("A red roadster, with wheels.") as server:
        pieces = [piece.content for piece in server.chat_model().stream("Which car?")]
    assert len(pieces) > 3
    assert "".join(pieces) == "A red roadster, with wheels."


async def test_a_stream_awaited():
    """The asynchronous client receives the same text in pieces."""
    with OpenAIServer("A red roadster, with wheels.") as server:
        assert (
            "".join([piece.content async for piece in server.chat_model().astream("?")])
            == "A red roadster, with wheels."
        )


@pytest.mark.parametrize("streaming", [False, True])
def test_a_tool_call(streaming):
    """A value is sent as a call of the request's tool, streamed or not, and a string as content."""
    with OpenAIServer([{"car": "roadster"}, "It costs 200."]) as server:
        model = server.chat_model(streaming=streaming).bind_tools([price])
        request = model.invoke("And its price?")
        assert [(call["name"], call["args"]) for call in request.tool_calls] == [("price", {"car": "roadster"})]
        reply = model.invoke([("user", "And its price?"), request, price.invoke(request.tool_calls[0])])
        assert reply.content == "It costs 200."


def test_broken_arguments():
    """Arguments that are not valid JSON become an invalid tool call."""
    with OpenAIServer(Reply(arguments='{"car": ')) as server:
        answer = server.chat_model().bind_tools([price]).invoke("?")
        assert isinstance(answer, AIMessage)
        assert [call["args"] for call in answer.invalid_tool_calls] == ['{"car": ']


@pytest.mark.parametrize(("status", "error"), [(429, openai.RateLimitError), (500, openai.InternalServerError)])
def test_an_error(status, error):
    """An error status raises the client's exception with the server's message."""
    with OpenAIServer(Reply("so it is", status)) as server, pytest.raises(error, match="so it is"):
        server.chat_model().invoke("x")


def test_a_slow_answer():
    """A slow reply raises the client's timeout, and closing the server does not wait for it."""
    with OpenAIServer(Reply("late", hangs=True)) as server, pytest.raises(openai.APITimeoutError):
        server.chat_model(timeout=0.2).invoke("x")
