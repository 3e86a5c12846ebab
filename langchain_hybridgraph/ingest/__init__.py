"""Brings text in: reads files, cuts documents, connects chunks. Names are loaded when they are used.

The package is callable: ``from langchain_hybridgraph import ingest`` may give this package or the function of
the same name, whichever was imported first, and ``ingest(documents, store)`` does the same with either.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_hybridgraph.ingest.citation_edges import CitationEdges as CitationEdges
    from langchain_hybridgraph.ingest.cutting import CutDocument as CutDocument
    from langchain_hybridgraph.ingest.edges import EdgeBuilder as EdgeBuilder
    from langchain_hybridgraph.ingest.edges import EdgeSet as EdgeSet
    from langchain_hybridgraph.ingest.edges import HierarchyEdges as HierarchyEdges
    from langchain_hybridgraph.ingest.edges import LinkEdges as LinkEdges
    from langchain_hybridgraph.ingest.edges import SequenceEdges as SequenceEdges
    from langchain_hybridgraph.ingest.entities import EntityEdges as EntityEdges
    from langchain_hybridgraph.ingest.files import SUPPORTED_SUFFIXES as SUPPORTED_SUFFIXES
    from langchain_hybridgraph.ingest.files import FileError as FileError
    from langchain_hybridgraph.ingest.files import read_files as read_files
    from langchain_hybridgraph.ingest.layers import LayersReport as LayersReport
    from langchain_hybridgraph.ingest.layers import Summary as Summary
    from langchain_hybridgraph.ingest.layers import build_layers as build_layers
    from langchain_hybridgraph.ingest.llm_edges import LLMEdges as LLMEdges
    from langchain_hybridgraph.ingest.metadata_edges import MetadataEdges as MetadataEdges
    from langchain_hybridgraph.ingest.pipeline import IngestReport as IngestReport
    from langchain_hybridgraph.ingest.pipeline import ingest as ingest
    from langchain_hybridgraph.ingest.python_docs import read_python_docs as read_python_docs
    from langchain_hybridgraph.ingest.similarity_edges import SimilarityEdges as SimilarityEdges
    from langchain_hybridgraph.ingest.split import ParentChildSplitter as ParentChildSplitter
    from langchain_hybridgraph.ingest.split import Piece as Piece
    from langchain_hybridgraph.ingest.split import RecursiveSplitter as RecursiveSplitter
    from langchain_hybridgraph.ingest.split import SemanticSplitter as SemanticSplitter
    from langchain_hybridgraph.ingest.split import Splitter as Splitter

_MODULES = {
    "citation_edges": ("CitationEdges",),
    "cutting": ("CutDocument",),
    "edges": ("EdgeBuilder", "EdgeSet", "HierarchyEdges", "LinkEdges", "SequenceEdges"),
    "entities": ("EntityEdges",),
    "files": ("SUPPORTED_SUFFIXES", "FileError", "read_files"),
    "layers": ("LayersReport", "Summary", "build_layers"),
    "llm_edges": ("LLMEdges",),
    "metadata_edges": ("MetadataEdges",),
    "pipeline": ("IngestReport", "ingest"),
    "python_docs": ("read_python_docs",),
    "similarity_edges": ("SimilarityEdges",),
    "split": ("ParentChildSplitter", "Piece", "RecursiveSplitter", "SemanticSplitter", "Splitter"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "SUPPORTED_SUFFIXES",
    "CitationEdges",
    "CutDocument",
    "EdgeBuilder",
    "EdgeSet",
    "EntityEdges",
    "FileError",
    "HierarchyEdges",
    "IngestReport",
    "LLMEdges",
    "LayersReport",
    "LinkEdges",
    "MetadataEdges",
    "ParentChildSplitter",
    "Piece",
    "RecursiveSplitter",
    "SemanticSplitter",
    "SequenceEdges",
    "SimilarityEdges",
    "Splitter",
    "Summary",
    "build_layers",
    "ingest",
    "read_files",
    "read_python_docs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See :func:`langchain_hybridgraph.ingest.pipeline.ingest`."""
        return self.ingest(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
