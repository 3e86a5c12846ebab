"""Protocols for stores that ``ingest`` writes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Chunk
    from langchain_hybridgraph.records import Edge


@runtime_checkable
class AcceptsChunks(Protocol):
    """A store to which ``ingest`` can write."""

    def upsert(
        self, chunks: Sequence[Chunk], *, parents: Sequence[Chunk] = (), edges: Sequence[Edge] = ()
    ) -> Mapping[str, int]:
        """Write one batch and return the counts ``added``, ``updated``, ``unchanged`` and ``embedded``.

        New and changed chunks are written; unchanged chunks are not. If several chunks have the same id, the last one
        is used. If the store has the feature ``transactions``, the batch is written completely or not at all. Once the
        call has returned, the batch survives a crash. It appears in searches after the next :meth:`flush` at the
        latest.
        """
        ...

    def flush(self) -> int:
        """Update all indexes with the batches written so far; return the number of texts embedded by this call.

        ``ingest`` calls this method at the end.
        """
        ...

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's current chunks and parents, or an empty set for an unknown document."""
        ...

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Delete all edges that have one of these sources and one of these relations, and write ``edges`` instead.

        Return the number of distinct edges in ``edges``.
        """
        ...

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number deleted."""
        ...


class FileRecord(NamedTuple):
    """The state of a file when an ingest read it.

    ``stamp`` contains the size, times and inode of the file. It is "" if these values cannot reliably show a later
    change, for example because the file had just been written. ``digest`` is the digest of the file's bytes, and
    ``made_by`` is the digest of everything else on which the chunks and edges depend. ``chunks`` and ``parents`` are
    counts. ``path`` is the absolute path of the file in the encoding of the file system, or b"" if it is unknown. If
    ``digest`` is b"", only ``documents`` and ``path`` are stored.
    """

    source: str
    stamp: str
    digest: bytes
    made_by: bytes
    chunks: int
    parents: int
    documents: tuple[str, ...]
    path: bytes = b""


class FileRecords(Protocol):
    """Records of the files that documents were read from."""

    def read(self) -> list[FileRecord]:
        """Return the records of the files whose chunks and edges are still as the ingest wrote them.

        A record is deleted when a chunk of the file's documents is added, changed or deleted. It is also deleted when
        the edges of these documents depend on something that is deleted, such as the target of an edge.
        """
        ...

    def sources(self) -> set[str]:
        """Return the sources of the files that :meth:`read` returns."""
        ...

    def paths(self) -> Mapping[str, bytes]:
        """Return the absolute path of each file whose documents are in the store, by source.

        Files whose record was deleted are included.
        """
        ...

    def write(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace the records of files."""
        ...


@runtime_checkable
class RecordsFiles(Protocol):
    """A store that records from which files its documents were read."""

    @property
    def files(self) -> FileRecords:
        """The records of the files from which the documents were read."""
        ...
