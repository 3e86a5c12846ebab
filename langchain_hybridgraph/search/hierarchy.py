"""Typed searches in trees of directories."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_hybridgraph.chunks import Chunk, Serializable, is_valid
from langchain_hybridgraph.degradation import warnings_in
from langchain_hybridgraph.errors import ConfigurationError, StoreError, quote_value, shorten
from langchain_hybridgraph.execution.effects import Effect, Search, failures_in, together
from langchain_hybridgraph.records import CONTAINS, MENTIONS, SEQUENCE, Edge, Hit, Scope, SourceResult
from langchain_hybridgraph.search import planner as planning
from langchain_hybridgraph.search.context import ALL, SearchContext, read_hits
from langchain_hybridgraph.search.pipeline import budget, first_of_each, listed_candidates, parents, plan, select
from langchain_hybridgraph.search.tree import TOP, Descent, QueryTree, summaries_of
from langchain_hybridgraph.search.verdict import report_emptiness
from langchain_hybridgraph.text.sentences import OVERVIEW_LENGTH, abstract_of

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask
    from langchain_hybridgraph.stores.tree import Level, Tree


# Records for the results of a hierarchical search.

_STANDARD_TYPES = (planning.MEMORY, planning.RESOURCE, planning.SKILL)


@dataclass(frozen=True, slots=True)
class Relation(Serializable):
    """Edge from a hit to another node. ``uri`` is the uri of the other node."""

    uri: str
    relation: str
    weight: float
    description: str = ""


@dataclass(frozen=True, slots=True)
class FoundContext(Serializable):
    """Directory or document found by a search.

    ``abstract`` has up to 256 characters; the overview and the full text are read on demand
    (:meth:`HierarchicalRetriever.overview`, :meth:`HierarchicalRetriever.read`). ``hit`` contains the best chunk of a
    document or the overview of a directory.
    """

    uri: str
    context_type: str
    is_leaf: bool
    abstract: str
    score: float
    relations: tuple[Relation, ...] = ()
    hit: Hit | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class QueryResult(Serializable):
    """Results of one query of a plan.

    ``roots`` are the uris of the nodes below which the query was run. ``scored`` is the number of nodes that were
    scored, ``nodes`` the number of all nodes in the tree, and ``opened`` the number of directories that were opened.
    """

    query: planning.TypedQuery
    roots: tuple[str, ...]
    hits: tuple[FoundContext, ...]
    scored: int
    nodes: int
    opened: int

    def plan(self) -> dict[str, Any]:
        """Return the query and all other fields except the hits, as JSON values."""
        return {name: value for name, value in replace(self, hits=()).to_dict().items() if name != "hits"}


@dataclass(frozen=True, slots=True)
class FindResult(Serializable, Iterable[FoundContext]):
    """Results of a hierarchical search, best first; iteration yields the contexts.

    ``by_type`` contains the contexts of all types but memories, resources and skills. ``query_plan`` contains the
    queries that were run (only one if there is no session); ``query_results`` contains the results of each.
    ``degraded`` and ``warnings`` have the same meaning as in a RetrievalResult, and ``remarks`` explains some of these
    reasons.
    """

    contexts: tuple[FoundContext, ...]
    query_plan: planning.QueryPlan
    query_results: tuple[QueryResult, ...]
    degraded: tuple[str, ...] = ()
    took_ms: float = 0.0
    remarks: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons in ``degraded`` with the level "warning", which mean that part of the request was not carried out."""
        return warnings_in(self.degraded)

    @property
    def memories(self) -> tuple[FoundContext, ...]:
        """Results of type memory."""
        return self._of(planning.MEMORY)

    @property
    def resources(self) -> tuple[FoundContext, ...]:
        """Results of type resource."""
        return self._of(planning.RESOURCE)

    @property
    def skills(self) -> tuple[FoundContext, ...]:
        """Results of type skill."""
        return self._of(planning.SKILL)

    @property
    def by_type(self) -> dict[str, tuple[FoundContext, ...]]:
        """Results of types other than memory, resource and skill, by type."""
        others = dict.fromkeys(each.context_type for each in self.contexts if each.context_type not in _STANDARD_TYPES)
        return {name: self._of(name) for name in others}

    @property
    def total(self) -> int:
        """Number of results."""
        return len(self.contexts)

    def __len__(self) -> int:
        return len(self.contexts)

    def __iter__(self) -> Iterator[FoundContext]:
        return iter(self.contexts)

    def __repr__(self) -> str:
        degraded = f", degraded={list(self.degraded)}" if self.degraded else ""
        uris = [each.uri for each in self.contexts]
        return f"FindResult({shorten(str(uris), 200)} in {self.took_ms:.1f} ms{degraded})"

    def _of(self, name: str) -> tuple[FoundContext, ...]:
        return tuple(each for each in self.contexts if each.context_type == name)


