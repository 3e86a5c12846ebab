"""Walks down a tree from the best directory found so far, until the best do not change.

It is a search of its own over the same calls as the pipeline, and not ``traversal.BestFirst`` over a store's graph: a
directory need not be a chunk (and so no node there), each level is scored by the whole search and by the reranker,
which means waiting, and of every directory only the best children count.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.calls import Call

T = TypeVar("T")
Stage = Generator[Sequence[Call], Sequence[Any], T]

# Values are compared to so many decimals: in which order they were added up decides nothing.
_DECIMALS = 12


class Judged(NamedTuple):
    """What a node is worth by itself, both in [0, 1]: as an answer, and as the way to others.

    ``way`` None is not known: the node is walked through when nothing better is left, and its children are judged as
    if they were roots. ``name`` decides among equals. ``counts`` is False for what may be walked through, but is no
    answer.
    """

    node: int
    name: str
    answer: float
    way: float | None
    counts: bool = True


class Reached(NamedTuple):
    """A node that the walk came to: its value, what it is worth by itself, and the value that it came with.

    ``came`` is that of the directory which it was found in, None for a start and below a root without a score.
    """

    node: int
    value: float
    own: float
    came: float | None


class Descended(NamedTuple):
    """What was reached, best first, ties by name; ``opened`` directories, and whether the walk ended early."""

    reached: tuple[Reached, ...]
    opened: int
    converged: bool


@dataclass(frozen=True)
class Descent:
    """How to walk down a tree.

    A child's value is ``alpha`` · own + (1 − ``alpha``) · that of its directory (``Propagation``); a directory without
    a value passes own through. What is not above ``threshold`` is left out; a directory is not opened where nothing in
    it could be above it, or when it is worth nothing itself. Of every directory the max(2 k, 20) best children count.
    The walk ends when the best ``k`` stay the same for ``max_rounds`` directories; with fewer than k it goes on.

    Raises ConfigurationError for values that cannot be used.
    """

    k: int
    alpha: float = 0.5
    max_rounds: int = 3
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not _is_share(self.alpha):
            raise ConfigurationError(f"alpha is {self.alpha!r}; wanted a number from 0 to 1")
        if self.max_rounds < 1:
            raise ConfigurationError(f"max_rounds is {self.max_rounds!r}; wanted a whole number from 1")
        if not _is_share(self.threshold):
            raise ConfigurationError(f"score_threshold is {self.threshold!r}; wanted a number from 0 to 1")

    @property
    def width(self) -> int:
        """How many children of a directory count."""
        return max(2 * self.k, 20)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def descend(
    roots: Sequence[tuple[int, str]],
    starts: Sequence[Judged],
    children: Callable[[int], Sequence[int]],
    judge: Callable[[Sequence[int]], Stage[Sequence[Judged]]],
    descent: Descent,
) -> Stage[Descended]:
    """What the walk comes to from ``starts`` and, when nothing is left there, from ``roots`` (node, name).

    ``children`` gives a directory's, nothing for a document; ``judge`` scores nodes. Every directory is opened once,
    so a tree with a loop ends; a node that is reached several times keeps its best value.

    >>> own = {1: 0.8, 2: 0.9}
    >>> def judge(nodes):
    ...     return [Judged(node, str(node), own[node], own[node]) for node in nodes]
    ...     yield
    >>> walk = descend([(0, "")], [], {0: [1], 1: [2], 2: []}.get, judge, Descent(k=2))
    >>> try:
    ...     next(walk)
    ... except StopIteration as stop:
    ...     print([(each.node, round(each.value, 2)) for each in stop.value.reached])
    [(2, 0.85), (1, 0.8)]
    """
    walk = _Walk(descent)
    for start in starts:
        walk.reach(start, None)
    for node, name in roots:
        walk.wait(node, name, None)
    while (directory := walk.next()) is not None:
        below = children(directory)
        if not below:
            continue
        judged = yield from judge(below)
        walk.open(directory, judged)
        if walk.unchanged == descent.max_rounds:
            return walk.ended(converged=True)
    return walk.ended(converged=False)


class _Walk:
    """What one walk has reached, and the directories that wait, the best first; those without a value last."""

    def __init__(self, descent: Descent) -> None:
        self._descent = descent
        self._reached: dict[int, Reached] = {}
        self._names: dict[int, str] = {}
        self._ways: dict[int, float | None] = {}
        self._waiting: list[tuple[float, str, int]] = []
        self._opened: set[int] = set()
        self._rounds = 0
        self._best: frozenset[int] = frozenset()
        self.unchanged = 0

    def next(self) -> int | None:
        """The best directory that has not been opened; it counts as opened then."""
        while self._waiting:
            node = heapq.heappop(self._waiting)[2]
            if node not in self._opened:
                self._opened.add(node)
                return node
        return None

    def open(self, directory: int, judged: Sequence[Judged]) -> None:
        """Take in a directory's children."""
        came = self._ways[directory]
        best = sorted(judged, key=lambda each: (-round(max(each.answer, each.way or 0.0), _DECIMALS), each.name))
        for each in best[: self._descent.width]:
            self.reach(each, came)
        self._rounds += 1
        self._look_at_the_best()

    def reach(self, judged: Judged, came: float | None) -> None:
        """Take in a node, where it is above the threshold and better than before."""
        node, alpha, threshold = judged.node, self._descent.alpha, self._descent.threshold
        value = _mixed(judged.answer, came, alpha)
        known = self._reached.get(node)
        if judged.counts and value > threshold and (known is None or value > known.value):
            self._names[node] = judged.name
            self._reached[node] = Reached(node, value, judged.answer, came)
        way = None if judged.way is None else _mixed(judged.way, came, alpha)
        # Below a way of this value nothing is worth more than a perfect child.
        if way is None or (way > 0 and _mixed(1.0, way, alpha) > threshold):
            self.wait(node, judged.name, way)

    def wait(self, node: int, name: str, way: float | None) -> None:
        """Let a node wait to be opened, with this value as a way, unless it waits with a better one or was opened."""
        if node in self._opened or (node in self._ways and _worth(way) <= _worth(self._ways[node])):
            return
        self._ways[node] = way
        heapq.heappush(self._waiting, (-_worth(way), name, node))

    def ended(self, *, converged: bool) -> Descended:
        """All that was reached."""
        return Descended(tuple(sorted(self._reached.values(), key=self._rank)), self._rounds, converged)

    def _look_at_the_best(self) -> None:
        k = self._descent.k
        best = frozenset(each.node for each in heapq.nsmallest(k, self._reached.values(), key=self._rank))
        # With fewer than are wanted the walk goes on.
        self.unchanged = self.unchanged + 1 if best == self._best and len(best) == k else 0
        self._best = best

    def _rank(self, reached: Reached) -> tuple[float, str]:
        return -round(reached.value, _DECIMALS), self._names[reached.node]


def _worth(way: float | None) -> float:
    """As what a way is compared; one that is not known is less than any."""
    return -1.0 if way is None else round(way, _DECIMALS)


def _mixed(own: float, came: float | None, alpha: float) -> float:
    return own if came is None else alpha * own + (1 - alpha) * came
