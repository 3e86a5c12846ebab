"""Joins documents that share metadata values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import date
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters import canonical, join_key, parse_filter, split_key, value_getter
from langchain_hybridgraph.ingestion.chunking import CutDocument, position
from langchain_hybridgraph.ingestion.edges.base import EdgeSet
from langchain_hybridgraph.records import Chunk, Edge, Scope
from langchain_hybridgraph.stores.protocols import AcceptsChunks, ReadsIndex

SHARES = "shares"

# Up to this number values are looked up one by one; for more, all chunks with the key are read.
_FEW_VALUES = 32
_SLICE = 2_000


class MetadataEdges:
    """Edges between chunks of different documents with a common value: equal, or an element of both lists.

    ``keys`` are metadata keys; dots address values in objects, and equality is that of filters. All documents with a
    value form a circle, ordered by id. A chunk is connected to the first chunk with the value in each of the
    ``per_value`` nearest documents in the circle. Up to ``per_value`` + 1 documents are therefore all connected to each
    other, and a value of n chunks makes at most n · ``per_value`` edges instead of n². Edges lead both ways. One common
    value has the weight ``weight``, several have 1 − (1 − ``weight``)ⁿ.

    A new chunk is connected to those of earlier ingests if the store can be queried for them
    (``stores.protocols.ReadsIndex``): adding documents one by one gives the same edges as adding them together. The
    neighbours of a deleted chunk are connected to the next ones when they are ingested again.

    Raises ConfigurationError for no keys, ``per_value`` below 1 and a weight outside (0, 1].

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> chunks = [Chunk(id, "A text.", {"author": "Ada Lovelace"}, id) for id in ("notes", "letters")]
    >>> _ = ingest(chunks, store, split=None, edges=[MetadataEdges(["author"])])
    >>> [(edge.target, edge.relation, edge.description) for edge in store.edges(["notes"])]
    [('letters', 'shares', 'Both have author Ada Lovelace.')]
    """

    def __init__(self, keys: Sequence[str], *, per_value: int = 4, weight: float = 0.5, relation: str = SHARES) -> None:
        named = [keys] if isinstance(keys, str) else list(keys)
        if not named or not all(named):
            raise ConfigurationError(f'MetadataEdges({keys!r}): name at least one metadata key, such as ["author"]')
        if per_value < 1 or not 0 < weight <= 1:
            raise ConfigurationError(
                f"MetadataEdges(per_value={per_value!r}, weight={weight!r}): per_value must be at least 1, "
                "the weight in (0, 1]"
            )
        self.relations = (relation,)
        self._readers = {key: value_getter(split_key(key)) for key in named}
        self._per_value = per_value
        self._weight = weight
        self._store: AcceptsChunks | None = None
        self._seen: dict[str, _Holder] = {}

    def start(self, store: AcceptsChunks) -> None:
        """Forget the values of the last ingest."""
        self._store, self._seen = store, {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Remember the values of the document's chunks; who shares them is known in the end."""
        self._seen.update((chunk.id, self._holder(chunk)) for chunk in document.chunks)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """The edges of the chunks that were handed in, and of those that are their neighbours now or were before."""
        store, seen = self._store, self._seen
        self._store, self._seen = None, {}
        if store is None or not seen:
            return
        seen = _present(seen, store)
        known = self._holders(store, _values(seen.values()), seen)
        moved = _Circles(known.values()).around(seen.values(), self._per_value)
        moved.update((holder.id, holder) for holder in self._pointing(store, list(seen)))
        missing = _values(moved.values()).keys() - _values(seen.values()).keys()
        all_values = _values(moved.values())
        known = self._holders(store, {key: all_values[key] for key in missing}, {**known, **moved})
        circles = _Circles(known.values())
        for some in _slices(sorted(moved)):
            edges = [edge for id in some for edge in self._edges(known[id], circles)]
            yield EdgeSet(edges, some)

    def _edges(self, holder: _Holder, circles: _Circles) -> Iterator[Edge]:
        for target in circles.neighbours(holder, self._per_value):
            shared = [value for value in holder.values if value in target.values]
            said = " and ".join(f"{key} {_short(holder.values[key, value])}" for key, value in shared)
            weight = 1 - (1 - self._weight) ** len(shared)
            yield Edge(holder.id, target.id, self.relations[0], weight, f"Both have {said}.")

    def _holder(self, chunk: Chunk) -> _Holder:
        values: dict[_Value, Any] = {}
        for key, read in self._readers.items():
            values.update(((key, canonical(value)), value) for value in _elements(read(chunk.metadata)))
        return _Holder(chunk.id, chunk.document, position(chunk), values)

    def _holders(
        self, store: AcceptsChunks, values: Mapping[_Value, Any], known: Mapping[str, _Holder]
    ) -> dict[str, _Holder]:
        """The known chunks and those in the store that have one of these values, and perhaps others."""
        if not values or not isinstance(store, ReadsIndex):
            return dict(known)
        if len(values) <= _FEW_VALUES:
            tests = [(key, {op: value}) for (key, _), value in values.items() for op in ("$eq", "$contains")]
        else:
            tests = [(key, {"$exists": True}) for key in {key for key, _ in values}]
        parts = [{join_key(split_key(key)): test} for key, test in tests]
        found = store.find(Scope(parse_filter({"$or": parts})))
        read = self._read(store, [id for id in found if id not in known])
        return {**known, **{holder.id: holder for holder in read}}

    def _pointing(self, store: AcceptsChunks, ids: Sequence[str]) -> Iterator[_Holder]:
        """The chunks whose edges lead to these, rightly or because they once shared a value."""
        if isinstance(store, ReadsIndex):
            for some in _slices(ids):
                arriving = {
                    edge.source for edge in store.edges(some, backwards=True) if edge.relation in self.relations
                }
                yield from self._read(store, sorted(arriving))

    def _read(self, store: ReadsIndex, ids: Sequence[str]) -> Iterator[_Holder]:
        for some in _slices(ids):
            yield from map(self._holder, store.get(some))


