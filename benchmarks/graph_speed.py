"""Speed of the graph: building it, applying a change, one hop, and traversals, over graphs of two sizes.

    python benchmarks/graph_speed.py [--chunks 60000] [--edges 300000 3000000] [--rounds 100] [--queries | --entities]

By default, chunks have random unit vectors of 64 dimensions. A third of the edges are mentions of entities, distributed
by Zipf's law; the others connect random chunks.

``--queries`` uses the texts and vectors of the evaluation sets (384 dimensions) and times complete queries: each graph
retriever and HybridRetriever take turns. ``--entities`` times the ingest of these texts without edges and with entity
edges, and then the ingest of a tenth more texts and of one more text.

Figures are medians over random chunks or over the sets' questions.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import MENTIONS, Edge, EdgeFilter, Scope
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.scores import Flow, GraphScore, HopDecay
from langchain_hybridgraph.search.traversals import BFS, Traversal
from langchain_hybridgraph.stores.index import IndexSettings
from langchain_hybridgraph.stores.store import EmbeddedStore

WIDTH = 64
# The share of chunks that mention the most common entity is 1 / (COMMON · H), about 1 % here.
COMMON = 10


class RandomVectors:
    """Embedding that returns a random unit vector for any text."""

    def __init__(self) -> None:
        self._dice = np.random.default_rng(0)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        vectors = self._dice.normal(size=(len(texts), WIDTH))
        rows: list[list[float]] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Return a random unit vector."""
        return self.embed_documents([text])[0]


def drawn_edges(chunks: int, edges: int, dice: np.random.Generator) -> Iterator[list[Edge]]:
    """Yield about this number of distinct edges, a few thousand at a time."""
    mentions, entities = edges // 3, edges // 15
    share = 1 / (COMMON + np.arange(entities))
    targets = dice.choice(entities, mentions, p=share / share.sum())
    columns = zip(dice.integers(chunks, size=mentions), targets, strict=True)
    pairs = np.unique(np.array(list(columns)), axis=0)
    links = np.unique(dice.integers(chunks, size=(edges - mentions, 2)), axis=0)
    links = links[links[:, 0] != links[:, 1]]
    for start in range(0, len(links), 20_000):
        yield [
            Edge(f"c{one}", f"c{other}", "references", 0.5 + (one + other) % 50 / 100, "said in a sentence")
            for one, other in links[start : start + 20_000].tolist()
        ]
    for start in range(0, len(pairs), 20_000):
        yield [
            Edge(f"c{one}", f"entity:{other}", MENTIONS, 0.5 + (one + other) % 50 / 100, "mentions it")
            for one, other in pairs[start : start + 20_000].tolist()
        ]


def filled_store(place: Path, chunks: int, edges: int) -> EmbeddedStore:
    """Return a store with this number of chunks and edges."""
    store = EmbeddedStore(IndexSettings(path=place, embedding=RandomVectors(), name="random"))
    for start in range(0, chunks, 5_000):
        store.upsert([Chunk(f"c{number}", f"text {number}") for number in range(start, min(start + 5_000, chunks))])
    store.flush()
    for part in drawn_edges(chunks, edges, np.random.default_rng(1)):
        store.upsert([], edges=part)
    return store


def median_ms(ask: Callable[[], Any], rounds: int) -> float:
    """Return the median time of a call in milliseconds."""
    durations = []
    for turn in range(-3, rounds):
        started_at = time.perf_counter()
        ask()
        if turn >= 0:
            durations.append((time.perf_counter() - started_at) * 1e3)
    return statistics.median(durations)


def row(what: str, value: float, unit: str = "ms") -> None:
    """Print one line with a figure."""
    print(f"{what:60}{value:10.3f} {unit}", flush=True)


def seconds(work: Callable[[], Any]) -> float:
    """Return the time of one call in seconds."""
    started_at = time.perf_counter()
    work()
    return time.perf_counter() - started_at


def traversals() -> dict[str, Callable[[EmbeddedStore, Scope, list[tuple[str, float]], Any], Any]]:
    """Return each traversal with its score, as a function from the store's graph to the reached chunks."""
    pairs = {"BFS of 2 hops": (BFS(direction="both"), HopDecay()), "PageRank": (PersonalizedPageRank(), Flow())}

    def search(traversal: Traversal, score: GraphScore) -> Callable[[EmbeddedStore, Scope, Any, Any], Any]:
        return lambda store, scope, seeds, vector: traversal.traverse(
            store.scoped_graph(scope, traversal.edge_filter), seeds, score, vector
        )

    return {name: search(traversal, score) for name, (traversal, score) in pairs.items()}


