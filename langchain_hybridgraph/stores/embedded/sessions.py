"""The sessions of an open index: turns of conversations, and expiry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.chunk_metadata import ParsedMetadata, reference
from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.records import Chunk
from langchain_hybridgraph.stores.embedded import catalog_feedback
from langchain_hybridgraph.stores.embedded.catalog_rows import check_name
from langchain_hybridgraph.stores.embedded.reader import is_in
from langchain_hybridgraph.stores.embedded.writer import WrittenIndex
from langchain_hybridgraph.times import iso_time, parse_time

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Scope

MEMORY_TYPE = "episodic"


class SessionedIndex(WrittenIndex):
    """An index that keeps the turns of sessions, each a chunk with ``session_id`` and ``turn`` in its metadata."""

    def session_turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return the last n turns of a session in the scope, newest first (see ``stores.protocols.HasSessions``)."""
        self._check_scope(scope)
        with self._gate:
            turns = self._catalogue.turns(self._rows.tenant, reference(session_id), scope.known_at)
            return list(islice((entry.chunk() for entry in turns if is_in(entry, scope)), max(n, 0)))

    def _add_turns(
        self,
        session_id: str,
        turns: Sequence[tuple[str, str]],
        *,
        created_at: Any = None,
        ttl: float | timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Add (role, text) turns to the end of a session, in one transaction; return their ids."""
        check_name(session_id, "session_id")
        lifetime = _seconds(ttl)
        with self._writer():
            created = self.clock() if created_at is None else parse_time(created_at)
            with self._catalogue.reading() as connection:
                first = catalog_feedback.next_turn(connection, self._rows.tenant, session_id)
            ends = {} if lifetime is None else {"valid_until": iso_time(created + lifetime)}
            about = {"memory_type": MEMORY_TYPE, **(metadata or {}), "session_id": session_id, **ends}
            chunks = [
                Chunk(
                    f"session:{session_id}#{number}",
                    text,
                    {**about, "role": role, "turn": number, "created_at": iso_time(created)},
                    f"session:{session_id}",
                )
                for number, (role, text) in enumerate(turns, first)
            ]
            for chunk in chunks:
                ParsedMetadata.checked(chunk.metadata)
            self.upsert(chunks)
            if chunks:
                self.flush()
        return [chunk.id for chunk in chunks]

    def sessions(self) -> dict[str, int]:
        """Return the number of turns of each session, by the session's id."""
        with self._gate, self._catalogue.reading() as connection:
            return catalog_feedback.sessions(connection, self._rows.tenant)

    def delete_session(self, session_id: str) -> int:
        """Delete all turns of a session; return their number, 0 for an unknown session."""
        with self._writer():
            with self._catalogue.reading() as connection:
                doomed = catalog_feedback.session_ids(connection, self._rows.tenant, reference(session_id))
            return self.remove(doomed)

    def expire(self) -> int:
        """Delete everything that has expired by its own metadata; return the number deleted.

        That is every chunk and parent whose ``valid_until`` has passed, or whose session's time to live has. A
        superseded fact is kept, for searches with ``as_of`` in the past.
        """
        with self._writer():
            with self._catalogue.reading() as connection:
                doomed = catalog_feedback.expired_ids(connection, self._rows.tenant, self.clock())
            return self.remove(doomed)


def _seconds(ttl: float | timedelta | None) -> float | None:
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if seconds is not None and not seconds > 0:
        raise ValueError(f"ttl must be a timedelta or a number of seconds above 0, got {quote_value(ttl)}")
    return seconds
