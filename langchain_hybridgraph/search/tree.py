"""Best-first search in a tree of directories."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, StoreError
from langchain_hybridgraph.execution.effects import Effect, Search, Trace, ask, replace_failures
from langchain_hybridgraph.records import FusedCandidate, Hit, Query, Scope
from langchain_hybridgraph.search.candidate_stages import fuse, gather, rank
from langchain_hybridgraph.search.context import Candidates, Pipeline, SearchContext, look_up_originals
from langchain_hybridgraph.search.hit_stages import rerank
from langchain_hybridgraph.search.sources import KeywordSource, VectorSource
from langchain_hybridgraph.stores.protocols import HasSummaries, implements

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import Nodes, Weights
    from langchain_hybridgraph.stores.summaries import CurrentSummaries
    from langchain_hybridgraph.stores.tree import Level, Tree


# Best-first search of a tree of directories.
#
# It is separate from ``BestFirst``, the similar traversal of a store's graph, for three reasons:
#
# - A directory need not be a chunk, so it may not be a node of the graph.
# - Scoring a level is slow, because it runs the complete search and the reranker.
# - This search considers only the best children of each directory.
#
# Like the pipeline, the search is a generator that yields calls to engines and receives their results.

# Number of decimals to which values are rounded for comparison, so that rounding errors do not matter.
_DECIMALS = 12


class ScoredLevel(NamedTuple):
    """Nodes of one level of the tree, with their scores in [0, 1], without the value of the parent directory.

    ``answer_scores`` rate the nodes as answers, ``descent_scores`` as directories that may contain answers. A directory
    with the descent score NaN (unknown) is opened only when no directory with a known score is left, and the values of
    its children are their own scores. ``may_answer`` is False for nodes that cannot be answers. Ties are ordered by
    ``names``.
    """

    nodes: Nodes
    names: Sequence[str]
    answer_scores: Weights
    descent_scores: Weights
    may_answer: Mask
    has_children: Mask

    @property
    def worth(self) -> Weights:
        """Higher of each node's two scores, the answer score and the descent score."""
        return np.fmax(self.answer_scores, self.descent_scores)

    def at(self, places: Sequence[int]) -> ScoredLevel:
        """Return the entries at these positions."""
        return ScoredLevel(
            self.nodes[places],
            [self.names[place] for place in places],
            self.answer_scores[places],
            self.descent_scores[places],
            self.may_answer[places],
            self.has_children[places],
        )


class ReachedNode(NamedTuple):
    """Node reached by the search, with its value, its own score, and the value of its directory, if there is one."""

    node: int
    value: float
    own: float
    directory_value: float | None


class DescentResult(NamedTuple):
    """Result of a search of the tree: the reached nodes, best first, ties by name.

    ``opened`` is the number of opened directories. ``converged`` is set if the search ended early because its best
    nodes did not change.
    """

    nodes: tuple[ReachedNode, ...]
    opened: int
    converged: bool


