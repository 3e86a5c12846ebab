"""Milvus as the source or destination of copies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.chunks import ParsedMetadata
from langchain_hybridgraph.errors import ConfigurationError, NotAnIndexError, StoreError
from langchain_hybridgraph.stores.embedded.folder.embedding_check import NoEmbedding
from langchain_hybridgraph.stores.milvus.connection import MilvusConnection, client_library
from langchain_hybridgraph.stores.milvus.filters import text
from langchain_hybridgraph.stores.milvus.graph import EDGE_FIELDS
from langchain_hybridgraph.stores.milvus.index import CHUNK_FIELDS, MilvusIndex
from langchain_hybridgraph.stores.milvus.rows import stored_edge, stored_row
from langchain_hybridgraph.stores.milvus.schema import (
    COLLECTION,
    Collections,
    CollectionSettings,
    create_collection,
    open_collections,
    stored_facts,
)
from langchain_hybridgraph.stores.milvus.search import Searcher
from langchain_hybridgraph.stores.milvus.uri import Address
from langchain_hybridgraph.stores.milvus.writer import Writer
from langchain_hybridgraph.stores.transfer import ChunkRecord, EdgeRecord, Kind, RecordPage, StoreFacts
from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.times import iso_time

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Query, SourceResult
    from langchain_hybridgraph.stores.transfer import MemoryRecord

KINDS: Sequence[Kind] = ("parents", "chunks", "edges")
TIMEOUT = 60.0
# Key of the row that stores the progress of a copy.
PROGRESS = "progress"
# Values that a store learns about a chunk or parent after writing and that Milvus does not store.
LEFT_OUT = {"learned_at": "arrival times", "expires_at": "expiry times", "used_at": "times of last use"}
TIMES = frozenset({"valid_from", "valid_until", "updated_at", "created_at"})


class MilvusSource:
    """A store in Milvus that can be copied.

    Chunks and parents are read in the order in which they were written, and edges in the order of their keys. Milvus
    itself does not return rows in the order of writing. The source therefore loads the keys of a tenant's chunks or
    parents into memory first, which takes about 50 bytes per key.
    """

    kinds = KINDS

    def __init__(self, uri: str, *, token: str = "", collection: str = COLLECTION) -> None:
        client_library()
        self._connection = MilvusConnection(Address.parse(uri, token), TIMEOUT)
        self._names = Collections.of(collection)
        self.name = f"{self._connection.address}#{collection}"
        self._indexes: dict[str, MilvusIndex] = {}

    def facts(self) -> StoreFacts:
        """Return the facts about the source, such as its embedding and dimension."""
        stored = self._stored()
        tenants = self._tenants() if stored.has_tenants else ("",)
        return StoreFacts(
            embedding=stored.embedding,
            dimension=stored.dimension,
            tenants=tenants,
            has_tenants=stored.has_tenants,
            language=stored.language,
            version=None,
        )

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return the number of records of each kind for a tenant."""
        index = self._index(tenant)
        return {kind: index.count(getattr(self._names, kind), index.of_tenant()) for kind in KINDS}

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[RecordPage]:
        """Yield a tenant's records of a kind (see ``stores.transfer.CopySource``)."""
        index = self._index(tenant)
        if kind == "edges":
            yield from self._edge_pages(index, after or "", size)
        else:
            yield from self._chunk_pages(index, kind, after or [-1, ""], size)

    def _chunk_pages(self, index: MilvusIndex, kind: str, after: Sequence[Any], size: int) -> Iterator[RecordPage]:
        collection = getattr(self._names, kind)
        added_keys = (
            (row["added_at"], row["key"]) for row in index.read_all(collection, index.of_tenant(), ["added_at"])
        )
        keys = np.fromiter(added_keys, dtype=[("added_at", "<i8"), ("key", "S32")])
        added_at, key = after[0], str(after[1]).encode()
        is_next = (keys["added_at"] > added_at) | ((keys["added_at"] == added_at) & (keys["key"] > key))
        keys = np.sort(keys[is_next])
        fields = [*CHUNK_FIELDS, "vector"] if kind == "chunks" else CHUNK_FIELDS
        for start in range(0, len(keys), size):
            part = [(int(time), key.decode()) for time, key in keys[start : start + size]]
            entities = index.read(collection, index.with_keys(key for _, key in part), ["key", *fields], len(part))
            by_key = {entity["key"]: stored_row(entity) for entity in entities}
            rows = [by_key[key] for _, key in part if key in by_key]
            yield RecordPage([ChunkRecord(row.chunk, row.vector) for row in rows], list(part[-1]))

    def _edge_pages(self, index: MilvusIndex, after: str, size: int) -> Iterator[RecordPage]:
        entities: list[Any] = []
        filter = index.of_tenant(f"key > {text(after)}") if after else index.of_tenant()
        for entity in index.read_all(self._names.edges, filter, EDGE_FIELDS):
            entities.append(entity)
            if len(entities) == size:
                yield self._edge_page(entities)
                entities = []
        if entities:
            yield self._edge_page(entities)

    @staticmethod
    def _edge_page(entities: Sequence[Any]) -> RecordPage:
        return RecordPage([EdgeRecord(stored_edge(entity)) for entity in entities], entities[-1]["key"])

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant whose vectors are nearest to the query vector."""
        return self._connection.run(Searcher(self._index(tenant)).vector_search(query, n))

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant that match the query's words best."""
        return self._connection.run(Searcher(self._index(tenant)).keyword_search(query, n))

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()

    def _stored(self) -> CollectionSettings:
        stored = stored_facts(self._connection, self._names)
        if stored is None:
            raise NotAnIndexError(f"{self.name} does not exist: check the URI and the collection")
        for name in self._names:
            self._connection.call("load_collection", collection_name=name)
        return stored

    def _tenants(self) -> tuple[str, ...]:
        """Return the names of all tenants.

        All rows are read, because Milvus cannot list the distinct values of a field.
        """
        index = self._index("")
        rows = (row for name in self._names for row in index.read_all(name, 'key > ""', ["tenant"]))
        return tuple(sorted({row["tenant"] for row in rows}))

    def _index(self, tenant: str) -> MilvusIndex:
        if tenant not in self._indexes:
            facts = self._stored()
            analyzer = Analyzer(facts.language)
            self._indexes[tenant] = MilvusIndex(
                self._connection, self._names, facts, NoEmbedding(), analyzer, tenant or None, "Strong"
            )
        return self._indexes[tenant]


