"""Selection of the final hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.text.analyzer import approximate_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Hit


def select_hits(
    hits: Sequence[Hit],
    k: int,
    *,
    min_score: float = 0.0,
    mmr_lambda: float | None = None,
    max_per_document: int | None = None,
    graph_slots: int = 0,
    vectors: NDArray[np.float32] | None = None,
) -> list[Hit]:
    """Return the k hits of the result, best first unless ``mmr_lambda`` changes the order.

    - ``min_score`` is the lowest score of a hit in the result.
    - ``mmr_lambda`` orders the hits by maximal marginal relevance: 1 considers only the score, 0 only the difference
      from the hits before it, and None keeps the order. It has no effect without ``vectors``.
    - ``max_per_document`` is the maximum number of hits from one document.
    - ``graph_slots`` is the number of the k results reserved for hits reached through edges. If there are fewer such
      hits among the best k, the lowest-ranked other hits are replaced by the next best hits reached through edges.

    Without graph slots, the result for a smaller k is the beginning of the result for a larger k.

    ``hits`` are best first. ``vectors`` are their unit vectors, len(hits) × dimension. A hit without a stored vector
    has a row of zeros, so its cosine with every other hit is 0.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> scores = {"a1": 0.9, "a2": 0.8, "b": 0.4}
    >>> hits = [Hit(Chunk(id, "", document_id=id[0]), score, "vector", {}) for id, score in scores.items()]
    >>> [hit.id for hit in select_hits(hits, k=10, min_score=0.3, max_per_document=1)]
    ['a1', 'b']
    """
    places = [place for place, hit in enumerate(hits) if hit.score >= min_score]
    ordered: Iterable[Hit] = (hits[place] for place in places)
    if mmr_lambda is not None and vectors is not None:
        scores = np.array([hits[place].score for place in places])
        order = marginal_relevance(scores, vectors[places], mmr_lambda)
        ordered = (hits[places[place]] for place in order)
    if max_per_document is not None:
        ordered = _capped(ordered, max_per_document)
    if not graph_slots:
        return list(islice(ordered, k))
    best = list(ordered)
    graph_places = [place for place, hit in enumerate(best) if hit.hops][: min(graph_slots, k)]
    other_places = [place for place in range(len(best)) if place not in graph_places]
    return [best[place] for place in sorted([*graph_places, *other_places[: k - len(graph_places)]])]


def marginal_relevance(scores: NDArray[np.float64], vectors: NDArray[np.float32], mmr_lambda: float) -> Iterator[int]:
    """Yield the positions of the candidates in order of marginal relevance, best first, ties by position.

    The next candidate is the one with the largest λ · score − (1 − λ) · (largest cosine with an earlier candidate).

    Carbonell and Goldstein, The Use of MMR, Diversity-Based Reranking, SIGIR 1998.

    >>> towards = np.array([[1, 0], [0.95, 0.3122499], [0.1, 0.9949874]], np.float32)
    >>> list(marginal_relevance(np.array([0.9, 0.85, 0.6]), towards, 0.7))
    [0, 2, 1]
    """
    relevance = mmr_lambda * scores
    likeness = np.full(len(scores), -np.inf)
    worth = relevance.copy()
    for _ in range(len(scores)):
        place = int(np.argmax(worth))
        yield place
        relevance[place] = -np.inf
        np.maximum(likeness, vectors @ vectors[place], out=likeness)
        worth = relevance - (1 - mmr_lambda) * likeness


def _capped(hits: Iterable[Hit], most: int) -> Iterator[Hit]:
    counts: Counter[str] = Counter()
    for hit in hits:
        counts[hit.chunk.document] += 1
        if counts[hit.chunk.document] <= most:
            yield hit


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limit of ``max_tokens`` on the total number of tokens in the hits; chunks are never cut.

    The first hit is always kept, and the order does not change. With ``fill``, smaller hits after one that does not fit
    may be kept; without it, none are. ``counter`` returns the number of tokens in a text. Raises ConfigurationError if
    ``max_tokens`` is below 1 or ``counter`` is not a function.
    """

    max_tokens: int = 4096
    counter: Callable[[str], int] = approximate_tokens
    fill: bool = True

    def __post_init__(self) -> None:
        max_tokens: object = self.max_tokens
        if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be an integer ≥ 1, such as 4096, got {max_tokens!r}")
        if not callable(self.counter):
            raise ConfigurationError(
                f"counter must be a function that returns the number of tokens in a text, got {self.counter!r}"
            )

    def fit(self, hits: Sequence[Hit]) -> tuple[list[Hit], list[str]]:
        """Return the hits that fit into the budget, in their order, and the reasons to add to ``degraded``.

        A first hit that is larger than the budget is the only one, with the reason ``single-chunk-exceeds-budget``.

        >>> from langchain_hybridgraph.records import Chunk, Hit
        >>> hits = [Hit(Chunk(id, "word " * n), 0.5, "vector", {}) for id, n in (("a", 10), ("b", 20), ("c", 1))]
        >>> [[hit.id for hit in TokenBudget(30, fill=fill).fit(hits)[0]] for fill in (True, False)]
        [['a', 'c'], ['a']]
        """
        if not hits:
            return [], []
        remaining = self.max_tokens - self.counter(hits[0].chunk.text)
        if remaining < 0:
            return [hits[0]], ["single-chunk-exceeds-budget"]
        fitting = [hits[0]]
        for hit in hits[1:]:
            tokens = self.counter(hit.chunk.text)
            if tokens <= remaining:
                fitting.append(hit)
                remaining -= tokens
            elif not self.fill:
                break
        return fitting, []
