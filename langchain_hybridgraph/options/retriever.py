"""Options shared by all retrievers that search a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import BaseModel, Field, field_validator

from langchain_hybridgraph.adapters.compressor import as_reranker
from langchain_hybridgraph.adapters.documents import Annotate
from langchain_hybridgraph.filters.expressions import Filter, parse_filter
from langchain_hybridgraph.options.command_line import K_DEFAULT, K_LEAST, MIN_SCORE, K
from langchain_hybridgraph.options.selection import SelectionOptions
from langchain_hybridgraph.options.telemetry import TelemetryOptions
from langchain_hybridgraph.records import ALL_TIME, TimeRange
from langchain_hybridgraph.search.fusion import Fusion, fusion_from
from langchain_hybridgraph.search.rerankers import Reranker
from langchain_hybridgraph.times import parse_time

if TYPE_CHECKING:
    from langchain_core.documents import BaseDocumentCompressor

Form = str | Mapping[str, Any]
"""Notation of a stage in a settings file: a name, or a mapping of ``type`` and parameters."""


class PipelineFields(BaseModel):
    """Options of the search pipeline."""

    k: int = Field(default=K_DEFAULT, ge=K_LEAST, description=K)
    filter: Any = Field(default=None, description="Filter of every call; the filter of a call is applied in addition.")
    tenant: str | None = Field(default=None, description="Tenant whose chunks the retriever sees.")
    as_of: Any = Field(default=None, description="Point in time to search as of; unset: now.")
    min_score: float = Field(default=0.0, ge=0, le=1, description=MIN_SCORE)
    fusion: Any = Field(
        default=None, description="Fusion of the ranked lists of the sources; unset: the default of the retriever."
    )
    reranker: Any = Field(
        default=None, description="Reranker, which scores each hit together with the query; unset: none."
    )
    return_parents: bool = Field(
        default=True, description="Whether to return the parent of a matching child, if it has one."
    )
    deadline_ms: float | None = Field(
        default=None,
        gt=0,
        description="Time limit per source in milliseconds. Slower sources are left out and reported; unset: no limit.",
    )
    on_error: Literal["degrade", "empty", "raise"] = Field(
        default="degrade",
        description="What to do when a source fails: use the others and raise if all fail (degrade), return nothing "
        "if all fail (empty), or raise at the first failure (raise).",
    )
    annotate: Annotate = Field(
        default="none",
        description="Metadata of the Documents that invoke returns: as stored (none), with the score (score), or with "
        "all details of how they were found (all).",
    )
    metadata_prefix: str = Field(default="", description="Prefix of the keys that retrieval adds to metadata.")
    selection: SelectionOptions = Field(
        default_factory=SelectionOptions, description="Diversity, limits and depth of the search."
    )

    @field_validator("filter")
    @classmethod
    def _parsed_filter(cls, value: Any) -> Filter | None:
        return parse_filter(value)

    @field_validator("reranker")
    @classmethod
    def _adapted_reranker(cls, value: Any) -> Reranker | None:
        return None if value is None else as_reranker(value)

    @field_validator("fusion")
    @classmethod
    def _named_fusion(cls, value: Any) -> Fusion | None:
        return None if value is None else fusion_from(value)

    @field_validator("as_of")
    @classmethod
    def _parsed_time(cls, value: Any) -> Any:
        return value if value is None or value is ALL_TIME else parse_time(value)


# -- keyword arguments, for editors and type checkers ---------------------------------------------------------
# These cannot be derived from the fields: a type checker runs no code, and a field has the type of the value that it
# stores, while an argument may also be a name, a mapping or a function that the field converts. A test compares names.


class ObservedArguments(TypedDict, total=False):
    """Keyword arguments of LangChain's own retriever class, and ``telemetry``."""

    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    telemetry: TelemetryOptions | Mapping[str, Any]


class PipelineArguments(ObservedArguments, total=False):
    """Keyword arguments of every retriever that searches a store."""

    k: int
    filter: Filter | Mapping[str, Any] | None
    tenant: str | None
    as_of: float | str | datetime | TimeRange | None
    min_score: float
    fusion: Form | Fusion | None
    reranker: Form | Reranker | BaseDocumentCompressor | Callable[[str, Sequence[str]], Sequence[float]] | None
    return_parents: bool
    deadline_ms: float | None
    on_error: Literal["degrade", "empty", "raise"]
    annotate: Annotate
    metadata_prefix: str
    selection: SelectionOptions | Mapping[str, Any]
