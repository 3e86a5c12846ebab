"""Share of correct first hits for questions that contain an identifier.

    python benchmarks/identifiers.py [--set NAME] [--data FOLDER] [--milvus] [--questions N]

The corpus is 6,000 package descriptions. 300 package names are each asked in three forms: the bare name, a short
question, and a long sentence. HybridRetriever is run with ready-made all-MiniLM-L6-v2 vectors, with LSA, and with
random vectors, which contain no information about the words. It is compared with BM25 alone and with fixed weights over
the same index. ``--milvus`` searches a store in milvus-lite instead (without LSA, which Milvus cannot store), and
``--questions`` asks only this number of questions.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from _corpus import ReadyEmbeddings, require_sets
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

VARIANTS: dict[str, dict[str, Any]] = {
    "**default**": {},
    "fixed weights": {"fusion": {"type": "convex", "adaptive": False}},
    "BM25 alone": {"semantic_weight": 0.0, "keyword_weight": 1.0, "fusion": {"type": "convex", "adaptive": False}},
}


class RandomEmbeddings(Embeddings):
    """An embedding with a random vector for each text, the same every time."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return np.random.default_rng(zlib.crc32(text.encode())).normal(size=384).tolist()  # type: ignore[no-any-return]


def first_hits(retriever: HybridRetriever, loaded: Any) -> dict[str, float]:
    """Return the share of questions whose first hit is correct, by form of question."""
    right: dict[str, list[bool]] = defaultdict(list)
    for query in loaded.queries:
        hits = retriever.invoke(query["text"], k=1)
        right[query["form"]].append(bool(hits) and loaded.qrels[query["id"]].get(hits[0].id, 0) > 0)
    return {form: float(np.mean(each)) for form, each in right.items()}


def main() -> None:
    """Print a row for each embedding and variant."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, help="folder of the sets, instead of HYBRIDGRAPH_SETS")
    options.add_argument("--set", default="identifiers", help="name of the set")
    options.add_argument("--milvus", action="store_true", help="search a store in milvus-lite")
    options.add_argument("--questions", type=int, help="number of questions; all by default")
    arguments = options.parse_args()
    if arguments.data is not None:
        os.environ["HYBRIDGRAPH_SETS"] = str(arguments.data)
    sets = require_sets()
    loaded = sets.load(arguments.set)
    if arguments.questions is not None:
        del loaded.queries[arguments.questions :]
    embeddings: dict[str, Any] = {
        "MiniLM": ReadyEmbeddings(
            {"dimension": np.zeros(384, np.float32), **sets.PrecomputedEmbeddings(arguments.set).vectors}
        ),
        "LSA": "lsa",
        "at random": RandomEmbeddings(),
    }
    texts, ids = [sets.document_text(row) for row in loaded.corpus], [row["id"] for row in loaded.corpus]
    forms = list(dict.fromkeys(query["form"] for query in loaded.queries))
    print(f"| vectors | | {' | '.join(forms)} |\n|---|---{'|---' * len(forms)}|")
    for name, embedding in embeddings.items():
        if arguments.milvus and embedding == "lsa":
            continue
        with tempfile.TemporaryDirectory() as folder:
            store: Any = HybridGraphStore(None, embedding)
            if arguments.milvus:
                store = MilvusStore(f"milvus:{folder}/lite.db", embedding, timeout=60)
            store.upsert([Chunk(id, text) for id, text in zip(ids, texts, strict=True)])
            store.flush()
            for label, settings in VARIANTS.items():
                shares = first_hits(HybridRetriever(store, **settings), loaded)
                print(
                    f"| {name} | {label} | {' | '.join(f'{shares.get(form, 0):.3f}' for form in forms)} |", flush=True
                )


if __name__ == "__main__":
    main()
