"""Time of searches whose vectors are stored on a local Chroma server.

    HYBRIDGRAPH_SETS=… python benchmarks/chroma_server.py [--size 60000] [--queries 200]

Four clients take turns sending the same query vector to the server and ask for 100 candidates, so that all see the same
load: plain HTTP, chromadb's client, the store's vector search, and HybridRetriever. Then the vector search and
HybridRetriever are measured in the index folder, without the server.

Prints one JSON object. Times are medians and 95th percentiles in milliseconds. ``hybrid_to_raw`` is the median of
HybridRetriever on the server divided by the median of plain HTTP.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import chromadb
import httpx
import numpy as np
from _corpus import Corpus, enlarge_corpus

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.records import Query

PORT = 8765
CANDIDATES = 100


def main() -> None:
    """Start a server, measure, and stop the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=60_000, help="number of texts")
    parser.add_argument("--queries", type=int, default=200, help="number of queries")
    options = parser.parse_args()
    corpus = enlarge_corpus(options.size)
    with tempfile.TemporaryDirectory() as folder:
        command = [Path(sys.executable).with_name("chroma"), "run", "--path", f"{folder}/server", "--port", str(PORT)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            questions = [corpus.questions[place % len(corpus.questions)] for place in range(options.queries)]
            print(json.dumps(measure(corpus, questions, Path(folder), f"http://localhost:{PORT}"), indent=2))
        finally:
            server.kill()


def measure(corpus: Corpus, questions: Sequence[str], folder: Path, url: str) -> dict[str, Any]:
    """Return the figures by name."""
    wait_for(url)
    results: dict[str, Any] = {"chunks": len(corpus.texts), "dimension": corpus.vectors.shape[1]}
    with HybridGraphStore(folder / "index", corpus.embedding, vector_server=url) as store:
        started_at = time.perf_counter()
        store.add_texts(corpus.texts, corpus.metadatas, ids=corpus.ids)
        while store.vector_search(Query(questions[0], 10), 10).reason is not None:
            store.flush()
            time.sleep(0.5)  # the server still adds the vectors to its graph
        results["searchable_s"] = round(time.perf_counter() - started_at, 1)
        with httpx.Client(base_url=f"{url}/api/v2/tenants/default_tenant/databases/default_database") as client:
            [collection] = chromadb.HttpClient(port=PORT).list_collections()

            def raw(question: str) -> int:
                vector = np.asarray(corpus.embedding.embed_query(question), np.float32)
                body = {"query_embeddings": [vector.tolist()], "n_results": CANDIDATES, "include": ["distances"]}
                response = client.post(f"/collections/{collection.id}/query", json=body)
                response.raise_for_status()
                return len(response.content)

            def by_client(question: str) -> Any:
                vector = np.asarray(corpus.embedding.embed_query(question), np.float32)
                return collection.query(query_embeddings=vector, n_results=CANDIDATES, include=["distances"])

            results["bytes_per_answer"] = raw(questions[0])
            results |= milliseconds(
                {
                    "raw_http_query_ms": raw,
                    "chromadb_client_ms": by_client,
                    "vector_on_server_ms": lambda q: store.vector_search(Query(q, 10), CANDIDATES),
                    "hybrid_on_server_ms": HybridRetriever(store).invoke,
                },
                questions,
            )
        ids = nearest(store, questions)
    with HybridGraphStore(folder / "index", corpus.embedding) as store:
        results |= milliseconds(
            {
                "vector_in_folder_ms": lambda q: store.vector_search(Query(q, 10), CANDIDATES),
                "hybrid_in_folder_ms": HybridRetriever(store).invoke,
            },
            questions,
        )
        same = [len(one & other) / 10 for one, other in zip(ids, nearest(store, questions), strict=True)]
    results["same_of_nearest_10"] = round(float(np.mean(same)), 3)
    results["hybrid_to_raw"] = round(results["hybrid_on_server_ms"][0] / results["raw_http_query_ms"][0], 2)
    return results


def wait_for(url: str) -> None:
    """Wait until the server answers, for at most a minute."""
    for _ in range(600):
        with suppress(httpx.HTTPError):
            httpx.get(f"{url}/api/v2/heartbeat")
            return
        time.sleep(0.1)


def milliseconds(calls: Mapping[str, Callable[[str], Any]], questions: Sequence[str]) -> dict[str, list[float]]:
    """Return the median and the 95th percentile of each call. The calls take turns, and the first 20 turns are
    ignored.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for question in [*questions[:20], *questions]:
        for name, call in calls.items():
            started_at = time.perf_counter()
            call(question)
            times[name].append(1e3 * (time.perf_counter() - started_at))
    return {
        name: [round(float(np.percentile(each[20:], percent)), 2) for percent in (50, 95)]
        for name, each in times.items()
    }


def nearest(store: HybridGraphStore, questions: Sequence[str]) -> list[set[str]]:
    """Return the ids of the 10 texts nearest to each question."""
    return [{entry.id for entry in store.vector_search(Query(q, 10), 10).entries} for q in questions]


if __name__ == "__main__":
    main()
