"""Time that each kind of pruning saves.

    python benchmarks/pruning.py [--size 20000] [--queries 100]

Each retriever answers the same questions with all pruning, and with each kind of pruning switched off; these variants
take turns. The ratio is the median CPU time without one kind of pruning, divided by the median with all pruning. The
results must be the same in all variants.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from _corpus import enlarge_corpus
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever, ingest
from langchain_hybridgraph.search.context import ALL, SearchContext

LIMITS = SearchContext.limits.func  # type: ignore[attr-defined]  # the function of a cached_property
VARIANTS: dict[str, Any] = {"hits": ALL, "scores_unread": False}


def without(name: str | None, answer: Callable[[str], Any], question: str) -> tuple[float, list[str]]:
    """Return the CPU time in milliseconds and the ids of one call with one kind of pruning switched off."""
    changed = {} if name is None else {name: VARIANTS[name]}
    with patch.object(SearchContext, "limits", property(lambda context: LIMITS(context)._replace(**changed))):
        started_at = time.process_time()
        documents = answer(question)
        durations = (time.process_time() - started_at) * 1e3
    return durations, [document.id for document in documents]


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=20_000, help="number of texts")
    options.add_argument("--queries", type=int, default=100, help="number of queries")
    arguments = options.parse_args()
    corpus = enlarge_corpus(arguments.size)
    store = HybridGraphStore(None, corpus.embedding)
    texts = zip(corpus.texts, corpus.metadatas, corpus.ids, strict=True)
    ingest((Document(text, metadata=metadata, id=id) for text, metadata, id in texts), store, split=None, edges="auto")
    print(f"{'':18}{'all, ms':>9}" + "".join(f"{name:>19}" for name in VARIANTS))
    for kind in (HybridRetriever, GraphRetriever, MemoryRetriever):
        durations: dict[str | None, list[float]] = {name: [] for name in (None, *VARIANTS)}
        retriever = kind(store, k=10)
        for turn in range(-8, arguments.queries):
            question = corpus.questions[turn % len(corpus.questions)]
            answers = {name: without(name, retriever.invoke, question) for name in durations}
            assert len({tuple(ids) for _, ids in answers.values()}) == 1, f"the results for {question!r} differ"
            if turn >= 0:
                for name, (ms, _) in answers.items():
                    durations[name].append(ms)
        whole = statistics.median(durations[None])
        ratios = [statistics.median(durations[name]) / whole for name in VARIANTS]
        print(f"{kind.__name__:18}{whole:9.2f}" + "".join(f"{ratio:19.2f}" for ratio in ratios), flush=True)


if __name__ == "__main__":
    main()
