"""Migration of a store's data to an empty store."""

from __future__ import annotations

import heapq
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.chunks import Serializable
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.execution.processes import report
from langchain_hybridgraph.ingestion.progress import Progress, showing
from langchain_hybridgraph.migration.checksums import Checksums
from langchain_hybridgraph.migration.locations import check_distinct, open_destination, open_source
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.stores.transfer import KINDS, ChunkRecord, CopyDestination, CopySource, Kind

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_hybridgraph.migration.chroma_server import ChromaServer
    from langchain_hybridgraph.records import SourceResult

# Number of records in one write; after an interruption, the copy continues with the next page of this size.
PAGE = 1_000
# Number of sample queries per tenant, of tenants with sample queries, and of results compared per query.
SAMPLED, SAMPLED_TENANTS, COMPARED = 10, 3, 10
# Number of words from the start of a text that form a keyword query.
QUERY_WORDS = 6
# Smallest acceptable share of results that both stores return; approximate indexes differ in a few results.
SAME_RESULTS = 0.9
# Largest difference between scores that are considered equal.
TIE = 1e-5


@dataclass(frozen=True, slots=True)
class MigrationReport(Serializable):
    """Result of a migration: the records copied, and the differences found.

    - ``copied``: number of records that were written, by kind
    - ``verified``: number of records that were read back from the destination, by kind
    - ``left_out``: number of records and values that the destination cannot store, by kind (such as ``retracted
      chunks``)
    - ``same_vector_results``, ``same_keyword_results``: for sample queries, the share of results that both stores
      return, or None if no such queries could be compared
    - ``resumed``: whether the migration continued an interrupted copy
    - ``problems``: messages about differences and other problems
    """

    source: str
    destination: str
    copied: Mapping[str, int]
    verified: Mapping[str, int]
    left_out: Mapping[str, int] = field(default_factory=dict)
    same_vector_results: float | None = None
    same_keyword_results: float | None = None
    resumed: bool = False
    seconds: float = 0.0
    problems: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether no problems were found."""
        return not self.problems


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
    are used to log in to servers. Chroma does not record the model that computed the vectors or the language of the
    texts, so pass them as ``embedding`` and ``language``.

    To continue an interrupted copy, make the same call again. Stop writing to the source first: if it changes during
    the migration, the report contains a problem. Values that the destination cannot store are counted in ``left_out``.

    Raises StoreError for a destination that is not empty, EmbeddingMismatchError for vectors of another model, and
    ConfigurationError for a location that cannot be used.

    >>> from tempfile import TemporaryDirectory
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> with TemporaryDirectory() as folder:
    ...     HybridGraphStore.from_texts(["Ada likes tea.", "Bo plays chess."], path=f"{folder}/old").close()
    ...     report = migrate(f"{folder}/old", f"{folder}/new")
    >>> report.ok, report.copied["chunks"], report.verified["vectors"]
    (True, 2, 2)
    """
    started_at = time.monotonic()
    check_distinct(source, destination, collection, destination_collection)
    with ExitStack() as stack:
        stack.enter_context(showing(progress))
        old = stack.enter_context(closing(open_source(source, collection, embedding, language, source_token)))
        new = stack.enter_context(closing(open_destination(destination, destination_collection, destination_token)))
        copy = _Copy(old, new)
        copy.run()
        new.flush()
        problems, verified, samples = copy.compare()
        same_vectors, same_keywords = _shares(old, new, samples)
        if same_vectors is not None and same_vectors < SAME_RESULTS:
            problems.append(
                f"only {same_vectors:.0%} of the results of sample vector queries are the same in both stores; "
                f"expected at least {SAME_RESULTS:.0%}"
            )
        if not problems:
            problems += new.finish()
    return MigrationReport(
        source=old.name,
        destination=new.name,
        copied=copy.copied(),
        verified=verified,
        left_out=copy.left_out(),
        same_vector_results=same_vectors,
        same_keyword_results=same_keywords,
        resumed=copy.resumed,
        seconds=time.monotonic() - started_at,
        problems=tuple(problems),
    )


