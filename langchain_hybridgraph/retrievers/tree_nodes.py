"""The nodes of a tree as one query sees them: what each is worth, and how it becomes a hit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_hybridgraph.query.calls import Call, Failure
from langchain_hybridgraph.query.pipeline import Pipeline, fuse, gather, rerank, score_all
from langchain_hybridgraph.query.sources import KeywordSource, VectorSource
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.query.tree_search import Judged, Reached
from langchain_hybridgraph.records import Chunk, Hit, Query, Scope
from langchain_hybridgraph.retrievers.tree_scores import Scores, own_hit, propagated

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.base import Tree
    from langchain_hybridgraph.stores.layered import Summaries

T = TypeVar("T")
Stage = Generator[Sequence[Call], Sequence[Any], T]

TOP = -1
"""The node that is above all that stands in no directory."""

# Of a directory with more children than this, those near to the question are scored.
WIDE, NEAR = 400, 200
# So many of the best documents that the flat search finds, and of the best directories, may be places to start.
CANDIDATES = 20


class Nodes:
    """The nodes of a tree as one query sees them.

    A document is worth what the search says of its best chunk; a directory what it says of its summary. As the way
    to others a document that is a directory, too, is worth the better of both. ``is_answer`` says whether a node may be
    a hit; ``scored`` are the nodes of which a score was computed.
    """

    def __init__(self, tree: Tree, query: Query, pipeline: Pipeline, trace: Trace) -> None:
        self.tree = tree
        self.scored: set[int] = set()
        self.is_answer: Callable[[int], bool] = lambda node: True
        self._store: Any = pipeline.store
        self._fusion: Any = pipeline.fusion
        self._query, self._pipeline, self._trace = query, pipeline, trace
        self._layers: Summaries | None = summaries_of(self._store)
        self._vector: Vector | None = None
        self._texts: Scores
        self._summaries: Scores | None = None
        self._led: dict[int, float] = {}
        self._chunks: dict[int, list[str]] = {}
        self._known: dict[int, Judged] = {}

    # -- where to start -------------------------------------------------------------------------------------

    def search(self, weights: tuple[float, float]) -> Stage[None]:
        """Search the texts, then the summaries of the directories."""
        found = yield from gather(self._query, self._pipeline, self._trace)
        ranked = yield from score_all(found, CANDIDATES, self._query, self._pipeline, self._trace)
        self._vector = next((answer.vector for answer in found.values() if answer.vector is not None), None)
        self._texts = Scores(ranked, fuse(ranked.rankings, self._fusion, self._query.k, self._trace), self._fusion)
        if found:
            yield from self._search_directories(weights)

    @property
    def has_found(self) -> bool:
        """Whether the search has found anything to begin with."""
        return bool(self._texts.found) or (self._summaries is not None and bool(self._summaries.found))

    def _search_directories(self, weights: tuple[float, float]) -> Stage[None]:
        if self._layers is None or not len(self._layers):
            if not any(map(self.tree.is_directory, self.tree.top())):
                self._trace.degrade("no-tree" if len(self.tree) else None)
            else:
                self._trace.degrade("no-layers")
            return
        kept = self._layers.kept
        sources = (VectorSource(kept, weights[0]), KeywordSource(kept, weights[1]))
        asked = Pipeline(
            store=kept,
            sources=tuple(source for source in sources if source.weight > 0),
            fusion=self._fusion,
            on_error="empty",
        )
        scope = Scope(None, self._query.scope.tenant, None)
        query = replace(self._query, k=CANDIDATES, vector=self._vector, scope=scope)
        trace = Trace()
        found = yield from gather(query, asked, trace)
        ranked = yield from score_all(found, CANDIDATES, query, asked, trace)
        self._summaries = Scores(ranked, fuse(ranked.rankings, self._fusion, query.k, trace), self._fusion)
        for source, error in trace.errors.items():
            self._trace.degrade("layers-failed")
            self._trace.errors[f"layers: {source}"] = error

    def starts(self, roots: Iterable[int], n: int, n_documents: int) -> list[int]:
        """The n best directories by their summaries, some of the best documents, and where these stand.

        All are below ``roots``. A document that is a start keeps the score that it has by itself, so that a directory
        that says little of it cannot hide it.
        """
        tree, allowed = self.tree, set(roots)

        def is_below(node: int) -> bool:
            while node not in allowed and node >= 0:
                node = tree.above(node)
            return node in allowed

        summaries = [] if self._summaries is None else self._summaries.found[:CANDIDATES]
        directories = [tree.node(one.id) for one in summaries if self._has_summary(one.id)]
        directories = [node for node in directories if node >= 0 and tree.is_directory(node) and is_below(node)]
        documents = tree.nodes([one.id for one in self._texts.found[:CANDIDATES]])
        documents = [node for node in dict.fromkeys(documents) if node >= 0 and is_below(node)]
        self.scored.update(directories, documents)
        holding = [node if tree.is_directory(node) else tree.above(node) for node in documents[:n_documents]]
        holding = [node for node in holding if node >= 0 and is_below(node)]
        for node in documents:
            score = max(map(self._texts.score, tree.chunks(node)))
            self._led[tree.above(node)] = max(score, self._led.get(tree.above(node), 0.0))
        return list(dict.fromkeys([*directories[:n], *holding, *documents[:n_documents]]))

    # -- what nodes are worth -------------------------------------------------------------------------------

    def children(self, node: int) -> list[int]:
        """What stands in a directory; of very many, what is near to the question and what the search has found."""
        children = self.tree.top() if node == TOP else self.tree.children(node)
        if len(children) <= WIDE:
            return children
        near = set(children[:NEAR] if self._vector is None else self.tree.nearest(children, self._vector, NEAR))
        found = set(self.tree.nodes([one.id for one in self._texts.found]))
        if self._summaries is not None:
            found.update(self.tree.node(one.id) for one in self._summaries.found)
        return [child for child in children if child in near or child in found]

    def judge(self, nodes: Sequence[int]) -> Stage[list[Judged]]:
        """What each of these nodes is worth; a reranker that filters leaves some out."""
        new = [node for node in nodes if node not in self._known]
        if new:
            yield from self._learn(new)
            judged = list(map(self._judged, new))
            if self._pipeline.reranker is not None and self._query.text is not None:
                judged = yield from self._reread(judged)
            self._known |= {each.node: each for each in judged}
        return [self._known[node] for node in nodes if node in self._known]

    def look_ahead(self, nodes: Iterable[int]) -> Stage[None]:
        """Score the children of these directories at once: one question to each engine costs less than several."""
        children = list(dict.fromkeys(child for node in nodes for child in self.children(node)))
        yield from self._learn([child for child in children if child not in self._known])

    def _learn(self, nodes: Sequence[int]) -> Stage[None]:
        new = [node for node in nodes if node not in self._chunks]
        self._chunks |= {node: self.tree.chunks(node) for node in new}
        self.scored.update(new)
        yield from self._texts.learn(chain.from_iterable(self._chunks[node] for node in new), self._query, self._trace)
        if self._summaries is not None:
            directories = (self.tree.uri(node) for node in new if self.tree.is_directory(node))
            yield from self._summaries.learn(filter(self._has_summary, directories), self._query, self._trace)

    def _judged(self, node: int) -> Judged:
        uri, chunks = self.tree.uri(node), self._chunks[node]
        summary = None
        if self._summaries is not None and self.tree.is_directory(node) and self._has_summary(uri):
            summary = self._summaries.score(uri)
        answer = self._texts.best(chunks) if chunks else summary
        # A directory that was not summarised is as good as the best that the flat search has found in it.
        ways = [way for way in (answer, summary or self._led.get(node)) if way]
        counts = answer is not None and self.is_answer(node)
        return Judged(node, uri, answer or 0.0, max(ways) if ways else 0.0 if summary is not None else None, counts)

    def _has_summary(self, uri: str) -> bool:
        """Whether a directory's summary is true; one that is not, or is not there, makes the answer say so."""
        is_true = self._layers is not None and self._layers.is_true(uri)
        self._trace.degrade(None if is_true or self._layers is None else "layers-stale")
        return is_true

    def _reread(self, judged: list[Judged]) -> Stage[list[Judged]]:
        """The best of them as the reranker has them: documents by their best chunk, directories by their overview."""
        best = sorted(judged, key=lambda each: (-max(each.answer, each.way or 0.0), each.name))[
            : self._pipeline.rerank_depth
        ]
        answers = yield from self.hits([(each.node, each.answer) for each in best])
        overviews = self._overviews([each.node for each in best if each.node in answers and self._chunks[each.node]])
        ways = {
            node: replace(answers[node], chunk=replace(chunk, id=f"{chunk.id}/")) for node, chunk in overviews.items()
        }
        trace = Trace()
        reread = yield from rerank([*answers.values(), *ways.values()], self._query, self._pipeline, trace)
        for reason in trace.reasons:  # it has failed: what the search says stands
            self._trace.degrade(reason)
            self._trace.errors |= trace.errors
            return judged
        scores = {hit.id: hit.score for hit in reread}
        found = []
        for each in best:
            answer = scores.get(answers[each.node].id) if each.node in answers else None
            way = scores.get(ways[each.node].id) if each.node in ways else None
            if each.node not in answers:
                found.append(each)  # there is nothing to read of it: a directory without a summary
            elif answer is not None or way is not None:
                both = [score for score in (answer, way) if score is not None]
                counts = each.counts and answer is not None
                found.append(each._replace(answer=answer or 0.0, way=max(both), counts=counts))
        return found

    # -- what becomes of them -------------------------------------------------------------------------------

    def propagated(self, reached: Sequence[Reached], alpha: float) -> Stage[list[tuple[int, Hit]]]:
        """What was reached as hits, best first; what is not there any more is left out."""
        hits = yield from self.hits([(each.node, each.own) for each in reached])
        return [(each.node, propagated(hits[each.node], each, alpha)) for each in reached if each.node in hits]

    def hits(self, wanted: Sequence[tuple[int, float]]) -> Stage[dict[int, Hit]]:
        """Each node's best chunk (a directory's overview) as a hit with this score; missing ones are left out."""
        texts, found = self._texts, {}
        best = {node: max(self._chunks[node], key=texts.score) for node, _ in wanted if self._chunks[node]}
        (read,) = yield [
            Call("catalogue", partial(self._store.read, list(best.values()), self._query.scope, {}), quick=True)
        ]
        if isinstance(read, Failure):
            self._trace.degrade(read.reason)
            self._trace.note("catalogue", read.error)
            return {}
        overviews = self._overviews([node for node, _ in wanted if node not in best])
        for node, own in wanted:
            chunk = read.get(best[node]) if node in best else overviews.get(node)
            scores = texts if node in best else self._summaries
            if chunk is not None and scores is not None:
                found[node] = own_hit(chunk, scores, own)
        return found

    def _overviews(self, nodes: Sequence[int]) -> dict[int, Chunk]:
        if self._layers is None or not nodes:
            return {}
        of = {self.tree.uri(node): node for node in nodes}
        return {of[uri]: chunk for uri, chunk in self._layers.get(of).items()}


def summaries_of(store: Any) -> Summaries | None:
    """The summaries of a store's directories that may be shown, None where it has none."""
    summaries = getattr(store, "summaries", None)
    found: Summaries | None = summaries() if callable(summaries) else None
    return found
