"""Scores of memories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from langchain_hybridgraph.chunks import ParsedMetadata
from langchain_hybridgraph.errors import CheckedSettings, ConfigurationError, quote_value, setting
from langchain_hybridgraph.records import FusedCandidate, Hit, MemoryState, Query, Scope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.float64]


class MemoryColumns(NamedTuple):
    """States of several memories, as one array per field of :class:`MemoryState`; NaN means unset.

    ``began_at`` is the start of validity, else the time of creation, else of ingestion. ``valid_until`` is unset if the
    end was set after ingestion. ``kind`` is the position in ``kinds``, or −1.
    """

    confidence: Column
    utility: Column
    active_count: Column
    used_at: Column
    updated_at: Column
    began_at: Column
    valid_until: Column
    provenance_depth: Column
    kind: NDArray[np.int64]
    kinds: Sequence[str]

    @classmethod
    def of(cls, states: Sequence[MemoryState]) -> MemoryColumns:
        """Return the columns for these states."""
        kinds: dict[str, int] = {}
        rows = [
            (
                state.confidence,
                state.utility,
                state.active_count,
                state.used_at,
                state.updated_at,
                next((time for time in (state.valid_from, state.created_at) if time is not None), state.learned_at),
                None if state.end_learned else state.valid_until,
                state.provenance_depth,
            )
            for state in states
        ]
        types = [state.memory_type for state in states]
        kind = [-1 if each is None else kinds.setdefault(each, len(kinds)) for each in types]
        columns = np.array(rows, np.float64).reshape(-1, 8).T  # None becomes NaN
        return cls._make([*columns, np.array(kind, np.int64), list(kinds)])


def fill_unknown(values: Column, unset: float) -> Column:
    """Return the values with ``unset`` in place of NaN."""
    return np.where(np.isnan(values), unset, values)


NEAR_DUPLICATE = 0.95
"""Default for the smallest cosine at which a new memory may join an existing one."""

# Recency of memories, from their age and type.

HOUR = 3_600.0
DAY = 24 * HOUR
# Rate per hour at which the recency of each type of memory falls; other types use ``decay_per_hour``.
DECAY: Mapping[str, float] = MappingProxyType(
    {"working": 999.0, "episodic": 0.08, "semantic": 0.02, "procedural": 0.001, "general": 0.05}
)
# Age in seconds of memories that begin more than an hour after ``now``; it is so large that their recency is 0.
_UNKNOWN_THEN = 1e15


def recency(memories: MemoryColumns, decay_per_hour: float, now: float | None) -> Column:
    """Return e^(−rate · age in hours); the rate is the type's in :data:`DECAY`, else ``decay_per_hour``."""
    decays = np.array([*(DECAY.get(kind, decay_per_hour) for kind in memories.kinds), decay_per_hour])
    age = fill_unknown(ages(memories.began_at, now), 0.0)
    return cast("Column", np.exp(-decays[memories.kind] * age / HOUR))


def ages(since: Column, now: float | None) -> Column:
    """Return the age in seconds of each time in ``since``, measured at ``now`` or, if that is None, the current time.

    The age is 0 for a time up to an hour after ``now``, very large for a later time, and NaN for an unknown time.
    """
    seconds = (time.time() if now is None else now) - since
    return np.where(seconds < -HOUR, _UNKNOWN_THEN, np.maximum(seconds, 0.0))


# Confidence in memories, and credibility of their sources.

CONFIDENCE = 0.5  # confidence in a memory whose confidence is unset
DERIVED = 0.9  # factor by which each derivation lowers the confidence
ENDING = 0.02  # rate per hour at which confidence falls as the end of validity approaches


def trust(memories: MemoryColumns, now: float | None) -> Column:
    """Return the confidence in each memory, lowered if it was derived from others or expires soon.

    If ``now`` is None, ends of validity have no effect.

    >>> from langchain_hybridgraph.records import MemoryState
    >>> trust(MemoryColumns.of([MemoryState(confidence=0.9, valid_until=24 * 3600.0)]), now=0.0).round(6).tolist()
    [0.343095]
    """
    sure = np.clip(fill_unknown(memories.confidence, CONFIDENCE), 0.0, 1.0) * DERIVED ** np.maximum(
        memories.provenance_depth, 0.0
    )
    if now is None or np.isnan(memories.valid_until).all():
        return sure
    left = np.maximum(fill_unknown(memories.valid_until, np.inf) - now, 0.0)
    return sure * -np.expm1(-ENDING * left / HOUR)


def credibility(confirmed: int, refuted: int) -> float:
    """Return the credibility of a source, the mean of Beta(1 + confirmed, 1 + refuted).

    >>> credibility(0, 0), credibility(1, 0)
    (0.5, 0.6666666666666666)
    """
    return (1 + confirmed) / (2 + confirmed + refuted)


