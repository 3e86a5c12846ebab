"""The server is what its clients take it for: langchain-openai understands all that it can say."""

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
    """One completion, and the request as the server saw it."""
    with OpenAIServer("A roadster.") as server:
        assert server.chat_model().invoke("Which car?").content == "A roadster."
        assert server.requests[0]["messages"] == [{"role": "user", "content": "Which car?"}]


def test_replies_in_turn():
    """One reply after the other, the last for all that follows; or what a function says."""
    with OpenAIServer(["a", "b"]) as server:
        assert [server.chat_model().invoke("x").content for _ in range(3)] == ["a", "b", "b"]
    with OpenAIServer(lambda request: request["messages"][-1]["content"] * 2) as server:
        assert server.chat_model().invoke("x").content == "xx"


def test_a_stream():
    """A text comes in pieces which make it up, sync and async."""
    with OpenAIServer("A red roadster, with wheels.") as server:
        pieces = [piece.content for piece in server.chat_model().stream("Which car?")]
    assert len(pieces) > 3
    assert "".join(pieces) == "A red roadster, with wheels."


async def test_a_stream_awaited():
    """The asynchronous client reads the same pieces."""
    with OpenAIServer("A red roadster, with wheels.") as server:
        assert (
            "".join([piece.content async for piece in server.chat_model().astream("?")])
            == "A red roadster, with wheels."
        )


@pytest.mark.parametrize("streaming", [False, True])
def test_a_tool_call(streaming):
    """A value becomes a call of the tool that the request names, whole or in pieces; a text stays a text."""
    with OpenAIServer([{"car": "roadster"}, "It costs 200."]) as server:
        model = server.chat_model(streaming=streaming).bind_tools([price])
        request = model.invoke("And its price?")
        assert [(call["name"], call["args"]) for call in request.tool_calls] == [("price", {"car": "roadster"})]
        reply = model.invoke([("user", "And its price?"), request, price.invoke(request.tool_calls[0])])
        assert reply.content == "It costs 200."


def test_broken_arguments():
    """The client takes them for an invalid tool call."""
    with OpenAIServer(Reply(arguments='{"car": ')) as server:
        answer = server.chat_model().bind_tools([price]).invoke("?")
        assert isinstance(answer, AIMessage)
        assert [call["args"] for call in answer.invalid_tool_calls] == ['{"car": ']


@pytest.mark.parametrize(("status", "error"), [(429, openai.RateLimitError), (500, openai.InternalServerError)])
def test_an_error(status, error):
    """The client raises what OpenAI's status means, with the message."""
    with OpenAIServer(Reply("so it is", status)) as server, pytest.raises(error, match="so it is"):
        server.chat_model().invoke("x")


def test_a_slow_answer():
    """The client's own timeout bites; closing the server waits for nobody."""
    with OpenAIServer(Reply("late", delay=60)) as server, pytest.raises(openai.APITimeoutError):
        server.chat_model(timeout=0.2).invoke("x")
