"""Copies of stores, compared with their source."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.adapters.chroma_collection import ChromaCollection, ChromaServer
from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, Serializable
from langchain_hybridgraph.embeddings import embedding_name, resolve_embedding
from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    NotAnIndexError,
    ReadOnlyError,
    StoreError,
    as_path,
)
from langchain_hybridgraph.execution.processes import report
from langchain_hybridgraph.ingestion.progress import Progress, showing
from langchain_hybridgraph.records import Edge, MemoryState, Scope
from langchain_hybridgraph.stores.folder import LOCK, IndexSettings, copy_index, read_facts
from langchain_hybridgraph.stores.generations import SAME_VECTOR
from langchain_hybridgraph.stores.milvus.connection import Address
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from langchain_hybridgraph.stores.store import EmbeddedStore
from langchain_hybridgraph.stores.tenants import list_tenants
from langchain_hybridgraph.stores.vectors import unit
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT, WriterLock
from langchain_hybridgraph.times import iso_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ChromaServer", "MigrationReport", "migrate"]

# Number of records in one write.
PAGE = 1_000
# Metadata keys that contain times.
TIMES = frozenset({"valid_from", "valid_until", "updated_at", "created_at"})


@dataclass(frozen=True, slots=True)
class MigrationReport(Serializable):
    """Numbers of records that were ``copied``, and of those ``verified`` by reading them back, by kind.

    ``left_out`` counts what the destination cannot store (such as ``retracted chunks``). ``resumed`` tells whether the
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
            lines.append(f"  {name:<10}{copied:>12,} copied {self.verified[name]:>12,} verified")
        for name, count in self.left_out.items():
            lines.append(f"  {name:<10}{count:>12,} left out: the destination does not keep them")
        return "\n".join([*lines, f"took {self.seconds:.1f} s"])


def migrate(
    source: str | Path | ChromaServer,
    destination: str | Path,
    *,
    collection: str | None = None,
    destination_collection: str | None = None,
    source_token: str = "",
    destination_token: str = "",
    embedding: Embeddings | str | None = None,
    language: str = "english",
    progress: bool | Progress | None = False,
) -> MigrationReport:
    """Copy a store into an empty one, then compare the two. Vectors are copied, not computed again.

    ``source`` is an index folder, a Chroma folder, a Chroma server, or the URI of a store in Milvus
    (``milvus://host:19530/database``, ``milvus:notes.db``). ``destination`` is an index folder or the URI of a store in
    Milvus. ``collection`` and ``destination_collection`` are the names of collections in Milvus or Chroma. The tokens
    are used to log in to servers. Chroma does not record the model of the vectors or the language of the texts, so pass
    them as ``embedding`` and ``language``.

    A folder is copied to another folder file by file; writers wait during this time. For other copies, stop writing to
    the source: if it changes, the report contains a problem. To continue an interrupted copy, make the same call again.

    Raises StoreError for a destination that contains anything else, EmbeddingMismatchError for vectors of another
    model, and ConfigurationError for a location that cannot be used.

    >>> from tempfile import TemporaryDirectory
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> with TemporaryDirectory() as folder:
    ...     HybridGraphStore.from_texts(["Ada likes tea.", "Bo plays chess."], path=f"{folder}/old").close()
    ...     report = migrate(f"{folder}/old", f"{folder}/new")
    >>> report.ok, report.copied["chunks"], report.verified["vectors"]
    (True, 2, 2)
    """
    started_at = time.monotonic()
    _check_distinct(source, destination, collection, destination_collection)
    with showing(progress), ExitStack() as stack:
        old = _open_source(source, collection, embedding, language, source_token)
        new = _open_destination(old, destination, destination_collection, destination_token)
        copy = _Copy(old, new, are_files=old.folder is not None and new.folder is not None)
        if copy.are_files and old.folder is not None:
            stack.enter_context(_copied_files(old.folder, Path(new.name), copy.problems))
        copy.run()
    return MigrationReport(
        source=old.name,
        destination=new.name,
        copied=dict(+copy.copied.counts),
        verified=dict(+copy.verified.counts),
        left_out=dict(+copy.left_out),
        resumed=copy.resumed,
        seconds=time.monotonic() - started_at,
        problems=tuple(copy.problems),
    )


class _Page(NamedTuple):
    """Records of one tenant. There is one vector per chunk; ``memories`` are those of the chunks and parents."""

    chunks: Sequence[Chunk] = ()
    vectors: NDArray[np.float32] | Sequence[Any] = ()
    parents: Sequence[Chunk] = ()
    edges: Sequence[Edge] = ()
    memories: Mapping[str, MemoryState] = MappingProxyType({})


