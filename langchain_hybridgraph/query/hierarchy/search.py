"""One search down a tree of directories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from langchain_hybridgraph.execution.effects import Effect, Search, ask_all, failures_in
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.query.hierarchy.best_first import BestFirstSettings, descend
from langchain_hybridgraph.query.hierarchy.contents import lead
from langchain_hybridgraph.query.hierarchy.nodes import TOP, QueryTree
from langchain_hybridgraph.query.hierarchy.planning import Session, planned
from langchain_hybridgraph.query.hierarchy.results import FoundContext, QueryResult, Relation
from langchain_hybridgraph.query.hierarchy.uri_lookup import path_of, rooted, targeted
from langchain_hybridgraph.query.pipeline import (
    Pipeline,
    SearchContext,
    budget,
    is_filter_only,
    parents,
    plan,
    read_matches,
    select,
)
from langchain_hybridgraph.query.planning import RESOURCE, QueryPlan, TypedQuery
from langchain_hybridgraph.records import CONTAINS, MENTIONS, SEQUENCE, Edge, Hit, Query, Scope, ScoredId, SourceResult
from langchain_hybridgraph.stores.protocols import HasFastLookups, implements

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, Mask
    from langchain_hybridgraph.stores.protocols import Level, Tree


T = TypeVar("T")

MOST_RELATIONS = 5


@dataclass(frozen=True, slots=True)
class HierarchicalCall:
    """One call, ready to run: the question, the settings of the walk, and the pipeline whose stages it uses.

    ``directories`` says whether bare directories may be hits, ``relate`` whether contexts are given their relations.
    With ``per_type`` k is the number of results of each type, else of all together.
    """

    query: Query
    pipeline: Pipeline
    tree: Callable[[Scope], Tree]
    weights: tuple[float, float]
    trace: Trace
    deadline: float | None
    targets: tuple[str, ...]
    session: Session | None
    planner: Any
    roots: Mapping[str, Sequence[str]]
    start_k: int
    start_documents: int
    directories: bool
    relate: bool
    per_type: bool
    descent: BestFirstSettings


class Answer(NamedTuple):
    """The contexts of the result, the queries that were run, and the results of each query."""

    contexts: tuple[FoundContext, ...]
    plan: QueryPlan
    results: tuple[QueryResult, ...]


class _Found(NamedTuple):
    """A node that one query has found."""

    uri: str
    node: int
    context_type: str
    is_leaf: bool
    hit: Hit


class _Walked(NamedTuple):
    """The nodes that one query found, best first, the uris below which it searched, and how many nodes it read."""

    found: tuple[_Found, ...]
    roots: tuple[str, ...]
    scored: int
    opened: int


def answered(asked: HierarchicalCall) -> Search[Answer]:
    """Return the answer to a call."""
    if not asked.query.k:
        return Answer((), QueryPlan(()), ())
    queries = yield from planned(asked.query.text or "", asked.session, asked.planner, asked.trace, asked.deadline)
    store = asked.pipeline.store
    # Another vector store may have to be read first.
    is_quick = implements(store, HasFastLookups) and store.has_fast_lookups
    (tree,) = yield [
        Effect("tree", partial(asked.tree, asked.query.scope), quick=is_quick, lane=lane_of("tree", store))
    ]
    for failure in failures_in([tree]):
        context = SearchContext(asked.query, asked.pipeline, asked.trace)
        context.record([failure], is_required=not failure.late)
        return Answer((), queries, ())
    walks = yield from together([_walk(typed, tree, asked) for typed in queries])
    asked.trace.method = "hierarchical"
    best = yield from _merged(queries, walks, asked)
    heads = [_head(walk.found, asked) for walk in walks]
    named = {each.uri: each for each in chain(*heads, best)}
    contexts = yield from _described(list(named.values()), tree, asked)

    def with_hits(found: Sequence[_Found]) -> tuple[FoundContext, ...]:
        return tuple(replace(contexts[each.uri], score=each.hit.score, hit=each.hit) for each in found)

    results = tuple(
        QueryResult(typed, walk.roots, with_hits(head), walk.scored, len(tree), walk.opened)
        for typed, walk, head in zip(queries, walks, heads, strict=True)
    )
    return Answer(with_hits(best), queries, results)


def together(walks: Sequence[Search[T]]) -> Search[list[T]]:
    """The results of several searches that wait at the same time."""
    if len(walks) == 1:
        return [(yield from walks[0])]
    results: dict[int, T] = {}
    sent: dict[int, Any] = dict.fromkeys(range(len(walks)))
    while sent:
        asked: dict[int, Sequence[Effect]] = {}
        for place, answer in sent.items():
            try:
                asked[place] = walks[place].send(answer)
            except StopIteration as stop:
                results[place] = stop.value
        answers = iter((yield [call for calls in asked.values() for call in calls]) if asked else ())
        sent = {place: [next(answers) for _ in calls] for place, calls in asked.items()}
    return [results[place] for place in range(len(walks))]


def _walk(typed: TypedQuery, tree: Tree, asked: HierarchicalCall) -> Search[_Walked]:
    """Return the nodes that one query finds in the tree."""
    text = typed.query if (asked.query.text or "").strip() else asked.query.text
    query = plan(replace(asked.query, text=text, weight=typed.weight))
    if typed.context_type is not None and not _is_there(tree, typed.context_type, asked):
        return _Walked((), (), 0, 0)
    run = SearchContext(query, asked.pipeline, asked.trace)
    if is_filter_only(run):
        return (yield from _listed(run, typed, tree, asked))
    nodes = QueryTree(tree, run)
    yield from nodes.search(asked.weights)
    below = tuple(tree.uri(node) for node in _roots(tree, typed.context_type, asked) if node != TOP)
    if not nodes.has_found:
        return _Walked((), below, 0, 0)
    best: dict[str, _Found] = {}
    opened = 0
    for context_type in _walked_types(typed, tree, asked):
        found, count = yield from _descended(context_type, nodes, asked)
        opened += count
        for each in found:
            if each.uri not in best or each.hit.score > best[each.uri].hit.score:
                best[each.uri] = each
    ordered = sorted(best.values(), key=lambda each: (-each.hit.score, each.uri))
    return _Walked(tuple(ordered), below, len(nodes.scored), opened)


def _listed(run: SearchContext, typed: TypedQuery, tree: Tree, asked: HierarchicalCall) -> Search[_Walked]:
    """The documents in which the filter matches anything, by uri: what is not in the scope is not in the tree."""
    roots = _roots(tree, typed.context_type, asked)
    limit = _wanted(asked)
    named: dict[str, tuple[int, str]] = {}
    counts: Counter[str] = Counter()
    for node in _documents(tree, roots):
        context_type = _type(tree, node, asked.roots)
        if typed.context_type not in (None, context_type):
            continue
        counts[context_type if asked.per_type else ""] += 1
        if limit is None or counts[context_type if asked.per_type else ""] <= limit:
            named[tree.chunks(node)[0]] = node, context_type
    asked.trace.degrade("filter-only")
    hits = yield from read_matches(run, SourceResult([ScoredId(id, 1.0) for id in named]), len(named))
    found = [
        _Found(tree.uri(node), node, context_type, not tree.is_directory(node), hit)
        for hit in hits
        for node, context_type in [named[hit.id]]
    ]
    below = tuple(tree.uri(node) for node in roots if node != TOP)
    return _Walked(tuple(found), below, len(named), 0)


def _documents(tree: Tree, roots: Sequence[int]) -> Iterator[int]:
    """The documents at these nodes and below, each once, in a directory by uri."""
    left = [node for root in reversed(roots) for node in ([root] if root != TOP else reversed(tree.top()))]
    seen: set[int] = set()
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            if tree.is_document(node):
                yield node
            left += reversed(tree.children(node))


def _walked_types(typed: TypedQuery, tree: Tree, asked: HierarchicalCall) -> list[str | None]:
    """Return the types that have a walk of their own; None means all types together.

    A query for every type finds its best nodes in one walk. If k nodes of each type are requested, each type has a walk
    as well, unless there is only one.
    """
    if not asked.per_type or typed.context_type is not None:
        return [typed.context_type]
    types = [name for name in sorted({RESOURCE, *asked.roots, *tree.types()}) if _is_there(tree, name, asked)]
    return [None, *types] if len(types) > 1 else [None]


def _descended(context_type: str | None, nodes: QueryTree, asked: HierarchicalCall) -> Search[tuple[list[_Found], int]]:
    """The hits of one walk for a type, best first, and the number of directories that it opened."""
    tree, trace = nodes.tree, asked.trace
    nodes.are_answers = partial(_may_be_found, tree, context_type, asked)
    roots = _roots(tree, context_type, asked)
    with trace.stage("walk"):
        starts = nodes.starts(roots, asked.start_k, asked.start_documents)
        yield from nodes.look_ahead(starts)
        judged = yield from nodes.judge(tree.level(starts))
        named = [(node, "" if node == TOP else tree.uri(node)) for node in roots]
        walk = yield from descend(named, judged, nodes.look, asked.descent)
    trace.degrade("converged-early" if walk.converged else None)
    hits = yield from nodes.propagated(walk.reached[: _wanted(asked)], asked.descent.alpha)
    found = [
        _Found(tree.uri(node), node, _type(tree, node, asked.roots), not tree.is_directory(node), hit)
        for node, hit in hits
    ]
    return found, walk.opened


def _head(found: Sequence[_Found], asked: HierarchicalCall) -> list[_Found]:
    """Return the best k nodes of one query, or k of each type if requested."""
    if not asked.per_type:
        return list(found[: asked.query.k])
    left = dict.fromkeys((each.context_type for each in found), asked.query.k)
    head = []
    for each in found:
        left[each.context_type] -= 1
        if left[each.context_type] >= 0:
            head.append(each)
    return head


def _may_be_found(tree: Tree, context_type: str | None, asked: HierarchicalCall, level: Level) -> Mask:
    """Return the mask of nodes of the type that are documents, or directories that the call may see completely."""
    may = level.is_document | level.is_fully_visible if asked.directories else level.is_document.copy()
    if context_type is not None:
        may &= [_type(tree, node, asked.roots) == context_type for node in level.nodes.tolist()]
    return may


def _roots(tree: Tree, context_type: str | None, asked: HierarchicalCall) -> list[int]:
    """Return the roots of the walk: the targets, else the type's directories, else the top."""
    if asked.targets:
        return list(dict.fromkeys(chain.from_iterable(targeted(tree, asked.targets))))
    named = asked.roots.get(context_type, ()) if context_type is not None else ()
    found = [node for root in named for node in rooted(tree, root)]
    return found or [TOP]


