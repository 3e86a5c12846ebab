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
from typing import Any, NamedTuple

import numpy as np

from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, Serializable, to_json
from langchain_hybridgraph.errors import ConfigurationError, NotAnIndexError, StoreError, as_path
from langchain_hybridgraph.execution.processes import Progress, report, showing
from langchain_hybridgraph.ingestion.edges.base import slices
from langchain_hybridgraph.records import MemoryState, Scope
from langchain_hybridgraph.stores.check import list_tenants
from langchain_hybridgraph.stores.folder import IndexSettings, read_facts
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
    """Numbers of records that were copied, by kind, and ``problems`` of the copy.

    ``resumed`` tells whether the destination already contained a part of the copy.
    """

    source: str
    destination: str
    copied: Mapping[str, int]
    resumed: bool = False
    seconds: float = 0.0
    problems: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether no problems were found."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{'continued' if self.resumed else 'copied'} {self.source} to {self.destination}"]
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
    old = _Location.of("source", source, collection, source_token)
    new = _Location.of("destination", destination, destination_collection, destination_token)
    if not (old.is_server or new.is_server):
        raise ConfigurationError(f"{old} and {new} are both folders; copy the folder while nothing is writing to it")
    if (old.location, old.collection) == (new.location, new.collection):
        raise ConfigurationError(f"{new} is both the source and the destination: choose another destination")
    model, tenants = _contents(old)
    if not new.is_server:
        read_facts(Path(new.location))  # raises for a folder with other contents
    elif model["name"] == "lsa":
        raise ConfigurationError(
            "the source has the embedding 'lsa', whose model is fitted to its texts and cannot be stored in Milvus: "
            "ingest the documents into Milvus with another embedding"
        )
    copied, resumed, problems = Counter[str](), False, list[str]()
    with showing(progress):
        for tenant in tenants:
            scope = Scope(tenant=tenant)
            with closing(old.open(tenant, model, read_only=True)) as reader, closing(new.open(tenant, model)) as writer:
                resumed |= _copy(reader, writer, scope, old, new)
                before, after = _counts_and_checksums(reader, scope), _counts_and_checksums(writer, scope)
                copied.update({kind: count for kind, (count, _) in before.items()})
                kinds = sorted(kind for kind in before.keys() | after.keys() if before.get(kind) != after.get(kind))
                if kinds:
                    problems.append(
                        f"the {' and '.join(kinds)} in {new} differ from those in {old}: if it was written to during "
                        "the migration, stop writing, delete the destination and run the same command again"
                    )
                if isinstance(writer, EmbeddedStore):
                    problems += writer.admin.check().problems
    seconds = time.monotonic() - started_at
    return MigrationReport(str(old), str(new), dict(copied), resumed, seconds, tuple(problems))


def _copy(old: Any, new: Any, scope: Scope, source: _Location, destination: _Location) -> bool:
    """Copy one tenant, and return whether the destination already contained a part of the copy."""
    if isinstance(old, EmbeddedStore) and (faults := old.admin.check().problems):
        raise StoreError(
            f"{source} is damaged ({faults[0]}); run hybridgraph repair --index {source}, then the same command again"
        )
    ids = [entry.id for entry in new.list_chunks(scope, len(new)).entries]
    for page in slices(ids, PAGE):
        texts = {chunk.id: chunk.text for chunk in old.get(page)}
        if others := [chunk.id for chunk in new.get(page) if texts.get(chunk.id) != chunk.text]:
            raise StoreError(
                f"{destination} already contains texts that are not in {source}, such as {others[0]!r}: choose another "
                "destination"
            )
    for records in _pages(old, scope, "copying"):
        new.upsert(records.pop("chunks", ()), **records)
    new.flush()
    return bool(ids)


