"""GraphRetriever, a hybrid search that follows edges."""

from dataclasses import replace
from typing import Any, ClassVar

from langchain_core.documents import Document

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion import ingest
from langchain_hybridgraph.options.arguments import GRAPH_ONLY, Options
from langchain_hybridgraph.options.models import PRESETS, GraphFields, GraphPreset, own_score
from langchain_hybridgraph.records import check_texts
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.search.context import Pipeline, TokenBudget
from langchain_hybridgraph.search.expansion import Expansion
from langchain_hybridgraph.search.fusion import Fusion
from langchain_hybridgraph.search.scores import GraphScore
from langchain_hybridgraph.stores.graph import InMemoryGraph
from langchain_hybridgraph.stores.protocols import HasGraph, SearchesVectors, implements
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore


class GraphRetriever(HybridRetriever, GraphFields):
    """Hybrid search that also follows edges from its best hits.

    A :class:`HybridGraphStore` contains its own edges, which ``ingest`` extracts. For any other vector store, pass
    ``edges`` (a list of Edge, or an :class:`InMemoryGraph`). The default traversal leads from the best hits to linked
    chunks, to documents whose titles the hits mention, and to chunks that mention the same rare entities. The default
    score adds the evidence of these edges to the search score, so that the results for simple questions do not get
    worse.

    ``preset`` selects a combination of traversal and score, usually that of a published system. ``graph`` can combine
    any ``traversal`` with any ``score``. If only a traversal is set, its default score is used
    (:func:`~langchain_hybridgraph.options.models.own_score`).

    Without edges, the answer is the same as from a hybrid search, and ``degraded`` contains ``no-graph-store``.

    >>> from langchain_hybridgraph import Edge, HybridGraphStore
    >>> texts = {"ada": "Ada wrote the first program.", "engine": "A machine of brass and steam."}
    >>> store = HybridGraphStore.from_texts(list(texts.values()), "lsa", ids=list(texts))
    >>> _ = store.upsert([], edges=[Edge("ada", "engine", "references", description="For which machine she wrote.")])
    >>> found = GraphRetriever(store, graph={"traversal": "bfs", "seed_k": 1}).retrieve("Who wrote the first program?")
    >>> [(document.id, document.metadata["source_path"]) for document in found]
    [('ada', ['ada']), ('engine', ['ada', 'engine'])]
    """

    _sections: ClassVar[tuple[str, ...]] = (*HybridRetriever._sections, "graph")
    _call_options: ClassVar[frozenset[str]] = HybridRetriever._call_options | GRAPH_ONLY

    @staticmethod
    def _fill(store: HybridGraphStore, documents: list[Document]) -> None:
        ingest(documents, store, split=None)

    # -- settings of the pipeline ---------------------------------------------------------------------------

    @property
    def _graph(self) -> HasGraph | None:
        store, edges = self._store, self.edges
        if isinstance(edges, InMemoryGraph):
            cosines = store.vector_scores if implements(store, SearchesVectors) else None
            return edges.for_store(lambda ids, scope: store.read(ids, scope, {}), cosines)
        graph: Any = store if edges is None else edges
        return graph if implements(graph, HasGraph) else None

    @property
    def _preset(self) -> GraphPreset:
        return PRESETS[self.preset or "evidence"]

    def _requested_score(self, options: Options) -> GraphScore | None:
        """Return the score of the call, ``graph`` or the preset; a traversal in the call is used with its own score."""
        score: GraphScore | None = options["graph"].score
        return self._preset.score if score is None and self.preset is not None else score

    def _expansion(self, options: Options) -> Expansion:
        graph, seed_ids = options["graph"], options.get("seed_ids")
        if seed_ids is not None:
            seed_ids = check_texts("seed_ids", "ids", seed_ids)
            if not seed_ids:
                raise ConfigurationError("seed_ids must not be empty: leave it out to start from the best hits")
        traversal = graph.traversal or self._preset.traversal
        score = self._requested_score(options) or own_score(traversal)
        settings = {"traversal": traversal, "score": score, "seed_ids": seed_ids}
        return Expansion(**graph.shared_with(Expansion) | settings)

    def _pipeline(self, options: Options, callbacks: Any) -> Pipeline:
        graph = self.graph.changed(options.get("graph"))
        pipeline = super()._pipeline({**options, "graph": graph}, callbacks)
        return replace(pipeline, graph_slots=graph.slots) if graph.slots else pipeline

    @property
    def _default_fusion(self) -> Fusion:
        return self._preset.fusion or super()._default_fusion

    @property
    def _default_budget(self) -> TokenBudget | None:
        return self._preset.budget

    def _weights(self, options: Options) -> tuple[float, float]:
        seed_weight = self.graph.changed(options.get("graph")).seed_keyword_weight
        words = self._preset.keyword_weight if seed_weight is None else seed_weight
        of_call = (options.get("semantic_weight"), options.get("keyword_weight"))
        if words is None or (*of_call, self.semantic_weight, self.keyword_weight) != (None, None, None, None):
            return super()._weights(options)
        return 1.0 - words, words
