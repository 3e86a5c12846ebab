"""GraphRetriever, a hybrid search that follows edges."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from pydantic import PrivateAttr, model_validator

from langchain_hybridgraph.display.picture import NODES, SEARCHED_HITS, WIDTH
from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.ingestion import ingest
from langchain_hybridgraph.options.calls import CallOptions, CallSettings
from langchain_hybridgraph.options.graph import GraphArguments, GraphFields, GraphOptions, shorthand_of
from langchain_hybridgraph.options.graph_presets import GraphPreset, own_score, preset_of
from langchain_hybridgraph.options.validation.arguments import check_texts
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.search.expansion import Expansion
from langchain_hybridgraph.search.fusion import Fusion
from langchain_hybridgraph.search.selection import TokenBudget
from langchain_hybridgraph.search.traversals import Traversal
from langchain_hybridgraph.stores.in_memory_graph import InMemoryGraph
from langchain_hybridgraph.stores.protocols import HasFastLookups, HasGraph, ReadsIndex, SearchesVectors, implements
from langchain_hybridgraph.text.names import names_in
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.embeddings import Embeddings


# Options of ``graph`` that a call replaces instead of merging them, because a call's traversal has its own default
# score.
_STAGES = frozenset({"traversal", "score"})
_UNSET = GraphOptions()


class GraphRetriever(HybridRetriever, GraphFields):
    """Hybrid search that also follows edges from its best hits.

    A :class:`HybridGraphStore` contains its own edges, which ``ingest`` extracts. For any other vector store, pass
    ``edges`` (a list of Edge, or an :class:`InMemoryGraph`). The default traversal leads from the best hits to linked
    chunks, to documents whose titles the hits mention, and to chunks that mention the same rare entities. The default
    score adds the evidence of these edges to the search score, so that the results for simple questions do not get
    worse.

    ``preset`` selects a combination of traversal and score, usually that of a published system. ``graph`` can combine
    any ``traversal`` with any ``score``. If only a traversal is set, its default score is used
    (:func:`~langchain_hybridgraph.options.graph_presets.own_score`). ``max_hops`` and some options of ``graph``, such
    as ``hop_decay``, are shorthand: they select the traversal BFS and the score HopDecay, with these parameters.

    Without edges, the answer is the same as from a hybrid search, and ``degraded`` contains ``no-graph-store``. For a
    vector store without edges, the constructor issues a Python warning. It also warns if a list of ``edges`` contains
    ids that are not in the store, but skips this check if looking up the ids may be slow.

    Raises ValueError (pydantic's ValidationError) for an unknown option, for an invalid value, and for options that
    contradict each other.

    >>> from langchain_hybridgraph import Edge, HybridGraphStore
    >>> texts = {"ada": "Ada wrote the first program.", "engine": "A machine of brass and steam."}
    >>> store = HybridGraphStore.from_texts(list(texts.values()), "lsa", ids=list(texts))
    >>> _ = store.upsert([], edges=[Edge("ada", "engine", "references", description="For which machine she wrote.")])
    >>> found = GraphRetriever(store, max_hops=1, graph={"seed_k": 1}).retrieve("Who wrote the first program?")
    >>> [(document.id, document.metadata["source_path"]) for document in found]
    [('ada', ['ada']), ('engine', ['ada', 'engine'])]
    """

    _sections: ClassVar[tuple[str, ...]] = (*HybridRetriever._sections, "graph")
    _call_options: ClassVar[Set[str]] = frozenset(CallOptions.__annotations__)
    _needs_edges: ClassVar[bool] = True
    """Whether the constructor warns about a store without edges."""
    _graph_store: HasGraph | None = PrivateAttr(None)

    def __init__(
        self,
        vector_store: VectorStore,
        documents: Iterable[Document] | None = None,
        **settings: Unpack[GraphArguments],
    ) -> None:
        super().__init__(vector_store, documents, **cast(Any, settings))
        self._graph_store = self._graph_of_edges()
        if self._graph_store is None and self._needs_edges:
            name = type(self).__name__
            warnings.warn(
                f"{type(vector_store).__name__} has no edges, so the answers are the same as from a HybridRetriever: "
                f"pass {name}(vector_store, edges=[Edge(…), …]), or ingest the documents into a HybridGraphStore",
                stacklevel=2,
            )
        if isinstance(self.edges, InMemoryGraph) and self.edges is not settings.get("edges"):
            self._warn_of_missing_ids(self.edges)

    if TYPE_CHECKING:  # the settings of this kind of retriever

        @classmethod
        def from_documents(
            cls,
            documents: Sequence[Document],
            embedding: Embeddings | str | None = None,
            *,
            path: str | Path | None = None,
            language: str = "english",
            **settings: Unpack[GraphArguments],
        ) -> Self:
            """Create a GraphRetriever; see :meth:`HybridRetriever.from_documents`."""
            ...

        @classmethod
        def from_store(cls, store: VectorStore, **settings: Unpack[GraphArguments]) -> Self:
            """Create a GraphRetriever; see :meth:`HybridRetriever.from_store`."""
            ...

        @classmethod
        def from_config(
            cls, path: str | Path | None = None, *, store: VectorStore | None = None, **settings: Unpack[GraphArguments]
        ) -> Self:
            """Create a GraphRetriever; see :meth:`HybridRetriever.from_config`."""
            ...

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an option, with the same checks as in the constructor."""
        super().__setattr__(name, value)
        if name == "edges":
            self._graph_store = self._graph_of_edges()

    @model_validator(mode="after")
    def _check_preset(self) -> Self:
        self._preset({})
        return self

    def _graph_of_edges(self) -> HasGraph | None:
        store = self._store
        if self.edges is None:
            return store if implements(store, HasGraph) else None
        if isinstance(self.edges, InMemoryGraph):
            cosines = store.vector_scores if implements(store, SearchesVectors) else None
            return self.edges.for_store(lambda ids, scope: store.read(ids, scope, {}), cosines)
        graph: HasGraph = self.edges
        return graph

    def _warn_of_missing_ids(self, graph: InMemoryGraph) -> None:
        """Warn if edges lead from or to ids that are not in the store.

        The check is skipped if looking up the ids may be slow.
        """
        store, adapter, ids = self._store, self.index.adapter, graph.chunk_ids()
        if adapter is not None and adapter.texts is not None:
            existing: Collection[str] = adapter.stored_ids | adapter.texts.chunks.keys()
        elif implements(store, ReadsIndex) and implements(store, HasFastLookups) and store.has_fast_lookups:
            existing = {chunk.id for chunk in store.get(ids)}
        else:
            return
        if missing := [id for id in ids if id not in existing]:
            first = ", ".join(map(quote_value, missing[:3])) + ", …" * (len(missing) > 3)
            warnings.warn(
                f"{len(missing):,} of the ids in edges= are not in the store ({first}); edges to or from them have no "
                "effect until texts with these ids are added",
                stacklevel=3,
            )

    # -- drawing ----------------------------------------------------------------------------------------------

    def picture(
        self,
        query: str | None,
        k: int | None = None,
        *,
        width: float = WIDTH,
        nodes: int = NODES,
        **options: Unpack[CallSettings],
    ) -> Any:
        """Draw the k best hits, the edges that led to them, and other chunks that the traversal visited.

        Returns a matplotlib Figure (see :func:`~langchain_hybridgraph.display.draw`). Two searches are run: one for the
        k hits, and one that also finds other chunks. They take the options of :meth:`retrieve` and raise its errors.

        Also raises ConfigurationError if the size is invalid, or if matplotlib or networkx is missing: ``pip install
        "langchain-hybridgraph[notebook]"``.
        """
        from langchain_hybridgraph import display

        answer = self.retrieve(query, k, **options)
        return display.draw(
            answer, self.retrieve(query, max(len(answer), SEARCHED_HITS), **options), width=width, nodes=nodes
        )

    @staticmethod
    def _fill(store: HybridGraphStore, documents: list[Document]) -> None:
        ingest(documents, store, split=None)

    # -- settings of the pipeline ---------------------------------------------------------------------------

    @property
    def _graph(self) -> HasGraph | None:
        return self._graph_store

    def _graph_options(self, options: CallOptions) -> GraphOptions:
        """Return the retriever's ``graph`` options, updated with those of the call.

        The call's ``traversal`` and ``score`` are not included.
        """
        call_options = options.get("graph")
        if call_options is None:
            return self.graph
        graph_options = _UNSET.changed(call_options)
        return self.graph.changed(
            {name: getattr(graph_options, name) for name in graph_options.model_fields_set - _STAGES}
        )

    def _preset(self, options: CallOptions) -> GraphPreset:
        return preset_of(self.preset, self.max_hops, self._graph_options(options))

    def _sets_score(self, options: CallOptions) -> bool:
        """Return whether ``score``, ``preset`` or a shorthand such as ``max_hops`` sets the graph score."""
        graph, call_options = self._graph_options(options), _UNSET.changed(options.get("graph"))
        own = graph.score is not None or self.preset is not None or bool(shorthand_of(self.max_hops, graph))
        return own or call_options.score is not None

    def _requested_traversal(self, options: CallOptions) -> Traversal | None:
        call_traversal: Traversal | None = _UNSET.changed(options.get("graph")).traversal
        own: Traversal | None = self.graph.traversal
        return call_traversal or own

    def _expansion(self, options: CallOptions) -> Expansion:
        graph, preset = self._graph_options(options), self._preset(options)
        call_options, seed_ids = _UNSET.changed(options.get("graph")), options.get("seed_ids")
        traversal = call_options.traversal or preset.traversal
        score = preset.score if self._sets_score(options) else own_score(traversal)
        return Expansion(
            traversal=traversal,
            score=call_options.score or score,
            seed_k=graph.seed_k,
            seed_filter=graph.seed_filter,
            seed_labels=graph.seed_labels,
            seed_ids=None if seed_ids is None else check_texts("seed_ids", "ids", seed_ids),
            candidates=graph.candidates,
            min_weight=graph.min_traversal_score,
            names=names_in,
        )

    def _graph_slots(self, options: CallOptions) -> int:
        return self._graph_options(options).slots

    def _default_fusion(self) -> Fusion:
        return self._preset({}).fusion or super()._default_fusion()

    def _budget(self, options: CallOptions) -> TokenBudget | None:
        return super()._budget(options) or self._preset(options).budget

    def _weights(self, options: CallOptions) -> tuple[float, float]:
        seed_weight = self._graph_options(options).seed_keyword_weight
        words = self._preset(options).keyword_weight if seed_weight is None else seed_weight
        weights = (
            options.get("semantic_weight"),
            options.get("keyword_weight"),
            self.semantic_weight,
            self.keyword_weight,
        )
        if words is None or any(weight is not None for weight in weights):
            return super()._weights(options)
        return 1.0 - words, words