@dataclass(frozen=True, slots=True)
class Hotness(CheckedSettings):
    """Measure of how much a memory is used: sigmoid(ln(1 + uses)) · 2^(−age in days / ``half_life_days``).

    The age is measured from the last use or ``updated_at``, whichever is later, or else from ``began_at`` of
    :class:`MemoryColumns`. Hotness is blended with the score: (1 − ``alpha``) · score + ``alpha`` · hotness. Raises
    ConfigurationError for an alpha outside [0, 1] or a half-life that is not above 0.

    >>> from langchain_hybridgraph.records import MemoryState
    >>> used = MemoryColumns.of([MemoryState(active_count=9, used_at=0.0)])
    >>> Hotness()(used, now=7 * 24 * 3600).round(6).tolist()
    [0.454545]
    """

    alpha: float = setting(0.2, ge=0, le=1)
    half_life_days: float = setting(7.0, gt=0)

    def __call__(self, memories: MemoryColumns, now: float | None) -> Column:
        """Return the hotness of each memory, in [0, 1). A memory without any date has an age of 0."""
        touched = np.fmax(memories.used_at, memories.updated_at)
        used = np.where(np.isnan(touched), memories.began_at, touched)
        uses = 1.0 + np.maximum(memories.active_count, 0.0)
        hotness: Column = uses / (1.0 + uses) * 2.0 ** (-fill_unknown(ages(used, now), 0.0) / DAY / self.half_life_days)
        return hotness


@dataclass(frozen=True, slots=True)
class Novelty(CheckedSettings):
    """Factor that lowers the scores of memories already mentioned in the session.

    The factor is 1 − ``slope`` · (s − ``above``), where s is the largest cosine between the memory and any turn of the
    session. It is 1 if s is at most ``above``, and never less than ``floor``.

    >>> Novelty()(np.array([0.7, 0.8, 0.9, 1.0])).round(6).tolist()
    [1.0, 1.0, 0.75, 0.5]
    """

    above: float = setting(0.8, ge=0, le=1)
    slope: float = setting(2.5, ge=0)
    floor: float = setting(0.5, ge=0, le=1)

    def __call__(self, similarity: Column) -> Column:
        """Return the factor for each memory, given its largest cosine with any turn of the session."""
        return cast("Column", np.clip(1.0 - self.slope * (similarity - self.above), self.floor, 1.0))


# Evidence for memories from the times in a question.

# Statements about a day or month are mostly made at that time or soon after. These are the numbers of days after and
# before the time at which the evidence has fallen to 1/e.
DAYS_AFTER, DAYS_BEFORE = 7.0, 1.0


@dataclass(frozen=True, slots=True)
class TimeEvidence:
    """Evidence for memories that start at the times mentioned in a question.

    ``spans`` are these times, as pairs (start, end). For a memory that starts within a span, the evidence is
    ``strength``, multiplied by the share of candidates that start outside all spans: a year from which all candidates
    are provides none. For a memory that starts outside the spans, the evidence is also multiplied by e^(−days / 7)
    after a span, or by e^(−days) before one. The span with the largest result counts.

    Evidence and similarity are combined as if they were independent: 1 − (1 − similarity) · (1 − evidence).

    >>> may = TimeEvidence([(0.0, 31 * 86400.0)], strength=0.4)
    >>> may(np.array([10.0, 38.0, 400.0, np.nan]) * 86400).round(3).tolist()
    [0.3, 0.11, 0.0, 0.0]
    """

    spans: Sequence[tuple[float, float]]
    strength: float

    def __call__(self, times: Column) -> Column:
        """Return the evidence for memories that start at these times; NaN means unknown."""
        near = np.zeros(len(times))
        for span in self.spans:
            late, early = np.maximum(times - span[1], 0.0) / DAY, np.maximum(span[0] - times, 0.0) / DAY
            nearness = np.exp(-late / DAYS_AFTER - early / DAYS_BEFORE)
            near = np.fmax(near, np.where(nearness < 1e-9, 0.0, nearness))
        return self.strength * np.count_nonzero(near < 1.0) / (len(near) or 1) * near


# Effects of feedback on memories and on their sources.

# Default utility of a memory whose value is unset.
UTILITY = 1.0


