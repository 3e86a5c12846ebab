"""Edge builders, and edges from metadata."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from datetime import date
from itertools import combinations, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from langchain_hybridgraph.chunks import Chunk, directory_of
from langchain_hybridgraph.errors import ConfigurationError, check_number, check_whole_number
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.filters.operators import canonical, join_key, split_key, value_getter
from langchain_hybridgraph.ingestion.splitting import CutDocument, chunk_index, first_chunk_id, in_order, position
from langchain_hybridgraph.records import CONTAINS, SEQUENCE, Edge, Scope, check_name, check_texts
from langchain_hybridgraph.registry import from_config, imported_factory, nearest
from langchain_hybridgraph.stores.protocols import AcceptsChunks, ReadsIndex

T = TypeVar("T")

BUILDERS = {
    "sequence": "base:SequenceEdges",
    "links": "links:LinkEdges",
    "hierarchy": "base:HierarchyEdges",
    "entities": "entities:EntityEdges",
    "metadata": "base:MetadataEdges",
    "citations": "links:CitationEdges",
    "similarity": "vectors:SimilarityEdges",
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
    gives_way = False
    """Whether the builder does not write the relations that another builder of the same ingest writes."""

    def start(self, store: AcceptsChunks) -> None:
        """Discard the state of the previous ingest and prepare for a new ingest into ``store``."""

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents."""

    def see(self, document: CutDocument) -> Iterable[EdgeSet]:
        """Receive a document whose chunks are stored, and yield the edges that do not depend on later documents."""
        return ()

    def finish(self) -> Iterable[EdgeSet]:
        """Yield the edges that depend on several documents; the store is then up to date and can be searched."""
        return ()

    def incoming(self, store: ReadsIndex, ids: Sequence[str]) -> Iterator[Edge]:
        """Yield the stored edges of the builder's relations that end at these chunks."""
        for batch in slices(ids):
            yield from (edge for edge in store.edges(batch, backwards=True) if edge.relation in self.relations)


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
        raise ConfigurationError(f"edges={edges!r}: pass 'auto', None, or a list such as ['links', SequenceEdges()]")
    builders = [_builder(each) for form in forms for each in (AUTO if form == "auto" else (form,))]
    for relation in (relation for builder in builders for relation in builder.relations):
        check_name(relation, "a relation")
    fixed = {name for builder in builders if not builder.gives_way for name in builder.relations}
    for number, builder in enumerate(builders):
        if builder.gives_way and not fixed.isdisjoint(builder.relations):
            builders[number] = copy(builder)
            builders[number].relations = [name for name in builder.relations if name not in fixed]
    for builder, other in combinations(builders, 2):
        if shared_relations := set(builder.relations) & set(other.relations):
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


def slices(values: Sequence[T], size: int = 2_000) -> Iterator[Sequence[T]]:
    """Return consecutive slices of at most ``size`` values."""
    return (values[start : start + size] for start in range(0, len(values), size))


# -- order, directories, shared values ------------------------------------------------------------------------------

SHARES = "shares"

# Maximum number of values to look up one by one; for more values, all chunks with the key are read.
_FEW_VALUES = 32


def text_of(value: Any) -> str:
    """Return a metadata value as a string, "" for None."""
    return "" if value is None else str(value)


