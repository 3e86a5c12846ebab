"""Records of a search: edges, queries, candidates and hits."""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from numbers import Real
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from langchain_hybridgraph.chunks import Chunk, Serializable, is_valid, not_storable, replace_surrogates, validity_of
from langchain_hybridgraph.errors import CheckedSettings, ConfigurationError, TenantError, quote_value, setting, shorten
from langchain_hybridgraph.times import parse_end, parse_time

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Time, Vector
    from langchain_hybridgraph.filters.expressions import Filter


# Validation of ids, and derivation of ids from contents.


def check_name(value: Any, what: str) -> None:
    """Raise ValueError unless the value can be an id: a non-empty string of valid Unicode without NUL characters."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{what} must be a string with at least one character, got {reprlib.repr(value)}")
    if replace_surrogates(value) != value:
        raise ConfigurationError(
            f"{what} must be valid Unicode, got {reprlib.repr(value)} with half a surrogate pair; "
            'value.encode("utf-8", "replace").decode() replaces such characters'
        )
    if "\0" in value:
        raise ConfigurationError(f"{what} must not contain a NUL character, got {reprlib.repr(value)}; remove it")


def check_texts(name: str, what: str, value: object) -> tuple[str, ...]:
    """Check an argument that is a list of strings, and return it as a tuple.

    ``what`` describes the strings in the error message, for example "ids". Raises ConfigurationError for a single
    string and for anything else that is not a list of strings.

    >>> check_texts("seed_ids", "ids", ["a"])
    ('a',)
    """
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    texts = tuple(cast("Iterable[Any]", value)) if is_list else (value,)
    if is_list and all(isinstance(text, str) for text in texts):
        return cast("tuple[str, ...]", texts)
    example = quote_value([text if isinstance(text, str) else "…" for text in texts])
    raise ConfigurationError(
        f"{name} must be a list of {what} as strings, got {quote_value(value)}; write {name}={example}"
    )


def content_id(text: str, source: str) -> str:
    """Return an id for a text without an id: a hash of text and source, which is the same in every run."""
    content = f"{source}\x00{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def memory_id(text: str, metadata: Mapping[str, Any]) -> str:
    """Return an id for a memory without an id; the same text and metadata give the same id in every run.

    >>> memory_id("a", {"page": 1}) == memory_id("a", {"page": 2})
    False
    """
    try:
        serialized = json.dumps(metadata, default=str, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise not_storable(f"the text {reprlib.repr(text)}", str(error)) from error
    return digest(replace_surrogates(text), serialized).hex()


def digest(*parts: str) -> bytes:
    """Return a hash of the parts, 16 bytes long; another division of the same text gives a different hash."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        hashed.update(len(raw).to_bytes(8, "little"))
        hashed.update(raw)
    return hashed.digest()


# Edges, their relations, and filters for edges.

