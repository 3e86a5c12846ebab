"""GraphRetriever: hybrid search that goes on over the edges between chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, Unpack, cast

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from pydantic import Field, PrivateAttr, field_validator, model_validator

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters import Filter, parse_filter
from langchain_hybridgraph.ingestion import ingest
from langchain_hybridgraph.ingestion.edges.entities import names_in
from langchain_hybridgraph.query.budget import TokenBudget
from langchain_hybridgraph.query.fusion import Fusion, ReciprocalRankFusion
from langchain_hybridgraph.query.graph import (
    BFS,
    Beam,
    BestFirst,
    LinkEvidence,
    PersonalizedPageRank,
    Traversal,
    WaterCircle,
    traversal_from,
)
from langchain_hybridgraph.query.graph.expansion import Candidates, Expansion
from langchain_hybridgraph.query.graph.scores import (
    DistanceDecay,
    GraphScore,
    HopDecay,
    NoisyOr,
    Propagation,
    RingDecay,
    graph_score_from,
)
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.retrievers.base import CallOptions, CallSettings
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.retrievers.settings import GraphSettings, Preset
from langchain_hybridgraph.retrievers.store import HybridGraphStore
from langchain_hybridgraph.retrievers.validation import check_texts
from langchain_hybridgraph.stores.in_memory_graph import InMemoryGraph
from langchain_hybridgraph.stores.protocols import HasGraph, SearchesVectors, implements

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.embeddings import Embeddings


class _Setting(NamedTuple):
    """What a preset stands for; ``keyword_weight`` is the seeds', None that of the embedding."""

    traversal: Traversal
    score: GraphScore
    keyword_weight: float | None = None
    fusion: Fusion | None = None
    budget: TokenBudget | None = None


PRESETS: Mapping[str, _Setting] = MappingProxyType(
    {
        "evidence": _Setting(LinkEvidence(), NoisyOr()),
        "hop_decay": _Setting(BFS(), HopDecay(score_expanded=False), keyword_weight=0.0),
        "distance_decay": _Setting(
            BFS(direction="both"), DistanceDecay(), 0.5, ReciprocalRankFusion(), TokenBudget(max_tokens=4096)
        ),
        "propagation": _Setting(BestFirst(), Propagation()),
        "ring_decay": _Setting(WaterCircle(), RingDecay()),
        "beam": _Setting(Beam(), HopDecay()),
        "pagerank": _Setting(PersonalizedPageRank(direction="both"), NoisyOr()),
    }
)

# Where nobody asks for a score a traversal has that of its preset; two presets have BFS, which has HopDecay's default.
_OWN_SCORES: Mapping[type[Traversal], GraphScore] = MappingProxyType(
    {
        type(PRESETS[name].traversal): PRESETS[name].score
        for name in ("evidence", "propagation", "ring_decay", "beam", "pagerank")
    }
)

# A picture looks for walked chunks among so many hits.
BEYOND = 100

# Shorthand for BFS and HopDecay: the retriever's word, and theirs.
_OF_WALK = MappingProxyType(
    {"max_hops": "max_hops", "relation_filter": "relations", "min_weight": "min_weight", "max_nodes": "max_nodes"}
)
_OF_SCORE = ("vector_weight", "graph_weight", "hop_decay", "score_expanded")
_SHORT = (*_OF_WALK, "bidirectional", *_OF_SCORE)


