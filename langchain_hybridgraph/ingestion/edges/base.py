"""Edge builders, and their creation from settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.splitting import CutDocument
from langchain_hybridgraph.records import Edge, check_name
from langchain_hybridgraph.registry import from_config, imported_factory, nearest
from langchain_hybridgraph.stores.protocols import AcceptsChunks

T = TypeVar("T")

BUILDERS = {
    "sequence": "metadata:SequenceEdges",
    "links": "links:LinkEdges",
    "hierarchy": "metadata:HierarchyEdges",
    "entities": "entities:EntityEdges",
    "metadata": "metadata:MetadataEdges",
    "citations": "links:CitationEdges",
    "similarity": "similarity:SimilarityEdges",
    "llm": "llm:LLMEdges",
}
"""Module in this folder and class of each builder, by name. A module is imported when its builder is requested."""

AUTO = ("sequence", "links", "hierarchy", "entities")
"""Builders that ``edges="auto"`` stands for; they need no settings."""


class EdgeSet(NamedTuple):
    """Edges that replace all stored edges of the builder's relations that start at the chunks in ``replaces``."""

    edges: Sequence[Edge]
    replaces: Sequence[str] = ()


class EdgeBuilder:
    """Builder of edges. An ingest calls ``start`` once, ``see`` for each document, and ``finish`` at the end.

    A subclass needs ``relations`` and at least one of ``see`` and ``finish``. Edges are replaced separately for each
    source chunk, so an ingest of some documents does not have to change the edges of others.
    """

    relations: Sequence[str]
    """Names of the relations that the builder writes. Two builders of the same ingest must not write the same relation.
    """
    warnings: Sequence[str] = ()
    """Messages for the report of the ingest, read after ``finish``."""

    # A builder may also have the method without(relations), which returns a copy that does not write relations that
    # another builder writes.

    def start(self, store: AcceptsChunks) -> None:
        """Discard the state of the previous ingest and prepare for a new ingest into ``store``."""
        return

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents."""
        return

    def see(self, document: CutDocument) -> Iterable[EdgeSet]:
        """Receive a document whose chunks are stored, and yield the edges that do not depend on later documents."""
        return ()

    def finish(self) -> Iterable[EdgeSet]:
        """Yield the edges that depend on several documents; the store is then up to date and can be searched."""
        return ()


def as_builders(edges: Any) -> list[EdgeBuilder]:
    """Return the edge builders for the argument ``edges`` of ``ingest``: ``"auto"``, None, a builder, or several.

    A builder is an EdgeBuilder, a name (one of ``BUILDERS``), or a mapping of ``type`` and parameters, such as
    ``{"type": "metadata", "keys": ["author"]}``. A list may also contain ``"auto"``. Raises ConfigurationError for
    anything else, for invalid or missing parameters, and for two builders that would replace each other's edges.

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
    builders = [_builder(each) for form in forms for each in (AUTO if form == "auto" else (form,))]
    for relation in (relation for builder in builders for relation in builder.relations):
        check_name(relation, "a relation")
    fixed = {name for builder in builders if not hasattr(builder, "without") for name in builder.relations}
    builders = [builder.without(fixed) if hasattr(builder, "without") else builder for builder in builders]
    for builder, other in combinations(builders, 2):
        shared_relations = set(builder.relations) & set(other.relations)
        if shared_relations:
            raise ConfigurationError(
                f"{type(builder).__name__} and {type(other).__name__} both write {shared_relations.pop()!r} and would "
                "replace each other's edges; give one of them another relation, or leave it out"
            )
    return builders


def _builder(form: Any) -> EdgeBuilder:
    if isinstance(form, EdgeBuilder):
        return form
    name = form.get("type") if isinstance(form, Mapping) else form
    if not isinstance(name, str) or name not in BUILDERS:
        raise ConfigurationError(
            f"edges={form!r} is not an edge builder; {nearest(name, ['auto', *BUILDERS])}pass 'auto', None, "
            f"one of {', '.join(BUILDERS)}, an EdgeBuilder such as SequenceEdges(), "
            'or a mapping such as {"type": "similarity", "k": 5}'
        )
    kinds: dict[str, type[EdgeBuilder]] = {name: imported_factory("edges", f"{__package__}.{BUILDERS[name]}")}
    return from_config("edges", form, kinds, lambda _: False)


def slices(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Return consecutive slices of at most ``size`` values."""
    return (values[start : start + size] for start in range(0, len(values), size))