# Prefixes of the ids of the nodes of entities and document titles.
ENTITY, TITLE = "entity:", "title:"
SESSION = "session:"  # prefix of the ids of turns
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
class Edge(Serializable):
    """A directed edge between two chunks or between a chunk and an entity; source, target and relation identify it.

    Times may be in any form of :mod:`~langchain_hybridgraph.times`, and are stored in Unix seconds, UTC; a date without
    a time as ``valid_until`` means the end of that day. Raises ValueError for a weight outside (0, 1], an edge from a
    chunk to itself, an invalid time, and a ``valid_until`` before ``valid_from``.

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
        # These checks must be fast: a large ingest creates a million edges, nearly all with a float weight and no
        # times.
        weight: Any = self.weight
        if type(weight) is not float:
            is_number = isinstance(weight, Real) and not isinstance(weight, bool)
            object.__setattr__(self, "weight", float(weight) if is_number and 0 < weight <= 1 else math.nan)
        if not 0.0 < self.weight <= 1.0:
            raise ConfigurationError(
                f"{_label(self)} has weight {quote_value(weight)}; pass one above 0 and up to 1, such as weight=0.5"
            )
        if self.source == self.target:
            raise ConfigurationError(f"{_label(self)} points to itself; connect two different ids")
        if self.valid_from is not None or self.valid_until is not None:
            start, end = _seconds(self, "valid_from", parse_time), _seconds(self, "valid_until", parse_end)
            if start is not None and end is not None and end < start:
                raise ConfigurationError(
                    f"{_label(self)} has valid_until ({quote_value(self.valid_until)}) before valid_from "
                    f"({quote_value(self.valid_from)}): the edge would never be valid; swap the two times, or leave "
                    "one out"
                )
            object.__setattr__(self, "valid_from", start)
            object.__setattr__(self, "valid_until", end)

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


def _seconds(edge: Edge, name: str, parse: Callable[[Any], float]) -> float | None:
    value = getattr(edge, name)
    if value is None:
        return None
    try:
        return parse(value)
    except ValueError as error:
        raise ConfigurationError(f"{_label(edge)}, {name}: {error}") from error


def checked_edges(edges: Iterable[Edge]) -> list[Edge]:
    """Check the edges and return them as a list; description characters that cannot be stored are replaced.

    Raises ValueError for an id or relation that cannot be stored, and for a description that is not a string. Raises
    ConfigurationError if ``edges`` is not an iterable of Edge.
    """
    if not isinstance(edges, Iterable):
        raise ConfigurationError(f'edges must be a list of Edge, such as [Edge("a", "b", "cites")], got {edges!r:.80}')
    edge_list: list[Any] = list(edges)
    if others := [each for each in edge_list if not isinstance(each, Edge)]:
        raise ConfigurationError(f'an edge must be an Edge, such as Edge("a", "b", "cites"), got {others[0]!r:.80}')
    return list(map(_storable, edge_list))


def heaviest_edges(edges: Iterable[Edge]) -> dict[tuple[str, str, str], Edge]:
    """Return the heaviest edge for each source, target and relation; the first one if several are equally heavy."""
    heaviest: dict[tuple[str, str, str], Edge] = {}
    for edge in edges:
        key = edge.source, edge.target, edge.relation
        if edge.weight > heaviest.setdefault(key, edge).weight:
            heaviest[key] = edge
    return heaviest


def _storable(edge: Edge) -> Edge:
    for name, value in (("source", edge.source), ("target", edge.target), ("relation", edge.relation)):
        check_name(value, f"an edge's {name}")
    if not isinstance(edge.description, str):
        raise ConfigurationError(
            f'{_label(edge)} has description {quote_value(edge.description)}; pass a string, such as description=""'
        )
    described = replace_surrogates(edge.description)
    return edge if described is edge.description else replace(edge, description=described)


# Through its entities, a chunk reaches at most about FAN * hub_degree chunks in scope. Its rarest entity is always
# followed, even if that entity alone exceeds the limit.
FAN = 4


@dataclass(frozen=True, slots=True)
class EdgeFilter(CheckedSettings):
    """Conditions for the edges that a traversal may follow.

    - ``direction`` is ``"out"`` to follow edges from source to target, ``"in"`` from target to source, or ``"both"``.
    - ``relations`` are the allowed relations; None allows all.
    - ``min_weight`` is the lowest weight of an edge that may be followed.
    - ``hub_degree``: the weights of a node with more edges than this are reduced to weight · hub_degree / degree.

    Raises ConfigurationError for an unknown direction, a ``min_weight`` outside [0, 1] or a ``hub_degree`` below 1.
    """

    direction: Literal["out", "in", "both"] = "out"
    relations: frozenset[str] | None = None
    min_weight: float = setting(0.0, ge=0, le=1)
    hub_degree: int | None = setting(64, least=1)

    def __post_init__(self) -> None:
        if self.direction not in ("out", "in", "both"):
            raise ConfigurationError(f"direction must be 'out', 'in' or 'both', got {quote_value(self.direction)}")
        CheckedSettings.__post_init__(self)


def name_of(id: str) -> str:
    """Return the name of an entity or title: the part of its id after the colon, or an id without a colon unchanged.

    >>> name_of("entity:ada lovelace"), name_of("ada.md#0")
    ('ada lovelace', 'ada.md#0')
    """
    return id.partition(":")[2] or id


# State of a chunk as a memory.


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Facts about a chunk, such as its confidence and validity, from its metadata or learned later.

    Times are in Unix seconds, UTC. None means unset, which differs from 0.

    - ``confidence`` and ``utility`` are in [0, 1].
    - ``used_at`` is the time at which the chunk was last useful.
    - ``updated_at`` is the time of the chunk's last change according to its metadata.
    - ``learned_at`` is the time at which the store received the chunk.
    - ``provenance_depth`` is the number of derivations between the chunk and an original observation or statement.
    - ``end_learned`` is True if ``valid_until`` was set later, when another chunk superseded this one.
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


Annotate = Literal["all", "score", "none"]
"""Amount of detail in a Document's metadata about how the Document was found."""