class _Content:
    """Number of records of each kind, and the sum of their hashes in any order (Clarke et al. 2003, "AdHash")."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()

    def add_page(self, tenant: str | None, page: _Page) -> None:
        for chunk, vector in zip(page.chunks, page.vectors, strict=True):
            self._add("chunks", [tenant, _parts_of(chunk)])
            self._add("vectors", [tenant, chunk.id], np.ascontiguousarray(vector, "<f4").tobytes())
        for parent in page.parents:
            self._add("parents", [tenant, _parts_of(parent)])
        for edge in page.edges:
            self._add("edges", [tenant, edge.to_dict()])
        for id, memory in page.memories.items():
            self._add("memory", [tenant, id, asdict(memory)])

    def _add(self, kind: str, record: list[Any], vector: bytes = b"") -> None:
        text = json.dumps(_plain(record), sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode() + vector, digest_size=16).digest()
        self.counts[kind] += 1
        self._sums[kind] = (self._sums[kind] + int.from_bytes(digest, "little")) % (1 << 128)

    def differences(self, other: _Content) -> list[str]:
        """Return one message for each kind of which ``other`` has a different number or sum."""
        messages = []
        for kind in sorted(self.counts | other.counts):
            expected, actual = self.counts[kind], other.counts[kind]
            if expected != actual:
                messages.append(f"{kind}: {expected:,} were copied, and they are {actual:,} in the destination")
            elif self._sums[kind] != other._sums[kind]:
                messages.append(f"{kind}: {expected:,} were copied, and they differ")
        return messages


class _Copy:
    """Copy in progress; if ``are_files``, the destination already contains the source's files, and is only compared."""

    def __init__(self, source: _Place, destination: _Place, *, are_files: bool) -> None:
        self._source, self._destination, self.are_files = source, destination, are_files
        self.copied, self.verified, self._again = _Content(), _Content(), _Content()
        self.left_out: Counter[str] = Counter()
        self.problems: list[str] = []
        self.resumed = False

    def run(self) -> None:
        for number, tenant in enumerate(self._source.tenants):
            with closing(self._source.open(tenant)) as old, closing(self._destination.open(tenant)) as new:
                if number == 0 and self._source.folder is not None and (faults := old.admin.check().problems):
                    raise StoreError(
                        f"{self._source.name} is damaged ({faults[0]}); run hybridgraph repair --index "
                        f"{self._source.name}, then the same command again"
                    )
                if not self.are_files:
                    self._refuse_other_chunks(tenant, old, new)
                self._copy(tenant, old, new)
                self._verify(tenant, old, new)
                if number == len(self._source.tenants) - 1 and self._destination.folder is not None:
                    self.problems += new.admin.check().problems
        if not self.are_files and self.copied.differences(self._again):
            self.problems.insert(
                0,
                f"{self._source.name} was written to during the migration: stop writing, delete "
                f"{self._destination.name} and run it again",
            )
        self.problems += self.copied.differences(self.verified)

    def _refuse_other_chunks(self, tenant: str | None, old: Any, new: Any) -> None:
        for ids in _slices([entry.id for entry in new.list_chunks(Scope(tenant=tenant), len(new)).entries]):
            self.resumed = True
            if len(old.get(ids)) < len(ids):
                raise StoreError(
                    f"{self._destination.name} already contains chunks that are not in {self._source.name}: choose "
                    "another destination"
                )

    def _copy(self, tenant: str | None, old: Any, new: Any) -> None:
        before, total, sources = Counter(self.copied.counts), len(old), set[str]()
        for stored_page in _pages(tenant, old):
            report("copying", self.copied.counts["chunks"] - before["chunks"], total, "chunks")
            page = stored_page if self.are_files else _adapted(stored_page, self.left_out)
            if not self.are_files:
                self._write(page, new)
                if self._source.folder is not None:
                    kind = "chunks" if page.chunks else "parents"
                    self.left_out[f"histories of {kind}"] += _count_revised(tenant, old, stored_page.memories)
            self.copied.add_page(tenant, page)
            sources.update(str(chunk.metadata["source"]) for chunk in page.chunks if "source" in chunk.metadata)
        if self._source.folder is None:
            return
        stored, others = old.admin.stats(), self._others(old, sources)
        if self.are_files:
            self.copied.counts.update({**others, "retracted": stored["retracted"]})
            self.verified.counts.update({**self._others(new, sources), "retracted": new.admin.stats()["retracted"]})
            return
        for kind in ("chunks", "parents", "edges"):
            left = stored[kind] - (self.copied.counts[kind] - before[kind])
            self.left_out["edges between entities without texts" if kind == "edges" else f"retracted {kind}"] += left
        self.left_out["arrival times of edges"] += self.copied.counts["edges"] - before["edges"]
        self.left_out.update(others)

    def _write(self, page: _Page, new: Any) -> None:
        stored = {chunk.id: chunk for chunk in new.get([chunk.id for chunk in (*page.chunks, *page.parents)])}
        for chunk in (*page.chunks, *page.parents):
            if chunk.id in stored and _plain(_parts_of(stored[chunk.id])) != _plain(_parts_of(chunk)):
                raise StoreError(
                    f"{self._destination.name} already contains another text with the id {chunk.id!r}: choose another "
                    "destination"
                )
        if page.chunks:
            new.upsert(page.chunks, vectors=page.vectors)
        elif page.parents or page.edges:
            new.upsert((), parents=page.parents, edges=page.edges)

    def _verify(self, tenant: str | None, old: Any, new: Any) -> None:
        """Read the copy, and, unless the source's files are locked, the source again."""
        new.flush()
        for page in _pages(tenant, new):
            report("verifying", self.verified.counts["chunks"], self.copied.counts["chunks"], "chunks")
            self.verified.add_page(tenant, page if self.are_files else page._replace(memories={}))
        if not self.are_files:
            for page in _pages(tenant, old):
                report("reading again", self._again.counts["chunks"], self.copied.counts["chunks"], "chunks")
                self._again.add_page(tenant, _adapted(page, Counter()))

    @staticmethod
    def _others(store: EmbeddedStore, sources: set[str]) -> dict[str, int]:
        """Return the numbers of records that only a folder has."""
        credible = sum(store.memory.credibility(source) != 0.5 for source in sources)
        return {
            "summaries": store.admin.stats()["layers"],
            "files": len(store.files.read()),
            "settings": credible + (store.memory.mode is not None),
        }


