"""Requests per second and latency of the service, next to calls in the process and a bare FastAPI route.

    python benchmarks/service.py [--seconds 5] [--rounds 3] [--clients 1 16 64]

The index contains the documentation of Python's standard library, with LSA. A second process serves it with uvicorn,
together with a bare FastAPI route that returns an answer of the same size. The clients run in this process, on plain
sockets that stay open; each sends its next request when it has the answer. In the rows without HTTP, this process
calls the retriever instead, with the same number of concurrent tasks. All rows take turns within a round; figures are
medians over the rounds, and ratios compare the processor time of rows of the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import uvicorn
from fastapi import FastAPI
from starlette.responses import JSONResponse

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.ingestion import read_python_docs
from langchain_hybridgraph.server.access import Limits
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.server.guard import encode
from langchain_hybridgraph.settings import HybridGraphSettings

IN_PROCESS, TO_JSON, BARE = "aretrieve in the process", "aretrieve and JSON in the process", "bare FastAPI route"
K = 10


class Rate(NamedTuple):
    """Requests per second, the 99th percentile of their latency, and the processor time of the process that answers."""

    per_second: float
    p99_ms: float
    cpu_ms: float


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve(index: Path, listener: socket.socket, size: int) -> None:
    """Serve the index, and a route that returns ``size`` bytes."""
    app = FastAPI()
    answer = {"text": "x" * size}

    @app.post("/bare")
    async def bare(body: dict[str, Any]) -> JSONResponse:
        return JSONResponse(answer)

    limits = Limits(rate=1e9, burst=10**9)
    app.mount("/served", create_app(HybridGraphSettings(store_path=index), limits=limits))
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_keep_alive=3_600)).run(
        sockets=[listener]
    )


class Connection:
    """Open HTTP connection to the service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request, and return the body of the answer."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        self._writer.write(head.encode() + b"\r\n\r\n" + body)
        headers = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in headers[:15]:
            raise RuntimeError(headers.decode())
        if b"transfer-encoding: chunked" in headers:
            parts = []
            while length := int(await self._reader.readuntil(b"\r\n"), 16):
                parts.append((await self._reader.readexactly(length + 2))[:-2])
            await self._reader.readexactly(2)
            return b"".join(parts)
        _, _, length_onwards = headers.partition(b"content-length: ")
        return await self._reader.readexactly(int(length_onwards.split(b"\r\n")[0]))


async def measure(
    calls: Sequence[Callable[[str], Awaitable[Any]]], questions: Sequence[str], seconds: float, process: int
) -> Rate:
    """Return the rate of several clients, each of which makes one call after the other."""
    latencies: list[float] = []
    turns = itertools.cycle(questions)
    end = time.perf_counter() + seconds

    async def client(call: Callable[[str], Awaitable[Any]]) -> None:
        while (started := time.perf_counter()) < end:
            await call(next(turns))
            latencies.append(time.perf_counter() - started)

    first_call, cpu_before = time.perf_counter(), processor_seconds(process)
    await asyncio.gather(*map(client, calls))
    per_second = len(latencies) / (time.perf_counter() - first_call)
    cpu_seconds = processor_seconds(process) - cpu_before
    return Rate(per_second, float(np.percentile(latencies, 99)) * 1e3, cpu_seconds / len(latencies) * 1e3)


async def run(
    retriever: HybridRetriever, port: int, server: int, arguments: argparse.Namespace, questions: Sequence[str]
) -> Any:
    """Return the rates of each row and number of clients, one per round."""

    async def in_process(question: str) -> None:
        await retriever.aretrieve(question, K)

    async def to_json(question: str) -> None:
        encode((await retriever.aretrieve(question, K)).to_dict())

    def over_http(path: str) -> Callable[[Connection], Callable[[str], Awaitable[Any]]]:
        def calls_of(connection: Connection) -> Callable[[str], Awaitable[Any]]:
            return lambda question: connection.post(path, json.dumps({"query": question, "k": K}).encode())

        return calls_of

    rows: dict[str, Any] = {
        IN_PROCESS: lambda _: in_process,
        TO_JSON: lambda _: to_json,
        "POST /search": over_http("/served/search"),
        "POST /search/stream": over_http("/served/search/stream"),
        BARE: over_http("/bare"),
    }
    rates: dict[tuple[str, int], list[Rate]] = {}
    most = max(arguments.clients)
    connections = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(most)]
    for turn in range(-1, arguments.rounds):
        for clients, (name, calls_of) in itertools.product(arguments.clients, rows.items()):
            calls = [calls_of(connection) for connection in connections[:clients]]
            process = os.getpid() if "in the process" in name else server
            rate = await measure(calls, questions, arguments.seconds if turn >= 0 else 0.5, process)
            if turn >= 0:
                rates.setdefault((name, clients), []).append(rate)
    return rates


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    options.add_argument("--rounds", type=int, default=3, help="number of rounds")
    options.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64], help="numbers of clients")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        index = Path(place) / "index"
        documents = list(read_python_docs())
        with HybridGraphStore(index, "lsa") as store:
            ingest(documents, store)
            retriever = HybridRetriever(store)
            questions = [str(document.metadata["title"]) for document in documents if document.metadata.get("title")]
            size = statistics.median(len(encode(retriever.retrieve(each, K).to_dict())) for each in questions[:50])
            print(f"{len(store):,} chunks, {len(questions)} questions, answers of {size / 1e3:.0f} kB\n")
            with socket.create_server(("127.0.0.1", 0), backlog=1_000) as listener:
                process = multiprocessing.get_context("spawn").Process(
                    target=serve, args=(index, listener, int(size)), daemon=True
                )
                process.start()
                assert process.pid is not None
                rates = asyncio.run(run(retriever, listener.getsockname()[1], process.pid, arguments, questions))
                process.terminate()
                process.join()
    print(
        "| call | clients | CPU ms per call | to the call in the process | to the bare route | per second | p99, ms |"
    )
    print("|---|---|---|---|---|---|---|")
    for (name, clients), measured in rates.items():
        call, bare = rates[IN_PROCESS, clients], rates[BARE, clients]
        to_call = statistics.median(a.cpu_ms / b.cpu_ms for a, b in zip(measured, call, strict=True))
        to_bare = statistics.median(a.cpu_ms / b.cpu_ms for a, b in zip(measured, bare, strict=True))
        per_second, p99, cpu = (statistics.median(values) for values in zip(*measured, strict=True))
        print(f"| {name} | {clients} | {cpu:.2f} | {to_call:.2f} | {to_bare:.1f} | {per_second:,.0f} | {p99:.1f} |")


if __name__ == "__main__":
    main()
