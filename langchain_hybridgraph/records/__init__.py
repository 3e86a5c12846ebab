"""Records shared by all parts of the package.

All records are frozen: a stage that changes a value creates a new record. Records are identified by id, never by text.
They depend neither on LangChain, nor on an engine, nor on the file system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_hybridgraph.records.answerability import Answerability
from langchain_hybridgraph.records.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.records.edges import (
    CAUSED_BY,
    CITES,
    CONTAINS,
    CONTRADICTS,
    DEPENDS_ON,
    DERIVED_FROM,
    ELABORATES,
    MENTIONS,
    PART_OF,
    REFERENCES,
    SEQUENCE,
    SIMILAR_TO,
    SUPERSEDES,
    SUPPORTS,
    Edge,
    EdgeFilter,
)
from langchain_hybridgraph.records.explanation import is_backward
from langchain_hybridgraph.records.hits import Hit
from langchain_hybridgraph.records.ids import content_id
from langchain_hybridgraph.records.memory_state import MemoryState
from langchain_hybridgraph.records.queries import ALL_TIME, Query, Scope, TimeRange
from langchain_hybridgraph.records.rankings import FusedCandidate, QuestionWords, Ranking, ScoredId, SourceResult

if TYPE_CHECKING:
    from langchain_hybridgraph.records.arrays import Mask as Mask
    from langchain_hybridgraph.records.arrays import Time as Time
    from langchain_hybridgraph.records.arrays import Vector as Vector

__all__ = [
    "ALL_TIME",
    "CAUSED_BY",
    "CITES",
    "CONTAINS",
    "CONTRADICTS",
    "DEPENDS_ON",
    "DERIVED_FROM",
    "ELABORATES",
    "MENTIONS",
    "PART_OF",
    "REFERENCES",
    "SEQUENCE",
    "SIMILAR_TO",
    "SUPERSEDES",
    "SUPPORTS",
    "Answerability",
    "Chunk",
    "Edge",
    "EdgeFilter",
    "FusedCandidate",
    "Hit",
    "MemoryState",
    "Query",
    "QuestionWords",
    "Ranking",
    "Scope",
    "ScoredId",
    "SourceResult",
    "TimeRange",
    "content_id",
    "is_backward",
    "replace_surrogates",
]
