"""Choose the best setting and check it by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from langchain_hybridgraph.chunks import Serializable
from langchain_hybridgraph.display.html_table import fields_table
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.evaluation import Asks, Difference, EvaluationReport, difference
from langchain_hybridgraph.retrievers.base import PipelineRetriever

WEIGHTS = tuple(round(0.1 * tenth, 1) for tenth in range(11))


@dataclass(frozen=True)
class TuningResult(Serializable):
    """Result of :func:`choose_setting`.

    ``best`` is the setting with the best mean over all questions. The other values come from a cross-validation, in
    which each part of the questions is evaluated with the setting that is best on all other parts. ``in_parts``
    contains the setting chosen for each part, and ``checked`` is the gain of these settings over ``default``.
    """

    best: str
    default: str
    checked: Difference
    in_parts: tuple[str, ...]

    @property
    def setting(self) -> str:
        """Recommended setting: the best setting if the gain is statistically significant, and the default otherwise."""
        return self.best if self.checked.low > 0 else self.default

    def _repr_html_(self) -> str:
        values = {
            "recommended": self.setting,
            "best on all questions": self.best,
            "default": self.default,
            "gain over the default": str(self.checked),
            "best without each part": self.in_parts,
        }
        return fields_table(type(self).__name__, values)

    def __str__(self) -> str:
        parts = len(self.in_parts)
        return (
            f"Best on all questions: {self.best}. Chosen without each of {parts} parts: {', '.join(self.in_parts)}. "
            f"On the part left out, compared with {self.default}: {self.checked}. Recommended: {self.setting}."
        )


def vary_weight(retriever: PipelineRetriever, weights: Iterable[float] = WEIGHTS) -> dict[str, Asks]:
    """Return one search function for each vector weight, as a mapping that can be passed to :func:`evaluation.measure`.

    The keys are the weights as strings. Each function calls ``retriever.retrieve`` with one weight as
    ``semantic_weight``.

    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> list(vary_weight(HybridRetriever(HybridGraphStore(None, "lsa")), [0, 0.5, 1]))
    ['0', '0.5', '1']
    """
    return {f"{weight:g}": partial(retriever.retrieve, semantic_weight=weight) for weight in weights}


def choose_setting(
    measured: EvaluationReport, default: str, measure: str | None = None, *, parts: int = 5, seed: int = 0
) -> TuningResult:
    """Choose the measured setting with the best mean, and check the choice by cross-validation.

    The best of many settings owes part of its lead to chance. The questions are therefore divided at random into
    ``parts`` parts of about the same size. For each part, a setting is chosen on the other parts and evaluated on this
    part (cross-validation: Stone, Cross-Validatory Choice and Assessment of Statistical Predictions, 1974). The gain
    over ``default`` is computed question by question. The check is too optimistic if related questions, such as those
    about one document, are in different parts.

    If settings tie, ``default`` is chosen if it is among them, and the first of them otherwise. If ``measure`` is None,
    the first measure is used. The same seed gives the same parts.

    Raises ConfigurationError if ``default`` or ``measure`` was not measured, or if ``parts`` is below 2 or above the
    number of questions.
    """
    measured.of(default, measure)
    names = [default, *(name for name in measured.figures if name != default)]
    figures = np.array([measured.of(name, measure) for name in names])
    count = figures.shape[1]
    if not 2 <= parts <= count:
        raise ConfigurationError(f"parts must be from 2 to the number of questions ({count}), got {parts}")
    part_of = np.random.default_rng(seed).permutation(count) % parts
    choices = [_best(figures[:, part_of != part]) for part in range(parts)]
    unseen = figures[np.array(choices)[part_of], np.arange(count)]
    return TuningResult(
        best=names[_best(figures)],
        default=default,
        checked=difference(unseen, figures[0], seed=seed),
        in_parts=tuple(names[row] for row in choices),
    )


def _best(figures: NDArray[np.float64]) -> int:
    """Return the index of the row with the largest mean, or of the first one if several rows tie.

    Means are rounded, so that float noise does not decide between equal rows.
    """
    return int(figures.mean(axis=1).round(9).argmax())
