"""Lookup of the retriever that an option belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel

from langchain_hybridgraph.options.advanced import ConversationFields
from langchain_hybridgraph.options.graph import GraphFields
from langchain_hybridgraph.options.group import groups_of
from langchain_hybridgraph.options.hierarchical import HierarchicalFields
from langchain_hybridgraph.options.hybrid import HybridFields
from langchain_hybridgraph.options.memory import MemoryFields
from langchain_hybridgraph.options.retriever import PipelineFields

RETRIEVERS: Mapping[str, tuple[type[BaseModel], ...]] = MappingProxyType(
    {
        "HybridRetriever": (PipelineFields, HybridFields),
        "GraphRetriever": (GraphFields,),
        "MemoryRetriever": (MemoryFields,),
        "HierarchicalRetriever": (HierarchicalFields,),
        "AdvancedRetriever": (ConversationFields,),
    }
)
"""Classes with the options that each retriever adds to the options of its base classes."""


def place_of(name: str) -> str | None:
    """Return the retriever or option group that takes an option, or None if no retriever has this option.

    >>> place_of("date_boost"), place_of("max_hops"), place_of("colour")
    ('memory= of MemoryRetriever', 'GraphRetriever', None)
    """
    for retriever, kinds in RETRIEVERS.items():
        for kind in kinds:
            if name in kind.model_fields:
                return retriever
            for group, options in groups_of(kind).items():
                if name in options.model_fields:
                    return f"{group}= of {retriever}"
    return None
