"""Copies of stores to and from Milvus."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, Serializable
from langchain_hybridgraph.errors import ConfigurationError, NotAnIndexError, StoreError, as_path
from langchain_hybridgraph.execution.processes import report
from langchain_hybridgraph.ingestion.progress import Progress, showing
from langchain_hybridgraph.records import Edge, MemoryState, Scope
from langchain_hybridgraph.stores.folder import IndexSettings, read_facts
from langchain_hybridgraph.stores.milvus.connection import Address, is_milvus_uri
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from langchain_hybridgraph.stores.store import EmbeddedStore
from langchain_hybridgraph.stores.tenants import list_tenants
from langchain_hybridgraph.times import iso_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Number of records in one write.
PAGE = 1_000
# Metadata keys that contain times.
TIMES = frozenset({"valid_from", "valid_until", "updated_at", "created_at"})


@dataclass(frozen=True, slots=True)
class MigrationReport(Serializable):
    """Numbers of records that were ``copied``, and of those ``verified`` by reading them back, by kind.

    ``left_out`` counts what the destination cannot store (such as ``retracted``). ``resumed`` tells whether the
    destination already contained a part of the copy. ``problems`` are messages about differences and other problems.
    """

    source: str
    destination: str
    copied: Mapping[str, int]
    verified: Mapping[str, int]
    left_out: Mapping[str, int] = field(default_factory=dict)
    resumed: bool = False
    seconds: float = 0.0
    problems: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether no problems were found."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{'continued' if self.resumed else 'copied'} {self.source} to {self.destination}"]
        for name, copied in self.copied.items():
            lines.append(f"  {name:<10}{copied:>12,} copied {self.verified.get(name, 0):>12,} verified")
        for name, count in self.left_out.items():
            lines.append(f"  {name:<10}{count:>12,} left out: the destination does not keep them")
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
    _check_locations(source, destination, collection, destination_collection)
    old = _open_source(source, collection or COLLECTION, source_token)
    new = _open_destination(old, destination, destination_collection or COLLECTION, destination_token)
    copy = _Copy(old.name, new.name)
    with showing(progress):
        for tenant in old.tenants:
            with closing(old.open(tenant)) as old_store, closing(new.open(tenant)) as new_store:
                copy.run(old_store, new_store, Scope(tenant=tenant))
    return MigrationReport(
        source=old.name,
        destination=new.name,
        copied=dict(+copy.copied),
        verified=dict(+copy.verified),
        left_out=dict(+copy.left_out),
        resumed=copy.resumed,
        seconds=time.monotonic() - started_at,
        problems=tuple(copy.problems),
    )


class _Page(NamedTuple):
    """Records of one tenant: chunks with one vector each, or parents, or the edges from ``nodes``."""

    chunks: Sequence[Chunk] = ()
    vectors: NDArray[np.float32] | Sequence[Any] = ()
    parents: Sequence[Chunk] = ()
    nodes: Sequence[str] = ()
    edges: Sequence[Edge] = ()

    def records(self) -> dict[tuple[str, ...], Any]:
        """Map the kind and the ids of each record to its content."""
        records: dict[tuple[str, ...], Any] = {}
        for kind, texts in (("chunks", self.chunks), ("parents", self.parents)):
            records |= {(kind, each.id): (each.text, _plain(each.metadata), each.parent) for each in texts}
        for chunk, vector in zip(self.chunks, self.vectors, strict=True):
            records["vectors", chunk.id] = np.asarray(vector, "<f4").tobytes()
        return records | {("edges", each.source, each.target, each.relation): each for each in self.edges}

    def stored_in(self, store: Any) -> _Page:
        """Return what another store has of these records."""
        chunks = store.get([each.id for each in self.chunks]) if self.chunks else []
        vectors = store.vectors([each.id for each in chunks]) if chunks else []
        parents = store.get([each.id for each in self.parents]) if self.parents else []
        return _Page(chunks, vectors, parents, self.nodes, store.edges(self.nodes) if self.nodes else [])


def _plain(value: Any) -> Any:
    """Replace tuples by lists, because a store may return a list for a tuple."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