# Queries and their scopes.


class TimeRange(Enum):
    """Special values of ``as_of`` that are not a point in time."""

    ALL = "all"


ALL_TIME = TimeRange.ALL
"""Value of ``as_of`` with which chunks and edges are included whether or not they are valid now."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Conditions that every hit of a call must meet, no matter which source found it.

    Times are in Unix seconds, UTC. ``as_of`` None turns the validity check off. With ``known_at``, chunks that were
    stored later are left out, and validity is evaluated as it was known at that time.
    """

    filter: Filter | None = None
    tenant: str | None = None
    as_of: float | None = None
    known_at: float | None = None

    def narrowed(self, filter: Filter) -> Scope:
        """Return this scope, limited by another filter."""
        return replace(self, filter=filter if self.filter is None else self.filter & filter)

    def check_tenant(self, tenant: str | None) -> None:
        """Raise TenantError if the call requests another tenant than the one for which a store is open."""
        if self.tenant is not None and self.tenant != tenant:
            advice = "leave tenant= out" if tenant is None else "open a store for that tenant"
            raise TenantError(
                f"the store is open for tenant {tenant!r}, but the call requests tenant {self.tenant!r}: {advice}"
            )


@dataclass(frozen=True, slots=True)
class Query:
    """One search: its text (None: no keyword search), its vector (None: that of the text), k and scope.

    ``weight`` is the priority of this query among several planned queries. ``by_row`` allows stores to return row
    numbers (``SourceResult.rows``) instead of ids.
    """

    text: str | None
    k: int
    scope: Scope = field(default_factory=Scope)
    vector: Vector | None = None
    weight: float = 1.0
    by_row: bool = False


def query_error(value: object) -> ConfigurationError:
    """Return the error for a query that is not a string. For a mapping, the message shows how to pass its text."""
    advice = "write None only together with vector=" if value is None else "write retriever.invoke(text)"
    if isinstance(value, Mapping):
        keys = [key for key in ("query", "input", "question", *value) if isinstance(value.get(key), str)]
        key = next(iter(keys), "query")
        advice = f'write retriever.invoke(input["{key}"]), or in a chain itemgetter("{key}") | retriever'
        if {"chat_history", "history", "messages"} & value.keys():
            advice += "; to search with the history, write AdvancedRetriever(retriever).invoke(input)"
    return ConfigurationError(f"query must be a string, got {quote_value(value)}; {advice}")


def in_scope(chunk: Chunk, scope: Scope, *, filtered: bool = True) -> bool:
    """Return whether a chunk is in the scope, judged by its metadata.

    A scope's tenant must equal the metadata's ``tenant``. If ``filtered`` is False, the scope's filter is not
    evaluated. ``known_at`` is never evaluated.
    """
    if scope.tenant is not None and chunk.metadata.get("tenant") != scope.tenant:
        return False
    if scope.as_of is not None and not is_valid(*validity_of(chunk.metadata), scope.as_of):
        return False
    return not filtered or passes_filter(chunk, scope)


def passes_filter(chunk: Chunk, scope: Scope) -> bool:
    """Return whether a chunk passes the filter of a scope."""
    return scope.filter is None or scope.filter.matches(filterable(chunk))


