"""Checking and repairing an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from langchain_hybridgraph.errors import (
    ReadOnlyError,
    StoreError,
    StoreLockedError,
)
from langchain_hybridgraph.serialization import Serializable
from langchain_hybridgraph.stores.embedded import catalog, catalog_feedback
from langchain_hybridgraph.stores.embedded.catalog_rows import text_hash
from langchain_hybridgraph.stores.embedded.index_folder import is_large
from langchain_hybridgraph.stores.embedded.writer import WrittenIndex

# Number of texts embedded at once when vectors are repaired.
EMBEDDED_AT_ONCE = 500
# Seconds that a check waits for its turn to write; without it, engines that are being written to are not checked.
CHECK_PATIENCE = 1.0


@dataclass(frozen=True, slots=True)
class CheckReport(Serializable):
    """Result of ``check``; without ``problems``, catalogue, matrix and engines agree.

    ``unchecked`` lists the parts that were skipped because another process is writing or the folder is read-only.
    """

    problems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


class CaredIndex(WrittenIndex):
    """An index that can check whether its parts agree, and repair them."""

    def check(self) -> CheckReport:
        """Compare catalogue, matrix and engines without changing them; engines that lag behind are brought up to date.

        Blocks writers meanwhile, if the turn to write can be had within a second.
        """
        with ExitStack() as stack:
            stack.enter_context(self._gate)
            try:
                stack.enter_context(self._writer(timeout=min(CHECK_PATIENCE, self.write_timeout)))
                is_writer, problems = True, self._try_step()
            except (StoreLockedError, ReadOnlyError):
                is_writer, problems = False, []
            self._refresh()
            with self._catalogue.snapshot():
                version, texts = self._catalogue.version(), self._catalogue.text_hashes()
                problems += self._catalogue.faults()
                with self._catalogue.reading() as connection:
                    problems += catalog_feedback.faults(connection)
                edges = self._catalogue.count_edges()
            rows = list(texts)
            problems += self._vector_faults(texts)
            unchecked = []
            for engine, checked in (("keyword index", self._keyword_faults), ("Chroma", self._chroma_faults)):
                faults = checked(version, set(rows), is_writer)
                problems += faults or []
                if faults is None:
                    unchecked.append(f"{engine}: not checked, another process may be writing")
        return CheckReport(tuple(problems), tuple(unchecked), {"chunks": len(rows), "edges": edges})

    def _try_step(self) -> list[str]:
        try:
            self._step(is_complete=True)
        except StoreError as error:
            return [str(error)]
        return []

    def _keyword_faults(self, version: int, rows: set[int], is_writer: bool) -> list[str] | None:
        if not is_writer:
            self._keywords.reload()
        index = self._keywords.index
        if self._keywords.reason is not None:
            return ["keyword index: it cannot be opened; repair() rebuilds it"]
        if not is_writer and index.applied_version != version:
            return None
        return _difference("keyword index", rows, index.rows)

    def _chroma_faults(self, version: int, rows: set[int], is_writer: bool) -> list[str] | None:
        if self._generation.matrix is None or not is_large(self._seen):
            return []
        if not is_writer or not self._folder.chroma.own():
            return None
        return _difference("Chroma", self._generation.nonzero_rows(sorted(rows)), self._rows_in_chroma)

    def _rows_in_chroma(self) -> set[int]:
        collection = self._folder.chroma.open(self._generation.number)
        matrix = self._generation.matrix
        assert matrix is not None, "a collection is filled from a matrix"
        collection.search(np.ones(matrix.dimension, np.float32), 1)  # the list of rows does not show the graph's state
        return collection.rows()

    def repair(self) -> CheckReport:
        """Repair what ``check`` reports: rebuild both engines, embed again where no vector is usable; then check."""
        with self._writer():
            with self._catalogue.writing() as connection:
                catalog.delete_lost_edges(connection)
                if repaired := catalog_feedback.repair(connection, self.clock()):
                    catalog.log_changes(connection, repaired)
            self._refresh()
            self._embed_again(self._without_vector(self._catalogue.text_hashes()))
            self._keywords.rebuild(self._rows.version)
            self._rebuild_collection()
            self.flush()
        return self.check()

    def stats(self) -> dict[str, Any]:
        """Return counts (chunks, parents, edges, entities, sessions, retracted) and facts about the index.

        The facts are dimension, embedding, language, tenant, version, generation, bytes on disk.
        """
        with self._gate:
            self._refresh()
            facts = self._catalogue.facts()
            with self._catalogue.reading() as connection:
                learned = catalog_feedback.count(connection, self._rows.tenant)
            counts = {**self._catalogue.count(self._rows.tenant), **learned}
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

    def _vector_faults(self, texts: Mapping[int, bytes]) -> list[str]:
        generation = self._generation
        if generation.matrix is not None:
            generation.matrix.remap()
        faults = ["model: it cannot be read; repair() makes a new one"] if "model" in generation.lost else []
        if lost := self._without_vector(texts):
            faults.append(
                f"vector matrix: {len(lost)} chunks have no usable vector, or that of another text; repair() embeds "
                "them again"
            )
        return faults

    def _without_vector(self, texts: Mapping[int, bytes]) -> list[int]:
        """Return the rows without a usable vector of their own text; ``texts`` maps rows to text hashes."""
        matrix = self._generation.matrix
        if matrix is None or self._is_unfitted(self._generation) or not texts:
            return []
        sound = matrix.intact(list(texts), list(texts.values())).tolist()
        return [row for row, is_sound in zip(texts, sound, strict=True) if not is_sound]

    def _embed_again(self, rows: Sequence[int]) -> None:
        for start in range(0, len(rows), EMBEDDED_AT_ONCE):
            stored = self._catalogue.read_rows(rows[start : start + EMBEDDED_AT_ONCE])
            vectors = self._embed([entry.text for entry in stored], self._generation)
            self._check_width(vectors.shape[1])
            matrix = self._generation.matrix
            assert matrix is not None, "rows without a usable vector are rows of a matrix"
            for entry, vector in zip(stored, vectors, strict=True):
                matrix.write(entry.row or 0, vector[np.newaxis], texts=[text_hash(entry.text)], sync=False)
            matrix.sync()
        if rows:
            with self._catalogue.writing() as connection:
                catalog.log_changes(connection, [])  # so that other processes look at the vectors again
            self._refresh()


def _bytes_in(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a concurrent writer removes files
            total += file.stat().st_size if file.is_file() else 0
    return total


def _difference(engine: str, expected: set[int], rows: Callable[[], set[int]]) -> list[str]:
    try:
        present = rows()
    except StoreError as error:
        return [f"{engine}: {error}; repair() rebuilds it"]
    faults = []
    if missing := len(expected - present):
        faults.append(f"{engine}: {missing} chunks are missing; repair() brings them back")
    if leftover := len(present - expected):
        faults.append(f"{engine}: {leftover} deleted chunks are still in it; repair() removes them")
    return faults
