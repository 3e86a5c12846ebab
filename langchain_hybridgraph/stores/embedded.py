"""The embedded store: one folder, SQLite as the truth, three indexes beside it.

Writing: vectors to the matrix (fsync) → one transaction of the catalogue, which accepts the batch → the engines. A
crash between the steps leaves vectors that nobody owns (overwritten by the next batch) or engines that lag behind
(brought up to date from the outbox at the next write or open). What the catalogue accepted is never lost.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

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
from langchain_hybridgraph.stores.encoding import entries
from langchain_hybridgraph.stores.gate import Gate
from langchain_hybridgraph.stores.generation import Embeds, Generation, remove_leftovers
from langchain_hybridgraph.stores.keywords import Keywords
from langchain_hybridgraph.stores.lock import WriterLock
from langchain_hybridgraph.stores.rows import Rows
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Chunk, Edge, Mask, Query, Scope, Vector

logger = logging.getLogger(__name__)

CATALOGUE, KEYWORDS, LOCK = "catalogue.sqlite", "keywords", "writer.lock"
# Up to this size the exact scan of the matrix is at least as fast as Chroma's approximate search
# (384 dimensions: 20,000 rows 0.4 ms, 30,000 0.75 ms, 63,666 2.1 ms; Chroma 1.2 to 1.5 ms throughout).
SCAN_BYTES = 56 << 20
# From this share of allowed rows on Chroma is asked for a few more and masked; below, the matrix is scanned.
OVERFETCH_SHARE = 0.9
# So many rows wait at most until the engines are brought up to date in the middle of an ingest.
STEP_ROWS = 8_192
# So many versions of the outbox are kept for readers in other processes; who is further behind reads all anew.
KEPT_VERSIONS = 64
# A model made from the corpus is fitted to at most so many texts, taken evenly from the whole index.
FIT_TEXTS = 20_000
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
    """What ``check`` found; without ``problems`` catalogue, matrix and engines agree."""

    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


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
        try:
            facts = self._catalogue.about()
            self._check_tenancy(facts)
            self.language = str(facts["language"])
            self._keywords = Keywords(path and path / KEYWORDS, self.language, self._catalogue)
            self._generation = Generation(path, -1, None, embedding)
            self._rows = Rows(tenant or "")
            self._columns = MetadataColumns(self._metadata)
            self._refresh()
            self._check_embedding(facts)
            self._catch_up()
        except BaseException:
            self._catalogue.close()
            if self._lock is not None:
                self._lock.release()
            raise

    @property
    def embedding(self) -> Embeds:
        """The embedding of the present generation."""
        return self._generation.embedding

    # -- reading --------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str], scope: Scope, known: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """The chunks among ``ids`` that exist, pass the filter and are valid (see ``stores.base.Reads``)."""
        self._check_scope(scope)
        with self._gate:
            stored = self._catalogue.read_rows(self._rows.rows(ids))
        return {
            entry.id: entry.chunk()
            for entry in stored
            if entry.valid(scope.as_of) and (scope.filter is None or scope.filter.matches(_filterable(entry)))
        }

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
        chunks: dict[str, set[str]] = {id: set() for id in document_ids}
        with self._gate:
            for document, id in self._catalogue.documents(self._rows.tenant, document_ids):
                chunks[document].add(id)
        return chunks

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """The edges that leave these chunks (``backwards``: arrive there), by source, relation and target."""
        with self._gate:
            return self._catalogue.edges(self._rows.tenant, ids, backwards=backwards)

    def find(self, scope: Scope) -> list[str]:
        """The ids of all chunks in this scope, by age."""
        self._check_scope(scope)
        with self._gate:
            self._refresh()
            return self._rows.ids(np.flatnonzero(self._allowed(scope)).tolist())

    def __len__(self) -> int:
        """How many chunks there are; parents are not counted."""
        with self._gate:
            self._refresh()
            return self._rows.living

    # -- searching ------------------------------------------------------------------------------------------

    def vector_search(self, query: Query, n: int) -> Found:
        """The n chunks of largest cosine (see ``stores.base.SearchesVectors``).

        Exact up to ``SCAN_BYTES`` of vectors, under a selective filter, and in every process that does not hold the
        writer's lock; approximate, by Chroma, in a larger index.
        """
        self._check_scope(query.scope)
        with self._gate:
            self._refresh()
            if not self._rows.living:
                return Found([])
            if self._unfitted:
                return Found([], reason="no-lsa-index")
            generation = self._generation
            vector = self._query_vector(query, generation)
            if not vector.any():
                return Found([], reason="query-out-of-vocabulary" if query.vector is None else None)
            rows, scores = self._nearest(generation, vector, n, query.scope)
            return Found(self._rows.scored(rows.tolist(), scores.tolist()), vector)

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """The cosine of each of these chunks."""
        with self._gate:
            rows, matrix = self._rows.rows(ids), self._generation.matrix
            if matrix is None:
                return {}
            return dict(zip(self._rows.ids(rows), matrix.scores(vector, rows).tolist(), strict=True))

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """The unit vectors of these chunks, len(ids) × dimension; zeros for an id without one."""
        with self._gate:
            matrix = self._generation.matrix
            vectors = np.zeros((len(ids), 1 if matrix is None else matrix.dimension), np.float32)
            places = [place for place, id in enumerate(ids) if self._rows.rows([id])]
            if matrix is not None and places:
                vectors[places] = matrix.take(self._rows.rows(ids))
            return vectors

    def keyword_search(self, query: Query, n: int) -> Found:
        """The n chunks of largest BM25 (see ``stores.base.SearchesKeywords``).

        BM25's statistics are those of the whole folder, also in one with several tenants.
        """
        self._check_scope(query.scope)
        if query.text is None:
            return Found([], reason="no-query-text")
        with self._gate:
            self._refresh()
            index = self._keywords.index
            if index.applied < self._rows.version and not self.writable:
                self._keywords.reload()
                index = self._keywords.index
            free = query.scope.filter is None and self._rows.full and index.applied == self._rows.version
            found = index.search(query.text, n, None if free else self._allowed(query.scope))
            entries = self._rows.scored([row for row, _ in found], [score for _, score in found])
            return Found(entries, bound=index.bound(query.text), reason=self._keywords.reason)

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """The BM25 of each of these chunks; those that share no word with the text are left out."""
        with self._gate:
            scores = self._keywords.index.scores(text, self._rows.rows(ids))
            return dict(zip(self._rows.ids(scores), scores.values(), strict=True))

    def _nearest(
        self, generation: Generation, vector: Vector, n: int, scope: Scope
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        matrix, collection = generation.matrix, generation.collection
        assert matrix is not None, "chunks with vectors have a matrix"
        allowed = self._allowed(scope)
        if collection is not None and self._is_large and not self._pending:
            share = np.count_nonzero(allowed) / self._rows.living
            if share >= OVERFETCH_SHARE:
                found = collection.search(vector, int(n / share) + 1)
                found = found[found < len(allowed)]
                found = found[allowed[found]]
                if len(found) >= n:
                    scores = matrix.scores(vector, found)
                    order = np.lexsort((found, -scores))[:n]
                    return found[order], scores[order]
        return matrix.search(vector, n, allowed[: len(matrix)])

    def _allowed(self, scope: Scope) -> Mask:
        mask = self._rows.allowed(scope.as_of)
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
        given = None if vectors is None else dict(zip((chunk.id for chunk in chunks), unit(vectors), strict=True))
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
        with self._writer(), self._catalogue.writing() as connection:
            catalog.delete_edges(connection, self._rows.tenant, sources, relations)
            catalog.put_edges(connection, self._rows.tenant, edges)
        return len(edges)

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents with their edges; a parent goes with its last child. Returns their number."""
        with self._writer():
            with self._catalogue.writing() as connection:
                count, dead = catalog.delete_ids(connection, self._rows.tenant, ids)
                if dead:
                    catalog.log_changes(connection, dead)
            self._refresh()
            self._step()
        return count

    def _write_vectors(
        self, new: Sequence[Entry], known: Mapping[str, Known], given: Mapping[str, Vector] | None
    ) -> tuple[list[int], int]:
        """Write these chunks' vectors to the matrix; returns their rows and how many texts were embedded."""
        start = int(self._catalogue.about()["next_row"])
        rows = list(range(start, start + len(new)))
        if not new or (given is None and self._unfitted):
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
        with self._catalogue.writing() as connection:
            catalog.put_entries(connection, [entry._replace(row=row_of.get(entry.id)) for entry in changed])
            catalog.put_edges(connection, self._rows.tenant, edges)
            if rows:
                catalog.set_about(connection, next_row=rows[-1] + 1)
                if self._generation.matrix is not None and "dimension" not in self._catalogue.about():
                    catalog.set_about(connection, **self._founding_facts(changed, row_of))
            if changed:
                catalog.log_changes(connection, [*rows, *dead])
        self._refresh()

    def _founding_facts(self, changed: Sequence[Entry], row_of: Mapping[str, int]) -> dict[str, Any]:
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
        self._generation.collect(alive)
        collection.delete(sorted(set(touched).difference(alive)))
        self._mark_collection(version)

    def _rebuild_collection(self) -> None:
        if self.path is None or self._generation.matrix is None:
            return
        self._mark_collection(0)
        self._generation.drop_collection()
        self._generation.collect(self._catalogue.rows())
        self._mark_collection(self._rows.version)

    def _mark_collection(self, version: int) -> None:
        with self._catalogue.writing() as connection:
            catalog.set_about(connection, chroma_applied=version)

    # -- a model made from the corpus -----------------------------------------------------------------------

    @property
    def _unfitted(self) -> bool:
        return isinstance(self.embedding, Fitted) and self._generation.number == 0

    def _fit_is_due(self, model: Fitted) -> bool:
        if not self._rows.living:
            return False
        if self._unfitted:
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
        old, self._generation = self._generation, fresh
        self._refresh()
        self._rebuild_collection()
        old.remove()

    # -- opening and closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for running calls, then release files and the writer's lock; closing twice does nothing."""
        if not self._gate.shut():
            return
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
        if not recorded(self.path):
            self._create(self.path, language)
        return Catalogue(self.path / CATALOGUE)

    def _create(self, path: Path, language: str) -> None:
        """Found a new index; of two processes that try at once one does, and it appears whole."""
        if self._read_only:
            raise NotAnIndexError(f"{path} holds no index, and a store that is opened read_only makes none")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReadOnlyError(f"the folder {path} cannot be made: {error.strerror}") from error
        lock = WriterLock(path / LOCK)
        lock.acquire()
        try:
            if recorded(path):
                return
            unfinished = path / f"{CATALOGUE}.new"
            unfinished.unlink(missing_ok=True)
            catalogue = Catalogue(unfinished, create=True)
            self._found(catalogue, language)
            catalogue.close()
            unfinished.rename(path / CATALOGUE)
        finally:
            lock.release()

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

    def _check_embedding(self, facts: Mapping[str, Any]) -> None:
        """Raise EmbeddingMismatchError unless the recorded probe text still gets the recorded vector."""
        made_with = facts.get("embedding")
        if made_with is None or (made_with == self.name and isinstance(self.embedding, Fitted)):
            return
        try:
            vectors = unit(self.embedding.embed_documents([facts["probe_text"]] * 2))
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

    def _catch_up(self) -> None:
        """Bring lagging engines up to date and open Chroma for a large index, where this store may be the writer."""
        if self._read_only or not (self._is_large or self._keywords.lags(self._rows.version)):
            return
        try:
            with self._writer():
                self._step()
                if self._is_large:
                    self._generation.open_collection()
        except (StoreLockedError, ReadOnlyError):
            # Whoever holds the lock brings the engines up to date; the scan of the matrix needs none.
            return

    @property
    def writable(self) -> bool:
        """Whether this store holds the writer's lock now."""
        return self._lock is None or self._lock.held

    @property
    def _is_large(self) -> bool:
        matrix = self._generation.matrix
        return self.path is not None and matrix is not None and len(self._rows) * matrix.dimension * 4 > SCAN_BYTES

    @contextmanager
    def _writer(self) -> Iterator[None]:
        """Be the writer: the lock is kept from the first write until close, and released by a crash."""
        if self._read_only:
            raise ReadOnlyError(f"{self.path} was opened with read_only=True: open it without to change it")
        with self._gate, self._writing:
            if self._lock is not None and not self._lock.held:
                self._lock.acquire()
                self._keywords.take_over()
                self._refresh()
                remove_leftovers(self._generation)
            yield

    # -- the mirror in memory -------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """See what was committed since, by this store or by another process."""
        if self._catalogue.version() == self._rows.version:
            return
        with self._refreshing:
            facts = self._catalogue.about()
            self._follow_generation(facts)
            self._follow_rows(int(facts["version"]), int(facts["next_row"]), int(facts["floor"]))

    def _follow_generation(self, facts: Mapping[str, Any]) -> None:
        number, dimension = int(facts["generation"]), facts.get("dimension")
        matrix = self._generation.matrix
        if number == self._generation.number and (matrix is not None or dimension is None):
            if matrix is not None:
                matrix.remap()
            return
        generation = Generation(self.path, number, dimension, self._given)
        if self._load is not None and generation.model_file is not None and number > 0:
            generation.embedding = self._load(generation.model_file)
        self._generation = generation

    def _follow_rows(self, version: int, end: int, floor: int) -> None:
        if self._rows.version < floor or self._rows.version < 0:
            rows = Rows(self._rows.tenant)
            rows.update((), self._catalogue.iterate(), end=end)
        else:
            rows, touched = self._rows, self._catalogue.changed_rows(self._rows.version)
            rows.update(touched, self._catalogue.read_rows(touched), end=end)
        rows.version = version
        rows.has_parents = self._catalogue.has_parents(rows.tenant)
        self._rows = rows

    def _metadata(self, start: int, stop: int) -> Iterable[tuple[int, Mapping[str, Any]]]:
        for entry in self._catalogue.iterate(start, stop):
            if entry.tenant == self._rows.tenant and entry.row is not None:
                yield entry.row, _filterable(entry)

    # -- care -----------------------------------------------------------------------------------------------

    def check(self) -> CheckReport:
        """Compare catalogue, matrix and engines; nothing is changed, but what lags behind is brought up to date."""
        with self._gate:
            self._refresh()
            self._catch_up()
            rows = self._catalogue.rows()
            problems = self._catalogue.faults() + self._vector_faults(rows)
            if self._keywords.reason is not None:
                problems.append("keyword index: it cannot be opened; repair() makes it anew")
            else:
                problems += _difference("keyword index", set(rows), self._keywords.index.rows)
            if self.path is not None and self.writable and self._generation.matrix is not None:
                wanted = self._generation.collected(rows)
                problems += _difference("Chroma", wanted, lambda: self._generation.open_collection().rows())
        return CheckReport(tuple(problems), {"chunks": len(rows)})

    def repair(self) -> CheckReport:
        """Mend what ``check`` finds: make both engines anew, embed again what has no usable vector; then check."""
        with self._writer():
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
        files = [] if self.path is None else [file for file in self.path.rglob("*") if file.is_file()]
        return {
            **counts,
            "dimension": facts.get("dimension"),
            "embedding": facts.get("embedding", self.name),
            "language": self.language,
            "tenant": self.tenant,
            "version": facts["version"],
            "generation": facts["generation"],
            "bytes": sum(file.stat().st_size for file in files),
        }

    def _vector_faults(self, rows: Sequence[int]) -> list[str]:
        lost = self._without_vector(rows)
        return [f"vector matrix: {len(lost)} chunks have no usable vector; repair() embeds them again"] if lost else []

    def _without_vector(self, rows: Sequence[int]) -> list[int]:
        if self._unfitted or not rows:
            return []
        sound = {int(row) for part, vectors in self._generation.vectors(rows) for row in part[_unit_or_zero(vectors)]}
        return [row for row in rows if row not in sound]

    def _embed_again(self, rows: Sequence[int]) -> None:
        for entry in self._catalogue.read_rows(rows):
            vectors = self._embed([entry.text])
            matrix = self._generation.matrix or self._generation.found(vectors.shape[1])
            matrix.write(entry.row or 0, vectors)


def _changes(entry: Entry, known: Known | None) -> bool:
    return known is None or known.kind != entry.kind or known.content_hash != entry.content_hash


def _row_of_same_text(entry: Entry, known: Known | None) -> int | None:
    """The row whose vector may be kept: same chunk, same text."""
    return known.row if known is not None and known.text_hash == entry.text_hash else None


def _filterable(entry: Stored) -> dict[str, Any]:
    """The metadata as filters see it: with the document's id, also where it was derived."""
    return {"document_id": entry.document, **entry.chunk().metadata}


def _unit_or_zero(vectors: NDArray[np.float32]) -> Mask:
    norms = np.linalg.norm(vectors, axis=1)
    sound: Mask = (norms == 0) | (np.abs(norms - 1) < 1e-3)
    return sound


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
