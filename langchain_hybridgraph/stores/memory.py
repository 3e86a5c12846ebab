"""Confidence, utility and validity of memories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.chunks import ParsedMetadata, reference
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.memory_scores import MemoryColumns, credibility, feedback_effect
from langchain_hybridgraph.records import (
    SUPERSEDES,
    Edge,
    MemoryState,
    Scope,
    best_first,
    check_name,
    check_texts,
    checked_edges,
)
from langchain_hybridgraph.stores import catalog_writes, chunk_rows
from langchain_hybridgraph.stores.access import Reader, Writer
from langchain_hybridgraph.stores.catalog_writes import StoredMemory
from langchain_hybridgraph.stores.chunk_rows import catalog_rows, json_list
from langchain_hybridgraph.stores.generations import FittedEmbedding
from langchain_hybridgraph.stores.index import IndexFolder
from langchain_hybridgraph.stores.row_table import UNPACKED
from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.times import iso_time, parse_time

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk, Vector
    from langchain_hybridgraph.filters.expressions import Filter
    from langchain_hybridgraph.stores.catalog import Catalog

# Number of columns: those from confidence to provenance depth, and the position of the memory type in ``kinds``.
_COLUMNS = len(MemoryColumns._fields) - 1
_AT_ONCE = 50_000


class MemoryMirror:
    """Current states of a tenant's chunks in memory, by row (72 bytes each).

    Later changes are read from a log. The states of 150 chunks take 0.03 ms; from the catalog, 1 ms.
    """

    def __init__(self) -> None:
        self._numbers = UNPACKED
        self._lock = Lock()
        self._position = -1
        self._end = 0
        self._values = np.zeros((0, _COLUMNS))
        self._kinds: dict[str, int] = {}

    def of(self, ids: Sequence[str], index: IndexFolder) -> MemoryColumns:
        """Return the states of these chunks of the index. For an unknown id, all values are unset."""
        with self._lock:
            rows = index.snapshot().rows
            places = np.array(rows.places(ids), np.int64)
            if rows.numbers is not self._numbers:
                values = self._values[: self._end][rows.numbers.still_present(self._numbers, self._end)]
                self._values, self._end, self._numbers = values, len(values), rows.numbers
                self._grow(1)
            self._follow(int(places.max(initial=-1)) + 1, index.catalog, rows.tenant)
            values = self._values[places]
            kinds = list(self._kinds)
        values[places < 0] = _UNSET
        columns = values.T
        return MemoryColumns._make([*columns[:-1], columns[-1].astype(np.int64), kinds])

    def _follow(self, end: int, catalog: Catalog, tenant: str) -> None:
        """Bring the states up to date with the catalog and make sure that they cover all rows below ``end``."""
        log = "SELECT min(number), ifnull(max(number), 0) FROM learned_changes"
        [(_, position)] = catalog.query(log)
        if position == self._position and end <= self._end:
            return
        with catalog.snapshot():
            [(first, position)] = catalog.query(log)
            if self._position < 0 or (first is not None and first > self._position + 1):  # changes have left the log
                self._end = 0
            elif position > self._position:
                self._take(catalog.query(catalog_writes.CHANGED, (tenant, self._position)))
            next_number = int(catalog.facts()["next_row"])
            stop = self._numbers.count(next_number)
            first_number, _ = self._numbers.span(self._end, stop)
            for start in range(first_number, next_number, _AT_ONCE):
                self._take(catalog.query(catalog_writes.FROM_ROW, (tenant, start, start + _AT_ONCE)))
            self._grow(max(stop, 1))  # unknown ids are looked up at position -1
            self._end, self._position = stop, position

    def _take(self, records: Sequence[catalog_writes.ByRow]) -> None:
        if not records:
            return
        rows = self._numbers.rows([one[0] for one in records])
        kinds = [-1 if one[-1] is None else self._kinds.setdefault(one[-1], len(self._kinds)) for one in records]
        self._grow(int(rows.max()) + 1)
        self._values[rows, :-1] = np.array([one[1:-1] for one in records], np.float64)  # None becomes NaN
        self._values[rows, -1] = kinds

    def _grow(self, end: int) -> None:
        if end > len(self._values):
            enlarged_values = np.tile(_UNSET, (max(end, 2 * len(self._values), 1024), 1))
            enlarged_values[: len(self._values)] = self._values
            self._values = enlarged_values


# The state of a chunk without any values: never used, not derived from other memories, without a type.
_UNSET = np.array([np.nan, np.nan, 0.0, np.nan, np.nan, np.nan, np.nan, 0.0, -1.0])


# Seconds between the end of the old fact and the start of the new one, which are never valid at the same time.
INSTANT = 1e-6
_NOTHING = MemoryState()


class EmbeddedMemory:
    """Reads and changes the confidence, utility, validity and uses of chunks. Each operation is one transaction.

    The store's ``clock`` gives the time of changes and of :meth:`expire`; searches use the real time unless they
    receive ``as_of=`` and ``known_at=``.

    Earlier validity, confidence and utility are kept; earlier texts and metadata are not, so filters use current
    metadata. A changed text is a new statement. Deletion removes the history; retract a statement to keep it.
    """

    def __init__(self, index: IndexFolder, writer: Writer) -> None:
        self._index, self._writer = index, writer

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the state of each of these chunks and parents (see ``catalog_writes.learned``)."""
        scope.check_tenant(self._index.settings.tenant)
        with self._index.guard, self._index.catalog.reading() as connection:
            return catalog_writes.learned(connection, self._index.rows.tenant, ids, scope.known_at)

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the states of these chunks as columns; parents have values only with ``known_at``."""
        scope.check_tenant(self._index.settings.tenant)
        if scope.known_at is not None:
            memories = self.states(ids, scope)
            return MemoryColumns.of([memories.get(id, _NOTHING) for id in ids])
        with self._index.guard:
            return self._index.mirror(MemoryMirror).of(ids, self._index)

    # -- feedback --------------------------------------------------------------------------------------------

    def feedback(self, ids: str | Iterable[str], verb: str) -> list[str]:
        """Record feedback on memories and return their ids.

        - ``"validate"``: confidence +0.15, utility +0.05, and the source's credibility rises.
        - ``"refute"``: confidence set to 0.05, utility −0.2, and the source's credibility falls.
        - ``"useful"``: utility +0.15.
        - ``"stale"``: confidence −0.1, utility −0.25.

        The results are clipped to [0, 1]; an unset confidence is treated as 0.5, an unset utility as 1. Raises
        ValueError for any other verb and for an unknown id; in these cases, nothing is changed.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> _ = store.add_texts(["Ada lives in Paris."], [{"source": "chat"}], ids=["home"])
        >>> store.memory.feedback("home", "validate"), store.memory.credibility("chat")
        (['home'], 0.6666666666666666)
        """
        effect = feedback_effect(verb)
        with self._index.writer(), self._index.catalog.writing() as connection:
            memories = self._read_memories(connection, ids)
            for memory in memories.values():
                confidence, utility = effect.applied_to(memory.values.confidence, memory.values.utility)
                after = memory.values._replace(confidence=confidence, utility=utility)
                catalog_writes.revise(connection, memory, after, self._index.clock())
                if memory.source is not None and (effect.ok or effect.bad):
                    connection.execute(
                        "INSERT INTO credibility VALUES (?, ?, ?, ?) "
                        "ON CONFLICT DO UPDATE SET ok = ok + excluded.ok, bad = bad + excluded.bad",
                        (self._index.rows.tenant, memory.source, effect.ok, effect.bad),
                    )
        return list(memories)

    def mark_used(self, ids: str | Iterable[str]) -> int:
        """Record one use of each of these memories at the current time; return the number of memories that exist."""
        with self._index.writer(), self._index.catalog.writing() as connection:
            return connection.execute(
                "UPDATE learned SET active_count = active_count + 1, used_at = ? WHERE node IN "
                "(SELECT node FROM nodes WHERE tenant = ? AND id IN (SELECT value FROM json_each(?)))",
                (self._index.clock(), self._index.rows.tenant, json_list(_id_list(ids))),
            ).rowcount

    def credibility(self, source: str) -> float:
        """Return the credibility of a source: (1 + confirmed) / (2 + confirmed + refuted), 0.5 for an unknown one.

        It counts the feedback ``"validate"`` and ``"refute"`` for this tenant's chunks with this ``source`` in the
        metadata.
        """
        sql = "SELECT ok, bad FROM credibility WHERE tenant = ? AND source = ?"
        [(ok, bad)] = self._index.query(sql, reference(source)) or [(0, 0)]
        return credibility(ok, bad)

    # -- this tenant's search mode ---------------------------------------------------------------------------------

    @property
    def mode(self) -> Any:
        """Search mode (name or mapping) for this tenant's memories, or None; a retriever's or call's has priority."""
        name = chunk_rows.mode_name(self._index.rows.tenant)
        results = self._index.query("SELECT value FROM about WHERE name = ?2", name)
        return json.loads(results[0][0]) if results else None

    def set_mode(self, mode: str | Mapping[str, Any] | None) -> None:
        """Set the :attr:`mode`; None deletes it."""
        with self._index.writer(), self._index.catalog.writing() as connection:
            catalog_writes.set_facts(connection, **{chunk_rows.mode_name(self._index.rows.tenant): json.dumps(mode)})

    # -- validity and knowledge over time -------------------------------------------------------------------------

    def retract(self, ids: str | Iterable[str]) -> int:
        """Withdraw statements, and return how many of them had not been withdrawn before.

        Searches find them only with an earlier ``known_at``; ``get_by_ids`` always returns them. Writing the same text
        again does not restore it. Raises ValueError for an unknown id; then nothing is retracted.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> _ = store.add_texts(["Ada lives in Paris.", "Bo plays chess."], ids=["ada", "bo"])
        >>> store.memory.retract("ada"), [found.id for found in store.similarity_search("Paris or chess?")]
        (1, ['bo'])
        """
        with self._index.writer():
            now = self._index.clock()
            with self._index.catalog.writing() as connection:
                memories = self._read_memories(connection, ids).values()
                current = [memory for memory in memories if memory.values.retracted_at is None]
                for memory in current:
                    catalog_writes.revise(connection, memory, memory.values._replace(retracted_at=now), now)
                if current:
                    catalog_writes.log_changes(connection, [one.row for one in current if one.row is not None])
            self._index.snapshot()
            self._index.sync_keywords()
        return len(current)

    def replace_fact(self, old_id: str, chunk: Chunk, at: Any = None) -> None:
        """Replace an old fact with one valid from its ``valid_from``, ``at`` or now; the old one ends just before.

        Raises ValueError if both have the same id, if the old fact is unknown or superseded, or if one would end before
        it begins.
        """
        check_name(old_id, "old_id")
        if chunk.id == old_id:
            raise ConfigurationError(
                f"{quote_value(old_id)} cannot supersede itself: give the new fact an id of its own"
            )
        metadata = ParsedMetadata.check(chunk.metadata)
        with self._index.writer():
            now = self._index.clock()
            later = self._successor(old_id)
            if later not in (None, chunk.id):
                raise ConfigurationError(
                    f"{quote_value(later)} has already superseded {quote_value(old_id)}: call "
                    f"supersede({quote_value(later)}, …), or retract({quote_value(later)}) first"
                )
            begin = metadata.valid_from if metadata.valid_from is not None else now if at is None else parse_time(at)
            description = f"{chunk.id} replaces {old_id} from {iso_time(begin)} on."
            edge = Edge(chunk.id, old_id, SUPERSEDES, description=description)
            also = partial(self._close, old_id=old_id, new_id=chunk.id, begin=begin, now=now)
            self._writer.write_rows(
                catalog_rows([chunk], [], self._index.rows.tenant), checked_edges([edge]), also=also
            )
            self._writer.flush()

    def _successor(self, id: str) -> str | None:
        edges = self._index.catalog.edges(self._index.rows.tenant, [id], backwards=True)
        sources = [edge.source for edge in edges if edge.relation == SUPERSEDES]
        memory = self.states(sources, Scope())  # leaves out retracted facts
        return max((one for one in sources if one in memory), default=None)

    def _close(
        self, connection: sqlite3.Connection, *, old_id: str, new_id: str, begin: float, now: float
    ) -> Iterator[int]:
        memories = self._read_memories(connection, [old_id, new_id])
        old, new = memories[old_id], memories[new_id]
        end = begin - INSTANT
        if old.values.valid_from is not None and old.values.valid_from > end:
            raise ConfigurationError(
                f"{quote_value(old_id)} is valid from {iso_time(old.values.valid_from)}, so it cannot end before the "
                f"new fact begins at {iso_time(begin)}: give the new one a later valid_from, or "
                f"retract({quote_value(old_id)})"
            )
        if new.values.valid_until is not None and new.values.valid_until < begin:
            raise ConfigurationError(
                f"{quote_value(new_id)} would be valid until {iso_time(new.values.valid_until)}, before it begins at "
                f"{iso_time(begin)}: give it a later valid_until, or an earlier valid_from"
            )
        if old.values.valid_until is None or old.values.valid_until > end:
            yield from catalog_writes.revise(connection, old, old.values._replace(valid_until=end), now)
        if new.values.valid_from is None:
            yield from catalog_writes.revise(connection, new, new.values._replace(valid_from=begin), now)

    def expire(self) -> int:
        """Delete chunks and parents whose ``valid_until`` or session's time to live has passed; return their number.

        A fact that ended by being superseded is kept.
        """
        with self._index.writer():
            sql = "SELECT id FROM learned CROSS JOIN nodes USING (node) WHERE tenant = ? AND expires_at < ?"
            return self._writer.remove([id for (id,) in self._index.query(sql, self._index.clock())])

    # -- look-up ----------------------------------------------------------------------------------------------

    def _read_memories(self, connection: sqlite3.Connection, ids: str | Iterable[str]) -> dict[str, StoredMemory]:
        requested = _id_list(ids)
        memories = catalog_writes.read_states(connection, self._index.rows.tenant, requested)
        if missing := [id for id in requested if id not in memories]:
            raise ConfigurationError(
                f"{quote_value(missing[0])} is not in this store; get_by_ids([…]) returns the Documents that exist"
            )
        return memories


