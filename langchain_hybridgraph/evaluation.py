"""Evaluation and tuning of retrievers with known answers."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from numpy.typing import NDArray

from langchain_hybridgraph.chunks import Serializable
from langchain_hybridgraph.display import fields_table
from langchain_hybridgraph.errors import ConfigurationError, needs_extra
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever
from langchain_hybridgraph.retrievers.base import PipelineRetriever

Grades = Mapping[str, int]
Asks = Callable[[str, int], Sequence[Document]]

MEASURES = ("nDCG@10", "R@10", "RR@10")
RESAMPLES = 10_000
BLOCK = 1 << 20  # number of figures that are drawn at once
# Minimum number of questions for a statement about significance. With fewer, more than 6 % of differences between
# equally good retrievers would count as significant.
FEWEST = 8


class Difference(NamedTuple):
    """Difference in quality between two retrievers on the same questions.

    ``mean`` is the mean of the first retriever's values minus the second's; ``low`` and ``high`` are the bounds of its
    95 % confidence interval. ``better``, ``equal`` and ``worse`` count the questions from the first retriever's view.
    """

    mean: float
    low: float
    high: float
    better: int
    equal: int
    worse: int

    @property
    def is_sure(self) -> bool:
        """Whether the interval of at least 8 questions excludes 0.

        If it does, more questions are unlikely to reverse the sign of the mean. Between equally good retrievers, this
        happens for about 5 % of samples of questions.
        """
        is_enough = self.better + self.equal + self.worse >= FEWEST
        return is_enough and (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        return (
            f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f}); "
            f"better on {self.better}, equal on {self.equal}, worse on {self.worse}"
        )


@dataclass(frozen=True)
class EvaluationReport(Serializable):
    """Value of each measure for each retriever and question, as returned by :func:`measure`.

    ``figures[retriever][measure]`` has one value per question, in the order of ``questions``.
    ``degraded[retriever][reason]`` is the number of results with this degradation reason.
    """

    questions: tuple[str, ...]
    measures: tuple[str, ...]
    figures: Mapping[str, Mapping[str, Sequence[float]]]
    degraded: Mapping[str, Mapping[str, int]]

    @cached_property
    def means(self) -> dict[str, dict[str, float]]:
        """Mean of each measure over the questions, by retriever."""
        return {
            name: {measure: float(np.mean(each[measure])) for measure in self.measures}
            for name, each in self.figures.items()
        }

    def difference(self, name: str, other: str, measure: str | None = None, *, seed: int = 0) -> Difference:
        """Return how much better ``name`` is than ``other``; without ``measure``, the first measure is used.

        The interval is computed by the paired bootstrap over questions, which are assumed to be independent (Efron &
        Tibshirani, An Introduction to the Bootstrap, 1993; Sakai, Evaluating Evaluation Metrics based on the Bootstrap,
        SIGIR 2006). Because the percentiles of the bootstrap are too narrow for few questions, they are expanded by
        Student's t (Hesterberg, What Teachers Should Know About the Bootstrap, 2015). With fewer than 8 questions, the
        interval is still too narrow, and ``is_sure`` is False. The same seed gives the same interval. Raises
        ConfigurationError for a name that was not measured.
        """
        return difference(self.of(name, measure), self.of(other, measure), seed=seed)

    def of(self, name: str, measure: str | None = None) -> NDArray[np.float64]:
        """Return the figures of a retriever, one per question. Without ``measure``, the first measure is used."""
        selected = self.measures[0] if measure is None else measure
        if name not in self.figures or selected not in self.measures:
            raise ConfigurationError(
                f"{name!r} was not measured by {selected!r}; pass one of the retrievers "
                f"{', '.join(map(repr, self.figures))} and one of the measures {', '.join(self.measures)}"
            )
        return np.asarray(self.figures[name][selected])

    def worst(self, name: str, measure: str | None = None, n: int = 5) -> list[tuple[str, float]]:
        """Return the ``n`` questions with a retriever's lowest figures, as (question, figure), worst first."""
        figures = self.of(name, measure)
        return [(self.questions[at], float(figures[at])) for at in np.argsort(figures, kind="stable")[:n]]

    def __str__(self) -> str:
        first = max(map(len, self.figures))
        wide = {measure: max(8, len(measure)) for measure in self.measures}
        head = " ".join([" " * first, *(f"{measure:>{wide[measure]}}" for measure in self.measures)])
        rows = [
            " ".join([f"{name:<{first}}", *(f"{means[measure]:>{wide[measure]}.3f}" for measure in self.measures)])
            for name, means in self.means.items()
        ]
        return "\n".join([head, *rows, *self._notes()])

    def _repr_html_(self) -> str:
        values = {
            name: {measure: f"{mean:.3f}" for measure, mean in means.items()} for name, means in self.means.items()
        }
        return fields_table(type(self).__name__, values, self._notes())

    def _notes(self) -> list[str]:
        count = len(self.questions)
        return [f"{count} question{'' if count == 1 else 's'}"] + [
            f"{name}: {', '.join(f'{reason} ({count}×)' for reason, count in reasons.items())}"
            for name, reasons in self.degraded.items()
            if reasons
        ]


