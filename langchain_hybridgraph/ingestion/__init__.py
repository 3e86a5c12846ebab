"""Reading files, splitting documents and connecting chunks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.ingestion.edges import BUILDERS

if TYPE_CHECKING:
    from langchain_hybridgraph.ingestion.code import read_python_docs as read_python_docs
    from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder as EdgeBuilder
    from langchain_hybridgraph.ingestion.edges.base import EdgeSet as EdgeSet
    from langchain_hybridgraph.ingestion.edges.entities import EntityEdges as EntityEdges
    from langchain_hybridgraph.ingestion.edges.links import CitationEdges as CitationEdges
    from langchain_hybridgraph.ingestion.edges.links import LinkEdges as LinkEdges
    from langchain_hybridgraph.ingestion.edges.llm import LLMEdges as LLMEdges
    from langchain_hybridgraph.ingestion.edges.metadata import MetadataEdges as MetadataEdges
    from langchain_hybridgraph.ingestion.edges.sequence import HierarchyEdges as HierarchyEdges
    from langchain_hybridgraph.ingestion.edges.sequence import SequenceEdges as SequenceEdges
    from langchain_hybridgraph.ingestion.edges.similarity import SimilarityEdges as SimilarityEdges
    from langchain_hybridgraph.ingestion.files import SUPPORTED_SUFFIXES as SUPPORTED_SUFFIXES
    from langchain_hybridgraph.ingestion.files import FileError as FileError
    from langchain_hybridgraph.ingestion.files import read_files as read_files
    from langchain_hybridgraph.ingestion.pipeline import IngestReport as IngestReport
    from langchain_hybridgraph.ingestion.pipeline import ingest as ingest
    from langchain_hybridgraph.ingestion.splitting import CutDocument as CutDocument
    from langchain_hybridgraph.ingestion.splitting import ParentChildSplitter as ParentChildSplitter
    from langchain_hybridgraph.ingestion.splitting import Piece as Piece
    from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter as RecursiveSplitter
    from langchain_hybridgraph.ingestion.splitting import SemanticSplitter as SemanticSplitter
    from langchain_hybridgraph.ingestion.splitting import Splitter as Splitter
    from langchain_hybridgraph.ingestion.summaries import LayersReport as LayersReport
    from langchain_hybridgraph.ingestion.summaries import Summary as Summary
    from langchain_hybridgraph.ingestion.summaries import build_layers as build_layers

_MODULES = {
    "code": ("read_python_docs",),
    "edges.base": ("EdgeBuilder", "EdgeSet"),
    "files": ("SUPPORTED_SUFFIXES", "FileError", "read_files"),
    "pipeline": ("IngestReport", "ingest"),
    "splitting": ("CutDocument", "ParentChildSplitter", "Piece", "RecursiveSplitter", "SemanticSplitter", "Splitter"),
    "summaries": ("LayersReport", "Summary", "build_layers"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_HOME |= {name: f"edges.{module}" for module, name in (home.split(":") for home in BUILDERS.values())}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