class GraphRetriever(HybridRetriever):
    """The hits of a hybrid search, and what edges lead to from the best of them.

    Over a :class:`HybridGraphStore` the edges are the store's, which ``ingest`` has made; beside any other vector store
    ``graph`` gives them (a list of Edge, or an :class:`InMemoryGraph`). The default setting looks for what the best
    hits name (titles of other documents, rare entities, links) and weighs it as evidence beside the search's own score,
    so that simple questions lose nothing. ``preset`` takes the setting of another system; ``traversal`` (who is
    visited) and ``score`` (what that is worth) combine at will; a traversal alone has the score of its own preset, see
    :func:`own_score`. ``max_hops``, ``hop_decay`` and their like are shorthand for BFS and HopDecay. Without a graph
    the answer is that of the hybrid search, and ``degraded`` says ``no-graph-store``.

    Raises ValueError (pydantic's ValidationError) for a setting that does not exist or has no usable value, and for
    settings that contradict each other.

    >>> from langchain_hybridgraph import Edge, HybridGraphStore
    >>> texts = {"ada": "Ada wrote the first program.", "engine": "A machine of brass and steam."}
    >>> store = HybridGraphStore.from_texts(list(texts.values()), "lsa", ids=list(texts))
    >>> _ = store.upsert([], edges=[Edge("ada", "engine", "references", description="For which machine she wrote.")])
    >>> found = GraphRetriever(store, max_hops=1, seed_k=1).retrieve("Who wrote the first program?")
    >>> [(document.id, document.metadata["source_path"]) for document in found]
    [('ada', ['ada']), ('engine', ['ada', 'engine'])]
    """

    graph: Any = Field(None, repr=False, description="Edges beside a store that has none: InMemoryGraph or Edges.")
    preset: Preset | None = Field(None, description="The setting of a source system; None is the best one measured.")
    traversal: Any = Field(None, description="Who is visited: a name, a dict or a Traversal.")
    score: Any = Field(None, description="What the visited are worth: a name, a dict or a callable.")
    seed_k: int = Field(10, ge=1, description="The walk begins at so many of the best hits.")
    seed_keyword_weight: float | None = Field(None, ge=0, le=1, description="Weight of the words in finding seeds.")
    seed_filter: Any = Field(None, description="Filter of the seeds alone.")
    seed_labels: frozenset[str] = Field(frozenset(), description="Seeds have one of these labels; empty: any or none.")
    candidates: Candidates = Field(
        "all",
        description="Hits that may come back: all hits of the search, or only seeds and what edges reached (reached).",
    )
    graph_slots: int = Field(0, ge=0, description="So many of the k places are for hits that edges led to.")
    max_hops: int | None = Field(None, ge=0, description="Shorthand: hops of a BFS.")
    bidirectional: bool | None = Field(None, description="Shorthand: whether edges are walked both ways.")
    relation_filter: Any = Field(None, description="Shorthand: the relations that are walked.")
    min_weight: float | None = Field(None, ge=0, le=1, description="Shorthand: lighter edges are not walked.")
    max_nodes: int | None = Field(None, ge=0, description="Shorthand: at most so many chunks are added.")
    vector_weight: float | None = Field(None, ge=0, description="Shorthand: HopDecay's weight of the similarity.")
    graph_weight: float | None = Field(None, ge=0, description="Shorthand: HopDecay's weight of the last edge.")
    hop_decay: tuple[float, ...] | None = Field(None, description="Shorthand: HopDecay's decay per hop.")
    score_expanded: bool | None = Field(None, description="Shorthand: whether expanded chunks' similarity counts.")
    min_traversal_score: float = Field(
        0.0, ge=0, le=1, description="Minimum weight of an edge at which a walk continues, for every traversal."
    )

    _sections: ClassVar[tuple[str, ...]] = ("retriever", "graph")
    _call_options: ClassVar[Set[str]] = frozenset(CallOptions.__annotations__)
    _edges: HasGraph | None = PrivateAttr(None)

    def __init__(
        self,
        vector_store: VectorStore,
        documents: Iterable[Document] | None = None,
        **settings: Unpack[GraphSettings],
    ) -> None:
        super().__init__(vector_store, documents, **cast(Any, settings))
        self._edges = self._found_graph()

    if TYPE_CHECKING:  # the settings of this kind of retriever

        @classmethod
        def from_documents(
            cls,
            documents: Sequence[Document],
            embedding: Embeddings | str | None = None,
            *,
            path: str | Path | None = None,
            **settings: Unpack[GraphSettings],
        ) -> Self:
            """See :class:`HybridRetriever`."""
            ...

        @classmethod
        def from_store(cls, store: VectorStore, **settings: Unpack[GraphSettings]) -> Self:
            """See :class:`HybridRetriever`."""
            ...

        @classmethod
        def from_config(
            cls, path: str | Path | None = None, *, store: VectorStore | None = None, **settings: Unpack[GraphSettings]
        ) -> Self:
            """See :class:`HybridRetriever`."""
            ...

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what the constructor would take."""
        super().__setattr__(name, value)
        if name == "graph":
            self._edges = self._found_graph()

    @field_validator("traversal")
    @classmethod
    def _named_traversal(cls, value: Any) -> Traversal | None:
        return None if value is None else traversal_from(value)

    @field_validator("score")
    @classmethod
    def _named_score(cls, value: Any) -> GraphScore | None:
        return None if value is None else graph_score_from(value)

    @field_validator("seed_filter")
    @classmethod
    def _parsed_seed_filter(cls, value: Any) -> Filter | None:
        return parse_filter(value)

    @field_validator("seed_labels", mode="before")
    @classmethod
    def _listed_labels(cls, value: Any) -> tuple[str, ...]:
        return check_texts("seed_labels", "labels", value)

    @field_validator("relation_filter")
    @classmethod
    def _listed_relations(cls, value: Any) -> tuple[str, ...] | None:
        return None if value is None else check_texts("relation_filter", "relations", value)

    @field_validator("hop_decay", mode="before")
    @classmethod
    def _as_decays(cls, value: Any) -> Any:
        return value if value is None else HopDecay(hop_decay=value).hop_decay

    @field_validator("graph")
    @classmethod
    def _as_graph(cls, value: Any) -> HasGraph | None:
        if value is None or isinstance(value, HasGraph):
            return value
        if isinstance(value, Sequence) and all(isinstance(each, Edge) for each in value):
            return InMemoryGraph(value)
        raise ConfigurationError(f"graph is {value!r:.80}; wanted a list of Edge objects, or an InMemoryGraph")

    @model_validator(mode="after")
    def _check_setting(self) -> Self:
        _ = self._setting
        return self

    @property
    def _setting(self) -> _Setting:
        """What the fields say now: they may be set after construction, as ``configurable_fields`` does."""
        chosen = PRESETS.get(self.preset or "evidence")
        if chosen is None:  # a copy's update is not validated
            raise ConfigurationError(f"preset is {self.preset!r}; wanted one of {', '.join(PRESETS)}")
        short = [name for name in _SHORT if getattr(self, name) is not None]
        if short and (self.traversal is not None or self.score is not None or self.preset is not None):
            other = next(name for name in ("traversal", "score", "preset") if getattr(self, name) is not None)
            raise ConfigurationError(
                f"{short[0]} is shorthand for BFS with HopDecay, so it does not go with {other}=: leave one out, "
                'or give traversal={"type": "bfs", …} and score={"type": "hop_decay", …} with their own parameters'
            )
        if short:
            return _Setting(self._short_walk(), self._short_score())
        walked = chosen.traversal if self.traversal is None else traversal_from(self.traversal)
        if self.score is not None:
            return chosen._replace(traversal=walked, score=graph_score_from(self.score))
        return chosen._replace(traversal=walked, score=chosen.score if self._asks_score else own_score(walked))

    @property
    def _asks_score(self) -> bool:
        """Whether a setting says what the visited are worth."""
        return any(getattr(self, name) is not None for name in ("score", "preset", *_SHORT))

    def _short_walk(self) -> BFS:
        given = {theirs: value for ours, theirs in _OF_WALK.items() if (value := getattr(self, ours)) is not None}
        return BFS(direction="both" if self.bidirectional else "out", **given)

    def _short_score(self) -> HopDecay:
        return HopDecay(**{name: value for name in _OF_SCORE if (value := getattr(self, name)) is not None})

    def _found_graph(self) -> HasGraph | None:
        store = self._store
        if self.graph is None:
            return store if implements(store, HasGraph) else None
        if isinstance(self.graph, InMemoryGraph):
            cosines = store.vector_scores if implements(store, SearchesVectors) else None
            return self.graph.beside(lambda ids, scope: store.read(ids, scope, {}), cosines)
        graph: HasGraph = self.graph
        return graph

    # -- seeing -----------------------------------------------------------------------------------------------

    def picture(
        self,
        query: str | None,
        k: int | None = None,
        *,
        interactive: bool = False,
        width: float = 10.0,
        nodes: int = 25,
        **options: Unpack[CallSettings],
    ) -> Any:
        """A picture of the k best hits, the edges that led to them, and what else was walked to.

        It is a matplotlib Figure, see :func:`~langchain_hybridgraph.display.draw`; with ``interactive`` one of plotly,
        in which pointing at a chunk shows its text and the reasons. Asks twice: for k, and for what lies beyond. The
        options and errors are those of :meth:`retrieve`, and ConfigurationError for a size that cannot be drawn or
        without the library: ``pip install "langchain-hybridgraph[notebook]"``.
        """
        from langchain_hybridgraph import display

        draw = display.interactive if interactive else display.draw
        answer = self.retrieve(query, k, **options)
        return draw(answer, self.retrieve(query, max(len(answer), BEYOND), **options), width=width, nodes=nodes)

    @staticmethod
    def _fill(store: HybridGraphStore, documents: list[Document]) -> None:
        ingest(documents, store, split=None)

    # -- settings of the pipeline ---------------------------------------------------------------------------

    @property
    def _graph(self) -> HasGraph | None:
        return self._edges

    def _expansion(self, options: CallOptions) -> Expansion:
        traversal, score = options.get("traversal"), options.get("score")
        seed_ids, seed_k = options.get("seed_ids"), options.get("seed_k")
        walked = self._setting.traversal if traversal is None else traversal_from(traversal)
        unasked = self._setting.score if self._asks_score else own_score(walked)
        return Expansion(
            traversal=walked,
            score=unasked if score is None else graph_score_from(score),
            seed_k=self.seed_k if seed_k is None else seed_k,
            seed_filter=self.seed_filter,
            seed_labels=self.seed_labels,
            seed_ids=None if seed_ids is None else check_texts("seed_ids", "ids", seed_ids),
            candidates=options.get("candidates") or self.candidates,
            min_weight=self.min_traversal_score,
            names=names_in,
        )

    def _graph_slots(self, options: CallOptions) -> int:
        slots = options.get("graph_slots")
        return self.graph_slots if slots is None else slots

    def _default_fusion(self) -> Fusion:
        return self._setting.fusion or super()._default_fusion()

    def _budget(self, options: CallOptions) -> TokenBudget | None:
        return super()._budget(options) or self._setting.budget

    def _weights(self, options: CallOptions) -> tuple[float, float]:
        words = self._setting.keyword_weight if self.seed_keyword_weight is None else self.seed_keyword_weight
        named = (
            options.get("semantic_weight"),
            options.get("keyword_weight"),
            self.semantic_weight,
            self.keyword_weight,
        )
        if words is None or any(weight is not None for weight in named):
            return super()._weights(options)
        return 1.0 - words, words


def own_score(traversal: Traversal) -> GraphScore:
    """What a traversal's visited are worth where neither ``score`` nor a preset says so.

    It is the score of the preset that has a traversal of this type; HopDecay for BFS, as in the shorthand, and for an
    object of one's own.

    >>> own_score(LinkEvidence(sources=3)), own_score(BFS(max_hops=1)) == HopDecay()
    (NoisyOr(strength=1.0), True)
    """
    return next((score for kind, score in _OWN_SCORES.items() if isinstance(traversal, kind)), HopDecay())
