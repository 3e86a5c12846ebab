"""Recall on two-step questions with and without the graph, and nDCG on simple questions.

    python benchmarks/multihop.py [--sets NAME ...] [--presets] [--triples] [--peer] [--simple]

All retrievers search the same texts with the same ready-made all-MiniLM-L6-v2 vectors. The graph is the one that
``ingest(…, edges="auto")`` creates, without a language model. A question with a filter is searched with that filter;
only the last turn of a conversation is used.

``--presets`` also measures the presets, which are settings of other systems. ``--triples`` passes the triples that a
set contains, if any, to EntityEdges. ``--peer`` also measures langchain-graph-retriever, which is slow.

``--simple`` prints by how much nDCG@10 of GraphRetriever differs from that of HybridRetriever on sets of simple
questions, with several kinds of edges. "Citations" are made up: each text links to two texts, targets from the 30 texts
nearest to it. For citations and random links, the difference is the mean over four draws.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from _corpus import ReadyEmbeddings, folder, require_sets
from langchain_core.documents import Document

from langchain_hybridgraph import EntityEdges, GraphRetriever, HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.options.models import PRESETS
from langchain_hybridgraph.records import Edge

MULTIHOP = ("hotpotqa_val500", "wiki2_dev200", "musique_train200", "hotpotqa_train100", "musique_train100")
SIMPLE = ("scifact", "cranfield", "cacm", "anthropic_docs", "mtrag_govt", "mtrag_clapnq", "chunk_eval", "locomo")
CLASSIC = ("cacm", "cranfield", "scifact", "anthropic_docs", "mtrag_govt")
EDGES: dict[str, Any] = {
    "auto": "auto",
    "auto and similarity": ["sequence", "links", "hierarchy", "entities", "similarity"],
    "citations": None,
    "random": None,
}
DEPTH = 10
DISCOUNTS = 1 / np.log2(np.arange(2, DEPTH + 2))

Answers = Callable[[str, Any], Sequence[str]]


def main() -> None:
    """Print a table for each set."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sets", nargs="+", default=[*MULTIHOP, *SIMPLE], help="evaluation sets to measure")
    options.add_argument("--presets", action="store_true", help="also measure the presets of GraphRetriever")
    options.add_argument("--triples", action="store_true", help="pass the triples of a set to EntityEdges")
    options.add_argument(
        "--peer", action="store_true", help="also measure langchain-graph-retriever, which must be installed"
    )
    options.add_argument("--without-ensemble", action="store_true", help="leave LangChain's EnsembleRetriever out")
    options.add_argument("--simple", action="store_true", help="compare kinds of edges on simple questions")
    arguments = options.parse_args()
    sets = require_sets()
    if arguments.simple:
        simple_questions(sets, CLASSIC if arguments.sets == [*MULTIHOP, *SIMPLE] else arguments.sets)
        return
    for name in arguments.sets:
        measure(name, sets, arguments)


def measure(name: str, sets: Any, arguments: argparse.Namespace) -> None:
    """Ingest one set, ask all retrievers, and print their figures."""
    loaded = sets.load(name)
    store = HybridGraphStore(None, ReadyEmbeddings(sets.PrecomputedEmbeddings(name).vectors))
    started_at = time.perf_counter()
    edges: Any = [EntityEdges(triples=triples(name))] if arguments.triples and triples(name) else "auto"
    report = ingest(documents(loaded, sets), store, split=None, edges=edges)
    print(f"\n{name}: {report.chunks:,} texts, {report.edges:,} edges in {time.perf_counter() - started_at:.1f} s")
    print(f"{'':34}{'recall@5':>9}{'recall@10':>10}{'nDCG@10':>9}{'ms':>7}")
    for label, answers in retrievers(store, loaded, sets, arguments):
        print(f"{label:34}" + scores(answers, loaded), flush=True)
    store.close()


def simple_questions(sets: Any, names: Sequence[str]) -> None:
    """Print nDCG@10 of HybridRetriever, and the difference that the graph makes, for each set and kind of edges."""
    print(f"| nDCG@10 | HybridRetriever | {' | '.join(EDGES)} |\n|---|---|{'---|' * len(EDGES)}")
    for name in names:
        loaded, embedding = sets.load(name), ReadyEmbeddings(sets.PrecomputedEmbeddings(name).vectors)
        texts, plain, differences = list(documents(loaded, sets)), 0.0, []
        for kind, builders in EDGES.items():
            nearest = 30 if kind == "citations" else len(texts)
            draws = [citations(texts, embedding, nearest, seed) for seed in range(4)] if builders is None else [[]]
            graph = []
            for edges in draws:
                with HybridGraphStore(None, embedding) as store:
                    ingest(texts, store, split=None, edges=builders)
                    store.upsert([], edges=edges)
                    graph.append(mean_ndcg(GraphRetriever(store), loaded))
                    plain = plain or mean_ndcg(HybridRetriever(store), loaded)
            differences.append(f"{np.mean(graph) - plain:+.4f}")
        print(f"| {name} | {plain:.3f} | {' | '.join(differences)} |", flush=True)


def mean_ndcg(retriever: HybridRetriever, loaded: Any) -> float:
    """Return the mean nDCG@10 over the questions that have an answer."""
    return float(np.mean([ndcg(ids, grades) for ids, grades in answers_with_grades(retriever, loaded)]))


def answers_with_grades(retriever: HybridRetriever, loaded: Any) -> Iterable[tuple[Sequence[str], dict[str, float]]]:
    """Yield the ids found for each question that has an answer, and the grades of the answers."""
    answers = answers_of(retriever)
    for query in loaded.queries:
        grades = loaded.qrels[query["id"]]
        if any(grade > 0 for grade in grades.values()):
            yield answers(query["text"], query.get("filter")), grades