def _type(tree: Tree, node: int, types: Mapping[str, Sequence[str]]) -> str:
    """Return the type of a node: by its metadata, else by the directory of a type that contains it, else a resource."""
    said = tree.context_type(node)
    if said is not None:
        return said
    path = path_of(tree.uri(node))
    for name, roots in types.items():
        if any(path == root or path.startswith(f"{root}/") for root in map(path_of, roots)):
            return name
    return RESOURCE


def _is_there(tree: Tree, context_type: str, asked: HierarchicalCall) -> bool:
    """Whether anything may be of this type: what is neither said nor kept to be anything is a resource."""
    kept = any(rooted(tree, root) for root in asked.roots.get(context_type, ()))
    return context_type == RESOURCE or kept or context_type in tree.types()


def _wanted(asked: HierarchicalCall) -> int | None:
    """Return the number of reached nodes that have to be read; None means all."""
    selection = asked.pipeline.selection
    return None if selection.mmr_lambda is not None or selection.per_document is not None else asked.query.k


def _merged(queries: Sequence[TypedQuery], walks: Sequence[_Walked], asked: HierarchicalCall) -> Search[list[_Found]]:
    """The best of all queries, each once, weighted by priority, through the last stages of the pipeline."""
    best: dict[str, _Found] = {}
    for typed, walk in zip(queries, walks, strict=True):
        for each in walk.found:
            weighed = each._replace(hit=_weighed(each.hit, typed.weight))
            if each.uri not in best or weighed.hit.score > best[each.uri].hit.score:
                best[each.uri] = weighed
    ordered = sorted(best.values(), key=lambda each: (-each.hit.score, each.uri))
    by_id = {each.hit.id: each for each in ordered}
    hits = [each.hit for each in ordered]
    run = SearchContext(asked.query, asked.pipeline, asked.trace)
    hits = yield from parents(run, hits)
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        name = by_id[(hit.child or hit.chunk).id].context_type if asked.per_type else ""
        groups.setdefault(name, []).append(hit)
    chosen = []
    for group in groups.values():
        chosen += yield from select(run, group)
    if len(groups) > 1:
        chosen.sort(key=lambda hit: (-hit.score, hit.id))
    return [by_id[(hit.child or hit.chunk).id]._replace(hit=hit) for hit in budget(run, chosen)]