def filterable(chunk: Chunk) -> dict[str, Any]:
    """Return the metadata that filters are evaluated on, which always includes the id of the document."""
    return {"document_id": chunk.document, **chunk.metadata}


def coverage_of(embedding: Any, query: Query) -> float | None:
    """Return ``LSAModel.coverage``, the share of the question that is in the vocabulary; None for other embeddings."""
    coverage = getattr(embedding, "coverage", None)
    return float(coverage(query.text)) if callable(coverage) and query.text else None


# Results of sources, and candidates after fusion.


def best_first(scores: Iterable[tuple[str, float]], n: int | None = None) -> dict[str, float]:
    """Return the ``n`` best of these ids and scores (all by default), best first, ties by id.

    If an id occurs twice, its best score counts.

    >>> best_first([("b", 0.5), ("c", 0.9), ("a", 0.5), ("c", 0.1)])
    {'c': 0.9, 'a': 0.5, 'b': 0.5}
    """
    pairs = sorted(scores, key=itemgetter(0))
    pairs.sort(key=itemgetter(1), reverse=True)  # a stable sort
    best: dict[str, float] = {}
    for id, score in pairs[:n]:
        best.setdefault(id, score)
    return best


# Number of the best keyword hits whose texts are scored without their headings.
BEST_HITS = 10


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The words of a question, including words that no text contains.

    ``count`` is the number of distinct words. ``bound`` is the highest BM25 score that a text with all of the words
    could reach, and ``best`` that of the texts that were found, not counting headings. ``texts`` is the number of texts
    in the index, or None if unknown.
    """

    count: int
    bound: float
    best: float = 0.0
    texts: int | None = None


class RowResult(NamedTuple):
    """Chunks that a search found, by row number: looking up hundreds of ids would take longer than the search.

    - ``numbers`` are distinct and best first, and ``scores`` has an entry for each of them.
    - ``ids_of`` returns the ids of row numbers. Results with the same function use the same table of rows.
    - ``score`` returns the scores of the given rows, NaN for unknown ones. It is set for a query with ``by_row``.
    - ``exact`` is that of :class:`Ranking`, by row number.
    """

    numbers: NDArray[np.int64]
    scores: NDArray[np.floating[Any]]
    ids_of: Callable[[Sequence[int] | NDArray[np.int64]], list[str]]
    score: Callable[[NDArray[np.int64]], NDArray[np.floating[Any]]] | None = None
    exact: Mapping[int, float] = MappingProxyType({})


class SourceResult(NamedTuple):
    """The result of one search of a store.

    - ``ids`` are best first, ties by id. If an id occurs twice, its first place counts.
    - ``scores`` maps the ids to the source's own scores, such as cosines or BM25; higher is better.
    - ``chunks`` maps them to their chunks, if the source's chunks cannot be read by id; otherwise, it is empty.
    - ``vector`` is the query vector of a vector search, and ``words`` describes the query of a keyword search.
    - ``bound``, ``background`` and ``exact`` have the same meaning as in :class:`Ranking`.
    - ``reason`` is a degradation reason if the search was limited, or None. ``remark`` adds detail.
    - ``are_cosines`` is False if only the order of a vector search's scores is meaningful.
    - ``coverage`` is that of :func:`coverage_of`.
    - ``is_complete`` is True if the search would give no other chunk in its scope a score above 0.
    - ``rows`` replaces ``ids``, ``scores`` and ``exact``, which are then empty; see :meth:`with_ids`.
    """

    ids: Sequence[str]
    scores: Mapping[str, float] = MappingProxyType({})
    chunks: Mapping[str, Chunk] = MappingProxyType({})
    vector: Vector | None = None
    bound: float | None = None
    background: tuple[float, float] | None = None
    reason: str | None = None
    remark: str | None = None
    are_cosines: bool = True
    exact: Mapping[str, float] = MappingProxyType({})
    words: QuestionWords | None = None
    coverage: float | None = None
    is_complete: bool = False
    rows: RowResult | None = None

    def with_ids(self) -> SourceResult:
        """Return the result without ``rows``, with the ids of all rows."""
        rows = self.rows
        if rows is None:
            return self
        ids = rows.ids_of([*rows.numbers.tolist(), *rows.exact])
        best = best_first(zip(ids, rows.scores.tolist(), strict=False))
        exact = dict(zip(ids[len(rows.numbers) :], rows.exact.values(), strict=True))
        return self._replace(ids=list(best), scores=best, exact=exact, rows=None)

    @classmethod
    def of(cls, scores: Mapping[str, float], **facts: Any) -> SourceResult:
        """Return the result of a search that gave these scores, best first, each to another chunk."""
        return cls(list(scores), scores, **facts)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked list of one source.

    - ``ids`` are best first, ties by id. If an id occurs twice, its first place counts.
    - ``scores`` maps ids to all known scores of this source: those of ``ids``, and possibly of candidates that only
      other sources found.
    - ``bound`` is the largest score that the source could give for this query (1 for a cosine), or None if unknown.
    - ``background`` is the mean and the standard deviation of the source's score for this query over arbitrary chunks
      in scope, or None if unknown.
    - ``exact`` maps ids of chunks to the probability in (0, 1) that the query refers to this chunk, because the chunk
      contains an identifier or a rare word of the query. These chunks need not be in ``ids``.
    """

    source: str
    weight: float
    ids: Sequence[str]
    scores: Mapping[str, float]
    bound: float | None = None
    background: tuple[float, float] | None = None
    exact: Mapping[str, float] = field(default_factory=dict)