def citations(texts: Sequence[Document], embedding: ReadyEmbeddings, nearest: int, seed: int) -> list[Edge]:
    """Return two edges from each text to texts targets from the nearest ones; the same seed gives the same edges."""
    generator = np.random.default_rng(seed)
    vectors = np.array([embedding.vectors[text.page_content] for text in texts])
    edges = []
    for place, text in enumerate(texts):
        order = np.argsort(-(vectors @ vectors[place]), kind="stable")
        others = [other for other in order[: nearest + 1].tolist() if other != place]
        targets = generator.choice(others, 2, replace=False).tolist()
        edges += [Edge(text.id or "", texts[other].id or "", "cites", 1.0) for other in targets]
    return edges


def documents(loaded: Any, sets: Any) -> Iterable[Document]:
    """Return the set's texts as a user would ingest them: with title, links and the metadata for filters."""
    for row in loaded.corpus:
        metadata = {key: value for key, value in row.items() if key not in {"id", "text"} and value is not None}
        yield Document(id=row["id"], page_content=sets.document_text(row), metadata=metadata)


def triples(name: str) -> dict[str, list[tuple[str, str, str]]]:
    """Return the triples that are part of a set, by document, or {} if it has none."""
    place = folder()
    assert place is not None
    file = place / name / "triples.jsonl"
    rows = map(json.loads, file.open(encoding="utf-8")) if file.exists() else ()
    return {row["doc_id"]: [tuple(triple) for triple in row["triples"] if len(triple) == 3] for row in rows}


def retrievers(
    store: HybridGraphStore, loaded: Any, sets: Any, arguments: argparse.Namespace
) -> Iterable[tuple[str, Answers]]:
    """Yield the retrievers by name."""
    yield "vectors alone", answers_of(HybridRetriever(store, semantic_weight=1.0, keyword_weight=0.0))
    yield "BM25 alone", answers_of(HybridRetriever(store, semantic_weight=0.0, keyword_weight=1.0))
    if not arguments.without_ensemble and not any(query.get("filter") for query in loaded.queries):
        yield "EnsembleRetriever .7/.3", ensemble(store, loaded, sets)
    yield "HybridRetriever", answers_of(HybridRetriever(store))
    yield "GraphRetriever", answers_of(GraphRetriever(store))
    if arguments.peer:
        yield "langchain-graph-retriever", graph_peer(store, loaded, sets)
    if arguments.presets:
        for preset in PRESETS:
            if preset != "evidence":
                yield (
                    f"GraphRetriever, {preset}",
                    answers_of(GraphRetriever(store, preset=preset, selection={"budget": None})),
                )


def answers_of(retriever: HybridRetriever) -> Answers:
    """Return a function that returns the ids found by one of this package's retrievers."""
    return lambda question, filter: [d.id or "" for d in retriever.invoke(question, k=DEPTH, filter=filter)]


def ensemble(store: HybridGraphStore, loaded: Any, sets: Any) -> Answers:
    """Return LangChain's EnsembleRetriever over the same vectors and its own BM25Retriever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_community.retrievers import BM25Retriever
    bm25 = BM25Retriever.from_documents(list(documents(loaded, sets)), k=DEPTH)
    both = [store.as_retriever(search_kwargs={"k": DEPTH}), bm25]
    retriever = EnsembleRetriever(retrievers=both, weights=[0.7, 0.3])
    return lambda question, filter: [document.id or "" for document in retriever.invoke(question)][:DEPTH]


def graph_peer(store: HybridGraphStore, loaded: Any, sets: Any) -> Answers:
    """Return langchain-graph-retriever over InMemoryVectorStore and the same vectors, with our entities as edges.

    (Its adapter for Chroma cannot be imported with chromadb 1.2 and later.)
    """
    from graph_retriever.strategies import Eager
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_graph_retriever import GraphRetriever as Peer

    plain = InMemoryVectorStore(store.embeddings)
    chunks = list(documents(loaded, sets))
    for document in chunks:
        names = {
            edge.target.partition(":")[2] for edge in store.edges([document.id or ""]) if edge.relation == "mentions"
        }
        document.metadata = {"names": sorted(names)}
    plain.add_documents(chunks)
    peer = Peer(store=plain, edges=[("names", "names")], strategy=Eager(k=DEPTH, start_k=5, adjacent_k=10, max_depth=1))
    return lambda question, filter: [document.id or "" for document in peer.invoke(question)]


def scores(answers: Answers, loaded: Any) -> str:
    """Return mean recall@5, recall@10 and nDCG@10, and the median time in milliseconds."""
    rows, durations = [], []
    for query in loaded.queries:
        started_at = time.perf_counter()
        ids = answers(query["text"], query.get("filter"))
        durations.append((time.perf_counter() - started_at) * 1e3)
        grades = loaded.qrels[query["id"]]
        relevant = {id for id, grade in grades.items() if grade > 0}
        if relevant:
            recalls = [len(relevant.intersection(ids[:depth])) / len(relevant) for depth in (5, DEPTH)]
            rows.append([*recalls, ndcg(ids, grades)])
    means = np.mean(rows, axis=0)
    return f"{means[0]:9.4f}{means[1]:10.4f}{means[2]:9.4f}{statistics.median(durations):7.1f}"


def ndcg(ids: Sequence[str], grades: dict[str, float]) -> float:
    """Return nDCG@10 with linear gains, as in trec_eval."""
    gains = np.array([max(grades.get(id, 0.0), 0.0) for id in ids[:DEPTH]])
    ideal = np.sort([grade for grade in grades.values() if grade > 0])[::-1][:DEPTH]
    return float(gains @ DISCOUNTS[: len(gains)] / (ideal @ DISCOUNTS[: len(ideal)]))


if __name__ == "__main__":
    main()
