"""Best-first search of a tree of directories.

It is separate from ``BestFirst``, the similar traversal of a store's graph, for three reasons:

- A directory need not be a chunk, so it may not be a node of the graph.
- Scoring a level is slow, because it runs the complete search and the reranker.
- This search considers only the best children of each directory.

Like the pipeline, the search is a generator that yields calls to engines and receives their results.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Search

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Mask
    from langchain_hybridgraph.stores.protocols import Nodes, Weights


# Number of decimals to which values are rounded for comparison, so that rounding errors do not matter.
_DECIMALS = 12


class ScoredLevel(NamedTuple):
    """Nodes of one level of the tree, with their scores.

    ``answer_scores`` rate the nodes as answers. ``descent_scores`` rate them as directories that may contain answers.
    Both are in [0, 1], and neither includes the value of the parent directory (see :class:`BestFirstSettings`).

    A descent score of NaN means that the score is unknown. Such a directory is opened only when no directory with a
    known score is left, and the values of its children are their own scores.

    ``may_answer`` is False for nodes that may be opened but cannot be answers. Nodes with equal scores are ordered by
    ``names``.
    """

    nodes: Nodes
    names: Sequence[str]
    answer_scores: Weights
    descent_scores: Weights
    may_answer: Mask
    has_children: Mask

    @property
    def worth(self) -> Weights:
        """Higher of each node's two scores, the answer score and the descent score."""
        return np.fmax(self.answer_scores, self.descent_scores)

    def at(self, places: Sequence[int]) -> ScoredLevel:
        """Return the entries at these positions."""
        return ScoredLevel(
            self.nodes[places],
            [self.names[place] for place in places],
            self.answer_scores[places],
            self.descent_scores[places],
            self.may_answer[places],
            self.has_children[places],
        )


class ReachedNode(NamedTuple):
    """Node reached by the search, with its value, its own score, and the value of its directory.

    ``directory_value`` is None for a node at which the search starts, and for a node in a directory without a value.
    """

    node: int
    value: float
    own: float
    directory_value: float | None


class DescentResult(NamedTuple):
    """Result of a search of the tree.

    ``nodes`` are the reached nodes, best first, ties by name. ``opened`` is the number of opened directories.
    ``converged`` is set if the search ended early because its best nodes did not change.
    """

    nodes: tuple[ReachedNode, ...]
    opened: int
    converged: bool


@dataclass(frozen=True)
class BestFirstSettings:
    """Settings of a best-first search of a tree.

    The value of a child is ``alpha`` · its own score + (1 − ``alpha``) · the value of its directory, as in
    ``Propagation``. If the directory has no value, the value of the child is its own score. The result contains only
    nodes whose value is above ``threshold``. A directory is not opened if its value is 0, or if nothing in it could be
    above the threshold. Only the max(2 k, 20) best children of each directory are considered.

    The search ends early if opening ``max_rounds`` directories in a row does not change the best ``k`` nodes. It does
    not end early before it has found ``k`` nodes. Raises ConfigurationError for values outside their ranges.
    """

    k: int
    alpha: float = 0.5
    max_rounds: int = 3
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not _is_share(self.alpha):
            raise ConfigurationError(f"alpha must be a number from 0 to 1, got {self.alpha!r}")
        if self.max_rounds < 1:
            raise ConfigurationError(f"max_rounds must be an integer ≥ 1, got {self.max_rounds!r}")
        if not _is_share(self.threshold):
            raise ConfigurationError(f"score_threshold must be a number from 0 to 1, got {self.threshold!r}")

    @property
    def width(self) -> int:
        """Maximum number of children of a directory that are considered."""
        return max(2 * self.k, 20)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def descend(
    roots: Sequence[tuple[int, str]],
    starts: ScoredLevel,
    score_children: Callable[[int], Search[ScoredLevel | None]],
    descent: BestFirstSettings,
) -> Search[DescentResult]:
    """Search the tree for the best nodes, beginning with the nodes in ``starts``.

    ``roots`` are pairs of a node and its name. They are opened only when no directory with a known value is left to
    open. ``score_children`` returns the scores of a directory's children, or None if it has no children. Every
    directory is opened at most once, so the search ends even in a tree with a loop. A node that is reached several
    times keeps its best value.

    >>> own = np.array([0.0, 0.8, 0.9])
    >>> def level(nodes):
    ...     names, every = list(map(str, nodes)), np.ones(len(nodes), bool)
    ...     return ScoredLevel(np.array(nodes, int), names, own[nodes], own[nodes], every, every)
    >>> def score_children(node):
    ...     return level([node + 1]) if node < 2 else None
    ...     yield
    >>> search = descend([(0, "")], level([]), score_children, BestFirstSettings(k=2))
    >>> try:
    ...     next(search)
    ... except StopIteration as stop:
    ...     print([(each.node, round(each.value, 2)) for each in stop.value.nodes])
    [(2, 0.85), (1, 0.8)]
    """
    search = _Descent(descent)
    search.add(starts, None)
    for node, name in roots:
        search.wait(node, name, None)
    while (directory := search.next()) is not None:
        level = yield from score_children(directory)
        if level is None:
            continue
        search.open(directory, level)
        if search.unchanged == descent.max_rounds:
            return search.result(converged=True)
    return search.result(converged=False)


