"""HierarchicalRetriever, a search in a tree of directories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack, cast

from langchain_core.documents import Document

from langchain_hybridgraph.adapters.documents import annotate
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Search, adrive, drive
from langchain_hybridgraph.options.arguments import TREE_ONLY, FindSettings, Options
from langchain_hybridgraph.options.models import HierarchicalFields
from langchain_hybridgraph.records import Scope, query_error
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.base import PreparedSearch, hits_of
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.search import hierarchy
from langchain_hybridgraph.search.context import SearchContext
from langchain_hybridgraph.search.planner import RulePlanner, as_session
from langchain_hybridgraph.stores.protocols import HasTree
from langchain_hybridgraph.stores.tree import Tree

Targets = str | Sequence[str] | None


class HierarchicalRetriever(HybridRetriever, HierarchicalFields):
    """Retriever that searches a tree of directories and documents, from the best directories down.

    The tree is built from the ``uri`` of each chunk. A uri may have any scheme; ``ingest`` sets it for the files of a
    folder. The chunks are in a HybridGraphStore, or in any vector store whose texts can be listed or are passed as
    ``documents``. ``build_layers`` summarises the directories.

    A search starts at the ``start_k`` directories with the best summaries, at the ``start_documents`` best documents of
    the hybrid search and at the directories that contain these documents. It then repeatedly opens the directory with
    the best score. A start point has its hybrid search score. The score of a child is ``alpha`` · its hybrid search
    score + (1 − ``alpha``) · the score of its directory. The search ends when no directory is left, or when opening
    ``max_rounds`` directories in a row has not changed the best k nodes (``converged-early``). A document is returned
    once, with its best chunk.

    :meth:`find` runs one query. :meth:`search` first calls ``planner``, which creates typed queries (for memories,
    resources or skills) from a conversation. The default is :class:`RulePlanner`; :class:`QueryPlanner` uses a chat
    model. ``invoke`` returns the Documents of ``find`` or, with ``session=``, of ``search``. A ``reranker`` scores the
    start points and each level of every search (``mode="thinking"``, the default). With ``mode="quick"``, set for the
    retriever or a call, it is not used.

    A typed query returns only hits of its type. The type of a hit is ``context_type`` in its metadata. If that is
    missing, it is the type whose directories in ``roots`` contain the hit, or else resource. ``roots`` lists
    directories for each type. A typed query without ``target_uri`` searches only the directories of its type, or the
    full tree if none are listed.

    Directories without text of their own can be hits of ``find`` and ``search``, so that an agent can open them, but
    not Documents, because they would displace texts (``include_directories`` in ``tree``). A directory is a hit only if
    all of its contents are in the scope of the call.

    Without summaries, the search starts only from the documents and reports ``no-layers``. Without any directory, a
    hybrid search for documents is run, and ``no-tree`` is reported.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> from langchain_hybridgraph.ingestion.summaries import build_layers
    >>> store = HybridGraphStore(None)
    >>> pages = {"pets/cats.md": "Cats purr.", "pets/dogs.md": "Dogs bark.", "cars/fast.md": "A roadster is fast."}
    >>> _ = ingest([Document(text, metadata={"uri": uri}, id=uri) for uri, text in pages.items()], store)
    >>> _ = build_layers(store)
    >>> retriever = HierarchicalRetriever(store, k=2)
    >>> [(context.uri, context.is_leaf) for context in retriever.find("Which pets purr?")]
    [('pets/cats.md', True), ('pets', False)]
    """

    _sections: ClassVar[tuple[str, ...]] = (*HybridRetriever._sections, "tree")
    _call_options: ClassVar[frozenset[str]] = HybridRetriever._call_options | TREE_ONLY

    def _set_up(self, documents: Iterable[Document] | None) -> None:
        super()._set_up(documents)
        if self.index.adapter is not None and self.index.adapter.texts is None:
            raise ConfigurationError(
                f"the texts of {type(self.vector_store).__name__} cannot be listed, so there is no tree of "
                "directories: pass them as documents=[…], or use a HybridGraphStore"
            )
        fusion = self._default_fusion if self.fusion is None else self.fusion
        if not callable(getattr(fusion, "others", None)):
            raise ConfigurationError(
                f"fusion={type(fusion).__name__} can only rank complete lists, but a tree is scored "
                "level by level: leave fusion= out, or pass 'convex'"
            )

    # -- finding --------------------------------------------------------------------------------------------

    def find(
        self, query: str, target_uri: Targets = None, k: int | None = None, **options: Unpack[FindSettings]
    ) -> hierarchy.FindResult:
        """Return the k best hits for one query in the tree, or below ``target_uri``, without calling the planner.

        Raises the errors of :meth:`retrieve`, and ConfigurationError if nothing matches ``target_uri``.
        """
        return self._find(self._prepare(query, {**options, "k": k, "target_uri": target_uri}, contexts=True))

    async def afind(
        self, query: str, target_uri: Targets = None, k: int | None = None, **options: Unpack[FindSettings]
    ) -> hierarchy.FindResult:
        """Return the same result as :meth:`find`, without blocking the event loop."""
        return await self._afind(self._prepare(query, {**options, "k": k, "target_uri": target_uri}, contexts=True))

    def search(
        self,
        query: str,
        session: Any = None,
        target_uri: Targets = None,
        k: int | None = None,
        **options: Unpack[FindSettings],
    ) -> hierarchy.FindResult:
        """Run the planner's queries for a question and its conversation, and return the k best hits of each type.

        The result has up to k memories, k resources and k skills, even if more hits of one type have higher scores.
        ``session`` is a BaseChatMessageHistory, a list of messages, or ``{"summary": …, "messages": …}``; without a
        session, the planner is not called. Each query has a priority, and the scores of its hits are multiplied by (6 −
        priority) / 5. A hit that several queries find is returned once, with its best score. If the plan is empty, so
        is the result. If the planner fails, the raw query is used (``planner-failed``).
        """
        of_call = {**options, "k": k, "target_uri": target_uri, "session": session}
        return self._find(self._prepare(query, of_call, contexts=True, per_type=True))

    async def asearch(
        self,
        query: str,
        session: Any = None,
        target_uri: Targets = None,
        k: int | None = None,
        **options: Unpack[FindSettings],
    ) -> hierarchy.FindResult:
        """Return the same result as :meth:`search`, without blocking the event loop."""
        of_call = {**options, "k": k, "target_uri": target_uri, "session": session}
        return await self._afind(self._prepare(query, of_call, contexts=True, per_type=True))

    # -- the layers of one directory or document ------------------------------------------------------------

    def abstract(self, uri: str) -> str:
        """Return the abstract (level L0) of a directory or document, up to 256 characters.

        Returns "" for a directory without a summary. Raises ConfigurationError for a uri that does not exist.
        """
        return hierarchy.contents_of(self._store, uri, self._scope({})).abstract

    def overview(self, uri: str) -> str:
        """Return the overview (level L1) of a directory, or the beginning of a document, up to 4,000 characters.

        Raises ConfigurationError for a uri that does not exist.
        """
        return hierarchy.contents_of(self._store, uri, self._scope({})).overview

    def read(self, uri: str) -> str:
        """Return the full text (level L2) of a document, or "" for a directory that is not a document.

        Raises ConfigurationError for a uri that does not exist.
        """
        return hierarchy.contents_of(self._store, uri, self._scope({})).text

    # -- one call -------------------------------------------------------------------------------------------

    def _tree(self, scope: Scope) -> Tree:
        index = self.index
        if index.adapter is not None and index.adapter.freshness is not None:
            index.adapter.freshness.bring_up_to_date(index.refresh)
        return cast(HasTree, self._store).scoped_tree(scope)

    @property
    def _streams_early(self) -> bool:
        return False  # a hierarchical search changes scores at every level

    def _prepare(
        self,
        query: str | None,
        options: Options,
        callbacks: Any = None,
        *,
        contexts: bool = False,
        per_type: bool = False,
    ) -> PreparedSearch:
        if query is not None and not isinstance(query, str):
            raise query_error(query)
        prepared_search = super()._prepare(query, options, callbacks)
        options = {name: value for name, value in options.items() if value is not None}
        pipeline, tree = prepared_search.pipeline, self.tree.changed(options.get("tree"))
        if options.get("mode", self.mode) != "thinking":
            pipeline = replace(pipeline, reranker=None)
        call = hierarchy.HierarchicalCall(
            context=SearchContext(prepared_search.query, pipeline, prepared_search.trace),
            deadline=prepared_search.deadline,
            tree=self._tree,
            options=tree,
            weights=self._weights({}),
            targets=hierarchy.as_targets(options.get("target_uri")),
            session=as_session(options.get("session")),
            planner=RulePlanner() if self.planner is None else self.planner,
            directories=contexts if tree.include_directories is None else tree.include_directories,
            relate=contexts,
            per_type=per_type,
            threshold=options.get("score_threshold", self.score_threshold),
        )
        return replace(prepared_search, tree_call=call)

    def _find(self, prepared_search: PreparedSearch) -> hierarchy.FindResult:
        return drive(self._answer(prepared_search), prepared_search.deadline)

    async def _afind(self, prepared_search: PreparedSearch) -> hierarchy.FindResult:
        return await adrive(self._answer(prepared_search), prepared_search.deadline, self._lane)

    def _answer(self, prepared_search: PreparedSearch) -> Search[hierarchy.FindResult]:
        def scores(answer: hierarchy.FindResult) -> list[tuple[str, float]]:
            return [(context.uri, context.score) for context in answer]

        query, search = prepared_search.query, hierarchy.answer_call(prepared_search.tree_call)
        return (yield from self._observed(search, prepared_search.trace, query.text, query.k, scores))

    def _search(self, prepared_search: PreparedSearch) -> Search[RetrievalResult[Document]]:
        query, trace, prefix = prepared_search.query, prepared_search.trace, self.metadata_prefix
        scores: list[tuple[str, float]] = []

        def run() -> Search[RetrievalResult[Document]]:
            answer = yield from hierarchy.answer_call(prepared_search.tree_call)
            scores.extend((each.uri, each.score) for each in answer)
            hits = [each.hit for each in answer if each.hit is not None]
            documents = annotate(hits, trace.method, trace.reasons, prefix, prepared_search.level)
            if prepared_search.level == "all":
                for document, each in zip(documents, answer, strict=True):
                    for name in ("uri", "context_type", "is_leaf", "abstract"):
                        document.metadata[prefix + name] = getattr(each, name)
            described = prepared_search.plan() | {"queries": [each.plan() for each in answer.query_results]}
            return RetrievalResult(documents, hits=hits, degraded=trace.reasons, took_ms=trace.took_ms, plan=described)

        result = yield from self._observed(run(), trace, query.text, query.k, lambda _: scores)
        trace.results = partial(hits_of, result.hits)
        return result