def _described(found: Sequence[_Found], tree: Tree, asked: HierarchicalCall) -> Search[dict[str, FoundContext]]:
    """Return the contexts by uri, with abstracts, and with relations if they are requested."""
    store, scope = cast(Any, asked.pipeline.store), asked.query.scope
    ids = {each.uri: tree.chunks(each.node) for each in found}
    known = {chunk.id: chunk for chunk in (each.hit.child or each.hit.chunk for each in found)}
    firsts = [of[0] for of in ids.values() if of and of[0] not in known]
    calls = []
    if firsts:
        calls.append(Effect("catalogue", partial(store.read, firsts, scope, {}), quick=True))
    if asked.relate and hasattr(store, "edges"):
        calls.append(Effect("graph", partial(store.edges, list(chain.from_iterable(ids.values()))), quick=True))
    results = yield from ask_all(asked.trace, calls)
    by_source = {call.source: result for call, result in zip(calls, results, strict=True)}
    known |= by_source.get("catalogue") or {}
    leaving = _leaving(by_source.get("graph") or (), scope)
    return {each.uri: _context(each, ids[each.uri], known, leaving, tree) for each in found}


def _leaving(edges: Sequence[Edge], scope: Scope) -> dict[str, list[Edge]]:
    """The edges that say something of a chunk and are valid, by the chunk."""
    leaving: dict[str, list[Edge]] = {}
    for edge in edges:
        if edge.relation not in (CONTAINS, SEQUENCE, MENTIONS) and _is_valid(edge, scope):
            leaving.setdefault(edge.source, []).append(edge)
    return leaving


