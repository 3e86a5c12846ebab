"""The records that pass between the parts.

All are frozen: a stage that changes something makes a new record. Identity is an id, never a text.
Nothing here knows LangChain, an engine or a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, overload

from langchain_hybridgraph.degradation import warnings_in
from langchain_hybridgraph.errors import brief, shortened
from langchain_hybridgraph.serialization import Serializable, to_json
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
    """A piece of text that is indexed, or a parent that children point to.

    ``metadata`` is the user's JSON, untouched. ``document_id`` and ``parent_id`` are read from it when they
    are not given: the document is ``metadata["document_id"]``, else ``metadata["source"]``, else the id.

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
        """The id of the document that the chunk belongs to."""
        if self.document_id is not None:
            return self.document_id
        named = self.metadata.get("document_id")
        if named is None:
            named = self.metadata.get("source")
        return self.id if named is None else str(named)

    @property
    def parent(self) -> str | None:
        """The id of the parent, None for a chunk without one."""
        if self.parent_id is not None:
            return self.parent_id
        named = self.metadata.get("parent_id")
        return None if named is None else str(named)


@dataclass(frozen=True, slots=True)
class Edge(Serializable):
    """A directed edge between two chunks (or a chunk and an entity); unique on source, target and relation.

    The times are given in any form that :mod:`~langchain_hybridgraph.times` reads, and kept as unix seconds, UTC; a
    ``valid_until`` that is a date without a time is the end of that day. Raises ValueError for a weight outside
    (0, 1], an edge to itself, what is no time, and an end before its begin.

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
        # An ingest makes a million of these, nearly all with a float and without times.
        if type(self.weight) is not float:
            object.__setattr__(self, "weight", _weight(self))
        if not 0.0 < self.weight <= 1.0:
            raise ValueError(_no_weight(self))
        if self.source == self.target:
            raise ValueError(f"{_named(self)} points to itself")
        if self.valid_from is not None or self.valid_until is not None:
            for name, seconds in zip(("valid_from", "valid_until"), _period(self), strict=True):
                object.__setattr__(self, name, seconds)

    if TYPE_CHECKING:
        # What may be given for a time is more than what is kept of it.
        def __init__(  # noqa: PLR0917 - the fields, in their order
            self,
            source: str,
            target: str,
            relation: str,
            weight: float = 1.0,
            description: str = "",
            valid_from: Time | None = None,
            valid_until: Time | None = None,
        ) -> None: ...


def _named(edge: Edge) -> str:
    return f"edge {brief(edge.source)} → {brief(edge.target)} ({shortened(edge.relation, 100)})"


def _weight(edge: Edge) -> float:
    """The weight of an edge, an int's or numpy's as a float."""
    if isinstance(edge.weight, bool) or not isinstance(edge.weight, Real):
        raise ValueError(_no_weight(edge))
    return float(edge.weight)


def _no_weight(edge: Edge) -> str:
    return f"{_named(edge)} has weight {brief(edge.weight)}; pass a weight above 0 and up to 1, such as weight=0.5"


def _period(edge: Edge) -> tuple[float | None, float | None]:
    """From when until when an edge is valid, in unix seconds."""
    begin, end = _seconds(edge, "valid_from", parse_time), _seconds(edge, "valid_until", parse_end)
    if begin is not None and end is not None and end < begin:
        raise ValueError(
            f"{_named(edge)} has valid_until ({brief(edge.valid_until)}) before valid_from ({brief(edge.valid_from)}): "
            "so it would never be valid, and never be walked"
        )
    return begin, end


def _seconds(edge: Edge, name: str, read: Callable[[Any], float]) -> float | None:
    value = getattr(edge, name)
    if value is None:
        return None
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{_named(edge)}, {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Ways:
    """Which edges a walk may take.

    ``direction`` is seen from the edge: ``"out"`` walks from source to target, ``"in"`` back, ``"both"`` either way.
    ``relations`` None allows all. Edges lighter than ``min_weight`` do not exist. A node with more than ``hub_degree``
    edges passes on less, in proportion: its edges count weight · hub_degree / degree; None lets it pass on all.

    Raises ValueError for an unknown direction, a weight outside [0, 1] or a degree below 1.
    """

    direction: Literal["out", "in", "both"] = "out"
    relations: frozenset[str] | None = None
    min_weight: float = 0.0
    hub_degree: int | None = 64

    def __post_init__(self) -> None:
        if self.direction not in ("out", "in", "both"):
            raise ValueError(f"direction is {brief(self.direction)}; wanted 'out', 'in' or 'both'")
        if not 0.0 <= self.min_weight <= 1.0:
            raise ValueError(f"min_weight is {brief(self.min_weight)}; wanted a number from 0 to 1")
        if self.hub_degree is not None and self.hub_degree < 1:
            raise ValueError(f"hub_degree is {brief(self.hub_degree)}; wanted a whole number from 1, or None")


class Times(Enum):
    """Times that are no moment."""

    ALL = "all"


ALL_TIME = Times.ALL
"""As ``as_of``: chunks and edges of all times, valid now or not."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a call may see: every hit, whatever path found it, satisfies all three.

    ``as_of`` is unix seconds UTC; None switches the check of validity off. ``known_at`` is unix seconds UTC, too: what
    was taken in later is not there, and validity is what was known of it then; None is what is known now.
    """

    filter: Filter | None = None
    tenant: str | None = None
    as_of: float | None = None
    known_at: float | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """What a store knows of a chunk beside its text: given in its metadata, or learned since.

    Times are unix seconds UTC. None is unset, which is not 0. ``confidence`` and ``utility`` lie in [0, 1].
    ``used_at`` is when it was last of use, ``updated_at`` when its metadata say that it was changed, ``learned_at``
    when the store took it in, ``provenance_depth`` how many derivations lie between it and what was seen or said.
    ``end_learned`` says that ``valid_until`` was not given with it but learned later, when something superseded it.
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
    """One search: the text or its vector (or both), and what may come back.

    ``text`` None means that only the vector speaks; ``vector`` None means that the text is embedded.
    ``weight`` is the priority among several planned queries.
    """

    text: str | None
    k: int
    scope: Scope = field(default_factory=Scope)
    vector: Vector | None = None
    weight: float = 1.0


