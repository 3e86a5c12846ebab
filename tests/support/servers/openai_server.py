"""Local server for OpenAI's chat completions, for tests of real clients with fixed replies."""

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.servers.running_service import running


@dataclass(frozen=True)
class Reply:
    """Reply of the server.

    ``content`` is a text, or a value that is sent in the form the request expects: as a call of its tool, or as JSON.
    ``arguments`` are the arguments of the call as a string, valid JSON or not. A ``status`` other than 200 is an error,
    and ``raw`` is the body to send unchanged. A reply that ``hangs`` is sent only when the server is closed.
    """

    content: Any = ""
    status: int = 200
    hangs: bool = False
    arguments: str | None = None
    raw: bytes | None = None


class OpenAIServer:
    """Server at ``url`` while its context is open; ``requests`` are the request bodies received, in order.
    ``has_request`` is set by the first request.

    ``answer`` is one reply to every request, or a function of the request's body. A reply is a :class:`Reply` or the
    value of its ``content``.
    """

    def __init__(self, answer):
        self._answer = answer
        self._closing = threading.Event()
        self.requests = []
        self.has_request = threading.Event()
        self._running = running(Starlette(routes=[Route("/v1/chat/completions", self._respond, methods=["POST"])]))

    def __enter__(self):
        self.url = f"{self._running.__enter__()}/v1"
        return self

    def __exit__(self, *error):
        self._closing.set()
        self._running.__exit__(*error)

    def chat_model(self, **options):
        """Return LangChain's own client for this server, without retries by default."""
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(**{"base_url": self.url, "api_key": "none", "model": "test", "max_retries": 0, **options})

    async def _respond(self, request):
        body = await request.json()
        self.requests.append(body)
        self.has_request.set()
        answer = self._answer
        if callable(answer):
            answer = answer(body)
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        if reply.hangs:
            await asyncio.to_thread(self._closing.wait)
        if reply.raw is not None:
            return Response(reply.raw, reply.status, media_type="application/json")
        if reply.status != 200:
            error = {"message": str(reply.content), "type": "test", "code": None, "param": None}
            return JSONResponse({"error": error}, reply.status)
        message = _message(body, reply)
        if body.get("stream"):
            return Response(_events(message), media_type="text/event-stream")
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": _reason(message), "logprobs": None}
        return JSONResponse({**_envelope("chat.completion"), "choices": [choice], "usage": usage})


def material(request):
    """Return the JSON in the last message of a request."""
    return json.loads(request["messages"][-1]["content"])


def _message(request, reply):
    as_text = reply.content if isinstance(reply.content, str) else json.dumps(reply.content)
    tools = request.get("tools")
    if tools is None or (isinstance(reply.content, str) and reply.arguments is None):
        return {"role": "assistant", "content": as_text, "refusal": None}
    function = {"name": tools[0]["function"]["name"], "arguments": reply.arguments or as_text}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def _events(message):
    """Return the message in pieces of a few characters, as server-sent events."""
    deltas = [{"role": "assistant", "content": ""}]
    if message.get("tool_calls"):
        call = message["tool_calls"][0]
        deltas.append({"tool_calls": [{**call, "index": 0, "function": {**call["function"], "arguments": ""}}]})
        pieces = _pieces(call["function"]["arguments"])
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    else:
        deltas += [{"content": piece} for piece in _pieces(message["content"])]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": _reason(message)})
    chunks = [{**_envelope("chat.completion.chunk"), "choices": [choice]} for choice in choices]
    return "".join(f"data: {event}\n\n" for event in [*map(json.dumps, chunks), "[DONE]"])


def _pieces(text, size=7):
    return [text[start : start + size] for start in range(0, len(text), size)]


def _reason(message):
    return "tool_calls" if message.get("tool_calls") else "stop"


def _envelope(kind):
    return {"id": "test", "object": kind, "created": 1_767_225_600, "model": "test"}
