"""``hybridgraph serve`` serves an index as a process, indexes changed files, and refuses to be open to everyone."""

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import httpx
import pytest
from google.protobuf.json_format import ParseDict
from typer.testing import CliRunner

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.cli import serve
from langchain_hybridgraph.cli.app import app
from langchain_hybridgraph.cli.settings import IndexLocation
from langchain_hybridgraph.server.access import Limits
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.server.rpc import RetrieveEvent, RetrieveRequest
from tests.support.servers.running_service import running

ROOT = Path(__file__).parents[2]


@pytest.fixture
def index(tmp_path):
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        store.add_texts(["Ada wrote the first program.", "A parcel takes two days."], ids=["ada", "parcel"])
    return tmp_path / "index"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def serving(*arguments, port, log):
    """Run the command; the value is the process, once it is ready."""
    command = [sys.executable, "-m", "langchain_hybridgraph.cli", "serve", "--port", str(port), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with log.open("w") as output, subprocess.Popen(command, stderr=output, env=environment, cwd=log.parent) as process:
        try:
            eventually(lambda: httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200, process)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def eventually(condition, process=None, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process is None or process.poll() is None
        try:
            if condition():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the condition did not become true in time")


def texts(port, query):
    answer = httpx.post(f"http://127.0.0.1:{port}/search", json={"query": query, "k": 1}).json()
    return [document["page_content"] for document in answer["documents"]]


def test_a_process_serves_both_protocols_and_follows_a_folder(index, tmp_path):
    """A process answers over HTTP and gRPC, indexes a new file, deletes a removed one, logs JSON, and stops cleanly."""
    files, port, grpc_port, log = tmp_path / "files", free_port(), free_port(), tmp_path / "log"
    files.mkdir()
    (files / "whale.md").write_text("# Whales\n\nWhales sing long songs.\n")
    with serving("--index", index, "--watch", files, "--grpc-port", grpc_port, port=port, log=log) as process:
        assert texts(port, "whales sing") == ["# Whales\n\nWhales sing long songs."]
        with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
            call = channel.unary_stream(
                "/hybridgraph.v1.Retrieval/StreamRetrieve",
                request_serializer=RetrieveRequest.SerializeToString,
                response_deserializer=RetrieveEvent.FromString,
            )
            first, *_ = call(ParseDict({"query": "first program", "k": 1}, RetrieveRequest()), timeout=30)
            assert first.hit.id == "ada"
        (files / "owl.md").write_text("# Owls\n\nOwls hoot at night.\n")
        eventually(lambda: texts(port, "owls hoot") == ["# Owls\n\nOwls hoot at night."])
        (files / "whale.md").unlink()
        eventually(lambda: texts(port, "whales sing") != ["# Whales\n\nWhales sing long songs."])
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", headers={"Host": "evil.example"}).status_code == 400
    assert process.returncode == -signal.SIGTERM
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    requests = [line for line in lines if line["logger"] == "langchain_hybridgraph.server" and "route" in line]
    assert {"time", "level", "message", "request_id", "method", "route", "status", "took_ms"} <= requests[0].keys()
    assert "whales sing" not in log.read_text()
    assert all(line.startswith("{") for line in log.read_text().splitlines())
    assert [line["message"] for line in lines][-2:] == ["Application shutdown complete.", lines[-1]["message"]]


@pytest.mark.parametrize(("command", "path"), [(["serve", "--port"], "/"), (["mcp", "--http"], "/mcp")])
def test_a_terminal_shows_the_address(command, path, index, monkeypatch, capsys):
    """At the start, one line that is not JSON has the address."""
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    port = str(free_port())
    with pytest.raises(SystemExit):  # the server was not started
        app([*command, port, "--index", str(index)])
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("{")]
    assert lines[:-1] == [f"Serving http://127.0.0.1:{port}{path} (press Ctrl+C to stop)"]


@pytest.mark.parametrize("command", [["serve", "--port"], ["serve", "--grpc-port"], ["mcp", "--http"]], ids=" ".join)
def test_a_port_in_use(command, index):
    """If another program uses the port, one line says so, with exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = CliRunner().invoke(app, [*command, str(port), "--index", str(index)])
    assert result.exit_code == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in result.stderr
    assert f"choose another one with {command[1]} or --host" in result.stderr
    assert [line for line in result.stderr.splitlines() if not line.startswith("{")] == [result.stderr.splitlines()[-1]]


def test_a_watched_folder_needs_an_index_that_can_be_changed(index, tmp_path):
    """--watch together with --read-only is refused in one line."""
    result = CliRunner().invoke(app, ["serve", "--index", str(index), "--watch", str(tmp_path), "--read-only"])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "leave one of them out" in result.stderr


@pytest.mark.faults
@pytest.mark.parametrize("connections", [100, 10_000])
def test_half_open_connections(connections, index, tmp_path):
    """Connections that never send a complete request keep no one out, and are closed after a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, min(hard, 2 * connections + 4_000))  # other tests may have left many files open
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))  # also of the process
    port = free_port()
    try:
        with serving("--index", index, port=port, log=tmp_path / "log"), ExitStack() as stack:
            opened = []
            for place in range(connections):
                opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
                opened[-1].sendall(b"POST /search HTTP/1.1\r\nHost: localh" if place % 2 else b"")
            assert texts(port, "first program") == ["Ada wrote the first program."]
            for each in opened[-20:]:
                each.settimeout(30)
                assert each.recv(1) == b""  # closed by the service
            assert texts(port, "first program") == ["Ada wrote the first program."]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_every_request_of_a_connection_has_a_time_limit(index, monkeypatch):
    """A second request that is never completed is closed, even if bytes of it arrive now and then."""
    monkeypatch.setattr(serve, "HEAD_SECONDS", 1.0)
    with HybridGraphStore(index) as store, running(create_app(store), http=serve.PatientProtocol) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
            connection.sendall(b"POST /search HTTP/1.1\r\n")
            connection.settimeout(0.3)
            received = None
            end = time.monotonic() + 20
            while received is None and time.monotonic() < end:
                try:
                    connection.sendall(b"x")
                    received = connection.recv(1)
                except TimeoutError:
                    pass
                except ConnectionError:
                    received = b""
            assert received == b""