def transitions(graph: Any) -> Any:
    """Return all edges, in both directions, as a sparse matrix with columns that sum to 1, for PageRank."""
    edges = graph.state.base.edges
    source, target = edges.ends().reshape(2, -1)
    count = 1 + int(max(source.max(), target.max()))
    there = sparse.coo_matrix((edges.weight, (target, source)), shape=(count, count)).tocsr()
    both = there + there.T
    return both @ sparse.diags(1 / np.maximum(np.asarray(both.sum(axis=0)).ravel(), 1e-12))


def by_matrix(matrix: Any, seeds: Any) -> Any:
    """Return the mass of every node by power iteration, with the traversal's default damping and tolerance."""
    how = PersonalizedPageRank()
    begin = np.zeros(matrix.shape[0])
    begin[seeds] = 1 / len(seeds)
    mass, left = begin, 1.0
    while left > how.tolerance:
        after = (1 - how.damping) * begin + how.damping * (matrix @ mass)
        left = float(np.abs(after - mass).sum())
        mass = after
    return mass


def measure(store: EmbeddedStore, chunks: int, rounds: int) -> None:
    """Print all figures of one store."""
    ways = EdgeFilter("both", hub_degree=64)
    scope = Scope(as_of=time.time())
    row("the first call, which reads all edges", seconds(lambda: store.scoped_graph(scope, ways)), "s")
    row("graph()", median_ms(lambda: store.scoped_graph(scope, ways), rounds))
    dice = np.random.default_rng(2)

    def some(count: int) -> list[str]:
        return [f"c{number}" for number in dice.integers(chunks, size=count)]

    graph = store.scoped_graph(scope, ways)
    row("nodes() of 10", median_ms(lambda: graph.nodes(some(10)), rounds))
    for count in (1, 10, 50, 500):
        hops = statistics.median(len(graph.neighbours(graph.nodes(some(count))).node) for _ in range(20))
        samples = [graph.nodes(some(count)) for _ in range(rounds + 3)]
        seeds = iter(samples)
        row(f"neighbours() of {count} ({hops:,.0f} hops)", median_ms(lambda a=seeds: graph.neighbours(next(a)), rounds))  # type: ignore[misc]  # bound at definition
        seeds = iter(samples)
        row(f"links() of {count}", median_ms(lambda a=seeds: graph.links(next(a)), rounds))  # type: ignore[misc]  # bound at definition
    vector = np.full(WIDTH, WIDTH**-0.5, np.float32)
    nodes = graph.nodes(some(100))
    row("cosines() of 100", median_ms(lambda: graph.cosines(vector, nodes), rounds))
    first = graph.nodes(some(10))
    step = graph.neighbours(first).node[:20]
    steps = [(one, other) for one in graph.ids(first)[:2] for other in graph.ids(step)]
    row("edges() of 40 steps", median_ms(lambda: graph.edges(steps), 20))

    for name, search in traversals().items():
        drawn_seeds = iter([[(id, 1 - place / 20) for place, id in enumerate(some(10))] for _ in range(rounds + 3)])
        durations = median_ms(lambda s=search, d=drawn_seeds: s(store, scope, next(d), vector), rounds)  # type: ignore[misc]  # bound at definition
        row(f"{name}, 10 seeds, 50 nodes", durations)
    matrix = transitions(graph)
    starts = iter([graph.nodes(some(10)) for _ in range(rounds + 3)])
    row("PageRank of all nodes by a sparse matrix", median_ms(lambda: by_matrix(matrix, next(starts)), rounds))

    def add(number: int) -> float:
        edges = [Edge(f"new{number}", target, "references", 0.5) for target in some(5)]
        edges += [Edge(f"new{number}", f"entity:{entity}", MENTIONS) for entity in (0, 10, 100)]
        store.upsert([Chunk(f"new{number}", "text")], edges=edges)
        return seconds(lambda: store.scoped_graph(scope, ways)) * 1e3

    row("graph() after one document was added", statistics.median(add(number) for number in range(10)))

    def delete(number: int) -> float:
        store.remove([f"c{number}"])
        return seconds(lambda: store.scoped_graph(scope, ways)) * 1e3

    row("graph() after one document was deleted", statistics.median(delete(number) for number in range(10)))
    graph = store.scoped_graph(scope, ways)
    seeds = iter([graph.nodes(some(50)) for _ in range(rounds + 3)])
    row("neighbours() of 50, with changes", median_ms(lambda: graph.neighbours(next(seeds)), rounds))