class _Copy:
    """Copy in progress: what has been copied so far, of all tenants."""

    def __init__(self, source: str, destination: str) -> None:
        self._source, self._destination = source, destination
        self.copied, self.verified, self.left_out = Counter[str](), Counter[str](), Counter[str]()
        self.problems: list[str] = []
        self.resumed = False

    def run(self, old: Any, new: Any, scope: Scope) -> None:
        """Copy one tenant and compare it."""
        if isinstance(old, EmbeddedStore):
            if faults := old.admin.check().problems:
                raise StoreError(
                    f"{self._source} is damaged ({faults[0]}); run hybridgraph repair --index {self._source}, then the "
                    "same command again"
                )
            self._count_left_out(old)
        self._refuse_other_texts(old, new, scope)
        for page in _pages(old, scope, "copying"):
            if page.chunks:
                new.upsert(page.chunks, vectors=page.vectors)
            elif page.parents or page.edges:
                new.upsert((), parents=page.parents, edges=page.edges)
        new.flush()
        self._compare(old, new, scope)
        if isinstance(new, EmbeddedStore):
            self.problems += new.admin.check().problems

    def _count_left_out(self, old: EmbeddedStore) -> None:
        stored = old.admin.stats()
        self.left_out["retracted"] += stored["retracted"]
        self.left_out["histories"] += stored["chunks"] + stored["parents"]
        self.left_out["summaries"] += stored["layers"]
        self.left_out["files"] += len(old.files.read())
        self.left_out["modes"] += old.memory.mode is not None

    def _refuse_other_texts(self, old: Any, new: Any, scope: Scope) -> None:
        for ids in _slices([entry.id for entry in new.list_chunks(scope, len(new)).entries]):
            self.resumed = True
            texts = {chunk.id: chunk.text for chunk in old.get(ids)}
            if others := [chunk.id for chunk in new.get(ids) if texts.get(chunk.id) != chunk.text]:
                raise StoreError(
                    f"{self._destination} already contains texts that are not in {self._source}, such as "
                    f"{others[0]!r}: choose another destination"
                )

    def _compare(self, old: Any, new: Any, scope: Scope) -> None:
        """Read both stores again, and count equal records; writes to the source also lead to differences."""
        copied, equal = Counter[str](), Counter[str]()
        for page in _pages(old, scope, "verifying"):
            stored = page.stored_in(new).records()
            for key, record in page.records().items():
                copied[key[0]] += 1
                equal[key[0]] += stored.get(key) == record
        if copied != equal or len(new) != copied["chunks"]:
            counts = ", ".join(f"{count - equal[kind]:,} of {count:,} {kind}" for kind, count in copied.items())
            self.problems.append(
                f"{counts} differ in {self._destination}, which has {len(new):,} chunks: if {self._source} was written "
                "to during the migration, stop writing, delete the destination and run the same command again"
            )
        self.copied += copied
        self.verified += equal


def _pages(store: Any, scope: Scope, phase: str) -> Iterator[_Page]:
    """Yield all records of a store: parents, chunks in their order, and then edges, which need both."""
    ids = [entry.id for entry in store.list_chunks(scope, len(store)).entries]
    nodes = set(ids)
    for documents in _slices(store.document_ids()):
        for others in _slices(sorted(set().union(*store.document_chunks(documents).values()) - nodes)):
            # Retracted chunks and parents have no state. Milvus has no states of parents, and retracts nothing.
            states = store.memory.states(others, scope)
            parents = [id for id in others if id in states or not isinstance(store, EmbeddedStore)]
            nodes.update(parents)
            yield _Page(parents=_with_memories(store.get(parents), states))
    for start, part in zip(range(0, len(ids), PAGE), _slices(ids), strict=True):
        report(phase, start, len(ids), "chunks")
        states = store.memory.states(part, scope) if isinstance(store, EmbeddedStore) else {}
        chunks = _with_memories(store.get(part), states)
        yield _Page(chunks, store.vectors([chunk.id for chunk in chunks]))
    frontier = sorted(nodes)
    while frontier:
        neighbours: set[str] = set()
        for part in _slices(frontier):
            edges = store.edges(part)
            neighbours.update(edge.target for edge in edges)
            neighbours.update(edge.source for edge in store.edges(part, backwards=True))
            yield _Page(nodes=part, edges=edges)
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


def _slices(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), PAGE):
        yield values[start : start + PAGE]


# -- sources and destinations -------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A source or destination: its name, the options of its stores, its tenants, and a function that opens one."""

    name: str
    options: Mapping[str, Any]
    dimension: int | None
    tenants: Sequence[str | None]
    open: Callable[[str | None], Any]