async def test_files_written_during_the_start_are_indexed(index, tmp_path):
    """A file that is written after the first ingest, but before the folder is watched, is indexed."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "whale.md").write_text("Whales sing long songs.\n")
    location = IndexLocation(index)
    served = serve.make_app(location, host="localhost", tokens_file=None, watch=files, read_only=False, limits=Limits())
    (files / "owl.md").write_text("Owls hoot at night.\n")
    transport = httpx.ASGITransport(served)
    async with (
        served.router.lifespan_context(served),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        for _ in range(100):
            answer = (await client.post("/search", json={"query": "owls hoot", "k": 1})).json()
            if "Owls" in answer["documents"][0]["page_content"]:
                return
            await asyncio.sleep(0.1)
    pytest.fail("the file was not indexed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "no tokens are configured: pass --tokens FILE, set HYBRIDGRAPH_TOKENS"),
        (["--tokens", "NOWHERE"], "NOWHERE cannot be read"),
        (["--rate", "0"], "rate must be a number > 0, got 0"),
        (["--index", "NOWHERE"], "contains no index: check the path, or create an index"),
        (["--tenant", "ada"], "was made without tenants"),
        (["--watch", "NOWHERE"], "Invalid value for '--watch': path 'NOWHERE' does not exist"),
        (["--index", "milvus://nowhere", "--read-only"], "--read-only is for an index in a folder"),
    ],
)
def test_wrong_usage(arguments, message, index):
    """Wrong options are reported on one line, with the way to fix them, before anything listens."""
    result = CliRunner().invoke(app, ["serve", "--index", str(index), *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
