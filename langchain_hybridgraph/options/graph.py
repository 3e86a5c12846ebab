"""Options for GraphRetriever, except parameters of traversals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import Filter, parse_filter
from langchain_hybridgraph.options.group import OptionGroup
from langchain_hybridgraph.options.hybrid import HybridArguments
from langchain_hybridgraph.options.validation.arguments import check_labels, check_texts
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.expansion import Candidates, traversal_from
from langchain_hybridgraph.search.scores import GraphScore, HopDecay, graph_score_from
from langchain_hybridgraph.search.traversals import Traversal
from langchain_hybridgraph.stores.in_memory_graph import InMemoryGraph
from langchain_hybridgraph.stores.protocols import HasGraph

Preset = Literal["evidence", "hop_decay", "distance_decay", "propagation", "ring_decay", "beam", "pagerank"]

_SHORT = "Shorthand for a parameter of bfs or hop_decay; cannot be combined with preset, traversal or score."

SHORTHAND = (
    "bidirectional",
    "relation_filter",
    "min_weight",
    "max_nodes",
    "vector_weight",
    "graph_weight",
    "hop_decay",
    "score_expanded",
)
"""Options that set one parameter of BFS or HopDecay, like the retriever's ``max_hops``."""


class GraphOptions(OptionGroup):
    """Options of a graph search: seeds, traversal, score, and selection among the visited chunks.

    >>> GraphOptions(traversal="beam", seed_k=3).traversal.width
    10
    """

    traversal: Any = Field(
        default=None, description="Algorithm that selects the chunks to visit; unset: the traversal of the preset."
    )
    score: Any = Field(
        default=None, description="Score of the visited chunks; unset: the score of the preset or of the traversal."
    )
    seed_k: int = Field(default=10, ge=1, description="Number of the best hits to use as seeds.")
    seed_keyword_weight: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Weight of the keyword search when seeds are searched for; unset: the weight of the preset.",
    )
    seed_filter: Any = Field(default=None, description="Filter of the seeds only.")
    seed_labels: frozenset[str] = Field(
        default=frozenset(),
        description="Labels of seeds; a seed must have at least one of them. Empty: no restriction.",
    )
    candidates: Candidates = Field(
        default="all",
        description="Candidates for results: also hits of the search that are not seeds (all), or only seeds and "
        "chunks reached through edges (reached).",
    )
    slots: int = Field(
        default=0, ge=0, description="Number of the k results reserved for hits found through the graph."
    )
    min_traversal_score: float = Field(
        default=0.0, ge=0, le=1, description="Minimum weight of the edges that the traversal follows."
    )
    bidirectional: bool | None = Field(
        default=None, description=f"Whether to follow edges in both directions. {_SHORT}"
    )
    relation_filter: tuple[str, ...] | None = Field(default=None, description=f"Relations to follow. {_SHORT}")
    min_weight: float | None = Field(default=None, ge=0, le=1, description=f"Minimum weight of an edge. {_SHORT}")
    max_nodes: int | None = Field(default=None, ge=0, description=f"Maximum number of chunks to add. {_SHORT}")
    vector_weight: float | None = Field(default=None, ge=0, description=f"Weight of the vector similarity. {_SHORT}")
    graph_weight: float | None = Field(default=None, ge=0, description=f"Weight of the last edge. {_SHORT}")
    hop_decay: tuple[float, ...] | None = Field(
        default=None, min_length=1, description=f"Factor for each hop. {_SHORT}"
    )
    score_expanded: bool | None = Field(
        default=None, description=f"Whether the score of an added chunk includes its own similarity. {_SHORT}"
    )

    @field_validator("traversal")
    @classmethod
    def _named_traversal(cls, value: Any) -> Traversal | None:
        return None if value is None else traversal_from(value)

    @field_validator("score")
    @classmethod
    def _named_score(cls, value: Any) -> GraphScore | None:
        return None if value is None else graph_score_from(value)

    @field_validator("seed_filter")
    @classmethod
    def _parsed_filter(cls, value: Any) -> Filter | None:
        return parse_filter(value)

    @field_validator("seed_labels", mode="before")
    @classmethod
    def _listed_labels(cls, value: Any) -> list[str]:
        return check_labels("seed_labels", value)

    @field_validator("relation_filter", mode="before")
    @classmethod
    def _listed_relations(cls, value: Any) -> tuple[str, ...] | None:
        return None if value is None else check_texts("relation_filter", "relations", value)

    @field_validator("hop_decay", mode="before")
    @classmethod
    def _as_decays(cls, value: Any) -> Any:
        return value if value is None else HopDecay(hop_decay=value).hop_decay


class GraphFields(BaseModel):
    """Options that a graph retriever has in addition to those of a hybrid retriever."""

    edges: Any = Field(
        default=None, repr=False, description="Edges for a store that has none: a list of Edge, or an InMemoryGraph."
    )
    preset: Preset | None = Field(
        default=None,
        description="Combination of traversal and score, most of them from a published system; unset: evidence.",
    )
    max_hops: int | None = Field(default=None, ge=0, description=f"Maximum number of hops. {_SHORT}")
    graph: GraphOptions = Field(default_factory=GraphOptions, description="Seeds, traversal and scores.")

    @field_validator("edges")
    @classmethod
    def _as_graph(cls, value: Any) -> HasGraph | None:
        if value is None or isinstance(value, HasGraph):
            return value
        if isinstance(value, Sequence) and all(isinstance(each, Edge) for each in value):
            return InMemoryGraph(value)
        raise ConfigurationError(f"edges must be a list of Edge objects or an InMemoryGraph, got {value!r:.80}")

    @model_validator(mode="after")
    def _check_shorthand(self) -> Self:
        check_shorthand(self.preset, self.max_hops, self.graph)
        return self


def shorthand_of(max_hops: int | None, options: GraphOptions) -> dict[str, Any]:
    """Return the shorthand options that were set, such as ``max_hops``, with their values.

    A shorthand option sets a parameter of BFS or HopDecay directly.
    """
    values = {"max_hops": max_hops} | {name: getattr(options, name) for name in SHORTHAND}
    return {name: value for name, value in values.items() if value is not None}


def check_shorthand(preset: str | None, max_hops: int | None, options: GraphOptions) -> None:
    """Raise ConfigurationError if a shorthand option is combined with a traversal, a score or a preset."""
    longhand = {"traversal": options.traversal, "score": options.score, "preset": preset}
    short = next(iter(shorthand_of(max_hops, options)), None)
    long = next((name for name, value in longhand.items() if value is not None), None)
    if short is not None and long is not None:
        raise ConfigurationError(
            f"{short} is shorthand for BFS with HopDecay, so it cannot be combined with {long}: leave one out, or set "
            'the parameters in graph={"traversal": {"type": "bfs", …}, "score": {"type": "hop_decay", …}}'
        )


class GraphArguments(HybridArguments, total=False):
    """Keyword arguments of :class:`~langchain_hybridgraph.retrievers.graph.GraphRetriever`."""

    edges: HasGraph | Sequence[Edge] | None
    preset: Preset | None
    max_hops: int | None
    graph: GraphOptions | Mapping[str, Any]
