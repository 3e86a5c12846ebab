"""Administration of an index: checks, repairs, backups, tenants."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from langchain_hybridgraph.chunks import Serializable
from langchain_hybridgraph.errors import (
    ConfigurationError,
    NotAnIndexError,
    ReadOnlyError,
    StoreError,
    StoreLockedError,
    TenantError,
    as_path,
    quote_value,
)
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.access import Writer
from langchain_hybridgraph.stores.catalog import Catalog, DamagedNode, check_pages
from langchain_hybridgraph.stores.chunk_rows import MODE_PREFIX, StoredChunk, text_hash
from langchain_hybridgraph.stores.generations import BATCH, FittedEmbedding, NoEmbedding, has_damaged_probe, runs
from langchain_hybridgraph.stores.index import CATALOG, SUMMARIES, IndexFolder, IndexSettings, copy_index, read_facts
from langchain_hybridgraph.stores.vectors import sync_path

logger = logging.getLogger(__name__)

# Number of texts embedded in one call when vectors are repaired.
EMBEDDED_AT_ONCE = 500
# Seconds that a check waits for the write lock. If it does not get the lock, the keyword index may not be checked.
CHECK_PATIENCE = 1.0
# Maximum number of damaged chunks that a report names.
NAMED_CHUNKS = 1_000


@dataclass(frozen=True, slots=True)
class CheckReport(Serializable):
    """Result of ``check``; if ``problems`` is empty, the checked parts of the index agree.

    ``unchecked`` lists the parts that were not checked, for example because another process was writing. ``notes``
    report edges to ids that are not in the index, such as links to documents that have not been ingested, and a damaged
    keyword index that was rebuilt when the index was opened.
    """

    problems: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no problems were found."""
        return not self.problems