# Lookup of a tree's nodes by uri or path.

# Maximum number of characters of a target; the number of its spellings grows with its length.
_LONGEST_URI = 8_192


def path_of(uri: str) -> str:
    """Return a uri without its scheme and without slashes at its ends."""
    return uri.partition("://")[2].strip("/") if "://" in uri else uri.strip("/")


def root_nodes(tree: Tree, root: str) -> list[int]:
    """Return the nodes of a root directory: a uri, or a path without a scheme, which matches every scheme."""
    at = tree.node(root)
    schemes = dict.fromkeys(uri.partition("://")[0] for uri in map(tree.uri, tree.top()) if "://" in uri)
    nodes_below = [] if "://" in root else [tree.node(f"{scheme}://{root}") for scheme in schemes]
    return [node for node in (at, *nodes_below) if node >= 0]


def as_targets(value: Any) -> tuple[str, ...]:
    """Return ``target_uri`` as a tuple of uris, empty for None; raise ConfigurationError for anything else."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping | bytes) or not isinstance(value, Iterable):
        raise ConfigurationError(f"target_uri must be a uri such as 'docs/api', or a list of them, got {value!r}")
    return tuple(value)


def target_nodes(tree: Tree, target: Any) -> list[int]:
    """Return the nodes of a target.

    A target is a uri of the tree, or a relative (``./docs/``, ``docs//api``) or absolute path. If an absolute path is
    not in the tree, its last folders are looked up instead. A scheme alone means its top-level nodes, and ``.`` means
    everything. Raises ConfigurationError for a target without nodes.
    """
    if not (isinstance(target, str) and target.strip() and len(target) <= _LONGEST_URI):
        raise ConfigurationError(
            f"each target_uri must be a uri such as 'docs/api' of at most {_LONGEST_URI:,} characters, "
            f"got {quote_value(target)}"
        )
    plain = posixpath.normpath(target.replace("\\", "/") if os.sep == "\\" else target)
    spellings = [target] if "://" in target else [target, plain]
    if plain.startswith(("/", "..")):  # the last folders of the absolute path, longest first
        parts = PurePath(os.path.realpath(target)).parts[1:]
        spellings += ["/".join(parts[start:]) for start in range(len(parts))]
    for uri in spellings:
        if (node := tree.node(uri)) >= 0:
            return [node]
    nodes = tree.top()
    if "://" in target or plain != ".":
        nodes = [top for top in nodes if target.endswith("://") and tree.uri(top).startswith(target)]
    if not nodes:
        tops = list(map(tree.uri, tree.top()))
        top_uris = ", ".join(map(repr, tops[:5])) + (", …" if len(tops) > 5 else "")
        hint = f"the top of the tree has {top_uris}" if tops else "the tree is empty"
        raise ConfigurationError(f"target_uri: there is nothing under {target!r} in the scope of this call; {hint}")
    return nodes


# Abstract, overview and text of a document or directory.


class NodeContents(NamedTuple):
    """Abstract (level 0), overview (level 1) and full text (level 2) of a document or directory.

    A directory that is not a document has no text, and a directory without a summary no abstract. The overview of a
    document is the beginning of its text.
    """

    abstract: str
    overview: str
    text: str


def contents_of(store: Any, uri: str, scope: Scope) -> NodeContents:
    """Return the contents of a document or directory; raise ConfigurationError if the scope contains none there."""
    tree = store.scoped_tree(scope)
    node = target_nodes(tree, uri)[0]
    chunks = sorted(store.read(tree.chunks(node), scope, {}).values(), key=place_of)
    text = whole_text(chunks)
    with suppress(StoreError):  # searches report damaged summaries
        summaries = summaries_of(store)
        if summaries is not None and tree.is_directory(node) and tree.is_fully_visible(node):
            for summary in summaries.get([tree.uri(node)]).values():
                return NodeContents(str(summary.metadata["abstract"]), summary.text, text)
    return NodeContents(lead(chunks), text[:OVERVIEW_LENGTH], text)


def lead(chunks: Sequence[Chunk]) -> str:
    """Return the abstract of a document, made from its first chunk, or "" for a document without chunks."""
    return abstract_of(chunks[0].text, str(chunks[0].metadata.get("title") or "")) if chunks else ""


def place_of(chunk: Chunk) -> float:
    """Return the position of a chunk in its document, or 0 if it is unknown."""
    index = chunk.metadata.get("chunk_index")
    return index if isinstance(index, int | float) else 0.0


def whole_text(chunks: Sequence[Chunk]) -> str:
    """Return the text of a document, joined from its chunks, without repeating what two chunks share."""
    text, end = "", None
    for chunk in chunks:
        start = chunk.metadata.get("start_index")
        if isinstance(start, int) and end is not None and start <= end:
            text += chunk.text[end - start :]
            end = max(end, start + len(chunk.text))
        else:
            text += f"\n\n{chunk.text}" if text else chunk.text
            end = start + len(chunk.text) if isinstance(start, int) else None
    return text


# Hierarchical search, from queries to contexts.

MOST_RELATIONS = 5


@dataclass(frozen=True, slots=True)
class HierarchicalCall:
    """Call that is ready to run: the context with the pipeline whose stages it uses, and the settings of the search.

    ``options`` are the TreeOptions. ``directories`` is True if directories may be hits, ``relate`` if contexts contain
    their relations. With ``per_type``, k is the number of results of each type instead of all types together.
    """

    context: SearchContext
    deadline: float | None
    tree: Callable[[Scope], Tree]
    options: Any
    weights: tuple[float, float]
    targets: tuple[str, ...]
    session: planning.ConversationSession | None
    planner: Any
    directories: bool
    relate: bool
    per_type: bool
    threshold: float


def answer_call(request: HierarchicalCall) -> Search[FindResult]:
    """Plan the queries of a call, search for each of them, and return the merged results."""
    query, trace, queries = request.context.query, request.context.trace, planning.QueryPlan(())
    contexts: list[FoundContext] = []
    results: Sequence[QueryResult] = ()
    if query.k:
        text = query.text or ""
        queries = yield from planning.plan_queries(text, request.session, request.planner, trace, request.deadline)
        tree = yield from _read_tree(request)
        if tree is not None:
            results = yield from together([_search_tree(typed_query, tree, request) for typed_query in queries])
            trace.method = "hierarchical"
            contexts = yield from _merge(results, request)
            if not contexts:
                yield from report_emptiness(request.context)
            results = [replace(each, hits=_head(each.hits, request)) for each in results]
            every = chain(contexts, *(each.hits for each in results))
            described = yield from _describe({each.uri: each for each in every}, tree, request)
            contexts = list(map(described, contexts))
            results = [replace(each, hits=tuple(map(described, each.hits))) for each in results]
    return FindResult(tuple(contexts), queries, tuple(results), trace.reasons, trace.took_ms, dict(trace.remarks))


def _read_tree(request: HierarchicalCall) -> Search[Tree | None]:
    """Return the tree that the call may see, or None if it cannot be read in time."""
    context, store = request.context, request.context.pipeline.store
    # With another library's vector store, the tree may have to be read from the store first.
    is_quick = getattr(store, "has_fast_lookups", False)
    (tree,) = yield [Effect("tree", partial(request.tree, context.query.scope), quick=is_quick, owner=store)]
    for failure in failures_in([tree]):
        context.record([failure], is_required=not failure.late)
        return None
    return cast("Tree", tree)


def _search_tree(typed_query: planning.TypedQuery, tree: Tree, request: HierarchicalCall) -> Search[QueryResult]:
    """Return the result of one query, with all hits, best first."""
    result, query = QueryResult(typed_query, (), (), 0, len(tree), 0), request.context.query
    context_type = typed_query.context_type
    if context_type is not None and not _has_type(tree, context_type, request):
        return result
    text = typed_query.query if (query.text or "").strip() else query.text
    run = replace(request.context, query=plan(replace(query, text=text, weight=typed_query.weight)))
    roots = _roots(tree, context_type, request)
    result = replace(result, roots=tuple(tree.uri(node) for node in roots if node != TOP))
    if run.is_filter_only:
        contexts = yield from _list_documents(run, context_type, roots, tree, request)
        return replace(result, hits=tuple(contexts), scored=len(contexts))
    nodes = QueryTree(tree, run)
    yield from nodes.search(request.weights)
    if not nodes.has_results:
        return result
    # If k nodes of each of several types are requested, each type is also searched separately.
    types: list[str | None] = [context_type]
    if request.per_type and context_type is None:
        names = sorted({planning.RESOURCE, *request.options.roots, *tree.types()})
        names = [name for name in names if _has_type(tree, name, request)]
        types += names if len(names) > 1 else ()
    contexts, opened = [], 0
    for name in types:
        contexts_of_type, count = yield from _descend(name, nodes, request)
        contexts += contexts_of_type
        opened += count
    return replace(result, hits=tuple(_best(contexts)), scored=len(nodes.scored_nodes), opened=opened)


def _best(contexts: Iterable[FoundContext]) -> list[FoundContext]:
    """Return the contexts with the best score for each uri, best first, ties by uri."""
    best: dict[str, FoundContext] = {}
    for each in sorted(contexts, key=lambda each: (-each.score, each.uri)):
        best.setdefault(each.uri, each)
    return list(best.values())


def _context(node: int, hit: Hit, tree: Tree, request: HierarchicalCall) -> FoundContext:
    context_type = _type(tree, node, request)
    return FoundContext(tree.uri(node), context_type, not tree.is_directory(node), "", hit.score, hit=hit)


def _list_documents(
    run: SearchContext, context_type: str | None, roots: Sequence[int], tree: Tree, request: HierarchicalCall
) -> Search[list[FoundContext]]:
    """Return up to k documents of each type in order of :func:`_documents`; the tree has only nodes in scope."""
    type_of = partial(_type, tree, request=request)
    nodes = (node for node in _documents(tree, roots) if context_type is None or type_of(node) == context_type)
    documents = {tree.chunks(node)[0]: node for node in first_of_each(nodes, _limit(request), type_of)}
    run.trace.degrade("filter-only")
    candidates = listed_candidates(SourceResult.of(dict.fromkeys(documents, 1.0)))
    hits = yield from read_hits(run, candidates, len(documents))
    return [_context(documents[hit.id], hit, tree, request) for hit in hits]


def _documents(tree: Tree, roots: Sequence[int]) -> Iterator[int]:
    """Yield the documents in ``roots`` and below them, each once, by uri within a directory."""
    stack = [node for root in reversed(roots) for node in ([root] if root != TOP else reversed(tree.top()))]
    visited: set[int] = set()
    while stack:
        node = stack.pop()
        if node not in visited:
            visited.add(node)
            if tree.chunks(node):
                yield node
            stack += reversed(tree.children(node))


def _descend(
    context_type: str | None, nodes: QueryTree, request: HierarchicalCall
) -> Search[tuple[list[FoundContext], int]]:
    """Return the hits of a search for one type (None means all), best first, and the number of opened directories."""
    tree, trace, options = nodes.tree, request.context.trace, request.options
    nodes.are_answers = partial(_are_hits, tree, context_type, request)
    roots = _roots(tree, context_type, request)
    with trace.stage("walk"):
        starts = nodes.starts(roots, options.start_k, options.start_documents)
        yield from nodes.add_scores(list(map(nodes.below, starts)))
        levels = yield from nodes.score_level(tree.level(starts))
        named_roots = [(node, "" if node == TOP else tree.uri(node)) for node in roots]
        k = max(request.context.query.k, 1)
        descent = Descent(k, options.alpha, options.max_rounds, request.threshold)
        yield from descent.run(named_roots, levels, nodes.score_children)
    trace.degrade("converged-early" if descent.converged else None)
    hits = yield from nodes.reached_hits(descent.nodes[: _limit(request)], options.alpha)
    return [_context(node, hit, tree, request) for node, hit in hits], descent.opened


def _head(contexts: Sequence[FoundContext], request: HierarchicalCall) -> tuple[FoundContext, ...]:
    """Return the best k contexts of one query, or the best k of each type if requested."""
    k = request.context.query.k
    return tuple(first_of_each(contexts, k, lambda each: each.context_type if request.per_type else ""))


def _are_hits(tree: Tree, context_type: str | None, request: HierarchicalCall, level: Level) -> Mask:
    """Return a mask of the nodes that may be hits: documents of the type, and directories if requested.

    Directories must have their complete contents in the scope.
    """
    may = level.is_document | level.is_fully_visible if request.directories else level.is_document.copy()
    if context_type is not None:
        may &= [_type(tree, node, request) == context_type for node in level.nodes.tolist()]
    return may


def _roots(tree: Tree, context_type: str | None, request: HierarchicalCall) -> list[int]:
    """Return the call's targets, or else the root directories of the type, or else the top of the tree."""
    if request.targets:
        return list(dict.fromkeys(node for target in request.targets for node in target_nodes(tree, target)))
    root_uris = request.options.roots.get(context_type, ()) if context_type is not None else ()
    nodes = [node for root in root_uris for node in root_nodes(tree, root)]
    return nodes or [TOP]


def _type(tree: Tree, node: int, request: HierarchicalCall) -> str:
    """Return the type in a node's metadata, or else that of the root directory it is in, or else resource."""
    context_type = tree.context_type(node)
    if context_type is not None:
        return context_type
    types: Mapping[str, Sequence[str]] = request.options.roots
    path = path_of(tree.uri(node))
    for name, roots in types.items():
        if any(path == root or path.startswith(f"{root}/") for root in map(path_of, roots)):
            return name
    return planning.RESOURCE


def _has_type(tree: Tree, context_type: str, request: HierarchicalCall) -> bool:
    """Return whether the tree may contain nodes of this type, which is always True for resources, the default."""
    has_directory = any(root_nodes(tree, root) for root in request.options.roots.get(context_type, ()))
    return context_type == planning.RESOURCE or has_directory or context_type in tree.types()


def _limit(request: HierarchicalCall) -> int:
    """Return k, or ``ALL`` if a later stage may prefer a lower-ranked node."""
    pipeline, k = request.context.pipeline, request.context.query.k
    return ALL if pipeline.mmr_lambda is not None or pipeline.max_per_document is not None else k


def _merge(results: Sequence[QueryResult], request: HierarchicalCall) -> Search[list[FoundContext]]:
    """Merge the hits of all queries, with scores weighted by priority, and apply the last stages of the pipeline."""
    run = request.context
    scaled = [(each, each.hit.scaled(one.query.weight)) for one in results for each in one.hits if each.hit is not None]
    ordered = _best(replace(each, score=hit.score, hit=hit) for each, hit in scaled)
    by_id = {each.hit.id: each for each in ordered if each.hit is not None}
    hits = yield from parents(run, [each.hit for each in by_id.values() if each.hit is not None])
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        name = by_id[(hit.child or hit.chunk).id].context_type if request.per_type else ""
        groups.setdefault(name, []).append(hit)
    selected_hits = []
    for group in groups.values():
        selected_hits += yield from select(run, group)
    if len(groups) > 1:
        selected_hits.sort(key=lambda hit: (-hit.score, hit.id))
    return [replace(by_id[(hit.child or hit.chunk).id], score=hit.score, hit=hit) for hit in budget(run, selected_hits)]


def _describe(
    contexts: Mapping[str, FoundContext], tree: Tree, request: HierarchicalCall
) -> Search[Callable[[FoundContext], FoundContext]]:
    """Return a function that adds the abstract and, if requested, the relations to each of these contexts."""
    run, store, scope = request.context, cast(Any, request.context.pipeline.store), request.context.query.scope
    ids = {uri: tree.chunks(tree.node(uri)) for uri in contexts}
    hits = [each.hit for each in contexts.values() if each.hit is not None]
    chunks_by_id = {chunk.id: chunk for chunk in (hit.child or hit.chunk for hit in hits)}
    firsts = [of[0] for of in ids.values() if of and of[0] not in chunks_by_id]
    calls = []
    if firsts:
        calls.append(Effect("catalog", partial(store.read, firsts, scope, {}), quick=True))
    if request.relate and hasattr(store, "edges"):
        calls.append(Effect("graph", partial(store.edges, list(chain.from_iterable(ids.values()))), quick=True))
    results = run.replace_failures((yield calls))
    by_source = {call.source: result for call, result in zip(calls, results, strict=True)}
    chunks_by_id |= by_source.get("catalog") or {}
    leaving: dict[str, list[Edge]] = {}
    for edge in by_source.get("graph") or ():
        is_current = is_valid(edge.valid_from, edge.valid_until, scope.as_of)
        if is_current and edge.relation not in (CONTAINS, SEQUENCE, MENTIONS):
            leaving.setdefault(edge.source, []).append(edge)

    def described(context: FoundContext) -> FoundContext:
        assert context.hit is not None, "each context of a search has its hit"
        first = chunks_by_id.get(ids[context.uri][0]) if ids[context.uri] else None
        abstract = str(context.hit.chunk.metadata.get("abstract", "")) if first is None else lead([first])
        edges = [edge for id in ids[context.uri] for edge in leaving.get(id, ())]
        return replace(context, abstract=abstract, relations=_relations(context.uri, edges, tree))

    return described


def _relations(uri: str, edges: Sequence[Edge], tree: Tree) -> tuple[Relation, ...]:
    """Return the ``MOST_RELATIONS`` heaviest relations to other nodes in the scope, one for each node."""
    ordered = sorted(edges, key=lambda edge: (-edge.weight, edge.relation, edge.target))
    targets = tree.nodes([edge.target for edge in ordered])
    relations: dict[str, Relation] = {}
    for edge, node in zip(ordered, targets, strict=True):
        if node >= 0 and (other := tree.uri(node)) != uri:
            relations.setdefault(other, Relation(other, edge.relation, edge.weight, edge.description))
    return tuple(relations.values())[:MOST_RELATIONS]
