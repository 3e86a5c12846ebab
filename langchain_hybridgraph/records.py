"""Records shared by all parts of the package.

All are frozen: a stage that changes something makes a new record. Records are identified by id, never by text.
This module depends on neither LangChain nor an engine nor the file system.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_hybridgraph.errors import quote_value, shorten
from langchain_hybridgraph.serialization import Serializable
from langchain_hybridgraph.times import parse_end, parse_time

if TYPE_CHECKING:
    from datetime import date

    import numpy as np
    from numpy.typing import NDArray

    from langchain_hybridgraph.filters import Filter

    Vector = NDArray[np.float32]
    Mask = NDArray[np.bool_]
    Time = float | str | date  # a datetime is a date

REFERENCES = "references"
ELABORATES = "elaborates"
DEPENDS_ON = "depends_on"
CONTRADICTS = "contradicts"
PART_OF = "part_of"  # part → whole
SIMILAR_TO = "similar_to"
SEQUENCE = "sequence"  # earlier → later
CAUSED_BY = "caused_by"  # effect → cause
CONTAINS = "contains"  # directory → child
MENTIONS = "mentions"  # chunk → entity
SUPERSEDES = "supersedes"
SUPPORTS = "supports"
CITES = "cites"
DERIVED_FROM = "derived_from"


@dataclass(frozen=True, slots=True)
class Chunk(Serializable):
    """An indexed piece of text, or a parent that child chunks point to.

    ``metadata`` is the user's JSON, unchanged. ``document_id`` and ``parent_id`` default to the values in it:
    the document is ``metadata["document_id"]``, else ``metadata["source"]``, else the chunk's id.

    >>> Chunk("a#1", "text", {"source": "a.md"}).document
    'a.md'
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    document_id: str | None = None
    parent_id: str | None = None

    @property
    def document(self) -> str:
        """Id of the document that the chunk belongs to."""
        if self.document_id is not None:
            return self.document_id
        document_id = self.metadata.get("document_id")
        if document_id is None:
            document_id = self.metadata.get("source")
        return self.id if document_id is None else str(document_id)

    @property
    def parent(self) -> str | None:
        """Id of the parent, or None if the chunk has no parent."""
        if self.parent_id is not None:
            return self.parent_id
        parent_id = self.metadata.get("parent_id")
        return None if parent_id is None else str(parent_id)


@dataclass(frozen=True, slots=True)
class Edge(Serializable):
    """A directed edge between two chunks (or a chunk and an entity), unique by source, target and relation.

    Pass times in any form that :mod:`~langchain_hybridgraph.times` reads; they are stored as Unix seconds, UTC. A
    ``valid_until`` that is a date without a time means the end of that day. Raises ValueError for a weight outside
    (0, 1], an edge from a chunk to itself, an unreadable time, and a ``valid_until`` before ``valid_from``.

    >>> Edge("a", "b", "cites", valid_from="1970-01-02").valid_from
    86400.0
    """

    source: str
    target: str
    relation: str
    weight: float = 1.0
    description: str = ""
    valid_from: float | None = None
    valid_until: float | None = None

    def __post_init__(self) -> None:
        # A large ingest creates a million edges, nearly all with a float weight and without times.
        if type(self.weight) is not float:
            object.__setattr__(self, "weight", _weight(self))
        if not 0.0 < self.weight <= 1.0:
            raise ValueError(_weight_message(self))
        if self.source == self.target:
            raise ValueError(f"{_label(self)} points to itself; connect two different ids")
        if self.valid_from is not None or self.valid_until is not None:
            for name, seconds in zip(("valid_from", "valid_until"), _period(self), strict=True):
                object.__setattr__(self, name, seconds)

    if TYPE_CHECKING:
        # The constructor accepts more types for a time than the fields store.
        def __init__(  # noqa: PLR0917 - the fields, in order
            self,
            source: str,
            target: str,
            relation: str,
            weight: float = 1.0,
            description: str = "",
            valid_from: Time | None = None,
            valid_until: Time | None = None,
        ) -> None: ...


def _label(edge: Edge) -> str:
    return f"edge {quote_value(edge.source)} → {quote_value(edge.target)} ({shorten(edge.relation, 100)})"


def _weight(edge: Edge) -> float:
    """Return the weight as a float; it may be an int or a NumPy number."""
    if isinstance(edge.weight, bool) or not isinstance(edge.weight, Real):
        raise ValueError(_weight_message(edge))
    return float(edge.weight)


