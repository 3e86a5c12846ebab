"""Best-first search in a tree of directories."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.execution.effects import Effect, Search, Trace
from langchain_hybridgraph.records import FusedCandidate, Hit, Scope
from langchain_hybridgraph.search.context import Candidates, Pipeline, SearchContext, hits_from, look_up_originals
from langchain_hybridgraph.search.pipeline import fuse, gather, rank, rerank, score_others
from langchain_hybridgraph.search.sources import KeywordSource, VectorSource
from langchain_hybridgraph.stores.protocols import HasSummaries, implements

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import CurrentSummaries, Nodes, Weights
    from langchain_hybridgraph.stores.tree import Level, Tree


T = TypeVar("T")

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
# Value of a directory that is unknown; it is opened only when no directory with a known value is left.
_UNKNOWN = -1.0


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

    def best(self, n: int) -> ScoredLevel:
        """Return the ``n`` nodes for which the higher of both scores is highest."""
        worth = np.fmax(self.answer_scores, self.descent_scores)
        return self.at(np.argsort(-np.round(worth, _DECIMALS), kind="stable")[:n].tolist())

    def at(self, places: Sequence[int]) -> ScoredLevel:
        """Return the entries at these positions."""
        names = [self.names[place] for place in places]
        columns: Any = (column[places] for column in self[2:])
        return ScoredLevel(self.nodes[places], names, *columns)


class ReachedNode(NamedTuple):
    """Node reached by the search, with its value, its own score, and the value of its directory, if there is one."""

    node: int
    name: str
    value: float
    own: float
    directory_value: float | None


class Descent:
    """Best-first search of a tree.

    The value of a child is ``alpha`` · its own score + (1 − ``alpha``) · the value of its directory, or its own score
    if the directory has no value. Only nodes with a value above ``threshold`` are recorded. A directory is not opened
    if its value is 0, or if nothing in it could be above the threshold. Only the max(2 k, 20) best children of each
    directory are considered.

    Once it has found ``k`` nodes, the search ends early (``converged``) if opening ``max_rounds`` directories in a row
    does not change the best ``k``. ``opened`` is the number of opened directories.
    """

    def __init__(self, k: int, alpha: float = 0.5, max_rounds: int = 3, threshold: float = 0.0) -> None:
        self.opened = 0
        self.converged = False
        self._k, self._alpha, self._max_rounds, self._threshold = k, alpha, max_rounds, threshold
        self._reached_nodes: dict[int, ReachedNode] = {}
        self._values: dict[int, float] = {}  # of the directories that are or were in the queue
        self._waiting: list[tuple[float, str, int]] = []  # the best first, those without a value last
        self._opened: set[int] = set()

    @property
    def nodes(self) -> list[ReachedNode]:
        """Recorded nodes, best first, ties by name."""
        return self._ordered(self._reached_nodes)

    def run(
        self,
        roots: Sequence[tuple[int, str]],
        starts: ScoredLevel,
        score_children: Callable[[int], Search[ScoredLevel | None]],
    ) -> Search[None]:
        """Search the tree for the best nodes, beginning with the nodes in ``starts``.

        ``roots`` are pairs of a node and its name. They are opened only when no directory with a known value is left to
        open. ``score_children`` returns the scores of a directory's children, or None if it has no children. Every
        directory is opened at most once, even in a loop. A node that is reached several times keeps its best value.
        """
        new = self._add(starts, None)
        for node, name in roots:
            self._queue(node, name, _UNKNOWN)
        unchanged = 0
        best: set[int] = set()
        while self._waiting and unchanged < self._max_rounds:
            directory = heapq.heappop(self._waiting)[2]
            if directory in self._opened:
                continue
            self._opened.add(directory)
            level = yield from score_children(directory)
            if level is None:
                continue
            width = max(2 * self._k, 20)
            value = self._values[directory]
            level = level.best(width) if len(level.nodes) > width else level
            new |= self._add(level, None if value == _UNKNOWN else value)
            self.opened += 1
            # A node's value never falls, so only new or improved nodes can change the best k.
            previous, best = best, {each.node for each in self._ordered(best | new)[: self._k]}
            unchanged = unchanged + 1 if len(best) == self._k and best == previous else 0
            new = set()
        self.converged = unchanged == self._max_rounds

    def _ordered(self, nodes: Iterable[int]) -> list[ReachedNode]:
        entries = map(self._reached_nodes.__getitem__, nodes)
        return sorted(entries, key=lambda each: (-round(each.value, _DECIMALS), each.name))

    def _queue(self, node: int, name: str, value: float) -> None:
        """Queue a directory, unless it is or was queued with a value that is at least as good."""
        priority = round(value, _DECIMALS)
        if priority > round(self._values.get(node, -2.0), _DECIMALS):
            self._values[node] = value
            heapq.heappush(self._waiting, (-priority, name, node))

    def _add(self, level: ScoredLevel, directory_value: float | None) -> set[int]:
        """Record the nodes with a value above the threshold, and queue the directories that may contain such nodes.

        Return the recorded nodes whose value is new or higher than before.
        """
        alpha, threshold = self._alpha, self._threshold
        nodes, names, owns = level.nodes.tolist(), level.names, level.answer_scores.tolist()
        values = _mixed(level.answer_scores, directory_value, alpha)
        new = set()
        for place in np.flatnonzero(level.may_answer & (values > threshold)).tolist():
            node = ReachedNode(nodes[place], names[place], float(values[place]), owns[place], directory_value)
            if node.node not in self._reached_nodes or node.value > self._reached_nodes[node.node].value:
                self._reached_nodes[node.node] = node
                new.add(node.node)
        descent_scores = _mixed(level.descent_scores, directory_value, alpha)
        # A child can exceed the threshold only if a perfect child would, or if the directory's value is unknown.
        hopeful = np.isnan(descent_scores) | ((descent_scores > 0) & (_mixed(1.0, descent_scores, alpha) > threshold))
        for place in np.flatnonzero(level.has_children & hopeful).tolist():
            self._queue(nodes[place], names[place], float(np.nan_to_num(descent_scores[place], nan=_UNKNOWN)))
        return new


def _mixed(own: Any, directory_value: Any, alpha: float) -> Any:
    return own if directory_value is None else alpha * own + (1 - alpha) * directory_value


# Scores of chunks in a hierarchical search.


class Scores:
    """Scores of the chunks in one search; :meth:`add` computes those of chunks that are not candidates."""

    def __init__(self, context: SearchContext, candidates: Candidates) -> None:
        self.candidates = candidates.fused_candidates
        self._context = context
        self._candidates = candidates
        self._by_id = {one.id: one for one in self.candidates}

    def score(self, id: str) -> float:
        """Return the fused score of a chunk, or 0 if it is unknown."""
        candidate = self._by_id.get(id)
        return 0.0 if candidate is None else candidate.score

    def best(self, level: Level) -> Weights:
        """Return the score of each node's best chunk, or 0 for a node without chunks."""
        scores = np.zeros(len(level.nodes))
        np.maximum.at(scores, level.owners, list(map(self.score, level.chunks)))
        return scores

    def add(self, ids: Iterable[str]) -> Search[None]:
        """Compute the scores of these chunks with all sources. Chunks that already have a score are skipped."""
        new = [id for id in dict.fromkeys(ids) if id not in self._by_id]
        self._candidates, scores = yield from score_others(self._context, self._candidates, new)
        self._by_id |= scores

    def hit(self, chunk: Chunk, own: float) -> Hit:
        """Return a hit with the score ``own``; a change by the reranker is listed under ``rerank`` in ``parts``."""
        parts = dict(self._by_id[chunk.id].parts) if chunk.id in self._by_id else {}
        change = own - math.fsum(parts.values())
        is_reranked = abs(change) > 1e-9
        one = FusedCandidate(chunk.id, own, parts | ({"rerank": change} if is_reranked else {}))
        (hit,) = hits_from([one], {chunk.id: chunk}, self._candidates)
        if not hit.found_by:  # a chunk that no source listed was reached through its directory
            hit = replace(hit, source="hierarchy", found_by=("hierarchy",))
        return replace(hit, rerank_score=own) if is_reranked else hit


