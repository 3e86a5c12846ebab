"""Settings and context of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal, NamedTuple

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution.effects import Effect, Failure, Search, Trace, failures_in
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.memory_scores import Scoring
from langchain_hybridgraph.records import (
    ENTITY,
    TITLE,
    FusedCandidate,
    Hit,
    Query,
    Ranking,
    Scope,
    SourceResult,
    in_scope,
    passes_filter,
)
from langchain_hybridgraph.search.expansion import Expansion
from langchain_hybridgraph.search.fusion import ConvexCombination, Fusion
from langchain_hybridgraph.search.rerankers import Reranker
from langchain_hybridgraph.search.sources import Source
from langchain_hybridgraph.search.traversals import ReachedChunk
from langchain_hybridgraph.stores import protocols
from langchain_hybridgraph.stores.protocols import Graph, implements
from langchain_hybridgraph.text.analyzer import approximate_tokens

# Replacement of children by their parents.


def replace_children(hits: Sequence[Hit], parents: Mapping[str, Chunk]) -> list[Hit]:
    """Return the hits with each child replaced by its parent, best first, ties by id.

    A parent appears once, with the score and the path of its best child (``Hit.child``; ties by id) or, if it is
    better, of its own hit. A hit without a parent, or with a parent that is not in ``parents``, is returned unchanged.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> children = [("c1", 0.6), ("c2", 0.9)]
    >>> hits = [Hit(Chunk(id, "", parent_id="p"), score, "vector", {"vector": score}) for id, score in children]
    >>> [(hit.id, hit.score, hit.child.id) for hit in replace_children(hits, {"p": Chunk("p", "both")})]
    [('p', 0.9, 'c2')]
    """
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.id)):
        parent = _parent(hit)
        resolved = hit if parent not in parents else replace(hit, chunk=parents[parent], child=hit.chunk)
        best.setdefault(resolved.id, resolved)
    return sorted(best.values(), key=lambda hit: (-hit.score, hit.id))


def _parent(hit: Hit) -> str:
    """Return the id of the hit's parent, or "" if the hit has none or is itself a parent."""
    return "" if hit.child is not None or hit.chunk.parent == hit.id else hit.chunk.parent or ""


# Settings and context of a search.


