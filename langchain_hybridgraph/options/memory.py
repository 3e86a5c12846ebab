"""Options for MemoryRetriever."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, Field, field_validator

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.memory.scores import Hotness, Novelty
from langchain_hybridgraph.options.graph import GraphArguments
from langchain_hybridgraph.options.group import OptionGroup
from langchain_hybridgraph.options.memory_modes import Mode, mode_from
from langchain_hybridgraph.options.retriever import Form
from langchain_hybridgraph.options.validation.arguments import check_labels
from langchain_hybridgraph.registry import nearest, parameters_of
from langchain_hybridgraph.times import parse_time

T = TypeVar("T")

SOURCES = ("vector", "keyword", "graph", "session")
"""Sources that can have weights."""
WEIGHTS: Mapping[str, float] = MappingProxyType({"vector": 0.45, "graph": 0.40, "session": 0.15})
"""Default weights of the sources."""


class MemoryOptions(OptionGroup):
    """Options of memory search: how much sources, usage, repetition and dates affect the score.

    >>> MemoryOptions(hotness=0.3).hotness.half_life_days
    7.0
    """

    session_turns: int = Field(default=10, ge=0, description="Number of the last turns of the session to use.")
    source_weights: Mapping[str, float] = Field(
        default_factory=lambda: dict(WEIGHTS),
        description="Weights of the sources. Without a weight of its own, keyword shares the weight of vector.",
    )
    hotness: Any = Field(default=None, description="Weight of the frequency and recency of a memory's use; unset: 0.")
    novelty: Any = Field(
        default=Novelty(), description="Down-weighting of memories that repeat the session; a floor of 1 turns it off."
    )
    date_boost: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Weight of a match between a memory's time and a date in the question.",
    )

    @field_validator("source_weights", mode="before")
    @classmethod
    def _known_sources(cls, value: Any) -> Mapping[str, float]:
        return _checked_weights(value)

    @field_validator("hotness")
    @classmethod
    def _named_hotness(cls, value: Any) -> Hotness | None:
        if isinstance(value, float | int) and not isinstance(value, bool):
            return Hotness(value)
        return _from_mapping(Hotness, value)

    @field_validator("novelty")
    @classmethod
    def _named_novelty(cls, value: Any) -> Novelty | None:
        return _from_mapping(Novelty, value)


class MemoryFields(BaseModel):
    """Options that only a memory retriever has."""

    mode: Any = Field(
        default=None,
        description="Weights of the parts of a memory's score, and the traversal; unset: the mode set in the store "
        "(set_mode), or general.",
    )
    labels: frozenset[str] = Field(default=frozenset(), description="Labels of memories; a hit must have all of them.")
    known_at: Any = Field(default=None, description="Point in time up to which stored knowledge is used; unset: now.")
    session: Any = Field(
        default=None, repr=False, exclude=True, description="Conversation: a chat history or a list of messages."
    )
    session_id: str | None = Field(default=None, description="Id of the session, in a store that keeps sessions.")
    memory: MemoryOptions = Field(
        default_factory=MemoryOptions, description="Effect of sources, usage, repetition and dates on the score."
    )

    @field_validator("mode")
    @classmethod
    def _named_mode(cls, value: Any) -> Mode | None:
        return None if value is None else mode_from(value)

    @field_validator("known_at")
    @classmethod
    def _parsed_known_at(cls, value: Any) -> float | None:
        return None if value is None else parse_time(value)

    @field_validator("labels", mode="before")
    @classmethod
    def _several_labels(cls, value: Any) -> Any:
        return check_labels("labels", value)


def _from_mapping(kind: type[T], value: Any) -> T | None:
    """Create a Hotness or Novelty from a mapping of its parameters. None and an instance of ``kind`` are returned
    unchanged.
    """
    if value is None or isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{kind.__name__.lower()} must be a {kind.__name__}, a mapping or None, got {value!r}")
    parameters = parameters_of(kind)
    if unknown := [name for name in value if name not in parameters]:
        raise ConfigurationError(
            f"{kind.__name__.lower()} has no parameter {unknown[0]!r}; its parameters are {', '.join(parameters)}"
        )
    return kind(**value)


def _checked_weights(weights: Any) -> Mapping[str, float]:
    if not isinstance(weights, Mapping):
        raise ConfigurationError(f"source_weights must be a mapping such as {dict(WEIGHTS)}, got {weights!r}")
    if unknown := [str(name) for name in weights if name not in SOURCES]:
        near = nearest(unknown[0], list(SOURCES))
        raise ConfigurationError(
            f"source_weights has unknown sources: {', '.join(unknown)}; {near}the sources are {', '.join(SOURCES)}"
        )
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise ConfigurationError(f"source_weights[{name!r}] must be a number ≥ 0, such as 0.45, got {weight!r}")
    return {**weights}


class MemoryArguments(GraphArguments, total=False):
    """Keyword arguments of :class:`~langchain_hybridgraph.retrievers.memory.MemoryRetriever`."""

    mode: Form | Mode | None
    labels: str | Collection[str]
    known_at: float | str | datetime | None
    session: Any
    session_id: str | None
    memory: MemoryOptions | Mapping[str, Any]
