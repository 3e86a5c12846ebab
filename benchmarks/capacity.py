"""Memory, disk, machines and cost of an index of a given size, and a check of the formulas against a small index.

    python benchmarks/capacity.py [--chunks 1e7 1e8 1e9] [--dimension 384] [--replicas 2]
    python benchmarks/capacity.py --check

Prints a table for an index in a folder and for Milvus. ``--check`` writes an index of 20,000 chunks to a folder, prints
the predicted and the actual bytes of each of its parts, and fails if a part differs by more than half. The formulas for
Milvus are not checked.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.text.analyzer import Analyzer

GB = 1e9
# Links of a node in the lowest layer of an HNSW graph with M = 16, four bytes each.
LINKS = 2 * 16 * 4
# A posting of Milvus' sparse index: the number of the text and the weight of the word.
POSTING = 8
# Share of a query node's memory that segments may fill. The rest is needed for loading and merging.
USABLE_SHARE = 0.75
# Checksum of the vector, and of vector and text, per row of the matrix.
CHECKSUMS = 8
# Bytes per chunk of the catalog beyond text and metadata: ids, hashes, state, their indexes and SQLite's pages.
CATALOG_ROW = 680
# Bytes per distinct word of a text in Tantivy, compressed: the number of the text, the frequency and the position.
TANTIVY_POSTING = 3.2
# Largest relative difference between a prediction and a measurement.
TOLERANCE = 0.5


@dataclass(frozen=True)
class Load:
    """Size of an index: number of chunks, dimension of their vectors, bytes of text and metadata, distinct words per
    text.
    """

    chunks: float
    dimension: int = 384
    text: float = 800.0
    metadata: float = 200.0
    words: float = 70.0

    def folder(self) -> dict[str, float]:
        """Return the bytes on disk of the parts of a ``HybridGraphStore``."""
        return {
            "vectors": self.chunks * (4 * self.dimension + CHECKSUMS),
            "catalog": self.chunks * (self.text + self.metadata + CATALOG_ROW),
            "keywords": self.chunks * self.words * TANTIVY_POSTING,
        }

    def loaded(self) -> float:
        """Return the bytes that one replica in Milvus keeps in memory: vectors with their graph, words, fields."""
        vectors = 4 * self.dimension + LINKS
        return self.chunks * (vectors + self.words * POSTING + self.text + 2 * self.metadata)

    def stored(self) -> float:
        """Return the bytes in Milvus' object storage: the rows, and the index files next to them."""
        return self.loaded() + self.chunks * (4 * self.dimension + self.text + self.metadata)

    def query_nodes(self, replicas: int, memory: float) -> int:
        """Return the number of query nodes needed if each has ``memory`` bytes."""
        return replicas * math.ceil(self.loaded() / (USABLE_SHARE * memory))

    def shards(self) -> int:
        """Return the number of shards (channels that accept writes): one per 50 million chunks, at most 16."""
        return min(16, max(1, math.ceil(self.chunks / 5e7)))


def table(loads: list[Load], replicas: int, memory: float, price: float, rate: float) -> str:
    """Return a Markdown table; the cost is that of a million queries.

    ``price`` is per node and hour, ``rate`` the queries per second of one replica.
    """
    nodes_with = f"query nodes ({replicas} replicas of {memory / GB:.0f} GB nodes)"
    lines = [
        f"| Chunks | Folder | Milvus: memory per replica | {nodes_with} | object storage | shards | cost |",
        "|---|---|---|---|---|---|---|",
    ]
    for load in loads:
        nodes = load.query_nodes(replicas, memory)
        cost = nodes * price / (replicas * rate * 3600) * 1e6
        sizes = [f"{size / GB:,.0f} GB" for size in (sum(load.folder().values()), load.loaded(), load.stored())]
        cells = [f"{load.chunks:,.0f}", sizes[0], sizes[1], f"{nodes:,}", sizes[2], str(load.shards()), f"{cost:,.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def check(chunks: int, dimension: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Write an index, and return (predicted, measured) bytes of each of its parts."""
    dice, analyzer = Random(0), Analyzer("english")
    vocabulary = [f"word{number:05d}" for number in range(20_000)]
    texts = [" ".join(vocabulary[int(dice.paretovariate(0.7)) % 20_000] for _ in range(90)) for _ in range(chunks)]
    metadata = {"source": "notes/2024/05/minutes.md", "title": "Minutes of the meeting", "year": 2024}
    vectors = np.random.default_rng(0).normal(size=(chunks, dimension)).astype(np.float32)
    with HybridGraphStore(folder / "index", DeterministicFakeEmbedding(size=dimension)) as store:
        for start in range(0, chunks, 1_000):
            numbers = range(start, min(chunks, start + 1_000))
            store.upsert(
                [Chunk(f"c{n}", texts[n], metadata) for n in numbers], vectors=vectors[numbers.start : numbers.stop]
            )
        store.flush()
    load = Load(
        chunks,
        dimension,
        text=sum(map(len, texts)) / chunks,
        metadata=len(str(metadata)),
        words=sum(len(set(analyzer.words(text))) for text in texts) / chunks,
    )
    measured = {
        "vectors": sum(file.stat().st_size for file in (folder / "index").glob("vectors-*")),
        "catalog": sum(file.stat().st_size for file in (folder / "index").glob("catalogue.sqlite*")),
        "keywords": sum(file.stat().st_size for file in (folder / "index" / "keywords").rglob("*") if file.is_file()),
    }
    return {part: (predicted, measured[part]) for part, predicted in load.folder().items()}


def main() -> None:
    """Print the table, or the check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--chunks", type=float, nargs="+", default=[1e7, 1e8, 1e9], help="numbers of chunks, one table row for each"
    )
    parser.add_argument("--dimension", type=int, default=384, help="dimension of the vectors")
    parser.add_argument("--replicas", type=int, default=2, help="number of replicas in Milvus")
    parser.add_argument("--memory", type=float, default=64.0, help="GB of memory of a query node")
    parser.add_argument("--price", type=float, default=0.5, help="price of a query node per hour")
    parser.add_argument("--rate", type=float, default=100.0, help="queries per second that one replica answers")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the predicted size with that of a real folder index of 20,000 chunks",
    )
    options = parser.parse_args()
    if options.check:
        with tempfile.TemporaryDirectory() as folder:
            for part, (predicted, measured) in check(20_000, options.dimension, Path(folder)).items():
                print(f"{part}: {predicted / 1e6:.1f} MB predicted, {measured / 1e6:.1f} MB measured")
                if not 1 - TOLERANCE <= measured / predicted <= 1 + TOLERANCE:
                    raise SystemExit(f"{part}: the formula is wrong by more than {TOLERANCE:.0%}")
    else:
        loads = [Load(chunks, options.dimension) for chunks in options.chunks]
        print(table(loads, options.replicas, options.memory * GB, options.price, options.rate))


if __name__ == "__main__":
    main()