_Value = tuple[str, Any]  # the key, and the value as filters compare it


class _Holder(NamedTuple):
    """Chunk with its position in its document, and its values as written."""

    id: str
    document: str
    position: float
    values: Mapping[_Value, Any]


class _Circles:
    """For each value the documents that have it, in the circle of their ids, each with its first chunk that has it."""

    def __init__(self, holders: Iterable[_Holder]) -> None:
        chunks: dict[_Value, dict[str, list[_Holder]]] = {}
        for holder in holders:
            for value in holder.values:
                chunks.setdefault(value, {}).setdefault(holder.document, []).append(holder)
        self._chunks = chunks
        self._first = {
            (value, document): min(found, key=lambda chunk: (chunk.position, chunk.id))
            for value, documents in chunks.items()
            for document, found in documents.items()
        }
        self._order = {value: sorted(documents) for value, documents in chunks.items()}
        self._place = {value: {id: place for place, id in enumerate(order)} for value, order in self._order.items()}

    def neighbours(self, holder: _Holder, n: int) -> list[_Holder]:
        """The chunks that this one leads to, each once."""
        found: dict[str, _Holder] = {}
        for value in holder.values:
            for document in self._nearest(value, holder.document, n):
                first = self._first[value, document]
                found.setdefault(first.id, first)
        return list(found.values())

    def around(self, holders: Iterable[_Holder], n: int) -> dict[str, _Holder]:
        """These chunks, and all that may lead to one of their documents, or did before that came in between."""
        documents = {(value, holder.document) for holder in holders for value in holder.values}
        # One document further than anybody looks, so that the two sides need not be told apart.
        wide = {
            (value, near)
            for value, document in documents
            for near in (document, *self._nearest(value, document, n + 1))
        }
        found = {holder.id: holder for holder in holders}
        found.update((chunk.id, chunk) for value, document in wide for chunk in self._chunks[value][document])
        return found

    def _nearest(self, value: _Value, document: str, n: int) -> Iterator[str]:
        order, place = self._order[value], self._place[value][document]
        steps = min(n, len(order) - 1)
        for step in range(-(steps // 2), steps - steps // 2 + 1):
            if step:
                yield order[(place + step) % len(order)]


def _elements(value: Any) -> Iterator[Any]:
    """The values that may be shared: the value, or the elements of a list; nothing that is empty or an object."""
    for element in value if isinstance(value, (list, tuple, Set)) else (value,):
        plain = element.isoformat() if isinstance(element, date) else element
        if isinstance(plain, (str, int, float)) and plain != "" and not _is_nan(plain):
            yield plain


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _values(holders: Iterable[_Holder]) -> dict[_Value, Any]:
    return {key: value for holder in holders for key, value in holder.values.items()}


def _present(seen: Mapping[str, _Holder], store: AcceptsChunks) -> dict[str, _Holder]:
    """The chunks that are still there: of a document that came twice, those of the first time are gone."""
    there: set[str] = set()
    for some in _slices(sorted({holder.document for holder in seen.values()})):
        there.update(*store.document_chunks(some).values())
    return {id: holder for id, holder in seen.items() if id in there}


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def _slices(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _SLICE):
        yield ids[start : start + _SLICE]