@dataclass(frozen=True)
class BestFirstSettings:
    """Settings of a best-first search of a tree.

    The value of a child is ``alpha`` · its own score + (1 − ``alpha``) · the value of its directory, or its own score
    if the directory has no value. The result contains only nodes whose value is above ``threshold``. A directory is not
    opened if its value is 0, or if nothing in it could be above the threshold. Only the max(2 k, 20) best children of
    each directory are considered.

    Once it has found ``k`` nodes, the search ends early if opening ``max_rounds`` directories in a row does not change
    the best ``k``. Raises ConfigurationError for values outside their ranges.
    """

    k: int
    alpha: float = 0.5
    max_rounds: int = 3
    threshold: float = 0.0

    def __post_init__(self) -> None:
        if not _is_share(self.alpha):
            raise ConfigurationError(f"alpha must be a number from 0 to 1, got {self.alpha!r}")
        if self.max_rounds < 1:
            raise ConfigurationError(f"max_rounds must be an integer ≥ 1, got {self.max_rounds!r}")
        if not _is_share(self.threshold):
            raise ConfigurationError(f"score_threshold must be a number from 0 to 1, got {self.threshold!r}")

    @property
    def width(self) -> int:
        """Maximum number of children of a directory that are considered."""
        return max(2 * self.k, 20)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def descend(
    roots: Sequence[tuple[int, str]],
    starts: ScoredLevel,
    score_children: Callable[[int], Search[ScoredLevel | None]],
    descent: BestFirstSettings,
) -> Search[DescentResult]:
    """Search the tree for the best nodes, beginning with the nodes in ``starts``.

    ``roots`` are pairs of a node and its name. They are opened only when no directory with a known value is left to
    open. ``score_children`` returns the scores of a directory's children, or None if it has no children. Every
    directory is opened at most once, even in a loop. A node that is reached several times keeps its best value.

    >>> own = np.array([0.0, 0.8, 0.9])
    >>> def level(nodes):
    ...     names, every = list(map(str, nodes)), np.ones(len(nodes), bool)
    ...     return ScoredLevel(np.array(nodes, int), names, own[nodes], own[nodes], every, every)
    >>> def score_children(node):
    ...     return level([node + 1]) if node < 2 else None
    ...     yield
    >>> search = descend([(0, "")], level([]), score_children, BestFirstSettings(k=2))
    >>> try:
    ...     next(search)
    ... except StopIteration as stop:
    ...     print([(each.node, round(each.value, 2)) for each in stop.value.nodes])
    [(2, 0.85), (1, 0.8)]
    """
    search = _Descent(descent)
    search.add(starts, None)
    for node, name in roots:
        search.wait(node, name, None)
    while (directory := search.next()) is not None:
        level = yield from score_children(directory)
        if level is None:
            continue
        search.open(directory, level)
        if search.unchanged == descent.max_rounds:
            return search.result(converged=True)
    return search.result(converged=False)


class _Descent:
    """The reached nodes, and a queue of directories: best first, those without a value last."""

    def __init__(self, descent: BestFirstSettings) -> None:
        self._descent = descent
        self._nodes: dict[int, ReachedNode] = {}
        self._ranks: dict[int, tuple[float, str]] = {}
        self._descent_scores: dict[int, float | None] = {}
        self._waiting: list[tuple[float, str, int]] = []
        self._opened: set[int] = set()
        self._rounds = 0
        self._best: list[int] = []
        self._new: list[int] = []
        self.unchanged = 0

    def next(self) -> int | None:
        """Remove the best unopened directory from the queue, record it as opened, and return it, or None."""
        while self._waiting:
            node = heapq.heappop(self._waiting)[2]
            if node not in self._opened:
                self._opened.add(node)
                return node
        return None

    def open(self, directory: int, level: ScoredLevel) -> None:
        width = self._descent.width
        if len(level.nodes) > width:
            best = np.argsort(-np.round(level.worth, _DECIMALS), kind="stable")
            level = level.at(best[:width].tolist())
        self.add(level, self._descent_scores[directory])
        self._rounds += 1
        self._update_best()

    def add(self, level: ScoredLevel, directory_value: float | None) -> None:
        """Record the nodes with a value above the threshold, and queue the directories that may contain such nodes."""
        alpha, threshold = self._descent.alpha, self._descent.threshold
        nodes, names, owns = level.nodes.tolist(), level.names, level.answer_scores.tolist()
        values = _mixed(level.answer_scores, directory_value, alpha)
        for place in np.flatnonzero(level.may_answer & (values > threshold)).tolist():
            self._record(ReachedNode(nodes[place], float(values[place]), owns[place], directory_value), names[place])
        if not level.has_children.any():
            return
        descent_scores = _mixed(level.descent_scores, directory_value, alpha)
        # A child can exceed the threshold only if a perfect child would, or if the directory's value is unknown.
        hopeful = np.isnan(descent_scores) | ((descent_scores > 0) & (_mixed(1.0, descent_scores, alpha) > threshold))
        for place in np.flatnonzero(level.has_children & hopeful).tolist():
            descent_score = float(descent_scores[place])
            self.wait(nodes[place], names[place], None if math.isnan(descent_score) else descent_score)

    def _record(self, node: ReachedNode, name: str) -> None:
        previous = self._nodes.get(node.node)
        if previous is None or node.value > previous.value:
            self._nodes[node.node] = node
            self._ranks[node.node] = -round(node.value, _DECIMALS), name
            self._new.append(node.node)

    def wait(self, node: int, name: str, descent_score: float | None) -> None:
        """Queue a directory, unless it has been opened or is queued with a value that is at least as good."""
        if node in self._opened or (
            node in self._descent_scores and _priority(descent_score) <= _priority(self._descent_scores[node])
        ):
            return
        self._descent_scores[node] = descent_score
        heapq.heappush(self._waiting, (-_priority(descent_score), name, node))

    def result(self, *, converged: bool) -> DescentResult:
        ordered = sorted(self._nodes, key=self._ranks.__getitem__)
        return DescentResult(tuple(map(self._nodes.__getitem__, ordered)), self._rounds, converged)

    def _update_best(self) -> None:
        """Update the best k nodes, and count the rounds in which they stay the same.

        A node's value never falls, so only new or improved nodes can change the best k.
        """
        k = self._descent.k
        best = sorted({*self._best, *self._new}, key=self._ranks.__getitem__)[:k]
        # With fewer than k nodes the search continues.
        self.unchanged = self.unchanged + 1 if len(best) == k and set(best) == set(self._best) else 0
        self._best, self._new = best, []