class Scored(NamedTuple):
    """A chunk's id with a source's own score (cosine, BM25), higher is better.

    ``chunk`` is set by sources that cannot be asked for it again by id: in all of its entries, or in none.
    """

    id: str
    score: float
    chunk: Chunk | None = None


class Found(NamedTuple):
    """What a store answers to one search.

    ``entries`` are best first, ties by id. ``vector`` is what was searched for on the vector side. ``bound`` and
    ``background`` are those of :class:`Ranking`. ``reason`` says what kept the search from its full strength (a word
    of ``degraded``), None when nothing did; ``remark`` says more about it. ``rest`` is the largest score that anything
    not listed can have, None when that is not known. ``are_cosines`` says of a vector search whether its scores are
    cosines; else only their order means something. ``exact`` is that of :class:`Ranking`.
    """

    entries: Sequence[Scored]
    vector: Vector | None = None
    bound: float | None = None
    background: tuple[float, float] | None = None
    reason: str | None = None
    rest: float | None = None
    remark: str | None = None
    are_cosines: bool = True
    exact: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one source answered.

    ``entries`` are best first, ties by id. ``scores`` holds the source's own score for every candidate of ALL
    sources where it is known, so it may hold more ids than ``entries``; it never holds fewer. ``bound`` is the
    largest score that the source could give to this query (1 for a cosine), None when it is not known.
    ``background`` is the mean and the standard deviation of the source's score for this query over arbitrary chunks
    of its scope, None when they are not known. ``rest`` is the largest score that a candidate without one can have,
    None when that is not known. ``exact`` says of some chunks, listed or not, how likely the query means them, in
    (0, 1), because they have an identifier or a rare word of it.
    """

    source: str
    weight: float
    entries: Sequence[Scored]
    scores: Mapping[str, float]
    bound: float | None = None
    background: tuple[float, float] | None = None
    rest: float | None = None
    exact: Mapping[str, float] = field(default_factory=dict)


class Fused(NamedTuple):
    """One candidate after fusion: score in [0, 1] and each source's part of it (the parts sum to the score)."""

    id: str
    score: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Hit(Serializable):
    """A chunk with its score and the reasons for it; the one record that goes through all stages.

    ``parts`` sum to ``score``; ``found_by`` names the sources that brought the chunk. ``path`` lists chunk ids from
    the seed to this chunk, length 1 for a seed. ``graph_context`` describes the last edges of it as they are stored,
    the very last first, with ``direction`` ``"backward"`` where the walk went from an edge's target to its source.
    ``child`` is the chunk that was found when a parent stands in its place.
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
        """The chunk's id."""
        return self.chunk.id

    def explain(self) -> str:
        """Say in one line why this hit ranks where it ranks, and by which edges a walk came to it.

        Of a long path only the last edges are known (``graph_context``); those before are left out.

        >>> parts, both = {"vector": 0.6, "keyword": 0.3}, ("vector", "keyword")
        >>> Hit(Chunk("a", "t"), 0.9, "fused", parts, vector_score=0.8, found_by=both).explain()
        'score 0.900 = vector 0.600 + keyword 0.300 · found by vector and keyword · cosine 0.800'
        >>> cites = {"from_chunk_id": "a", "relation": "cites", "weight": 0.8, "description": "B builds on A."}
        >>> parts, path = {"vector": 0.2, "graph": 0.3}, ("a", "b")
        >>> led = Hit(Chunk("b", "t"), 0.5, "graph", parts, hops=1, path=path, graph_context=(cites,))
        >>> for reason in led.explain().split(" · "):
        ...     print(reason)
        score 0.500 = vector 0.200 + graph 0.300
        found by graph
        1 hop from a to b: cites (weight 0.80, “B builds on A.”)
        >>> from dataclasses import replace
        >>> replace(led, graph_context=({**cites, "direction": "backward"},)).explain().split(" · ")[-1]
        '1 hop from a to b: b cites a (walked backward, weight 0.80, “B builds on A.”)'
        """
        parts = " + ".join(f"{name} {value:.3f}" for name, value in self.parts.items())
        found = _listed(self.found_by) or self.source
        said = [f"score {self.score:.3f} = {parts}" if parts else f"score {self.score:.3f}", f"found by {found}"]
        if self.vector_score is not None:
            said.append(f"cosine {self.vector_score:.3f}")
        if self.bm25_score is not None:
            said.append(f"BM25 {self.bm25_score:.2f}")
        if self.rerank_score is not None:
            said.append(f"reranked {self.rerank_score:.3f}")
        if self.hops:
            said[1:1] = _shares(self.parts)
            said.append(_led(self))
        elif self.parts.get("graph"):
            said.append("the question names its title")
        if self.child is not None:
            said.append(f"parent of {self.child.id}")
        return " · ".join(said)