class MilvusDestination(MilvusSource):
    """A store in Milvus that can receive a copy. An additional collection stores the progress of the copy.

    Milvus stores memory values, such as confidence, only in the metadata. The current values of the source's chunks and
    parents are therefore added to their metadata. Earlier values and retracted records are not copied.
    """

    def __init__(self, uri: str, *, token: str = "", collection: str = COLLECTION) -> None:
        super().__init__(uri, token=token, collection=collection)
        self._ledger = f"{collection}_migration"
        self._writers: dict[str, Writer] = {}

    def progress(self) -> Mapping[str, Any] | None:
        """Return the progress of an unfinished copy into these collections, or None if no copy is unfinished."""
        if self._connection.is_missing or not self._connection.call("has_collection", collection_name=self._ledger):
            return None
        self._connection.call("load_collection", collection_name=self._ledger)
        rows = self._connection.call(
            "query",
            collection_name=self._ledger,
            filter=f"key == {text(PROGRESS)}",
            output_fields=["state"],
            consistency_level="Strong",
        )
        return dict(json.loads(rows[0]["state"])) if rows else None

    def begin(self, facts: StoreFacts) -> None:
        """Create the missing collections, and start a new copy or continue an unfinished one.

        Raises StoreError if the source has no vectors, or if a new copy cannot start because the collections already
        contain chunks, parents or edges. Raises ConfigurationError if the source's embedding was fitted to its texts,
        and the errors of :func:`open_collections` if existing collections do not match the source.
        """
        if facts.model is not None or facts.embedding == "lsa":
            raise ConfigurationError(
                "the source has the embedding 'lsa', whose model was fitted to the source's texts and cannot be stored "
                "in Milvus: ingest the documents into Milvus with another embedding"
            )
        if facts.dimension is None:
            raise StoreError("the source has no vectors, so there is nothing to copy")
        requested = CollectionSettings(
            facts.embedding, facts.dimension, Analyzer(facts.language).language, facts.has_tenants
        )
        open_collections(self._connection, self._names, requested, language_given=True)
        if self._connection.call("has_collection", collection_name=self._ledger):
            return
        if any(self._index("").count(name, "") for name in self._names):
            raise StoreError(
                f"{self.name} already contains chunks or edges: choose another collection, or drop this one"
            )
        self._create_ledger()

    def adapt(self, kind: Kind, records: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, int]]:
        """Return the records in a form that Milvus can store, and how many records and values are lost.

        The losses are counted by kind, for example ``retracted chunks``. Current memory values are added to the
        metadata. Retracted records are left out, and edges lose their arrival times.
        """
        if kind == "edges":
            timed = sum(record.learned_at is not None for record in records)
            return [EdgeRecord(record.edge) for record in records], {"arrival times of edges": timed}
        current = [record for record in records if not _is_retracted(record.memory)]
        memories = [record.memory for record in current if record.memory is not None]
        adapted = [ChunkRecord(_with_learned(record), record.vector) for record in current]
        left_out = {
            f"retracted {kind}": len(records) - len(current),
            f"histories of {kind}": sum(any(memory[1:]) for memory in memories),
            **{
                f"{meaning} of {kind}": sum(memory.values[name] is not None for memory in memories)
                for name, meaning in LEFT_OUT.items()
            },
        }
        return adapted, left_out

    def write(self, tenant: str, kind: Kind, records: Sequence[Any], progress: Mapping[str, Any]) -> None:
        """Write records, and then the new progress.

        If the process crashes between the two, the next attempt writes the records again.
        """
        writer = self._writers.get(tenant) or self._writers.setdefault(tenant, Writer(self._index(tenant)))
        if kind == "edges":
            writer.upsert((), (), [record.edge for record in records], ())
        elif kind == "parents":
            writer.upsert((), [record.chunk for record in records], (), ())
        else:
            writer.upsert([r.chunk for r in records], (), (), [r.vector for r in records])
        row = {"key": PROGRESS, "state": json.dumps(progress), "unused": [0.0, 1.0]}
        self._connection.call("upsert", collection_name=self._ledger, data=[row])

    def flush(self) -> None:
        """Write pending lists of neighbours and, in milvus-lite, build the indexes (see :meth:`Writer.flush`)."""
        for writer in self._writers.values():
            writer.flush()

    def finish(self) -> Sequence[str]:
        """Delete the saved progress and return an empty sequence, because there are never problems to report."""
        self._connection.call("drop_collection", collection_name=self._ledger)
        return ()

    def _create_ledger(self) -> None:
        milvus = client_library()
        schema = milvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", milvus.DataType.VARCHAR, max_length=64, is_primary=True)
        schema.add_field("state", milvus.DataType.VARCHAR, max_length=65_535)
        schema.add_field("unused", milvus.DataType.FLOAT_VECTOR, dim=2)
        create_collection(self._connection, self._ledger, schema)
        self._connection.call("load_collection", collection_name=self._ledger)


def _is_retracted(memory: MemoryRecord | None) -> bool:
    return memory is not None and memory.values["retracted_at"] is not None


def _with_learned(record: ChunkRecord) -> Any:
    """Return the chunk of a record, with the current memory values added to its metadata."""
    if record.memory is None:
        return record.chunk
    metadata = ParsedMetadata.of(record.chunk.metadata)._asdict()
    learned = {
        name: iso_time(float(value)) if name in TIMES else value
        for name, value in record.memory.values.items()
        if name in metadata
        and value is not None
        and value != metadata[name]
        and (value != 0 or metadata[name] is not None)
    }
    return replace(record.chunk, metadata={**record.chunk.metadata, **learned}) if learned else record.chunk
