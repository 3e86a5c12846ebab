"""Edges, their relations, and filters for edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from langchain_hybridgraph.errors import ConfigurationError, quote_value, shorten
from langchain_hybridgraph.records.chunks import replace_surrogates
from langchain_hybridgraph.records.ids import check_name
from langchain_hybridgraph.records.serialization import Serializable
from langchain_hybridgraph.times import parse_end, parse_time

if TYPE_CHECKING:
    from langchain_hybridgraph.records.arrays import Time

# Prefixes of the ids of the nodes of entities and document titles.
ENTITY, TITLE = "entity:", "title:"
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

    Times may be passed in any form that :mod:`~langchain_hybridgraph.times` can parse; they are stored in Unix seconds,
    UTC. A ``valid_until`` that is a date without a time means the end of that day. Raises ValueError for a weight
    outside (0, 1], an edge from a chunk to itself, an invalid time, and a ``valid_until`` before ``valid_from``.

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


def checked_edges(edges: Iterable[Edge]) -> list[Edge]:
    """Check the edges, and return them as a list.

    Characters in descriptions that cannot be stored are replaced. Raises ValueError for an id or relation that cannot
    be stored, and for a description that is not a string. Raises ConfigurationError if ``edges`` is not an iterable of
    Edge.
    """
    return [_storable(edge) for edge in _checked_edges(edges)]


def _storable(edge: Edge) -> Edge:
    for name, value in (("source", edge.source), ("target", edge.target), ("relation", edge.relation)):
        check_name(value, f"an edge's {name}")
    if not isinstance(edge.description, str):
        raise ValueError(
            f"the description of the edge {quote_value(edge.source)} → {quote_value(edge.target)} ({edge.relation}) is "
            f'{quote_value(edge.description)}; it must be a string; pass description="" for none'
        )
    described = replace_surrogates(edge.description)
    return edge if described is edge.description else replace(edge, description=described)


def _checked_edges(edges: Iterable[Edge]) -> list[Edge]:
    if isinstance(edges, Edge) or not isinstance(edges, Iterable):
        raise ConfigurationError(f'edges must be a list of Edge, such as [Edge("a", "b", "cites")], got {edges!r:.80}')
    edge_list: list[Any] = list(edges)
    if others := [each for each in edge_list if not isinstance(each, Edge)]:
        raise ConfigurationError(f'an edge must be an Edge, such as Edge("a", "b", "cites"), got {others[0]!r:.80}')
    return edge_list


# Through its entities, a chunk reaches at most about FAN * hub_degree chunks in scope. Its rarest entity is always
# followed, even if that entity alone exceeds the limit.
FAN = 4


@dataclass(frozen=True, slots=True)
class EdgeFilter:
    """Conditions for the edges that a traversal may follow.

    - ``direction`` is ``"out"`` to follow edges from source to target, ``"in"`` from target to source, or ``"both"``.
    - ``relations`` are the allowed relations; None allows all.
    - ``min_weight`` is the lowest weight of an edge that may be followed.
    - ``hub_degree``: if a node has more edges than this, their weights are reduced to weight · hub_degree / degree.
      With None, all weights stay unchanged.

    Raises ValueError for an unknown direction, a ``min_weight`` outside [0, 1] or a ``hub_degree`` below 1.
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


def name_of(id: str) -> str:
    """Return the name of an entity or title, which is the part of its id after the colon.

    An id without a colon is returned unchanged.

    >>> name_of("entity:ada lovelace"), name_of("ada.md#0")
    ('ada lovelace', 'ada.md#0')
    """
    return id.partition(":")[2] or id