def _context(
    each: _Found, ids: Sequence[str], known: Mapping[str, Chunk], leaving: Mapping[str, Sequence[Edge]], tree: Tree
) -> FoundContext:
    first = known.get(ids[0]) if ids else None
    abstract = str(each.hit.chunk.metadata.get("abstract", "")) if first is None else lead([first])
    edges = [edge for id in ids for edge in leaving.get(id, ())]
    relations = _relations(each.uri, edges, tree) if edges else ()
    return FoundContext(each.uri, each.context_type, each.is_leaf, abstract, each.hit.score, relations)


def _weighed(hit: Hit, weight: float) -> Hit:
    parts = {name: weight * part for name, part in hit.parts.items()}
    return hit if weight == 1 else replace(hit, score=weight * hit.score, parts=parts)


def _is_valid(edge: Edge, scope: Scope) -> bool:
    now = scope.as_of
    return now is None or (
        (edge.valid_from is None or edge.valid_from <= now) and (edge.valid_until is None or edge.valid_until >= now)
    )


def _relations(uri: str, edges: Sequence[Edge], tree: Tree) -> tuple[Relation, ...]:
    """The heaviest edges to other nodes that the call may see, each node once."""
    ordered = sorted(edges, key=lambda edge: (-edge.weight, edge.relation, edge.target))
    targets = tree.nodes([edge.target for edge in ordered])
    found: dict[str, Relation] = {}
    for edge, node in zip(ordered, targets, strict=True):
        if node >= 0 and (other := tree.uri(node)) != uri:
            found.setdefault(other, Relation(other, edge.relation, edge.weight, edge.description))
    return tuple(found.values())[:MOST_RELATIONS]
