"""Decisions of ``remember`` on pairs of real texts with a cosine of .95 or more.

    python benchmarks/near_duplicates.py [--near .95] [--show 0]

The texts and questions of five evaluation sets are compared by their ready-made all-MiniLM-L6-v2 vectors. A pair has
the same words, is merged although its words differ, or is kept apart. ``--show n`` prints n pairs of each of the last
two kinds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from _corpus import require_sets

from langchain_hybridgraph.text.wording import may_be_reworded, same_wording

SETS = ("locomo", "cacm", "cranfield", "mtrag_clapnq", "mtrag_cloud")
ROWS = 1_000


def main() -> None:
    """Print a line for each set."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--near", type=float, default=0.95, help="minimum cosine of a pair")
    options.add_argument("--show", type=int, default=0, help="number of pairs of each kind to print")
    arguments = options.parse_args()
    sets = require_sets()
    print(f"| set (cosine ≥ {arguments.near}) | texts | pairs | same words | merged, different words | kept apart |")
    print("|---|---|---|---|---|---|")
    for name in SETS:
        vectors = sets.PrecomputedEmbeddings(name).vectors
        pairs = list(near_pairs(vectors, arguments.near))
        others = [pair for pair in pairs if not same_wording(*pair[1:])]
        reworded_pairs = [pair for pair in others if may_be_reworded(*pair[1:])]
        separate = [pair for pair in others if pair not in reworded_pairs]
        counts = (len(vectors), len(pairs), len(pairs) - len(others), len(reworded_pairs), len(separate))
        print(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
        for kind, some in (("merged", reworded_pairs), ("apart", separate)):
            for cosine, one, other in some[: arguments.show]:
                print(f"  {kind} {cosine:.3f}: {one[:100]!r}, {other[:100]!r}")


def near_pairs(vectors: Mapping[str, Any], near: float) -> Iterator[tuple[float, str, str]]:
    """Yield (cosine, text, text) for each pair of texts whose cosine is at least ``near``."""
    texts, matrix = list(vectors), np.array(list(vectors.values()), np.float32)
    for start in range(0, len(texts), ROWS):
        cosines = matrix[start : start + ROWS] @ matrix.T
        for row, column in zip(*np.nonzero(cosines >= near), strict=True):
            if column > start + row:
                yield float(cosines[row, column]), texts[start + row], texts[column]


if __name__ == "__main__":
    main()