class FeedbackEffect(NamedTuple):
    """Effect of one kind of feedback: additions to confidence, utility and the source's counts ``ok`` and ``bad``.

    If ``refutes`` is True, ``confidence`` replaces the memory's confidence.
    """

    confidence: float
    utility: float
    ok: int = 0
    bad: int = 0
    refutes: bool = False

    def applied_to(self, confidence: float | None, utility: float | None) -> tuple[float | None, float | None]:
        """Return both after the feedback, clipped to [0, 1]; unset values that it does not affect stay unset.

        >>> FEEDBACK["useful"].applied_to(confidence=None, utility=0.5)
        (None, 0.65)
        """
        if self.refutes:
            confidence = self.confidence
        elif self.confidence:
            confidence = (CONFIDENCE if confidence is None else confidence) + self.confidence
            confidence = min(1.0, max(0.0, confidence))
        if self.utility:
            utility = min(1.0, max(0.0, (UTILITY if utility is None else utility) + self.utility))
        return confidence, utility


FEEDBACK: Mapping[str, FeedbackEffect] = MappingProxyType(
    {
        "validate": FeedbackEffect(0.15, 0.05, ok=1),
        "refute": FeedbackEffect(0.05, -0.2, bad=1, refutes=True),
        "useful": FeedbackEffect(0.0, 0.15),
        "stale": FeedbackEffect(-0.1, -0.25),
    }
)
"""Effects by the name of the feedback. "refute" sets the confidence to 0.05; all other values are added."""


def feedback_effect(name: Any) -> FeedbackEffect:
    """Return the effect of a kind of feedback; raise ValueError if ``name`` is unknown."""
    effect = FEEDBACK.get(name) if isinstance(name, str) else None
    if effect is None:
        raise ConfigurationError(
            f"feedback {quote_value(name)} is not known; pass one of {', '.join(map(repr, FEEDBACK))}"
        )
    return effect


@dataclass(frozen=True, slots=True)
class Composite(CheckedSettings):
    """Weighted mean of similarity, confidence, recency and utility; the weights are divided by their sum.

    Confidence is 0.5 if unset, multiplied by 0.9 for each derivation and, if the memory came with an end of validity,
    by 1 − e^(−0.02 · hours left). Recency is e^(−rate · age in hours), the rate being that of the memory's type in
    :data:`DECAY` or ``decay_per_hour``; it is 1 without a date and 0 for a date over an hour after ``now``. Utility is
    1 if unset.

    Raises ConfigurationError for negative weights or decay and for weights that are all 0. Relevance plus recency: Park
    et al., Generative Agents, UIST 2023.

    >>> memories = MemoryColumns.of([MemoryState(confidence=0.9, utility=0.5, valid_from=0.0)])
    >>> parts = Composite().parts(np.array([0.8]), memories, now=24 * 3600)
    >>> {name: round(float(part[0]), 6) for name, part in parts.items()}
    {'similarity': 0.32, 'confidence': 0.27, 'recency': 0.060239, 'utility': 0.05}
    """

    similarity: float = setting(0.40, ge=0)
    confidence: float = setting(0.30, ge=0)
    recency: float = setting(0.20, ge=0)
    utility: float = setting(0.10, ge=0)
    decay_per_hour: float = setting(0.05, ge=0)

    def __post_init__(self) -> None:
        CheckedSettings.__post_init__(self)
        if not self._total:
            raise ConfigurationError(
                "the weights of similarity, confidence, recency and utility are all 0; set at least one of them"
            )

    @property
    def _total(self) -> float:
        return self.similarity + self.confidence + self.recency + self.utility

    def parts(self, similarity: Column, memories: MemoryColumns, now: float | None) -> dict[str, Column]:
        """Return the parts that add up to the scores of memories at ``now`` (Unix seconds).

        With None, the current time is used for ages, and ends of validity have no effect.
        """
        total = self._total
        return {
            "similarity": self.similarity / total * np.clip(similarity, 0.0, 1.0),
            "confidence": self.confidence / total * trust(memories, now),
            "recency": self.recency / total * recency(memories, self.decay_per_hour, now),
            "utility": self.utility / total * np.clip(fill_unknown(memories.utility, UTILITY), 0.0, 1.0),
        }


def state_in(metadata: Mapping[str, Any]) -> MemoryState:
    """Return the memory state that a chunk's metadata contain."""
    parsed = ParsedMetadata.of(metadata)._asdict()
    return MemoryState(**{name: value for name, value in parsed.items() if value is not None})


