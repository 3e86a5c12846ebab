"""The embedded store: one folder, SQLite as the truth, three indexes beside it.

Writing: vectors to the matrix (fsync) → one transaction of the catalogue, which accepts the batch → the engines. A
crash between the steps leaves vectors that nobody owns (overwritten by the next batch) or engines that lag behind
(brought up to date from the outbox at the next write or open). What the catalogue accepted is never lost.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import (
    EmbeddingMismatchError,
    NotAnIndexError,
    ReadOnlyError,
    StoreError,
    StoreLockedError,
    TenantError,
)
from langchain_hybridgraph.records import Found
from langchain_hybridgraph.stores import catalog
from langchain_hybridgraph.stores.catalog import CHUNK, Catalogue, Entry, Known, Stored
from langchain_hybridgraph.stores.columns import MetadataColumns
from langchain_hybridgraph.stores.encoding import entries, reference, storable
from langchain_hybridgraph.stores.gate import Gate
from langchain_hybridgraph.stores.generation import Embeds, Generation, remove_leftovers
from langchain_hybridgraph.stores.keywords import Keywords
from langchain_hybridgraph.stores.lock import WriterLock
from langchain_hybridgraph.stores.rows import Rows
from langchain_hybridgraph.stores.vectors import cosines, unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Chunk, Edge, Mask, Query, Scope, Vector
    from langchain_hybridgraph.stores.base import KeywordIndex

logger = logging.getLogger(__name__)

CATALOGUE, KEYWORDS, LOCK = "catalogue.sqlite", "keywords", "writer.lock"
# Up to this size the exact scan of the matrix is at least as fast as Chroma's approximate search
# (384 dimensions: 20,000 rows 0.9 ms, 63,666 rows 3 ms; Chroma 1.1 to 1.4 ms throughout).
SCAN_BYTES = 40 << 20
# From this share of allowed rows on Chroma is asked for a few more and masked; below, the matrix is scanned.
OVERFETCH_SHARE = 0.9
# So many rows wait at most until the engines are brought up to date in the middle of an ingest.
STEP_ROWS = 8_192
# So many versions of the outbox are kept for readers in other processes; who is further behind reads all anew.
KEPT_VERSIONS = 64
# A model made from the corpus is fitted to at most so many texts, taken evenly from the whole index.
FIT_TEXTS = 100_000
# Seconds to wait for another process that is just making the index in the same folder.
CREATION_PATIENCE = 10.0
# So many texts are given to the embedding at once when vectors are mended.
EMBEDDED_AT_ONCE = 500
# The cosine from which on the probe text's vector counts as the one that the index was made with.
SAME_VECTOR = 0.99


@runtime_checkable
class Fitted(Embeds, Protocol):
    """An embedding that is made from the corpus itself and kept in the index folder."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn from the texts."""
        ...

    def save(self, path: Path) -> None:
        """Write what was learned to a file, durably."""
        ...

    def needs_refit(self, texts: Sequence[str]) -> bool:
        """Whether these texts, taken in since the fit, are too far from what was learned."""
        ...


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What ``check`` found; without ``problems`` catalogue, matrix and engines agree.

    ``unchecked`` says what could not be looked at, because another process is writing or the folder is read-only.
    """

    problems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class Seen(NamedTuple):
    """One state of the index, that of ``rows.version``; a search works on one from beginning to end."""

    rows: Rows
    generation: Generation


def recorded(path: Path | None) -> dict[str, Any]:
    """The facts of the index in this folder, {} when there is none yet.

    Raises NotAnIndexError for a folder that holds other things, or a path that is no folder.
    """
    if path is None or not path.exists():
        return {}
    if not path.is_dir():
        raise NotAnIndexError(f"{path} is a file; an index is a folder")
    if (path / CATALOGUE).exists():
        catalogue = Catalogue(path / CATALOGUE)
        try:
            return catalogue.about()
        finally:
            catalogue.close()
    if any(not entry.name.startswith((LOCK, CATALOGUE)) for entry in path.iterdir()):
        raise NotAnIndexError(
            f"{path} is not empty and holds no index ({CATALOGUE} is missing): name another folder for a new one"
        )
    return {}


class EmbeddedStore:
    """Chunks, parents and edges in one folder, searched by vector and by keyword.

    ``path`` None keeps everything in memory. ``embedding`` makes the vectors and ``name`` says which model it is;
    ``load`` reads the model of a fitted embedding from its file. A ``tenant`` given at creation makes a
    multi-tenant folder: from then on every opening names its tenant, and sees nothing else.

    Any number of processes may read while one writes. Raises StoreError in its kinds (NotAnIndexError,
    FormatVersionError, EmbeddingMismatchError) and TenantError.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        embedding: Embeds,
        name: str,
        load: Callable[[Path], Embeds] | None = None,
        tenant: str | None = None,
        language: str = "english",
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.name = name
        self._given = embedding
        self.tenant = tenant
        self._load = load
        self._read_only = read_only
        self._writing = threading.RLock()
        self._refreshing = threading.RLock()
        self._gate = Gate()
        self._lock = None if path is None else WriterLock(path / LOCK)
        self._pending = 0
        self._catalogue = self._open_catalogue(language)
        self.language = str(self._catalogue.about()["language"])
        self._keywords = Keywords(path and path / KEYWORDS, self.language, self._catalogue)
        self._seen = Seen(Rows(tenant or ""), Generation(path, -1, None, embedding))
        self._columns = MetadataColumns(self._metadata)
        self._is_known_embedding = False
        try:
            self._refresh()
            self._catch_up()
        except BaseException:
            self._release()
            raise

    @property
    def embedding(self) -> Embeds:
        """The embedding of the present generation."""
        return self._generation.embedding

    @property
    def _rows(self) -> Rows:
        return self._seen.rows

    @property
    def _generation(self) -> Generation:
        return self._seen.generation

    # -- reading --------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str], scope: Scope, known: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """The chunks among ``ids`` that exist, pass the filter and are valid (see ``stores.base.Reads``)."""
        self._check_scope(scope)
        with self._gate:
            stored = self._stored(ids)
        return {
            entry.id: entry.chunk()
            for entry in stored
            if entry.valid(scope.as_of) and (scope.filter is None or scope.filter.matches(_filterable(entry)))
        }

    def _stored(self, ids: Sequence[str]) -> list[Stored]:
        rows = self._rows.rows(ids)
        stored = self._catalogue.read_rows(rows)
        while len(stored) < len(rows):
            # Somebody has just written: a chunk that got a new row stands there, one that was deleted nowhere.
            version = self._rows.version
            rows = self._refresh().rows.rows(ids)
            stored = self._catalogue.read_rows(rows)
            if self._rows.version == version:
                break
        return stored

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """The parents among ``ids`` that exist and are valid (see ``stores.base.HasParents``)."""
        self._check_scope(scope)
        with self._gate:
            stored = self._catalogue.read_ids(self._rows.tenant, ids)
        return {entry.id: entry.chunk() for entry in stored if entry.valid(scope.as_of)}

    @property
    def has_parents(self) -> bool:
        """Whether there is any parent now."""
        return self._rows.has_parents

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """The chunks and parents with these ids, in the order of ``ids``, valid or not; missing ones are left out."""
        with self._gate:
            found = {entry.id: entry.chunk() for entry in self._catalogue.read_ids(self._rows.tenant, ids)}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the chunks and parents that each document has now."""
        asked = {reference(id): id for id in document_ids}
        chunks: dict[str, set[str]] = {id: set() for id in document_ids}
        with self._gate:
            for document, id in self._catalogue.documents(self._rows.tenant, asked):
                chunks[asked[document]].add(id)
        return chunks

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """The edges that leave these chunks (``backwards``: arrive there), by source, relation and target."""
        with self._gate:
            return self._catalogue.edges(self._rows.tenant, ids, backwards=backwards)

    def find(self, scope: Scope) -> list[str]:
        """The ids of all chunks in this scope, by age."""
        self._check_scope(scope)
        with self._gate:
            rows = self._refresh().rows
            return rows.ids(np.flatnonzero(self._allowed(rows, scope)).tolist())

    def __len__(self) -> int:
        """How many chunks there are; parents are not counted."""
        with self._gate:
            return self._refresh().rows.living

    # -- searching ------------------------------------------------------------------------------------------

    def vector_search(self, query: Query, n: int) -> Found:
        """The n chunks of largest cosine (see ``stores.base.SearchesVectors``).

        Exact up to ``SCAN_BYTES`` of vectors, under a selective filter, and in every process that does not hold the
        writer's lock; approximate, by Chroma, in a larger index.
        """
        self._check_scope(query.scope)
        with self._gate:
            seen = self._refresh()
            if not seen.rows.living:
                return Found([])
            if self._is_unfitted(seen.generation):
                return Found([], reason="no-lsa-index")
            vector = self._query_vector(query, seen.generation)
            if not vector.any():
                return Found([], reason="query-out-of-vocabulary" if query.vector is None else None)
            rows, scores = self._nearest(seen, vector, n, query.scope)
            found = seen.rows.scored(rows.tolist(), scores.tolist())
            return Found(found, vector, background=self._background(seen, vector))

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """The cosine of each of these chunks."""
        with self._gate:
            known, matrix = self._rows, self._generation.matrix
            if matrix is None:
                return {}
            rows = known.rows(ids)
            return dict(zip(known.ids(rows), matrix.scores(vector, rows).tolist(), strict=True))

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """The unit vectors of these chunks, len(ids) × dimension; zeros for an id without one."""
        with self._gate:
            known, matrix = self._rows, self._generation.matrix
            vectors = np.zeros((len(ids), 1 if matrix is None else matrix.dimension), np.float32)
            rows = {place: row for place, id in enumerate(ids) for row in known.rows([id])}
            if matrix is not None and rows:
                vectors[list(rows)] = matrix.take(list(rows.values()))
            return vectors

    def keyword_search(self, query: Query, n: int) -> Found:
        """The n chunks of largest BM25 (see ``stores.base.SearchesKeywords``).

        BM25's statistics are those of the whole folder, also in one with several tenants.
        """
        self._check_scope(query.scope)
        if query.text is None:
            return Found([], reason="no-query-text")
        text, scope = query.text, query.scope
        with self._gate:
            rows = self._refresh().rows
            if not self.writable and self._keywords.index.applied < rows.version:
                self._keywords.reload()
                rows = self._refresh().rows  # the index may have been reloaded to a later version

            def ask(index: KeywordIndex) -> Found:
                is_all = scope.filter is None and rows.full and index.applied == rows.version
                found = index.search(text, n, None if is_all else self._allowed(rows, scope))
                entries = rows.scored([row for row, _ in found], [score for _, score in found])
                is_empty = rows.living > 0 and not index.applied
                reason = self._keywords.reason or ("no-keyword-index" if is_empty else None)
                return Found(entries, bound=index.bound(text), reason=reason)

            return self._keywords.ask(ask)

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """The BM25 of each of these chunks; those that share no word with the text are left out."""
        with self._gate:
            known = self._rows
            scores = self._keywords.ask(lambda index: index.scores(text, known.rows(ids)))
            return dict(zip(known.ids(scores), scores.values(), strict=True))

    def _nearest(
        self, seen: Seen, vector: Vector, n: int, scope: Scope
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        matrix = seen.generation.matrix
        assert matrix is not None, "chunks with vectors have a matrix"
        allowed = self._allowed(seen.rows, scope)
        found = self._nearest_by_chroma(seen, vector, n, allowed)
        if found is None:
            return matrix.search(vector, n, allowed[: len(matrix)])
        scores = matrix.scores(vector, found)
        order = np.lexsort((found, -scores))[:n]
        return found[order], scores[order]

    def _nearest_by_chroma(self, seen: Seen, vector: Vector, n: int, allowed: Mask) -> NDArray[np.int64] | None:
        """At least n allowed rows near the vector; None where the scan has to be asked."""
        generation = seen.generation
        collection, collected = generation.collection, generation.collected
        if collection is None or collected is None or collected[0] != seen.rows.version or not _is_large(seen):
            return None
        share = np.count_nonzero(allowed) / max(collected[1], 1)
        if share < OVERFETCH_SHARE:
            return None
        try:
            found = collection.search(vector, int(1.1 * n / share) + 8 if share < 1 else n)
        except StoreError:
            logger.warning("Chroma did not answer; the matrix does", exc_info=True)
            return None
        if generation.collected != collected:
            return None  # written to meanwhile
        found = found[found < len(allowed)]
        found = found[allowed[found]]
        return found if len(found) >= n else None

    def _background(self, seen: Seen, vector: Vector) -> tuple[float, float] | None:
        """Mean and standard deviation of the vector's cosines with arbitrary chunks; None for too few of them."""
        sample = seen.generation.sample(seen.rows.version, seen.rows.allowed(None))
        if sample is None:
            return None
        found = cosines(sample, vector)
        deviation = float(found.std())
        return (float(found.mean()), deviation) if deviation > 0 else None

    def _allowed(self, rows: Rows, scope: Scope) -> Mask:
        mask = rows.allowed(scope.as_of)
        if scope.filter is not None:
            mask &= self._columns.mask(scope.filter, len(mask))
        return mask

    def _query_vector(self, query: Query, generation: Generation) -> Vector:
        if query.vector is None and query.text is None:
            raise ValueError("a query needs a text or a vector; both are None")
        given = generation.embedding.embed_query(query.text or "") if query.vector is None else query.vector
        vector: Vector = unit(np.asarray(given, np.float32))
        self._check_width(vector.shape[-1])
        return vector

    # -- writing --------------------------------------------------------------------------------------------

    def put(
        self,
        chunks: Sequence[Chunk],
        *,
        parents: Sequence[Chunk] = (),
        edges: Sequence[Edge] = (),
        vectors: NDArray[Any] | Sequence[Sequence[float]] | None = None,
    ) -> dict[str, int]:
        """Write one batch in one transaction (see ``stores.base.TakesChunks``).

        ``vectors``, len(chunks) × dimension, are taken instead of embedding the texts. Raises StoreLockedError
        while another store is writing, ValueError or TypeError for what cannot be stored, StoreError for a full
        disk; then nothing of the batch is written.
        """
        batch = entries(chunks, parents, self._rows.tenant)
        edges = storable(edges)
        given = None if vectors is None else self._given_vectors(chunks, vectors)
        with self._writer():
            known = self._catalogue.known(self._rows.tenant, (entry.id for entry in batch))
            changed = [entry for entry in batch if _changes(entry, known.get(entry.id))]
            new = [entry for entry in changed if entry.kind == CHUNK]
            rows, embedded = self._write_vectors(new, known, given)
            self._accept(changed, rows, known, edges)
            self._pending += len(new)
            if self._pending >= STEP_ROWS:
                self._step()
        updated = sum(entry.id in known and known[entry.id].kind != "graph" for entry in changed)
        return {
            "added": len(changed) - updated,
            "updated": updated,
            "unchanged": len(batch) - len(changed),
            "embedded": embedded,
        }

    def settle(self) -> None:
        """Bring the engines up to date, and fit (or fit again) an embedding that is made from the corpus."""
        with self._writer():
            if isinstance(self.embedding, Fitted) and self._fit_is_due(self.embedding):
                self._refit(self.embedding)
            self._step()

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Make ``edges`` the only edges of these relations that leave these sources."""
        edges = storable(edges)
        with self._writer(), self._catalogue.writing() as connection:
            catalog.delete_edges(connection, self._rows.tenant, sources, relations)
            catalog.put_edges(connection, self._rows.tenant, edges)
        return len({(edge.source, edge.target, edge.relation) for edge in edges})

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents with their edges; a parent goes with its last child. Returns their number."""
        with self._writer():
            with self._catalogue.writing() as connection:
                count, dead = catalog.delete_ids(connection, self._rows.tenant, ids)
                if count:
                    catalog.log_changes(connection, dead)
            self._refresh()
            self._step()
        return count

    def _given_vectors(self, chunks: Sequence[Chunk], vectors: Any) -> dict[str, Vector]:
        if isinstance(self.embedding, Fitted):
            raise ValueError(
                f"the embedding {self.name!r} is made from the texts, so vectors cannot be given: leave vectors= out, "
                "or open the store with the embedding that they were made with"
            )
        if len(vectors) != len(chunks):
            raise ValueError(f"{len(vectors)} vectors were given for {len(chunks)} chunks; one per chunk is wanted")
        return dict(zip((chunk.id for chunk in chunks), unit(vectors), strict=True))

    def _write_vectors(
        self, new: Sequence[Entry], known: Mapping[str, Known], given: Mapping[str, Vector] | None
    ) -> tuple[list[int], int]:
        """Write these chunks' vectors to the matrix; returns their rows and how many texts were embedded."""
        start = int(self._catalogue.about()["next_row"])
        rows = list(range(start, start + len(new)))
        if not new or self._is_unfitted(self._generation):
            return rows, 0
        kept = {place: row for place, e in enumerate(new) if (row := _row_of_same_text(e, known.get(e.id))) is not None}
        texts: list[str] = []
        if given is not None:
            vectors = np.stack([given[entry.id] for entry in new])
        else:
            texts = list(dict.fromkeys(entry.text for place, entry in enumerate(new) if place not in kept))
            vectors = self._assemble([entry.text for entry in new], kept, texts)
        self._check_width(vectors.shape[1])
        matrix = self._generation.matrix
        if matrix is None:
            matrix = self._generation.found(vectors.shape[1])
        matrix.write(start, vectors)
        return rows, len(texts)

    def _assemble(self, wanted: Sequence[str], kept: Mapping[int, int], fresh: list[str]) -> NDArray[np.float32]:
        """One vector per wanted text: kept ones from their old rows, the others by embedding each text once."""
        embedded = self._embed(fresh) if fresh else None
        place_of = {text: place for place, text in enumerate(fresh)}
        matrix = self._generation.matrix
        if matrix is None or not kept:
            assert embedded is not None, "a chunk that keeps no vector has a text to embed"
            return embedded[[place_of[text] for text in wanted]]
        vectors = np.empty((len(wanted), matrix.dimension), np.float32)
        vectors[list(kept)] = matrix.take(list(kept.values()))
        if embedded is not None:
            self._check_width(embedded.shape[1])
            others = [place for place in range(len(wanted)) if place not in kept]
            vectors[others] = embedded[[place_of[wanted[place]] for place in others]]
        return vectors

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = unit(self.embedding.embed_documents(list(texts)))
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(
                f"the embedding gave {vectors.shape} for {len(texts)} texts; one vector per text is wanted"
            )
        return vectors

    def _accept(
        self, changed: Sequence[Entry], rows: Sequence[int], known: Mapping[str, Known], edges: Sequence[Edge]
    ) -> None:
        """The commit that makes the batch ours: before it nothing is, after it everything."""
        if not changed and not edges:
            return
        row_of = dict(zip((entry.id for entry in changed if entry.kind == CHUNK), rows, strict=True))
        dead = [row for entry in changed if entry.id in known and (row := known[entry.id].row) is not None]
        facts = {"next_row": rows[-1] + 1, **self._founding_facts(changed, row_of)} if rows else {}
        with self._catalogue.writing() as connection:
            catalog.put_entries(connection, [entry._replace(row=row_of.get(entry.id)) for entry in changed])
            catalog.put_edges(connection, self._rows.tenant, edges)
            catalog.set_about(connection, **facts)
            if changed:
                catalog.log_changes(connection, [*rows, *dead])
        self._is_known_embedding = self._is_known_embedding or "embedding" in facts
        self._refresh()

    def _founding_facts(self, changed: Sequence[Entry], row_of: Mapping[str, int]) -> dict[str, Any]:
        """What the first vectors say about the embedding; {} where it is known or not yet made."""
        if self._generation.matrix is None or "dimension" in self._catalogue.about():
            return {}
        first = next(entry for entry in changed if entry.id in row_of)
        return self._probe(self._generation, row_of[first.id], first.text)

    def _probe(self, generation: Generation, row: int, text: str) -> dict[str, Any]:
        """The facts by which another model is recognised when the index is opened with it."""
        matrix = generation.matrix
        assert matrix is not None, "who has rows with vectors has a matrix"
        return {
            "embedding": self.name,
            "dimension": matrix.dimension,
            "probe_text": text,
            "probe_vector": matrix.take([row])[0].tobytes(),
        }

    def _check_width(self, width: int) -> None:
        matrix = self._generation.matrix
        if matrix is not None and width != matrix.dimension:
            raise EmbeddingMismatchError(
                f"a vector of {width} dimensions was given, the index was made with {matrix.dimension} "
                f"({self._catalogue.about().get('embedding', self.name)!r}): use the embedding that it was made with"
            )

    # -- engines in step ------------------------------------------------------------------------------------

    def rebuild(self, engine: str) -> None:
        """Make an engine anew from the catalogue and the matrix: ``"keywords"`` (Tantivy) or ``"vectors"`` (Chroma)."""
        if engine not in {"keywords", "vectors"}:
            raise ValueError(f"there is no engine {engine!r} to rebuild; there are 'keywords' and 'vectors'")
        with self._writer():
            if engine == "keywords":
                self._keywords.rebuild(self._rows.version)
            else:
                self._rebuild_collection()

    def _step(self) -> None:
        """Bring the engines up to the catalogue's version, then shorten the outbox."""
        facts = self._catalogue.about()
        version, floor = int(facts["version"]), int(facts["floor"])
        try:
            self._keywords.follow(version, floor)
            if self.path is not None and self._generation.matrix is not None:
                self._follow_collection(int(facts["chroma_applied"]), version, floor)
        except StoreError as error:
            raise StoreError(
                f"everything written is safe in the catalogue, but an index beside it is not up to date: {error}; "
                "the next write or opening brings it up to date"
            ) from error
        self._pending = 0
        if version - floor > 2 * KEPT_VERSIONS:
            with self._catalogue.writing() as connection:
                catalog.trim_changes(connection, version - KEPT_VERSIONS)

    def _follow_collection(self, applied: int, version: int, floor: int) -> None:
        if applied == version:
            return
        if applied < floor:
            self._rebuild_collection()
            return
        try:
            collection = self._generation.open_collection()
        except StoreError:
            logger.warning("Chroma's part of %s cannot be opened and is made anew", self.path, exc_info=True)
            self._rebuild_collection()
            return
        touched = self._catalogue.changed_rows(applied)
        alive = sorted(entry.row for entry in self._catalogue.read_rows(touched) if entry.row is not None)
        with self._changing_collection(version):
            self._generation.collect(alive)
            collection.delete(sorted(set(touched).difference(alive)))

    def _rebuild_collection(self) -> None:
        if self.path is None or self._generation.matrix is None:
            return
        with self._catalogue.writing() as connection:
            catalog.set_about(connection, chroma_applied=0)
        self._generation.drop_collection()
        with self._changing_collection(self._rows.version):
            self._generation.collect(self._catalogue.rows())

    @contextmanager
    def _changing_collection(self, version: int) -> Iterator[None]:
        """Bring Chroma to this version; nobody asks it meanwhile, and after a failure it is opened afresh."""
        self._generation.collected = None
        try:
            yield
        except BaseException:
            self._generation.close_collection()
            raise
        with self._catalogue.writing() as connection:
            catalog.set_about(connection, chroma_applied=version)
        self._in_step(version)

    def _in_step(self, version: int) -> None:
        self._generation.collected = version, len(self._generation.open_collection())

    # -- a model made from the corpus -----------------------------------------------------------------------

    def _is_unfitted(self, generation: Generation) -> bool:
        """Whether the model is still to be made; the one that was given is never used, but a fitted copy of it."""
        return isinstance(generation.embedding, Fitted) and generation.embedding is self._given

    def _fit_is_due(self, model: Fitted) -> bool:
        if not self._rows.living:
            return False
        if self._is_unfitted(self._generation):
            return True
        facts = self._catalogue.about()
        fitted, end = int(facts["fitted_row"]), int(facts["next_row"])
        if fitted == end:
            return False
        newest = [text for _, text in self._catalogue.texts(max(fitted, end - 500))]
        return self._rows.living >= 2 * int(facts["fitted_texts"]) or model.needs_refit(newest)

    def _refit(self, model: Fitted) -> None:
        """Make generation n + 1 of model, matrix and collection, and switch to it with one commit."""
        every = -(-len(self._catalogue.rows()) // FIT_TEXTS)
        fitted = copy.copy(model).fit(
            [text for place, (_, text) in enumerate(self._catalogue.texts()) if place % every == 0]
        )
        fresh = Generation(self.path, self._generation.number + 1, None, fitted)
        fresh.remove()
        if fresh.model_file is not None:
            fitted.save(fresh.model_file)
        fresh.fill(
            ([entry.row or 0 for entry in page], unit(fitted.embed_documents([entry.text for entry in page])))
            for page in self._catalogue.pages()
        )
        row, text = next(self._catalogue.texts())
        facts = self._catalogue.about()
        with self._catalogue.writing() as connection:
            catalog.set_about(
                connection,
                generation=fresh.number,
                chroma_applied=0,
                fitted_row=int(facts["next_row"]),
                fitted_texts=self._rows.living,
                **self._probe(fresh, row, text),
            )
            catalog.log_changes(connection, [])
        old, self._seen = self._generation, Seen(self._rows, fresh)
        self._refresh()
        self._rebuild_collection()
        old.remove()

    # -- opening and closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for running calls, then release files and the writer's lock; closing twice does nothing."""
        if self._gate.shut():
            self._release()

    def _release(self) -> None:
        with self._writing:
            self._generation.close()
            self._keywords.close()
            self._catalogue.close()
            if self._lock is not None:
                self._lock.release()

    def _open_catalogue(self, language: str) -> Catalogue:
        if self.path is None:
            catalogue = Catalogue(None, create=True)
            self._found(catalogue, language)
            return catalogue
        facts = recorded(self.path)
        if not facts:
            self._create(self.path, language)
            facts = recorded(self.path)
        self._check_tenancy(facts)
        return Catalogue(self.path / CATALOGUE)

    def _create(self, path: Path, language: str) -> None:
        """Found a new index; of several processes that try at once one does, and it appears whole."""
        if self._read_only:
            raise NotAnIndexError(f"{path} holds no index, and a store that is opened read_only makes none")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReadOnlyError(f"the folder {path} cannot be made: {error.strerror}") from error
        lock, patience = WriterLock(path / LOCK), time.monotonic() + CREATION_PATIENCE
        while not recorded(path):
            try:
                lock.acquire()
            except StoreLockedError:
                if time.monotonic() > patience:
                    raise
                time.sleep(0.02)
                continue
            try:
                if not recorded(path):
                    self._create_alone(path, language)
            finally:
                lock.release()

    def _create_alone(self, path: Path, language: str) -> None:
        for left in path.glob(f"{CATALOGUE}.new*"):
            left.unlink()
        unfinished = path / f"{CATALOGUE}.new"
        catalogue = Catalogue(unfinished, create=True)
        self._found(catalogue, language)
        catalogue.close()
        unfinished.rename(path / CATALOGUE)

    def _found(self, catalogue: Catalogue, language: str) -> None:
        with catalogue.writing() as connection:
            tenancy = "single" if self.tenant is None else "multi"
            catalog.set_about(connection, tenancy=tenancy, language=language)

    def _check_tenancy(self, facts: Mapping[str, Any]) -> None:
        if facts["tenancy"] == "multi" and self.tenant is None:
            raise TenantError(f"{self.path} holds several tenants: open it with tenant=…")
        if facts["tenancy"] == "single" and self.tenant is not None:
            raise TenantError(
                f"{self.path} was made without tenants, so it cannot be opened for tenant {self.tenant!r}: leave "
                "tenant= out, or make a new folder with a tenant from the start"
            )

    def _check_scope(self, scope: Scope) -> None:
        if scope.tenant is not None and scope.tenant != self.tenant:
            raise TenantError(f"the store is open for tenant {self.tenant!r}, the call asks for {scope.tenant!r}")

    def _check_embedding(self, facts: Mapping[str, Any], generation: Generation) -> None:
        """Raise EmbeddingMismatchError unless the recorded probe text still gets the recorded vector."""
        made_with = facts.get("embedding")
        if made_with is None or self._is_known_embedding:
            return
        embedding = generation.embedding
        if made_with == self.name and isinstance(embedding, Fitted):
            self._is_known_embedding = True
            return
        try:
            vectors = unit(embedding.embed_documents([facts["probe_text"]] * 2))
        except Exception:  # noqa: BLE001 - a model that cannot embed now is told by its name; queries raise its error
            same = made_with == self.name
        else:
            # A model that does not agree with itself (random test vectors) cannot be told from another.
            same = _similar(vectors[0], np.frombuffer(facts["probe_vector"], np.float32)) or (
                made_with == self.name and not _similar(vectors[0], vectors[1])
            )
        if not same:
            raise EmbeddingMismatchError(
                f"{self.path} was made with the embedding {made_with!r} ({facts['dimension']} dimensions), not with "
                f"this {self.name!r}: open it with that one, or ingest the documents into a new folder"
            )
        self._is_known_embedding = True

    def _catch_up(self) -> None:
        """Bring lagging engines up to date and open Chroma for a large index, where this store may be the writer."""
        if self._read_only or not (_is_large(self._seen) or self._keywords.lags(self._rows.version)):
            return
        try:
            with self._writer():
                self._step()
                if _is_large(self._seen):
                    self._in_step(self._rows.version)
                else:
                    self._step_down()
        except (StoreLockedError, ReadOnlyError):
            # Whoever holds the lock brings the engines up to date; the scan of the matrix needs none.
            return
        except StoreError:
            logger.warning("%s can be read, but not be brought up to date", self.path, exc_info=True)

    @property
    def writable(self) -> bool:
        """Whether this store holds the writer's lock now."""
        return self._lock is None or self._lock.held

    @contextmanager
    def _writer(self) -> Iterator[None]:
        """Be the writer: the lock is kept from the first write until close, and released by a crash."""
        if self._read_only:
            raise ReadOnlyError(f"{self.path} was opened with read_only=True: open it without to change it")
        with self._gate, self._writing:
            if self._lock is not None and not self._lock.held:
                self._step_up(self._lock)
            yield

    def _step_up(self, lock: WriterLock) -> None:
        lock.acquire()
        try:
            self._keywords.take_over()
            self._refresh()
            remove_leftovers(self._generation)
        except BaseException:
            self._step_down()
            raise

    def _step_down(self) -> None:
        """Let another process be the writer; only before anybody searches, since engines are closed."""
        self._generation.close_collection()
        self._keywords.hand_over()
        if self._lock is not None:
            self._lock.release()

    # -- the mirror in memory -------------------------------------------------------------------------------

    def _refresh(self) -> Seen:
        """See what was committed since, by this store or by another process; returns the state to work on."""
        if self._catalogue.version() != self._rows.version:
            with self._refreshing:
                seen, facts = self._latest()
                while seen.generation.lost and self._catalogue.version() != seen.rows.version:
                    # The writer has switched to the next generation meanwhile and removed the files of this one.
                    seen, facts = self._latest()
                self._check_embedding(facts, seen.generation)
                self._seen = seen
        return self._seen

    def _latest(self) -> tuple[Seen, dict[str, Any]]:
        with self._catalogue.snapshot():
            facts = self._catalogue.about()
            generation = self._latest_generation(facts)
            return Seen(self._latest_rows(facts), generation), facts

    def _latest_generation(self, facts: Mapping[str, Any]) -> Generation:
        number, dimension = int(facts["generation"]), facts.get("dimension")
        present = self._generation
        if number == present.number and (present.matrix is not None or dimension is None):
            if present.matrix is not None:
                present.matrix.remap()
            return present
        generation = Generation(self.path, number, dimension, self._given)
        if self._load is not None and self.path is not None and number > 0:
            generation.load(self._load)
        return generation

    def _latest_rows(self, facts: Mapping[str, Any]) -> Rows:
        rows, touched = self._rows, []
        if rows.version < int(facts["floor"]) or rows.version < 0:
            rows, stored = Rows(rows.tenant), self._catalogue.iterate()
        else:
            touched = self._catalogue.changed_rows(rows.version)
            stored = iter(self._catalogue.read_rows(touched))
        return rows.updated(
            touched,
            stored,
            end=int(facts["next_row"]),
            version=int(facts["version"]),
            has_parents=self._catalogue.has_parents(rows.tenant),
        )

    def _metadata(self, start: int, stop: int) -> Iterable[tuple[int, Mapping[str, Any]]]:
        for entry in self._catalogue.iterate(start, stop):
            if entry.tenant == self._rows.tenant and entry.row is not None:
                yield entry.row, _filterable(entry)

    # -- care -----------------------------------------------------------------------------------------------

    def check(self) -> CheckReport:
        """Compare catalogue, matrix and engines; nothing is changed, but what lags behind is brought up to date.

        Only the writer may open Chroma, so the writer's lock is taken where it is free.
        """
        with self._gate, self._writing:
            problems = self._try_step()
            self._refresh()
            with self._catalogue.snapshot():
                version, rows = self._catalogue.version(), self._catalogue.rows()
                problems += self._catalogue.faults()
            problems += self._vector_faults(rows)
            unchecked = []
            for engine, checked in (("keyword index", self._keyword_faults), ("Chroma", self._chroma_faults)):
                faults = checked(version, set(rows))
                problems += faults or []
                if faults is None:
                    unchecked.append(f"{engine}: not looked into, another process may be writing")
        return CheckReport(tuple(problems), tuple(unchecked), {"chunks": len(rows)})

    def _try_step(self) -> list[str]:
        try:
            with self._writer():
                self._step()
        except (StoreLockedError, ReadOnlyError):
            return []
        except StoreError as error:
            return [str(error)]
        return []

    def _keyword_faults(self, version: int, rows: set[int]) -> list[str] | None:
        if not self.writable:
            self._keywords.reload()
        index = self._keywords.index
        if self._keywords.reason is not None:
            return ["keyword index: it cannot be opened; repair() makes it anew"]
        if not self.writable and index.applied != version:
            return None
        return _difference("keyword index", rows, index.rows)

    def _chroma_faults(self, version: int, rows: set[int]) -> list[str] | None:
        if self.path is None or self._generation.matrix is None:
            return []
        if not self.writable:
            return None
        wanted = self._generation.collected_rows(sorted(rows))
        return _difference("Chroma", wanted, lambda: self._generation.open_collection().rows())

    def repair(self) -> CheckReport:
        """Mend what ``check`` finds: make both engines anew, embed again what has no usable vector; then check."""
        with self._writer():
            with self._catalogue.writing() as connection:
                catalog.delete_lost_edges(connection)
            self._embed_again(self._without_vector(self._catalogue.rows()))
            self._keywords.rebuild(self._rows.version)
            self._rebuild_collection()
            self.settle()
        return self.check()

    def stats(self) -> dict[str, Any]:
        """Counts and facts: chunks, parents, edges, dimension, embedding, language, tenant, version, bytes on disk."""
        with self._gate:
            self._refresh()
            facts = self._catalogue.about()
            counts = self._catalogue.count(self._rows.tenant)
        return {
            **counts,
            "dimension": facts.get("dimension"),
            "embedding": facts.get("embedding", self.name),
            "language": self.language,
            "tenant": self.tenant,
            "version": facts["version"],
            "generation": facts["generation"],
            "bytes": 0 if self.path is None else _bytes_in(self.path),
        }

    def _vector_faults(self, rows: Sequence[int]) -> list[str]:
        generation = self._generation
        if generation.matrix is not None:
            generation.matrix.remap()
        faults = ["model: it cannot be read; repair() makes a new one"] if "model" in generation.lost else []
        if lost := self._without_vector(rows):
            faults.append(f"vector matrix: {len(lost)} chunks have no usable vector; repair() embeds them again")
        return faults

    def _without_vector(self, rows: Sequence[int]) -> list[int]:
        matrix = self._generation.matrix
        if matrix is None or self._is_unfitted(self._generation) or not rows:
            return []
        return [row for row, is_sound in zip(rows, matrix.sound(rows).tolist(), strict=True) if not is_sound]

    def _embed_again(self, rows: Sequence[int]) -> None:
        for start in range(0, len(rows), EMBEDDED_AT_ONCE):
            stored = self._catalogue.read_rows(rows[start : start + EMBEDDED_AT_ONCE])
            vectors = self._embed([entry.text for entry in stored])
            self._check_width(vectors.shape[1])
            matrix = self._generation.matrix
            assert matrix is not None, "rows without a usable vector are rows of a matrix"
            for entry, vector in zip(stored, vectors, strict=True):
                matrix.write(entry.row or 0, vector[np.newaxis], sync=False)
            matrix.sync()


def _changes(entry: Entry, known: Known | None) -> bool:
    return known is None or known.kind != entry.kind or known.content_hash != entry.content_hash


def _row_of_same_text(entry: Entry, known: Known | None) -> int | None:
    """The row whose vector may be kept: same chunk, same text."""
    return known.row if known is not None and known.text_hash == entry.text_hash else None


def _filterable(entry: Stored) -> dict[str, Any]:
    """The metadata as filters see it: with the document's id, also where it was derived."""
    return {"document_id": entry.document, **entry.chunk().metadata}


def _is_large(seen: Seen) -> bool:
    """Whether Chroma is faster than the scan."""
    matrix = seen.generation.matrix
    return matrix is not None and len(seen.rows) * matrix.dimension * 4 > SCAN_BYTES


def _bytes_in(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a writer beside us removes files
            total += file.stat().st_size if file.is_file() else 0
    return total


def _similar(one: Vector, other: Vector) -> bool:
    return one.shape == other.shape and (float(one @ other) >= SAME_VECTOR or not (one.any() or other.any()))


def _difference(engine: str, wanted: set[int], rows: Callable[[], set[int]]) -> list[str]:
    try:
        there = rows()
    except StoreError as error:
        return [f"{engine}: {error}; repair() makes it anew"]
    faults = []
    if missing := len(wanted - there):
        faults.append(f"{engine}: {missing} chunks are missing; repair() brings them back")
    if left := len(there - wanted):
        faults.append(f"{engine}: {left} deleted chunks are still in it; repair() removes them")
    return faults
