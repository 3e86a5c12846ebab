"""Edge builders by name.

Most builders are imported only when they are requested. No builder imports this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder
from langchain_hybridgraph.ingestion.edges.hierarchy import HierarchyEdges
from langchain_hybridgraph.ingestion.edges.links import LinkEdges
from langchain_hybridgraph.ingestion.edges.sequence import SequenceEdges
from langchain_hybridgraph.registry import from_config, nearest

BUILDERS: Mapping[str, str] = {
    "sequence": "ingestion.edges.sequence:SequenceEdges",
    "links": "ingestion.edges.links:LinkEdges",
    "hierarchy": "ingestion.edges.hierarchy:HierarchyEdges",
    "entities": "ingestion.edges.entities:EntityEdges",
    "metadata": "ingestion.edges.metadata:MetadataEdges",
    "citations": "ingestion.edges.citations:CitationEdges",
    "similarity": "ingestion.edges.similarity:SimilarityEdges",
    "llm": "ingestion.edges.llm:LLMEdges",
}
"""Module and class of each builder, by name."""

# Required parameters of builders, with an example.
_REQUIRED_PARAMETERS: Mapping[str, tuple[str, str]] = {
    "metadata": ("keys", '{"type": "metadata", "keys": ["author"]}'),
    "llm": ("llm", "LLMEdges(chat_model)"),
}


@runtime_checkable
class _YieldsRelations(EdgeBuilder, Protocol):
    """Builder that can omit relations that another builder writes."""

    def without(self, relations: Iterable[str]) -> EdgeBuilder:
        """Return a copy of the builder that does not write these relations."""
        ...


def as_builders(edges: Any) -> list[EdgeBuilder]:
    """Return the edge builders for the argument ``edges`` of ``ingest``: ``"auto"``, None (no builders), one builder,
    or a list of builders.

    Each builder is passed as an EdgeBuilder, a name (one of ``BUILDERS``), or a mapping of ``type`` and parameters,
    such as ``{"type": "metadata", "keys": ["author"]}``; ``metadata`` and ``llm`` require parameters. A list may also
    contain ``"auto"``. Raises ConfigurationError for anything else, for invalid or missing parameters, and for two
    builders that would replace each other's edges.

    >>> [type(builder).__name__ for builder in as_builders(["sequence", {"type": "similarity", "k": 3}])]
    ['SequenceEdges', 'SimilarityEdges']
    """
    if edges is None:
        return []
    forms = [edges] if isinstance(edges, (str, Mapping, EdgeBuilder)) else edges
    if isinstance(forms, type) or not isinstance(forms, Iterable):
        raise ConfigurationError(
            f"edges={edges!r}: pass 'auto', None, or a list such as ['sequence', 'links'] or [SequenceEdges()]"
        )
    builders = [builder for form in forms for builder in _builders(form)]
    relations = {
        name for builder in builders if not isinstance(builder, _YieldsRelations) for name in builder.relations
    }
    builders = [
        builder.without(relations) if isinstance(builder, _YieldsRelations) else builder for builder in builders
    ]
    for builder, other in combinations(builders, 2):
        shared_relations = set(builder.relations) & set(other.relations)
        if shared_relations:
            raise ConfigurationError(
                f"{type(builder).__name__} and {type(other).__name__} both write {shared_relations.pop()!r} and would "
                "replace each other's edges; give one of them another relation, or leave it out"
            )
    return builders


def _builders(form: Any) -> list[EdgeBuilder]:
    if form == "auto":
        return [SequenceEdges(), LinkEdges(), HierarchyEdges(), *_builders("entities")]
    if isinstance(form, EdgeBuilder) and not isinstance(form, type):
        return [form]
    name = form.get("type") if isinstance(form, Mapping) else form
    if not isinstance(name, str) or name not in BUILDERS:
        raise ConfigurationError(
            f"edges={form!r} is not an edge builder; {nearest(name, ['auto', *BUILDERS])}pass 'auto', None, "
            f"one of {', '.join(BUILDERS)}, an object such as SequenceEdges(), "
            'or a mapping such as {"type": "similarity", "k": 5}'
        )
    parameter, example = _REQUIRED_PARAMETERS.get(name, (None, ""))
    if parameter is not None and (isinstance(form, str) or parameter not in form):
        raise ConfigurationError(f"edges={form!r} needs {parameter}: {example}")
    module, _, kind = BUILDERS[name].partition(":")
    kinds = {name: getattr(import_module(f"langchain_hybridgraph.{module}"), kind)}
    builder: EdgeBuilder = from_config("edges", form, kinds, lambda one: isinstance(one, EdgeBuilder))
    return [builder]