class FusedCandidate(NamedTuple):
    """A candidate after fusion, with its score in [0, 1] and each source's part; the parts sum to the score."""

    id: str
    score: float
    parts: Mapping[str, float]


# One-line explanations of hits.


def explain_route(id: str, path: Sequence[str], hops: int, graph_context: Sequence[Mapping[str, Any]]) -> str:
    """Return a description of the path to a hit: its seed, the chunks in between, and the edges that are known."""
    seed, *between, end = path if len(path) > 1 else (id, id)
    via = f" via {', '.join(between if len(between) < 4 else [between[0], '…', between[-1]])}" if between else ""
    edges = {step["from_chunk_id"]: step for step in graph_context}
    steps = ", then ".join(_step(edges[one], one, two) for one, two in pairwise(path) if one in edges)
    distance = "1 hop" if hops == 1 else f"{hops} hops"
    return f"{distance} from {seed}{via} to {end}" + (f": {steps}" if steps else "")


def is_backward(step: Mapping[str, Any]) -> bool:
    """Return whether an edge of a ``graph_context`` was followed from its target to its source."""
    return step.get("direction") == "backward"


def _step(step: Mapping[str, Any], one: str, two: str) -> str:
    """Return a description of the edge between two chunks, which names both if the edge was followed backward."""
    weight, description = f"weight {step['weight']:.2f}", str(step["description"])
    if entity := str(step.get("entity", "")):
        return f"both mention {name_of(entity)} ({weight})"
    details = f"{weight}, “{description}”" if description else weight
    relation = str(step["relation"]).replace("_", " ")
    return f"{two} {relation} {one} (followed backward, {details})" if is_backward(step) else f"{relation} ({details})"


# Search hits.