class CertainHits(NamedTuple):
    """Hits that are certain to be in the result; if ``is_head`` is set, they are the first ones, in order."""

    hits: Sequence[Hit]
    is_head: bool = False


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limit of ``max_tokens`` on the total number of tokens in the hits; chunks are never cut.

    The first hit is always kept, and the order does not change. With ``fill``, smaller hits after one that does not fit
    may be kept; without it, none are. ``counter`` returns the number of tokens in a text. Raises ConfigurationError if
    ``max_tokens`` is below 1 or ``counter`` is not a function.
    """

    max_tokens: int = 4096
    counter: Callable[[str], int] = approximate_tokens
    fill: bool = True

    def __post_init__(self) -> None:
        errors.check_whole_number("max_tokens", self.max_tokens, least=1)
        if not callable(self.counter):
            raise errors.ConfigurationError(
                f"counter must be a function that returns the number of tokens in a text, got {self.counter!r}"
            )

    def fit(self, hits: Sequence[Hit]) -> tuple[list[Hit], list[str]]:
        """Return the hits that fit into the budget, in their order, and the reasons to add to ``degraded``.

        A first hit that is larger than the budget is the only one, with the reason ``single-chunk-exceeds-budget``.

        >>> from langchain_hybridgraph.records import Chunk, Hit
        >>> hits = [Hit(Chunk(id, "word " * n), 0.5, "vector", {}) for id, n in (("a", 10), ("b", 20), ("c", 1))]
        >>> [[hit.id for hit in TokenBudget(30, fill=fill).fit(hits)[0]] for fill in (True, False)]
        [['a', 'c'], ['a']]
        """
        if not hits:
            return [], []
        remaining = self.max_tokens - self.counter(hits[0].chunk.text)
        if remaining < 0:
            return [hits[0]], ["single-chunk-exceeds-budget"]
        fitting = [hits[0]]
        for hit in hits[1:]:
            tokens = self.counter(hit.chunk.text)
            if tokens <= remaining:
                fitting.append(hit)
                remaining -= tokens
            elif not self.fill:
                break
        return fitting, []


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Settings of a search: its sources, and an option for each stage.

    - ``sources``: each source returns up to max(k × ``overfetch``, 100) candidates. ``source_filter`` limits the
      candidates in addition to the query's filter.
    - ``expansion`` follows the edges of ``graph`` from the best candidates.
    - ``reranker`` reads the best ``rerank_depth`` hits, independently of k. Therefore the result for k is the beginning
      of the result for a larger k.
    - ``scoring`` replaces the scores of all hits with their scores as memories.
    - ``newest`` returns the ids of a scope's newest chunks, the result of a search of memories if no source finds
      anything.
    - ``listing`` returns the first n chunks of a scope in the store's order. ``count`` returns the number of all
      chunks. ``own_filter`` is the retriever's own part of the query's filter.
    - ``min_score``, ``mmr_lambda``, ``max_per_document`` and ``graph_slots`` are arguments of
      :func:`~langchain_hybridgraph.search.pipeline.select_hits`.
    - ``on_error``: ``"degrade"`` continues with the other sources, and raises RetrievalError if all of them failed;
      ``"empty"`` then returns an empty result. ``"raise"`` raises the first error of any stage.
    - With ``merges_copies``, chunks with equal text and metadata count as one chunk.
    - ``announce`` is called with hits that are certain to be in the result, before the result is complete.
    """

    store: protocols.ReadsChunks
    sources: tuple[Source, ...]
    fusion: Fusion = field(default_factory=ConvexCombination)
    overfetch: int = field(kw_only=True)
    source_filter: Filter | None = None
    graph: protocols.HasGraph | None = None
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


class Candidates(NamedTuple):
    """Candidates of a search, with the data that the stages before ``admit`` pass on.

    - ``results`` are the results of the sources.
    - ``rankings`` also contain a source's known scores for candidates that only other sources found.
    - ``fused_candidates`` is the list that ``admit`` reads, best first.
    - ``chunks`` are the chunks that have been read.
    - ``reached_chunks`` are the chunks that were reached through edges of ``graph``, by id, with the paths to them.
    - ``complete`` returns a longer list of candidates, for when some are not admitted. It is set only if an earlier
      stage left out candidates that will probably not be needed.
    """

    results: Mapping[Source, SourceResult]
    rankings: Sequence[Ranking]
    fused_candidates: Sequence[FusedCandidate] = ()
    chunks: Mapping[str, Chunk] = {}
    reached_chunks: Mapping[str, ReachedChunk] = {}
    graph: Graph | None = None
    complete: Callable[[], Search[Candidates]] | None = None

    @property
    def ids(self) -> dict[str, None]:
        """Ids of all chunks that any source found."""
        return dict.fromkeys(chain.from_iterable((*each.exact, *each.ids) for each in self.results.values()))

    @property
    def cosines(self) -> Mapping[str, float]:
        """Known cosines of the candidates with the query, by id; empty if the scores are not cosines."""
        for ranking, (source, result) in zip(self.rankings, self.results.items(), strict=True):
            if source.name == "vector" and result.are_cosines:
                return ranking.scores
        return {}


class Limits(NamedTuple):
    """Limits that let a search skip work that cannot change its result. ``benchmarks/pruning.py`` measures the effect.

    - ``hits`` is the maximum number of hits that the stages after ``admit`` can use.
    - With ``scores_unread``, memories are scored before their texts are read, so that only the best ones have to be
      read. No stage before ``score`` needs the texts then.
    - ``resolves_parents`` is False if no hit has a parent that replaces it.
    """

    hits: int
    scores_unread: bool
    resolves_parents: bool


ALL = 1 << 30


