"""Settings and context of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from langchain_hybridgraph.errors import HybridGraphError, RetrievalError
from langchain_hybridgraph.execution.effects import Effect, Failure, Search, failures_in
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.filters import Filter
from langchain_hybridgraph.memory.scoring import Scoring
from langchain_hybridgraph.query.fusion import ConvexCombination, Fusion
from langchain_hybridgraph.query.graph.expansion import Expansion
from langchain_hybridgraph.query.graph.paths import ReachedChunk
from langchain_hybridgraph.query.rerankers import Reranker
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.query.token_budget import TokenBudget
from langchain_hybridgraph.records import Chunk, FusedCandidate, Hit, Query, Ranking, Scope, SourceResult
from langchain_hybridgraph.stores.protocols import Graph, HasGraph, HasParents, ReadsChunks, implements


class CertainHits(NamedTuple):
    """Hits that are certain to be in the result.

    If ``is_head`` is set, they are the first hits of the result, in order.
    """

    hits: Sequence[Hit]
    is_head: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Settings of a search: its sources, and an option for each stage.

    - ``sources``: each source returns up to max(k × ``overfetch``, 100) candidates. ``source_filter`` limits the
      candidates in addition to the query's filter.
    - ``expansion`` follows the edges of ``graph`` from the best candidates.
    - ``reranker`` reads the best ``rerank_depth`` hits, independently of k. Therefore the result for k is the beginning
      of the result for a larger k.
    - ``scoring`` replaces the scores of all hits with their scores as memories.
    - ``newest`` returns the ids of the newest chunks of a scope. In a search of memories, these chunks are the result
      if no source finds anything.
    - ``listing`` returns the first n chunks of a scope in the store's order. ``count`` returns the number of all
      chunks. ``own_filter`` is the retriever's own part of the query's filter.
    - ``min_score``, ``mmr_lambda``, ``max_per_document`` and ``graph_slots`` are arguments of
      :func:`~langchain_hybridgraph.query.selection.select_hits`.
    - ``on_error`` determines how failures are handled. ``"degrade"`` continues with the other sources, and raises
      RetrievalError if all of them failed. ``"empty"`` does the same, but returns an empty result if all of them
      failed. ``"raise"`` raises the first error of any stage.
    - With ``merges_copies``, chunks with equal text and metadata count as one chunk.
    - ``announce`` is called with hits that are certain to be in the result, before the result is complete.
    """

    store: ReadsChunks
    sources: tuple[Source, ...]
    fusion: Fusion = field(default_factory=ConvexCombination)
    overfetch: int = field(kw_only=True)
    source_filter: Filter | None = None
    graph: HasGraph | None = None
    expansion: Expansion | None = None
    parents: bool = False
    reranker: Reranker | None = None
    rerank_depth: int = field(kw_only=True)
    scoring: Scoring | None = None
    newest: Callable[[Scope], Sequence[str]] | None = None
    min_score: float = 0.0
    mmr_lambda: float | None = None
    max_per_document: int | None = None
    graph_slots: int = 0
    budget: TokenBudget | None = None
    on_error: Literal["degrade", "empty", "raise"] = "degrade"
    announce: Callable[[CertainHits], None] | None = None
    listing: Callable[[Scope, int], SourceResult] | None = None
    count: Callable[[], int] | None = None
    merges_copies: bool = False
    own_filter: Filter | None = None

    @property
    def resolves_parents(self) -> bool:
        """Whether hits may be replaced by their parents."""
        return self.parents and implements(self.store, HasParents) and self.store.has_parents


