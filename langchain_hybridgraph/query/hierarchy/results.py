"""Records for the results of a hierarchical search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_hybridgraph.degradation import degradation, warnings_in
from langchain_hybridgraph.display.html_table import fields_table
from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.query.planning import MEMORY, RESOURCE, SKILL, QueryPlan, TypedQuery
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.records.serialization import Serializable

_STANDARD_TYPES = (MEMORY, RESOURCE, SKILL)


@dataclass(frozen=True, slots=True)
class Relation(Serializable):
    """Edge from a hit to another node. ``uri`` is the uri of the other node."""

    uri: str
    relation: str
    weight: float
    description: str = ""


@dataclass(frozen=True, slots=True)
class FoundContext(Serializable):
    """Directory or document found by a search.

    ``abstract`` has up to 256 characters; the overview and the full text are read on demand
    (:meth:`HierarchicalRetriever.overview`, :meth:`HierarchicalRetriever.read`). ``hit`` contains the best chunk of a
    document or the overview of a directory, and shows how the score was computed.
    """

    uri: str
    context_type: str
    is_leaf: bool
    abstract: str
    score: float
    relations: tuple[Relation, ...] = ()
    hit: Hit | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class QueryResult(Serializable):
    """Results of one query of a plan.

    ``roots`` are the uris of the nodes below which the query was run. ``scored`` is the number of nodes that were
    scored, ``nodes`` the number of all nodes in the tree, and ``opened`` the number of directories that were opened.
    """

    query: TypedQuery
    roots: tuple[str, ...]
    hits: tuple[FoundContext, ...]
    scored: int
    nodes: int
    opened: int

    def plan(self) -> dict[str, Any]:
        """Return the query and all other fields except the hits, as a dictionary of plain values."""
        return {
            "query": self.query.query,
            "context_type": self.query.context_type,
            "priority": self.query.priority,
            "roots": list(self.roots),
            "scored": self.scored,
            "nodes": self.nodes,
            "opened": self.opened,
        }


@dataclass(frozen=True, slots=True)
class FindResult(Serializable, Iterable[FoundContext]):
    """Results of a hierarchical search, best first; iteration yields the contexts.

    ``memories``, ``resources`` and ``skills`` are the contexts of these types, and ``by_type`` contains those of all
    other types. ``query_plan`` contains the queries that were run (only one if there is no session) and the planner's
    ``reasoning``; ``query_results`` contains the results of each query. ``degraded`` and ``warnings`` have the same
    meaning as in a RetrievalResult, and ``remarks`` explains some of these reasons, as ``plan["remarks"]`` does.
    """

    contexts: tuple[FoundContext, ...]
    query_plan: QueryPlan
    query_results: tuple[QueryResult, ...]
    degraded: tuple[str, ...] = ()
    took_ms: float = 0.0
    remarks: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons in ``degraded`` with the level "warning", which mean that part of the request was not carried out."""
        return warnings_in(self.degraded)

    @property
    def memories(self) -> tuple[FoundContext, ...]:
        """Results of type memory."""
        return self._of(MEMORY)

    @property
    def resources(self) -> tuple[FoundContext, ...]:
        """Results of type resource."""
        return self._of(RESOURCE)

    @property
    def skills(self) -> tuple[FoundContext, ...]:
        """Results of type skill."""
        return self._of(SKILL)

    @property
    def by_type(self) -> dict[str, tuple[FoundContext, ...]]:
        """Results of types other than memory, resource and skill, by type."""
        others = dict.fromkeys(each.context_type for each in self.contexts if each.context_type not in _STANDARD_TYPES)
        return {name: self._of(name) for name in others}

    @property
    def total(self) -> int:
        """Number of results."""
        return len(self.contexts)

    def __len__(self) -> int:
        return len(self.contexts)

    def __iter__(self) -> Iterator[FoundContext]:
        return iter(self.contexts)

    def __repr__(self) -> str:
        degraded = f", degraded={list(self.degraded)}" if self.degraded else ""
        uris = [each.uri for each in self.contexts]
        return f"FindResult({shorten(str(uris), 200)} in {self.took_ms:.1f} ms{degraded})"

    def _repr_html_(self) -> str:
        contexts = {each.uri: f"{each.score:.3f}  {each.abstract}" for each in self.contexts}
        notes = [f"{name}: {self.remarks.get(name, degradation(name).plain_meaning)}" for name in self.degraded]
        return fields_table(f"{self.total} found in {self.took_ms:.1f} ms", contexts, notes)

    def _of(self, name: str) -> tuple[FoundContext, ...]:
        return tuple(each for each in self.contexts if each.context_type == name)
