"""Protocols for stores and engines.

A store implements the protocols of its features; ``stores.features`` lists all features with their protocols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_hybridgraph.stores.protocols.capability import implements
from langchain_hybridgraph.stores.protocols.graph import Graph, HasGraph, NeighborEdges
from langchain_hybridgraph.stores.protocols.keyword_index import KeywordIndex
from langchain_hybridgraph.stores.protocols.memory import HasMemory, HasSessions, Memory, Sessions
from langchain_hybridgraph.stores.protocols.reading import (
    FindsContents,
    HasDocuments,
    HasFastLookups,
    HasOriginals,
    HasParents,
    HasVectors,
    KnowsCopies,
    ListsChunks,
    ListsTitles,
    ReadsChunks,
    ReadsIndex,
)
from langchain_hybridgraph.stores.protocols.search import (
    AwaitsVectors,
    HasFastKeywords,
    HybridResult,
    SearchableStore,
    SearchesHybrid,
    SearchesKeywords,
    SearchesVectors,
)
from langchain_hybridgraph.stores.protocols.tree import CurrentSummaries, HasSummaries, HasTree, Level, Summaries, Tree
from langchain_hybridgraph.stores.protocols.writing import AcceptsChunks, FileRecord, FileRecords, RecordsFiles

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.protocols.graph import Nodes as Nodes
    from langchain_hybridgraph.stores.protocols.graph import Weights as Weights

__all__ = [
    "AcceptsChunks",
    "AwaitsVectors",
    "CurrentSummaries",
    "FileRecord",
    "FileRecords",
    "FindsContents",
    "Graph",
    "HasDocuments",
    "HasFastKeywords",
    "HasFastLookups",
    "HasGraph",
    "HasMemory",
    "HasOriginals",
    "HasParents",
    "HasSessions",
    "HasSummaries",
    "HasTree",
    "HasVectors",
    "HybridResult",
    "KeywordIndex",
    "KnowsCopies",
    "Level",
    "ListsChunks",
    "ListsTitles",
    "Memory",
    "NeighborEdges",
    "ReadsChunks",
    "ReadsIndex",
    "RecordsFiles",
    "SearchableStore",
    "SearchesHybrid",
    "SearchesKeywords",
    "SearchesVectors",
    "Sessions",
    "Summaries",
    "Tree",
    "implements",
]