class Maintenance:
    """Checks whether the parts of an index and of its ``summaries`` agree, repairs them and backs them up."""

    def __init__(
        self,
        index: IndexFolder,
        writer: Writer,
        summaries: Callable[[], Maintenance | None] = lambda: None,
        renew_summaries: Callable[[], object] = lambda: None,
    ) -> None:
        self._index, self._writer = index, writer
        self._summaries, self._renew_summaries = summaries, renew_summaries

    def check(self) -> CheckReport:
        """Check whether the catalog, the matrix, the keyword index and the index of summaries agree.

        If the write lock is not available within a second, parts may be ``unchecked``; writers wait during the check.
        """
        report = self._check()
        try:
            summaries = self._summaries()
            other = None if summaries is None else summaries.check()
        except StoreError as error:
            other = CheckReport((f"{str(error).partition(': ')[0]}; repair() writes them again",))
        if other is None:
            return report
        lines = {
            name: (*getattr(report, name), *(f"summaries of directories: {line}" for line in getattr(other, name)))
            for name in ("problems", "unchecked", "notes")
        }
        layers = {"layers": other.counts["chunks"]} if other.counts else {}
        return CheckReport(**lines, counts={**report.counts, **layers})

    def _check(self) -> CheckReport:
        index, catalog = self._index, self._index.catalog
        with ExitStack() as stack:
            stack.enter_context(index.guard)
            try:
                stack.enter_context(index.writer(timeout=min(CHECK_PATIENCE, index.settings.write_timeout)))
                is_writer, problems = True, self._try_step()
            except (StoreLockedError, ReadOnlyError):
                is_writer, problems = False, []
            with catalog.snapshot():
                index.snapshot()  # of the same commit, even if another process packs the index
                version, texts = catalog.version(), catalog.text_hashes()
                problems += catalog.record_faults() + self._value_faults() + self._text_faults()
                with catalog.reading() as connection:
                    orphans = catalog_writes.count_orphan_edges(connection, index.rows.tenant)
                [(edges,)] = catalog.query("SELECT count(*) FROM edges")
            if loss := index.loss:
                problems.append(f"catalog: {self._description(loss)}; repair() accepts the loss")
            problems += self._vector_faults(texts)
            faults = self._keyword_faults(version, set(texts), is_writer)
            problems += faults or []
        unchecked = ("keyword index: not checked: another process may be writing",) if faults is None else ()
        notes = index.keywords.notes
        if orphans:
            number = f"edges with an end that is not in the index: {orphans:,}"
            notes += (f"{number}; an edge has no effect until both ends are in it",)
        return CheckReport(tuple(problems), unchecked, {"chunks": len(texts), "edges": edges}, notes)

    def _try_step(self) -> list[str]:
        try:
            self._index.sync_keywords()
        except StoreError as error:
            return [str(error)]
        return []

    def _value_faults(self) -> list[str]:
        faults = [
            f"catalog: {' '.join(message.split())}; repair() accepts the values that can be read; if this remains, "
            "restore a backup"
            for message in self._index.catalog.damage()
        ]
        with suppress(StoreError):  # the tables themselves cannot be read
            if faults and (nodes := self._index.catalog.altered_values()):
                faults.append(f"edges or learned values of {self._list(nodes)} have changed; repair() accepts them")
        return faults

    def _text_faults(self) -> list[str]:
        (undecodable, altered), faults = self._index.catalog.damaged_nodes(), []
        if self._is_probe_undecodable():
            faults.append("the text by which the embedding is recognised is not valid UTF-8; repair() deletes it")
        if undecodable:
            faults.append(f"{self._list(undecodable)} are not valid UTF-8; repair() deletes them")
        if altered:
            faults.append(
                f"{self._list(altered)} have another text or other metadata than were written; repair() accepts them"
            )
        return faults

    def _is_probe_undecodable(self) -> bool:
        return self._index.catalog.has_undecodable_texts and has_damaged_probe(self._index.catalog.facts())

    def _list(self, nodes: Sequence[DamagedNode | StoredChunk]) -> str:
        """Return the number of nodes, and the ids of those of this tenant."""
        ids = [quote_value(each.id) for each in nodes if each.tenant == self._index.rows.tenant]
        names = ", ".join(ids[:NAMED_CHUNKS]) + ", …" * (len(ids) > NAMED_CHUNKS)
        others = f"{len(nodes) - len(ids)} of other tenants" if len(ids) < len(nodes) else ""
        return f"{len(nodes)} chunks ({'; '.join(filter(None, (names, others)))})"

    def _description(self, loss: Mapping[str, Any]) -> str:
        rows = loss["missing"]
        spans = [f"{rows[start]} to {rows[stop - 1]}" for start, stop in runs(rows)]
        numbers = f" (rows {', '.join(spans)})" if spans and self._index.settings.tenant is None else ""
        return (
            f"the last {loss['commits']} commits are missing, because the write-ahead log was lost or damaged or an "
            f"older catalog was restored; {len(rows)} texts are missing{numbers} and cannot be restored, because only "
            f"the catalog has ids and texts; {self._list(self._index.catalog.read_rows(loss['returned']))} are back "
            "although they were deleted or replaced"
        )

    def _keyword_faults(self, version: int, rows: set[int], is_writer: bool) -> list[str] | None:
        keywords = self._index.keywords
        if not is_writer:
            keywords.reload()
        index = keywords.index
        if keywords.reason is not None:
            return ["keyword index: it cannot be opened; repair() rebuilds it"]
        if not is_writer and index.applied_version != version:
            return None
        try:
            present = index.rows()
        except StoreError as error:
            return [f"keyword index: {error}; repair() rebuilds it"]
        damaged = index.damaged_files()
        faults = {
            "chunks are missing": len(rows - present),
            "deleted chunks are still in it": len(present - rows),
        }
        problems = [f"{count} {what}" for what, count in faults.items() if count]
        problems += [f"damaged files: {', '.join(damaged)}"] if damaged else []
        return [f"keyword index: {problem}; repair() rebuilds it" for problem in problems]

    def repair(self) -> CheckReport:
        """Repair the problems that :meth:`check` reports, then check again and return the new report.

        Damaged vectors and missing memory states are computed again. Invalid edges and chunks that are not valid UTF-8
        are deleted. The report's ``notes`` name what was lost.
        """
        with self._index.writer():
            self._try_step()
            loss, (undecodable, altered) = self._index.loss, self._index.catalog.damaged_nodes()
            description = loss and self._description(loss)
            lost_facts = ["loss"] + ["probe_text", "probe_vector"] * self._is_probe_undecodable()
            faults = self._value_faults()
            rows = [each.row for each in (*undecodable, *altered) if each.row is not None]
            with self._index.catalog.writing() as connection:
                catalog_writes.delete_facts(connection, *lost_facts)
                accepted = [(each.node, *each[4:]) for each in altered]
                deleted, now = [each.node for each in undecodable], self._index.clock()
                rows += catalog_writes.repair(connection, deleted, accepted, now, accept_values=bool(faults))
                catalog_writes.log_changes(connection, rows)
            generation = self._index.snapshot().generation
            if not (generation.has_numbers and generation.has_numbers_on_disk()):
                self._writer.pack()
            self._embed_again(self._without_vector(self._index.catalog.text_hashes()))
            self._index.keywords.rebuild(self._index.rows.version)
            self._writer.flush()
        self._repair_summaries()
        report, notes = self.check(), []
        if description:
            notes.append(f"{description}; add the missing texts again")
        if undecodable:
            notes.append(f"{self._list(undecodable)} were deleted; add them again")
        if faults:
            notes.append(f"values in the catalog may be wrong: {'; '.join(faults)}")
        if altered:
            notes.append(f"the texts or metadata of {self._list(altered)} may be wrong; add them again")
        return replace(report, notes=(*notes, *report.notes))

    def _repair_summaries(self) -> None:
        try:
            summaries = self._summaries()
            report = None if summaries is None else summaries.repair()
            if report is None or (report.ok and not report.notes):  # notes name what was lost
                return
        except (StoreLockedError, ReadOnlyError):
            raise
        except StoreError as error:
            logger.warning("the summaries of directories cannot be repaired and are written again: %s", error)
        self._renew_summaries()

    def backup(self, destination: str | Path) -> Path:
        """Copy the index of all tenants to a new folder, which is a complete index, and return its path.

        Other processes may read and write meanwhile; writers wait until the files are copied. If the backup fails,
        nothing is left at ``destination``. Summaries of directories that are damaged are left out.

        Raises ConfigurationError for a destination inside the index, or one that exists and is not an empty folder, and
        StoreError for an index in memory, a damaged catalog, or a file that cannot be read or written.
        """
        source, path = self._index.settings.path, as_path("destination", destination).absolute()
        if source is None:
            raise StoreError("an index in memory cannot be backed up: create it in a folder, HybridGraphStore(path)")
        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise ConfigurationError(f"{path} already exists: pass a new folder for the backup")
            if path.resolve().is_relative_to(source):
                raise ConfigurationError(f"{path} is inside the index: pass a folder outside {source} for the backup")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(unfinished, ignore_errors=True)
            with ExitStack() as stack:
                stack.enter_context(self._index.writer())
                self._index.sync_keywords()
                copy_index(source, unfinished, *self._hold_summaries(stack))
                unfinished.rename(path)
                sync_path(path.parent)
        except (OSError, shutil.Error) as error:
            raise StoreError(f"the backup {path} cannot be written: {error}") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return path

    def _hold_summaries(self, stack: ExitStack) -> Sequence[str]:
        """Keep writers from the index of summaries; return patterns of the files to leave out of a backup."""
        try:
            if (summaries := self._summaries()) is not None:
                stack.enter_context(summaries._index.writer())
                with summaries._index.catalog.reading() as connection:
                    check_pages(connection)
        except StoreLockedError:
            raise
        except StoreError as error:
            logger.warning("the backup does not contain the summaries of directories: %s", error)
            return [SUMMARIES]
        return []

    def refit(self) -> int:
        """Fit an embedding such as LSA to the stored texts now; return the number of texts embedded.

        Raises ConfigurationError if the embedding cannot be fitted.
        """
        if not isinstance(self._index.generation.embedding, FittedEmbedding):
            raise ConfigurationError(
                f"{self._index.settings.name} is pretrained, so it cannot be fitted to the texts of the index; "
                "to use another embedding, create a new index"
            )
        with self._index.writer():
            texts = self._writer.refit()
            self._writer.flush()
        return texts

    def stats(self) -> dict[str, Any]:
        """Return counts (chunks, parents, edges, entities, sessions, retracted, layers) and facts about the index.

        ``layers`` counts summaries, ``version`` the changes, ``generation`` the fits, and ``bytes`` is the size on
        disk. ``dimension`` and ``embedding`` are None without vectors.
        """
        with self._index.guard:
            self._index.snapshot()
            facts = self._index.catalog.facts()
            counts = self._index.catalog.count(self._index.rows.tenant)
        layers = 0
        with suppress(StoreError):  # check() reports damaged summaries
            if (summaries := self._summaries()) is not None:
                layers = summaries._index.snapshot().rows.living
        return {
            **counts,
            "dimension": facts.get("dimension"),
            "embedding": facts.get("embedding"),
            "language": self._index.shared.language,
            "tenant": self._index.settings.tenant,
            "version": facts["version"],
            "generation": facts["generation"],
            "bytes": 0 if self._index.settings.path is None else _bytes_in(self._index.settings.path),
            "layers": layers,
        }

    def _vector_faults(self, texts: Mapping[int, bytes]) -> list[str]:
        generation = self._index.generation
        if texts and self._index.is_unfitted(generation) and not generation.unusable_files:
            return [
                f"vector matrix: chunks without a vector: {len(texts):,}, because the embedding has not been fitted, "
                "for example because an ingest was interrupted; repair() or another ingest adds the vectors"
            ]
        if generation.matrix is not None:
            generation.matrix.remap()
        missing = self._without_vector(texts)  # this call reads the model, which the next line checks
        faults = ["model: it cannot be read; repair() makes a new one"] if "model" in generation.unusable_files else []
        if generation.has_numbers and not generation.has_numbers_on_disk():
            faults.append("vector matrix: the file with the numbers of its rows is damaged; repair() writes a new one")
        if missing:
            faults.append(
                "vector matrix: chunks without a usable vector, or with that of another text: "
                f"{len(missing)}; repair() embeds them again"
            )
        return faults

    def _without_vector(self, texts: Mapping[int, bytes]) -> list[int]:
        """Return the numbers of the rows whose vector is missing, damaged or not that of the text with this hash."""
        generation = self._index.generation
        if self._index.is_unfitted(generation) or generation.matrix is None or not texts:
            return []
        intact = generation.matrix.intact(generation.numbers.rows(list(texts)), list(texts.values())).tolist()
        return [number for number, is_intact in zip(texts, intact, strict=True) if not is_intact]

    def _embed_again(self, numbers: Sequence[int]) -> None:
        generation = self._index.generation
        for start in range(0, len(numbers), EMBEDDED_AT_ONCE):
            stored_rows = self._index.catalog.read_rows(numbers[start : start + EMBEDDED_AT_ONCE])
            vectors = self._index.embed([entry.text for entry in stored_rows], generation)
            self._index.check_dimension(vectors.shape[1])
            matrix = generation.matrix
            assert matrix is not None, "rows without a usable vector are rows of a matrix"
            rows = generation.numbers.rows([entry.row or 0 for entry in stored_rows]).tolist()
            for row, entry, vector in zip(rows, stored_rows, vectors, strict=True):
                matrix.write(row, vector[np.newaxis], texts=[text_hash(entry.text)], sync=False)
            matrix.sync()
        if numbers:
            with self._index.catalog.writing() as connection:
                catalog_writes.log_changes(connection, [])  # makes other processes read the vectors again
            self._index.snapshot()