class _Descent:
    """State of a search: the reached nodes, and a queue of directories.

    The queue is ordered by value, best first. Directories without a value are last.
    """

    def __init__(self, descent: BestFirstSettings) -> None:
        self._descent = descent
        self._nodes: dict[int, ReachedNode] = {}
        self._ranks: dict[int, tuple[float, str]] = {}
        self._descent_scores: dict[int, float | None] = {}
        self._waiting: list[tuple[float, str, int]] = []
        self._opened: set[int] = set()
        self._rounds = 0
        self._best: list[int] = []
        self._new: list[int] = []
        self.unchanged = 0

    def next(self) -> int | None:
        """Remove the best directory from the queue, record it as opened, and return it.

        Return None if no unopened directory is left in the queue.
        """
        while self._waiting:
            node = heapq.heappop(self._waiting)[2]
            if node not in self._opened:
                self._opened.add(node)
                return node
        return None

    def open(self, directory: int, level: ScoredLevel) -> None:
        """Add the best children of a directory to the reached nodes and to the queue."""
        width = self._descent.width
        if len(level.nodes) > width:
            best = np.argsort(-np.round(level.worth, _DECIMALS), kind="stable")
            level = level.at(best[:width].tolist())
        self.add(level, self._descent_scores[directory])
        self._rounds += 1
        self._update_best()

    def add(self, level: ScoredLevel, directory_value: float | None) -> None:
        """Record the nodes with a value above the threshold, and queue the directories that may contain such nodes."""
        alpha, threshold = self._descent.alpha, self._descent.threshold
        nodes, names, owns = level.nodes.tolist(), level.names, level.answer_scores.tolist()
        values = _mixed(level.answer_scores, directory_value, alpha)
        for place in np.flatnonzero(level.may_answer & (values > threshold)).tolist():
            self._record(ReachedNode(nodes[place], float(values[place]), owns[place], directory_value), names[place])
        if not level.has_children.any():
            return
        descent_scores = _mixed(level.descent_scores, directory_value, alpha)
        # A child can exceed the threshold only if a perfect child would, or if the directory's value is unknown.
        hopeful = np.isnan(descent_scores) | ((descent_scores > 0) & (_mixed(1.0, descent_scores, alpha) > threshold))
        for place in np.flatnonzero(level.has_children & hopeful).tolist():
            descent_score = float(descent_scores[place])
            self.wait(nodes[place], names[place], None if math.isnan(descent_score) else descent_score)

    def _record(self, node: ReachedNode, name: str) -> None:
        previous = self._nodes.get(node.node)
        if previous is None or node.value > previous.value:
            self._nodes[node.node] = node
            self._ranks[node.node] = -round(node.value, _DECIMALS), name
            self._new.append(node.node)

    def wait(self, node: int, name: str, descent_score: float | None) -> None:
        """Add a node to the queue of directories to open.

        Nothing happens if the node has been opened, or is queued with a value that is at least as good.
        """
        if node in self._opened or (
            node in self._descent_scores and _priority(descent_score) <= _priority(self._descent_scores[node])
        ):
            return
        self._descent_scores[node] = descent_score
        heapq.heappush(self._waiting, (-_priority(descent_score), name, node))

    def result(self, *, converged: bool) -> DescentResult:
        """Return the reached nodes, best first, as the result of the search."""
        ordered = sorted(self._nodes, key=self._ranks.__getitem__)
        return DescentResult(tuple(map(self._nodes.__getitem__, ordered)), self._rounds, converged)

    def _update_best(self) -> None:
        """Update the best k nodes, and count the rounds in which they stay the same.

        A node's value never falls, so only new or improved nodes can change the best k.
        """
        k = self._descent.k
        best = sorted({*self._best, *self._new}, key=self._ranks.__getitem__)[:k]
        # With fewer than k nodes the search continues.
        self.unchanged = self.unchanged + 1 if len(best) == k and set(best) == set(self._best) else 0
        self._best, self._new = best, []


def _priority(descent_score: float | None) -> float:
    """Return a directory's priority in the queue: its rounded score, or -1 if the score is unknown."""
    return -1.0 if descent_score is None else round(descent_score, _DECIMALS)


def _mixed(own: Any, directory_value: Any, alpha: float) -> Any:
    return own if directory_value is None else alpha * own + (1 - alpha) * directory_value