def _priority(descent_score: float | None) -> float:
    """Return a directory's priority in the queue: its rounded score, or -1 if the score is unknown."""
    return -1.0 if descent_score is None else round(descent_score, _DECIMALS)


def _mixed(own: Any, directory_value: Any, alpha: float) -> Any:
    return own if directory_value is None else alpha * own + (1 - alpha) * directory_value


# Scores of chunks in a hierarchical search.


class Scores:
    """Scores of the chunks in one search; :meth:`add_scores` computes those of chunks that are not candidates."""

    def __init__(self, ranked: Candidates, fusion: Any) -> None:
        self.candidates = ranked.fused_candidates
        self._ranked, self._fusion = ranked, fusion
        self._by_id = {one.id: one for one in self.candidates}
        self._own = [dict(ranking.scores) for ranking in ranked.rankings]
        # From here on, the fusion needs only the best entry of each list.
        self._rankings = [
            replace(ranking, entries=ranking.entries[:1], scores=own)
            for ranking, own in zip(ranked.rankings, self._own, strict=True)
        ]

    def score(self, id: str) -> float:
        """Return the fused score of a chunk, or 0 if it is unknown."""
        candidate = self._by_id.get(id)
        return 0.0 if candidate is None else candidate.score

    def best(self, level: Level) -> Weights:
        """Return the score of each node's best chunk, or 0 for a node without chunks."""
        scores = np.zeros(len(level.nodes))
        np.maximum.at(scores, level.owners, list(map(self.score, level.chunks)))
        return scores

    def parts(self, id: str) -> Mapping[str, float]:
        """Return each source's part of the fused score of a chunk."""
        candidate = self._by_id.get(id)
        return {} if candidate is None else candidate.parts

    def raw(self, source: str, id: str) -> float | None:
        """Return the score that a source gave to a chunk, or None if it is unknown."""
        return next((ranking.scores.get(id) for ranking in self._rankings if ranking.source == source), None)

    def found_by(self, id: str) -> tuple[str, ...]:
        """Return the names of the sources that found the chunk."""
        pairs = zip(self._ranked.results, self._ranked.source_ids, strict=True)
        return tuple(source.name for source, ids in pairs if id in ids)

    def add_scores(self, ids: Iterable[str], query: Query, trace: Trace) -> Search[None]:
        """Compute the scores of these chunks with all sources. Chunks that already have a score are skipped."""
        new = [id for id in dict.fromkeys(ids) if id not in self._by_id]
        if not new:
            return
        calls_by_place = []
        for place, (source, answer) in enumerate(self._ranked.results.items()):
            unknown = [id for id in new if id not in self._own[place]]
            if unknown and (call := source.score(query, answer, unknown)) is not None:
                calls_by_place.append((place, call))
        answers = replace_failures(trace, (yield [call for _, call in calls_by_place]), {})
        for (place, _), scores in zip(calls_by_place, answers, strict=True):
            self._own[place] |= scores
        self._by_id |= {one.id: one for one in self._fusion.others(self._rankings, new)}
        self._by_id |= {id: FusedCandidate(id, 0.0, {}) for id in new if id not in self._by_id}