class _Copy:
    """Copy in progress. The destination stores the progress of the copy with every page of records."""

    def __init__(self, source: CopySource, destination: CopyDestination) -> None:
        self._source, self._destination = source, destination
        self._facts = source.facts()
        if not self._facts.tenants:
            raise StoreError(f"{source.name} contains nothing to copy")
        self._kinds = [kind for kind in KINDS if kind in source.kinds and kind in destination.kinds]
        self._counts = {tenant: source.counts(tenant) for tenant in self._facts.tenants}
        state = dict(destination.progress() or {})
        self.resumed = bool(state)
        if state and state["source"] != source.name:
            raise StoreError(
                f"{destination.name} contains an unfinished copy of {state['source']}: finish that "
                "copy, or choose another destination"
            )
        destination.begin(self._facts)
        self._version: str | None = state.get("version", self._facts.version)
        self._place: list[Any] = state.get("place", ["", "", None])
        self._done = state.get("done", 0)
        self._checksums = Checksums(state.get("checksums"))
        self._left_out: dict[str, int] = dict(state.get("left_out", {}))

    def run(self) -> None:
        """Copy all records that have not been copied yet."""
        total = sum(counts.get(kind, 0) for counts in self._counts.values() for kind in self._kinds)
        for tenant, kind, after in self._remaining():
            for page in self._source.pages(tenant, kind, after, PAGE):
                report("copying", self._done, total, "records")
                records, left_out = self._destination.adapt(kind, page.records)
                for name, count in left_out.items():
                    self._left_out[name] = self._left_out.get(name, 0) + count
                self._checksums.add(tenant, kind, records)
                self._done += len(page.records)
                self._place = [tenant, kind, page.after]
                self._destination.write(tenant, kind, records, self._state())
        report("copying", self._done, total, "records")

    def _remaining(self) -> Iterator[tuple[str, Kind, Any]]:
        tenant_before, kind_before, after = self._place
        is_ahead = not kind_before
        for tenant in self._facts.tenants:
            for kind in self._kinds:
                is_current = (tenant, kind) == (tenant_before, kind_before)
                if is_ahead or is_current:
                    yield tenant, kind, after if is_current else None
                is_ahead = is_ahead or is_current

    def _state(self) -> dict[str, Any]:
        return {
            "source": self._source.name,
            "version": self._version,
            "place": self._place,
            "done": self._done,
            "checksums": self._checksums.to_dict(),
            "left_out": self._left_out,
        }

    def copied(self) -> dict[str, int]:
        """Return the number of records copied, by kind of content: chunks, vectors, edges and so on."""
        return {name: self._checksums.get(name).records for name in self._checksums.names()}

    def left_out(self) -> dict[str, int]:
        """Return how many records and values of each kind the destination cannot store."""
        missing = [kind for kind in self._source.kinds if kind not in self._kinds]
        counts = {kind: sum(counts.get(kind, 0) for counts in self._counts.values()) for kind in missing}
        return {name: count for name, count in [*counts.items(), *self._left_out.items()] if count}

    def compare(self) -> tuple[list[str], dict[str, int], dict[str, list[ChunkRecord]]]:
        """Read all records back from the destination and compare them with the copied ones.

        Return the problems found, the number of records of each kind, and the chunks to use in sample queries, by
        tenant.
        """
        problems: list[str] = []
        if self._has_source_changed():
            problems.append(
                f"{self._source.name} was written to during the migration: stop writing, delete "
                f"{self._destination.name} and run it again"
            )
        present, samples, done = Checksums(), dict[str, list[ChunkRecord]](), 0
        for tenant in self._facts.tenants:
            sample = _Sample()
            for kind in self._kinds:
                for page in self._destination.pages(tenant, kind, None, PAGE):
                    present.add(tenant, kind, page.records)
                    done += len(page.records)
                    report("verifying", done, self._done, "records read back")
                    if kind == "chunks":
                        sample.add(page.records)
            samples[tenant] = sample.records()
        for name in self._checksums.names():
            expected, actual = self._checksums.get(name), present.get(name)
            if actual != expected:
                differ = (
                    "differ" if actual.records == expected.records else f"are {actual.records:,} in the destination"
                )
                problems.append(f"{name}: {expected.records:,} were copied, and they {differ}")
        return problems, {name: present.get(name).records for name in self._checksums.names()}, samples

    def _has_source_changed(self) -> bool:
        """Return whether the source has changed during the copy. A source without a version number is read again to
        check this.
        """
        if self._version is not None:
            return self._source.facts().version != self._version
        again, done = Checksums(), 0
        for tenant in self._source.facts().tenants:
            for kind in self._kinds:
                for page in self._source.pages(tenant, kind, None, PAGE):
                    done += len(page.records)
                    report("reading again", done, self._done, "records")
                    again.add(tenant, kind, self._destination.adapt(kind, page.records)[0])
        return again.to_dict() != self._checksums.to_dict()


class _Sample:
    """A sample of chunks. It is chosen by the hashes of their ids, so it does not depend on their order."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, str, ChunkRecord]] = []

    def add(self, records: Sequence[ChunkRecord]) -> None:
        """Add chunks, and keep those with the smallest hashes."""
        new = [(-zlib.crc32(r.chunk.id.encode("utf-8", "replace")), r.chunk.id, r) for r in records]
        self._entries = heapq.nlargest(SAMPLED, [*self._entries, *new], key=lambda entry: entry[:2])

    def records(self) -> list[ChunkRecord]:
        return [record for _, _, record in self._entries]


def _shares(
    old: CopySource, new: CopySource, samples: Mapping[str, Sequence[ChunkRecord]]
) -> tuple[float | None, float | None]:
    """Run sample queries on both stores.

    Return the share of results that both stores return, for vector search and for keyword search.
    """
    vectors: list[float] = []
    keywords: list[float] = []
    for tenant, records in list(samples.items())[:SAMPLED_TENANTS]:
        scope = Scope(tenant=tenant or None)
        for record in records:
            text = " ".join(record.chunk.text.split()[:QUERY_WORDS])
            if record.vector is not None and record.vector.any():
                query = Query(None, COMPARED, scope, record.vector)
                vectors += _share(*(each.vector_search(tenant, query, COMPARED) for each in (old, new)))
            query = Query(text, COMPARED, scope)
            keywords += _share(*(each.keyword_search(tenant, query, COMPARED) for each in (old, new)))
    return _mean(vectors), _mean(keywords)


def _share(one: SourceResult | None, other: SourceResult | None) -> list[float]:
    """Return a list with one number: the share of the results in ``one`` that are also in ``other``.

    If there is nothing to compare, the list is empty. Stores choose arbitrarily among results with equal scores, so a
    result that ties with the last one in ``one`` counts as being in ``other``.
    """
    if one is None or other is None or not one.entries:
        return []
    ids, last = {entry.id for entry in other.entries}, one.entries[-1].score
    same = [entry for entry in one.entries if entry.id in ids or entry.score <= last + TIE]
    return [len(same) / len(one.entries)]


def _mean(shares: Sequence[float]) -> float | None:
    return sum(shares) / len(shares) if shares else None
