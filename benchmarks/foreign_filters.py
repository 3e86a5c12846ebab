"""Cost of filters over a plain Chroma collection.

    python benchmarks/foreign_filters.py [--size 20000] [--spaces cosine l2 ip] [--questions 15]

For each space (distance measure), a collection is filled with the evaluation sets' texts and vectors, and searched with
a HybridRetriever. Each filtered search is measured right after an unfiltered search for the same question, so that both
have the same load. A figure is the median time over the questions in milliseconds, and the ratio is the filtered median
divided by the unfiltered one.

"raw where" is LangChain's own ``similarity_search`` for the same number of candidates, with a Chroma filter that 1 % of
the texts match. The metadata have values of every kind: ISO times, numbers, lists of labels, keys with dots, rare keys.
Half of the texts have a ``document_id``; for the others it is derived from ``source``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from _corpus import Corpus, enlarge_corpus

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.filters.expressions import (
    Filter,
    by_document,
    by_source,
    created_after,
    created_before,
    exclude_document,
    has_labels,
    parse_filter,
)

BATCH = 5_000
CANDIDATES = 100
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
MINUTES = 37


def main() -> None:
    """Print a table for each space."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=20_000, help="number of texts")
    options.add_argument(
        "--spaces",
        nargs="+",
        default=["cosine"],
        choices=["cosine", "l2", "ip"],
        help="distance measures of the collections",
    )
    options.add_argument("--questions", type=int, default=15, help="number of questions per filter")
    arguments = options.parse_args()
    corpus = enlarge_corpus(arguments.size)
    for space in arguments.spaces:
        with tempfile.TemporaryDirectory() as place:
            measure(corpus, space, place, corpus.questions[: arguments.questions])


def measure(corpus: Corpus, space: str, place: str, questions: list[str]) -> None:
    """Print the cost of each filter over one collection."""
    from langchain_chroma import Chroma

    store = Chroma(
        embedding_function=corpus.embedding,
        persist_directory=place,
        collection_configuration={"hnsw": {"space": space}},
    )
    metadatas = [metadata(n, base) for n, base in enumerate(corpus.metadatas)]
    for start in range(0, len(corpus.texts), BATCH):
        part = slice(start, start + BATCH)
        store.add_texts(corpus.texts[part], metadatas[part], ids=corpus.ids[part])
    retriever = HybridRetriever(store)

    def search(question: str, filter: Filter | None = None) -> None:
        retriever.retrieve(question, filter=filter)

    def raw(question: str) -> None:
        store.similarity_search(question, k=CANDIDATES, filter={"percent": 3})

    print(f"{space}, {len(corpus.texts):,} texts\n{'filter':<34}{'matches':>9}{'ms':>9}{'unfiltered':>12}{'ratio':>8}")
    worst = 0.0
    row("raw where", 0.01, raw, search, questions)
    for name, filter in filters(len(corpus.texts)).items():
        share = statistics.mean(filter.matches(visible_metadata(n, each)) for n, each in enumerate(metadatas))
        worst = max(worst, row(name, share, lambda question, by=filter: search(question, by), search, questions))
    print(f"worst ratio {worst:.2f}\n", flush=True)


def metadata(n: int, base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a text. Every second text has a document id, and the others have a file to derive it
    from.
    """
    created = BEGIN + timedelta(minutes=MINUTES * n)
    common = {"percent": base["percent"], "score": n / 7, "label": f"l{n % 7}", "labels": [f"l{n % 7}", f"m{n % 5}"]}
    times = {"created_at": created.isoformat(), "made.at": created.timestamp()}
    identity = {"document_id": f"d{n // 10}"} if n % 2 else {"source": f"d{n // 10}"}
    return common | times | identity | ({"rare": True} if n % 1_000 == 0 else {})


def visible_metadata(n: int, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata in the form that filters use."""
    return {"document_id": f"d{n // 10}", **metadata}


def filters(size: int) -> dict[str, Filter]:
    """Return filters of every kind, selective and unselective."""

    def at(share: float) -> str:
        return (BEGIN + timedelta(minutes=MINUTES * share * size)).isoformat()

    mappings: dict[str, Mapping[str, Any]] = {
        "$eq on a number": {"percent": 3},
        "$eq on a text": {"label": "l3"},
        "$eq on a bool": {"rare": True},
        "$ne": {"percent": {"$ne": 3}},
        "$in": {"label": {"$in": ["l1", "l2"]}},
        "$nin": {"percent": {"$nin": [1, 2, 3]}},
        "$lt, 4 % match": {"percent": {"$lt": 4}},
        "$lt, 10 % match": {"percent": {"$lt": 10}},
        "$lt, half match": {"percent": {"$lt": 50}},
        "$gte on a fraction": {"score": {"$gte": 1000.5}},
        "$contains in a list": {"labels": {"$contains": "m3"}},
        "$not_contains": {"labels": {"$not_contains": "m3"}},
        "$contains in a text": {"created_at": {"$contains": "-03-"}},
        "$exists": {"rare": {"$exists": True}},
        "$exists false": {"rare": {"$exists": False}},
        "$not": {"$not": {"percent": {"$lt": 50}}},
        "$or": {"$or": [{"percent": 3}, {"label": "l3"}]},
        "several": {"percent": {"$lt": 50}, "created_at": {"$gt": at(0.9)}},
        "a key with a dot": {r"made\.at": {"$gt": (BEGIN + timedelta(days=30)).timestamp()}},
        "a nested key": {"made.at": {"$exists": True}},
        "nothing matches": {"percent": -1},
        "everything matches": {"percent": {"$gte": 0}},
    }
    built = {
        "by_document, one": by_document("d7"),
        "by_document, 100": by_document(*(f"d{n}" for n in range(100))),
        "by_document, 1,000": by_document(*(f"d{n}" for n in range(1_000))),
        "exclude_document": exclude_document("d7"),
        "by_source": by_source("d7", "d8"),
        "created_after, 1 % match": created_after(at(0.99)),
        "created_after, half match": created_after(at(0.5)),
        "created_after, 95 % match": created_after(at(0.05)),
        "created_before, 10 % match": created_before(at(0.1)),
        "has_labels": has_labels(any_of=["l1", "l2"], all_of=["m3"]),
    }
    parsed = {name: parse_filter(each) for name, each in mappings.items()}
    return built | {name: filter for name, filter in parsed.items() if filter is not None}


def row(
    name: str,
    share: float,
    filtered: Callable[[str], None],
    unfiltered: Callable[[str], None],
    questions: list[str],
) -> float:
    """Print one line and return the ratio."""
    filtered(questions[0])
    times: tuple[list[float], list[float]] = ([], [])
    for question in questions:
        for way, milliseconds in zip((filtered, unfiltered), times, strict=True):
            started_at = time.perf_counter()
            way(question)
            milliseconds.append((time.perf_counter() - started_at) * 1e3)
    own, plain = map(statistics.median, times)
    print(f"{name:<34}{share:>9.2%}{own:>9.1f}{plain:>12.1f}{own / plain:>8.2f}", flush=True)
    return own / plain


if __name__ == "__main__":
    main()