def own_hit(chunk: Chunk, scores: Scores, own: float) -> Hit:
    """Return a hit with the score ``own``; a change by the reranker is listed under ``rerank`` in ``parts``."""
    # A chunk that no source listed was reached through its directory.
    parts, found_by = dict(scores.parts(chunk.id)), scores.found_by(chunk.id) or ("hierarchy",)
    change = own - math.fsum(parts.values())
    reranked = abs(change) > 1e-9
    cosine = scores.raw("vector", chunk.id)
    return Hit(
        chunk=chunk,
        score=own,
        source=found_by[0] if len(found_by) == 1 else "fused",
        parts=parts | ({"rerank": change} if reranked else {}),
        vector_score=None if cosine is None else min(1.0, max(0.0, cosine)),
        bm25_score=scores.raw("keyword", chunk.id),
        rerank_score=own if reranked else None,
        path=(chunk.id,),
        found_by=found_by,
    )


def with_directory(hit: Hit, node: ReachedNode, alpha: float) -> Hit:
    """Return a copy of the hit with its node's value as the score, or the hit if its directory has no value.

    The entry ``hierarchy`` in ``parts`` is the contribution of the directory.
    """
    if node.directory_value is None:
        return hit
    parts = {name: alpha * part for name, part in hit.parts.items()} | {"hierarchy": (1 - alpha) * node.directory_value}
    return replace(hit, score=node.value, parts=parts)


# Nodes of a tree, scored for one query.

TOP = -1
"""Number that stands for the parent of all top-level nodes."""

# In a directory with more than WIDE children, only the NEAR children most similar to the question and the children
# found by the search are scored.
WIDE, NEAR = 400, 200
# Maximum number of documents, and of directories, that are taken from the flat search as possible starts.
CANDIDATES = 20


class _RerankScores(NamedTuple):
    """Scores that the reranker gave to a node (see ``ScoredLevel``), and whether the node may be an answer."""

    answer: float
    descent: float
    may_answer: bool


