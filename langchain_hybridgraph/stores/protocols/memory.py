"""Protocols of stores that keep memories and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, MemoryState, Scope
    from langchain_hybridgraph.stores.protocols.graph import Nodes, Weights


class MemoryColumns(NamedTuple):
    """The state of memories as columns of equal length; NaN means unset.

    See :class:`~langchain_hybridgraph.records.MemoryState`. ``began`` is when each memory became valid; if unknown,
    when it was created; if that is unknown too, when it was ingested. ``valid_until`` is the end that came with the
    memory; it is unset where the end was learned later. ``kind`` is the index of its type in ``kinds``, −1 if unset.
    """

    confidence: Weights
    utility: Weights
    active_count: Weights
    used_at: Weights
    updated_at: Weights
    began: Weights
    valid_until: Weights
    provenance_depth: Weights
    kind: Nodes
    kinds: Sequence[str]

    @classmethod
    def of(cls, states: Sequence[MemoryState]) -> MemoryColumns:
        """Build the columns from records."""
        kinds: dict[str, int] = {}
        rows = [
            (
                state.confidence,
                state.utility,
                state.active_count,
                state.used_at,
                state.updated_at,
                next((time for time in (state.valid_from, state.created_at) if time is not None), state.learned_at),
                None if state.end_learned else state.valid_until,
                state.provenance_depth,
            )
            for state in states
        ]
        kind = [
            -1 if state.memory_type is None else kinds.setdefault(state.memory_type, len(kinds)) for state in states
        ]
        columns = np.array(rows, np.float64).reshape(-1, 8).T  # None becomes NaN
        return cls._make([*columns, np.array(kind, np.int64), list(kinds)])


class Memory(Protocol):
    """Values that a store has learned about its chunks: confidence, utility, number of uses, and validity."""

    @property
    def mode(self) -> Any:
        """The search mode of the tenant's memories: a name or a mapping, None if no mode was chosen."""
        ...

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the state of each of these chunks at the scope's ``known_at``; missing chunks are left out."""
        ...

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the states of these chunks as columns with one entry per id; values of a missing chunk are unset."""
        ...


@runtime_checkable
class HasMemory(Protocol):
    """A store that keeps learned values about its chunks, such as their confidence."""

    @property
    def memory(self) -> Memory:
        """Values that the store has learned about its chunks."""
        ...


class Sessions(Protocol):
    """The turns of conversations that a store keeps."""

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return the last n turns of a session in the call's scope, the newest first; [] for an unknown session."""
        ...


@runtime_checkable
class HasSessions(Protocol):
    """A store that keeps the turns of conversations."""

    @property
    def sessions(self) -> Sessions:
        """The sessions of the store."""
        ...