def measure(
    retrievers: Mapping[str, BaseRetriever | Asks],
    questions: Mapping[str, Grades | Iterable[str]],
    measures: Sequence[str] = MEASURES,
    *,
    id_of: Callable[[Document], str | None] = lambda document: document.id,
) -> EvaluationReport:
    """Measure the quality of retrievers on questions with known answers.

    ``questions`` maps each question to the ids of its answers, or to a mapping of ids to grades; the grade 0 means that
    the Document is not an answer. A retriever is any LangChain retriever, or a function that takes a question and k and
    returns Documents. If a LangChain retriever accepts k, it receives the largest depth of any measure.

    ``measures`` are names from ir-measures with a depth (``"nDCG@10"``, ``"R@5"``, ``"RR@10"``, ``"AP@10"``,
    ``"Success@1"``). ``id_of`` takes a Document and returns the id by which ``questions`` refers to it, for example the
    ``source`` in its metadata. If several Documents share an id, only the first one is used. A question without results
    gets the value 0.

    Raises MissingExtraError if ir-measures is not installed, ConfigurationError for invalid measures, questions or ids,
    and any error of a retriever.

    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> texts = {"train": "Trains carry coal.", "ship": "Ships carry wood."}
    >>> store = HybridGraphStore.from_texts(list(texts.values()), "lsa", ids=list(texts))
    >>> print(measure({"hybrid": HybridRetriever(store)}, {"What do trains carry?": ["train"]}, ["Success@1"]))
           Success@1
    hybrid     1.000
    1 question
    """
    ir_measures, parsed_measures = _parse_measures(measures)
    depth = max(each.params["cutoff"] for each in parsed_measures)
    grades = {str(at): _grades(question, answers) for at, (question, answers) in enumerate(questions.items())}
    if not grades or not retrievers:
        raise ConfigurationError(
            "there is nothing to measure; pass at least one retriever and one question with its answer"
        )
    figures: dict[str, Any] = {}
    degraded: dict[str, Counter[str]] = {}
    for name, retriever in retrievers.items():
        retrieve = _retrieve_function(name, retriever)
        answers = [retrieve(question, depth) for question in questions]
        degraded[name] = Counter(
            reason for answer in answers if isinstance(answer, RetrievalResult) for reason in answer.degraded
        )
        # Without results, some measures would divide by 0.
        run = {str(at): _ranked(name, answer, id_of, depth) for at, answer in enumerate(answers) if answer}
        figures[name] = {str(each): [0.0] * len(questions) for each in parsed_measures}
        for metric in ir_measures.iter_calc(parsed_measures, grades, run):
            figures[name][str(metric.measure)][int(metric.query_id)] = metric.value
    return EvaluationReport(tuple(questions), tuple(map(str, parsed_measures)), figures, degraded)


def difference(ours: Any, theirs: Any, *, seed: int = 0) -> Difference:
    """Compare the figures of two retrievers on the same questions; see :meth:`EvaluationReport.difference`."""
    from scipy.special import ndtr, stdtrit

    gains = np.asarray(ours, float) - np.asarray(theirs, float)
    n, rng = len(gains), np.random.default_rng(seed)
    rows = BLOCK // (n + 1) + 1
    blocks = (rng.integers(n, size=(min(rows, RESAMPLES - start), n)) for start in range(0, RESAMPLES, rows))
    means = np.concatenate([gains[block].mean(axis=1) for block in blocks])
    freedom = max(n - 1, 1)
    outside = 100 * ndtr(-stdtrit(freedom, 0.975) * np.sqrt(n / freedom))  # percentage below the interval, at most 2.5
    low, high = np.percentile(means, [outside, 100 - outside])
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    return Difference(float(gains.mean()), float(low), float(high), better, n - better - worse, worse)


