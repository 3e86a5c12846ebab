"""Options for HierarchicalRetriever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator

from langchain_hybridgraph.adapters.conversations import PLANNERS
from langchain_hybridgraph.chunks import plain_uri
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.group import OptionGroup
from langchain_hybridgraph.options.hybrid import HybridArguments
from langchain_hybridgraph.options.retriever import Form
from langchain_hybridgraph.registry import create_or_import
from langchain_hybridgraph.search.planner import MEMORY, RESOURCE, SKILL

ROOTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {MEMORY: ("user/memories", "agent/memories"), RESOURCE: ("resources",), SKILL: ("agent/skills",)}
)
"""Default root directories of each context type, below any scheme."""


class TreeOptions(OptionGroup):
    """Options for searching the tree: where the search starts, how scores propagate, and when it ends.

    >>> TreeOptions(roots={"memory": ["user/memories/"]}).roots
    {'memory': ('user/memories',)}
    """

    alpha: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Weight of a node's own score; its directory's score has the remaining weight.",
    )
    start_k: int = Field(default=3, ge=1, description="Number of the best directories to start from.")
    start_documents: int = Field(
        default=3, ge=0, description="Number of the best documents to start from, together with their directories."
    )
    max_rounds: int = Field(
        default=3,
        ge=1,
        description="Number of rounds without a change of the best k after which the search ends; a round opens one "
        "directory.",
    )
    roots: Mapping[str, Sequence[str]] = Field(
        default_factory=lambda: dict(ROOTS), description="Root directories of each type."
    )
    include_directories: bool | None = Field(
        default=None,
        description="Whether directories without text of their own can be hits; unset: only in find and search.",
    )

    @field_validator("roots", mode="before")
    @classmethod
    def _plain_roots(cls, value: Any) -> Mapping[str, tuple[str, ...]]:
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"roots must be a mapping such as {dict(ROOTS)}, got {value!r}")
        for name, uris in value.items():
            if isinstance(uris, str) or not all(isinstance(uri, str) for uri in uris):
                raise ConfigurationError(f"roots[{name!r}] must be a list of uris such as ['resources'], got {uris!r}")
        return {name: tuple(map(plain_uri, uris)) for name, uris in value.items()}


class HierarchicalFields(BaseModel):
    """Options that only a hierarchical retriever has."""

    planner: Any = Field(
        default=None, description="Planner that derives typed queries from a conversation; unset: rules."
    )
    mode: Literal["thinking", "quick"] = Field(
        default="thinking",
        description="Use of the reranker: at the start points and at each level (thinking), or not at all (quick).",
    )
    score_threshold: float = Field(default=0.0, ge=0, lt=1, description="Score that a hit must exceed.")
    tree: TreeOptions = Field(
        default_factory=TreeOptions,
        description="Starting points, propagation of scores and end of the search in the tree.",
    )

    @field_validator("planner")
    @classmethod
    def _callable_planner(cls, value: Any) -> Any:
        value = create_or_import("planner", value, PLANNERS) if isinstance(value, str | Mapping) else value
        if value is not None and not callable(value):
            raise ConfigurationError(
                f"planner must be QueryPlanner(llm) or another callable with the same parameters, got {value!r}"
            )
        return value


class HierarchicalArguments(HybridArguments, total=False):
    """Keyword arguments of :class:`~langchain_hybridgraph.retrievers.hierarchical.HierarchicalRetriever`."""

    planner: Form | Callable[..., Any] | None
    mode: Literal["thinking", "quick"]
    score_threshold: float
    tree: TreeOptions | Mapping[str, Any]
