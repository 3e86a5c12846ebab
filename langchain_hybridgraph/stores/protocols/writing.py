"""Protocols of stores that ``ingest`` writes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, Edge


@runtime_checkable
class AcceptsChunks(Protocol):
    """A store that ``ingest`` writes to."""

    def upsert(
        self, chunks: Sequence[Chunk], *, parents: Sequence[Chunk] = (), edges: Sequence[Edge] = ()
    ) -> Mapping[str, int]:
        """Write one batch in one transaction.

        New and changed chunks are written, unchanged ones are not. Return the counts ``added``, ``updated``,
        ``unchanged`` and ``embedded``. If several chunks have the same id, the last one counts. When the call returns,
        the batch survives a crash; searches see it after the next :meth:`flush` at the latest.
        """
        ...

    def flush(self) -> int:
        """Bring every index up to date with the batches written; called at the end of an ingest.

        Return the number of texts that this call embedded.
        """
        ...

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's present chunks and parents; an empty set for an unknown document."""
        ...

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Make ``edges`` the only edges of these relations that leave these sources; return their number."""
        ...

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents with their edges; return the number deleted."""
        ...


class FileRecord(NamedTuple):
    """The state of a file when an ingest read it.

    ``stamp`` is the file system's stamp, "" where it cannot be trusted because the file was written at about the time
    it was read. ``digest`` is the digest of its bytes, and ``made_by`` is the digest of everything else on which its
    chunks and edges depend.
    """

    source: str
    stamp: str
    digest: bytes
    made_by: bytes
    chunks: int
    parents: int
    documents: tuple[str, ...]


class FileRecords(Protocol):
    """Records of the files that documents were read from."""

    def read(self) -> list[FileRecord]:
        """Return the records of the files whose chunks and edges are still as the ingest wrote them.

        A record is dropped when a chunk of its documents changes, or when something else that their edges depend on is
        deleted.
        """
        ...

    def write(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace records."""
        ...


@runtime_checkable
class RecordsFiles(Protocol):
    """A store that remembers which files its documents were read from, as long as it holds them unchanged."""

    @property
    def files(self) -> FileRecords:
        """The records of these files."""
        ...
