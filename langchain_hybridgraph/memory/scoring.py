"""Scores of memories from similarity, confidence, age and use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.memory.columns import MemoryColumns, fill_unknown, to_shares
from langchain_hybridgraph.memory.confidence import trust
from langchain_hybridgraph.memory.feedback import UTILITY
from langchain_hybridgraph.memory.hotness import Hotness
from langchain_hybridgraph.memory.novelty import Novelty
from langchain_hybridgraph.memory.recency import recency
from langchain_hybridgraph.memory.time_evidence import TimeEvidence
from langchain_hybridgraph.number_ranges import check_number
from langchain_hybridgraph.records import FusedCandidate, Hit, MemoryState, Query, Scope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.memory.columns import Column


@dataclass(frozen=True, slots=True)
class Composite:
    """Weighted mean of similarity, confidence, recency and utility; the weights are divided by their sum.

    - similarity: the hit's score so far
    - confidence: the memory's confidence (0.5 if unset), multiplied by 0.9 for each derivation. If the memory came with
      an end of validity, it is also multiplied by 1 − e^(−0.02 · hours left). An end that was set later, by superseding
      the memory, has no effect, because it was not known in advance
    - recency: e^(−``decay_per_hour`` · age in hours). The age is measured from the first of these times that is known:
      start of validity, creation, ingestion. A memory whose type is in
      :data:`~langchain_hybridgraph.memory.recency.DECAY` uses the rate of its type
    - utility: the memory's utility (1 if unset)

    All four values are in [0, 1]. The age is 0 if no time is known, or if the time is up to an hour after ``now``, for
    example because of another clock. If the time is later than that, the recency is 0, because there is no evidence
    that the memory was already true. Raises ConfigurationError for weights or a decay that are negative or not numbers,
    and for weights that are all 0.

    The weighted sum of relevance and recency is from Park et al., Generative Agents, UIST 2023.

    >>> parts = Composite().parts(0.8, MemoryState(confidence=0.9, utility=0.5, valid_from=0.0), now=24 * 3600)
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
            check_number(each.name, getattr(self, each.name), ge=0)
        if not self._total:
            raise ConfigurationError(
                "the weights of similarity, confidence, recency and utility are all 0; set at least one of them"
            )

    @property
    def _total(self) -> float:
        return self.similarity + self.confidence + self.recency + self.utility

    def parts(self, similarity: float, state: MemoryState, now: float | None) -> dict[str, float]:
        """Return the parts that add up to the score of one memory.

        ``now`` is in Unix seconds. If it is None, ages are measured from the current time, and ends of validity have no
        effect.
        """
        columns = self.columns(np.array([similarity]), MemoryColumns.of([state]), now)
        return {name: float(column[0]) for name, column in columns.items()}

    def columns(self, similarity: Column, memories: MemoryColumns, now: float | None) -> dict[str, Column]:
        """Return the parts that add up to the scores of many memories, each part as a column."""
        total = self._total
        return {
            "similarity": self.similarity / total * to_shares(similarity),
            "confidence": self.confidence / total * trust(memories, now),
            "recency": self.recency / total * recency(memories, self.decay_per_hour, now),
            "utility": self.utility / total * to_shares(fill_unknown(memories.utility, UTILITY)),
        }


_NOTHING: Final = MemoryState()