def _contents_of(page: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for kind in ("chunks", "parents"):
        for each in page.get(kind, ()):
            yield kind, (each.id, each.text, each.parent, each.metadata)
    for chunk, vector in zip(page.get("chunks", ()), page.get("vectors", ()), strict=True):
        yield "vectors", (chunk.id, np.asarray(vector, "<f4").tobytes().hex())
    for edge in page.get("edges", ()):
        yield "edges", edge


def _counts_and_checksums(store: Any, scope: Scope) -> dict[str, tuple[int, int]]:
    """Return the number and a checksum of the records of each kind; the order of the records does not matter."""
    totals: dict[str, tuple[int, int]] = {}
    for page in _pages(store, scope, "verifying"):
        for kind, contents in _contents_of(page):
            count, checksum = totals.get(kind, (0, 0))
            text = json.dumps(to_json(contents), sort_keys=True)
            totals[kind] = count + 1, checksum + int.from_bytes(sha256(text.encode()).digest()[:8])
    return totals


def _pages(store: Any, scope: Scope, phase: str) -> Iterator[dict[str, Any]]:
    """Yield all records of a store as arguments of ``upsert``: parents, chunks in their order, and then edges."""
    ids = [entry.id for entry in store.list_chunks(scope, len(store)).entries]
    nodes = set(ids)
    for documents in slices(list(store.document_ids()), PAGE):
        for others in slices(sorted(set().union(*store.document_chunks(documents).values()) - nodes), PAGE):
            # Retracted chunks and parents have no state. Milvus has no states of parents, and retracts nothing.
            states = store.memory.states(others, scope)
            parents = [id for id in others if id in states or not isinstance(store, EmbeddedStore)]
            nodes.update(parents)
            yield {"parents": _with_memories(store.get(parents), states)}
    for start in range(0, len(ids), PAGE):
        part = ids[start : start + PAGE]
        report(phase, start, len(ids), "chunks")
        states = store.memory.states(part, scope) if isinstance(store, EmbeddedStore) else {}
        chunks = _with_memories(store.get(part), states)
        yield {"chunks": chunks, "vectors": store.vectors([chunk.id for chunk in chunks])}
    frontier = sorted(nodes)
    while frontier:
        neighbours: set[str] = set()
        for edge_sources in slices(frontier, PAGE):
            edges = store.edges(edge_sources)
            neighbours.update(edge.target for edge in edges)
            neighbours.update(edge.source for edge in store.edges(edge_sources, backwards=True))
            yield {"edges": edges}
        frontier = sorted(neighbours - nodes)
        nodes |= neighbours


def _with_memories(chunks: Sequence[Chunk], states: Mapping[str, MemoryState]) -> list[Chunk]:
    """Return the chunks with the present values of memories in their metadata."""
    adapted = []
    for chunk in chunks:
        stored, learned = ParsedMetadata.of(chunk.metadata)._asdict(), dict[str, Any]()
        for name, value in asdict(states.get(chunk.id, MemoryState())).items():
            is_unset = value is None or (value == 0 and stored.get(name) is None)
            if name in stored and value != stored[name] and not is_unset:
                learned[name] = iso_time(value) if name in TIMES else value
        adapted.append(replace(chunk, metadata={**chunk.metadata, **learned}) if learned else chunk)
    return adapted


class _Location(NamedTuple):
    location: str
    collection: str
    token: str
    is_server: bool

    @classmethod
    def of(cls, name: str, value: str | Path, collection: str | None, token: str) -> _Location:
        """Return the source or the destination of a copy. Raises ConfigurationError for a value that is neither."""
        as_path(name, value)
        location = str(value)
        check_scheme(location)
        is_server = is_milvus_uri(location)
        if collection is not None and not is_server:
            raise ConfigurationError(
                f"{location} is not in Milvus, so it has no collection {collection!r}: leave the collection out"
            )
        place = location if is_server else str(Path(location).resolve())
        return cls(place, collection or COLLECTION, token, is_server)

    def __str__(self) -> str:
        return f"{Address.parse(self.location, self.token)}#{self.collection}" if self.is_server else self.location

    def open(self, tenant: str | None, model: Mapping[str, Any], *, read_only: bool = False) -> Any:
        """Open the store of a tenant."""
        if not self.is_server:
            return EmbeddedStore(IndexSettings(path=Path(self.location), tenant=tenant, read_only=read_only, **model))
        return MilvusChunkStore(
            self.location,
            model["embedding"],
            token=self.token,
            collection=self.collection,
            tenant=tenant,
            language=model["language"],
            consistency="Strong",
        )


class _Vectors:
    """Placeholder for the model of stored vectors, which cannot embed texts."""

    def __init__(self, dimension: int, name: str) -> None:
        self._dimension, self.name = dimension, name

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise StoreError("vectors are copied, so nothing can be embedded")

    def embed_query(self, text: str) -> list[float]:
        return [0.0] * self._dimension


def _contents(source: _Location) -> tuple[dict[str, Any], list[str | None]]:
    """Return the options of a store that describe its model, and its tenants. Raises NotAnIndexError."""
    if source.is_server:
        stored = MilvusChunkStore.settings_of(source.location, token=source.token, collection=source.collection)
        if stored is None:
            raise NotAnIndexError(f"{source} does not exist: check the URI and the collection")
        facts: dict[str, Any] = {"dimension": stored.dimension, "embedding": stored.embedding}
        facts["language"], has_tenants = stored.language, stored.has_tenants
    else:
        facts = read_facts(Path(source.location))
        if not facts:
            raise NotAnIndexError(f"{source} contains no index: check the path")
        has_tenants = facts["tenancy"] == "multi"
    dimension, name = facts.get("dimension"), str(facts.get("embedding", ""))
    model = {"embedding": _Vectors(dimension or 1, name), "name": name, "language": str(facts["language"])}
    tenants: list[str | None] = [None]
    if has_tenants and source.is_server:
        with closing(source.open("-", model)) as store:
            tenants = list(store.tenants())
    elif has_tenants:
        tenants = list(list_tenants(source.location))
    if dimension is None or not tenants:
        raise StoreError(f"{source} contains nothing to copy")
    return model, tenants
