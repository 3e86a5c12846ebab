"""Records and protocols for copying one store into another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Chunk, Vector
    from langchain_hybridgraph.records import Edge, Query, SourceResult

Kind = Literal["parents", "chunks", "edges", "files", "settings", "summaries"]
# The kinds in copying order. Edges need the chunks at their ends. A file's record is dropped when its chunks change.
# The chunks below a directory determine whether its summary is up to date.
KINDS: tuple[Kind, ...] = ("parents", "chunks", "edges", "files", "settings", "summaries")


class MemoryRecord(NamedTuple):
    """Values that a store has learned about a chunk or parent.

    ``values`` maps the names of columns in the catalog to the current values. Earlier values are listed oldest
    first: in ``past_validity`` as (replaced_at, valid_from, valid_until), and in ``past_trust`` as (replaced_at,
    confidence, utility). ``replaced_at`` is the time at which the store replaced these values with later ones.
    """

    values: Mapping[str, float | str | None]
    past_validity: Sequence[tuple[float, float | None, float | None]] = ()
    past_trust: Sequence[tuple[float, float | None, float | None]] = ()


class ChunkRecord(NamedTuple):
    """A chunk with its unit vector, or a parent, which has no vector.

    If ``memory`` is None, confidence, utility and validity are read from the metadata.
    """

    chunk: Chunk
    vector: Vector | None = None
    memory: MemoryRecord | None = None


class EdgeRecord(NamedTuple):
    """An edge, with the time at which the store received it (None if the time is unknown)."""

    edge: Edge
    learned_at: float | None = None


class SummaryRecord(NamedTuple):
    """The summary of a directory with its unit vector, and whether it is up to date."""

    chunk: Chunk
    vector: Vector
    is_current: bool


class TenantSetting(NamedTuple):
    """A setting of a tenant: its search mode, or the credibility of one source."""

    name: Literal["mode", "credibility"]
    values: tuple[str | int, ...]


class RecordPage(NamedTuple):
    """A page of records of one kind.

    Pass ``after``, a JSON value, to :meth:`CopySource.pages` to continue after this page.
    """

    records: Sequence[Any]
    after: Any


class StoreFacts(NamedTuple):
    """Facts about the source that a destination needs before it receives the first record.

    ``tenants`` is ``("",)`` for a store without tenants. ``version`` changes with every write to the source. It is None
    if the store does not count its writes; such a store is read twice to detect changes. ``model`` is the path of the
    file with the embedding model if the model was fitted to texts of the store, and None otherwise. ``fitted_texts`` is
    the number of these texts.
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
    """Number of the store's chunks that are older than the fit of the model."""


class CopySource(Protocol):
    """A store that can be copied."""

    name: str
    """Name of the store in messages and in the record of an unfinished copy."""
    kinds: Sequence[Kind]
    """Kinds of records that the store has."""

    def facts(self) -> StoreFacts:
        """Return the current facts about the store."""
        ...

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return the number of records of each kind for a tenant."""
        ...

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[RecordPage]:
        """Yield a tenant's records of one kind in pages of ``size`` records.

        To continue after a page, pass its ``after``. To start with the first record, pass None.
        """
        ...

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant with the largest cosines.

        Return None if the store uses another similarity.
        """
        ...

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant that match the query's words best.

        Return None if the store has no keyword index.
        """
        ...

    def close(self) -> None:
        """Close the files and connections of the source."""
        ...


class CopyDestination(CopySource, Protocol):
    """A store that can receive a copy."""

    def progress(self) -> Mapping[str, Any] | None:
        """Return the progress of an unfinished copy into this store, or None if no copy is unfinished."""
        ...

    def begin(self, facts: StoreFacts) -> None:
        """Prepare the store for a new copy, or for continuing an unfinished one.

        Raises an error if the store contains other data or cannot hold a copy of the source.
        """
        ...

    def adapt(self, kind: Kind, records: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, int]]:
        """Return the records in a form that this store can keep, and how many records and values are lost.

        The losses are counted by kind, for example ``retracted chunks``.
        """
        ...

    def write(self, tenant: str, kind: Kind, records: Sequence[Any], progress: Mapping[str, Any]) -> None:
        """Write records together with the new progress; writing the same records again changes nothing."""
        ...

    def flush(self) -> None:
        """Update all indexes with the records written so far."""
        ...

    def finish(self) -> Sequence[str]:
        """Complete the copy and return the problems found.

        Call this method after all records have been written. It also deletes the saved progress.
        """
        ...