def _weight_message(edge: Edge) -> str:
    return (
        f"{_label(edge)} has weight {quote_value(edge.weight)}; pass a weight above 0 and up to 1, such as weight=0.5"
    )


def _period(edge: Edge) -> tuple[float | None, float | None]:
    """Return the start and end of an edge's validity, in Unix seconds."""
    start, end = _seconds(edge, "valid_from", parse_time), _seconds(edge, "valid_until", parse_end)
    if start is not None and end is not None and end < start:
        raise ValueError(
            f"{_label(edge)} has valid_until ({quote_value(edge.valid_until)}) before valid_from "
            f"({quote_value(edge.valid_from)}): "
            "the edge would never be valid; swap the two times, or leave one out"
        )
    return start, end


def _seconds(edge: Edge, name: str, parse: Callable[[Any], float]) -> float | None:
    value = getattr(edge, name)
    if value is None:
        return None
    try:
        return parse(value)
    except ValueError as error:
        raise ValueError(f"{_label(edge)}, {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class EdgeFilter:
    """The edges that a traversal may follow.

    ``direction`` ``"out"`` follows edges from source to target, ``"in"`` from target to source, ``"both"`` either way.
    ``relations`` None allows all. Edges lighter than ``min_weight`` are ignored. The edges of a node with more than
    ``hub_degree`` edges count less: weight · hub_degree / degree. None leaves their weights unchanged.

    Raises ValueError for an unknown direction, a weight outside [0, 1] or a degree below 1.
    """

    direction: Literal["out", "in", "both"] = "out"
    relations: frozenset[str] | None = None
    min_weight: float = 0.0
    hub_degree: int | None = 64

    def __post_init__(self) -> None:
        if self.direction not in ("out", "in", "both"):
            raise ValueError(f"direction must be 'out', 'in' or 'both', got {quote_value(self.direction)}")
        if not 0.0 <= self.min_weight <= 1.0:
            raise ValueError(f"min_weight must be a number from 0 to 1, got {quote_value(self.min_weight)}")
        if self.hub_degree is not None and self.hub_degree < 1:
            raise ValueError(f"hub_degree must be an integer ≥ 1, or None, got {quote_value(self.hub_degree)}")


class TimeRange(Enum):
    """Special values of ``as_of`` that are not a point in time."""

    ALL = "all"


ALL_TIME = TimeRange.ALL
"""Value of ``as_of`` that includes chunks and edges of all times, whether valid now or not."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The chunks that a call may see. Every hit satisfies all four fields, no matter which source found it.

    ``as_of`` is in Unix seconds, UTC; None turns the validity check off. ``known_at`` is in Unix seconds, UTC, too:
    chunks stored later are left out, and validity is evaluated as it was known then. None means as known now.
    """

    filter: Filter | None = None
    tenant: str | None = None
    as_of: float | None = None
    known_at: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Facts about a chunk in addition to its text, from its metadata or learned since.

    Times are in Unix seconds, UTC. None means unset, which differs from 0. ``confidence`` and ``utility`` are in
    [0, 1]. ``used_at`` is when the chunk was last useful, ``updated_at`` when it last changed according to its
    metadata, and ``learned_at`` when the store received it. ``provenance_depth`` is the number of derivations between
    the chunk and an original observation or statement. ``end_learned`` is true when ``valid_until`` did not come with
    the chunk but was set later, when another chunk superseded it.
    """

    confidence: float | None = None
    utility: float | None = None
    active_count: int = 0
    used_at: float | None = None
    updated_at: float | None = None
    valid_from: float | None = None
    valid_until: float | None = None
    created_at: float | None = None
    learned_at: float | None = None
    memory_type: str | None = None
    provenance_depth: int = 0
    end_learned: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One search: its text or vector (or both), the number of results, and its scope.

    With ``text`` None only the vector is searched for; with ``vector`` None the text is embedded.
    ``weight`` is the priority among several planned queries.
    """

    text: str | None
    k: int
    scope: Scope = field(default_factory=Scope)
    vector: Vector | None = None
    weight: float = 1.0


class ScoredId(NamedTuple):
    """A chunk's id with a source's own score (cosine, BM25). Higher is better.

    Sources that cannot return a chunk by id set ``chunk``: in all of their entries, or in none.
    """

    id: str
    score: float
    chunk: Chunk | None = None


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words of a question, including words that no text contains.

    ``count`` is the number of different words, ``bound`` the largest BM25 that a text with all of them could have.
    """

    count: int
    bound: float


class SourceResult(NamedTuple):
    """The result of one search of a store.

    ``entries`` are best first, ties by id. ``vector`` is the query vector of the vector search. ``bound`` and
    ``background`` are those of :class:`Ranking`. ``reason`` is the degradation reason (an entry of ``degraded``) if
    the search was limited, else None; ``remark`` adds detail. ``rest`` is the largest score that an unlisted chunk
    can have, or None if unknown. ``are_cosines`` tells whether the scores of a vector search are cosines; if not,
    only their order is meaningful. ``exact`` is that of :class:`Ranking`. ``words`` describes the query of a
    keyword search.
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
        """The chunks that came with the entries, by id; empty for a source that returns ids only."""
        if not self.entries or self.entries[0].chunk is None:
            return {}
        return {entry.id: entry.chunk for entry in self.entries if entry.chunk is not None}


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked list of one source.

    ``entries`` are best first, ties by id. ``scores`` maps candidates of ALL sources to this source's own score,
    where it is known. It contains every id in ``entries`` and may contain more. ``bound`` is the largest score that
    the source could give for this query (1 for a cosine), or None if unknown. ``background`` is the mean and the
    standard deviation of the source's score for this query over arbitrary chunks in scope, or None if unknown.
    ``rest`` is the largest score that a candidate without a score can have, or None if unknown.
    ``exact`` maps chunk ids, listed or not, to the probability in (0, 1) that the query means this chunk, because the
    chunk contains an identifier or a rare word of the query.
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
    """One candidate after fusion: its score in [0, 1] and each source's part (the parts sum to the score)."""

    id: str
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answerability(Serializable):
    """How likely a question has an answer among the texts, and the reasons.

    ``value`` is in [0, 1]; a question with at least .5 counts as answerable. ``similarity`` is the distance of the best
    cosine from the mean cosine with arbitrary texts, as a share of what is possible. ``matched`` is the best BM25
    divided by the BM25 of a text with all words of the question, including words that no text contains. Both are None
    if unknown. ``exact`` is the probability that the question refers to a text by an identifier in it. ``words`` is the
    number of different words in the question. ``unit`` is the factor by which ranking scores are multiplied.

    >>> Answerability(0.92, 0.6, 0.5).explain()
    'answerable (0.92): similarity 0.60 · words matched 0.50'
    """

    value: float
    similarity: float | None = None
    matched: float | None = None
    exact: float = 0.0
    words: int = 0
    unit: float = 1.0

    @property
    def is_answerable(self) -> bool:
        """Whether ``value`` is at least 0.5."""
        return self.value >= 0.5

    def explain(self) -> str:
        """Return one line that says how likely the question has an answer, and why."""
        reasons = {"similarity": self.similarity, "words matched": self.matched, "exact match": self.exact or None}
        summary = " · ".join(f"{name} {value:.2f}" for name, value in reasons.items() if value is not None)
        return f"{'answerable' if self.is_answerable else 'not answerable'} ({self.value:.2f}): {summary}"

    def scale(self, hit: Hit) -> Hit:
        """Return the hit with its score (at most 1) and the parts of it multiplied by ``unit``."""
        if self.unit == 1:
            return hit
        parts = {name: self.unit * part for name, part in hit.parts.items()}
        return replace(hit, score=min(1.0, self.unit * hit.score), parts=parts)


@dataclass(frozen=True, slots=True)
class Hit(Serializable):
    """A chunk with its score and the parts of that score; the record that passes through all stages.

    ``parts`` sum to ``score``; ``found_by`` names the sources that found the chunk. ``path`` lists chunk ids from
    the seed to this chunk and has length 1 for a seed. ``graph_context`` describes the last edges of the path as they
    are stored, last edge first; ``direction`` is ``"backward"`` for an edge followed from its target to its source.
    ``child`` is the matching chunk when its parent was returned in its place.
    """

    chunk: Chunk
    score: float
    source: str
    parts: Mapping[str, float]
    vector_score: float | None = None
    bm25_score: float | None = None
    rerank_score: float | None = None
    hops: int = 0
    path: tuple[str, ...] = ()
    graph_context: tuple[Mapping[str, Any], ...] = ()
    child: Chunk | None = None
    found_by: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Id of the chunk."""
        return self.chunk.id

    def explain(self) -> str:
        """Explain in one line the rank of this hit and the edges through which it was found.

        Only the last edges of a long path are known (``graph_context``); earlier ones are left out.

        >>> parts, both = {"vector": 0.6, "keyword": 0.3}, ("vector", "keyword")
        >>> Hit(Chunk("a", "t"), 0.9, "fused", parts, vector_score=0.8, found_by=both).explain()
        'score 0.900 = vector 0.600 + keyword 0.300 · found by vector and keyword · cosine 0.800'
        >>> cites = {"from_chunk_id": "a", "relation": "cites", "weight": 0.8, "description": "B builds on A."}
        >>> parts, path = {"vector": 0.2, "graph": 0.3}, ("a", "b")
        >>> reached = Hit(Chunk("b", "t"), 0.5, "graph", parts, hops=1, path=path, graph_context=(cites,))
        >>> for reason in reached.explain().split(" · "):
        ...     print(reason)
        score 0.500 = vector 0.200 + graph 0.300
        found by graph
        1 hop from a to b: cites (weight 0.80, “B builds on A.”)
        >>> from dataclasses import replace
        >>> replace(reached, graph_context=({**cites, "direction": "backward"},)).explain().split(" · ")[-1]
        '1 hop from a to b: b cites a (walked backward, weight 0.80, “B builds on A.”)'
        """
        parts = " + ".join(f"{name} {value:.3f}" for name, value in self.parts.items())
        sources = _enumeration(self.found_by) or self.source
        reasons = [f"score {self.score:.3f} = {parts}" if parts else f"score {self.score:.3f}", f"found by {sources}"]
        if self.vector_score is not None:
            reasons.append(f"cosine {self.vector_score:.3f}")
        if self.bm25_score is not None:
            reasons.append(f"BM25 {self.bm25_score:.2f}")
        if self.rerank_score is not None:
            reasons.append(f"reranked {self.rerank_score:.3f}")
        if self.hops:
            reasons[1:1] = _shares(self.parts)
            reasons.append(_route(self))
        elif self.parts.get("graph"):
            reasons.append("the question names its title")
        if self.child is not None:
            reasons.append(f"parent of {self.child.id}")
        return " · ".join(reasons)


def _enumeration(names: Sequence[str]) -> str:
    *before, last = names or ("",)
    return f"{', '.join(before)} and {last}" if before else last


def _shares(parts: Mapping[str, float]) -> list[str]:
    """Split a score into search and graph, unless the parts already show the split.

    The reranker's part counts as neither. The score of a memory has one part for both.
    """
    searched = [part for name, part in parts.items() if name not in ("graph", "rerank")]
    if "graph" not in parts or len(searched) < 2:
        return []
    return [f"{sum(searched):.3f} from search, {parts['graph']:.3f} from the graph"]


def _route(hit: Hit) -> str:
    """Describe the path to a hit: its seed, the chunks in between, and the known steps."""
    seed, *between, end = hit.path if len(hit.path) > 1 else (hit.id, hit.id)
    via = f" via {', '.join(between if len(between) < 4 else [between[0], '…', between[-1]])}" if between else ""
    edges = {step["from_chunk_id"]: step for step in hit.graph_context}
    steps = ", then ".join(_step(edges[one], one, two) for one, two in pairwise(hit.path) if one in edges)
    hops = "1 hop" if hit.hops == 1 else f"{hit.hops} hops"
    return f"{hops} from {seed}{via} to {end}" + (f": {steps}" if steps else "")


def _step(step: Mapping[str, Any], one: str, two: str) -> str:
    """Describe the edge followed from one chunk to the next; an edge followed backward is shown with both ends."""
    weight, description = f"weight {step['weight']:.2f}", str(step["description"])
    if entity := str(step.get("entity", "")):
        return f"both mention {entity.partition(':')[2] or entity} ({weight})"
    details = f"{weight}, “{description}”" if description else weight
    relation = str(step["relation"]).replace("_", " ")
    return f"{two} {relation} {one} (walked backward, {details})" if is_backward(step) else f"{relation} ({details})"


def is_backward(step: Mapping[str, Any]) -> bool:
    """Return whether this edge of a ``graph_context`` was followed from its target to its source."""
    return step.get("direction") == "backward"


def content_id(text: str, source: str) -> str:
    """Return an id for a text without one: a hash of text and source, so it is the same in every run."""
    content = f"{source}\x00{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which files and engines cannot store, by U+FFFD.

    >>> replace_surrogates("a\\ud800b")
    'a\ufffdb'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
