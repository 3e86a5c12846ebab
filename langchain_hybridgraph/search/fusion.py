"""Fusion of ranked lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from langchain_hybridgraph.errors import CheckedSettings, ConfigurationError, setting
from langchain_hybridgraph.records import FusedCandidate, Ranking, best_first
from langchain_hybridgraph.registry import from_config

# Mean and standard deviation of the cosine of a question and an arbitrary chunk, for sources that do not report their
# own. With all-MiniLM-L6-v2, they are .02 to .25 and .09 to .13 (benchmarks/README.md). A mean of 0 keeps the order of
# small cosines, and with this deviation large cosines get the same scores as with a mean of .1 and a deviation of .095.
COSINE = (0.0, 0.115)
_COSINES = {"vector": COSINE, "session": COSINE}  # by source
# Number of standard deviations above the mean at which the score is 1; a cosine of 1 is about ten above the mean.
DEVIATIONS = 12.0
# Best BM25 score at which the keyword source has exactly its configured weight.
EVIDENCE = 40.0


class Fusion(Protocol):
    """Function that merges the ranked lists of several sources into one list.

    A fusion may also have an attribute and two other methods:

    - ``calibrates`` is True if the pipeline may multiply all scores by one factor, which makes the best score the
      probability that the question has an answer; without it, they stay as they are.
    - ``for_k(k)`` returns the fusion to use for a request of k hits.
    - ``others(rankings, ids)`` returns the chunks with these ids, which may be in none of the lists, scored by their
      ``Ranking.scores``.
    """

    @property
    def method(self) -> str:
        """Value of ``retrieval_method``, unless only one source returned entries and is named instead."""

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        """Return the candidates of all lists, each once, best first, ties by id.

        Scores are in [0, 1], and each is the sum of its parts. The weight of a source without entries is shared among
        the others, in proportion to their weights.
        """


class HybridFusion(CheckedSettings):
    """Base class of the fusions whose ``retrieval_method`` is "hybrid"."""

    __slots__ = ()
    method: ClassVar[str] = "hybrid"


@dataclass(frozen=True, slots=True)
class ReciprocalRankFusion(HybridFusion):
    """Fusion by rank, as in LangChain's EnsembleRetriever.

    The score of a candidate is the sum of weight / (``rank_constant`` + rank) over all lists; the first rank is 1. If a
    list contains a candidate twice, its better rank is used, and later ranks do not change. ``normalize`` determines
    the number by which the scores are divided:

    - ``"theoretical"``: the largest possible score, of a candidate that is first in every list
    - ``"max"``: the score of the best candidate
    - ``"none"``: 1, so with weights that sum to 1 and the default ``rank_constant``, no score exceeds 1/61

    Cormack, Clarke and Büttcher, Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods,
    SIGIR 2009.

    >>> lists = [Ranking("vector", 0.7, ["a", "b", "c"], {}), Ranking("keyword", 0.3, ["c", "d", "a"], {})]
    >>> [(one.id, round(one.score, 6)) for one in ReciprocalRankFusion()(lists)]
    [('a', 0.990476), ('c', 0.977778), ('b', 0.68871), ('d', 0.295161)]
    """

    rank_constant: float = setting(60, ge=0)
    normalize: Literal["theoretical", "max", "none"] = setting("theoretical", choices=("theoretical", "max", "none"))

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        weighed = _weighed(rankings)
        c = self.rank_constant
        unit = math.fsum(weight for _, weight in weighed) / (c + 1) if self.normalize == "theoretical" else 1.0
        parts: dict[str, dict[str, float]] = {}
        for ranking, weight in weighed:
            for id, rank in _ranks(ranking).items():
                part = parts.setdefault(id, {})
                part[ranking.source] = part.get(ranking.source, 0.0) + weight / (c + rank) / unit
        if self.normalize == "max":
            best = max((math.fsum(part.values()) for part in parts.values()), default=0.0) or 1.0
            parts = {id: {source: value / best for source, value in part.items()} for id, part in parts.items()}
        return _best_first(parts)


@dataclass(frozen=True, slots=True)
class ConvexCombination(HybridFusion):
    """Fusion by score: the sum of weight · normalised score over all sources. The weights sum to 1.

    If a source has a score for a candidate, the score is used even if only other sources found the candidate.

    ``normalize`` selects how a source's score is converted to a number in [0, 1]; other results are clipped:

    - ``"standard"``: a cosine is replaced by its distance from the mean cosine of arbitrary chunks, measured in
      standard deviations; 12 of them become 1. Both numbers come from ``Ranking.background`` or, if that is None, they
      are those of an unknown embedding model (``COSINE``). Scores are comparable across queries, even if the embedding
      model finds all texts similar. For a source without a known mean, such as BM25, scores are divided by the best
      score of the list.
    - ``"max"``: every score is divided by the best score of its list.
    - ``"bound"``: every score is divided by ``Ranking.bound`` (1 for a cosine) or,
      if that is unknown, by the best score of the list.

    The smallest score of a list is not subtracted, so a candidate's score does not depend on the worst candidates.

    ``adaptive`` makes two changes. First, it lowers the BM25 scores of poor matches, because dividing by the best score
    gives 1 even to a poor best match. BM25 is a sum of log-odds, so its magnitude shows how good a match is: each
    divided score s is also multiplied by √(BM25/40), which gives s^1.5 · √(best score/40). The second factor is the
    same for the entire list, so it is applied to the weight of the source, and the weights are scaled to sum to 1
    again. Only scores that are divided by the best score, and whose source reports a ``bound``, are changed: the scale
    of others is unknown.

    Second, exact matches (``Ranking.exact``) take precedence over similarity. All scores are multiplied by 1 − the
    largest probability of an exact match. Then the probability of each exact match is added to its score, as the part
    ``exact``.

    The combination: Bruch, Gai and Ingber, An Analysis of Fusion Functions for Hybrid Retrieval, TOIS 2023. Standard
    scores: Montague and Aslam, Relevance Score Normalization for Metasearch, CIKM 2001. BM25 as log-odds: Robertson and
    Zaragoza, The Probabilistic Relevance Framework, 2009. The square root is our own addition; benchmarks/README.md
    measures its effect.

    >>> cosines, bm25 = {"a": 0.69, "b": 0.552}, {"b": 9.0, "a": 4.5}
    >>> lists = [Ranking("vector", 0.7, ["a", "b"], cosines), Ranking("keyword", 0.3, ["b", "a"], bm25)]
    >>> [(one.id, round(one.score, 6)) for one in ConvexCombination()(lists)]
    [('b', 0.58), ('a', 0.5)]
    """

    calibrates: ClassVar[bool] = True  # the pipeline may convert its scores to another scale

    normalize: Literal["standard", "max", "bound"] = setting("standard", choices=("standard", "max", "bound"))
    adaptive: bool = True

    def others(self, rankings: Sequence[Ranking], ids: Iterable[str] | None = None) -> list[FusedCandidate]:
        exact: dict[str, float] = {}
        for ranking in rankings if self.adaptive else ():
            if ranking.weight > 0:
                exact |= ranking.exact
        every = _candidates(rankings) | dict.fromkeys(exact) if ids is None else ids
        parts: dict[str, dict[str, float]] = {id: {} for id in every}
        for ranking, scale, share in self.shares(rankings, max(exact.values(), default=0.0)):
            _add_scaled(parts, ranking, scale, share)
        for id in exact.keys() & parts.keys():
            parts[id]["exact"] = exact[id]
        return _best_first(parts)

    __call__ = others

    def shares(self, rankings: Sequence[Ranking], largest_exact: float) -> list[tuple[Ranking, Scale, float]]:
        """Return, for each ranking with entries, the conversion of its scores and the factor of the converted scores.

        ``largest_exact`` is the largest probability of an exact match. Only the best score of each ranking is used.
        """
        weighed = []
        for ranking, weight in _weighed(rankings):
            scale = self._scale(ranking)
            weighed.append((ranking, scale, weight * scale.trust))
        total = math.fsum(weight for _, _, weight in weighed)
        equal = 1 / max(1, len(weighed))
        return [
            (ranking, scale, (weight / total if total else equal) * (1 - largest_exact))
            for ranking, scale, weight in weighed
        ]

    def _scale(self, ranking: Ranking) -> Scale:
        if self.normalize == "bound":
            bound = 1.0 if ranking.bound is None and ranking.source in _COSINES else ranking.bound
            if bound is not None:
                return Scale(0.0, bound if bound > 0 else math.inf)
        background = ranking.background or _COSINES.get(ranking.source)
        if self.normalize == "standard" and background is not None:
            mean, deviation = background
            return Scale(mean, DEVIATIONS * deviation or math.inf)
        best = ranking.scores[ranking.ids[0]]
        width = best if best > 0 else math.inf
        if self.adaptive and ranking.bound is not None:
            return Scale(0.0, width, trust=math.sqrt(max(best, 0.0) / EVIDENCE), power=1.5)
        return Scale(0.0, width)


@dataclass(frozen=True, slots=True)
class DistributionBased(HybridFusion):
    """Fusion by score: the sum of weight · normalised score over all sources. The weights sum to 1.

    In each list, the mean minus three standard deviations becomes 0, and the mean plus three becomes 1; other results
    are clipped. If all scores are equal, each becomes 0.5. The result depends on the number of candidates of a source.

    Mazzanti, Distribution-Based Score Fusion, 2023; Qdrant's ``dbsf``.
    """

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        weighed = _weighed(rankings)
        total = math.fsum(weight for _, weight in weighed)
        parts: dict[str, dict[str, float]] = {id: {} for id in _candidates(rankings)}
        for ranking, weight in weighed:
            scores = [ranking.scores[id] for id in _ranks(ranking)]
            mean = math.fsum(scores) / len(scores)
            deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
            reach = 3 * deviation or 0.5
            _add_scaled(parts, ranking, Scale(mean - reach, 2 * reach), weight / total)
        return _best_first(parts)


@dataclass(frozen=True, slots=True)
class MaxWeighted(HybridFusion):
    """Fusion that scores a candidate by its best source only: the largest weight · normalised score / largest weight.

    Scores are divided by their source's ``bound`` or else, if it is above 1, by the best score of the list, and clipped
    to [0, 1].
    """

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        weighed = _weighed(rankings)
        heaviest = max((weight for _, weight in weighed), default=1.0)
        parts: dict[str, dict[str, float]] = {id: {} for id in _candidates(rankings)}
        for ranking, weight in weighed:
            one = ranking.bound or max(1.0, ranking.scores[ranking.ids[0]])
            for id, part in parts.items():
                value = weight / heaviest * _clipped(ranking.scores.get(id, 0.0) / one)
                if not part or value > max(part.values()):
                    parts[id] = {ranking.source: value}
        return _best_first(parts)


@dataclass(frozen=True, slots=True)
class Interleave:
    """Fusion that takes one candidate from each list in turn; a list whose next candidate was taken loses its turn.

    Candidate i of n (counted from 0) scores 1 − i/n. A source of weight 0 is left out; other weights have no effect.

    >>> lists = [Ranking("vector", 0.5, ["a", "b", "c"], {}), Ranking("keyword", 0.5, ["x", "b"], {})]
    >>> "".join(one.id for one in Interleave()(lists))
    'axbc'
    """

    method: ClassVar[str] = "interleave"

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        """See :class:`Fusion`; within a turn, candidates are in the order of the sources."""
        lists = [(ranking.source, list(_ranks(ranking))) for ranking, weight in _weighed(rankings) if weight]
        longest = max((len(ids) for _, ids in lists), default=0)
        turns = ((source, ids[turn]) for turn in range(longest) for source, ids in lists if turn < len(ids))
        return _by_position(turns)


@dataclass(frozen=True, slots=True)
class Concat(HybridFusion):
    """Fusion that takes the first ``quota`` candidates of every list, then the remaining candidates of every list.

    Candidate i of n (counted from 0) scores 1 − i/n. A source of weight 0 is left out. The default quota is k // 2 + 1,
    so by default the result for k is not always the beginning of the result for a larger k.
    """

    quota: int | None = setting(None, least=1)

    def for_k(self, k: int) -> Concat:
        """Return this fusion if it has a quota. Otherwise, return a fusion with the default quota for k."""
        return self if self.quota is not None else Concat(k // 2 + 1)

    def __call__(self, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
        """See :class:`Fusion`; if there is no quota, each list is taken completely before the next one."""
        lists = [(ranking.source, list(_ranks(ranking))) for ranking, weight in _weighed(rankings) if weight]
        firsts = ((source, id) for source, ids in lists for id in ids[: self.quota])
        every = ((source, id) for source, ids in lists for id in ids)
        return _by_position((*firsts, *every))


FUSIONS: Mapping[str, Callable[..., Fusion]] = MappingProxyType(
    {
        "rrf": ReciprocalRankFusion,
        "convex": ConvexCombination,
        "distribution": DistributionBased,
        "max": MaxWeighted,
        "interleave": Interleave,
        "concat": Concat,
    }
)


def fusion_from(form: str | Mapping[str, Any] | Fusion) -> Fusion:
    """Return the fusion for a name, or for a mapping with the name as ``type`` and parameters; a fusion is unchanged.

    Raises ConfigurationError for an unknown name or parameter, and for an invalid value.

    >>> fusion_from({"type": "rrf", "rank_constant": 10})
    ReciprocalRankFusion(rank_constant=10, normalize='theoretical')
    """
    return from_config("fusion", form, FUSIONS, callable)


def both_weights(vector: float | None, keyword: float | None) -> tuple[float, float]:
    """Return the weights of vector and keyword search; if one of them is None, it is 1 minus the other.

    Raises ConfigurationError for a single weight above 1, for two weights of 0, and unless both are finite and ≥ 0.

    >>> both_weights(0.75, None), both_weights(2, 1)
    ((0.75, 0.25), (2, 1))
    """
    name, weight = ("keyword_weight", keyword or 0.0) if vector is None else ("semantic_weight", vector)
    if None in (vector, keyword) and not 0 <= weight <= 1:
        raise ConfigurationError(
            f"if only {name} is set, it must be a number from 0 to 1, got {weight:g}; "
            "pass such a number, or both semantic_weight= and keyword_weight="
        )
    weights = (1.0 - weight if vector is None else vector, 1.0 - weight if keyword is None else keyword)
    if not any(weights) or not all(math.isfinite(each) and each >= 0 for each in weights):
        raise ConfigurationError(
            "semantic_weight and keyword_weight must be finite numbers ≥ 0, at least one of them above 0, such as 0.7 "
            f"and 0.3, got {weights[0]:g} and {weights[1]:g}"
        )
    return weights


def _weighed(rankings: Sequence[Ranking]) -> list[tuple[Ranking, float]]:
    """Return the rankings that have entries, with weights that include those of the empty rankings."""
    answering = [ranking for ranking in rankings if ranking.ids]
    total = math.fsum([ranking.weight for ranking in rankings])
    present = math.fsum([ranking.weight for ranking in answering])
    if present == 0:
        return [(ranking, (total or 1.0) / len(answering)) for ranking in answering]
    return [(ranking, ranking.weight * (total / present)) for ranking in answering]


def _ranks(ranking: Ranking) -> dict[str, int]:
    ranks: dict[str, int] = {}
    for rank, id in enumerate(ranking.ids, start=1):
        ranks.setdefault(id, rank)
    return ranks


def _candidates(rankings: Sequence[Ranking]) -> dict[str, None]:
    return dict.fromkeys(chain.from_iterable(ranking.ids for ranking in rankings))


def _clipped(value: float) -> float:
    return min(max(value, 0.0), 1.0)  # with this order of min and max NaN stays NaN, which the pipeline checks for


class Scale(NamedTuple):
    """Conversion of a source's scores: ``zero`` becomes 0 and ``zero + width`` becomes 1, raised to ``power``.

    ``trust`` is a factor for the weight of the source.
    """

    zero: float
    width: float
    trust: float = 1.0
    power: float = 1.0


def _add_scaled(parts: Mapping[str, dict[str, float]], ranking: Ranking, scale: Scale, share: float) -> None:
    """Add a source's converted scores, multiplied by ``share``, to the parts of every candidate that it scored."""
    source = ranking.source
    zero, width, power = scale.zero, scale.width, scale.power
    for id, own in ranking.scores.items():
        if (part := parts.get(id)) is not None:
            value = (own - zero) / width
            value = 0.0 if value < 0.0 else 1.0 if value > 1.0 else value  # faster than _clipped; NaN stays NaN
            part[source] = part.get(source, 0.0) + share * value**power


def _best_first(parts: dict[str, dict[str, float]]) -> list[FusedCandidate]:
    # fsum returns the same sum in any order of the sources, so equal candidates stay equal; the sum may round to just
    # above 1.
    best = best_first([(id, min(math.fsum(part.values()), 1.0)) for id, part in parts.items()])
    return [FusedCandidate(id, score, parts[id]) for id, score in best.items()]


def _by_position(turns: Iterable[tuple[str, str]]) -> list[FusedCandidate]:
    """Return the distinct candidates in these (source, id) pairs, in order and scored by position."""
    finder: dict[str, str] = {}
    for source, id in turns:
        finder.setdefault(id, source)
    n = len(finder)
    return [FusedCandidate(id, 1 - i / n, {source: 1 - i / n}) for i, (id, source) in enumerate(finder.items())]