def _id_list(ids: str | Iterable[str]) -> list[str]:
    return [ids] if isinstance(ids, str) else list(dict.fromkeys(check_texts("ids", "ids", ids)))


class MemoryChange(NamedTuple):
    """A change to an existing memory: its new confidence, or None to keep it, and the number of uses to add."""

    id: str
    confidence: float | None = None
    uses: int = 0


class MemoryIntake(Reader):
    """The operations on an index that are needed to admit new memories."""

    def __init__(self, index: IndexFolder, writer: Writer, memory: EmbeddedMemory) -> None:
        super().__init__(index)
        self._writer = writer
        self.states, self.credibility, self.exclusive = memory.states, memory.credibility, index.writer

    def clock(self) -> float:
        """Return the current time of the store's clock, in Unix seconds."""
        return self._index.clock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the unit vectors of texts, or None if there are no texts or the embedding has not been fitted yet."""
        with self._index.guard:
            generation = self._index.snapshot().generation
            return None if self._index.is_unfitted(generation) or not texts else self._index.embed(texts, generation)

    def nearest(
        self, vector: Vector, n: int, period: tuple[float, float], filter: Filter | None = None
    ) -> list[tuple[str, float]]:
        """Return (id, cosine) for the ``n`` nearest chunks that match the filter and are valid within the period."""
        with self._index.guard:
            snapshot = self._index.snapshot()
            matrix = snapshot.generation.matrix
            if matrix is None:
                return []
            allowed_rows = snapshot.rows.overlapping(*period)
            if filter is not None:
                allowed_rows &= snapshot.rows.columns.mask(filter, len(allowed_rows))
            rows, scores = matrix.search(vector, n, allowed_rows[: len(matrix)])
            return list(best_first(zip(snapshot.rows.ids(rows.tolist()), scores.tolist(), strict=True)).items())

    def has_pretrained_model(self) -> bool:
        """Return whether the vectors come from a model that was not fitted to the texts of this index."""
        return not isinstance(self._index.generation.embedding, FittedEmbedding)

    def unknown_word_share(self, text: str, other: str) -> float:
        """Return the share of words in ``text`` that neither the fitted model nor ``other`` contains; 0 if not fitted.

        A fitted model cannot distinguish "lives in Rome" from "lives in Paris" before it has seen "Rome".
        """
        with self._index.guard:
            words_of = Analyzer(self._index.shared.language).words
            words = set(words_of(text))
            others = sorted(words.difference(words_of(other)))
            if self.has_pretrained_model() or not others:
                return 0.0
            return int(np.count_nonzero(~self._index.embed(others, self._index.generation).any(axis=1))) / len(words)

    def insert(
        self,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32] | None,
        edges: Sequence[Edge],
        changes: Sequence[MemoryChange],
    ) -> None:
        """Write new memories, their edges and the changes to existing memories in one transaction.

        ``vectors`` is the result of :meth:`embed`. A memory without a creation time gets the current time.
        """
        batch = catalog_rows(chunks, [], self._index.rows.tenant)
        vectors_by_id = None
        # A model fitted to the corpus may have been fitted again since the vectors were computed.
        if vectors is not None and not isinstance(self._index.generation.embedding, FittedEmbedding):
            vectors_by_id = {chunk.id: vector for chunk, vector in zip(chunks, vectors, strict=True)}
        with self._index.writer():
            undated = [entry.id for entry in batch if entry.metadata_values.created_at is None]
            also = partial(self._change, undated=undated, changes=changes, now=self._index.clock())
            self._writer.write_rows(batch, checked_edges(edges), vectors_by_id, also)
            self._writer.flush()

    def _change(
        self, connection: sqlite3.Connection, *, undated: Sequence[str], changes: Sequence[MemoryChange], now: float
    ) -> Iterator[int]:
        for memory in catalog_writes.read_states(connection, self._index.rows.tenant, undated).values():
            if memory.values.created_at is None:
                yield from catalog_writes.revise(
                    connection, memory, memory.values._replace(created_at=memory.values.learned_at), now
                )
        for change in changes:
            for memory in catalog_writes.read_states(connection, self._index.rows.tenant, [change.id]).values():
                after = memory.values
                if change.uses:
                    after = after._replace(active_count=after.active_count + change.uses, used_at=now)
                if change.confidence is not None:
                    after = after._replace(confidence=change.confidence)
                yield from catalog_writes.revise(connection, memory, after, now)