class QueryTree:
    """Tree of directories and documents, with the scores of its nodes for one query.

    The score of a document is that of its best chunk, and the score of a directory is that of its summary. The descent
    score of a node that is both is the higher one. The descent score of a directory without a summary is the highest
    score among the documents that the search found directly in it, or NaN if it found none. ``are_answers`` takes a
    level and returns a mask of the nodes that may be hits. ``scored_nodes`` are the nodes for which a score was
    computed.
    """

    def __init__(self, tree: Tree, run: SearchContext) -> None:
        self.tree = tree
        self.scored_nodes: set[int] = set()
        self.are_answers: Callable[[Level], Mask] = lambda level: level.is_document | level.is_directory
        self._run = run
        self._query, self._pipeline, self._trace = run.query, run.pipeline, run.trace
        self._store: Any = self._pipeline.store
        self._fusion: Any = self._pipeline.fusion
        self._layers: CurrentSummaries | None = None
        self._are_layers_readable = True
        with self._reading_layers():
            self._layers = summaries_of(self._store)
        self._vector: Vector | None = None
        self._texts: Scores
        self._summaries: Scores | None = None
        self._best_below: dict[int, float] = {}
        self._are_current: dict[str, bool] = {}
        self._rerank_scores: dict[int, _RerankScores] = {}

    # -- starts ---------------------------------------------------------------------------------------------

    def search(self, weights: tuple[float, float]) -> Search[None]:
        """Search the chunks, then the summaries of the directories."""
        results = yield from gather(self._run)
        candidates = yield from fuse(self._run, (yield from rank(self._run, results)))
        self._vector = next((result.vector for result in results.values() if result.vector is not None), None)
        self._texts = Scores(candidates, self._fusion)
        if results:
            yield from self._search_directories(weights)

    @property
    def has_results(self) -> bool:
        """Whether the search found any document or directory."""
        return bool(self._texts.candidates) or (self._summaries is not None and bool(self._summaries.candidates))

    def _search_directories(self, weights: tuple[float, float]) -> Search[None]:
        if self._layers is None or not len(self._layers):
            if not self._are_layers_readable:
                return
            if not any(map(self.tree.is_directory, self.tree.top())):
                self._trace.degrade("no-tree" if len(self.tree) else None)
            else:
                self._trace.degrade("no-layers")
            return
        summary_store = self._layers.store
        sources = (VectorSource(summary_store, weights[0]), KeywordSource(summary_store, weights[1]))
        pipeline = Pipeline(
            store=summary_store,
            sources=tuple(source for source in sources if source.weight > 0),
            fusion=self._fusion,
            overfetch=1,
            rerank_depth=CANDIDATES,
            on_error="empty",
        )
        scope = Scope(None, self._query.scope.tenant, None)
        query = replace(self._query, k=CANDIDATES, vector=self._vector, scope=scope)
        trace = Trace()
        trace.raises = self._trace.raises
        run = SearchContext(query, pipeline, trace)
        results = yield from gather(run)
        candidates = yield from fuse(run, (yield from rank(run, results)))
        self._summaries = Scores(candidates, self._fusion)
        for source, error in trace.errors.items():
            self._trace.degrade("layers-failed")
            self._trace.errors[f"layers: {source}"] = error

    def starts(self, roots: Iterable[int], n: int, n_documents: int) -> list[int]:
        """Return the best ``n`` directories, the best ``n_documents`` documents, and the documents' directories.

        All of these nodes are in ``roots`` or below them. Documents are included because they may be relevant even if
        the summary of their directory does not mention them.
        """
        tree, root_nodes = self.tree, set(roots)

        def is_below(node: int) -> bool:
            if TOP in root_nodes:
                return True
            while node not in root_nodes and node >= 0:
                node = tree.parent(node)
            return node in root_nodes

        summaries = [] if self._summaries is None else self._summaries.candidates[:CANDIDATES]
        directories = [tree.node(one.id) for one in summaries if self._has_summary(one.id)]
        directories = [node for node in directories if node >= 0 and tree.is_directory(node) and is_below(node)]
        documents = tree.nodes([one.id for one in self._texts.candidates[:CANDIDATES]])
        documents = [node for node in dict.fromkeys(documents) if node >= 0 and is_below(node)]
        self.scored_nodes.update(directories, documents)
        holding = [node if tree.is_directory(node) else tree.parent(node) for node in documents[:n_documents]]
        holding = [node for node in holding if node >= 0 and is_below(node)]
        for node in documents:
            score = max(map(self._texts.score, tree.chunks(node)))
            self._best_below[tree.parent(node)] = max(score, self._best_below.get(tree.parent(node), 0.0))
        return list(dict.fromkeys([*directories[:n], *holding, *documents[:n_documents]]))

    # -- scores of nodes ------------------------------------------------------------------------------------

    def below(self, node: int) -> Level:
        """Return the children of a directory, or only the promising ones if there are more than ``WIDE``.

        Promising children are those most similar to the question (without a vector, the first ``NEAR``) and those that
        the search found.
        """
        level = self.tree.child_level(node)
        if len(level.nodes) <= WIDE:
            return level
        children = level.nodes.tolist()
        near = set(children[:NEAR] if self._vector is None else self.tree.nearest(children, self._vector, NEAR))
        candidates = set(self.tree.nodes([one.id for one in self._texts.candidates]))
        if self._summaries is not None:
            candidates.update(self.tree.node(one.id) for one in self._summaries.candidates)
        return self.tree.level(child for child in children if child in near or child in candidates)

    def score_children(self, node: int) -> Search[ScoredLevel | None]:
        """Return the scored children of a directory, or None if it has no children."""
        level = self.below(node)
        return (yield from self.score_level(level)) if len(level.nodes) else None

    def score_level(self, level: Level) -> Search[ScoredLevel]:
        """Return the scores of a level, without nodes that a reranker drops or that are beyond ``rerank_depth``."""
        yield from self._add_scores([level])
        scores = self._search_scores(level)
        if self._pipeline.reranker is not None and self._query.text is not None:
            scores = yield from self._rerank(scores)
        return scores

    def prefetch_scores(self, nodes: Iterable[int]) -> Search[None]:
        """Score the children of several directories at once, with one call per engine for all of them."""
        yield from self._add_scores(list(map(self.below, nodes)))

    def _add_scores(self, levels: Sequence[Level]) -> Search[None]:
        for level in levels:
            self.scored_nodes.update(level.nodes.tolist())
        yield from self._texts.add_scores(
            chain.from_iterable(level.chunks for level in levels), self._query, self._trace
        )
        if self._summaries is not None:
            directories = chain.from_iterable(compress(level.uris, level.is_directory) for level in levels)
            yield from self._summaries.add_scores(filter(self._has_summary, directories), self._query, self._trace)

    def _search_scores(self, level: Level) -> ScoredLevel:
        answers, counts = self._texts.best(level), self.are_answers(level)
        ways = answers.copy()
        for place in np.flatnonzero(level.is_directory).tolist():
            uri = level.uris[place]
            summary = self._summaries.score(uri) if self._summaries is not None and self._has_summary(uri) else None
            if not level.is_document[place]:
                answers[place] = summary or 0.0
                counts[place] &= summary is not None
            # A directory without a summary gets the score of the best document that the flat search found in it.
            way = max(answers[place], summary or self._best_below.get(int(level.nodes[place]), 0.0))
            ways[place] = way if way or summary is not None else np.nan
        return ScoredLevel(level.nodes, level.uris, answers, ways, counts, level.is_directory)

    def _has_summary(self, uri: str) -> bool:
        """Return whether a directory has a current summary; report ``layers-stale`` if only others have one."""
        if self._layers is None:
            return False
        if uri not in self._are_current:
            self._are_current[uri] = self._layers.is_current(uri)
            self._trace.degrade(None if self._are_current[uri] else "layers-stale")
        return self._are_current[uri]

    def _rerank(self, level: ScoredLevel) -> Search[ScoredLevel]:
        """Return the reranked nodes of a level; the reranker is called only for nodes it has not scored before."""
        new = [place for place, node in enumerate(level.nodes.tolist()) if node not in self._rerank_scores]
        if new:
            yield from self._rerank_best(level.at(new))
        level_scores = level.at(
            [place for place, node in enumerate(level.nodes.tolist()) if node in self._rerank_scores]
        )
        scores = np.array([self._rerank_scores[node] for node in level_scores.nodes.tolist()]).reshape(-1, 3)
        may_answer = level_scores.may_answer & (scores[:, 2] > 0)
        return level_scores._replace(answer_scores=scores[:, 0], descent_scores=scores[:, 1], may_answer=may_answer)

    def _rerank_best(self, level: ScoredLevel) -> Search[None]:
        """Rerank the best ``rerank_depth`` nodes by their best chunk, their overview, or both; record the scores."""
        order = np.argsort(-level.worth, kind="stable")
        best = level.at(order[: self._pipeline.rerank_depth].tolist())
        nodes = best.nodes.tolist()
        answers = yield from self.hits(list(zip(nodes, best.answer_scores.tolist(), strict=True)))
        overviews = self._overviews([node for node in answers if self.tree.is_document(node)])
        ways = {
            node: replace(answers[node], chunk=replace(chunk, id=f"{chunk.id}/")) for node, chunk in overviews.items()
        }
        trace = Trace()
        trace.raises = self._trace.raises
        reread = yield from rerank(
            SearchContext(self._query, self._pipeline, trace), [*answers.values(), *ways.values()]
        )
        for reason in trace.reasons:  # the reranker failed, so the scores of the search are used
            self._trace.degrade(reason)
            self._trace.errors |= trace.errors
            self._rerank_scores |= _as_rerank_scores(level)
            return
        scores = {hit.id: hit.score for hit in reread}
        for node, own in _as_rerank_scores(best).items():
            answer = scores.get(answers[node].id) if node in answers else None
            way = scores.get(ways[node].id) if node in ways else None
            if node not in answers:
                self._rerank_scores[node] = own  # a directory without a summary has no text to rerank
            elif answer is not None or way is not None:
                both = max(score for score in (answer, way) if score is not None)
                self._rerank_scores[node] = _RerankScores(answer or 0.0, both, answer is not None)

    # -- hits -----------------------------------------------------------------------------------------------

    def reached_hits(self, nodes: Sequence[ReachedNode], alpha: float) -> Search[list[tuple[int, Hit]]]:
        """Return (node, hit) for each reached node, best first; nodes that no longer exist are left out."""
        hits = yield from self.hits([(each.node, each.own) for each in nodes])
        return [(each.node, with_directory(hits[each.node], each, alpha)) for each in nodes if each.node in hits]

    def hits(self, scored_nodes: Sequence[tuple[int, float]]) -> Search[dict[int, Hit]]:
        """Return, by node, a hit with its score and a document's best chunk or a directory's overview.

        Nodes that no longer exist are left out.
        """
        texts, hits = self._texts, {}
        chunks = {node: self.tree.chunks(node) for node, _ in scored_nodes}
        best = {node: max(of, key=texts.score) for node, of in chunks.items() if of}
        now = yield from look_up_originals(self._run, list(best.values()))
        originals = {id: chunk for id, chunk in now.items() if chunk is not None}
        existing = [id for id in best.values() if now.get(id, True) is not None]
        call = Effect("catalog", partial(self._store.read, existing, self._query.scope, originals), quick=True)
        chunks_by_id = yield from ask(self._trace, call)
        if chunks_by_id is None:
            return {}
        overviews = self._overviews([node for node, _ in scored_nodes if node not in best])
        for node, own in scored_nodes:
            chunk = chunks_by_id.get(best[node]) if node in best else overviews.get(node)
            scores = texts if node in best else self._summaries
            if chunk is not None and scores is not None:
                hits[node] = own_hit(chunk, scores, own)
        return hits

    def _overviews(self, nodes: Sequence[int]) -> dict[int, Chunk]:
        if self._layers is None or not nodes:
            return {}
        of = {self.tree.uri(node): node for node in nodes}
        with self._reading_layers():
            return {of[uri]: chunk for uri, chunk in self._layers.get(of).items()}
        return {}

    @contextmanager
    def _reading_layers(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self._are_layers_readable = False
            self._trace.record("layers", error, "layers-failed")


def _as_rerank_scores(level: ScoredLevel) -> dict[int, _RerankScores]:
    every = zip(level.nodes.tolist(), level.answer_scores.tolist(), level.descent_scores.tolist(), strict=True)
    return {node: _RerankScores(answer, way, may_answer=True) for node, answer, way in every}


def summaries_of(store: object) -> CurrentSummaries | None:
    """Return the summaries of a store's directories, or None if the store has no summaries."""
    return store.summaries.current() if implements(store, HasSummaries) else None
