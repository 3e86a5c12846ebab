"""Edges between documents that share metadata values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import date
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.filters.operators import canonical, join_key, split_key, value_getter
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.splitting import CutDocument, position
from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.stores.protocols import AcceptsChunks, ReadsIndex

SHARES = "shares"

# Maximum number of values to look up one by one; for more values, all chunks with the key are read.
_FEW_VALUES = 32
_SLICE = 2_000


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

    required = ("keys", '{"type": "metadata", "keys": ["author"]}')

    def __init__(self, keys: Sequence[str], *, per_value: int = 4, weight: float = 0.5, relation: str = SHARES) -> None:
        names = [keys] if isinstance(keys, str) else list(keys)
        if not names or not all(names):
            raise ConfigurationError(f'MetadataEdges({keys!r}): name at least one metadata key, such as ["author"]')
        if per_value < 1 or not 0 < weight <= 1:
            raise ConfigurationError(
                f"MetadataEdges(per_value={per_value!r}, weight={weight!r}): per_value must be at least 1, "
                "and weight must be in (0, 1]"
            )
        self.relations = (relation,)
        self._readers = {key: value_getter(split_key(key)) for key in names}
        self._per_value = per_value
        self._weight = weight

    def start(self, store: AcceptsChunks) -> None:
        """Clear the values recorded during the previous ingest."""
        self._store: Any = store
        self._ingested: dict[str, _Holder] = {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the values of the document's chunks, because later documents may have the same values."""
        self._ingested.update((chunk.id, self._holder(chunk)) for chunk in document.chunks)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of the ingested chunks, and of other chunks whose edges may have changed."""
        stored_ids: set[str] = set()
        for batch in slices(sorted({holder.document for holder in self._ingested.values()}), _SLICE):
            stored_ids.update(*self._store.document_chunks(batch).values())
        # If an ingest contains a document twice, the second version may have removed chunks of the first.
        ingested = {id: holder for id, holder in self._ingested.items() if id in stored_ids}
        if not ingested:
            return
        holders = self._holders(_values(ingested.values()), ingested)
        affected = _ValueCircles(holders.values()).affected(ingested.values(), self._per_value)
        if isinstance(self._store, ReadsIndex):  # chunks with an edge to these may no longer share a value with them
            for batch in slices(list(ingested), _SLICE):
                incoming = self._store.edges(batch, backwards=True)
                sources = {edge.source for edge in incoming if edge.relation in self.relations}
                affected.update((holder.id, holder) for holder in self._read(sorted(sources)))
        missing = _values(affected.values()).keys() - _values(ingested.values()).keys()
        all_values = _values(affected.values())
        holders = self._holders({key: all_values[key] for key in missing}, {**holders, **affected})
        circles = _ValueCircles(holders.values())
        for batch in slices(sorted(affected), _SLICE):
            edges = [edge for id in batch for edge in self._edges(holders[id], circles)]
            yield EdgeSet(edges, batch)

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

    def _holders(self, values: Mapping[_Value, Any], holders: Mapping[str, _Holder]) -> dict[str, _Holder]:
        """Return the given ``holders`` and the stored chunks that may have one of the ``values``, by id."""
        if not values or not isinstance(self._store, ReadsIndex):
            return dict(holders)
        if len(values) <= _FEW_VALUES:
            tests = [(key, {op: value}) for (key, _), value in values.items() for op in ("$eq", "$contains")]
        else:
            tests = [(key, {"$exists": True}) for key in {key for key, _ in values}]
        parts = [{join_key(split_key(key)): test} for key, test in tests]
        ids = self._store.find(Scope(parse_filter({"$or": parts})))
        stored_holders = self._read([id for id in ids if id not in holders])
        return {**holders, **{holder.id: holder for holder in stored_holders}}

    def _read(self, ids: Sequence[str]) -> Iterator[_Holder]:
        for some in slices(ids, _SLICE):
            yield from map(self._holder, self._store.get(some))


_Value = tuple[str, Any]  # the key, and the value in the form used for comparison in filters


class _Holder(NamedTuple):
    """Chunk with metadata values. ``values`` maps (key, value in canonical form) to the value in its original form."""

    id: str
    document: str
    position: float
    values: Mapping[_Value, Any]


class _ValueCircles:
    """One circle of documents for each metadata value, sorted by id, each with its first chunk that has the value."""

    def __init__(self, holders: Iterable[_Holder]) -> None:
        chunks: dict[_Value, dict[str, list[_Holder]]] = {}
        for holder in holders:
            for value in holder.values:
                chunks.setdefault(value, {}).setdefault(holder.document, []).append(holder)
        self._chunks = chunks
        self._first = {
            (value, document): min(group, key=lambda chunk: (chunk.position, chunk.id))
            for value, documents in chunks.items()
            for document, group in documents.items()
        }
        self._order = {value: sorted(documents) for value, documents in chunks.items()}
        self._place = {value: {id: place for place, id in enumerate(order)} for value, order in self._order.items()}

    def neighbours(self, holder: _Holder, n: int) -> list[_Holder]:
        """Return the chunks to which a chunk is connected: from up to ``n`` other documents for each value."""
        chunks: dict[str, _Holder] = {}
        for value in holder.values:
            for document in self._nearest(value, holder.document, n):
                first = self._first[value, document]
                chunks.setdefault(first.id, first)
        return list(chunks.values())

    def affected(self, holders: Iterable[_Holder], n: int) -> dict[str, _Holder]:
        """Return, by id, these chunks and all others whose edges may change because of them."""
        documents = {(value, holder.document) for holder in holders for value in holder.values}
        # Include one document more than edges connect, which covers both directions of the circle.
        pairs = {
            (value, near)
            for value, document in documents
            for near in (document, *self._nearest(value, document, n + 1))
        }
        chunks = {holder.id: holder for holder in holders}
        chunks.update((chunk.id, chunk) for value, document in pairs for chunk in self._chunks[value][document])
        return chunks

    def _nearest(self, value: _Value, document: str, n: int) -> Iterator[str]:
        order, place = self._order[value], self._place[value][document]
        steps = min(n, len(order) - 1)
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
