"""Nodes of a tree, scored for one query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.execution.effects import Effect, Search, ask
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.query.hierarchy.best_first import ReachedNode, ScoredLevel
from langchain_hybridgraph.query.hierarchy.scores import Scores, own_hit, with_directory
from langchain_hybridgraph.query.pipeline import Pipeline, SearchContext, fuse, gather, look_up_originals, rank, rerank
from langchain_hybridgraph.query.sources import KeywordSource, VectorSource
from langchain_hybridgraph.records import Chunk, Hit, Scope
from langchain_hybridgraph.stores.protocols import HasSummaries, implements

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Mask, Vector
    from langchain_hybridgraph.stores.protocols import CurrentSummaries, Level, Tree


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

    The score of a document is the score of its best chunk, and the score of a directory is the score of its summary.
    The descent score of a document that is also a directory is the higher of these two scores. The descent score of a
    directory without a summary is the highest score among the documents that the search found directly in it, or NaN if
    it found none.

    ``are_answers`` is a function that takes a level and returns a mask of the nodes that may be hits. ``scored_nodes``
    are the nodes for which a score was computed.
    """

    def __init__(self, tree: Tree, run: SearchContext) -> None:
        self.tree = tree
        self.scored_nodes: set[int] = set()
        self.are_answers: Callable[[Level], Mask] = lambda level: level.is_document | level.is_directory
        self._run = run
        self._query, self._pipeline, self._trace = run
        self._store: Any = self._pipeline.store
        self._fusion: Any = self._pipeline.fusion
        self._layers: CurrentSummaries | None = summaries_of(self._store)
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
        candidates = fuse(self._run, (yield from rank(self._run, results, CANDIDATES)))
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
        candidates = fuse(run, (yield from rank(run, results, CANDIDATES)))
        self._summaries = Scores(candidates, self._fusion)
        for source, error in trace.errors.items():
            self._trace.degrade("layers-failed")
            self._trace.errors[f"layers: {source}"] = error

    def starts(self, roots: Iterable[int], n: int, n_documents: int) -> list[int]:
        """Return the nodes at which to start: the best directories, the best documents, and the documents' directories.

        Up to ``n`` directories are chosen by the scores of their summaries, and up to ``n_documents`` documents by
        their own scores. All of these nodes are in ``roots`` or below them. Documents are included because they may be
        relevant even if the summary of their directory does not mention them.
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

        Promising children are those most similar to the question and those that the search found. Without a question
        vector, the first ``NEAR`` children take the place of the most similar ones.
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
        """Return the scores of the nodes of a level.

        With a reranker, nodes beyond ``rerank_depth`` and nodes that the reranker drops are left out.
        """
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
            summary = self._summary(level.uris[place])
            if not level.is_document[place]:
                answers[place] = summary or 0.0
                counts[place] &= summary is not None
            # A directory without a summary gets the score of the best document that the flat search found in it.
            way = max(answers[place], summary or self._best_below.get(int(level.nodes[place]), 0.0))
            ways[place] = way if way or summary is not None else np.nan
        return ScoredLevel(level.nodes, level.uris, answers, ways, counts, level.is_directory)

    def _summary(self, uri: str) -> float | None:
        """Return the score of a directory's summary, or None if it has no current summary."""
        return self._summaries.score(uri) if self._summaries is not None and self._has_summary(uri) else None

    def _has_summary(self, uri: str) -> bool:
        """Return whether a directory has a current summary.

        If the store has summaries but no current one for this directory, ``layers-stale`` is reported.
        """
        if self._layers is None:
            return False
        if uri not in self._are_current:
            self._are_current[uri] = self._layers.is_current(uri)
            self._trace.degrade(None if self._are_current[uri] else "layers-stale")
        return self._are_current[uri]

    def _rerank(self, level: ScoredLevel) -> Search[ScoredLevel]:
        """Return the reranked nodes of a level with the reranker's scores.

        The reranker is called only for nodes that it has not scored before.
        """
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
        """Rerank the best ``rerank_depth`` nodes of a level, and record their scores.

        The reranker reads the best chunk of a document and the overview of a directory. If a document is also a
        directory, it reads both.
        """
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
        reread = yield from rerank(self._run._replace(trace=trace), [*answers.values(), *ways.values()])
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
        """Return a dict from each node to a hit with the node's score.

        A hit contains the best chunk of a document or the overview of a directory. Nodes that no longer exist are left
        out.
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
        return {of[uri]: chunk for uri, chunk in self._layers.get(of).items()}


def _as_rerank_scores(level: ScoredLevel) -> dict[int, _RerankScores]:
    every = zip(level.nodes.tolist(), level.answer_scores.tolist(), level.descent_scores.tolist(), strict=True)
    return {node: _RerankScores(answer, way, may_answer=True) for node, answer, way in every}


def summaries_of(store: object) -> CurrentSummaries | None:
    """Return the summaries of a store's directories, or None if the store has no summaries."""
    return store.summaries.current() if implements(store, HasSummaries) else None