@dataclass(frozen=True)
class SearchContext:
    """Query, settings and trace of one search, which every stage receives."""

    query: Query
    pipeline: Pipeline
    trace: Trace

    @cached_property
    def is_filter_only(self) -> bool:
        """Whether the call has a filter, but no text, no vector and no seeds."""
        query, expansion = self.query, self.pipeline.expansion
        has_seeds = expansion is not None and expansion.seed_ids is not None
        return query.text is None and query.vector is None and not has_seeds and query.scope.filter is not None

    @cached_property
    def limits(self) -> Limits:
        """See :class:`Limits`."""
        pipeline, scoring, store, k = self.pipeline, self.pipeline.scoring, self.pipeline.store, self.query.k
        resolves_parents = pipeline.parents and implements(store, protocols.HasParents) and store.has_parents
        has_columns = scoring is not None and scoring.state_columns is not None
        scores_unread = has_columns and pipeline.reranker is None and not resolves_parents
        changes_order = pipeline.mmr_lambda is not None or pipeline.max_per_document is not None or pipeline.graph_slots
        if changes_order or resolves_parents or (scoring is not None and not scores_unread):
            hits = ALL
        else:
            hits = k if pipeline.reranker is None else max(k, pipeline.rerank_depth)
        return Limits(hits, scores_unread, resolves_parents)

    def ask(self, call: Effect, otherwise: Any = None, *, is_required: bool = False) -> Search[Any]:
        """Make a call and return its result. If it fails, record the reason and return ``otherwise``.

        Raises the errors of :meth:`record`.
        """
        (result,) = self.replace_failures((yield [call]), otherwise, is_required=is_required)
        return result

    def replace_failures(
        self, results: Sequence[Any], otherwise: Any = None, *, is_required: bool = False
    ) -> Sequence[Any]:
        """Record the failures among the results of calls, and return the results with ``otherwise`` for each of them.

        Raises the errors of :meth:`record`. ``is_required`` has an effect only if all calls failed or were of a missing
        keyword index.
        """
        if Failure not in map(type, results):
            return results
        failures = failures_in(results)
        empty = [each for each in results if isinstance(each, SourceResult) and not each.ids]
        unanswered = sum(each.reason == "no-keyword-index" for each in empty)
        self.record(failures, is_required=is_required and len(failures) + unanswered == len(results))
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
            if isinstance(failure.error, errors.HybridGraphError) and isinstance(failure.error, ValueError):
                raise failure.error
        if failures and is_required and self.pipeline.on_error != "empty":
            causes = "; ".join(f"{each.source}: {errors.describe_error(each.error)}" for each in failures)
            raise errors.RetrievalError(
                f"no source could answer ({causes}); on_error='empty' returns an empty result instead"
            ) from failures[0].error


# Loading hits and their parents from the store.


def read_hits(context: SearchContext, candidates: Candidates, n: int) -> Search[list[Hit]]:
    """Return the best n admitted candidates as hits.

    A candidate is admitted if it exists, belongs to the tenant, passes the filter and is valid. Copies of another
    store's chunks are first looked up in that store. Messages of a session that is not in the store are read for every
    tenant. In the trace, the time is added to the stage ``admit``. The result is empty if the catalog cannot be read
    and ``on_error`` is "empty".
    """
    store, scope, fused = context.pipeline.store, context.query.scope, candidates.fused_candidates
    chunks_from_sources: dict[str, Chunk] = {}
    messages: dict[str, Chunk] = {}  # of a session that is not in the store
    for source, result in candidates.results.items():
        if source.name == "session":
            messages |= {id: each for id, each in result.chunks.items() if in_scope(each, replace(scope, tenant=None))}
        else:
            chunks_from_sources |= result.chunks
    hits: list[Hit] = []
    start = 0
    with context.trace.stage("admit"):
        while start < len(fused) and len(hits) < n:
            part = fused[start : start + n]
            start += len(part)
            chunks = candidates.chunks
            ids = [one.id for one in part if one.id not in chunks]
            if ids and implements(store, protocols.HasOriginals):
                new = [id for id in ids if id not in chunks_from_sources]
                originals = yield from look_up_originals(context, new)
                chunks_from_sources |= {id: chunk for id, chunk in originals.items() if chunk is not None}
                ids = [id for id in ids if originals.get(id, True) is not None]
            if ids:
                call = Effect("catalog", partial(store.read, ids, scope, chunks_from_sources), quick=True)
                (admitted,) = context.replace_failures((yield [call]), is_required=True)
                if admitted is None:
                    return []
                if messages:
                    chunks = {**chunks, **{id: messages[id] for id in ids if id in messages}}
                chunks = {**chunks, **admitted}
            hits += hits_from(part, chunks, candidates)
            if context.pipeline.merges_copies:
                hits = without_copies(hits)
        for reason in store.damage if implements(store, protocols.KnowsDamage) else ():
            context.trace.degrade(reason)
    return hits[:n]


