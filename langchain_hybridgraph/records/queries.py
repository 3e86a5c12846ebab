"""Queries and their scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.records.chunks import Chunk
from langchain_hybridgraph.records.validity import begin_of, end_of, is_valid

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter
    from langchain_hybridgraph.records.arrays import Vector


class TimeRange(Enum):
    """Special values of ``as_of`` that are not a point in time."""

    ALL = "all"


ALL_TIME = TimeRange.ALL
"""Value of ``as_of`` with which chunks and edges are included whether or not they are valid now."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Conditions that every hit of a call must meet, no matter which source found it.

    ``as_of`` is in Unix seconds, UTC; None turns the validity check off. ``known_at`` is also in Unix seconds, UTC.
    Chunks that were stored after ``known_at`` are left out, and validity is evaluated as it was known at that time. If
    ``known_at`` is None, everything that is known now is used.
    """

    filter: Filter | None = None
    tenant: str | None = None
    as_of: float | None = None
    known_at: float | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One search: its text or vector (or both), the number of results, and its scope.

    If ``text`` is None, there is no keyword search; if ``vector`` is None, the text is embedded. ``weight`` is the
    priority of this query among several planned queries.
    """

    text: str | None
    k: int
    scope: Scope = field(default_factory=Scope)
    vector: Vector | None = None
    weight: float = 1.0


def query_error(value: object) -> ConfigurationError:
    """Return the error for a query that is not a string. The message shows how to pass its text."""
    advice = "write None only together with vector=" if value is None else "write retriever.invoke(text)"
    if isinstance(value, Mapping):
        keys = [key for key in ("query", "input", "question", *value) if isinstance(value.get(key), str)]
        key = next(iter(keys), "query")
        advice = f'write retriever.invoke(input["{key}"]), or in a chain itemgetter("{key}") | retriever'
        if {"chat_history", "history", "messages"} & value.keys():
            advice += "; to search with the history, write AdvancedRetriever(retriever).invoke(input)"
    elif isinstance(value, list | tuple):
        advice = (
            "for several questions, write retriever.batch(questions); for messages, retriever.invoke(messages[-1].text)"
        )
    elif hasattr(value, "content"):
        advice = "write retriever.invoke(message.text)"
    return ConfigurationError(f"query must be a string, got {quote_value(value)}; {advice}")


def in_scope(chunk: Chunk, scope: Scope, *, filtered: bool = True) -> bool:
    """Return whether a chunk is in the scope, judged by its metadata.

    If the scope has a tenant, only chunks with this ``tenant`` in their metadata are in scope. If ``filtered`` is
    False, the scope's filter is not evaluated. ``known_at`` is never evaluated.
    """
    if scope.tenant is not None and chunk.metadata.get("tenant") != scope.tenant:
        return False
    if scope.as_of is not None and not is_valid(begin_of(chunk.metadata), end_of(chunk.metadata), scope.as_of):
        return False
    return not filtered or passes_filter(chunk, scope)


def passes_filter(chunk: Chunk, scope: Scope) -> bool:
    """Return whether a chunk passes the filter of a scope."""
    return scope.filter is None or scope.filter.matches(filterable(chunk))


def filterable(chunk: Chunk) -> dict[str, Any]:
    """Return the metadata that filters are evaluated on, which always includes the id of the document."""
    return {"document_id": chunk.document, **chunk.metadata}


def coverage_of(embedding: Any, query: Query) -> float | None:
    """Return how much of the question an embedding with a vocabulary knows (``LSAModel.coverage``), or None for others.

    The result is also None for a query without text.
    """
    coverage = getattr(embedding, "coverage", None)
    return float(coverage(query.text)) if callable(coverage) and query.text else None
