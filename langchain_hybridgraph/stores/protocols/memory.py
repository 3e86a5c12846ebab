"""Protocols for stores that keep memories and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Chunk
    from langchain_hybridgraph.memory.scores import MemoryColumns
    from langchain_hybridgraph.records import MemoryState, Scope


class Memory(Protocol):
    """Access to the memory values of a store's chunks: confidence, utility, number of uses, validity and others."""

    @property
    def mode(self) -> Any:
        """The search mode of the tenant's memories: a name or a mapping, or None if no mode was chosen."""
        ...

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the state of each of these chunks, as known at the scope's ``known_at``.

        Missing chunks are left out.
        """
        ...

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the states of these chunks as columns with one entry per id.

        A missing chunk has the values of an empty ``MemoryState``.
        """
        ...


@runtime_checkable
class HasMemory(Protocol):
    """A store that keeps memory values for its chunks, such as their confidence."""

    @property
    def memory(self) -> Memory:
        """Memory values of the store's chunks."""
        ...


class Sessions(Protocol):
    """Access to the turns of the conversations that a store keeps."""

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return the last ``n`` turns of a session that are in scope, newest first; [] for an unknown session."""
        ...


@runtime_checkable
class HasSessions(Protocol):
    """A store that keeps the turns of conversations."""

    @property
    def sessions(self) -> Sessions:
        """The sessions of the store."""
        ...