class _Vectors:
    """Placeholder for the model of stored vectors, which cannot embed texts."""

    def __init__(self, dimension: int | None) -> None:
        self._dimension = dimension or 1

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise StoreError("vectors are copied, so nothing can be embedded")

    def embed_query(self, text: str) -> list[float]:
        return [0.0] * self._dimension


def _open_source(location: str | Path, collection: str, token: str) -> _Place:
    if is_milvus_uri(str(location)):
        name = f"{Address.parse(str(location), token)}#{collection}"
        stored = MilvusChunkStore.settings_of(str(location), token=token, collection=collection)
        if stored is None:
            raise NotAnIndexError(f"{name} does not exist: check the URI and the collection")
        options = {"embedding": _Vectors(stored.dimension), "name": stored.embedding, "language": stored.language}
        opener = _milvus_opener(str(location), token, collection, options)
        tenants: list[str | None] = [None]
        if stored.has_tenants:
            with closing(opener("-")) as store:
                tenants = list(store.tenants())
        place = _Place(name, options, stored.dimension, tenants, opener)
    else:
        folder = Path(location).resolve()
        facts = read_facts(folder)
        if not facts:
            raise NotAnIndexError(f"{location} contains no index: check the path")
        dimension = facts.get("dimension")
        model = {"embedding": _Vectors(dimension), "name": str(facts.get("embedding", ""))}
        options = {**model, "language": str(facts["language"])}
        tenants = list(list_tenants(folder)) if facts["tenancy"] == "multi" else [None]
        place = _Place(str(folder), options, dimension, tenants, _folder_opener(folder, options, read_only=True))
    if not place.tenants:
        raise StoreError(f"{place.name} contains nothing to copy")
    return place


def _folder_opener(
    folder: Path, options: Mapping[str, Any], *, read_only: bool = False
) -> Callable[[str | None], EmbeddedStore]:
    settings = IndexSettings(path=folder, read_only=read_only, **options)
    return lambda tenant: EmbeddedStore(replace(settings, tenant=tenant))


def _milvus_opener(
    uri: str, token: str, collection: str, options: Mapping[str, Any]
) -> Callable[[str | None], MilvusChunkStore]:
    return lambda tenant: MilvusChunkStore(
        uri, token=token, tenant=tenant, collection=collection, consistency="Strong", **options
    )


def _open_destination(source: _Place, location: str | Path, collection: str, token: str) -> _Place:
    if not is_milvus_uri(str(location)):
        folder = Path(location).resolve()
        read_facts(folder)  # raises for a folder with other contents
        return source._replace(name=str(folder), open=_folder_opener(folder, source.options))
    if source.options["name"] == "lsa":
        raise ConfigurationError(
            "the source has the embedding 'lsa', whose model was fitted to the source's texts and cannot be stored "
            "in Milvus: ingest the documents into Milvus with another embedding"
        )
    if source.dimension is None:
        raise StoreError("the source has no vectors, so there is nothing to copy")
    name = f"{Address.parse(str(location), token)}#{collection}"
    return source._replace(name=name, open=_milvus_opener(str(location), token, collection, source.options))


def _check_locations(
    source: str | Path, destination: str | Path, collection: str | None, new_collection: str | None
) -> None:
    """Raise ConfigurationError for locations that ``migrate`` cannot use."""
    places = (("source", source, collection), ("destination", destination, new_collection))
    for name, location, own_collection in places:
        as_path(name, location)
        if is_milvus_uri(str(location)):
            continue
        if "://" in str(location):
            raise ConfigurationError(
                f"{location} cannot be the {name} of a copy; pass an index folder or milvus://HOST:PORT"
            )
        if own_collection is not None:
            raise ConfigurationError(
                f"{location} is not in Milvus, so it has no collection {own_collection!r}: leave the collection out"
            )
    if not any(is_milvus_uri(str(location)) for _, location, _ in places):
        raise ConfigurationError(
            f"{source} and {destination} are both folders; an index is one folder, so copy the folder while nothing is "
            "writing to it"
        )
    if source == destination and (collection or COLLECTION) == (new_collection or COLLECTION):
        raise ConfigurationError(
            f"{destination} is both the source and the destination: choose another destination, or another destination "
            "collection"
        )