def _pages(tenant: str | None, store: Any) -> Iterator[_Page]:
    """Yield all records of a store: parents, chunks in their order, and then edges, which need both."""
    if isinstance(store, ChromaCollection):
        for chunks, vectors in store.pages(PAGE):
            yield _Page(chunks, vectors)
        return
    scope = Scope(tenant=tenant)
    ids = [entry.id for entry in store.list_chunks(scope, len(store)).entries]
    nodes = set(ids)
    for documents in _slices(store.document_ids()):
        for others in _slices(sorted(set().union(*store.document_chunks(documents).values()) - nodes)):
            memories = store.memory.states(others, scope)
            # Retracted chunks and parents have no state. Milvus has no states of parents, and retracts nothing.
            parents = [id for id in others if id in memories or not isinstance(store, EmbeddedStore)]
            nodes.update(parents)
            yield _Page(parents=store.get(parents), memories=memories)
    for part in _slices(ids):
        chunks = store.get(part)
        yield _Page(chunks, store.vectors([chunk.id for chunk in chunks]), memories=store.memory.states(part, scope))
    frontier = sorted(nodes)
    while frontier:
        neighbours: set[str] = set()
        for part in _slices(frontier):
            edges = store.edges(part)
            neighbours.update(edge.target for edge in edges)
            neighbours.update(edge.source for edge in store.edges(part, backwards=True))
            yield _Page(edges=edges)
        frontier = sorted(neighbours - nodes)
        nodes |= neighbours


def _adapted(page: _Page, left_out: Counter[str]) -> _Page:
    """Return a page without memories: their current values are added to the metadata, and the others are counted."""

    def adapted(kind: str, chunk: Chunk) -> Chunk:
        state = page.memories.get(chunk.id, MemoryState())
        stored, learned = ParsedMetadata.of(chunk.metadata)._asdict(), dict[str, Any]()
        for name, value in asdict(state).items():
            is_unset = value is None or (value == 0 and stored.get(name) is None)
            if name in stored and value != stored[name] and not is_unset:
                learned[name] = iso_time(value) if name in TIMES else value
        left_out[f"arrival times of {kind}"] += state.learned_at is not None
        left_out[f"times of last use of {kind}"] += state.used_at is not None
        left_out[f"expiry times of {kind}"] += "valid_until" in learned and not state.end_learned
        return replace(chunk, metadata={**chunk.metadata, **learned}) if learned else chunk

    chunks, parents = ([adapted(kind, each) for each in getattr(page, kind)] for kind in ("chunks", "parents"))
    return page._replace(chunks=chunks, parents=parents, memories={})


