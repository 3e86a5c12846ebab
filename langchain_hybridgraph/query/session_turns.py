"""Turns of a session, from a store or history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.query.conversation.history import turns
from langchain_hybridgraph.records import Chunk, Query, Scope, ScoredId, SourceResult, content_id
from langchain_hybridgraph.records.queries import in_scope
from langchain_hybridgraph.stores.protocols import (
    HasOriginals,
    HasParents,
    HasSessions,
    HasVectors,
    ReadsChunks,
    implements,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SessionTurns(Protocol):
    """Turns of a session, read for one call."""

    turns: Sequence[Chunk]

    @property
    def is_foreign(self) -> bool:
        """Whether the turns are not in the store."""
        ...

    def call(self, query: Query) -> Effect:
        """Return the call that reads the turns, newest first, and stores them in this object."""
        ...

    def vectors(self, store: ReadsChunks) -> NDArray[np.float32] | None:
        """Return the unit vectors of the turns that were read, or None if they have no vectors."""
        ...


class StoredTurns:
    """Last turns of a session that is kept in a store."""

    is_foreign = False

    def __init__(self, store: HasSessions, session_id: str, n: int) -> None:
        self.turns: Sequence[Chunk] = ()
        self._store, self._session_id, self._n = store, session_id, n

    def call(self, query: Query) -> Effect:
        """Implement :meth:`SessionTurns.call`."""

        def read() -> Sequence[Chunk]:
            self.turns = self._store.sessions.turns(self._session_id, self._n, query.scope)
            return self.turns

        return Effect("session", read, quick=True)

    def vectors(self, store: ReadsChunks) -> NDArray[np.float32] | None:
        """Implement :meth:`SessionTurns.vectors`."""
        return store.vectors([turn.id for turn in self.turns]) if implements(store, HasVectors) else None


class HistoryTurns:
    """Last messages of a chat history or of a list of messages."""

    is_foreign = True

    def __init__(self, history: Any, n: int, embed: Callable[[Sequence[str]], NDArray[np.float32] | None]) -> None:
        self.turns: Sequence[Chunk] = ()
        self._history, self._n, self._embed = history, n, embed
        self._vectors: NDArray[np.float32] | None = None

    def call(self, query: Query) -> Effect:
        """Implement :meth:`SessionTurns.call`."""

        def read() -> Sequence[Chunk]:
            last = turns(self._history, query.text or "")[::-1][: self._n]
            chunks = [_chunk_of(turn.text, turn.speaker) for turn in last]
            self.turns = list({chunk.id: chunk for chunk in chunks}.values())
            self._vectors = self._embed([turn.text for turn in self.turns])
            return self.turns

        return Effect("session", read, lane=lane_of("session", self._history))

    def vectors(self, store: ReadsChunks) -> NDArray[np.float32] | None:
        """Implement :meth:`SessionTurns.vectors`."""
        return self._vectors


def _chunk_of(text: str, speaker: str) -> Chunk:
    metadata = {"role": speaker} if speaker else {}
    return Chunk(content_id(text, ""), text, metadata)


class StoreWithMessages:
    """View of a store that also contains the messages of a session.

    The messages can be read and filtered like stored chunks.
    """

    def __init__(self, store: ReadsChunks, session: SessionTurns) -> None:
        self.store = store
        self.session = session

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Implement :class:`~langchain_hybridgraph.stores.protocols.ReadsChunks`."""
        messages = {turn.id: turn for turn in self.session.turns if in_scope(turn, replace(scope, tenant=None))}
        chunks = self.store.read(ids, scope, {id: chunk for id, chunk in result_chunks.items() if id not in messages})
        return {id: chunks.get(id) or messages[id] for id in ids if id in chunks or id in messages}

    def originals(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """Implement :class:`~langchain_hybridgraph.stores.protocols.HasOriginals`.

        The result is empty if the wrapped store does not keep copies of another store's chunks.
        """
        return self.store.originals(ids) if implements(self.store, HasOriginals) else {}

    @property
    def has_parents(self) -> bool:
        """Implement :class:`~langchain_hybridgraph.stores.protocols.HasParents`."""
        return implements(self.store, HasParents) and self.store.has_parents

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Implement :class:`~langchain_hybridgraph.stores.protocols.HasParents`."""
        assert implements(self.store, HasParents)
        return self.store.read_parents(ids, scope)

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Implement :class:`~langchain_hybridgraph.stores.protocols.HasVectors`.

        The vector of a message is all zeros. If the wrapped store has no vectors, all vectors are zeros.
        """
        if not implements(self.store, HasVectors):
            return np.zeros((len(ids), 1), np.float32)
        return self.store.vectors(ids)


@dataclass(frozen=True, slots=True, eq=False)
class SessionSource:
    """Source of the last turns of a session, newest first.

    The i-th of n turns has the score 1 − (i − 1) / n.

    ``turns`` returns the call that reads the turns for a query. ``brings`` is True if the turns are not in the store;
    the result then contains their texts.
    """

    turns: Callable[[Query], Effect]
    weight: float
    brings: bool = False
    name: str = "session"

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that reads the turns; the text of the query is not used."""
        call = self.turns(query)
        awaited = call.arun

        def as_result(turns: Sequence[Chunk]) -> SourceResult:
            entries = [
                ScoredId(turn.id, 1 - place / len(turns), turn if self.brings else None)
                for place, turn in enumerate(turns)
            ]
            return SourceResult(entries)

        async def aread() -> SourceResult:
            assert awaited is not None
            return as_result(await awaited())

        return call._replace(run=lambda: as_result(call.run()), arun=None if awaited is None else aread)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return None: this source cannot score chunks that are not turns."""
        return None