@dataclass(frozen=True, slots=True)
class Hit(Serializable):
    """A chunk with its score and the parts of that score; hits are passed from stage to stage.

    - ``parts`` sum to ``score``, and ``found_by`` lists the sources that found the chunk.
    - ``path`` contains the chunk ids from the seed to this chunk, or only its own if no edge led to it.
    - ``graph_context`` describes the last edges of the path as they are stored, last edge first. The ``direction`` of
      an edge is ``"backward"`` if it was followed from its target to its source.
    - ``child`` is the chunk that matched, if the hit contains its parent instead.
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

    def scaled(self, factor: float) -> Hit:
        """Return the hit with its score and the parts of its score multiplied by a factor; the score is at most 1."""
        parts = {name: factor * part for name, part in self.parts.items()}
        return replace(self, score=min(1.0, factor * self.score), parts=parts)

    def explain(self) -> str:
        """Return one line that explains the rank of this hit and the last edges through which it was found.

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
        '1 hop from a to b: b cites a (followed backward, weight 0.80, “B builds on A.”)'
        """
        total = " + ".join(f"{name} {value:.3f}" for name, value in self.parts.items())
        reasons = [f"score {self.score:.3f} = {total}" if total else f"score {self.score:.3f}"]
        *before, last = self.found_by or (self.source,)
        reasons.append(f"found by {', '.join(before)} and {last}" if before else f"found by {last}")
        for template, score in _SCORES.items():
            if (value := getattr(self, score)) is not None:
                reasons.append(template.format(value))
        if self.hops:
            reasons.append(explain_route(self.id, self.path, self.hops, self.graph_context))
        elif self.parts.get("graph"):
            reasons.append("the question names its title")
        if self.child is not None:
            reasons.append(f"parent of {self.child.id}")
        return " · ".join(reasons)


_SCORES = {"cosine {:.3f}": "vector_score", "BM25 {:.2f}": "bm25_score", "reranked {:.3f}": "rerank_score"}


# Record of whether a question has an answer.

# A question with at least this value is considered answerable.
ANSWERABLE = 0.5


@dataclass(frozen=True, slots=True)
class Answerability(Serializable):
    """Probability that the texts answer a question, with the reasons.

    - ``value`` is this probability. A question is considered answerable if it is at least ``ANSWERABLE``.
    - ``similarity`` is the highest cosine, rescaled so that 0 is the mean cosine with arbitrary texts (with the other
      texts, if there are fewer than 50) and 1 is the largest possible cosine. It is None if unknown.
    - ``matched`` is the highest BM25 score of a text, not counting headings, divided by the highest score that a text
      with all words of the question, even unknown ones, could have. It is None if unknown.
    - ``exact`` is the probability that at least one identifier of the question refers to a text that contains it.
    - ``words`` is the number of different words in the question.
    - ``unit`` is the factor by which ranking scores are multiplied to get the scores in the result.
    - ``coverage`` is the share of the question that LSA knows, or None for a pretrained embedding.
    - ``spread`` is the standard deviation of the cosines with arbitrary texts, rescaled like ``similarity``, or None if
      unknown. It is large if the question is about the subject of many texts.
    - ``is_undecided`` is True if there are too few texts to tell; ``value`` is then ``ANSWERABLE``.

    >>> Answerability(0.92, 0.6, 0.5).explain()
    'probably answerable (0.92): similarity 0.60 · words matched 0.50'
    """

    value: float
    similarity: float | None = None
    matched: float | None = None
    exact: float = 0.0
    words: int = 0
    unit: float = 1.0
    coverage: float | None = None
    spread: float | None = None
    is_undecided: bool = False

    @property
    def is_answerable(self) -> bool | None:
        """Whether ``value`` is at least ``ANSWERABLE``, or None if there are too few texts to tell."""
        return None if self.is_undecided else self.value >= ANSWERABLE

    def explain(self) -> str:
        """Return one line with the probability that the question has an answer, and the reasons."""
        reasons = {"similarity": self.similarity, "words matched": self.matched, "exact match": self.exact or None}
        summary = " · ".join(f"{name} {reason:.2f}" for name, reason in reasons.items() if reason is not None)
        if self.is_undecided:
            return f"too few texts to tell whether the question is answerable: {summary}"
        return f"probably {'answerable' if self.is_answerable else 'not answerable'} ({self.value:.2f}): {summary}"


class FileRecord(NamedTuple):
    """State of a file when an ingest read it.

    ``stamp`` is its size, times and inode, or "" if these may miss a change. ``digest`` is that of its bytes (b"": only
    ``documents`` and ``path`` are stored), ``made_by`` that of everything else the chunks and edges depend on. ``path``
    is absolute, in the file system's encoding, or b"".
    """

    source: str
    stamp: str
    digest: bytes
    made_by: bytes
    chunks: int
    parents: int
    documents: tuple[str, ...]
    path: bytes = b""
