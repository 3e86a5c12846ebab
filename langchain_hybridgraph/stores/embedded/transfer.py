"""Index folders as sources and destinations of copies."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import NotAnIndexError, StoreError
from langchain_hybridgraph.records import Query, Scope, SourceResult
from langchain_hybridgraph.stores.embedded.catalog import files as catalog_files
from langchain_hybridgraph.stores.embedded.catalog import memory as catalog_memory
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog import transfer as catalog_transfer
from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
from langchain_hybridgraph.stores.embedded.catalog.records import CHUNK, PARENT
from langchain_hybridgraph.stores.embedded.catalog.rows import catalog_rows
from langchain_hybridgraph.stores.embedded.folder.creation import read_facts
from langchain_hybridgraph.stores.embedded.folder.embedding_check import NoEmbedding
from langchain_hybridgraph.stores.embedded.folder.generation import Generation
from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
from langchain_hybridgraph.stores.embedded.folder.shared_folder import CATALOG
from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
from langchain_hybridgraph.stores.embedded.summaries import FOLDER, STATE
from langchain_hybridgraph.stores.transfer import (
    KINDS,
    ChunkRecord,
    Kind,
    RecordPage,
    StoreFacts,
    SummaryRecord,
)

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray


PROGRESS = "migration"
"""Name of the fact with the progress of an unfinished copy."""


class TransferIndex(EmbeddedStore):
    """An index, or one tenant's part of it, opened to be copied or to receive a copy.

    The embedding is not loaded.
    """

    @classmethod
    def of(
        cls, path: Path, name: str, tenant: str, *, language: str = "english", read_only: bool = False
    ) -> TransferIndex:
        """Open the index at this path; unless ``read_only`` is True, create it if it is missing.

        ``name`` is the name of the index's embedding. ``tenant`` is "" for an index without tenants.
        """
        return cls(
            IndexSettings(
                path=path,
                embedding=NoEmbedding(),
                name=name,
                tenant=tenant or None,
                language=language,
                read_only=read_only,
            )
        )

    def restore(
        self, chunks: Sequence[ChunkRecord], parents: Sequence[ChunkRecord], also: Callable[[sqlite3.Connection], None]
    ) -> None:
        """Write chunks and parents with their vectors and memory states.

        ``also`` receives the connection, so that it can write other data in the same transaction.
        """
        tenant = self.tenant or ""
        batch = catalog_rows([record.chunk for record in chunks], [record.chunk for record in parents], tenant)
        memories = {record.chunk.id: record.memory for record in (*parents, *chunks) if record.memory is not None}

        def write(connection: sqlite3.Connection) -> Sequence[int]:
            catalog_transfer.restore_memories(connection, tenant, memories)
            also(connection)
            return ()

        self._writer.write(batch, (), {r.chunk.id: r.vector for r in chunks if r.vector is not None}, write)

    def present_summaries(self) -> list[SummaryRecord]:
        """Return all summaries of directories, including outdated ones, with their vectors.

        Each record states whether the summary is up to date.
        """
        summaries = self.summaries.current()
        if summaries is None:
            return []
        chunks = summaries.all()
        vectors = summaries.store.vectors([chunk.id for chunk in chunks])
        return [
            SummaryRecord(chunk, vectors[place], summaries.is_current(chunk.id)) for place, chunk in enumerate(chunks)
        ]

    def restore_summaries(self, summaries: Sequence[SummaryRecord]) -> None:
        """Write summaries of directories; those that were up to date in the source are recorded as up to date."""
        tree = self.scoped_tree(Scope(None, self.tenant, time.time()))
        summary_chunks = [
            Chunk(
                chunk.id,
                chunk.text,
                {
                    **chunk.metadata,
                    STATE: tree.state(node) if is_current and (node := tree.node(chunk.id)) >= 0 else "",
                },
            )
            for chunk, _, is_current in summaries
        ]
        index = self.summaries.index_for_writing()
        index.writer.upsert(summary_chunks, vectors=np.stack([vector for _, vector, _ in summaries]))
        index.writer.flush()


class EmbeddedSource:
    """An index folder from which records are copied.

    Other processes may write to it during the copy. The copy then reports that its source has changed.
    """

    kinds: Sequence[Kind] = KINDS

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.name = str(self.path)
        if not read_facts(self.path):
            raise NotAnIndexError(f"{path} contains no index: check the path")
        self._catalog = Catalog(self.path / CATALOG)
        self._generation: Generation | None = None
        self._opened: dict[str, TransferIndex] = {}

    def facts(self) -> StoreFacts:
        """Return the settings and the version of the index."""
        with self._catalog.snapshot():
            about = self._catalog.facts()
            is_multi = about["tenancy"] == "multi"
            tenants = tuple(self._catalog.tenants()) if is_multi else ("",)
            position = self._catalog.graph_position()
            with self._catalog.reading() as connection:
                memory = catalog_memory.position(connection)
                before = catalog_transfer.count_rows_before(connection, int(about.get("fitted_row", 0)))
        model = self.path / f"model-{about['generation']}.npz"
        return StoreFacts(
            embedding=str(about.get("embedding", "")),
            dimension=about.get("dimension"),
            tenants=tenants,
            has_tenants=is_multi,
            language=str(about["language"]),
            version=".".join(map(str, (about["generation"], *position, memory))),
            model=model if model.exists() else None,
            fitted_texts=int(about.get("fitted_texts", 0)),
            fitted_before=before,
        )

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return how many records of each kind a tenant has."""
        with self._catalog.reading() as connection:
            counts = catalog_transfer.count(connection, tenant)
        return {**counts, "summaries": len(self._summaries(tenant))}

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[RecordPage]:
        """Yield a tenant's records of one kind in pages (see ``stores.transfer.CopySource``)."""
        if kind == "edges":
            yield from self._edge_pages(tenant, after or ["", "", ""], size)
        elif kind in {"chunks", "parents"}:
            yield from self._chunk_pages(tenant, kind, -1 if after is None else after, size)
        elif kind == "summaries":
            if after is None and (summaries := self._summaries(tenant)):
                yield RecordPage(summaries, True)
        elif after is None:
            with self._catalog.reading() as connection:
                read = catalog_files.read if kind == "files" else catalog_transfer.settings
                yield RecordPage(read(connection, tenant), True)

    def _edge_pages(self, tenant: str, after: Sequence[str], size: int) -> Iterator[RecordPage]:
        while True:
            with self._catalog.reading() as connection:
                records = catalog_transfer.edges(connection, tenant, after, size)
            if not records:
                return
            last = records[-1].edge
            after = [last.source, last.relation, last.target]
            yield RecordPage(records, after)

    def _chunk_pages(self, tenant: str, kind: str, after: int, size: int) -> Iterator[RecordPage]:
        with self._catalog.reading() as connection:
            numbers = catalog_transfer.numbers(connection, tenant, CHUNK if kind == "chunks" else PARENT, after)
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            with self._catalog.snapshot(), self._catalog.reading() as connection:
                if kind == "chunks":
                    stored_chunks = sorted(self._catalog.read_rows(part), key=lambda entry: entry.row or 0)
                    vectors: list[Any] = list(self._vectors([entry.row or 0 for entry in stored_chunks]))
                else:
                    stored_chunks = self._catalog.read_ids(tenant, catalog_transfer.ids_of(connection, part))
                    stored_chunks.sort(key=lambda entry: entry.id)
                    vectors = [None] * len(stored_chunks)
                memories = catalog_transfer.memories(connection, tenant, [entry.id for entry in stored_chunks])
            chunks = zip(stored_chunks, vectors, strict=True)
            yield RecordPage(
                [ChunkRecord(entry.chunk(), vector, memories[entry.id]) for entry, vector in chunks], part[-1]
            )

    def _vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        about = self._catalog.facts()
        number = int(about["generation"])
        if self._generation is None or self._generation.number != number:
            self._generation = Generation(self.path, number, about.get("dimension"), NoEmbedding())
        matrix = self._generation.matrix
        if matrix is not None:
            matrix.remap()
        if matrix is None or not matrix.intact(rows).all():
            raise StoreError(
                f"{self.path} has chunks without a usable vector; run hybridgraph repair --index {self.path}, then the "
                "same command again"
            )
        return matrix.take(rows)

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks of a tenant whose vectors are nearest to the query vector."""
        return self._index(tenant).vector_search(query, n)

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant that match the query's words best."""
        return self._index(tenant).keyword_search(query, n)

    def _summaries(self, tenant: str) -> list[SummaryRecord]:
        has_any = any(self.path.glob(f"{FOLDER}-*"))
        return self._index(tenant).present_summaries() if has_any else []

    def _index(self, tenant: str) -> TransferIndex:
        if tenant not in self._opened:
            self._close_indexes()
            name = self.facts().embedding
            self._opened[tenant] = TransferIndex.of(self.path, name, tenant, read_only=True)
        return self._opened[tenant]

    def _close_indexes(self) -> None:
        for index in self._opened.values():
            index.close()
        self._opened.clear()

    def close(self) -> None:
        """Release all open files."""
        self._close_indexes()
        if self._generation is not None:
            self._generation.close()
        self._catalog.close()


