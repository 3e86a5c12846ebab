"""Stages that turn candidates into hits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Effect, Search, failures_in
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.records import Answerability, Hit
from langchain_hybridgraph.search.context import (
    Candidates,
    SearchContext,
    read_hits,
    read_parents,
    without_copies,
)
from langchain_hybridgraph.search.expansion import steps, with_context
from langchain_hybridgraph.search.rerankers import apply_scores, is_awaited
from langchain_hybridgraph.stores.protocols import HasVectors, implements

if TYPE_CHECKING:
    from numpy.typing import NDArray


def admit(context: SearchContext, candidates: Candidates) -> Search[list[Hit]]:
    """Return the best admitted candidates as hits (see :func:`read_hits`).

    Only as many candidates are read as later stages can use. If some of them are not admitted, candidates that earlier
    stages left out are added, and the best candidates are read again.
    """
    n = context.limits.hits
    hits = yield from read_hits(context, candidates, n)
    while candidates.complete is not None:
        if list(map(attrgetter("chunk.id"), hits)) == list(map(itemgetter(0), candidates.fused_candidates[:n])):
            break
        candidates = yield from candidates.complete()
        hits = yield from read_hits(context, candidates, n)
    return hits


def parents(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with children replaced by their parents, by score, ties by id.

    In a call with a filter and no query, ties stay in the store's order. With ``merges_copies``, only the best of the
    hits with copies of one parent is returned.
    """
    resolved = yield from read_parents(context, hits)
    if context.pipeline.merges_copies:
        resolved = without_copies(resolved)
    if not context.is_filter_only or resolved is hits:
        return resolved
    positions: dict[str, int] = {}
    for position, hit in enumerate(hits):
        positions.setdefault(hit.id, position)
        positions.setdefault(hit.chunk.parent or hit.id, position)
    return sorted(resolved, key=lambda hit: (-hit.score, positions[hit.id]))


