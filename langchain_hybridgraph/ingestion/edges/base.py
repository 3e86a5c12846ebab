"""Edge builders, and their creation from settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import combinations
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.edges import AUTO, BUILDERS
from langchain_hybridgraph.ingestion.splitting import CutDocument
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.registry import from_config, nearest
from langchain_hybridgraph.stores.protocols import AcceptsChunks

T = TypeVar("T")


class EdgeSet(NamedTuple):
    """Edges that replace all stored edges of the builder's relations that start at the chunks in ``replaces``."""

    edges: Sequence[Edge]
    replaces: Sequence[str] = ()


@runtime_checkable
class EdgeBuilder(Protocol):
    """Builder of edges. An ingest calls ``start`` once, ``see`` for each document, and ``finish`` at the end.

    A subclass needs ``relations`` and at least one of ``see`` and ``finish``. Edges are replaced separately for each
    source chunk, so an ingest of some documents does not have to change the edges of others. If a builder in
    ``edges.BUILDERS`` has a parameter without a default, ``required`` contains its name and an example.
    """

    relations: Sequence[str]
    """Names of the relations that the builder writes. Two builders of the same ingest must not write the same relation.
    """

    def start(self, store: AcceptsChunks) -> None:
        """Discard the state of the previous ingest and prepare for a new ingest into ``store``."""
        return

    # A builder may also have these methods:
    # - before(old_ids), which receives the ids of the stored chunks and parents of each document in the next batch
    #   before the batch is written; a new document has an empty set of ids.
    # - without(relations), which returns a copy that does not write relations that another builder writes.

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
    if isinstance(form, EdgeBuilder) and not isinstance(form, type):
        return form
    name = form.get("type") if isinstance(form, Mapping) else form
    if not isinstance(name, str) or name not in BUILDERS:
        raise ConfigurationError(
            f"edges={form!r} is not an edge builder; {nearest(name, ['auto', *BUILDERS])}pass 'auto', None, "
            f"one of {', '.join(BUILDERS)}, an object such as SequenceEdges(), "
            'or a mapping such as {"type": "similarity", "k": 5}'
        )
    module, _, kind = BUILDERS[name].partition(":")
    builder_class = getattr(import_module(f"{__package__}.{module}"), kind)
    parameter, example = getattr(builder_class, "required", (None, ""))
    if parameter is not None and (isinstance(form, str) or parameter not in form):
        raise ConfigurationError(f"edges={form!r} needs {parameter}: {example}")
    builder: EdgeBuilder = from_config("edges", form, {name: builder_class}, lambda _: False)
    return builder


def slices(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Return consecutive slices of at most ``size`` values."""
    return (values[start : start + size] for start in range(0, len(values), size))