class EmbeddedDestination:
    """An index folder that receives a copy.

    Each page of records is written in the same transaction as the progress of the copy.
    """

    kinds: Sequence[Kind] = KINDS

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.name = str(self.path)
        self._facts: StoreFacts | None = None
        self._index: TransferIndex | None = None
        self._source: EmbeddedSource | None = None
        read_facts(self.path)

    def progress(self) -> Mapping[str, Any] | None:
        """Return the progress of an unfinished copy into this folder, or None if there is none."""
        stored_value = read_facts(self.path).get(PROGRESS)
        return None if stored_value is None else dict(json.loads(stored_value))

    def begin(self, facts: StoreFacts) -> None:
        """Create an empty index with the settings of the source, or keep the index of an unfinished copy.

        If the folder already contains an empty index, it is used, provided that both it and the source have tenants or
        that neither has. Raises StoreError if the folder contains any other index.
        """
        self._facts = facts
        about = read_facts(self.path)
        if PROGRESS in about:
            return
        if about:
            with closing(EmbeddedSource(self.path)) as present:
                existing = sum(sum(present.counts(tenant).values()) for tenant in present.facts().tenants)
            if existing or about["tenancy"] != ("multi" if facts.has_tenants else "single"):
                raise StoreError(f"{self.path} already contains an index: choose a new folder, or delete this one")
        TransferIndex.of(self.path, facts.embedding, facts.tenants[0] if facts.has_tenants else "",
                         language=facts.language).close()  # fmt: skip
        fitted: dict[str, Any] = {}
        if facts.model is not None:
            shutil.copyfile(facts.model, self.path / "model-1.npz")
            fitted = {"generation": 1, "fitted_texts": facts.fitted_texts, "fitted_row": facts.fitted_before}
        with closing(Catalog(self.path / CATALOG)) as catalog, catalog.writing() as connection:
            catalog_outbox.set_facts(connection, **{PROGRESS: "{}", "language": facts.language, **fitted})

    def adapt(self, kind: Kind, records: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, int]]:
        """Return the records unchanged, because an index can store all of them."""
        return records, {}

    def write(self, tenant: str, kind: Kind, records: Sequence[Any], progress: Mapping[str, Any]) -> None:
        """Write records and the new progress of the copy in one transaction.

        Summaries are an exception: they are written first, to an index of their own.
        """
        index = self._opened(tenant)
        if kind == "summaries":
            index.restore_summaries(records)

        def also(connection: sqlite3.Connection) -> None:
            if kind == "edges":
                catalog_transfer.put_edges(connection, tenant, records, index.clock())
            elif kind == "files":
                catalog_files.insert_or_replace(connection, tenant, records)
            elif kind == "settings":
                catalog_transfer.put_settings(connection, tenant, records)
            catalog_outbox.set_facts(connection, **{PROGRESS: json.dumps(progress)})

        chunks = records if kind == "chunks" else ()
        index.restore(chunks, records if kind == "parents" else (), also)

    def flush(self) -> None:
        """Bring the keyword index up to date."""
        if self._index is not None:
            self._index.flush()

    def finish(self) -> Sequence[str]:
        """Check the index and return the problems found.

        If there are none, the copy is finished and its progress is deleted.
        """
        assert self._facts is not None, "begin comes first"
        index = self._opened(self._facts.tenants[0] if self._facts.tenants else "")
        problems = index.admin.check().problems
        self.close()
        if not problems:
            with closing(Catalog(self.path / CATALOG)) as catalog, catalog.writing() as connection:
                catalog_transfer.forget_fact(connection, PROGRESS)
        return problems

    def _opened(self, tenant: str) -> TransferIndex:
        assert self._facts is not None, "begin comes first"
        if self._index is None or (self._index.tenant or "") != tenant:
            if self._index is not None:
                self._index.close()
            self._index = TransferIndex.of(self.path, self._facts.embedding, tenant, language=self._facts.language)
        return self._index

    # -- reading the copy -----------------------------------------------------------------------------------

    @property
    def _as_source(self) -> EmbeddedSource:
        if self._source is None:
            self._source = EmbeddedSource(self.path)
        return self._source

    def facts(self) -> StoreFacts:
        """Return the settings and the version of the index."""
        return self._as_source.facts()

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return how many records of each kind a tenant has."""
        return self._as_source.counts(tenant)

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[RecordPage]:
        """Yield a tenant's records of one kind in pages."""
        return self._as_source.pages(tenant, kind, after, size)

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks of a tenant whose vectors are nearest to the query vector."""
        return self._as_source.vector_search(tenant, query, n)

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant that match the query's words best."""
        return self._as_source.keyword_search(tenant, query, n)

    def close(self) -> None:
        """Release all open files."""
        if self._source is not None:
            self._source.close()
            self._source = None
        if self._index is not None:
            self._index.close()
            self._index = None
