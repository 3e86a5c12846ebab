"""The nodes of a tree as one query sees them: what each is worth, and how it becomes a hit."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.calls import Call, Failure
from langchain_hybridgraph.query.pipeline import Pipeline, Ranked, fuse, gather, rerank, score_all
from langchain_hybridgraph.query.sources import KeywordSource, VectorSource
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.query.tree_search import Judged, Reached
from langchain_hybridgraph.records import Chunk, Fused, Hit, Query, Scope

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.base import Tree

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
        self._layers = layers_of(self._store)
        self._vector: Vector | None = None
        self._texts: _Scores
        self._summaries: _Scores | None = None
        self._summarised: Tree | None = None
        self._led: dict[int, float] = {}
        self._chunks: dict[int, list[str]] = {}
        self._known: dict[int, Judged] = {}

    # -- where to start -------------------------------------------------------------------------------------

    def search(self, weights: tuple[float, float]) -> Stage[None]:
        """Search the texts, then the summaries of the directories."""
        found = yield from gather(self._query, self._pipeline, self._trace)
        ranked = yield from score_all(found, CANDIDATES, self._query, self._pipeline, self._trace)
        self._vector = next((answer.vector for answer in found.values() if answer.vector is not None), None)
        self._texts = _Scores(ranked, fuse(ranked.rankings, self._fusion, self._query.k, self._trace), self._fusion)
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
        sources = (VectorSource(self._layers, weights[0]), KeywordSource(self._layers, weights[1]))
        asked = Pipeline(
            store=self._layers,
            sources=tuple(source for source in sources if source.weight > 0),
            fusion=self._fusion,
            on_error="empty",
        )
        scope = Scope(None, self._query.scope.tenant, None)
        self._summarised = self._layers.tree(scope)
        query = replace(self._query, k=CANDIDATES, vector=self._vector, scope=scope)
        trace = Trace()
        found = yield from gather(query, asked, trace)
        ranked = yield from score_all(found, CANDIDATES, query, asked, trace)
        self._summaries = _Scores(ranked, fuse(ranked.rankings, self._fusion, query.k, trace), self._fusion)
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

        summaries = [] if self._summaries is None else self._summaries.found
        directories = [tree.node(one.id) for one in summaries[:CANDIDATES]]
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
            directories = [self.tree.uri(node) for node in new if self.tree.is_directory(node)]
            yield from self._summaries.learn(directories, self._query, self._trace)

    def _judged(self, node: int) -> Judged:
        uri, chunks = self.tree.uri(node), self._chunks[node]
        summary = self._summaries.score(uri) if self._summaries is not None and self._has_summary(uri) else None
        answer = max(map(self._texts.score, chunks)) if chunks else summary
        # A directory that was not summarised is as good as the best that the flat search has found in it.
        ways = [way for way in (answer, summary or self._led.get(node)) if way]
        counts = answer is not None and self.is_answer(node)
        return Judged(node, uri, answer or 0.0, max(ways) if ways else 0.0 if summary is not None else None, counts)

    def _has_summary(self, uri: str) -> bool:
        node = -1 if self._summarised is None else self._summarised.node(uri)
        return node >= 0 and self._summarised is not None and self._summarised.is_document(node)

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
        return [(each.node, _propagated(hits[each.node], each, alpha)) for each in reached if each.node in hits]

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
                found[node] = _own_hit(chunk, scores, own)
        return found

    def _overviews(self, nodes: Sequence[int]) -> dict[int, Chunk]:
        if self._layers is None or not nodes:
            return {}
        of = {self.tree.uri(node): node for node in nodes}
        return {of[chunk.id]: chunk for chunk in self._layers.get(list(of))}


class _Scores:
    """What a search would say of any chunk of a store: what it found, and by request of others."""

    def __init__(self, ranked: Ranked, found: Sequence[Fused], fusion: Any) -> None:
        self.found = found
        self._ranked, self._fusion = ranked, fusion
        self._known = {one.id: one for one in found}

    def score(self, id: str) -> float:
        """The fused score of a chunk, 0 where none is known."""
        known = self._known.get(id)
        return 0.0 if known is None else known.score

    def parts(self, id: str) -> Mapping[str, float]:
        """Each source's part of it."""
        known = self._known.get(id)
        return {} if known is None else known.parts

    def raw(self, source: str, id: str) -> float | None:
        """The source's own score."""
        return next((ranking.scores.get(id) for ranking in self._ranked.rankings if ranking.source == source), None)

    def finders(self, id: str) -> tuple[str, ...]:
        """The sources that found the chunk."""
        return tuple(source.name for source, own in zip(self._ranked.found, self._ranked.own, strict=True) if id in own)

    def learn(self, ids: Iterable[str], query: Query, trace: Trace) -> Stage[None]:
        """Ask every source about the chunks that are not known yet."""
        new = [id for id in dict.fromkeys(ids) if id not in self._known]
        sources = list(self._ranked.found.items())
        asked = [
            (place, call)
            for place, (source, answer) in enumerate(sources)
            if (call := source.score(query, answer, new))
        ]
        if not new:
            return
        answers = yield [call for _, call in asked]
        rankings = self._ranked.rankings
        for (place, _), scores in zip(asked, answers, strict=True):
            if isinstance(scores, Failure):
                trace.degrade(scores.reason)
                trace.note(scores.source, scores.error)
            else:
                rankings[place] = replace(rankings[place], scores={**rankings[place].scores, **scores})
        best = [replace(ranking, entries=ranking.entries[:1]) for ranking in rankings]
        self._known |= {one.id: one for one in self._fusion.others(best, new)}
        for id in new:
            self._known.setdefault(id, Fused(id, 0.0, {}))