@dataclass(frozen=True)
class Scoring:
    """Stage that scores hits by their memory state and sorts them, best first, ties by id.

    ``states`` returns the states of chunks by their ids. If a chunk has none, ``read_metadata`` reads a state from its
    metadata. ``session_similarity`` returns, for each chunk, its largest cosine with any turn of the session, not
    counting the chunk itself if it is such a turn. ``time_evidence`` returns the evidence from the times in a query, or
    None. The ``parts`` of a hit are the parts of :class:`Composite`, and the changes that ``time``, ``hotness`` and
    ``novelty`` make to the score.

    ``state_columns`` returns the same states as columns. It is set only if no state is read from metadata. Candidates
    can then be scored before they are read, so only the best ones have to be read.
    """

    composite: Composite
    states: Callable[[Sequence[str], Scope], Mapping[str, MemoryState]]
    read_metadata: Callable[[Mapping[str, Any]], MemoryState] = lambda metadata: _NOTHING
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
        memories = MemoryColumns.of([records.get(chunk.id) or self.read_metadata(chunk.metadata) for chunk in chunks])
        scores, parts = self._composite_scores(ids, memories, query).score_parts(np.array([hit.score for hit in hits]))
        each = zip(hits, scores.tolist(), _rows(parts), strict=True)
        return sorted((_with_score(*one) for one in each), key=lambda hit: (-hit.score, hit.id))

    def before_reading(self, ids: Sequence[str], query: Query) -> CompositeScores:
        """Return the parts of candidates' scores that do not depend on similarity, without reading the candidates.

        Raises AssertionError if ``state_columns`` is None.
        """
        assert self.state_columns is not None
        return self._composite_scores(ids, self.state_columns(ids, query.scope), query)

    def _composite_scores(self, ids: Sequence[str], memories: MemoryColumns, query: Query) -> CompositeScores:
        now = query.scope.as_of
        parts = self.composite.columns(np.ones(len(ids)), memories, now)
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

    ``places`` maps each id to its position in the columns. ``similarity`` is the weight of the similarities, and
    ``others`` are the other parts of :class:`Composite`. ``evidence`` is the evidence from the times in the query.
    ``hotness`` is a pair: the weight of hotness, and the hotness of each candidate. ``novelty_factors`` are the factors
    by which the scores are multiplied.
    """

    places: Mapping[str, int]
    similarity: float
    others: Mapping[str, Column]
    evidence: Column | None = None
    hotness: tuple[float, Column] | None = None
    novelty_factors: Column | None = None

    def score_parts(self, similar: Column) -> tuple[Column, dict[str, Column]]:
        """Return the scores for these similarities, and the parts that add up to the scores.

        The similarities must be in the order of the columns.
        """
        own = to_shares(similar)
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
        """Return the ``n`` candidates with the best new scores, best first, ties by id.

        Candidates with the same score as the last one are also returned. If ``n`` is 0, all candidates are returned.
        """
        places = np.array([self.places[one.id] for one in candidates], np.int64)
        scores, parts = self._at(places).score_parts(np.array([one.score for one in candidates]))
        if 0 < n < len(candidates):
            best = np.flatnonzero(scores >= np.partition(scores, -n)[-n])
            scores, parts = scores[best], {name: column[best] for name, column in parts.items()}
            candidates = [candidates[place] for place in best.tolist()]
        each = zip(candidates, scores.tolist(), _rows(parts), strict=True)
        return sorted(
            (FusedCandidate(one.id, score, row) for one, score, row in each), key=lambda one: (-one.score, one.id)
        )

    def _at(self, places: NDArray[np.int64]) -> CompositeScores:
        return replace(
            self,
            others={name: column[places] for name, column in self.others.items()},
            evidence=None if self.evidence is None else self.evidence[places],
            hotness=None if self.hotness is None else (self.hotness[0], self.hotness[1][places]),
            novelty_factors=None if self.novelty_factors is None else self.novelty_factors[places],
        )


def _rows(parts: Mapping[str, Column]) -> Iterator[dict[str, float]]:
    """Yield the parts of each score; ``time`` and ``novelty`` are included only if they change the score."""
    names = list(parts)
    for row in zip(*(column.tolist() for column in parts.values()), strict=True):
        yield {name: part for name, part in zip(names, row, strict=True) if abs(part) > 1e-12 or name not in _CHANGES}


# Parts that are included only if they change the score.
_CHANGES = frozenset({"time", "novelty"})


def _with_score(hit: Hit, score: float, parts: Mapping[str, float]) -> Hit:
    # dataclasses.replace takes four times as long, and there are about a hundred hits.
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
