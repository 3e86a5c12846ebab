"""Memories and sessions in Milvus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.chunks import ParsedMetadata, reference
from langchain_hybridgraph.memory.scores import MemoryColumns
from langchain_hybridgraph.records import MemoryState
from langchain_hybridgraph.stores.milvus.filters import has_any, mark
from langchain_hybridgraph.stores.milvus.index import CHUNK_FIELDS, MilvusIndex
from langchain_hybridgraph.stores.milvus.rows import stored_row

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Chunk
    from langchain_hybridgraph.records import Scope


# Methods that only the memory of a store in a folder has.
_MEMORY_VERBS = frozenset(
    ("credibility", "expire", "feedback", "mark_used", "remember", "replace_fact", "retract", "set_mode", "supersede")
)
_SESSION_VERBS = frozenset(("add", "add_pairs", "counts", "delete"))


class MilvusMemory:
    """Memory states of chunks, read from their metadata.

    A state changes only if the chunk is written again with other metadata.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError; for a method that other stores have, the message suggests an alternative."""
            if name in _MEMORY_VERBS:
                raise AttributeError(
                    f"a store in Milvus has no memory.{name}: keep memories in a HybridGraphStore, which records "
                    "later changes to them, or write the changed metadata with upsert"
                )
            raise AttributeError(f"a store in Milvus has no memory.{name}")

    mode = None

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the memory state of each of these chunks (see ``stores.protocols.HasMemory``)."""
        self._index.check_scope(scope)
        rows = self._index.recent_rows(ids)
        return {
            id: _state(ParsedMetadata.of(row.chunk.metadata), row.added_at / 1e9)
            for id, row in rows.items()
            if scope.known_at is None or row.added_at <= scope.known_at * 1e9
        }

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the memory states as columns with one entry per id."""
        states = self.states(ids, scope)
        return MemoryColumns.of([states.get(id, MemoryState()) for id in ids])


class MilvusSessions:
    """Sessions in Milvus; each turn is a chunk with ``session_id`` and ``turn`` in its metadata."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError; for a method that other stores have, the message suggests an alternative."""
            if name in _SESSION_VERBS:
                raise AttributeError(
                    f"a store in Milvus has no sessions.{name}: write each turn as a chunk with session_id and turn in "
                    "its metadata, and delete it by its id"
                )
            raise AttributeError(f"a store in Milvus has no sessions.{name}")

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return the last ``n`` turns of a session in the call's scope, newest first."""
        filter = self._index.in_scope(scope, has_any([mark("session", reference(session_id))]))
        rows = [stored_row(entity) for entity in self._index.read_all(self._index.names.chunks, filter, CHUNK_FIELDS)]
        turns = [row for row in rows if row.is_in(scope)]
        turns.sort(key=lambda row: (row.chunk.metadata.get("turn") or 0, row.added_at), reverse=True)
        return [row.chunk for row in turns[:n]]


def _state(metadata: ParsedMetadata, added_at: float) -> MemoryState:
    return MemoryState(
        confidence=metadata.confidence,
        utility=metadata.utility,
        active_count=metadata.active_count or 0,
        updated_at=metadata.updated_at,
        valid_from=metadata.valid_from,
        valid_until=metadata.valid_until,
        created_at=metadata.created_at,
        learned_at=added_at,
        memory_type=metadata.memory_type,
        provenance_depth=metadata.provenance_depth or 0,
    )
