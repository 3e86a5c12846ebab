"""Queries, and the chunks that they may see."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter
    from langchain_hybridgraph.records.arrays import Vector


class TimeRange(Enum):
    """Special values of ``as_of`` that are not a point in time."""

    ALL = "all"


ALL_TIME = TimeRange.ALL
"""Value of ``as_of`` that includes chunks and edges of all times, whether valid now or not."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The chunks that a call may see. Every hit satisfies all four fields, no matter which source found it.

    ``as_of`` is in Unix seconds, UTC; None turns the validity check off. ``known_at`` is in Unix seconds, UTC, too:
    chunks stored later are left out, and validity is evaluated as it was known then. None means as known now.
    """

    filter: Filter | None = None
    tenant: str | None = None
    as_of: float | None = None
    known_at: float | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One search: its text or vector (or both), the number of results, and its scope.

    With ``text`` None only the vector is searched for; with ``vector`` None the text is embedded.
    ``weight`` is the priority among several planned queries.
    """

    text: str | None
    k: int
    scope: Scope = field(default_factory=Scope)
    vector: Vector | None = None
    weight: float = 1.0
