"""Best-first search down a tree of directories.

It is a search of its own over the same calls as the pipeline, and not ``traversal.BestFirst`` over a store's graph: a
directory need not be a chunk (and so no node there), each level is scored by the whole search and by the reranker,
which means waiting, and of every directory only the best children count.
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


# Number of decimals to which values are compared, so that the order of addition does not matter.
_DECIMALS = 12


class ScoredLevel(NamedTuple):
    """Scores of the nodes of one level by themselves, with one entry per node, in the order of ``names``.

    ``answers`` and ``ways`` are in [0, 1]: as an answer, and as the way to other nodes. A way of NaN is unknown: the
    node is opened when nothing better is left, and its children are scored like roots. ``names`` break ties. ``counts``
    is False for nodes that may be opened but cannot be answers, ``leads`` is False for nodes without children.
    """

    nodes: Nodes
    names: Sequence[str]
    answers: Weights
    ways: Weights
    counts: Mask
    leads: Mask

    @property
    def worth(self) -> Weights:
        """The better of ``answers`` and ``ways`` for each node."""
        return np.fmax(self.answers, self.ways)

    def at(self, places: Sequence[int]) -> ScoredLevel:
        """Return the entries at these places."""
        return ScoredLevel(
            self.nodes[places],
            [self.names[place] for place in places],
            self.answers[places],
            self.ways[places],
            self.counts[places],
            self.leads[places],
        )


class Reached(NamedTuple):
    """A reached node: its value, its own score, and the value of the directory in which it was found.

    ``came`` is the value of the directory, None for a start and below a root without a score.
    """

    node: int
    value: float
    own: float
    came: float | None


class Descended(NamedTuple):
    """The reached nodes, best first, ties by name; ``opened`` directories, and whether the walk ended early."""

    reached: tuple[Reached, ...]
    opened: int
    converged: bool


@dataclass(frozen=True)
class BestFirstSettings:
    """Settings of a walk down a tree.

    A child's value is ``alpha`` · own + (1 − ``alpha``) · that of its directory (``Propagation``); below a directory
    without a value it is its own. Values not above ``threshold`` are left out. A directory is not opened if nothing in
    it could be above the threshold, or if its own score is 0. The max(2 k, 20) best children of each directory count.
    The walk ends when the best ``k`` stay the same for ``max_rounds`` directories; with fewer than k it continues.

    Raises ConfigurationError for values that cannot be used.
    """

    k: int
    alpha: float = 0.5
    max_rounds: int = 3
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not _is_share(self.alpha):
            raise ConfigurationError(f"alpha must be a number from 0 to 1, got {self.alpha!r}")
        if self.max_rounds < 1:
            raise ConfigurationError(f"max_rounds must be a whole number from 1, got {self.max_rounds!r}")
        if not _is_share(self.threshold):
            raise ConfigurationError(f"score_threshold must be a number from 0 to 1, got {self.threshold!r}")

    @property
    def width(self) -> int:
        """Number of children of a directory that count."""
        return max(2 * self.k, 20)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def descend(
    roots: Sequence[tuple[int, str]],
    starts: ScoredLevel,
    look: Callable[[int], Search[ScoredLevel | None]],
    descent: BestFirstSettings,
) -> Search[Descended]:
    """Return the nodes reached from ``starts`` and, when nothing is left there, from ``roots`` (node, name).

    ``look`` scores the children of a directory; None if it has none. Every directory is opened once, so a tree with a
    loop ends; a node that is reached several times keeps its best value.

    >>> own = np.array([0.0, 0.8, 0.9])
    >>> def judged(nodes):
    ...     names, every = list(map(str, nodes)), np.ones(len(nodes), bool)
    ...     return ScoredLevel(np.array(nodes, int), names, own[nodes], own[nodes], every, every)
    >>> def look(node):
    ...     return judged([node + 1]) if node < 2 else None
    ...     yield
    >>> walk = descend([(0, "")], judged([]), look, BestFirstSettings(k=2))
    >>> try:
    ...     next(walk)
    ... except StopIteration as stop:
    ...     print([(each.node, round(each.value, 2)) for each in stop.value.reached])
    [(2, 0.85), (1, 0.8)]
    """
    walk = _Walk(descent)
    walk.reach(starts, None)
    for node, name in roots:
        walk.wait(node, name, None)
    while (directory := walk.next()) is not None:
        judged = yield from look(directory)
        if judged is None:
            continue
        walk.open(directory, judged)
        if walk.unchanged == descent.max_rounds:
            return walk.ended(converged=True)
    return walk.ended(converged=False)


class _Walk:
    """The nodes reached by a walk, and the directories that wait, best first; those without a value come last."""

    def __init__(self, descent: BestFirstSettings) -> None:
        self._descent = descent
        self._reached: dict[int, Reached] = {}
        self._ranks: dict[int, tuple[float, str]] = {}
        self._ways: dict[int, float | None] = {}
        self._waiting: list[tuple[float, str, int]] = []
        self._opened: set[int] = set()
        self._rounds = 0
        self._best: list[int] = []
        self._new: list[int] = []
        self.unchanged = 0

    def next(self) -> int | None:
        """Return the best directory that has not been opened, and mark it as opened."""
        while self._waiting:
            node = heapq.heappop(self._waiting)[2]
            if node not in self._opened:
                self._opened.add(node)
                return node
        return None

    def open(self, directory: int, judged: ScoredLevel) -> None:
        """Add the children of a directory."""
        width = self._descent.width
        if len(judged.nodes) > width:
            best = np.argsort(-np.round(judged.worth, _DECIMALS), kind="stable")
            judged = judged.at(best[:width].tolist())
        self.reach(judged, self._ways[directory])
        self._rounds += 1
        self._look_at_the_best()

    def reach(self, judged: ScoredLevel, came: float | None) -> None:
        """Add nodes that are above the threshold and better than before."""
        alpha, threshold = self._descent.alpha, self._descent.threshold
        nodes, names, owns = judged.nodes.tolist(), judged.names, judged.answers.tolist()
        values = _mixed(judged.answers, came, alpha)
        for place in np.flatnonzero(judged.counts & (values > threshold)).tolist():
            self._keep(Reached(nodes[place], float(values[place]), owns[place], came), names[place])
        if not judged.leads.any():
            return
        ways = _mixed(judged.ways, came, alpha)
        # Children can exceed the threshold only if a perfect child would (or if the way is unknown).
        hopeful = np.isnan(ways) | ((ways > 0) & (_mixed(1.0, ways, alpha) > threshold))
        for place in np.flatnonzero(judged.leads & hopeful).tolist():
            way = float(ways[place])
            self.wait(nodes[place], names[place], None if math.isnan(way) else way)

    def _keep(self, reached: Reached, name: str) -> None:
        known = self._reached.get(reached.node)
        if known is None or reached.value > known.value:
            self._reached[reached.node] = reached
            self._ranks[reached.node] = -round(reached.value, _DECIMALS), name
            self._new.append(reached.node)

    def wait(self, node: int, name: str, way: float | None) -> None:
        """Queue a node to be opened, unless it is queued with a better value or has been opened."""
        if node in self._opened or (node in self._ways and _worth(way) <= _worth(self._ways[node])):
            return
        self._ways[node] = way
        heapq.heappush(self._waiting, (-_worth(way), name, node))

    def ended(self, *, converged: bool) -> Descended:
        """Return the reached nodes."""
        ordered = sorted(self._reached, key=self._ranks.__getitem__)
        return Descended(tuple(map(self._reached.__getitem__, ordered)), self._rounds, converged)

    def _look_at_the_best(self) -> None:
        """Check whether new nodes have changed the best k; values only grow, so no other node can."""
        k = self._descent.k
        best = sorted({*self._best, *self._new}, key=self._ranks.__getitem__)[:k]
        # With fewer than k the walk continues.
        self.unchanged = self.unchanged + 1 if len(best) == k and set(best) == set(self._best) else 0
        self._best, self._new = best, []


def _worth(way: float | None) -> float:
    """Return the value by which ways are compared; an unknown way is the least."""
    return -1.0 if way is None else round(way, _DECIMALS)


def _mixed(own: Any, came: Any, alpha: float) -> Any:
    """Return the value of nodes whose directory has the value ``came``; their own score if ``came`` is None."""
    return own if came is None else alpha * own + (1 - alpha) * came