def _count_revised(tenant: str | None, store: EmbeddedStore, memories: Mapping[str, MemoryState]) -> int:
    """Return how many of these memories had another validity, confidence or utility when they were stored."""
    by_time: dict[float | None, list[str]] = {}
    for id, memory in memories.items():
        by_time.setdefault(memory.learned_at, []).append(id)
    count = 0
    for learned_at, ids in by_time.items():
        for id, first in store.memory.states(ids, Scope(tenant=tenant, known_at=learned_at)).items():
            now = memories[id]
            fields = ("valid_from", "valid_until", "confidence", "utility")
            count += any(getattr(first, name) != getattr(now, name) for name in fields)
    return count


def _parts_of(chunk: Chunk) -> list[Any]:
    return [chunk.id, chunk.text, dict(chunk.metadata), chunk.document, chunk.parent]


def _plain(value: Any) -> Any:
    """Replace floats such as 1.0 by integers, because a store may return 1.0 for 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _slices(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), PAGE):
        yield values[start : start + PAGE]


# -- sources and destinations -------------------------------------------------------------------------------------


class _Settings(NamedTuple):
    embedding: str
    dimension: int | None
    language: str

    def options(self) -> dict[str, Any]:
        return {"embedding": _Vectors(self.dimension), "name": self.embedding, "language": self.language}

    def open_folder(self, folder: Path, tenant: str | None, *, read_only: bool = False) -> EmbeddedStore:
        return EmbeddedStore(IndexSettings(path=folder, tenant=tenant, read_only=read_only, **self.options()))


@dataclass(frozen=True)
class _Place:
    """A source or destination; ``folder`` is None unless it is an index folder."""

    name: str
    settings: _Settings
    tenants: Sequence[str | None]
    open: Callable[[str | None], Any]
    folder: Path | None = None


class _Vectors:
    """Placeholder for the model of stored vectors, which cannot embed texts."""

    def __init__(self, dimension: int | None) -> None:
        self._dimension = dimension or 1

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise StoreError("vectors are copied, so nothing can be embedded")

    def embed_query(self, text: str) -> list[float]:
        return [0.0] * self._dimension


def _open_source(
    location: str | Path | ChromaServer,
    collection: str | None,
    embedding: Embeddings | str | None,
    language: str,
    token: str,
) -> _Place:
    if isinstance(location, str) and location.startswith(("http://", "https://")):
        location = ChromaServer(location, token=token or None)
    if isinstance(location, ChromaServer) or (
        not _is_milvus(location) and (Path(location) / "chroma.sqlite3").exists()
    ):
        return _chroma(location, collection, embedding, language)
    if _is_milvus(location):
        place = _stored_in_milvus(str(location), collection or COLLECTION, token)
    elif collection is not None:
        raise ConfigurationError(
            f"{location} is not in Milvus or Chroma, so it has no collection {collection!r}: leave the collection out"
        )
    else:
        folder = Path(location).resolve()
        facts = read_facts(folder)
        if not facts:
            raise NotAnIndexError(f"{location} contains no index: check the path")
        tenants = list(list_tenants(folder)) if facts["tenancy"] == "multi" else [None]
        settings = _Settings(str(facts.get("embedding", "")), facts.get("dimension"), str(facts["language"]))
        opener = partial(settings.open_folder, folder, read_only=True)
        place = _Place(str(folder), settings, tenants, opener, folder)
    own = place.settings.embedding
    if embedding is not None and (other := embedding_name(resolve_embedding(embedding))) != own:
        raise EmbeddingMismatchError(
            f"{place.name} was made with the embedding {own!r}, not {other!r}, and vectors are copied "
            f"unchanged: leave the embedding out, or ingest the documents into a new store to use {other!r}"
        )
    if not place.tenants:
        raise StoreError(f"{place.name} contains nothing to copy")
    return place


def _stored_in_milvus(uri: str, collection: str, token: str) -> _Place:
    name = f"{Address.parse(uri, token)}#{collection}"
    stored = MilvusChunkStore.settings_of(uri, token=token, collection=collection)
    if stored is None:
        raise NotAnIndexError(f"{name} does not exist: check the URI and the collection")
    settings = _Settings(stored.embedding, stored.dimension, stored.language)
    opener = _milvus_opener(uri, collection, token, settings)
    tenants: list[str | None] = [None]
    if stored.has_tenants:
        with closing(opener("-")) as store:
            tenants = list(store.tenants())
    return _Place(name, settings, tenants, opener)


def _chroma(
    location: str | Path | ChromaServer, collection: str | None, embedding: Embeddings | str | None, language: str
) -> _Place:
    """Return a collection as a source, after checking that ``embedding`` computed its first vectors."""
    if embedding is None:
        raise ConfigurationError(
            "a Chroma collection does not record which model made its vectors; pass embedding=… or --embedding"
        )
    if embedding == "lsa":
        raise ConfigurationError(
            "'lsa' cannot be the model of a Chroma collection: it is fitted to the texts of one index; pass the "
            "model that computed the vectors"
        )
    model = resolve_embedding(embedding)
    name, dimension = embedding_name(model), None
    place = location if isinstance(location, ChromaServer) else Path(location)

    with closing(ChromaCollection(place, collection)) as source:
        for chunks, stored in source.pages(3):
            own, dimension = unit(model.embed_documents([chunk.text for chunk in chunks])), stored.shape[1]
            if own.shape != stored.shape:
                raise EmbeddingMismatchError(
                    f"{source.name} has vectors of {dimension} dimensions, but {name} returns {own.shape[1]} "
                    "dimensions: pass the embedding that computed the vectors"
                )
            if (cosine := float((own * stored).sum(axis=1).max())) < SAME_VECTOR:
                raise EmbeddingMismatchError(
                    f"the vectors of {source.name} were not computed by {name} (the cosine for the same text is "
                    f"{cosine:.2f}): pass the embedding that computed the vectors"
                )
            break
        settings = _Settings(name, dimension, language)
        return _Place(source.name, settings, [None], lambda _: ChromaCollection(place, collection))


def _open_destination(source: _Place, location: str | Path, collection: str | None, token: str) -> _Place:
    settings = source.settings
    if _is_milvus(location):
        if settings.embedding == "lsa":
            raise ConfigurationError(
                "the source has the embedding 'lsa', whose model was fitted to the source's texts and cannot be stored "
                "in Milvus: ingest the documents into Milvus with another embedding"
            )
        if settings.dimension is None:
            raise StoreError("the source has no vectors, so there is nothing to copy")
        uri, collection = str(location), collection or COLLECTION
        name = f"{Address.parse(uri, token)}#{collection}"
        return _Place(name, settings, source.tenants, _milvus_opener(uri, collection, token, settings))
    if "://" in str(location):
        raise ConfigurationError(
            f"{location} cannot be the destination of a copy; pass an index folder or milvus://HOST:PORT"
        )
    if collection is not None:
        raise ConfigurationError(
            f"{location} is not in Milvus, so it has no collection {collection!r}: leave the collection out"
        )
    folder = Path(location).resolve()
    if read_facts(folder) and source.folder is not None:
        raise StoreError(f"{folder} already contains an index: choose a new folder, or delete this one")
    target = folder if source.folder is None else _unfinished(folder)
    return _Place(str(folder), settings, source.tenants, partial(settings.open_folder, target), target)


def _milvus_opener(
    uri: str, collection: str, token: str, settings: _Settings
) -> Callable[[str | None], MilvusChunkStore]:
    return lambda tenant: MilvusChunkStore(
        uri, token=token, tenant=tenant, collection=collection, consistency="Strong", **settings.options()
    )


@contextmanager
def _copied_files(source: Path, destination: Path, problems: Sequence[str]) -> Iterator[None]:
    """Copy the files of an index while its writers wait; at the end, name the copy unless there are problems."""
    unfinished = _unfinished(destination)
    shutil.rmtree(unfinished, ignore_errors=True)
    with ExitStack() as stack:
        with suppress(ReadOnlyError):  # nobody can write to the folder
            stack.enter_context(WriterLock(source / LOCK).turn(WRITE_TIMEOUT))
        try:
            copy_index(source, unfinished)
            yield
            if not problems:
                unfinished.replace(destination)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _unfinished(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.unfinished")


def _check_distinct(
    source: str | Path | ChromaServer, destination: str | Path, collection: str | None, new_collection: str | None
) -> None:
    as_path("destination", destination)
    if isinstance(source, ChromaServer):
        return
    as_path("source", source)
    if _is_milvus(source) or _is_milvus(destination):
        is_same = source == destination and (collection or COLLECTION) == (new_collection or COLLECTION)
        advice = "another destination, or another destination collection"
    else:
        is_same = Path(source).resolve() == Path(destination).resolve()
        advice = "a new folder as the destination"
    if is_same:
        raise ConfigurationError(f"{destination} is both the source and the destination: choose {advice}")


def _is_milvus(location: object) -> bool:
    return isinstance(location, str) and (location.startswith("milvus:") or location.endswith(".db"))