def _own_hit(chunk: Chunk, scores: _Scores, own: float) -> Hit:
    """A chunk with the score that its node has by itself; what a reranker made of it is a part of its own."""
    parts, finders = dict(scores.parts(chunk.id)), scores.finders(chunk.id)
    change = own - math.fsum(parts.values())
    reranked = abs(change) > 1e-9
    cosine = scores.raw("vector", chunk.id)
    return Hit(
        chunk=chunk,
        score=own,
        source=finders[0] if len(finders) == 1 else "fused",
        parts=parts | ({"rerank": change} if reranked else {}),
        vector_score=None if cosine is None else min(1.0, max(0.0, cosine)),
        bm25_score=scores.raw("keyword", chunk.id),
        rerank_score=own if reranked else None,
        path=(chunk.id,),
        found_by=finders,
    )


def _propagated(hit: Hit, reached: Reached, alpha: float) -> Hit:
    if reached.came is None:
        return hit
    parts = {name: alpha * part for name, part in hit.parts.items()} | {"hierarchy": (1 - alpha) * reached.came}
    return replace(hit, score=reached.value, parts=parts)


# -- uris ---------------------------------------------------------------------------------------------------------


def path_of(uri: str) -> str:
    """A uri without its scheme."""
    return uri.partition("://")[2].strip("/") if "://" in uri else uri.strip("/")


def rooted(tree: Tree, root: str) -> list[int]:
    """The nodes of a root directory: at that uri, or at that path below any scheme."""
    at = tree.node(root)
    schemes = dict.fromkeys(uri.partition("://")[0] for uri in map(tree.uri, tree.top()) if "://" in uri)
    below = [] if "://" in root else [tree.node(f"{scheme}://{root}") for scheme in schemes]
    return [node for node in (at, *below) if node >= 0]


def targeted(tree: Tree, targets: Sequence[str]) -> list[list[int]]:
    """The nodes of each target; for a bare scheme everything at its top.

    Raises ConfigurationError for one under which nothing lies.
    """
    found = []
    for uri in targets:
        if not isinstance(uri, str):
            raise ConfigurationError(f"target_uri has {uri!r}; wanted a uri, or a list of them")
        node = tree.node(uri)
        nodes = [node] if node >= 0 else []
        if not nodes and uri.endswith("://"):
            nodes = [top for top in tree.top() if tree.uri(top).startswith(uri)]
        if not nodes:
            raise ConfigurationError(_unknown(tree, uri))
        found.append(nodes)
    return found


def _unknown(tree: Tree, uri: str) -> str:
    tops = [tree.uri(node) for node in tree.top()]
    near = difflib.get_close_matches(uri, tops, n=1)
    listed = ", ".join(map(repr, near or tops[:5])) + (", …" if not near and len(tops) > 5 else "")
    there = f"did you mean {listed}?" if near else f"at the top stand {listed}" if tops else "the tree is empty"
    return f"nothing that the call may see lies under {uri!r}; {there}"


def layers_of(store: Any) -> Any:
    """The store of a store's summaries, None where it has none."""
    layers = getattr(store, "layers", None)
    return layers() if callable(layers) else None
