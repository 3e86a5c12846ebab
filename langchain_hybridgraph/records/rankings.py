"""Results of sources, and candidates after fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from langchain_hybridgraph.records.arrays import Vector
    from langchain_hybridgraph.records.chunks import Chunk


class ScoredId(NamedTuple):
    """The id of a chunk, with a source's own score (such as a cosine or BM25). Higher is better.

    A source whose chunks cannot be read by id sets ``chunk`` in all of its entries; other sources leave it None.
    """

    id: str
    score: float
    chunk: Chunk | None = None


# Number of the best keyword hits whose texts are scored without their headings.
BEST_HITS = 10


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words of a question, including words that no text contains.

    ``count`` is the number of distinct words. ``bound`` is the highest BM25 score that a text with all of the words
    could reach. ``best`` is the highest BM25 score of the texts that were found, not counting headings.
    """

    count: int
    bound: float
    best: float = 0.0


class SourceResult(NamedTuple):
    """The result of one search of a store.

    - ``entries`` are best first, ties by id.
    - ``vector`` is the query vector of a vector search, and ``words`` describes the query of a keyword search.
    - ``bound``, ``background`` and ``exact`` have the same meaning as in :class:`Ranking`.
    - ``reason`` is a degradation reason (an entry of ``degraded``) if the search was limited, or None. ``remark`` adds
      detail.
    - ``rest`` is the largest score that a chunk outside ``entries`` can have, or None if unknown.
    - ``are_cosines`` is True if the scores of a vector search are cosines. If it is False, only their order is
      meaningful.
    """

    entries: Sequence[ScoredId]
    vector: Vector | None = None
    bound: float | None = None
    background: tuple[float, float] | None = None
    reason: str | None = None
    rest: float | None = None
    remark: str | None = None
    are_cosines: bool = True
    exact: Mapping[str, float] = MappingProxyType({})
    words: QuestionWords | None = None

    @property
    def chunks(self) -> dict[str, Chunk]:
        """Chunks that were returned with the entries, by id; empty for a source that returns only ids."""
        if not self.entries or self.entries[0].chunk is None:
            return {}
        return {entry.id: entry.chunk for entry in self.entries if entry.chunk is not None}


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked list of one source.

    - ``entries`` are best first, ties by id.
    - ``scores`` maps ids to the known scores of this source. It includes all ``entries``, and may include candidates
      that only other sources found.
    - ``bound`` is the largest score that the source could give for this query (1 for a cosine), or None if unknown.
    - ``background`` is the mean and the standard deviation of the source's score for this query over arbitrary chunks
      in scope, or None if unknown.
    - ``rest`` is the largest score that a candidate without a known score can have, or None if unknown.
    - ``exact`` maps ids of chunks to the probability in (0, 1) that the query refers to this chunk, because the chunk
      contains an identifier or a rare word of the query. These chunks need not be in ``entries``.
    """

    source: str
    weight: float
    entries: Sequence[ScoredId]
    scores: Mapping[str, float]
    bound: float | None = None
    background: tuple[float, float] | None = None
    rest: float | None = None
    exact: Mapping[str, float] = field(default_factory=dict)


class FusedCandidate(NamedTuple):
    """A candidate after fusion, with its score in [0, 1] and each source's part of the score.

    The parts sum to the score.
    """

    id: str
    score: float
    parts: Mapping[str, float]