def _parse_measures(measures: Sequence[str]) -> tuple[Any, list[Any]]:
    with needs_extra("measuring", "ir-measures", "eval"):
        import ir_measures
    pipeline: Any = ir_measures.DefaultPipeline
    parsed_measures = []
    for name in [measures] if isinstance(measures, str) else measures:
        try:
            parsed_measures.append(ir_measures.parse_measure(name))
        except (NameError, TypeError, ValueError, SyntaxError) as error:
            raise ConfigurationError(f"measure {name!r} is unknown; pass one such as 'nDCG@10' or 'R@5'") from error
        depth = parsed_measures[-1].params.get("cutoff")
        if type(depth) is not int or depth < 1:  # pytrec_eval aborts the process at a depth of 0
            raise ConfigurationError(f"measure {name!r} needs a depth ≥ 1; pass one such as 'nDCG@10' or 'R@10'")
        if not pipeline.supports(parsed_measures[-1]):
            raise ConfigurationError(f"measure {name!r} is not supported; pass one such as 'nDCG@10' or 'R@5'")
    if not parsed_measures:
        raise ConfigurationError("measures is empty; pass measures=['nDCG@10']")
    return ir_measures, parsed_measures


def _grades(question: str, answers: Grades | Iterable[str]) -> dict[str, int]:
    if isinstance(answers, str):
        raise ConfigurationError(f"the answers to {question!r} are a single string; pass a list of ids: [{answers!r}]")
    if not isinstance(answers, Iterable):
        raise ConfigurationError(f"the answers to {question!r} must be a list of ids, got {answers!r}; pass ['id']")
    grades = dict(answers) if isinstance(answers, Mapping) else dict.fromkeys(answers, 1)
    if not all(isinstance(id, str) and isinstance(grade, Integral) for id, grade in grades.items()):
        raise ConfigurationError(
            f"the answers to {question!r} must be strings, and grades must be integers, got {grades!r}; "
            f"pass {{{question!r}: ['id']}} or {{{question!r}: {{'id': 1}}}}"
        )
    if not any(grade > 0 for grade in grades.values()):
        raise ConfigurationError(f"{question!r} has no known answer; give at least one id, or leave out the question")
    return {id: int(grade) for id, grade in grades.items()}  # pytrec_eval does not take NumPy's integers


def _retrieve_function(name: str, retriever: Any) -> Asks:
    """Return a function of question and k, which passes k on only if the retriever accepts it."""
    function: Asks = getattr(retriever, "retrieve", retriever)  # unlike invoke, it also reports degradation reasons
    if callable(function):
        return function
    if not isinstance(retriever, BaseRetriever):
        raise ConfigurationError(
            f"{name!r} has the type {type(retriever).__name__}; pass a retriever, or a function of question and k"
        )
    takes_k = AnyRetriever(retriever).takes("k")
    return lambda question, k: retriever.invoke(question, **{"k": k} if takes_k else {})


def _ranked(
    name: str, answer: Sequence[Document], id_of: Callable[[Document], str | None], depth: int
) -> dict[str, float]:
    """Return a score for each id of the first ``depth`` results, decreasing with rank, so that no two tie."""
    ids = [id_of(document) for document in answer]
    if None in ids:
        raise ConfigurationError(
            f"{name!r} returned a Document without an id: {answer[ids.index(None)].page_content[:60]!r}; pass a "
            "function that returns one, such as id_of=lambda document: document.metadata['source']"
        )
    return {str(id): float(depth - rank) for rank, id in enumerate(list(dict.fromkeys(ids))[:depth])}


WEIGHTS = tuple(round(0.1 * tenth, 1) for tenth in range(11))


@dataclass(frozen=True)
class TuningResult(Serializable):
    """Result of :func:`choose_setting`.

    ``best`` is the setting with the best mean over all questions. ``in_parts`` contains the best setting without each
    part of the questions, and ``checked`` is the gain of these settings over ``default`` on the parts left out.
    """

    best: str
    default: str
    checked: Difference
    in_parts: tuple[str, ...]

    @property
    def setting(self) -> str:
        """Recommended setting: the best setting if the gain is statistically significant, and the default otherwise."""
        return self.best if self.checked.is_sure and self.checked.mean > 0 else self.default

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
    """Return a search function for each vector weight, by weight as a string, for :func:`evaluation.measure`.

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
    ``parts`` parts of about the same size, and each part is evaluated with the setting that is best on the others
    (Stone, Cross-Validatory Choice and Assessment of Statistical Predictions, 1974). The gain over ``default`` is
    computed question by question. The check is too optimistic if related questions, such as those about one document,
    are in different parts.

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
    """Return the first row with the largest mean, rounded so that float noise does not decide between equal rows."""
    return int(figures.mean(axis=1).round(9).argmax())
