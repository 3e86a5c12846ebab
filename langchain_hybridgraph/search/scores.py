"""Scores of chunks that were reached through the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from langchain_hybridgraph.errors import CheckedSettings, ConfigurationError, check_number, setting
from langchain_hybridgraph.registry import from_config

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.stores.protocols import Nodes, Weights


ChosenBy = Literal["value", "hops", "seed"]


class PathFeatures(NamedTuple):
    """Features of paths from a seed to a chunk, as arrays of equal length with an entry per path.

    - ``seed``: the score of the seed at which the path starts
    - ``best_seed``: the score of the best seed, a single number
    - ``hops``: the number of edges of the path, 0 for a seed
    - ``weight``: the weight of the last edge of the path, 1 for a seed, 0 for a hit that the traversal did not reach
    - ``product``: the product of the weights of all edges of the path
    - ``previous_value``: the value of the second-last chunk of the path (with LinkEvidence, the seed's score); NaN if
      there is no such chunk or value
    - ``own``: the similarity of the last chunk to the query, in [0, 1], or its score if it is a seed. NaN if unknown
    - ``flow``: the quantity carried along the path. For WaterCircle, it is the energy; for PersonalizedPageRank, the
      mass divided by the largest mass; for LinkEvidence, the strength of the evidence if the graph score is combined
      with the search score. In all other cases, it is seed · product
    """

    seed: Weights
    best_seed: float
    hops: Nodes
    weight: Weights
    product: Weights
    previous_value: Weights
    own: Weights
    flow: Weights


GraphScore = Callable[[PathFeatures], "NDArray[np.float64]"]
"""Function that takes a :class:`PathFeatures` and returns the value of each path, in [0, 1].

Any callable with this signature is a graph score. Values are clipped to [0, 1]; NaN is an error for a path whose
``seed`` and ``own`` are known.

A callable that cannot process arrays is called once per path, with a PathFeatures of plain numbers.

A graph score may have these attributes:

- ``needs_own``: if it is False, similarities are not looked up.
- ``chosen_by``: the rule that determines which of several paths to a chunk is used (see :func:`chosen_by`).
- ``by_similarity``: if it is False, the scores of seeds are their search scores and not their cosines.
- ``of_seed`` and ``of_own``: parts of a value (see :func:`parts_of`).
- ``mixed(own, graph)``: a method with which the score is combined with the search score instead of replacing it. It
  returns the combined score, which grows with both values and is ``own`` if ``graph`` is 0. All are in [0, 1]. ``own``
  is the chunk's search score divided by the best search score, ``graph`` its value in the traversal.
- ``at_most(best, own, most)``: a method that returns the largest possible value of a chunk reached through edges, where
  ``best`` is the largest score of a seed, ``own`` the largest possible similarity of this chunk, and ``most`` the
  largest possible similarity of any chunk. With it, seeds can be streamed before the edges are followed.
"""


@dataclass(frozen=True)
class HopDecay(CheckedSettings):
    """Graph score: vector_weight · own + graph_weight · decay of the hop · weight of the last edge.

    ``own`` (:class:`PathFeatures`) counts as 0 if it is unknown and, with ``score_expanded=False``, for chunks reached
    through edges. ``hop_decay`` lists the decay for each hop, starting with hop 0, the seeds; further hops use
    ``tail``. With ``seed_bonus=False``, the score of a seed is only vector_weight · own. Weights that sum to more than
    1 are divided by their sum.

    >>> one = np.ones(1)
    >>> path = PathFeatures(one, 1.0, np.array([1]), 0.8 * one, 0.8 * one, one, 0.4 * one, one)
    >>> HopDecay()(path).round(3).tolist()
    [0.448]
    """

    vector_weight: float = setting(0.7, ge=0)
    graph_weight: float = setting(0.3, ge=0)
    hop_decay: tuple[float, ...] = (1.0, 0.7, 0.5)
    tail: float = setting(0.5, ge=0, le=1)
    seed_bonus: bool = True
    score_expanded: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        values: Any = self.hop_decay
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ConfigurationError(
                f"hop_decay must be a list with a number per hop, such as [1, 0.7, 0.5], got {values!r}"
            )
        object.__setattr__(self, "hop_decay", tuple(values))
        for hop, decay in enumerate(self.hop_decay):
            check_number(f"hop_decay[{hop}]", decay, ge=0, le=1)

    @property
    def needs_own(self) -> bool:
        """Whether the similarity of chunks reached through edges is used."""
        return self.score_expanded and self.vector_weight > 0

    @property
    def of_seed(self) -> float:
        return self.hop_decay[0] * _shares(self.vector_weight, self.graph_weight)[1] if self.seed_bonus else 0.0

    @property
    def of_own(self) -> float:
        return _shares(self.vector_weight, self.graph_weight)[0] if self.score_expanded else 0.0

    def at_most(self, best: float, own: float, most: float) -> float:
        return self.of_own * own + _shares(self.vector_weight, self.graph_weight)[1] * max(
            *self.hop_decay[1:], self.tail, 0
        )

    def __call__(self, paths: PathFeatures) -> Weights:
        is_seed = paths.hops == 0
        own = np.where(np.isnan(paths.own), 0.0, paths.own)
        if not self.score_expanded:
            own = np.where(is_seed | (paths.weight == 0), own, 0.0)
        decay = np.array([*self.hop_decay, self.tail])[np.minimum(paths.hops, len(self.hop_decay))]
        by_edge = decay * paths.weight
        if not self.seed_bonus:
            by_edge = np.where(is_seed, 0.0, by_edge)
        of_own, of_edge = _shares(self.vector_weight, self.graph_weight)
        return of_own * own + of_edge * by_edge


class ScoreWithoutSimilarity(CheckedSettings):
    """Base class of the graph scores that do not use the similarity of chunks to the question."""

    needs_own: ClassVar[bool] = False
    by_similarity: ClassVar[bool] = False


@dataclass(frozen=True)
class DistanceDecay(ScoreWithoutSimilarity):
    """Graph score: seed_weight · (the seed's score / the best seed's score) + distance_weight · e^(−hops / tau).

    If several seeds lead to a chunk, ``assignment`` selects one: ``"nearest"`` the seed with the fewest hops, then the
    best score; ``"best"`` the seed that gives the largest value. Weights that sum to more than 1 are divided by their
    sum.

    >>> one = np.ones(1)
    >>> path = PathFeatures(0.8 * one, 0.8, np.array([2]), one, one, one, one, one)
    >>> DistanceDecay()(path).round(6).tolist()
    [0.810364]
    """

    seed_weight: float = setting(0.7, ge=0)
    distance_weight: float = setting(0.3, ge=0)
    tau: float = setting(2.0, gt=0)
    assignment: Literal["nearest", "best"] = setting("nearest", choices=("nearest", "best"))

    @property
    def of_seed(self) -> float:
        return _shares(self.seed_weight, self.distance_weight)[1]

    @property
    def chosen_by(self) -> ChosenBy:
        """Rule that determines which of several paths to a chunk is used."""
        return "hops" if self.assignment == "nearest" else "seed"

    def at_most(self, best: float, own: float, most: float) -> float:
        of_seed, of_distance = _shares(self.seed_weight, self.distance_weight)
        return of_seed + of_distance * math.exp(-1 / self.tau)

    def __call__(self, paths: PathFeatures) -> Weights:
        of_seed, of_distance = _shares(self.seed_weight, self.distance_weight)
        seed = np.nan_to_num(paths.seed) / (paths.best_seed or 1.0)
        return of_seed * seed + of_distance * np.exp(-paths.hops / self.tau)


@dataclass(frozen=True)
class Propagation(CheckedSettings):
    """Graph score: alpha · own + (1 − alpha) · the value of the previous chunk on the path.

    It is ``own`` (:class:`PathFeatures`) alone if there is no previous chunk or its value is unknown (NaN), as for a
    seed that the search did not find. Otherwise, an unknown ``own`` counts as 0.

    >>> one = np.ones(1)
    >>> path = PathFeatures(one, 1.0, np.array([1]), one, one, 0.6 * one, 0.8 * one, one)
    >>> Propagation(alpha=0.5)(path).round(6).tolist()
    [0.7]
    """

    alpha: float = setting(0.5, ge=0, le=1)

    @property
    def of_own(self) -> float:
        return self.alpha

    def at_most(self, best: float, own: float, most: float) -> float:
        """See :data:`GraphScore`. No value on a path is larger than the largest similarity on it."""
        return self.alpha * own + (1 - self.alpha) * max(best, most)

    def __call__(self, paths: PathFeatures) -> Weights:
        own = np.where(np.isnan(paths.previous_value), paths.own, np.nan_to_num(paths.own))
        return np.where(np.isnan(paths.previous_value), own, self.alpha * own + (1 - self.alpha) * paths.previous_value)


@dataclass(frozen=True)
class RingDecay(ScoreWithoutSimilarity):
    """Graph score: the seed's score · the product of the weights · decay^hops, or 0 if this is below ``min_energy``.

    A seed keeps its score even if that is less than ``min_energy``.

    >>> path = PathFeatures(np.array([0.9]), 0.9, np.array([1]), *[np.array([0.8])] * 5)
    >>> RingDecay()(path).round(6).tolist()
    [0.36]
    """

    decay: float = setting(0.5, ge=0, le=1)
    min_energy: float = setting(0.05, ge=0, le=1)

    def at_most(self, best: float, own: float, most: float) -> float:
        return best * self.decay

    def __call__(self, paths: PathFeatures) -> Weights:
        energy = paths.seed * paths.product * self.decay**paths.hops
        return np.where((energy >= self.min_energy) | (paths.hops == 0), energy, 0.0)


@dataclass(frozen=True)
class Flow(ScoreWithoutSimilarity):
    """Graph score equal to the quantity that the traversal carries along the path (``flow`` in :class:`PathFeatures`).

    >>> Flow()(PathFeatures(*[np.array([0.5])] * 8)).tolist()
    [0.5]
    """

    def __call__(self, paths: PathFeatures) -> Weights:
        return paths.flow


@dataclass(frozen=True)
class NoisyOr(ScoreWithoutSimilarity):
    """Graph score that combines the search score with evidence e: 1 − (1 − own) · (1 − e), e = ``strength`` · ``flow``.

    See :class:`PathFeatures` for ``flow``. Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 4.3.

    >>> round(NoisyOr().mixed(0.5, 0.4), 3)
    0.7
    """

    strength: float = setting(1.0, ge=0, le=1)

    def __call__(self, paths: PathFeatures) -> Weights:
        return self.strength * paths.flow

    def mixed(self, own: float, graph: float) -> float:
        return 1 - (1 - own) * (1 - graph)


GRAPH_SCORES: Mapping[str, Callable[..., GraphScore]] = MappingProxyType(
    {
        "hop_decay": HopDecay,
        "distance_decay": DistanceDecay,
        "propagation": Propagation,
        "ring_decay": RingDecay,
        "flow": Flow,
        "noisy_or": NoisyOr,
    }
)


def graph_score_from(form: str | Mapping[str, Any] | GraphScore) -> GraphScore:
    """Return the graph score for a name, or for a mapping with the name as ``type`` and parameters.

    A callable is returned unchanged. Raises ConfigurationError for an unknown name or parameter, and for an invalid
    value.

    >>> graph_score_from({"type": "propagation", "alpha": 0.4})
    Propagation(alpha=0.4)
    """
    return from_config("score", form, GRAPH_SCORES, callable)


def path_values(score: GraphScore, paths: PathFeatures) -> Weights:
    """Return the value of every path, in [0, 1].

    A value that depends on a seed's unknown score is NaN, one that depends on an unknown ``own`` is 0. Raises
    ConfigurationError if ``score`` returns the wrong number of values, or NaN although ``seed`` and ``own`` are known.
    """
    try:
        values = np.asarray(score(paths), np.float64)
    except (TypeError, ValueError):
        # ``max(…)`` and ``if`` do not work with arrays; any other error occurs again for a single path.
        values = np.empty(len(paths.hops))
        for place in range(len(values)):
            path: Any = PathFeatures._make(one if isinstance(one, float) else one[place].item() for one in paths)
            values[place] = float(score(path))
    if values.shape != paths.hops.shape:
        if values.shape:
            raise ConfigurationError(
                f"{score!r} must return one value for each of {len(paths.hops)} paths, got shape {values.shape}"
            )
        values = np.full(paths.hops.shape, values)
    unknown = np.isnan(values)
    if unknown.any():
        unknown &= ~np.isnan(paths.seed)
        if (unknown & ~np.isnan(paths.own)).any():
            raise ConfigurationError(f"{score!r} must return a number from 0 to 1 for each path, got NaN")
        # The score needs a similarity that is unknown, so there is no evidence for the chunk.
        values = np.where(unknown, 0.0, values)
    return np.minimum(np.maximum(values, 0.0), 1.0)


def parts_of(score: GraphScore, value: float, hops: int, own: float) -> dict[str, float]:
    """Split a chunk's value into ``search`` (its own score), ``seed`` (for being a seed) and ``graph`` (from edges).

    The parts add up to the value. Parts of 0 are left out unless the value is 0. Two attributes of a graph score, 0 by
    default, determine the parts: ``of_seed`` is what a chunk receives for being a seed, and ``of_own`` is the factor
    for the own score of a chunk reached through edges.

    >>> {name: round(part, 3) for name, part in parts_of(HopDecay(), 0.93, hops=0, own=0.9).items()}
    {'search': 0.63, 'seed': 0.3}
    """
    if hops:
        search = min(value, own * getattr(score, "of_own", 0.0))
        parts = {"search": search, "graph": value - search}
    else:
        seed = min(value, getattr(score, "of_seed", 0.0))
        parts = {"search": value - seed, "seed": seed}
    return {name: part for name, part in parts.items() if part} or {"search": value}


def chosen_by(score: GraphScore) -> ChosenBy:
    """Return the rule that determines which of several paths to a chunk is used.

    - ``"value"``: the path with the largest value, then the one with the fewest hops.
    - ``"hops"``: the path with the fewest hops, then the one with the largest value.
    - ``"seed"``: the same path as with ``"value"``. A path with a smaller value is also extended if it starts at a
      better seed, because it may lead to chunks with larger values.

    Among equal paths found in the same step, the one whose previous chunk has the smallest id is used.
    """
    return getattr(score, "chosen_by", "value")


def is_mixed(score: object) -> bool:
    """Return whether a graph score is combined with the search score."""
    return hasattr(score, "mixed")


def _shares(one: float, other: float) -> tuple[float, float]:
    total = max(one + other, 1.0)
    return one / total, other / total
