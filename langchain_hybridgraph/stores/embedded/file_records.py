"""Records of the files that were ingested."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_hybridgraph.chunks import reference
from langchain_hybridgraph.stores.embedded.catalog import files as catalog_files
from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
from langchain_hybridgraph.stores.protocols import FileRecord


class FileRecords:
    """Records of ingested files (see ``stores.protocols.FileRecords``)."""

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    def read(self) -> list[FileRecord]:
        """Return the records of the files whose chunks and edges are still as the ingest wrote them."""
        with self._index.guard:
            return self._index.catalog.files(self._index.rows.tenant)

    def sources(self) -> set[str]:
        """Return the sources of the files that :meth:`read` returns."""
        with self._index.guard:
            return self._index.catalog.file_sources(self._index.rows.tenant)

    def paths(self) -> dict[str, bytes]:
        """Return the absolute paths of the files whose documents are in the index, keyed by source."""
        with self._index.guard:
            return self._index.catalog.file_paths(self._index.rows.tenant)

    def write(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace the records of files."""
        if records:
            stored_records = [record._replace(documents=tuple(map(reference, record.documents))) for record in records]
            with self._index.writer(), self._index.catalog.writing() as connection:
                catalog_files.insert_or_replace(connection, self._index.rows.tenant, stored_records)