def without_copies(hits: list[Hit]) -> list[Hit]:
    """Return the hits without those whose text and metadata are equal to those of an earlier hit."""
    if len({hit.chunk.text for hit in hits}) == len(hits):
        return hits
    first: dict[tuple[str, str], Hit] = {}
    for hit in hits:
        first.setdefault(hit.chunk.content, hit)
    return list(first.values())


def look_up_originals(context: SearchContext, ids: Sequence[str]) -> Search[Mapping[str, Chunk | None]]:
    """Return the current versions, by id, of chunks copied from another store; None for a deleted chunk.

    The result is empty if the store does not keep such copies, or if the other store cannot be reached.
    """
    store = context.pipeline.store
    if not ids or not implements(store, protocols.HasOriginals):
        return {}
    call = Effect("lookup", partial(store.originals, ids), owner=store)
    originals: Mapping[str, Chunk | None] = yield from context.ask(call, {})
    return originals


def read_parents(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with children replaced by their parents, if the store has parents.

    A child stays if its parent does not pass the filter, is missing, or cannot be read (``parents-failed``).
    """
    store, scope, trace = context.pipeline.store, context.query.scope, context.trace
    ids = list(dict.fromkeys(filter(None, map(_parent, hits)))) if context.limits.resolves_parents else []
    if not ids:
        return hits
    assert implements(store, protocols.HasParents)
    with trace.stage("parents"):
        is_quick = getattr(store, "has_fast_lookups", False)
        call = Effect("parents", lambda: dict(store.read_parents(ids, scope)), quick=is_quick, owner=store)
        chunks = yield from context.ask(call)
    if chunks is None:
        return hits
    trace.degrade("parents-failed" if len(chunks) < len(ids) else None)
    return replace_children(hits, {id: parent for id, parent in chunks.items() if passes_filter(parent, scope)})


def hits_from(part: Sequence[FusedCandidate], chunks: Mapping[str, Chunk], candidates: Candidates) -> list[Hit]:
    """Return the fused candidates that are in ``chunks`` as hits, with all that their sources know."""
    cosines = candidates.cosines
    bm25 = next((ranking.scores for ranking in candidates.rankings if ranking.source == "keyword"), {})
    results = candidates.results.items()
    hits = []
    for id, score, parts in part:
        if id not in chunks:
            continue
        sources = [each.name for each, result in results if id in result.scores or id in result.exact]
        path: tuple[str, ...] = (id,)
        hops = 0
        reached_chunk = candidates.reached_chunks.get(id)
        # This includes a seed whose score is raised by another seed, where its path starts.
        if reached_chunk is not None and reached_chunk.hops:
            path = tuple(step for step in reached_chunk.path if not step.startswith((ENTITY, TITLE)))
            hops = reached_chunk.hops
            sources.append("graph")
        source = "fused" if len(sources) > 1 else sources[0] if sources else "graph"
        cosine = cosines.get(id)
        vector_score = None if cosine is None else min(1.0, max(0.0, cosine))
        bm25_score, found_by = bm25.get(id), tuple(sources)
        hits.append(
            Hit(chunks[id], score, source, parts, vector_score, bm25_score, hops=hops, path=path, found_by=found_by)
        )
    return hits