# Nodes of a tree, scored for one query.

TOP = -1
"""Number that stands for the parent of all top-level nodes."""

# In a directory with more than WIDE children, only the NEAR children most similar to the question and the children
# found by the search are scored.
WIDE, NEAR = 400, 200
# Maximum number of documents, and of directories, that are taken from the flat search as possible starts.
CANDIDATES = 20


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
        self._run, self._trace = run, run.trace
        self._are_layers_readable = True
        self._layers = self._read_layers(partial(summaries_of, run.pipeline.store))
        self._vector: Vector | None = None
        self._texts: Scores
        self._summaries: Scores | None = None
        self._best_below: dict[int, float] = {}
        self._are_current: dict[str, bool] = {}
        # Nodes that were reranked: their score, or None if the reranker dropped them.
        self._rerank_scores: dict[int, float | None] = {}

    # -- starts ---------------------------------------------------------------------------------------------

    def search(self, weights: tuple[float, float]) -> Search[None]:
        """Search the chunks, then the summaries of the directories."""
        results = yield from gather(self._run)
        candidates = yield from fuse(self._run, (yield from rank(self._run, results)))
        self._vector = next((result.vector for result in results.values() if result.vector is not None), None)
        self._texts = Scores(self._run, candidates)
        if not results or not self._are_layers_readable:
            return
        if self._layers is not None and len(self._layers):
            yield from self._search_summaries(self._layers, weights)
        elif any(map(self.tree.is_directory, self.tree.top())):
            self._trace.degrade("no-layers")
        else:
            self._trace.degrade("no-tree" if len(self.tree) else None)

    @property
    def has_results(self) -> bool:
        """Whether the search found any document or directory."""
        return bool(self._texts.candidates) or (self._summaries is not None and bool(self._summaries.candidates))

    def _search_summaries(self, layers: CurrentSummaries, weights: tuple[float, float]) -> Search[None]:
        sources = (VectorSource(layers.store, weights[0]), KeywordSource(layers.store, weights[1]))
        pipeline = Pipeline(
            store=layers.store,
            sources=tuple(source for source in sources if source.weight > 0),
            fusion=self._run.pipeline.fusion,
            overfetch=1,
            rerank_depth=CANDIDATES,
            on_error="empty",
        )
        scope = Scope(None, self._run.query.scope.tenant, None)
        query = replace(self._run.query, k=CANDIDATES, vector=self._vector, scope=scope)
        trace = Trace(raises=self._trace.raises)
        run = SearchContext(query, pipeline, trace)
        candidates = yield from fuse(run, (yield from rank(run, (yield from gather(run)))))
        self._summaries = Scores(SearchContext(query, pipeline, self._trace), candidates)
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
                return node >= 0
            while node not in root_nodes and node >= 0:
                node = tree.parent(node)
            return node in root_nodes

        summaries = [] if self._summaries is None else self._summaries.candidates[:CANDIDATES]
        directories = [tree.node(one.id) for one in summaries if self._has_summary(one.id)]
        directories = [node for node in directories if is_below(node) and tree.is_directory(node)]
        documents = tree.nodes([one.id for one in self._texts.candidates[:CANDIDATES]])
        documents = list(filter(is_below, dict.fromkeys(documents)))
        self.scored_nodes.update(directories, documents)
        holding = [node if tree.is_directory(node) else tree.parent(node) for node in documents[:n_documents]]
        for node in documents:
            score = max(map(self._texts.score, tree.chunks(node)))
            self._best_below[tree.parent(node)] = max(score, self._best_below.get(tree.parent(node), 0.0))
        return list(dict.fromkeys([*directories[:n], *filter(is_below, holding), *documents[:n_documents]]))

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
        near.update(self.tree.nodes([one.id for one in self._texts.candidates]))
        if self._summaries is not None:
            near.update(self.tree.node(one.id) for one in self._summaries.candidates)
        return self.tree.level(child for child in children if child in near)

    def score_children(self, node: int) -> Search[ScoredLevel | None]:
        """Return the scored children of a directory, or None if it has no children."""
        level = self.below(node)
        return (yield from self.score_level(level)) if len(level.nodes) else None

    def score_level(self, level: Level) -> Search[ScoredLevel]:
        """Return the scores of a level, without nodes that a reranker drops or that are beyond ``rerank_depth``."""
        yield from self.add_scores([level])
        scores = self._search_scores(level)
        if self._run.pipeline.reranker is None or self._run.query.text is None:
            return scores
        return (yield from self._rerank(scores))

    def add_scores(self, levels: Sequence[Level]) -> Search[None]:
        """Compute the scores of several levels at once, with one call per engine for all of them."""
        for level in levels:
            self.scored_nodes.update(level.nodes.tolist())
        yield from self._texts.add(chain.from_iterable(level.chunks for level in levels))
        if self._summaries is not None:
            directories = chain.from_iterable(compress(level.uris, level.is_directory) for level in levels)
            yield from self._summaries.add(filter(self._has_summary, directories))

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
        """Return a level with the reranker's scores, without the nodes that it dropped or did not read.

        It reads the best chunk of a document or the overview of a directory, of up to ``rerank_depth`` nodes, each only
        once. A directory without a summary, which has no text, keeps its scores, and so does the level if the reranker
        fails.
        """
        new = [place for place, node in enumerate(level.nodes.tolist()) if node not in self._rerank_scores]
        best = level.at(new).best(self._run.pipeline.rerank_depth)
        hits: dict[int, Hit] = {}
        if new:
            hits = yield from self.hits(list(zip(best.nodes.tolist(), best.answer_scores.tolist(), strict=True)))
        if hits:
            trace = Trace(raises=self._trace.raises)
            run = SearchContext(self._run.query, self._run.pipeline, trace)
            scores = {hit.id: hit.score for hit in (yield from rerank(run, list(hits.values())))}
            for reason in trace.reasons:  # the reranker failed, so the scores of the search are used
                self._trace.degrade(reason)
                self._trace.errors |= trace.errors
                return level
            self._rerank_scores |= {node: scores.get(hit.id) for node, hit in hits.items()}
        unread = set(best.nodes.tolist()) - hits.keys()
        places = [
            place
            for place, node in enumerate(level.nodes.tolist())
            if node in unread or self._rerank_scores.get(node) is not None
        ]
        level = level.at(places)
        own = np.array([self._rerank_scores.get(node, np.nan) for node in level.nodes.tolist()], np.float64)
        answers, ways = np.where(np.isnan(own), (level.answer_scores, level.descent_scores), own)
        return level._replace(answer_scores=answers, descent_scores=ways)

    # -- hits -----------------------------------------------------------------------------------------------

    def reached_hits(self, nodes: Sequence[ReachedNode], alpha: float) -> Search[list[tuple[int, Hit]]]:
        """Return (node, hit) for each reached node, best first; nodes that no longer exist are left out.

        The part ``hierarchy`` of a hit's score is the contribution of its directory.
        """
        hits = yield from self.hits([(each.node, each.own) for each in nodes])
        for each in nodes:
            if each.node in hits and each.directory_value is not None:
                hit = hits[each.node].scaled(alpha)
                parts = {**hit.parts, "hierarchy": (1 - alpha) * each.directory_value}
                hits[each.node] = replace(hit, score=each.value, parts=parts)
        return [(each.node, hits[each.node]) for each in nodes if each.node in hits]

    def hits(self, scored_nodes: Sequence[tuple[int, float]]) -> Search[dict[int, Hit]]:
        """Return, by node, a hit with its score and a document's best chunk or a directory's overview.

        Nodes that no longer exist are left out.
        """
        texts, store = self._texts, self._run.pipeline.store
        chunks = {node: self.tree.chunks(node) for node, _ in scored_nodes}
        best = {node: max(of, key=texts.score) for node, of in chunks.items() if of}
        now = yield from look_up_originals(self._run, list(best.values()))
        originals = {id: chunk for id, chunk in now.items() if chunk is not None}
        existing = [id for id in best.values() if now.get(id, True) is not None]
        call = Effect("catalog", partial(store.read, existing, self._run.query.scope, originals), quick=True)
        chunks_by_id = yield from self._run.ask(call)
        if chunks_by_id is None:
            return {}
        uris = [self.tree.uri(node) for node, _ in scored_nodes if node not in best]
        overviews = self._read_layers(partial(self._layers.get, uris)) if self._layers is not None and uris else None
        hits = {}
        for node, own in scored_nodes:
            chunk = chunks_by_id.get(best[node]) if node in best else (overviews or {}).get(self.tree.uri(node))
            scores = texts if node in best else self._summaries
            if chunk is not None and scores is not None:
                hits[node] = scores.hit(chunk, own)
        return hits

    def _read_layers(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except StoreError as error:
            self._are_layers_readable = False
            self._trace.record("layers", error, "layers-failed")
            return None


def summaries_of(store: object) -> CurrentSummaries | None:
    """Return the summaries of a store's directories, or None if the store has no summaries."""
    return store.summaries.current() if implements(store, HasSummaries) else None