class Candidates(NamedTuple):
    """Candidates of a search, with the data that the stages before ``admit`` pass on.

    - ``results`` are the results of the sources, and ``source_ids`` are the ids that each source found, with their
      scores.
    - ``rankings`` are the ranked lists of the sources. A source's ranking also contains its known scores for candidates
      that only other sources found.
    - ``fused_candidates`` is the list that ``admit`` reads, best first.
    - ``chunks`` are the chunks that have been read.
    - ``reached_chunks`` are the chunks that were reached through edges of ``graph``, by id, with the paths to them.
    - ``complete`` is a function that returns a longer list of candidates. It is set only if an earlier stage left out
      candidates that will probably not be needed. ``admit`` calls it if some candidates are not admitted.
    """

    results: Mapping[Source, SourceResult]
    rankings: Sequence[Ranking]
    source_ids: Sequence[Mapping[str, float]]
    fused_candidates: Sequence[FusedCandidate] = ()
    chunks: Mapping[str, Chunk] = {}
    reached_chunks: Mapping[str, ReachedChunk] = {}
    graph: Graph | None = None
    complete: Callable[[], Search[Candidates]] | None = None

    @property
    def ids(self) -> dict[str, None]:
        """Ids of all chunks that any source found."""
        return dict.fromkeys(chain.from_iterable(self.source_ids))

    @property
    def has_cosines(self) -> bool:
        """Whether the scores of the vector search are cosines."""
        return any(source.name == "vector" and result.are_cosines for source, result in self.results.items())

    @property
    def cosines(self) -> Mapping[str, float]:
        """Cosines of the candidates with the query, by id. Candidates whose cosine is unknown are left out."""
        return next((r.scores for r in self.rankings if r.source == "vector"), {}) if self.has_cosines else {}


class SearchContext(NamedTuple):
    """Query, settings and trace of one search, which every stage receives."""

    query: Query
    pipeline: Pipeline
    trace: Trace

    @property
    def is_filter_only(self) -> bool:
        """Whether the call has a filter, but no text, no vector and no seeds."""
        query, expansion = self.query, self.pipeline.expansion
        has_seeds = expansion is not None and expansion.seed_ids is not None
        return query.text is None and query.vector is None and query.scope.filter is not None and not has_seeds

    def ask(self, call: Effect, otherwise: Any = None, *, is_required: bool = False) -> Search[Any]:
        """Make a call and return its result. If it fails, record the reason and return ``otherwise``.

        Raises the errors of :meth:`record`.
        """
        (result,) = yield from self.ask_all([call], otherwise, is_required=is_required)
        return result

    def ask_all(
        self, calls: Sequence[Effect], otherwise: Any = None, *, is_required: bool = False
    ) -> Search[list[Any]]:
        """Make calls at the same time and return their results, with ``otherwise`` for each call that failed.

        Raises the errors of :meth:`record`. ``is_required`` has an effect only if all calls failed. A search without a
        keyword index counts as failed, too.
        """
        results = yield calls
        failures = failures_in(results)
        answers = (each for each in results if isinstance(each, SourceResult) and not each.entries)
        unanswered = sum(each.reason == "no-keyword-index" for each in answers)
        self.record(failures, is_required=is_required and len(failures) + unanswered == len(calls))
        return [otherwise if isinstance(result, Failure) else result for result in results]

    def record(self, failures: Sequence[Failure], *, is_required: bool = False) -> None:
        """Record failed calls in the trace, and raise an error if the search cannot continue.

        If ``on_error`` is "raise", the first error is raised. An error that the caller caused, such as an invalid
        filter, is always raised, because results without the filter would be wrong. With ``is_required``, any failure
        raises RetrievalError, unless ``on_error`` is "empty".
        """
        for failure in failures:
            self.trace.record(failure.source, failure.error, failure.reason)
        for failure in failures:
            if isinstance(failure.error, HybridGraphError) and isinstance(failure.error, ValueError):
                raise failure.error
        if failures and is_required and self.pipeline.on_error != "empty":
            errors = "; ".join(f"{each.source}: {type(each.error).__name__}: {each.error}" for each in failures)
            raise RetrievalError(
                f"no source could answer ({errors}); on_error='empty' returns an empty result instead"
            ) from failures[0].error