def ask(arguments: argparse.Namespace, edges: int, place: Path) -> None:
    """Print the time that a traversal adds to a hybrid query, over real texts and vectors."""
    from _corpus import enlarge_corpus

    from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever

    corpus = enlarge_corpus(arguments.chunks)
    is_new = not place.exists()
    store = HybridGraphStore(place, corpus.embedding)
    if is_new:
        ids = [f"c{number}" for number in range(len(corpus.texts))]
        store.add_texts(corpus.texts, corpus.metadatas, ids=ids)
        for part in drawn_edges(arguments.chunks, edges, np.random.default_rng(1)):
            store.upsert([], edges=part)
    print(f"\n{len(store):,} chunks, {store.admin.stats()['edges']:,} edges")
    hybrid = HybridRetriever(store, k=10)
    retrievers = {
        "GraphRetriever, BFS of 2 hops": GraphRetriever(
            store, graph={"traversal": {"type": "bfs", "max_hops": 2}}, k=10
        ),
        'GraphRetriever, preset "hop_decay"': GraphRetriever(store, preset="hop_decay", k=10),
        "GraphRetriever, PageRank": GraphRetriever(store, preset="pagerank", k=10),
        "GraphRetriever, as it is": GraphRetriever(store, k=10),
    }
    for name, retriever in retrievers.items():
        durations: list[list[float]] = [[], []]
        for turn in range(-10, arguments.rounds):
            for step, each in enumerate((hybrid, retriever)):
                # Never repeat the last question, for which all caches are warm.
                question = corpus.questions[(turn + 50 * step) % len(corpus.questions)]
                spent = seconds(lambda r=each, q=question: r.invoke(q))  # type: ignore[misc]  # bound at definition
                if turn >= 0:
                    durations[step].append(spent * 1e3)
        alone, with_graph = map(statistics.median, durations)
        print(f"{name:45}{with_graph:8.3f} ms, HybridRetriever {alone:.3f}, {with_graph - alone:+.3f}", flush=True)
    store.close()


def ingest_entities(chunks: int, place: Path) -> None:
    """Print the time that entity edges add to an ingest of all texts, of a tenth more, and of one more."""
    from _corpus import enlarge_corpus

    from langchain_hybridgraph import EntityEdges, HybridGraphStore, ingest

    corpus = enlarge_corpus(chunks + chunks // 10 + 1)
    rows = list(zip(corpus.ids, corpus.texts, strict=True))
    for name, edges in (("without edges", None), ("with entities", EntityEdges())):
        store = HybridGraphStore(place / name, corpus.embedding)
        for start, stop in ((0, chunks), (chunks, len(rows) - 1), (len(rows) - 1, len(rows))):
            part = [Chunk(id, text, {"title": text.partition("\n")[0]}) for id, text in rows[start:stop]]
            started_at, worked = time.perf_counter(), time.process_time()
            report = ingest(part, store, split=None, edges=edges)
            spent, worked = time.perf_counter() - started_at, time.process_time() - worked
            print(
                f"{len(part):,} texts {name}: {spent:.2f} s ({worked:.2f} of processor), {report.edges:,} edges",
                flush=True,
            )
        store.close()


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chunks", type=int, default=60_000, help="number of chunks")
    options.add_argument(
        "--edges", type=int, nargs="+", default=[300_000, 3_000_000], help="numbers of edges, one graph for each"
    )
    options.add_argument("--rounds", type=int, default=100, help="number of measurements of each operation")
    options.add_argument("--keep", type=Path, help="folder that keeps the stores for the next run")
    options.add_argument("--queries", action="store_true", help="time complete queries over the evaluation sets")
    options.add_argument("--entities", action="store_true", help="time an ingest with entity edges")
    arguments = options.parse_args()
    if arguments.entities:
        with tempfile.TemporaryDirectory() as stores:
            ingest_entities(arguments.chunks, Path(stores))
        return
    for edges in arguments.edges:
        with tempfile.TemporaryDirectory() as place:
            folder = (arguments.keep or Path(place)) / (f"{edges}-queries" if arguments.queries else str(edges))
            if arguments.queries:
                ask(arguments, edges, folder)
                continue
            started_at = time.perf_counter()
            is_new = not folder.exists()
            store = filled_store(folder, arguments.chunks, edges) if is_new else open_store(folder)
            stats = store.admin.stats()
            print(f"\n{stats['chunks']:,} chunks, {stats['edges']:,} edges, {stats['entities']:,} entities")
            row("writing them" if is_new else "opening", time.perf_counter() - started_at, "s")
            measure(store, arguments.chunks, arguments.rounds)
            store.close()


def open_store(folder: Path) -> EmbeddedStore:
    """Open a store that was filled before."""
    return EmbeddedStore(IndexSettings(path=folder, embedding=RandomVectors(), name="random"))


if __name__ == "__main__":
    main()
