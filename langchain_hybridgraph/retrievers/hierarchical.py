"""HierarchicalRetriever: search down a tree of directories."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, Unpack, cast

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from pydantic import Field, PrivateAttr, field_validator

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingest.layers import OVERVIEW, abstract_of
from langchain_hybridgraph.names import plain_uri
from langchain_hybridgraph.query.calls import Call, Failure, adrive, drive, offload
from langchain_hybridgraph.query.pipeline import Pipeline, choose, fit, plan, resolve_parents
from langchain_hybridgraph.query.planner import MEMORY, RESOURCE, SKILL, RulePlanner, TypedQuery
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.query.tree_search import Descent, descend
from langchain_hybridgraph.records import CONTAINS, MENTIONS, SEQUENCE, Chunk, Edge, Hit, Query, RetrievalResult, Scope
from langchain_hybridgraph.retrievers.base import CallOptions, CallSettings
from langchain_hybridgraph.retrievers.documents import annotate
from langchain_hybridgraph.retrievers.found import FindResult, FoundContext, QueryResult, Relation
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.retrievers.tree_nodes import TOP, Nodes, layers_of, path_of, rooted, targeted
from langchain_hybridgraph.stores.base import HasTree

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.base import Tree

T = TypeVar("T")
Stage = Generator[Sequence[Call], Sequence[Any], T]
Mode = Literal["thinking", "quick"]

ROOTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {MEMORY: ("user/memories", "agent/memories"), RESOURCE: ("resources",), SKILL: ("agent/skills",)}
)
"""The directories in which each type is kept, below any scheme."""

LONGEST_SUMMARY, LAST_MESSAGES = 30_000, 5
MOST_RELATIONS = 5


class WalkSettings(CallSettings, total=False):
    """What ``find`` and ``search`` may be told beside what they name."""

    mode: Mode | None
    score_threshold: float | None


class FindSettings(WalkSettings, total=False):
    """What a single call of a :class:`HierarchicalRetriever` may set beside k."""

    target_uri: str | Sequence[str] | None
    session: Any


class FindOptions(FindSettings, total=False):
    """What a single call may set, as ``invoke`` takes it."""

    k: int | None


class HierarchicalRetriever(HybridRetriever):
    """The best of a tree of directories and documents, found from its directories down.

    The tree is that of the chunks' ``uri`` (files of an ingested folder have one), of any scheme; ``build_layers``
    summarises its directories. A query starts at the ``start_k`` best directories by their summaries, at the
    ``start_documents`` best documents of the hybrid search and at the directories in which these stand, and always
    looks into the best directory next: a child's score is ``alpha`` · its own (that of the hybrid search) +
    (1 − ``alpha``) · its directory's; a start has its own. It ends when the best k have
    stayed the same for ``max_rounds`` directories (``converged-early``). A document is found once, by its best chunk.

    :meth:`find` runs one query. :meth:`search` has ``planner`` make typed queries of a conversation first
    (:class:`RulePlanner` by default, :class:`QueryPlanner` with a model). ``invoke`` is ``find``, or ``search`` where
    ``session=`` is given, as Documents. In mode ``"thinking"`` (that of ``search``) the ``reranker`` reads the start
    points and each level; in ``"quick"`` (that of ``find``), and where there is none, the search's own scores decide.

    A query of a type looks below the directories that ``roots`` has for it, where there are any, and finds only what is
    of that type: by the metadata ``context_type``, else by these directories, else a resource. ``directories`` says
    whether directories without a text of their own may be hits: None lets them be found by ``find`` and ``search``,
    where an agent goes on from them, and not be Documents, where they would stand in the place of texts. One of which
    the call may not see everything is no hit in any case.

    Without summaries it starts from the documents alone, and says ``no-layers``; without any directory it is a hybrid
    search over documents, and says ``no-tree``.

    Raises ValueError (pydantic's ValidationError) for a setting that does not exist or has no usable value.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> from langchain_hybridgraph.ingest.layers import build_layers
    >>> store = HybridGraphStore(None)
    >>> pages = {"pets/cats.md": "Cats purr.", "pets/dogs.md": "Dogs bark.", "cars/fast.md": "A roadster is fast."}
    >>> _ = ingest([Document(text, metadata={"uri": uri}, id=uri) for uri, text in pages.items()], store)
    >>> _ = build_layers(store)
    >>> retriever = HierarchicalRetriever(store, k=2)
    >>> [(context.uri, context.is_leaf) for context in retriever.find("Which pets purr?")]
    [('pets/cats.md', True), ('pets', False)]
    """

    planner: Any = Field(None, description="Makes typed queries of a conversation; None is RulePlanner().")
    alpha: float = Field(0.5, ge=0, le=1, description="What a node's own score counts beside its directory's.")
    start_k: int = Field(3, ge=1, description="The walk starts at so many of the best directories.")
    start_documents: int = Field(3, ge=0, description="And at so many of the best documents, and where these stand.")
    max_rounds: int = Field(3, ge=1, description="Ends after so many directories in which the best k stay the same.")
    score_threshold: float = Field(0.0, ge=0, lt=1, description="Only scores above it count.")
    roots: Mapping[str, Sequence[str]] = Field(
        default_factory=lambda: dict(ROOTS), description="The directories of each type."
    )
    directories: bool | None = Field(
        None, description="Whether directories without a text of their own may be hits; None: in find and search."
    )

    _call_options: ClassVar[Set[str]] = HybridRetriever._call_options | FindOptions.__annotations__.keys()
    _rules: Any = PrivateAttr(default_factory=RulePlanner)

    def __init__(self, vector_store: VectorStore, documents: Iterable[Document] | None = None, **settings: Any) -> None:
        if not isinstance(vector_store, HasTree):
            raise ConfigurationError(
                f"{type(vector_store).__name__} knows no tree of directories: HierarchicalRetriever takes a "
                "HybridGraphStore, into which ingest(read_files(folder), store) brings one"
            )
        super().__init__(vector_store, documents, **settings)
        if not callable(getattr(self._fusion, "others", None)):
            raise ConfigurationError(
                f"fusion={type(self._fusion).__name__} ranks whole lists; a tree's nodes are scored level by level: "
                "leave fusion= out, or take 'convex'"
            )

    @field_validator("planner")
    @classmethod
    def _callable_planner(cls, value: Any) -> Any:
        if value is not None and not callable(value):
            raise ConfigurationError(f"planner is {value!r}; wanted QueryPlanner(llm) or a function like it")
        return value

    @field_validator("roots")
    @classmethod
    def _plain_roots(cls, value: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        for name, uris in value.items():
            if isinstance(uris, str):
                raise ConfigurationError(f"roots[{name!r}] is {uris!r}; wanted a list such as [{uris!r}]")
        return {name: tuple(map(plain_uri, uris)) for name, uris in value.items()}

    # -- finding --------------------------------------------------------------------------------------------

    def find(
        self,
        query: str,
        target_uri: str | Sequence[str] | None = None,
        k: int | None = None,
        **options: Unpack[WalkSettings],
    ) -> FindResult:
        """The k best of the tree, or of what lies below ``target_uri``, for one query; no planner is asked.

        Raises what :meth:`retrieve` does, and ConfigurationError for a ``target_uri`` under which nothing lies.
        """
        return self._found(self._asked(query, _of_find(target_uri, k, options)))

    async def afind(
        self,
        query: str,
        target_uri: str | Sequence[str] | None = None,
        k: int | None = None,
        **options: Unpack[WalkSettings],
    ) -> FindResult:
        """What :meth:`find` gives, without holding up the event loop."""
        return await self._afound(self._asked(query, _of_find(target_uri, k, options)))

    def search(
        self,
        query: str,
        session: Any = None,
        target_uri: str | Sequence[str] | None = None,
        k: int | None = None,
        **options: Unpack[WalkSettings],
    ) -> FindResult:
        """The k best for what the planner makes of the query in its conversation.

        ``session`` is a BaseChatMessageHistory, a list of messages, or ``{"summary": …, "messages": …}``; without one
        nothing is planned. Each query's scores count (6 − priority) / 5, what several find counts once, with its best
        score. A plan without queries finds nothing; a planner that fails leaves the raw query (``planner-failed``).
        """
        return self._found(self._asked(query, _of_search(session, target_uri, k, options)))

    async def asearch(
        self,
        query: str,
        session: Any = None,
        target_uri: str | Sequence[str] | None = None,
        k: int | None = None,
        **options: Unpack[WalkSettings],
    ) -> FindResult:
        """What :meth:`search` gives, without holding up the event loop."""
        return await self._afound(self._asked(query, _of_search(session, target_uri, k, options)))

    def retrieve(
        self, query: str | None, k: int | None = None, **options: Unpack[FindSettings]
    ) -> RetrievalResult[Document]:
        """What :meth:`find` gives (:meth:`search` with ``session=``) as Documents, whose metadata name it, too.

        ``uri``, ``context_type``, ``is_leaf`` and ``abstract`` are written beside what every retriever writes.
        """
        return self._run_tree(self._asked(query, _as_options(options, k)))

    async def aretrieve(
        self, query: str | None, k: int | None = None, **options: Unpack[FindSettings]
    ) -> RetrievalResult[Document]:
        """What :meth:`retrieve` gives, without holding up the event loop."""
        return await self._arun_tree(self._asked(query, _as_options(options, k)))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Unpack[FindOptions]
    ) -> list[Document]:
        return list(self._run_tree(self._asked(query, options, run_manager.get_child())))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Unpack[FindOptions]
    ) -> list[Document]:
        return list(await self._arun_tree(self._asked(query, options, run_manager.get_child())))

    # -- the layers of one directory or document ------------------------------------------------------------

    def abstract(self, uri: str) -> str:
        """L0 of a directory or document, up to 256 characters; "" for a directory that has not been summarised.

        Raises ConfigurationError for a uri at which nothing stands.
        """
        layer, chunks = self._standing(uri)
        return str(layer.metadata["abstract"]) if layer is not None else _abstract(chunks)

    def overview(self, uri: str) -> str:
        """L1 of a directory, or the beginning of a document's text, up to 4,000 characters."""
        layer, chunks = self._standing(uri)
        return layer.text if layer is not None else _text(chunks)[:OVERVIEW]

    def read(self, uri: str) -> str:
        """L2: the whole text of a document; "" for a directory that is none."""
        return _text(self._standing(uri)[1])

    def _standing(self, uri: str) -> tuple[Chunk | None, list[Chunk]]:
        store = cast(Any, self.vector_store)
        scope = self._scope({})
        tree = store.tree(scope)
        node = targeted(tree, [uri])[0][0]
        layers = layers_of(store)
        summary = layers.get([tree.uri(node)]) if layers is not None and tree.is_whole(node) else []
        read = store.read(tree.chunks(node), scope, {})
        chunks = sorted(read.values(), key=_index)
        return (summary[0] if summary and tree.is_directory(node) else None), chunks

    # -- one call -------------------------------------------------------------------------------------------

    @property
    def _fusion(self) -> Any:
        return self.fusion if self.fusion is not None else self._default_fusion()

    def _asked(self, query: str | None, options: FindOptions, callbacks: Any = None) -> _Asked:
        self._check_options(cast(CallOptions, options))
        common = cast(CallOptions, {key: value for key, value in options.items() if key not in _OURS})
        prepared = self._prepare(query, common, callbacks)
        prepared.search.close()
        session = options.get("session")
        mode = options.get("mode") or ("quick" if session is None else "thinking")
        if mode not in ("thinking", "quick"):
            raise ConfigurationError(f"mode is {mode!r}; wanted 'thinking' or 'quick'")
        threshold = options.get("score_threshold")
        target = options.get("target_uri")
        pipeline = prepared.pipeline
        return _Asked(
            query=prepared.query,
            pipeline=pipeline if mode == "thinking" else replace(pipeline, reranker=None),
            trace=prepared.trace,
            deadline=prepared.deadline,
            awaits=prepared.awaits or session is not None,
            targets=() if target is None else (target,) if isinstance(target, str) else tuple(target),
            session=_session(session),
            descent=Descent(
                k=max(prepared.query.k, 1),
                alpha=self.alpha,
                max_rounds=self.max_rounds,
                threshold=self.score_threshold if threshold is None else threshold,
            ),
            described=prepared.described,
        )

    def _run_tree(self, asked: _Asked) -> RetrievalResult[Document]:
        with self._statistics.counting_errors():
            answer = drive(self._answer(asked, relate=False), asked.deadline)
        return self._as_documents(answer, asked)

    async def _arun_tree(self, asked: _Asked) -> RetrievalResult[Document]:
        if not asked.awaits:
            return await offload(partial(self._run_tree, asked))
        with self._statistics.counting_errors():
            answer = await adrive(self._answer(asked, relate=False), asked.deadline)
        return self._as_documents(answer, asked)

    def _found(self, asked: _Asked) -> FindResult:
        with self._statistics.counting_errors():
            answer = drive(self._answer(asked, relate=True), asked.deadline)
        return self._as_result(answer, asked)

    async def _afound(self, asked: _Asked) -> FindResult:
        if not asked.awaits:
            return await offload(partial(self._found, asked))
        with self._statistics.counting_errors():
            answer = await adrive(self._answer(asked, relate=True), asked.deadline)
        return self._as_result(answer, asked)

    def _as_result(self, answer: _Answer, asked: _Asked) -> FindResult:
        trace = asked.trace
        self._statistics.answered(trace, len(answer.contexts))
        return FindResult(answer.contexts, answer.plan, answer.results, trace.reasons, trace.took_ms)

    def _as_documents(self, answer: _Answer, asked: _Asked) -> RetrievalResult[Document]:
        trace, prefix = asked.trace, self.metadata_prefix
        hits = [each.hit for each in answer.contexts if each.hit is not None]
        documents = annotate(hits, trace.method, trace.reasons, prefix)
        for document, each in zip(documents, answer.contexts, strict=True):
            ours = {"uri": each.uri, "context_type": each.context_type, "is_leaf": each.is_leaf}
            named = {prefix + key: value for key, value in (ours | {"abstract": each.abstract}).items()}
            document.metadata |= named
        self._statistics.answered(trace, len(hits))
        described = asked.described() | {
            "queries": [
                {
                    "query": each.query.query,
                    "context_type": each.query.context_type,
                    "priority": each.query.priority,
                    "roots": list(each.roots),
                    "scored": each.scored,
                    "nodes": each.nodes,
                    "opened": each.opened,
                }
                for each in answer.results
            ]
        }
        return RetrievalResult(documents, hits=hits, degraded=trace.reasons, took_ms=trace.took_ms, plan=described)

    # -- the search -----------------------------------------------------------------------------------------

    def _answer(self, asked: _Asked, *, relate: bool) -> Stage[_Answer]:
        """Plan, walk for every query, merge, describe; ``relate`` is what contexts have beside Documents."""
        if not asked.query.k:
            return _Answer((), (), ())
        queries = yield from self._planned(asked)
        (tree,) = yield [Call("tree", partial(cast(Any, self.vector_store).tree, asked.query.scope))]
        if isinstance(tree, Failure):
            raise tree.error
        directories = relate if self.directories is None else self.directories
        walks = yield from together([self._walk(typed, tree, asked, directories=directories) for typed in queries])
        asked.trace.method = "hierarchical"
        best = yield from self._merged(queries, walks, asked)
        named = {each.uri: each for walk in walks for each in walk.found[: asked.query.k]}
        named |= {each.uri: each for each in best}
        contexts = yield from self._described(list(named.values()), tree, asked, relate=relate)
        results = [
            QueryResult(
                typed,
                walk.roots,
                tuple(_with_hit(contexts[each.uri], each.hit) for each in walk.found[: asked.query.k]),
                walk.scored,
                len(tree),
                walk.opened,
            )
            for typed, walk in zip(queries, walks, strict=True)
        ]
        return _Answer(tuple(_with_hit(contexts[each.uri], each.hit) for each in best), queries, tuple(results))

    def _planned(self, asked: _Asked) -> Stage[tuple[TypedQuery, ...]]:
        """The queries to run: the raw one without a session, what the planner makes of it with one."""
        text, session, trace = asked.query.text or "", asked.session, asked.trace
        if session is None or not text.strip():
            return (_raw(text),)
        planner = self._rules if self.planner is None else self.planner
        (messages,) = yield [session.messages()]
        if isinstance(messages, Failure):
            trace.note("session", messages.error)
            trace.degrade("session-failed")
            messages = []
        given = session.summary[:LONGEST_SUMMARY], list(messages)[-LAST_MESSAGES:], text
        arun = partial(planner.acall, *given) if hasattr(planner, "acall") else None
        with trace.stage("plan"):
            (made,) = yield [Call("planner", partial(planner, *given), arun, lane=("planner", id(planner)))]
        try:
            if isinstance(made, Failure):
                raise made.error
            planned = _checked_plan(made)
        except Exception as error:  # noqa: BLE001 - a planner may be the caller's own; the raw query goes on without it
            trace.note("planner", error)
            trace.degrade("planner-failed")
            return (_raw(text),)
        for reason in getattr(made, "degraded", ()):
            trace.degrade(reason)
        if said := getattr(made, "error", ""):
            trace.errors["planner"] = said
        return planned

    def _walk(self, typed: TypedQuery, tree: Tree, asked: _Asked, *, directories: bool) -> Stage[_Walked]:
        """What one query finds in the tree."""
        trace = asked.trace
        text = typed.query if (asked.query.text or "").strip() else asked.query.text
        query = plan(replace(asked.query, text=text, weight=typed.weight))
        roots = self._roots(tree, typed.context_type, asked.targets)
        nodes = Nodes(tree, query, asked.pipeline, trace)
        nodes.is_answer = partial(self._may_be_found, tree, typed.context_type, directories)
        yield from nodes.search(self._weights({}))
        below = tuple(tree.uri(node) for node in roots if node != TOP)
        if not nodes.has_found:
            return _Walked((), below, 0, 0)
        with trace.stage("walk"):
            starts = nodes.starts(roots, self.start_k, self.start_documents)
            yield from nodes.look_ahead(starts)
            judged = yield from nodes.judge(starts)
            named = [(node, "" if node == TOP else tree.uri(node)) for node in roots]
            walk = yield from descend(named, judged, nodes.children, nodes.judge, asked.descent)
        trace.degrade("converged-early" if walk.converged else None)
        hits = yield from nodes.propagated(walk.reached[: self._wanted(query.k)], self.alpha)
        found = [
            _Found(tree.uri(node), node, self._type(tree, node), not tree.is_directory(node), hit) for node, hit in hits
        ]
        return _Walked(tuple(found), below, len(nodes.scored), walk.opened)

    def _may_be_found(self, tree: Tree, context_type: str | None, directories: bool, node: int) -> bool:
        """Whether a node is of the type, and a document or a directory that the call may see the whole of."""
        if context_type is not None and self._type(tree, node) != context_type:
            return False
        return tree.is_document(node) or (directories and tree.is_whole(node))

    def _roots(self, tree: Tree, context_type: str | None, targets: Sequence[str]) -> list[int]:
        """Where the walk begins when nothing better is known: targets, else the type's directories, else the top."""
        if targets:
            return list(dict.fromkeys(chain.from_iterable(targeted(tree, targets))))
        named = self.roots.get(context_type, ()) if context_type is not None else ()
        found = [node for root in named for node in rooted(tree, root)]
        return found or [TOP]

    def _type(self, tree: Tree, node: int) -> str:
        """What a node is: by its metadata, else by the directory of a type that it stands in, else a resource."""
        said = tree.context_type(node)
        if said is not None:
            return said
        path = path_of(tree.uri(node))
        for name, roots in self.roots.items():
            if any(path == root or path.startswith(f"{root}/") for root in map(path_of, roots)):
                return name
        return RESOURCE

    def _wanted(self, k: int) -> int | None:
        """How many of what was reached have to be read; None is all."""
        return None if self.mmr_lambda is not None or self.per_document is not None else k

    def _merged(self, queries: Sequence[TypedQuery], walks: Sequence[_Walked], asked: _Asked) -> Stage[list[_Found]]:
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
        hits = yield from resolve_parents(hits, asked.query, asked.pipeline, asked.trace)
        hits = yield from choose(hits, asked.query, asked.pipeline, asked.trace)
        hits = fit(hits, asked.pipeline.budget, asked.trace)
        return [by_id[(hit.child or hit.chunk).id]._replace(hit=hit) for hit in hits]

    def _described(
        self, found: Sequence[_Found], tree: Tree, asked: _Asked, *, relate: bool
    ) -> Stage[dict[str, FoundContext]]:
        """The contexts, by uri, with abstracts, and with relations where they are wanted."""
        store, scope = cast(Any, self.vector_store), asked.query.scope
        ids = {each.uri: tree.chunks(each.node) for each in found}
        every = list(chain.from_iterable(ids.values()))
        calls = [Call("catalogue", partial(store.read, [of[0] for of in ids.values() if of], scope, {}), quick=True)]
        if relate:
            calls.append(Call("graph", partial(store.edges, every), quick=True))
        answers = yield calls
        for answer in answers:
            asked.trace.degrade(answer.reason if isinstance(answer, Failure) else None)
        read, edges = [{} if isinstance(answer, Failure) else answer for answer in (*answers, {})][:2]
        leaving: dict[str, list[Edge]] = {}
        for edge in edges:
            if edge.relation not in (CONTAINS, SEQUENCE, MENTIONS) and _is_valid(edge, scope):
                leaving.setdefault(edge.source, []).append(edge)
        contexts = {}
        for each in found:
            first = read.get(ids[each.uri][0]) if ids[each.uri] else None
            abstract = str(each.hit.chunk.metadata.get("abstract", "")) if first is None else _abstract([first])
            of = [edge for id in ids[each.uri] for edge in leaving.get(id, ())]
            relations = _relations(each.uri, of, tree) if of else ()
            context = FoundContext(each.uri, each.context_type, each.is_leaf, abstract, each.hit.score, relations)
            contexts[each.uri] = context
        return contexts


_OURS = FindOptions.__annotations__.keys() - CallOptions.__annotations__.keys()


class _Asked(NamedTuple):
    """One call, ready to run."""

    query: Query
    pipeline: Pipeline
    trace: Trace
    deadline: float | None
    awaits: bool
    targets: tuple[str, ...]
    session: _Session | None
    descent: Descent
    described: Callable[[], dict[str, Any]]


class _Found(NamedTuple):
    """A node that one query has found."""

    uri: str
    node: int
    context_type: str
    is_leaf: bool
    hit: Hit


class _Walked(NamedTuple):
    found: tuple[_Found, ...]
    roots: tuple[str, ...]
    scored: int
    opened: int


class _Answer(NamedTuple):
    contexts: tuple[FoundContext, ...]
    plan: tuple[TypedQuery, ...]
    results: tuple[QueryResult, ...]


class _Session(NamedTuple):
    """A conversation: its summary, and a call that gives its messages."""

    summary: str
    messages: Callable[[], Call]


def together(walks: Sequence[Stage[T]]) -> Stage[list[T]]:
    """The results of several searches that wait at the same time."""
    results: dict[int, T] = {}
    sent: dict[int, Any] = dict.fromkeys(range(len(walks)))
    while sent:
        asked: dict[int, Sequence[Call]] = {}
        for place, answer in sent.items():
            try:
                asked[place] = walks[place].send(answer)
            except StopIteration as stop:
                results[place] = stop.value
        answers = iter((yield [call for calls in asked.values() for call in calls]) if asked else ())
        sent = {place: [next(answers) for _ in calls] for place, calls in asked.items()}
    return [results[place] for place in range(len(walks))]


def _with_hit(context: FoundContext, hit: Hit) -> FoundContext:
    return replace(context, score=hit.score, hit=hit)


def _weighed(hit: Hit, weight: float) -> Hit:
    parts = {name: weight * part for name, part in hit.parts.items()}
    return hit if weight == 1 else replace(hit, score=weight * hit.score, parts=parts)


# -- texts --------------------------------------------------------------------------------------------------------


def _abstract(chunks: Sequence[Chunk]) -> str:
    return abstract_of(chunks[0].text, str(chunks[0].metadata.get("title") or "")) if chunks else ""


def _index(chunk: Chunk) -> float:
    index = chunk.metadata.get("chunk_index")
    return index if isinstance(index, int | float) else 0.0


def _text(chunks: Sequence[Chunk]) -> str:
    """The text of a document from its chunks; where they overlap, what they share stands once."""
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


# -- plans and sessions -------------------------------------------------------------------------------------------


def _raw(text: str) -> TypedQuery:
    """The query as it was put, in every type; also one without a text, which only a vector can answer."""
    return TypedQuery(text) if text.strip() else TypedQuery("?")


def _checked_plan(made: Any) -> tuple[TypedQuery, ...]:
    if isinstance(made, str) or not isinstance(made, Sequence) or not all(isinstance(q, TypedQuery) for q in made):
        raise ValueError(f"the planner gave {made!r}; wanted a list of TypedQuery")
    return tuple(sorted(made, key=lambda query: query.priority)[:5])


def _session(session: Any) -> _Session | None:
    """A session in any of its forms; raises ConfigurationError for anything else."""
    if session is None:
        return None
    if isinstance(session, Mapping):
        if unknown := session.keys() - {"summary", "messages"}:
            raise ConfigurationError(f"session has {sorted(map(str, unknown))}; it takes 'summary' and 'messages'")
        inner = _session(session.get("messages") or [])
        assert inner is not None, "a list is a session"
        return inner._replace(summary=str(session.get("summary") or ""))
    if isinstance(session, Sequence) and not isinstance(session, str | bytes):
        messages = list(session)
        return _Session("", lambda: Call("session", lambda: messages, quick=True))
    if hasattr(session, "messages"):
        awaited = getattr(session, "aget_messages", None)
        return _Session("", lambda: Call("session", lambda: list(session.messages), awaited))
    raise ConfigurationError(
        f"session is {session!r}; wanted a BaseChatMessageHistory, a list of messages, or "
        "{'summary': …, 'messages': […]}"
    )


def _of_find(target: Any, k: int | None, options: WalkSettings) -> FindOptions:
    return cast(FindOptions, {**options, "k": k, "target_uri": target})


def _of_search(session: Any, target: Any, k: int | None, options: WalkSettings) -> FindOptions:
    mode = options.get("mode") or "thinking"
    return cast(FindOptions, {**options, "k": k, "target_uri": target, "session": session, "mode": mode})


def _as_options(options: FindSettings, k: int | None) -> FindOptions:
    return cast(FindOptions, {**options, "k": k})
