"""Check whether a chunk is in a scope."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from langchain_hybridgraph.records.chunks import Chunk
from langchain_hybridgraph.records.queries import Scope
from langchain_hybridgraph.times import parse_end, parse_time


def in_scope(chunk: Chunk, scope: Scope, *, filtered: bool = True) -> bool:
    """Return whether a chunk is in the scope, judged by its metadata.

    If the scope has a tenant, only chunks with this ``tenant`` in their metadata are in scope. If ``filtered`` is
    False, the scope's filter is not evaluated. ``known_at`` is never evaluated.
    """
    if scope.tenant is not None and chunk.metadata.get("tenant") != scope.tenant:
        return False
    if scope.as_of is not None and not begin_of(chunk.metadata) <= scope.as_of <= end_of(chunk.metadata):
        return False
    return not filtered or scope.filter is None or scope.filter.matches(filterable(chunk))


def filterable(chunk: Chunk) -> dict[str, Any]:
    """Return the metadata that filters are evaluated on, which always includes the id of the document."""
    return {"document_id": chunk.document, **chunk.metadata}


def begin_of(metadata: Mapping[str, Any]) -> float:
    """Return the start of a chunk's validity, or −∞ if it has none."""
    return _time(metadata.get("valid_from"), parse_time, -math.inf)


def end_of(metadata: Mapping[str, Any]) -> float:
    """Return the end of a chunk's validity, or ∞ if it has none."""
    return _time(metadata.get("valid_until"), parse_end, math.inf)


def _time(value: Any, parse: Callable[[Any], float], unset: float) -> float:
    try:
        return unset if value is None else parse(value)
    except ValueError:
        # A value that is not a time is ignored.
        return unset
