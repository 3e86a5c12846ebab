"""Confidence, utility and validity of memories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.chunks import ParsedMetadata, reference
from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.memory.scores import FeedbackEffect, MemoryColumns, credibility, feedback_effect
from langchain_hybridgraph.records import SUPERSEDES, Edge, MemoryState, Scope, checked_edges
from langchain_hybridgraph.stores.embedded.catalog import memory as catalog_memory
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog import records as catalog_records
from langchain_hybridgraph.stores.embedded.catalog.memory import MemoryValues, StoredMemory
from langchain_hybridgraph.stores.embedded.catalog.rows import catalog_rows
from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
from langchain_hybridgraph.stores.embedded.folder.memory_columns import MemoryMirror
from langchain_hybridgraph.stores.embedded.writer import Writer
from langchain_hybridgraph.times import iso_time, parse_time

if TYPE_CHECKING:
    import sqlite3

    from langchain_hybridgraph.chunks import Chunk

# Seconds between the end of the old fact and the start of the new one, which are never valid at the same time.
INSTANT = 1e-6
_NOTHING = MemoryState()


class EmbeddedMemory:
    """Reads and changes the confidence, utility, validity and uses of chunks. Each operation is one transaction.

    The store's ``clock`` provides the time of each change in Unix seconds; the default is ``time.time``. To replay past
    events, set another clock, which then also determines what :meth:`expire` deletes. Searches always use the real
    time; for a replay, pass ``as_of=`` (and ``known_at=``) to them.

    Earlier values of a chunk's validity, confidence and utility are kept; earlier texts and metadata are not. A changed
    text is treated as a new statement that was not known before. Filters are evaluated on the current metadata, even
    with ``known_at``. A deleted chunk has no history; to keep the history of a statement, retract it instead.
    """

    def __init__(self, index: IndexFolder, writer: Writer) -> None:
        self._index, self._writer = index, writer

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the state of each of these chunks and parents (see ``stores.protocols.HasMemory``).

        With ``known_at``, validity, confidence and utility are the values known at that time. Chunks that were ingested
        after it or retracted before it are left out. Other values, such as the number of uses, are always current.
        """
        self._index.check_scope(scope)
        with self._index.guard, self._index.catalog.reading() as connection:
            return catalog_memory.learned(connection, self._index.rows.tenant, ids, scope.known_at)

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the states of these chunks as columns (see ``stores.protocols.HasMemory``).

        Parents have values only if the scope has a ``known_at``. Without it, the states of all chunks are read into
        memory at the first call.
        """
        self._index.check_scope(scope)
        if scope.known_at is not None:
            memories = self.states(ids, scope)
            return MemoryColumns.of([memories.get(id, _NOTHING) for id in ids])
        with self._index.guard:
            mirror = self._index.mirror(
                MemoryMirror, lambda: MemoryMirror(self._index.catalog, self._index.rows.tenant)
            )
            return mirror.at(self._index.snapshot().rows.places(ids))

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
                catalog_memory.revise(connection, memory, _values_after(memory.values, effect), self._index.clock())
                if memory.source is not None and (effect.ok or effect.bad):
                    catalog_memory.credit(connection, self._index.rows.tenant, memory.source, effect.ok, effect.bad)
        return list(memories)

    def mark_used(self, ids: str | Iterable[str]) -> int:
        """Record one use of each of these memories at the current time; return the number of memories that exist."""
        with self._index.writer(), self._index.catalog.writing() as connection:
            return catalog_memory.mark_used(connection, self._index.rows.tenant, _id_list(ids), self._index.clock())

    def credibility(self, source: str) -> float:
        """Return the credibility of a source: (1 + confirmed) / (2 + confirmed + refuted).

        ``confirmed`` and ``refuted`` count how often chunks of this tenant with this ``source`` in their metadata
        received the feedback ``"validate"`` and ``"refute"``. The result is the mean of Beta(1 + confirmed, 1 +
        refuted), so it is 0.5 for an unknown source.
        """
        with self._index.guard, self._index.catalog.reading() as connection:
            ok, bad = catalog_memory.credibility_counts(connection, self._index.rows.tenant, reference(source))
        return credibility(ok, bad)

    # -- this tenant's search mode ---------------------------------------------------------------------------------

    @property
    def mode(self) -> Any:
        """Search mode for this tenant's memories, or None if no mode was set.

        A mode set by a retriever or a call takes precedence. The mode is a name or a mapping that ``MemoryRetriever``
        accepts.
        """
        with self._index.guard, self._index.catalog.reading() as connection:
            row = connection.execute("SELECT value FROM about WHERE name = ?", (self._mode_name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def set_mode(self, mode: str | Mapping[str, Any] | None) -> None:
        """Set the :attr:`mode`; None deletes it."""
        with self._index.writer(), self._index.catalog.writing() as connection:
            catalog_outbox.set_facts(connection, **{self._mode_name: json.dumps(mode)})

    @property
    def _mode_name(self) -> str:
        return catalog_records.mode_name(self._index.rows.tenant)

    # -- validity and knowledge over time -------------------------------------------------------------------------

    def retract(self, ids: str | Iterable[str]) -> int:
        """Withdraw statements, and return how many of them had not been withdrawn before.

        Searches no longer find them at any ``as_of``. Searches with an earlier ``known_at`` still find them, and
        ``get_by_ids`` always returns them. If the same text is written again under the same id, it stays withdrawn.
        Raises ValueError for an unknown id; in this case, no statement is retracted.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> _ = store.add_texts(["Ada lives in Paris.", "Bo plays chess."], ids=["ada", "bo"])
        >>> store.memory.retract("ada"), [found.id for found in store.similarity_search("Paris or chess?")]
        (1, ['bo'])
        """
        with self._index.writer():
            now = self._index.clock()
            with self._index.catalog.writing() as connection:
                memories = self._read_memories(connection, ids)
                rows = []
                for memory in memories.values():
                    if memory.values.retracted_at is None:
                        catalog_memory.revise(connection, memory, memory.values._replace(retracted_at=now), now)
                        rows.append(memory.row)
                if rows:
                    catalog_outbox.log_changes(connection, [row for row in rows if row is not None])
            self._index.snapshot()
            self._writer.step()
        return len(rows)

    def replace_fact(self, old_id: str, chunk: Chunk, at: Any = None) -> None:
        """Replace an old fact with a new one.

        The new fact is valid from its ``valid_from`` in the metadata, else from ``at``, else from now. The old fact's
        validity ends just before the new fact begins, unless it already ends earlier. Raises ValueError if both have
        the same id, if the old fact is unknown or has already been superseded, or if one of the two facts would end
        before it begins.
        """
        if chunk.id == old_id:
            raise ValueError(f"{quote_value(old_id)} cannot supersede itself: give the new fact an id of its own")
        metadata = ParsedMetadata.check(chunk.metadata)
        with self._index.writer():
            now = self._index.clock()
            self._check_not_superseded(old_id, chunk.id)
            begin = metadata.valid_from if metadata.valid_from is not None else now if at is None else parse_time(at)
            description = f"{chunk.id} replaces {old_id} from {iso_time(begin)} on."
            edge = Edge(chunk.id, old_id, SUPERSEDES, description=description)
            also = partial(self._close, old_id=old_id, new_id=chunk.id, begin=begin, now=now)
            self._writer.write(catalog_rows([chunk], [], self._index.rows.tenant), checked_edges([edge]), also=also)
            self._writer.flush()

    def _check_not_superseded(self, old_id: str, new_id: str) -> None:
        """Raise ValueError if a fact other than the new one has superseded the old fact.

        The other fact may have been superseded in turn. The message names the last fact of this chain, which is valid
        now.
        """
        chain = [old_id]
        while (last := self._successor(chain[-1])) is not None and last not in (*chain, new_id):
            chain.append(last)
        if len(chain) > 1 and last is None:
            raise ValueError(
                f"{quote_value(chain[1])} has already superseded {quote_value(old_id)}, and "
                f"{quote_value(chain[-1])} is valid now: call supersede({quote_value(chain[-1])}, …)"
                + ("" if len(chain) == 2 else f", or retract({quote_value(chain[1])}) first")
            )

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
            raise ValueError(
                f"{quote_value(old_id)} is valid from {iso_time(old.values.valid_from)}, so it cannot end before the "
                f"new fact begins at {iso_time(begin)}: give the new one a later valid_from, or "
                f"retract({quote_value(old_id)})"
            )
        if new.values.valid_until is not None and new.values.valid_until < begin:
            raise ValueError(
                f"{quote_value(new_id)} would be valid until {iso_time(new.values.valid_until)}, before it begins at "
                f"{iso_time(begin)}: give it a later valid_until, or an earlier valid_from"
            )
        if old.values.valid_until is None or old.values.valid_until > end:
            yield from catalog_memory.revise(connection, old, old.values._replace(valid_until=end), now)
        if new.values.valid_from is None:
            yield from catalog_memory.revise(connection, new, new.values._replace(valid_from=begin), now)

    def expire(self) -> int:
        """Delete all chunks and parents that have expired according to their metadata; return the number deleted.

        They have expired if their ``valid_until`` or their session's time to live has passed. A fact that ended only
        because it was superseded is kept, for searches with ``as_of`` in the past.
        """
        with self._index.writer():
            with self._index.catalog.reading() as connection:
                expired = catalog_memory.expired_ids(connection, self._index.rows.tenant, self._index.clock())
            return self._writer.remove(expired)

    # -- look-up ----------------------------------------------------------------------------------------------

    def _read_memories(self, connection: sqlite3.Connection, ids: str | Iterable[str]) -> dict[str, StoredMemory]:
        requested = _id_list(ids)
        memories = catalog_memory.read_states(connection, self._index.rows.tenant, requested)
        if missing := [id for id in requested if id not in memories]:
            raise ValueError(
                f"{quote_value(missing[0])} is not in this store; get_by_ids([…]) returns the Documents that exist"
            )
        return memories


def _id_list(ids: str | Iterable[str]) -> list[str]:
    return [ids] if isinstance(ids, str) else list(dict.fromkeys(ids))


def _values_after(values: MemoryValues, effect: FeedbackEffect) -> MemoryValues:
    confidence, utility = effect.applied_to(values.confidence, values.utility)
    return values._replace(confidence=confidence, utility=utility)