class SequenceEdges(EdgeBuilder):
    """Edges of weight 1 from each chunk to the next chunk of the same parent, or of the document without parents.

    Chunks are ordered by ``chunk_index``, in any batches. Chunks without an index keep the order of the ingest.

    >>> from langchain_hybridgraph import Chunk
    >>> chunks = tuple(Chunk(str(i), "", {}, "d", parent) for i, parent in enumerate(["p1", "p1", "p2", "p2"]))
    >>> builder = SequenceEdges()
    >>> builder.start(store=None)
    >>> edge_sets = [*builder.see(CutDocument("d", {}, chunks)), *builder.finish()]
    >>> [(edge.source, edge.target) for edge_set in edge_sets for edge in edge_set.edges]
    [('0', '1'), ('2', '3')]
    """

    relations = (SEQUENCE,)

    def start(self, store: AcceptsChunks) -> None:
        """Clear the chunks recorded during the previous ingest."""
        # The name of each document, and the parent and the index of its chunks, in the order of the ingest.
        self._documents: dict[str, tuple[str, dict[str, tuple[str | None, float | None]]]] = {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the chunks; later parts of the document may have chunks that come before them."""
        if document.chunks:
            if not document.continues or document.id not in self._documents:
                self._documents[document.id] = document.title or document.id, {}
            chunks = self._documents[document.id][1]
            for chunk in document.chunks:
                chunks.pop(chunk.id, None)
                chunks[chunk.id] = chunk.parent, chunk_index(chunk)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all documents."""
        for documents in slices(list(self._documents.values()), 1_000):
            edges = [edge for name, chunks in documents for edge in _sequence(name, chunks)]
            yield EdgeSet(edges, [id for _, chunks in documents for id in chunks])


def _sequence(name: str, chunks: Mapping[str, tuple[str | None, float | None]]) -> Iterator[Edge]:
    groups: dict[str | None, list[tuple[str, float | None]]] = {}
    for id, (parent, index) in chunks.items():
        groups.setdefault(parent, []).append((id, index))
    for group in groups.values():
        ordered = enumerate(in_order(group, itemgetter(1)), start=1)
        numbered = [(id, place if index is None else index + 1) for place, (id, index) in ordered]
        for (source, before), (target, after) in pairwise(numbered):
            yield Edge(source, target, SEQUENCE, 1.0, f"In “{name}”, part {after:g} follows part {before:g}.")


class HierarchyEdges(EdgeBuilder):
    """Edges of weight 1 from each directory to its contents.

    The location of a document is the ``uri`` in its metadata, with any scheme: ``docs/use.md`` is in the directory
    ``docs``. For ``https://docs.org/use/install``, the top directory is ``https://docs.org``.

    A document is represented by its first chunk, which also represents a directory if the ``uri`` is the path of one. A
    document of an earlier ingest does so only if its id is this path. Any other directory is a node that exists only in
    the graph, with the path as its id.

    >>> from langchain_hybridgraph import Chunk, HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> chunks = [Chunk("use", "How to use it.", {"uri": "docs/use.md"}, "use")]
    >>> _ = ingest(chunks, store, split=None, edges=[HierarchyEdges()])
    >>> [(edge.source, edge.relation, edge.target) for edge in store.edges(["docs"])]
    [('docs', 'contains', 'use')]
    """

    relations = (CONTAINS,)

    def start(self, store: AcceptsChunks) -> None:
        """Clear the locations recorded during the previous ingest."""
        self._store = store
        self._chunks: dict[str, str] = {}  # first chunk of the document at each uri

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the location of the document. When all documents are known, :meth:`finish` yields the edges."""
        uri = text_of(document.metadata.get("uri")).rstrip("/")
        if uri and document.chunks:
            self._chunks.setdefault(uri, document.chunks[0].id)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges to all ingested documents and to the directories above them."""
        nodes = dict(self._chunks)
        directories: dict[str, None] = {}
        for uri in nodes:
            directory = directory_of(uri)
            while directory and directory not in directories:
                directories[directory] = None
                directory = directory_of(directory)
        for batch in slices([directory for directory in directories if directory not in nodes]):
            stored = self._store.document_chunks(batch)
            for directory in batch:
                first = first_chunk_id(directory)
                nodes[directory] = first if first in stored.get(directory, ()) else directory
        edges: list[Edge] = []
        for uri, node in nodes.items():
            if (above := directory_of(uri)) and nodes[above] != node:
                text = f"{above} contains {uri.rsplit('/', 1)[-1]}."
                edges.append(Edge(nodes[above], node, CONTAINS, 1.0, text))
        yield from map(EdgeSet, slices(edges))


class MetadataEdges(EdgeBuilder):
    """Edges between chunks of different documents with a metadata value, or an element of a list, in common.

    ``keys`` are metadata keys, with dots for values in nested objects. Values are compared as in filters. The weight of
    an edge is ``weight`` for one shared value, and 1 − (1 − ``weight``)ⁿ for n shared values.

    For each of its values, a chunk has edges to at most ``per_value`` other documents. To select them, all documents
    with the value are arranged in a circle, ordered by id, and the neighbours of the chunk's document on both sides are
    selected. An edge ends at the first chunk with the value in the other document.

    If the store can be queried (``stores.protocols.ReadsIndex``), adding documents one by one gives the same edges as
    adding them together. After a chunk is deleted, its neighbours have fewer edges until they are ingested again.

    Raises ConfigurationError if ``keys`` is empty, ``per_value`` is below 1, or ``weight`` is outside (0, 1].

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> chunks = [Chunk(id, "A text.", {"author": "Ada Lovelace"}, id) for id in ("notes", "letters")]
    >>> _ = ingest(chunks, store, split=None, edges=[MetadataEdges(["author"])])
    >>> [(edge.target, edge.relation, edge.description) for edge in store.edges(["notes"])]
    [('letters', 'shares', 'Both have author Ada Lovelace.')]
    """

    def __init__(self, keys: Sequence[str], *, per_value: int = 4, weight: float = 0.5, relation: str = SHARES) -> None:
        names = [keys] if isinstance(keys, str) else list(check_texts("keys", "keys", keys))
        if not names or not all(names):
            raise ConfigurationError(f'MetadataEdges({keys!r}): name at least one metadata key, such as ["author"]')
        check_whole_number("per_value", per_value, 1)
        check_number("weight", weight, gt=0, le=1)
        self.relations = (relation,)
        self._keys = names
        self._per_value = per_value
        self._weight = weight

    def start(self, store: AcceptsChunks) -> None:
        """Clear the values recorded during the previous ingest."""
        self._store: Any = store
        self._readers = {key: value_getter(split_key(key)) for key in self._keys}
        self._documents: dict[str, list[_Holder]] = {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the values of the document's chunks, because later documents may have the same values."""
        if not document.continues:
            self._documents[document.id] = []
        self._documents.setdefault(document.id, []).extend(map(self._holder, document.chunks))
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of the ingested chunks, and of other chunks whose edges may have changed."""
        ingested = {holder.id: holder for holders in self._documents.values() for holder in holders}
        values = _values(ingested.values())
        holders = self._with_stored(ingested, values)
        affected = _ValueCircles(holders.values()).affected(ingested.values(), self._per_value)
        if isinstance(self._store, ReadsIndex):  # chunks with an edge to these may no longer share a value with them
            sources = {edge.source for edge in self.incoming(self._store, list(ingested))}
            affected.update((holder.id, holder) for holder in self._read(sorted(sources)))
        others = {key: value for key, value in _values(affected.values()).items() if key not in values}
        holders = self._with_stored({**holders, **affected}, others)
        circles = _ValueCircles(holders.values())
        for batch in slices(sorted(affected)):
            yield EdgeSet([edge for id in batch for edge in self._edges(holders[id], circles)], batch)

    def _edges(self, holder: _Holder, circles: _ValueCircles) -> Iterator[Edge]:
        for target in circles.neighbours(holder, self._per_value):
            shared = [value for value in holder.values if value in target.values]
            texts = [(key, " ".join(str(holder.values[key, value]).split())) for key, value in shared]
            description = " and ".join(f"{key} {x if len(x) <= 80 else f'{x[:79]}…'}" for key, x in texts)
            weight = 1 - (1 - self._weight) ** len(shared)
            yield Edge(holder.id, target.id, self.relations[0], weight, f"Both have {description}.")

    def _holder(self, chunk: Chunk) -> _Holder:
        values: dict[_Value, Any] = {}
        for key, read in self._readers.items():
            values.update(((key, canonical(value)), value) for value in _elements(read(chunk.metadata)))
        return _Holder(chunk.id, chunk.document, position(chunk), values)

    def _with_stored(self, holders: Mapping[str, _Holder], values: Mapping[_Value, Any]) -> dict[str, _Holder]:
        """Return the given ``holders`` and the stored chunks that may have one of the ``values``, by id."""
        if not values or not isinstance(self._store, ReadsIndex):
            return dict(holders)
        if len(values) <= _FEW_VALUES:
            tests = [(key, {op: value}) for (key, _), value in values.items() for op in ("$eq", "$contains")]
        else:
            tests = [(key, {"$exists": True}) for key in {key for key, _ in values}]
        parts = [{join_key(split_key(key)): test} for key, test in tests]
        ids = self._store.find(Scope(parse_filter({"$or": parts})))
        stored = self._read([id for id in ids if id not in holders])
        return {**holders, **{holder.id: holder for holder in stored}}

    def _read(self, ids: Sequence[str]) -> Iterator[_Holder]:
        for some in slices(ids):
            yield from map(self._holder, self._store.get(some))


_Value = tuple[str, Any]  # the key, and the value in the form used for comparison in filters


class _Holder(NamedTuple):
    """Chunk with metadata values. ``values`` maps (key, value in canonical form) to the value in its original form."""

    id: str
    document: str
    position: float
    values: Mapping[_Value, Any]


class _ValueCircles:
    """One circle of documents for each metadata value, sorted by id, each with its chunks that have the value."""

    def __init__(self, holders: Iterable[_Holder]) -> None:
        self._chunks: dict[_Value, dict[str, list[_Holder]]] = {}
        for holder in sorted(holders, key=lambda each: (each.document, each.position, each.id)):
            for value in holder.values:
                self._chunks.setdefault(value, {}).setdefault(holder.document, []).append(holder)
        self._documents = {value: list(documents) for value, documents in self._chunks.items()}

    def neighbours(self, holder: _Holder, n: int) -> list[_Holder]:
        """Return the chunks to which a chunk is connected: from up to ``n`` other documents for each value."""
        pairs = ((value, near) for value in holder.values for near in self._nearest(value, holder.document, n))
        first_chunks = (self._chunks[value][document][0] for value, document in pairs)
        return list({chunk.id: chunk for chunk in first_chunks}.values())

    def affected(self, holders: Iterable[_Holder], n: int) -> dict[str, _Holder]:
        """Return, by id, these chunks and all others whose edges may change because of them."""
        documents = {(value, holder.document) for holder in holders for value in holder.values}
        # Include one document more than edges connect, which covers both directions of the circle.
        near = {(value, other) for value, document in documents for other in self._nearest(value, document, n + 1)}
        chunks = {holder.id: holder for holder in holders}
        pairs = documents | near
        chunks.update((chunk.id, chunk) for value, document in pairs for chunk in self._chunks[value][document])
        return chunks

    def _nearest(self, value: _Value, document: str, n: int) -> Iterator[str]:
        order = self._documents[value]
        place, steps = bisect_left(order, document), min(n, len(order) - 1)
        for step in range(-(steps // 2), steps - steps // 2 + 1):
            if step:
                yield order[(place + step) % len(order)]


def _elements(value: Any) -> Iterator[Any]:
    """Yield the elements of a list, or the value itself, without empty values, NaN and objects."""
    for element in value if isinstance(value, (list, tuple, Set)) else (value,):
        plain = element.isoformat() if isinstance(element, date) else element
        is_nan = isinstance(plain, float) and math.isnan(plain)
        if isinstance(plain, (str, int, float)) and plain != "" and not is_nan:
            yield plain


def _values(holders: Iterable[_Holder]) -> dict[_Value, Any]:
    return {key: value for holder in holders for key, value in holder.values.items()}
