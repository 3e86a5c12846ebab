"""Copies of stores to and from Milvus."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, Serializable, to_json
from langchain_hybridgraph.errors import ConfigurationError, NotAnIndexError, StoreError, as_path
from langchain_hybridgraph.execution.processes import Progress, report, showing
from langchain_hybridgraph.ingestion.edges.base import slices
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.check import list_tenants
from langchain_hybridgraph.stores.generations import NoEmbedding
from langchain_hybridgraph.stores.index import IndexSettings, read_facts
from langchain_hybridgraph.stores.milvus.connection import Address, check_scheme, is_milvus_uri
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from langchain_hybridgraph.stores.store import EmbeddedStore
from langchain_hybridgraph.times import iso_time

# Number of records in one write.
PAGE = 1_000
# Metadata keys that contain times.
TIMES = frozenset({"valid_from", "valid_until", "updated_at", "created_at"})


@dataclass(frozen=True, slots=True)
class MigrationReport(Serializable):
    """Numbers of records that were copied, by kind, and ``problems`` of the copy."""

    source: str
    destination: str
    copied: Mapping[str, int]
    seconds: float = 0.0
    problems: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether no problems were found."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"copied {self.source} to {self.destination}"]
        lines += [f"  {name:<10}{count:>12,}" for name, count in self.copied.items()]
        return "\n".join([*lines, f"took {self.seconds:.1f} s"])


def migrate(
    source: str | Path,
    destination: str | Path,
    *,
    collection: str | None = None,
    destination_collection: str | None = None,
    source_token: str = "",
    destination_token: str = "",
    progress: bool | Progress | None = False,
) -> MigrationReport:
    """Copy a store into an empty one, then compare the two. Vectors are copied, not computed again.

    ``source`` and ``destination`` are index folders or URIs of stores in Milvus (``milvus://host:19530/database``,
    ``milvus:notes.db``); at least one is in Milvus. The collections and the tokens are those in Milvus. Stop writing to
    the source: if it changes, the report contains a problem. To continue an interrupted copy, make the same call again.

    Raises StoreError for a destination that contains anything else, and ConfigurationError for a location that cannot
    be used.
    """
    started_at = time.monotonic()
    old = _Location("source", source, collection, source_token)
    new = _Location("destination", destination, destination_collection, destination_token)
    if not (old.is_server or new.is_server):
        raise ConfigurationError(f"{old} and {new} are both folders; copy the folder while nothing is writing to it")
    if str(old) == str(new):
        raise ConfigurationError(f"{new} is both the source and the destination: choose another destination")
    tenants = old.read_model()
    new.model = old.model
    if not new.is_server:
        read_facts(Path(new.location))  # raises for a folder with other contents
    elif new.model["name"] == "lsa":
        raise ConfigurationError(
            "the source has the embedding 'lsa', whose model is fitted to its texts and cannot be stored in Milvus: "
            "ingest the documents into Milvus with another embedding"
        )
    copied, problems = Counter[str](), list[str]()
    with showing(progress):
        for tenant in tenants:
            scope = Scope(tenant=tenant)
            with closing(old.open(tenant, read_only=True)) as reader, closing(new.open(tenant)) as writer:
                _check_contents(reader, writer, scope, old, new)
                for records in _pages(reader, scope, "copying"):
                    writer.upsert(records.pop("chunks", ()), **records)
                writer.flush()
                before, after = _counts_and_checksums(reader, scope), _counts_and_checksums(writer, scope)
                copied.update({kind: count for kind, (count, _) in before.items()})
                if kinds := sorted({kind for kind, _ in before.items() ^ after.items()}):
                    problems.append(
                        f"the {' and '.join(kinds)} in {new} differ from those in {old}: if it was written to during "
                        "the migration, stop writing, delete the destination and run the same command again"
                    )
                if isinstance(writer, EmbeddedStore):
                    problems += writer.admin.check().problems
    return MigrationReport(str(old), str(new), dict(copied), time.monotonic() - started_at, tuple(problems))


class _Location:
    """Source or destination of a copy. Raises ConfigurationError for a value that is neither."""

    def __init__(self, name: str, value: str | Path, collection: str | None, token: str) -> None:
        as_path(name, value)
        self.location, self.token = str(value), token
        check_scheme(self.location)
        self.is_server = is_milvus_uri(self.location)
        if collection is not None and not self.is_server:
            raise ConfigurationError(
                f"{self.location} is not in Milvus, so it has no collection {collection!r}: leave the collection out"
            )
        self.collection = collection or COLLECTION
        self.model: dict[str, Any] = {}

    def __str__(self) -> str:
        if self.is_server:
            return f"{Address.parse(self.location, self.token)}#{self.collection}"
        return str(Path(self.location).resolve())

    def open(self, tenant: str | None, *, read_only: bool = False) -> Any:
        """Open the store of a tenant."""
        if not self.is_server:
            settings = IndexSettings(path=Path(self.location), tenant=tenant, read_only=read_only, **self.model)
            return EmbeddedStore(settings)
        return MilvusChunkStore(
            self.location,
            self.model["embedding"],
            token=self.token,
            collection=self.collection,
            tenant=tenant,
            language=self.model["language"],
            consistency="Strong",
        )

    def read_model(self) -> Sequence[str | None]:
        """Set the options of a store that describe its model, and return its tenants. Raises NotAnIndexError."""
        if self.is_server:
            stored = MilvusChunkStore.settings_of(self.location, token=self.token, collection=self.collection)
            facts: Mapping[str, Any] = stored._asdict() if stored is not None else {}
        else:
            facts = read_facts(Path(self.location))
        if not facts:
            raise NotAnIndexError(f"{self} does not exist or contains no index: check the path, or URI and collection")
        dimension, name = facts.get("dimension"), str(facts.get("embedding", ""))
        self.model = {"embedding": NoEmbedding(name, dimension or 1), "name": name, "language": facts["language"]}
        tenants: Sequence[str | None] = [None]
        if facts.get("has_tenants"):  # in Milvus
            with closing(self.open("-")) as store:
                tenants = store.tenants()
        elif facts.get("tenancy") == "multi":
            tenants = list(list_tenants(self.location))
        if dimension is None or not tenants:
            raise StoreError(f"{self} contains nothing to copy")
        return tenants


def _check_contents(old: Any, new: Any, scope: Scope, source: _Location, destination: _Location) -> None:
    if isinstance(old, EmbeddedStore) and (faults := old.admin.check().problems):
        raise StoreError(
            f"{source} is damaged ({faults[0]}); run hybridgraph repair --index {source}, then the same command again"
        )
    for page in slices(new.find(scope), PAGE):
        texts = {chunk.id: chunk.text for chunk in old.get(page)}
        if others := [chunk.id for chunk in new.get(page) if texts.get(chunk.id) != chunk.text]:
            raise StoreError(
                f"{destination} already contains texts that are not in {source}, such as {others[0]!r}: choose another "
                "destination"
            )


def _counts_and_checksums(store: Any, scope: Scope) -> dict[str, tuple[int, int]]:
    """Return the number and a checksum of the records of each kind; the order of the records does not matter."""
    totals: dict[str, tuple[int, int]] = {}
    for page in _pages(store, scope, "verifying"):
        ids = [chunk.id for chunk in page.get("chunks", ())]
        vectors = [np.asarray(vector, "<f4").tobytes().hex() for vector in page.pop("vectors", ())]
        for kind, records in {**page, "vectors": list(zip(ids, vectors, strict=True))}.items():
            for record in records:
                contents = record
                if isinstance(record, Chunk):  # stores derive the document in different ways
                    contents = (record.id, record.text, record.parent, record.metadata)
                count, checksum = totals.get(kind, (0, 0))
                text = json.dumps(to_json(contents), sort_keys=True)
                totals[kind] = count + 1, checksum + int.from_bytes(sha256(text.encode()).digest()[:8])
    return totals


def _pages(store: Any, scope: Scope, phase: str) -> Iterator[dict[str, Any]]:
    """Yield all records of a store as arguments of ``upsert``: parents, chunks in their order, and then edges.

    Retracted chunks and their edges are left out.
    """
    ids = store.find(scope)
    chunk_ids, retracted = set(ids), set[str]()
    for documents in slices(list(store.document_ids()), PAGE):
        for others in slices(sorted(set().union(*store.document_chunks(documents).values()) - chunk_ids), PAGE):
            parents = _read(store, others, scope)
            retracted.update(set(others) - {parent.id for parent in parents})
            yield {"parents": parents}
    for start in range(0, len(ids), PAGE):
        report(phase, start, len(ids), "chunks")
        chunks = _read(store, ids[start : start + PAGE], scope)
        yield {"chunks": chunks, "vectors": store.vectors([chunk.id for chunk in chunks])}
    for edge_sources in slices(store.edge_sources(), PAGE):
        edges = store.edges(edge_sources)
        yield {"edges": [edge for edge in edges if retracted.isdisjoint((edge.source, edge.target))]}


def _read(store: Any, ids: Sequence[str], scope: Scope) -> list[Chunk]:
    """Return chunks and parents, except retracted ones, with the present values of memories in their metadata."""
    if not isinstance(store, EmbeddedStore):  # Milvus has these values only in the metadata, and retracts nothing
        return list(store.get(ids))
    states, chunks = store.memory.states(ids, scope), list[Chunk]()
    for chunk in store.get([id for id in ids if id in states]):
        stored, learned = ParsedMetadata.of(chunk.metadata)._asdict(), dict[str, Any]()
        for name, value in asdict(states[chunk.id]).items():
            is_unset = value is None or (value == 0 and stored.get(name) is None)
            if name in stored and value != stored[name] and not is_unset:
                learned[name] = iso_time(value) if name in TIMES else value
        chunks.append(replace(chunk, metadata={**chunk.metadata, **learned}) if learned else chunk)
    return chunks
