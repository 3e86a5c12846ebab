"""What a memory is worth: similarity, trust, age and use."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Fused, Hit, Learned, Query, Scope

HOUR = 3_600.0
DAY = 24 * HOUR
UNSURE = 0.5  # the confidence in what nobody has judged
DERIVED = 0.9  # of the confidence is left after each derivation
ENDING = 0.02  # per hour: how fast confidence goes as the end of the validity comes near
# How fast each type of memory fades, per hour; a type that is not here fades as its mode says.
DECAY: Mapping[str, float] = MappingProxyType(
    {"working": 999.0, "episodic": 0.08, "semantic": 0.02, "procedural": 0.001, "general": 0.05}
)
# What is told of a day or month is mostly told in it or soon after; these are the days after which 1/e of it is left.
TOLD_AFTER, TOLD_BEFORE = 7.0, 1.0


@dataclass(frozen=True, slots=True)
class Composite:
    """Σ weight · share, of similarity, confidence, recency and utility; the weights are divided by their sum.

    - similarity is the hit's score so far
    - confidence, 0.5 where nobody has judged, · 0.9 per derivation, · (1 − e^(−0.02 · hours left)) where validity ends
    - recency is e^(−``decay_per_hour`` · hours since it became valid, else was created; 0 hours where neither is
      known), with the decay of the memory's type where it has one of :data:`DECAY`
    - utility, 1 where nobody has judged

    All are kept in [0, 1]; what is dated in the future has the age 0. Raises ConfigurationError for weights or a decay
    that are no numbers from 0, and for weights that are all 0.

    Park et al., Generative Agents, UIST 2023, for the weighted sum of relevance and recency.

    >>> parts = Composite().parts(0.8, Learned(confidence=0.9, utility=0.5, valid_from=0.0), now=24 * 3600)
    >>> {name: round(part, 6) for name, part in parts.items()}
    {'similarity': 0.32, 'confidence': 0.27, 'recency': 0.060239, 'utility': 0.05}
    """

    similarity: float = 0.40
    confidence: float = 0.30
    recency: float = 0.20
    utility: float = 0.10
    decay_per_hour: float = 0.05

    def __post_init__(self) -> None:
        for each in fields(self):
            _check_number(each.name, getattr(self, each.name))
        if not self._total:
            raise ConfigurationError("the weights of similarity, confidence, recency and utility are all 0: give one")

    @property
    def _total(self) -> float:
        return self.similarity + self.confidence + self.recency + self.utility

    def parts(self, similarity: float, learned: Learned, now: float | None) -> dict[str, float]:
        """What each adds to the score; they sum to it.

        ``now`` is unix seconds; None stands for no time in particular: ages are those of today, and no end is near.
        """
        total = self._total
        return {
            "similarity": self.similarity / total * _share(similarity),
            "confidence": self.confidence / total * trust(learned, now),
            "recency": self.recency / total * self._fresh(learned, now),
            "utility": self.utility / total * (1.0 if learned.utility is None else _share(learned.utility)),
        }

    def _fresh(self, learned: Learned, now: float | None) -> float:
        began = begin(learned)
        if began is None:
            return 1.0
        decay = DECAY.get(learned.memory_type or "", self.decay_per_hour)
        return math.exp(-decay * _age(began, now) / HOUR)


@dataclass(frozen=True, slots=True)
class Hotness:
    """How much a memory is used: sigmoid(ln(1 + uses)) · 2^(−days since / ``half_life_days``).

    It is blended with the score: (1 − ``alpha``) · score + ``alpha`` · hotness. Raises ConfigurationError for an alpha
    outside [0, 1] or a half-life that is not above 0.

    >>> round(Hotness()(Learned(active_count=9, used_at=0.0), now=7 * 24 * 3600), 6)
    0.454545
    """

    alpha: float = 0.2
    half_life_days: float = 7.0

    def __post_init__(self) -> None:
        _check_number("alpha", self.alpha, most=1.0)
        _check_number("half_life_days", self.half_life_days)
        if not self.half_life_days:
            raise ConfigurationError("half_life_days is 0; wanted a number above 0, such as 7")

    def __call__(self, learned: Learned, now: float | None) -> float:
        """The hotness, in [0, 1); of what is dated nowhere the age is 0."""
        used = begin(learned) if learned.used_at is None else learned.used_at
        uses = 1.0 + max(learned.active_count, 0)
        age = 0.0 if used is None else _age(used, now)
        return uses / (1.0 + uses) * 2.0 ** (-age / DAY / self.half_life_days)

    def blended(self, score: float, learned: Learned, now: float | None) -> float:
        """The score after blending.

        >>> round(Hotness().blended(0.8, Learned(active_count=9, used_at=0.0), now=7 * 24 * 3600), 6)
        0.730909
        """
        return (1.0 - self.alpha) * score + self.alpha * self(learned, now)


@dataclass(frozen=True, slots=True)
class Novelty:
    """What is left of the score of a memory that says what the session has said: 1 − ``slope`` · (s − ``above``).

    s is the largest cosine with any turn of the session; up to ``above`` all is left, and never less than ``floor``.

    >>> [round(Novelty()(s), 6) for s in (0.7, 0.8, 0.9, 1.0)]
    [1.0, 1.0, 0.75, 0.5]
    """

    above: float = 0.8
    slope: float = 2.5
    floor: float = 0.5

    def __post_init__(self) -> None:
        _check_number("above", self.above, most=1.0)
        _check_number("slope", self.slope)
        _check_number("floor", self.floor, most=1.0)

    def __call__(self, similarity: float) -> float:
        """The share of the score that is left."""
        return 1.0 if similarity <= self.above else max(self.floor, 1.0 - self.slope * (similarity - self.above))


@dataclass(frozen=True, slots=True)
class Named:
    """Times that a question names, as evidence for the memories of these times.

    Of ``strength`` counts what share of the candidates are of other times: that all are of this year says nothing. A
    memory outside counts less, by e^(−days / 7) after the time and e^(−days) before it. The evidence is joined to the
    similarity as an independent one: 1 − (1 − similarity) · (1 − evidence).

    >>> may = Named([(0.0, 31 * 86400.0)], strength=0.4)
    >>> [round(each, 3) for each in may([10 * 86400.0, 38 * 86400.0, 400 * 86400.0, None])]
    [0.3, 0.11, 0.0, 0.0]
    """

    spans: Sequence[tuple[float, float]]
    strength: float = 0.3

    def __call__(self, times: Sequence[float | None]) -> list[float]:
        """How much speaks for each of these memories, by when they began."""
        near = [
            0.0 if each is None else max((_near(each, *span) for span in self.spans), default=0.0) for each in times
        ]
        others = sum(each < 1.0 for each in near) / (len(near) or 1)
        return [self.strength * others * each for each in near]


@dataclass(frozen=True)
class Scoring:
    """The stage: hits by what is remembered of them, best first, ties by id.

    ``learned`` gives what is known of chunks by their ids; of those it does not know, ``given`` reads the metadata.
    ``said`` gives the largest cosine of each of these chunks with the session's other turns, ``named`` the times that a
    query names, None for none. ``parts`` then are those of :class:`Composite`, and signed ones for what else changed
    the score: ``time``, ``hotness``, ``novelty``.

    ``by_id`` says that nothing is known from metadata: then candidates can be scored before they are read, and only
    the best need be.
    """

    composite: Composite
    learned: Callable[[Sequence[str], Scope], Mapping[str, Learned]]
    given: Callable[[Mapping[str, Any]], Learned] = lambda metadata: _NOTHING
    hotness: Hotness | None = None
    novelty: Novelty | None = None
    said: Callable[[Sequence[str], Scope], Sequence[float]] | None = None
    named: Callable[[Query], Named | None] | None = None
    by_id: bool = False

    def __call__(self, hits: Sequence[Hit], query: Query) -> list[Hit]:
        """All hits with their new scores."""
        found = [hit.child or hit.chunk for hit in hits]
        ids = [chunk.id for chunk in found]
        known = self.learned(ids, query.scope)
        learned = [known.get(chunk.id) or self.given(chunk.metadata) for chunk in found]
        weighed = self._weighed(ids, [hit.score for hit in hits], learned, query)
        scored = [_with_score(hit, score, parts) for hit, (score, parts) in zip(hits, weighed, strict=True)]
        return sorted(scored, key=lambda hit: (-hit.score, hit.id))

    def candidates(self, fused: Sequence[Fused], query: Query) -> list[Fused]:
        """All candidates with their new scores, best first, ties by id."""
        ids = [one.id for one in fused]
        known = self.learned(ids, query.scope)
        learned = [known.get(id, _NOTHING) for id in ids]
        weighed = self._weighed(ids, [one.score for one in fused], learned, query)
        scored = [Fused(id, score, parts) for id, (score, parts) in zip(ids, weighed, strict=True)]
        return sorted(scored, key=lambda one: (-one.score, one.id))

    def _weighed(
        self, ids: Sequence[str], similar: Sequence[float], learned: Sequence[Learned], query: Query
    ) -> list[tuple[float, dict[str, float]]]:
        """The score of each chunk and its parts."""
        now = query.scope.as_of
        own = [_share(each) for each in similar]
        timed = self._timed(query, own, learned)
        left = self._left(ids, query.scope)
        each = zip(own, timed, learned, left, strict=True)
        return [self._scored(of_text, of_both, one, share, now) for of_text, of_both, one, share in each]

    def _timed(self, query: Query, similar: Sequence[float], learned: Sequence[Learned]) -> Sequence[float]:
        named = None if self.named is None else self.named(query)
        if named is None:
            return similar
        evidence = named([begin(one) for one in learned])
        return [1.0 - (1.0 - own) * (1.0 - each) for own, each in zip(similar, evidence, strict=True)]

    def _left(self, ids: Sequence[str], scope: Scope) -> Sequence[float]:
        if self.novelty is None or self.said is None:
            return [1.0] * len(ids)
        return [self.novelty(each) for each in self.said(ids, scope)]

    def _scored(
        self, own: float, timed: float, learned: Learned, left: float, now: float | None
    ) -> tuple[float, dict[str, float]]:
        parts = self.composite.parts(own, learned, now)
        if timed != own:
            parts["time"] = self.composite.parts(timed, learned, now)["similarity"] - parts["similarity"]
        score = math.fsum(parts.values())
        if self.hotness is not None:
            blended = self.hotness.blended(score, learned, now)
            parts["hotness"], score = blended - score, blended
        if left != 1.0:
            parts["novelty"], score = score * left - score, score * left
        return score, parts


_NOTHING = Learned()


def _with_score(hit: Hit, score: float, parts: Mapping[str, float]) -> Hit:
    # dataclasses.replace takes four times as long, and there are some hundred hits.
    return Hit(
        hit.chunk,
        score,
        hit.source,
        parts,
        hit.vector_score,
        hit.bm25_score,
        hit.rerank_score,
        hit.hops,
        hit.path,
        hit.graph_context,
        hit.child,
        hit.found_by,
    )


def trust(learned: Learned, now: float | None) -> float:
    """How sure a memory is: its confidence after its derivations, and the less the nearer its end is.

    >>> round(trust(Learned(confidence=0.9, valid_until=24 * 3600.0), now=0.0), 6)
    0.343095
    """
    sure = UNSURE if learned.confidence is None else _share(learned.confidence)
    sure *= DERIVED ** max(learned.provenance_depth, 0)
    if learned.valid_until is None or now is None:
        return sure
    return sure * -math.expm1(-ENDING * max(0.0, learned.valid_until - now) / HOUR)


def begin(learned: Learned) -> float | None:
    """When a memory began: when it became valid, else when it was created; None where neither is known."""
    return learned.created_at if learned.valid_from is None else learned.valid_from


def _near(moment: float, start: float, end: float) -> float:
    """1 within the span, less outside."""
    late, early = max(0.0, moment - end) / DAY, max(0.0, start - moment) / DAY
    return 1.0 if start <= moment < end else math.exp(-late / TOLD_AFTER - early / TOLD_BEFORE)


def _age(since: float, now: float | None) -> float:
    return max(0.0, (time.time() if now is None else now) - since)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _check_number(name: str, value: Any, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or value == math.inf:
        wanted = "a number from 0" if most == math.inf else f"a number from 0 to {most:g}"
        raise ConfigurationError(f"{name} is {value!r}; wanted {wanted}")