@dataclass(frozen=True)
class Scoring:
    """Stage that scores hits by their memory state and sorts them, best first, ties by id.

    ``states`` returns states by id; those of other chunks are read from their metadata. ``session_similarity``
    returns each chunk's largest cosine with another turn of the session, ``time_evidence`` the evidence from times in a
    query. ``state_columns`` returns the states as columns, to score candidates before they are read.
    """

    composite: Composite
    states: Callable[[Sequence[str], Scope], Mapping[str, MemoryState]]
    hotness: Hotness | None = None
    novelty: Novelty | None = None
    session_similarity: Callable[[Sequence[str], Query], Sequence[float]] | None = None
    time_evidence: Callable[[Query], TimeEvidence | None] | None = None
    state_columns: Callable[[Sequence[str], Scope], MemoryColumns] | None = None

    def __call__(self, hits: Sequence[Hit], query: Query) -> list[Hit]:
        """Return all hits with their new scores, best first."""
        chunks = [hit.child or hit.chunk for hit in hits]
        ids = [chunk.id for chunk in chunks]
        records = self.states(ids, query.scope)
        memories = MemoryColumns.of([records.get(chunk.id) or state_in(chunk.metadata) for chunk in chunks])
        scores, parts = self._composite_scores(ids, memories, query).score_parts(np.array([hit.score for hit in hits]))
        each = zip(hits, scores.tolist(), _rows(parts), strict=True)
        scored_hits = (replace(hit, score=score, parts=own_parts) for hit, score, own_parts in each)
        return sorted(scored_hits, key=lambda hit: (-hit.score, hit.id))

    def before_reading(self, ids: Sequence[str], query: Query) -> CompositeScores:
        """Return the parts of candidates' scores that do not depend on similarity; needs ``state_columns``."""
        assert self.state_columns is not None
        return self._composite_scores(ids, self.state_columns(ids, query.scope), query)

    def _composite_scores(self, ids: Sequence[str], memories: MemoryColumns, query: Query) -> CompositeScores:
        now = query.scope.as_of
        parts = self.composite.parts(np.ones(len(ids)), memories, now)
        evidence = None if self.time_evidence is None else self.time_evidence(query)
        left = None
        if self.novelty is not None and self.session_similarity is not None:
            left = self.novelty(np.asarray(self.session_similarity(ids, query), np.float64))
        return CompositeScores(
            {id: place for place, id in enumerate(ids)},
            similarity=float(parts.pop("similarity").max(initial=0.0)),
            others=parts,
            evidence=None if evidence is None else evidence(memories.began_at),
            hotness=None if self.hotness is None else (self.hotness.alpha, self.hotness(memories, now)),
            novelty_factors=left,
        )


@dataclass(frozen=True)
class CompositeScores:
    """Precomputed columns for scoring candidates once their similarities are known.

    ``similarity`` is the weight of the similarities, ``others`` are the other parts of :class:`Composite`. ``hotness``
    is a pair: its weight, and the hotness of each candidate.
    """

    places: Mapping[str, int]
    similarity: float
    others: Mapping[str, Column]
    evidence: Column | None = None
    hotness: tuple[float, Column] | None = None
    novelty_factors: Column | None = None

    def score_parts(self, similar: Column) -> tuple[Column, dict[str, Column]]:
        """Return the scores for these similarities, in the columns' order, and the parts that add up to them."""
        own: Column = np.clip(similar, 0.0, 1.0)
        parts = {"similarity": self.similarity * own, **self.others}
        if self.evidence is not None:
            parts["time"] = self.similarity * (1.0 - own) * self.evidence
        scores: Column = np.sum(list(parts.values()), axis=0)
        if self.hotness is not None:
            alpha, hot = self.hotness
            parts["hotness"] = alpha * (hot - scores)
            scores = scores + parts["hotness"]
        if self.novelty_factors is not None:
            parts["novelty"] = scores * (self.novelty_factors - 1.0)
            scores = scores + parts["novelty"]
        return scores, parts

    def best(self, candidates: Sequence[FusedCandidate], n: int) -> list[FusedCandidate]:
        """Return the ``n`` best candidates (all for 0) and those that tie with the last, best first, ties by id."""
        places = np.array([self.places[one.id] for one in candidates], np.int64)
        similar = np.zeros(len(self.places))
        similar[places] = [one.score for one in candidates]
        scores, parts = self.score_parts(similar)
        if 0 < n < len(candidates):
            best = np.flatnonzero(scores[places] >= np.partition(scores[places], -n)[-n])
            candidates, places = [candidates[place] for place in best.tolist()], places[best]
        rows = _rows({name: column[places] for name, column in parts.items()})
        each = zip(candidates, scores[places].tolist(), rows, strict=True)
        return sorted(
            (FusedCandidate(one.id, score, row) for one, score, row in each), key=lambda one: (-one.score, one.id)
        )


def _rows(parts: Mapping[str, Column]) -> Iterator[dict[str, float]]:
    """Yield the parts of each score; ``time`` and ``novelty`` are included only if they change the score."""
    for row in zip(*(column.tolist() for column in parts.values()), strict=True):
        pairs = zip(parts, row, strict=True)
        yield {name: part for name, part in pairs if abs(part) > 1e-12 or name not in ("time", "novelty")}
