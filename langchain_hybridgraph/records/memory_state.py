"""State of a chunk as a memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Facts about a chunk that are not in its text, such as its confidence and validity.

    They are read from its metadata or learned later. Times are in Unix seconds, UTC. None means unset, which differs
    from 0.

    - ``confidence`` and ``utility`` are in [0, 1].
    - ``used_at`` is the time at which the chunk was last useful.
    - ``updated_at`` is the time of the chunk's last change according to its metadata.
    - ``learned_at`` is the time at which the store received the chunk.
    - ``provenance_depth`` is the number of derivations between the chunk and an original observation or statement.
    - ``end_learned`` is True if ``valid_until`` was not stored with the chunk, but was set later, when another chunk
      superseded it.
    """

    confidence: float | None = None
    utility: float | None = None
    active_count: int = 0
    used_at: float | None = None
    updated_at: float | None = None
    valid_from: float | None = None
    valid_until: float | None = None
    created_at: float | None = None
    learned_at: float | None = None
    memory_type: str | None = None
    provenance_depth: int = 0
    end_learned: bool = False