def _listed(names: Sequence[str]) -> str:
    *before, last = names or ("",)
    return f"{', '.join(before)} and {last}" if before else last


def _shares(parts: Mapping[str, float]) -> list[str]:
    """How much of a score came from searching and how much from walking, where the parts do not say it themselves.

    What a reranker changed is neither. Where a memory is scored, both have one part together.
    """
    found = [part for name, part in parts.items() if name not in ("graph", "rerank")]
    if "graph" not in parts or len(found) < 2:
        return []
    return [f"{sum(found):.3f} from search, {parts['graph']:.3f} from the graph"]


def _led(hit: Hit) -> str:
    """How a walk came to a hit: its seed, what lies between, and the steps that are known."""
    seed, *between, end = hit.path if len(hit.path) > 1 else (hit.id, hit.id)
    via = f" via {', '.join(between if len(between) < 4 else [between[0], '…', between[-1]])}" if between else ""
    known = {step["from_chunk_id"]: step for step in hit.graph_context}
    steps = ", then ".join(_step(known[one], one, two) for one, two in pairwise(hit.path) if one in known)
    hops = "1 hop" if hit.hops == 1 else f"{hit.hops} hops"
    return f"{hops} from {seed}{via} to {end}" + (f": {steps}" if steps else "")


def _step(step: Mapping[str, Any], one: str, two: str) -> str:
    """An edge that a walk took from one chunk to another, in words; one that points back is named with both ends."""
    weight, description = f"weight {step['weight']:.2f}", str(step["description"])
    if entity := str(step.get("entity", "")):
        return f"both mention {entity.partition(':')[2] or entity} ({weight})"
    said = f"{weight}, “{description}”" if description else weight
    relation = str(step["relation"]).replace("_", " ")
    return f"{two} {relation} {one} (walked backward, {said})" if is_backward(step) else f"{relation} ({said})"


def is_backward(step: Mapping[str, Any]) -> bool:
    """Whether the walk took this edge of a ``graph_context`` from its target to its source."""
    return step.get("direction") == "backward"


SHOWN = 80  # characters of a text in a line
D_co = TypeVar("D_co", covariant=True)


