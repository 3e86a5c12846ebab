"""Local server for OpenAI's chat completions, for tests of real clients with fixed replies."""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """Reply of the server.

    ``content`` is a text, or a value that is sent in the form the request expects: as a call of its tool, or as JSON.
    ``tool`` is the tool to call, by default the first one; ``arguments`` are the arguments of the call as a string,
    valid JSON or not. A ``status`` other than 200 is an error, and ``raw`` is the body to send unchanged. A reply
    that ``hangs`` is sent only when the server is closed.
    """

    content: Any = ""
    status: int = 200
    hangs: bool = False
    arguments: str | None = None
    tool: str | None = None
    raw: bytes | None = None


class OpenAIServer:
    """Server at ``url`` until it is closed; ``requests`` are the request bodies received, in order. ``has_request`` is
    set by the first request.

    ``answer`` is one reply to every request, a sequence whose last reply repeats, or a function of the request's
    body. A reply is a :class:`Reply` or the value of its ``content``.
    """

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.has_request = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._http.block_on_close = False
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> "OpenAIServer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()

    def chat_model(self, **options: Any) -> Any:
        """Return LangChain's own client for this server, without retries by default."""
        from langchain_openai import ChatOpenAI

        return ChatOpenAI(**{"base_url": self.url, "api_key": "none", "model": "test", "max_retries": 0, **options})

    def _reply(self, request: dict[str, Any]) -> Reply:
        with self._lock:
            self.requests.append(request)
            place = len(self.requests) - 1
        self.has_request.set()
        answer = self._answer
        if isinstance(answer, Callable):
            answer = answer(request)
        elif isinstance(answer, Sequence) and not isinstance(answer, str):
            answer = answer[min(place, len(answer) - 1)]
        return answer if isinstance(answer, Reply) else Reply(answer)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reply = server._reply(request)
                if reply.hangs:
                    server._closing.wait()
                try:
                    self._send(request, reply)
                except OSError:
                    self.close_connection = True  # the client gave up

            def _send(self, request: dict[str, Any], reply: Reply) -> None:
                if self.path != "/v1/chat/completions":
                    reply = Reply(f"no such path: {self.path}", 404)
                if reply.raw is not None:
                    self._write(reply.status, "application/json", reply.raw)
                elif reply.status != 200:
                    error = {"error": {"message": str(reply.content), "type": "test", "code": None, "param": None}}
                    self._write(reply.status, "application/json", json.dumps(error).encode())
                elif request.get("stream"):
                    self._write(200, "text/event-stream", _events(request, reply))
                else:
                    self._write(200, "application/json", json.dumps(_completion(request, reply)).encode())

            def _write(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        return Handler


def material(request: dict[str, Any]) -> Any:
    """Return the JSON in the last message of a request."""
    return json.loads(request["messages"][-1]["content"])


def _message(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    as_text = reply.content if isinstance(reply.content, str) else json.dumps(reply.content)
    tools = request.get("tools")
    if tools is None or (isinstance(reply.content, str) and reply.arguments is None):
        return {"role": "assistant", "content": as_text, "refusal": None}
    function = {"name": reply.tool or tools[0]["function"]["name"], "arguments": reply.arguments or as_text}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def _completion(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message = _message(request, reply)
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": _reason(message), "logprobs": None}
    return {**_envelope("chat.completion"), "choices": [choice], "usage": usage}


def _events(request: dict[str, Any], reply: Reply) -> bytes:
    """Yield the reply in pieces of a few characters, as server-sent events."""
    message = _message(request, reply)
    deltas = [{"role": "assistant", "content": ""}]
    if message.get("tool_calls"):
        call = message["tool_calls"][0]
        start = {**call, "index": 0, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [start]})
        pieces = _pieces(call["function"]["arguments"])
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    else:
        deltas += [{"content": piece} for piece in _pieces(message["content"])]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": _reason(message)})
    chunks = [{**_envelope("chat.completion.chunk"), "choices": [choice]} for choice in choices]
    return b"".join(f"data: {event}\n\n".encode() for event in [*map(json.dumps, chunks), "[DONE]"])


def _pieces(text: str, size: int = 7) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _reason(message: dict[str, Any]) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "test", "object": kind, "created": 1_767_225_600, "model": "test"}