def rerank(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits after reordering the best ``rerank_depth`` hits by the reranker's scores.

    The other hits follow, or are dropped if the reranker filters. Without a reranker or a question, or after a failure,
    the hits are unchanged.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    reranker = pipeline.reranker
    if reranker is None or query.text is None or not hits:
        return hits
    text, best = query.text, hits[: pipeline.rerank_depth]
    call = Effect(
        "rerank",
        partial(reranker.rerank, text, best),
        partial(reranker.arerank, text, best) if is_awaited(reranker) else None,
        lane=lane_of("rerank", reranker),
    )
    with trace.stage("rerank"):
        (scores,) = yield [call]
        for failure in failures_in([scores]):
            trace.record("rerank", failure.error, failure.reason)
            return hits
        try:
            return apply_scores(hits, [*scores, *[None] * (len(hits) - len(best))], reranker)
        except Exception as error:  # noqa: BLE001 - a reranker may be the caller's own and return anything
            trace.record("rerank", error, "rerank-failed")
            return hits


def score(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with their memory scores, best first.

    They are unchanged if there is no ``scoring``, if it fails, or if the candidates were scored before they were read.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    if pipeline.scoring is None or not hits or context.limits.scores_unread:
        return hits
    with trace.stage("score"):
        scored_hits: list[Hit] = yield from context.ask(
            Effect("memory", partial(pipeline.scoring, hits, query), quick=True), hits
        )
    return scored_hits


def recall(context: SearchContext, hits: list[Hit], candidates: Candidates) -> Search[list[Hit]]:
    """Return the hits, or the newest memories if a search of memories found nothing (``nothing-similar``).

    These are ordered by their memory scores. Their similarity is 0, and ``found_by`` contains ``recent``.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    newest, scoring, results = pipeline.newest, pipeline.scoring, candidates.results
    if newest is None or scoring is None or query.text is None:
        return hits
    # The result of a failed source is not an empty result.
    if not results or any(result.entries for result in results.values()):
        return hits

    def read() -> list[Hit]:
        chunks: Mapping[str, Chunk] = pipeline.store.read(newest(query.scope), query.scope, {})
        recent = [Hit(chunk, 0.0, "recent", {}, found_by=("recent",), path=(id,)) for id, chunk in chunks.items()]
        return scoring(recent, query)

    with trace.stage("recall"):
        recent: list[Hit] | None = yield from context.ask(Effect("memory", read, quick=True))
    if recent is None:
        return hits
    if recent:
        trace.degrade("nothing-similar")
        trace.method = "recent"
    return recent


def select(context: SearchContext, hits: list[Hit], unit: float = 1.0) -> Search[list[Hit]]:
    """Return the k hits selected by :func:`select_hits`; raise ConfigurationError for MMR without stored vectors.

    ``unit`` is the factor by which the stage ``calibrate`` will multiply the scores, so ``min_score`` is divided by it.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    store, mmr_lambda, min_score = pipeline.store, pipeline.mmr_lambda, pipeline.min_score / unit
    if min_score > 0 and any(hit.score < min_score for hit in hits[: query.k]):
        trace.remarks["min_score"] = f"hits with a score below {pipeline.min_score:g} were left out"
    selected = partial(
        select_hits,
        hits,
        query.k,
        min_score=min_score,
        max_per_document=pipeline.max_per_document,
        graph_slots=pipeline.graph_slots,
    )
    if mmr_lambda is None or not hits:
        with trace.stage("select"):
            return selected()
    if not implements(store, HasVectors):
        raise ConfigurationError(
            f"mmr_lambda={mmr_lambda} needs the vectors of the hits, which this store does not return: "
            "use a HybridGraphStore or Chroma, or leave mmr_lambda out"
        )
    ids = [(hit.child or hit.chunk).id for hit in hits]
    with trace.stage("select"):
        vectors = yield from context.ask(Effect("vector", partial(store.vectors, ids), lane=lane_of("vector", store)))
        return selected(mmr_lambda=mmr_lambda, vectors=vectors)


def select_hits(
    hits: Sequence[Hit],
    k: int,
    *,
    min_score: float = 0.0,
    mmr_lambda: float | None = None,
    max_per_document: int | None = None,
    graph_slots: int = 0,
    vectors: NDArray[np.float32] | None = None,
) -> list[Hit]:
    """Return the k hits of the result, best first unless ``mmr_lambda`` changes the order.

    - ``min_score`` is the lowest score of a hit in the result.
    - ``mmr_lambda`` orders the hits by maximal marginal relevance: 1 considers only the score, 0 only the difference
      from the hits before it, and None keeps the order. It has no effect without ``vectors``.
    - ``max_per_document`` is the maximum number of hits from one document.
    - ``graph_slots`` is the number of the k results reserved for hits reached through edges. If there are fewer such
      hits among the best k, the lowest-ranked other hits are replaced by the next best hits reached through edges.

    Without graph slots, the result for a smaller k is the beginning of the result for a larger k.

    ``hits`` are best first. ``vectors`` are their unit vectors, len(hits) × dimension. A hit without a stored vector
    has a row of zeros, so its cosine with every other hit is 0.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> scores = {"a1": 0.9, "a2": 0.8, "b": 0.4}
    >>> hits = [Hit(Chunk(id, "", document_id=id[0]), score, "vector", {}) for id, score in scores.items()]
    >>> [hit.id for hit in select_hits(hits, k=10, min_score=0.3, max_per_document=1)]
    ['a1', 'b']
    """
    places = [place for place, hit in enumerate(hits) if hit.score >= min_score]
    ordered: Iterable[Hit] = (hits[place] for place in places)
    if mmr_lambda is not None and vectors is not None:
        scores = np.array([hits[place].score for place in places])
        order = marginal_relevance(scores, vectors[places], mmr_lambda)
        ordered = (hits[places[place]] for place in order)
    if max_per_document is not None:
        ordered = _capped(ordered, max_per_document)
    if not graph_slots:
        return list(islice(ordered, k))
    best = list(ordered)
    graph_places = [place for place, hit in enumerate(best) if hit.hops][: min(graph_slots, k)]
    other_places = [place for place in range(len(best)) if place not in graph_places]
    return [best[place] for place in sorted([*graph_places, *other_places[: k - len(graph_places)]])]


def marginal_relevance(scores: NDArray[np.float64], vectors: NDArray[np.float32], mmr_lambda: float) -> Iterator[int]:
    """Yield the positions of the candidates in order of marginal relevance, best first, ties by position.

    The next candidate is the one with the largest λ · score − (1 − λ) · (largest cosine with an earlier candidate).

    Carbonell and Goldstein, The Use of MMR, Diversity-Based Reranking, SIGIR 1998.

    >>> towards = np.array([[1, 0], [0.95, 0.3122499], [0.1, 0.9949874]], np.float32)
    >>> list(marginal_relevance(np.array([0.9, 0.85, 0.6]), towards, 0.7))
    [0, 2, 1]
    """
    relevance = mmr_lambda * scores
    likeness = np.full(len(scores), -np.inf)
    worth = relevance.copy()
    for _ in range(len(scores)):
        place = int(np.argmax(worth))
        yield place
        relevance[place] = -np.inf
        np.maximum(likeness, vectors @ vectors[place], out=likeness)
        worth = relevance - (1 - mmr_lambda) * likeness


def _capped(hits: Iterable[Hit], most: int) -> Iterator[Hit]:
    counts: Counter[str] = Counter()
    for hit in hits:
        counts[hit.chunk.document] += 1
        if counts[hit.chunk.document] <= most:
            yield hit


def budget(context: SearchContext, hits: list[Hit]) -> list[Hit]:
    """Return the hits that fit into the token budget, or all hits if there is no budget."""
    if context.pipeline.budget is None:
        return hits
    with context.trace.stage("budget"):
        fitting, reasons = context.pipeline.budget.fit(hits)
    for reason in reasons:
        context.trace.degrade(reason)
    return fitting


def calibrate(context: SearchContext, hits: list[Hit], answerability: Answerability | None) -> list[Hit]:
    """Return the hits with scores and parts multiplied by ``answerability.unit``, if there is one."""
    if answerability is None:
        return hits
    with context.trace.stage("calibrate"):
        return answerability.scale(hits)


def describe(context: SearchContext, hits: list[Hit], candidates: Candidates) -> Search[list[Hit]]:
    """Return the hits; those reached through edges get a description of the last edges, if these can be read."""
    graph = candidates.graph
    graph_hits = [] if graph is None else [hit for hit in hits if hit.hops]
    if graph is None or not graph_hits:
        return hits
    pairs = [step for hit in graph_hits for step in steps(hit)]
    with context.trace.stage("describe"):
        edges = yield from context.ask(Effect("graph", lambda: graph.edges(pairs), quick=True))
        if edges is None:
            return hits
        remaining = iter(edges)
        described = {hit.id: with_context(hit, list(islice(remaining, len(steps(hit))))) for hit in graph_hits}
    return [described.get(hit.id, hit) for hit in hits]
