"""Writing to an open index."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.stores import catalog, catalog_files
from langchain_hybridgraph.stores.catalog import CHUNK, GRAPH, Entry, Known
from langchain_hybridgraph.stores.catalog_learned import take_in
from langchain_hybridgraph.stores.encoding import entries, storable, text_hash
from langchain_hybridgraph.stores.following import FollowedIndex
from langchain_hybridgraph.stores.generation import Generation
from langchain_hybridgraph.stores.given import reference
from langchain_hybridgraph.stores.opening import Fitted, Seen
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Chunk, Edge, Vector
    from langchain_hybridgraph.stores.base import FileRecord

# So many rows wait at most until the engines are brought up to date in the middle of an ingest.
STEP_ROWS = 8_192
# A model made from the corpus is fitted to at most so many texts, taken evenly from the whole index.
FIT_TEXTS = 100_000


class WrittenIndex(FollowedIndex):
    """An index that takes chunks: vectors first, then the commit that accepts them, then the engines."""

    def put(
        self,
        chunks: Sequence[Chunk],
        *,
        parents: Sequence[Chunk] = (),
        edges: Sequence[Edge] = (),
        vectors: NDArray[Any] | Sequence[Sequence[float]] | None = None,
    ) -> dict[str, int]:
        """Write one batch in one transaction (see ``stores.base.TakesChunks``).

        Of two edges with one source, target and relation the heavier stays, also when it was there before;
        :meth:`replace_edges` changes edges whatever they weigh.

        ``vectors``, len(chunks) × dimension, are taken instead of embedding the texts. Raises StoreLockedError
        while another store is writing, ValueError or TypeError for what cannot be stored, StoreError for a full
        disk; then nothing of the batch is written.
        """
        batch = entries(chunks, parents, self._rows.tenant)
        edges = storable(edges)
        return self._write(batch, edges, None if vectors is None else self._given_vectors(chunks, vectors))

    def _write(
        self,
        batch: Sequence[Entry],
        edges: Sequence[Edge] = (),
        given: Mapping[str, Vector] | None = None,
        also: Callable[[sqlite3.Connection], Iterable[int]] | None = None,
    ) -> dict[str, int]:
        """Write a batch, and in the same transaction whatever ``also`` writes, which returns the rows it touched."""
        ahead = self._embed_ahead(batch) if given is None else None
        with self._writer():
            known = self._known(batch)
            changed = [entry for entry in batch if _changes(entry, known.get(entry.id))]
            new = [entry for entry in changed if entry.kind == CHUNK]
            rows, embedded = self._write_vectors(new, known, given, ahead)
            facts = self._founding_facts(new, rows, are_given=given is not None)
            self._accept(changed, rows, known, edges, facts, also=also)
            self._pending += len(new)
            if self._pending >= STEP_ROWS:
                self._step()
        updated = sum(entry.id in known and known[entry.id].kind != GRAPH for entry in changed)
        return {
            "added": len(changed) - updated,
            "updated": updated,
            "unchanged": len(batch) - len(changed),
            "embedded": embedded,
        }

    def settle(self) -> int:
        """Bring the engines up to date, and fit (or fit again) an embedding that is made from the corpus.

        Returns how many texts were embedded by that. Threads that add at the same time take turns: all of them write
        first, then the first to settle brings the engines up to date for all, and the others find nothing to do.
        """
        embedded = 0
        if self._is_settled():
            return embedded
        with self._writer():
            if self._is_settled():
                return embedded
            if isinstance(self.embedding, Fitted) and self._fit_is_due(self.embedding):
                self._refit(self.embedding)
                embedded = self._catalogue.count_rows()
            self._step()
            self._folder.settled = self._catalogue.version()
        return embedded

    def _is_settled(self) -> bool:
        with self._gate:
            return self._folder.settled == self._catalogue.version()

    def refit(self) -> int:
        """Fit an embedding that is made from the corpus to all that is here now, due or not.

        Returns how many texts were embedded by that. Raises ConfigurationError for an embedding of another kind.
        """
        if not isinstance(self.embedding, Fitted):
            raise ConfigurationError(
                f"{self.name} is not made from the texts of the index, so there is nothing to fit: only lsa is; an "
                "index takes another embedding by being made anew"
            )
        with self._writer():
            texts = self._catalogue.count_rows()
            if texts:
                self._refit(self.embedding)
            self.settle()
        return texts

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Make ``edges`` the only edges of these relations that leave these sources.

        Only the difference is written, nothing when there is none.
        """
        wanted = _heaviest(storable(edges))
        leaving, kinds = set(sources), set(relations)
        with self._writer():
            asked = leaving.union(edge.source for edge in wanted.values())
            there = {_key(edge): edge for edge in self._catalogue.edges(self._rows.tenant, asked)}
            replaced = {key for key, edge in there.items() if edge.source in leaving and edge.relation in kinds}
            stale = [there[key] for key in replaced if key not in wanted]
            fresh = [edge for key, edge in wanted.items() if there.get(key) != edge]
            if stale or fresh:
                now = self.clock()
                with self._catalogue.writing() as connection:
                    entities = catalog.graph_ends(connection, self._rows.tenant, stale)
                    catalog.delete_edges(connection, self._rows.tenant, stale)
                    # Those that stay are changed in place: they are known since they were first taken in.
                    for changed in (True, False):
                        edges = [edge for edge in fresh if (_key(edge) in replaced) == changed]
                        catalog.put_edges(connection, self._rows.tenant, edges, now, by_weight=not changed)
                    catalog.delete_unmentioned(connection, entities)
        return len(wanted)

    def prune_orphan_edges(self) -> int:
        """Delete the edges that lead from or to nothing, and what only they named; returns how many edges there were.

        An end is something when it is a chunk or a parent, an entity that a chunk mentions (relation ``mentions``,
        from the chunk), or a directory that contains a chunk, directly or by directories below it (``contains``, to
        the chunk). Anything else is nothing, also a document that is linked but not there yet: ingesting the linking
        document again brings that edge back.
        """
        with self._writer(), self._catalogue.writing() as connection:
            catalog_files.forget(connection, self._rows.tenant)  # what is ingested again gets its edges again
            return catalog.delete_orphan_edges(connection, self._rows.tenant)

    def prune_edges(self, min_weight: float = 0.0, max_per_source: int = 0) -> int:
        """Delete the edges lighter than ``min_weight``, then all but the heaviest of each source; returns how many.

        Of equally heavy ones those with the lesser relation, then target, stay; ``max_per_source`` 0 keeps all. An
        entity that nothing mentions any more goes with its edges, which are counted. Raises ValueError for a weight
        outside [0, 1] or a number below 0.
        """
        if not 0.0 <= min_weight <= 1.0:
            raise ValueError(f"min_weight is {min_weight!r}; wanted a number from 0 to 1")
        if max_per_source < 0:
            raise ValueError(f"max_per_source is {max_per_source!r}; wanted a whole number, 0 for no limit")
        with self._writer(), self._catalogue.writing() as connection:
            catalog_files.forget(connection, self._rows.tenant)
            return catalog.delete_weak_edges(connection, self._rows.tenant, min_weight, max_per_source)

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents with their edges; a parent goes with its last child. Returns their number.

        An entity goes with the last chunk that mentions it.
        """
        with self._writer():
            with self._catalogue.writing() as connection:
                count, dead = catalog.delete_ids(connection, self._rows.tenant, ids)
                if count:
                    catalog.log_changes(connection, dead)
            self._refresh()
            self._step()
        return count

    def files(self) -> list[FileRecord]:
        """Records of the files whose chunks and edges are as the file made them (see ``stores.base.RecordsFiles``)."""
        with self._gate:
            return self._catalogue.files(self._rows.tenant)

    def record_files(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace records."""
        if records:
            stored = [record._replace(documents=tuple(map(reference, record.documents))) for record in records]
            with self._writer(), self._catalogue.writing() as connection:
                catalog_files.put(connection, self._rows.tenant, stored)

    def forget_files(self, sources: Sequence[str] | None = None) -> None:
        """Delete records, None for all."""
        with self._writer(), self._catalogue.writing() as connection:
            catalog_files.forget(connection, self._rows.tenant, sources)

    def _given_vectors(self, chunks: Sequence[Chunk], vectors: Any) -> dict[str, Vector]:
        if isinstance(self.embedding, Fitted):
            raise ValueError(
                f"the embedding {self.name!r} is made from the texts, so vectors cannot be given: leave vectors= out, "
                "or open the store with the embedding that they were made with"
            )
        if len(vectors) != len(chunks):
            raise ValueError(f"{len(vectors)} vectors were given for {len(chunks)} chunks; one per chunk is wanted")
        return dict(zip((chunk.id for chunk in chunks), unit(vectors), strict=True))

    def _known(self, batch: Sequence[Entry]) -> dict[str, Known]:
        return self._catalogue.known(self._rows.tenant, (entry.id for entry in batch))

    def _embed_ahead(self, batch: Sequence[Entry]) -> _Ahead | None:
        """The vectors that this batch needs as the index is now, made while others may write."""
        with self._gate:
            generation = self._refresh().generation
            if self._is_unfitted(generation):
                return None
            known = self._known(batch)
            texts = list(dict.fromkeys(e.text for e in batch if e.kind == CHUNK and _needs_vector(e, known.get(e.id))))
            vectors = self._embed(texts, generation) if texts else ()
            return _Ahead(generation.number, dict(zip(texts, vectors, strict=True)))

    def _write_vectors(
        self,
        new: Sequence[Entry],
        known: Mapping[str, Known],
        given: Mapping[str, Vector] | None,
        ahead: _Ahead | None,
    ) -> tuple[list[int], int]:
        """Write these chunks' vectors to the matrix; returns their rows and how many texts were embedded."""
        facts = self._catalogue.about()
        start = int(facts["next_row"])
        rows = list(range(start, start + len(new)))
        if not new or self._is_unfitted(self._generation):
            return rows, 0
        kept = self._kept_rows(new, known)
        texts: list[str] = []
        if given is not None:
            vectors = np.stack([given[entry.id] for entry in new])
        else:
            texts = list(dict.fromkeys(entry.text for place, entry in enumerate(new) if place not in kept))
            vectors = self._assemble([entry.text for entry in new], kept, texts, ahead)
        # Until the first vectors are accepted any number of dimensions may come, whatever has failed before.
        matrix = self._generation.matrix
        if matrix is None or "dimension" not in facts:
            matrix = self._generation.found(vectors.shape[1])
        self._check_width(vectors.shape[1])
        matrix.write(start, vectors, texts=[entry.text_hash for entry in new])
        return rows, len(texts)

    def _kept_rows(self, new: Sequence[Entry], known: Mapping[str, Known]) -> dict[int, int]:
        """The rows whose vectors may be kept, by the place of the entry with the same text; none that is damaged."""
        kept = {place: row for place, e in enumerate(new) if (row := _row_of_same_text(e, known.get(e.id))) is not None}
        matrix = self._generation.matrix
        if matrix is None or not kept:
            return {}
        sound = matrix.sound(list(kept.values()), [new[place].text_hash for place in kept])
        return {place: row for (place, row), is_sound in zip(kept.items(), sound.tolist(), strict=True) if is_sound}

    def _assemble(
        self, wanted: Sequence[str], kept: Mapping[int, int], fresh: list[str], ahead: _Ahead | None
    ) -> NDArray[np.float32]:
        """One vector per wanted text: kept ones from their old rows, the others by embedding each text once."""
        embedded = self._embedded(fresh, ahead) if fresh else None
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

    def _embedded(self, texts: list[str], ahead: _Ahead | None) -> NDArray[np.float32]:
        """The vectors of these texts, those that were made ahead by the present model or new ones."""
        if ahead is None or ahead.generation != self._generation.number:
            return self._embed(texts, self._generation)
        late = [text for text in texts if text not in ahead.vectors]  # others have changed the index meanwhile
        vectors = (
            {**ahead.vectors, **dict(zip(late, self._embed(late, self._generation), strict=True))}
            if late
            else (ahead.vectors)
        )
        return np.stack([vectors[text] for text in texts])

    def _accept(
        self,
        changed: Sequence[Entry],
        rows: Sequence[int],
        known: Mapping[str, Known],
        edges: Sequence[Edge],
        facts: Mapping[str, Any],
        *,
        also: Callable[[sqlite3.Connection], Iterable[int]] | None,
    ) -> None:
        """The commit that makes the batch ours: before it nothing is, after it everything."""
        if not changed and not edges and also is None:
            return
        row_of = dict(zip((entry.id for entry in changed if entry.kind == CHUNK), rows, strict=True))
        dead = [row for entry in changed if entry.id in known and (row := known[entry.id].row) is not None]
        now = self.clock()
        with self._catalogue.writing() as connection:
            take_in(connection, [entry._replace(row=row_of.get(entry.id)) for entry in changed], now)
            catalog.put_edges(connection, self._rows.tenant, edges, now)
            if rows:
                catalog.set_about(connection, next_row=rows[-1] + 1, **facts)
            touched = [] if also is None else list(also(connection))
            if changed or touched:
                catalog.log_changes(connection, [*rows, *dead, *touched])
        self._is_known_embedding = self._is_known_embedding or bool(facts)
        self._refresh()

    def _founding_facts(self, new: Sequence[Entry], rows: Sequence[int], *, are_given: bool) -> dict[str, Any]:
        """Facts about the embedding from its first vectors; {} where they are known or there are no vectors yet.

        Known facts may have been deleted with the tenant whose text they came from.
        """
        if not new or self._generation.matrix is None or "probe_text" in self._catalogue.about():
            return {}
        facts = self._probe(self._generation, rows[0], new[0].text)
        own = self._own_vector(new[0].text) if are_given else None
        if own is not None:
            self._check_width(len(own))
            facts["probe_vector"] = own.tobytes()
        return facts

    def _own_vector(self, text: str) -> Vector | None:
        """What the embedding makes of a text, None when it cannot; given vectors need not be of its making."""
        try:
            own: Vector = self._embed([text], self._generation)[0]
        except Exception:  # noqa: BLE001 - an embedding that cannot be asked is recognised by its name
            return None
        return own

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

    # -- a model made from the corpus -----------------------------------------------------------------------

    def _fit_is_due(self, model: Fitted) -> bool:
        chunks = self._catalogue.count_rows()
        if not chunks:
            return False
        if self._is_unfitted(self._generation):
            return True
        facts = self._catalogue.about()
        fitted, end = int(facts["fitted_row"]), int(facts["next_row"])
        if fitted == end:
            return False
        newest = [text for _, text in self._catalogue.texts(max(fitted, end - 500))]
        return chunks >= 2 * int(facts["fitted_texts"]) or model.needs_refit(newest)

    def _refit(self, model: Fitted) -> None:
        """Make generation n + 1 of model, matrix and collection, and switch to it with one commit."""
        chunks = self._catalogue.count_rows()
        every = -(-chunks // FIT_TEXTS)
        fitted = copy.copy(model).fit(
            [text for place, (_, text) in enumerate(self._catalogue.texts()) if place % every == 0]
        )
        fresh = Generation(self.path, self._generation.number + 1, None, fitted)
        fresh.remove()
        if fresh.model_file is not None:
            fitted.save(fresh.model_file)
        fresh.fill(
            (
                [entry.row or 0 for entry in page],
                unit(fitted.embed_documents([entry.text for entry in page])),
                [text_hash(entry.text) for entry in page],
            )
            for page in self._catalogue.pages()
        )
        row, text = next(self._catalogue.texts())
        facts = self._catalogue.about()
        old = self._generation
        # Searches of other threads see the commit and the generation change at the same moment.
        with self._refreshing:
            with self._catalogue.writing() as connection:
                catalog.set_about(
                    connection,
                    generation=fresh.number,
                    chroma_applied=0,
                    fitted_row=int(facts["next_row"]),
                    fitted_texts=chunks,
                    **self._probe(fresh, row, text),
                )
                catalog.log_changes(connection, [])
            self._seen = Seen(self._rows, fresh)
            self._refresh()
        self._folder.chroma.drop(old.number)
        old.remove()


class _Ahead(NamedTuple):
    """Vectors that were made before the turn to write, by text, and the generation whose model made them."""

    generation: int
    vectors: Mapping[str, Vector]


def _changes(entry: Entry, known: Known | None) -> bool:
    return known is None or known.kind != entry.kind or known.content_hash != entry.content_hash


def _key(edge: Edge) -> tuple[str, str, str]:
    return edge.source, edge.target, edge.relation


def _heaviest(edges: Iterable[Edge]) -> dict[tuple[str, str, str], Edge]:
    """One edge per source, target and relation: the heaviest, of equal ones the first."""
    kept: dict[tuple[str, str, str], Edge] = {}
    for edge in edges:
        if edge.weight > kept.setdefault(_key(edge), edge).weight:
            kept[_key(edge)] = edge
    return kept


def _needs_vector(entry: Entry, known: Known | None) -> bool:
    return _changes(entry, known) and _row_of_same_text(entry, known) is None


def _row_of_same_text(entry: Entry, known: Known | None) -> int | None:
    """The row whose vector may be kept: same chunk, same text."""
    return known.row if known is not None and known.text_hash == entry.text_hash else None