class RetrievalResult(Sequence[D_co], Generic[D_co]):
    """The answer to one call: a sequence of documents that also says how it came about.

    ``degraded`` lists the reasons (:mod:`langchain_hybridgraph.degradation`) of both levels, ``warnings`` only those
    that mean that something requested did not happen. ``took_ms`` is wall time; ``plan`` describes the queries that
    were run and the stages' times.
    """

    __slots__ = ("_documents", "degraded", "hits", "plan", "took_ms")

    def __init__(
        self,
        documents: Sequence[D_co],
        *,
        hits: Sequence[Hit] = (),
        degraded: Sequence[str] = (),
        took_ms: float = 0.0,
        plan: Mapping[str, Any] | None = None,
    ) -> None:
        self._documents = list(documents)
        self.hits = tuple(hits)
        self.degraded = tuple(degraded)
        self.took_ms = took_ms
        self.plan = dict(plan or {})

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons in ``degraded`` that mean that something requested did not happen."""
        return warnings_in(self.degraded)

    @overload
    def __getitem__(self, index: int) -> D_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[D_co]: ...
    def __getitem__(self, index: int | slice) -> D_co | list[D_co]:
        return self._documents[index]

    def __len__(self) -> int:
        return len(self._documents)

    def __iter__(self) -> Iterator[D_co]:
        return iter(self._documents)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str):
            return self._documents == list(other)
        return NotImplemented

    def __add__(self, other: object) -> list[D_co]:
        """Return a list of both: an answer joined to other documents is not the answer to one call any more."""
        if isinstance(other, Sequence) and not isinstance(other, str):
            return [*self, *other]
        return NotImplemented

    def __radd__(self, other: object) -> list[D_co]:
        if isinstance(other, Sequence) and not isinstance(other, str):
            return [*other, *self]
        return NotImplemented

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON has it; :func:`~langchain_hybridgraph.serialization.to_json` says how.

        >>> hit = Hit(Chunk("a", "text"), 0.5, "vector", {"vector": 0.5})
        >>> list(RetrievalResult([], hits=[hit]).to_dict())
        ['documents', 'hits', 'degraded', 'took_ms', 'plan']
        """
        return {
            "documents": to_json(self._documents),
            "hits": [hit.to_dict() for hit in self.hits],
            "degraded": list(self.degraded),
            "took_ms": self.took_ms,
            "plan": to_json(self.plan),
        }

    @classmethod
    def from_dict(cls: type[RetrievalResult[Any]], data: Mapping[str, Any]) -> RetrievalResult[Any]:
        """Return the result that :meth:`to_dict` gave, of LangChain Documents.

        Times and other values of metadata that JSON does not have stay as they were written. Raises ValueError for
        anything else.
        """
        # Late: only who reads a result from JSON needs LangChain here.
        from langchain_hybridgraph.retrievers.documents import documents_from

        try:
            return cls(
                documents_from(data["documents"]),
                hits=[Hit.from_dict(hit) for hit in data["hits"]],
                degraded=data["degraded"],
                took_ms=float(data["took_ms"]),
                plan=data["plan"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"this is not a RetrievalResult ({error}): pass what RetrievalResult.to_dict() returned"
            ) from error

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash either

    def __repr__(self) -> str:
        degraded = f", degraded={list(self.degraded)}" if self.degraded else ""
        return f"RetrievalResult({len(self)} documents in {self.took_ms:.1f} ms{degraded})"

    def __str__(self) -> str:
        """A line each: place, score, id (the source, where the id is made of the text), first words; then degraded."""
        if not self.hits:
            return repr(self)
        lines = [f"{place:>2}. {_line(hit)}" for place, hit in enumerate(self.hits, 1)]
        return "\n".join([*lines, *([f"degraded: {', '.join(self.degraded)}"] if self.degraded else [])])

    def _repr_html_(self) -> str:
        # Late: only a notebook asks for this.
        from langchain_hybridgraph.display.table import Table

        return Table(self)._repr_html_()


def _line(hit: Hit) -> str:
    source = str(hit.chunk.metadata.get("source", ""))
    named = source if source and hit.id == content_id(hit.chunk.text, source) else hit.id
    words = " ".join(hit.chunk.text.split())
    return f"{hit.score:.3f}  {named}  {words if len(words) <= SHOWN else words[: SHOWN - 1] + '…'}"


def content_id(text: str, source: str) -> str:
    """The id of a text that has none: the same text from the same source gets the same one in every run."""
    content = f"{source}\x00{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def cleaned(text: str) -> str:
    """The text with lone surrogates, which no file and no engine can hold, replaced by U+FFFD.

    >>> cleaned("a\\ud800b")
    'a\ufffdb'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