def _bytes_in(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a concurrent writer may delete files
            total += file.stat().st_size if file.is_file() else 0
    return total


def list_tenants(path: str | Path) -> dict[str, int]:
    """Return the number of chunks of each tenant in an index folder, for its administrator.

    Tenants with only other data have 0. Raises NotAnIndexError for a path without an index, and TenantError for an
    index without tenants.

    >>> from tempfile import TemporaryDirectory
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> with TemporaryDirectory() as folder:
    ...     HybridGraphStore.from_texts(["Ada likes tea."], path=f"{folder}/index", tenant="ada").close()
    ...     HybridGraphStore.from_texts(["Bo plays chess."], path=f"{folder}/index", tenant="bo").close()
    ...     deleted = drop_tenant(f"{folder}/index", "ada")
    ...     deleted["chunks"], list_tenants(f"{folder}/index")
    (1, {'bo': 1})
    """
    path = as_path("path", path)
    facts = read_facts(path)
    if not facts:
        raise NotAnIndexError(f"{path} contains no index")
    if facts["tenancy"] != "multi":
        raise TenantError(f"{path} was made without tenants, so there are none to list or drop")
    with closing(Catalog(path / CATALOG)) as catalog:
        results = catalog.query(
            "WITH named (tenant) AS (SELECT tenant FROM nodes UNION SELECT tenant FROM credibility "
            f"UNION SELECT substr(name, {len(MODE_PREFIX) + 1}) FROM about WHERE name GLOB '{MODE_PREFIX}*') "
            "SELECT tenant, (SELECT count(row) FROM nodes n WHERE n.tenant = named.tenant) FROM named ORDER BY tenant"
        )
    return dict(results)


def drop_tenant(path: str | Path, tenant: str) -> dict[str, int]:
    """Delete all data of a tenant from an index folder, and overwrite the deleted data on disk.

    Return the numbers of deleted ``chunks``, ``parents``, ``edges``, ``entities``, ``sessions`` and summaries
    (``layers``). The model of an LSA index still contains the tenant's words until ``store.admin.refit()``. An
    interrupted deletion is completed by the next call.

    Raises NotAnIndexError for a path without an index, TenantError for an index without tenants or an unknown tenant,
    and StoreLockedError after 30 seconds without the write lock, when only summaries may have been deleted.
    """
    path = as_path("path", path)
    names = list_tenants(path)
    if tenant not in names:
        raise TenantError(f"{path} contains no data of tenant {str(tenant)[:100]!r}; list_tenants() lists its tenants")
    with closing(_open(path, tenant)) as index:
        layers = 0
        for folder in sorted(path.glob(SUMMARIES)):
            try:
                with closing(_open(folder, tenant)) as summaries:
                    layers = _delete(summaries)["chunks"]  # only the last of several generations is in use
            except NotAnIndexError:  # damaged summaries may still contain the tenant's texts
                shutil.rmtree(folder)
        return {**_delete(index), "layers": layers}


def _open(path: Path, tenant: str) -> IndexFolder:
    name = str(read_facts(path).get("embedding", ""))
    return IndexFolder(IndexSettings(path=path, embedding=NoEmbedding(name), name=name, tenant=tenant))


def _delete(index: IndexFolder) -> dict[str, int]:
    with index.writer():
        stats = Maintenance(index, Writer(index)).stats()
        with index.catalog.writing() as connection:
            rows = catalog_writes.delete_tenant(connection, index.rows.tenant)
            catalog_writes.log_changes(connection, rows)
        index.snapshot()
        if (matrix := index.generation.matrix) is not None:
            matrix.remap()
            living = index.generation.numbers.rows(index.catalog.row_numbers())
            dead = np.setdiff1d(np.arange(len(matrix)), living).tolist()  # also the rows of replaced texts
            for part in (dead[start : start + BATCH] for start in range(0, len(dead), BATCH)):
                for start, stop in runs(part):
                    blanks = np.zeros((stop - start, matrix.dimension), np.float32)
                    matrix.write(part[start], blanks, texts=[b""] * len(blanks), sync=False)
            matrix.sync()
        # Without a rebuild, the words of deleted texts would stay in Tantivy's segments until they are merged.
        index.keywords.rebuild(index.rows.version)
        index.sync_keywords()
        index.catalog.checkpoint()
        index.tidy()  # vectors from before a packing may still be there
    return {name: stats[name] for name in ("chunks", "parents", "edges", "entities", "sessions")}
