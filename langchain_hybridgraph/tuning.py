"""Choosing a setting by measuring, and checking the choice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.evaluation import Asks, Difference, Measured, difference
from langchain_hybridgraph.retrievers.base import PipelineRetriever
from langchain_hybridgraph.serialization import Serializable

WEIGHTS = tuple(round(0.1 * tenth, 1) for tenth in range(11))


@dataclass(frozen=True)
class Choice(Serializable):
    """The setting that is best on all questions, and what choosing so is worth on questions it has not seen.

    ``checked`` compares with ``default``. ``in_parts`` are the settings that were chosen without each of the parts.
    """

    best: str
    default: str
    checked: Difference
    in_parts: tuple[str, ...]

    @property
    def setting(self) -> str:
        """What to take: the best if the check is sure that choosing so gains something, else the default."""
        return self.best if self.checked.low > 0 else self.default

    def __str__(self) -> str:
        parts = len(self.in_parts)
        return (
            f"Best on all questions: {self.best}. Chosen without each of {parts} parts: {', '.join(self.in_parts)}; "
            f"and on that part, against {self.default}: {self.checked}. To take: {self.setting}."
        )


def by_weight(retriever: PipelineRetriever, weights: Iterable[float] = WEIGHTS) -> dict[str, Asks]:
    """The retriever with each of these weights of the vector side, as :func:`evaluation.measure` takes retrievers.

    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> list(by_weight(HybridRetriever(HybridGraphStore(None, "lsa")), [0, 0.5, 1]))
    ['0', '0.5', '1']
    """
    return {f"{weight:g}": partial(retriever.retrieve, semantic_weight=weight) for weight in weights}


def choose(measured: Measured, default: str, measure: str | None = None, *, parts: int = 5, seed: int = 0) -> Choice:
    """The best of the settings that were measured, and whether that will last.

    The best of many is partly the luckiest. So the questions are dealt into ``parts``; for each part a setting is
    chosen on the others and looked at on this one (cross-validation: Stone, Cross-Validatory Choice and Assessment of
    Statistical Predictions, 1974). What that gains over ``default``, question by question, is what choosing is worth.
    Equally good settings: the default, else the first. Without ``measure`` the first one counts. The same seed deals
    alike. Questions that belong together, such as those of one document, may fall into several parts, and the check
    then promises too much.

    Raises ConfigurationError for a default or measure that was not measured, fewer than 2 parts, and more parts than
    questions.
    """
    measured.of(default, measure)
    names = [default, *(name for name in measured.figures if name != default)]
    figures = np.array([measured.of(name, measure) for name in names])
    count = figures.shape[1]
    if not 2 <= parts <= count:
        raise ConfigurationError(f"parts is {parts}; wanted from 2 to the number of questions, {count}")
    part_of = np.random.default_rng(seed).permutation(count) % parts
    chosen = [_best(figures[:, part_of != part]) for part in range(parts)]
    unseen = figures[np.array(chosen)[part_of], np.arange(count)]
    return Choice(
        best=names[_best(figures)],
        default=default,
        checked=difference(unseen, figures[0], seed=seed),
        in_parts=tuple(names[row] for row in chosen),
    )


def _best(figures: NDArray[np.float64]) -> int:
    """The row of the largest mean, the first of several; rounding makes no difference."""
    return int(figures.mean(axis=1).round(9).argmax())
