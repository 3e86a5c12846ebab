"""Records and protocols for copying one store into another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, Edge, Query, SourceResult, Vector

Kind = Literal["parents", "chunks", "edges", "files", "settings", "summaries"]
# In the order in which they are copied: edges need their ends, and a file's record is dropped when its chunks change.
# Whether a summary is up to date depends on the chunks below its directory.
KINDS: tuple[Kind, ...] = ("parents", "chunks", "edges", "files", "settings", "summaries")


class MemoryRecord(NamedTuple):
    """Data that a store has learned about a chunk or parent.

    ``values`` maps the names of the catalogue's columns to their present values. A change in the past is the time until
    which a pair of values was known, and the pair: valid from and until, or confidence and utility.
    """

    values: Mapping[str, float | str | None]
    past_validity: Sequence[tuple[float, float | None, float | None]] = ()
    past_trust: Sequence[tuple[float, float | None, float | None]] = ()


class ChunkRecord(NamedTuple):
    """A chunk with its unit vector, or a parent without one; ``memory`` None stands for what its metadata says."""

    chunk: Chunk
    vector: Vector | None = None
    memory: MemoryRecord | None = None


class EdgeRecord(NamedTuple):
    """An edge and the time at which the store received it, None if unknown."""

    edge: Edge
    learned_at: float | None = None


class SummaryRecord(NamedTuple):
    """The summary of a directory with its unit vector, and whether it is up to date."""

    chunk: Chunk
    vector: Vector
    is_current: bool


class Setting(NamedTuple):
    """A tenant's value outside chunks and edges: its search mode, or the credibility of a source."""

    name: Literal["mode", "credibility"]
    values: tuple[str | int, ...]


class Page(NamedTuple):
    """Some records of one kind, and the JSON value from which the next page is read."""

    records: Sequence[Any]
    after: Any


class StoreFacts(NamedTuple):
    """Facts that a destination needs before the first record.

    ``tenants`` is ``("",)`` for a store without tenants. ``version`` changes with every write to the source; None for a
    store that does not count its writes, which is read twice to find out whether it has changed. ``model`` is the file
    of a model that was fitted to the texts.
    """

    embedding: str
    dimension: int | None
    tenants: tuple[str, ...]
    has_tenants: bool
    language: str
    version: str | None
    model: Path | None = None
    fitted_texts: int = 0
    fitted_before: int = 0
    """Number of chunks that the model was fitted to or that were there at that time."""


class Source(Protocol):
    """A store that can be copied."""

    name: str
    """Name of the store in messages and in the record of an unfinished copy."""
    kinds: Sequence[Kind]
    """Kinds of records that the store has."""

    def facts(self) -> StoreFacts:
        """Return the present facts."""
        ...

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return the number of a tenant's records of each kind."""
        ...

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[Page]:
        """Yield a tenant's records of a kind, ``size`` at a time; those after a page's ``after``, or all for None."""
        ...

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the n chunks of a tenant nearest to the query's vector by cosine; None if it searches otherwise."""
        ...

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the n chunks of a tenant that match the query's words best; None without a keyword index."""
        ...

    def close(self) -> None:
        """Release what the source has open."""
        ...


class Destination(Source, Protocol):
    """A store that can receive a copy."""

    def progress(self) -> Mapping[str, Any] | None:
        """Return the progress of an unfinished copy into this store, None if there is none."""
        ...

    def begin(self, facts: StoreFacts) -> None:
        """Prepare an empty store for a copy; raise StoreError if it is not empty or does not fit."""
        ...

    def adapt(self, kind: Kind, records: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, int]]:
        """Return the records as this store can keep them, and the number of what it cannot keep, by name."""
        ...

    def write(self, tenant: str, kind: Kind, records: Sequence[Any], progress: Mapping[str, Any]) -> None:
        """Write records and the progress after them; writing the same records twice changes nothing."""
        ...

    def flush(self) -> None:
        """Bring every index up to date with what was written."""
        ...

    def finish(self) -> Sequence[str]:
        """Complete a copy whose records are all there and forget its progress; return the problems found."""
        ...
