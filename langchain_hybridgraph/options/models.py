"""Options of all retrievers: types, defaults, ranges and descriptions.

A retriever inherits the fields of its options, so the same declaration is an argument of its constructor, an attribute,
a key of the settings file, an environment variable, and a row in the documentation. Options that belong together are
in a group, which a retriever takes as an object or a mapping; a call can change single options of a group.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self

from langchain_core.retrievers import BaseRetriever
from pydantic import BeforeValidator, Field, InstanceOf, NonNegativeFloat, PlainSerializer, PrivateAttr, model_validator

from langchain_hybridgraph.chunks import plain_uri
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.memory_scores import Composite, Hotness, Novelty
from langchain_hybridgraph.options import base
from langchain_hybridgraph.options.base import GroupOf, Notation, OptionGroup, OptionModel, group_field, stage_notation
from langchain_hybridgraph.options.objects import EXPANDERS, PLANNERS, RERANKERS, as_reranker
from langchain_hybridgraph.records import ALL_TIME, Annotate, Edge
from langchain_hybridgraph.registry import from_config
from langchain_hybridgraph.search import scores
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.search.conversation import HistoryTerms
from langchain_hybridgraph.search.evidence import LinkEvidence
from langchain_hybridgraph.search.expansion import TRAVERSALS, Candidates, traversal_from
from langchain_hybridgraph.search.fusion import FUSIONS, Fusion, ReciprocalRankFusion, fusion_from
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.planner import MEMORY, RESOURCE, SKILL
from langchain_hybridgraph.search.traversals import BFS, Beam, BestFirst, Traversal, WaterCircle
from langchain_hybridgraph.settings_file import K_DEFAULT, K_LEAST, MIN_SCORE, K
from langchain_hybridgraph.stores.graph import InMemoryGraph
from langchain_hybridgraph.stores.keyword_engine import Engine
from langchain_hybridgraph.stores.protocols import HasGraph
from langchain_hybridgraph.telemetry import check_sink, logger_from
from langchain_hybridgraph.text.analyzer import language_name
from langchain_hybridgraph.times import parse_time

# -- presets of graph search, and modes of memory search --------------------------------------------------------


class GraphPreset(NamedTuple):
    """Graph traversal and graph score that fit together, with related search settings.

    ``keyword_weight`` is that of the search for seeds; None: it depends on the embedding.
    """

    traversal: Traversal
    score: scores.GraphScore
    keyword_weight: float | None = None
    fusion: Fusion | None = None
    budget: TokenBudget | None = None


Preset = Literal["evidence", "hop_decay", "distance_decay", "propagation", "ring_decay", "beam", "pagerank"]
PRESETS: Mapping[str, GraphPreset] = MappingProxyType(
    {
        "evidence": GraphPreset(LinkEvidence(), scores.NoisyOr()),
        "hop_decay": GraphPreset(BFS(), scores.HopDecay(score_expanded=False), keyword_weight=0.0),
        "distance_decay": GraphPreset(
            BFS(direction="both"), scores.DistanceDecay(), 0.5, ReciprocalRankFusion(), TokenBudget(max_tokens=4096)
        ),
        "propagation": GraphPreset(BestFirst(), scores.Propagation()),
        "ring_decay": GraphPreset(WaterCircle(), scores.RingDecay()),
        "beam": GraphPreset(Beam(), scores.HopDecay()),
        "pagerank": GraphPreset(PersonalizedPageRank(direction="both"), scores.NoisyOr()),
    }
)
"""The presets by name."""


def own_score(traversal: Traversal) -> scores.GraphScore:
    """Return the score that a traversal uses if neither a score nor a preset is set.

    For BFS and for custom traversals, the score is HopDecay. Any other traversal uses the score of its preset.

    >>> own_score(LinkEvidence(sources=3)), own_score(BFS(max_hops=1)) == scores.HopDecay()
    (NoisyOr(strength=1.0), True)
    """
    for preset in PRESETS.values():
        if isinstance(traversal, type(preset.traversal)) and not isinstance(traversal, BFS):
            return preset.score
    return scores.HopDecay()


@dataclass(frozen=True, kw_only=True)
class Mode(Composite):
    """Settings of a memory search: the weights in a memory's score, and the graph traversal."""

    traversal: Traversal

    def __post_init__(self) -> None:
        Composite.__post_init__(self)
        object.__setattr__(self, "traversal", traversal_from(self.traversal))


_belief = partial(Mode, similarity=0.30, confidence=0.45, utility=0.05, decay_per_hour=0.03)
_agent = partial(Mode, similarity=0.35, confidence=0.20, recency=0.25, utility=0.20)
_procedural = partial(Mode, confidence=0.40, recency=0.15, utility=0.05, decay_per_hour=0.001)
CHANGES: Mapping[str, Callable[..., Mode]] = MappingProxyType(
    {
        "general": partial(Mode, traversal=WaterCircle(max_hops=3, direction="both")),
        "belief_system": partial(_belief, traversal=WaterCircle(max_hops=4, direction="both")),
        "agent_memory": partial(_agent, traversal=Beam(max_hops=2, direction="both")),
        "procedural": partial(_procedural, traversal=BFS(max_hops=3, direction="both")),
    }
)
"""Functions that return a mode with some of its values changed, by the name of the mode."""
MODES: Mapping[str, Mode] = MappingProxyType({name: create() for name, create in CHANGES.items()})
"""Modes by name. All of them follow edges in both directions."""


def mode_from(form: str | Mapping[str, Any] | Mode) -> Mode:
    """Return a Mode, or the mode for a name or a mapping of its ``type`` and the values to change.

    Raises ConfigurationError for an unknown name or parameter and for an invalid value.

    >>> mode_from({"type": "procedural", "recency": 0.3}).recency
    0.3
    """
    if isinstance(form, str) and form in MODES:  # creating a mode takes 0.1 ms of each search
        return MODES[form]
    return from_config("mode", form, CHANGES, lambda value: isinstance(value, Mode))


# -- values that are objects ----------------------------------------------------------------------------------


def _language(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError
    language_name(value)
    return value


def _time(value: Any) -> Any:
    return value if value is ALL_TIME else parse_time(value)


def _labels(value: Any) -> Any:
    return frozenset([value]) if isinstance(value, str) else () if value is None else value


def _graph(value: Any) -> HasGraph:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(each, Edge) for each in value):
        return InMemoryGraph(value)
    if not isinstance(value, HasGraph):
        raise ValueError
    return value


def _tracer(value: Any) -> Any:
    if not callable(getattr(value, "start_span", None)):
        raise ValueError
    return value


def _sinks(value: Sequence[Any]) -> tuple[Any, ...]:
    for sink in value:
        check_sink(sink)
    return tuple(value)


Edges = Annotated[Any, Notation("a list of Edge objects, or an InMemoryGraph", _graph)]
FilterOption = Annotated[Any, Notation("a mapping such as {year: {$gte: 2020}}", parse_filter, [{"type": "object"}])]
_TIME_FORM = "a time such as 2024-05-01 or 2024-05-01T10:00:00Z, or Unix seconds"
TimeOption = Annotated[Any, Notation(_TIME_FORM, _time, [{"type": ["string", "number"]}])]
_LANGUAGE_FORM = "a language such as german, its ISO code, multilingual, cjk or none"
LanguageOption = Annotated[Any, Notation(_LANGUAGE_FORM, _language, [{"type": "string"}])]
Labels = Annotated[frozenset[str], BeforeValidator(_labels), PlainSerializer(sorted, when_used="json")]
FusionOption = Annotated[Any, stage_notation("fusion", FUSIONS, fusion_from)]
TraversalOption = Annotated[Any, stage_notation("traversal", TRAVERSALS, traversal_from)]
ScoreOption = Annotated[Any, stage_notation("score", scores.GRAPH_SCORES, scores.graph_score_from)]
RerankerOption = Annotated[Any, stage_notation("reranker", RERANKERS, as_reranker, allows_factories=True)]
PlannerOption = Annotated[Any, stage_notation("planner", PLANNERS, allows_factories=True)]
ExpanderOption = Annotated[Any, stage_notation("expander", EXPANDERS, allows_factories=True)]
ModeOption = Annotated[Any, stage_notation("mode", CHANGES, mode_from)]
_TOKENS = {"type": "integer", "minimum": 1}
BudgetOption = Annotated[Any, base.parameters_notation("budget", TokenBudget, "an integer ≥ 1, or ", _TOKENS)]
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
HotnessOption = Annotated[Any, base.parameters_notation("hotness", Hotness, "a number from 0 to 1, or ", _SHARE)]
NoveltyOption = Annotated[Any, base.parameters_notation("novelty", Novelty)]
SourceWeights = Annotated[
    Mapping[Literal["vector", "keyword", "graph", "session"], NonNegativeFloat],
    Notation("a mapping of vector, keyword, graph and session to numbers ≥ 0", dict),
]
Roots = Annotated[
    Mapping[str, Sequence[str]],
    Notation(
        "a mapping such as {memory: [user/memories]}",
        lambda roots: {name: tuple(map(plain_uri, uris)) for name, uris in roots.items()},
    ),
]


# -- options of every retriever -------------------------------------------------------------------------------


class SelectionOptions(OptionGroup):
    """Options for the search depth and the choice of hits: diversity and limits.

    >>> selection = SelectionOptions(mmr_lambda=0.7).changed({"max_per_document": 2})
    >>> selection.mmr_lambda, selection.max_per_document
    (0.7, 2)
    """

    mmr_lambda: float | None = Field(default=None, ge=0, le=1)
    """Diversity by maximal marginal relevance, from 1 (score only) to 0 (diversity only); unset: off."""
    max_per_document: int | None = Field(default=None, ge=1)
    """Maximum number of hits per document; unset: no limit."""
    budget: BudgetOption = None
    """Maximum number of tokens of all results; no text is cut. Unset: no limit, or the budget of the preset."""
    overfetch: int = Field(default=3, ge=1)
    """Number of candidates per source, as a multiple of k; at least 100 are fetched."""
    rerank_depth: int = Field(default=50, ge=1)
    """Number of the best hits to rerank."""


class TelemetryOptions(OptionGroup):
    """Options for the tracer, logger and sinks that receive the events of one retriever.

    Sinks that ``add_sink`` registered for the process receive these events, too.

    >>> TelemetryOptions(logger="search").logger.name
    'search'
    """

    tracer: Annotated[Any, Notation('a tracer: pass opentelemetry.trace.get_tracer("…")', _tracer)] = None
    """OpenTelemetry tracer, which receives a span per search and stage."""
    logger: Annotated[Any, Notation("a logger or its name", logger_from)] = None
    """Logger or its name, which receives a line per search."""
    sinks: Annotated[Sequence[Any], Notation("a list of sinks", _sinks)] = ()
    """Callables that receive every event."""


class PipelineFields(OptionModel):
    """Options of the search pipeline."""

    k: int = Field(default=K_DEFAULT, ge=K_LEAST, description=K)
    filter: FilterOption = None
    """Filter of every call; the filter of a call is applied in addition."""
    tenant: str | None = None
    """Tenant whose chunks the retriever sees."""
    as_of: TimeOption = None
    """Point in time to search as of; unset: now."""
    min_score: float = Field(default=0.0, ge=0, le=1, description=MIN_SCORE)
    fusion: FusionOption = None
    """Fusion of the ranked lists of the sources; unset: the default of the retriever."""
    reranker: RerankerOption = None
    """Reranker, which scores each hit together with the query; unset: none."""
    return_parents: bool = True
    """Whether to return the parent of a matching child, if it has one."""
    deadline_ms: float | None = Field(default=None, gt=0)
    """Time limit per source in milliseconds. Slower sources are left out and reported; unset: no limit."""
    on_error: Literal["degrade", "empty", "raise"] = "degrade"
    """If a source fails: use the others (degrade; empty: also if all fail), or raise at the first failure (raise)."""
    annotate: Annotate = "none"
    """Metadata of the Documents that invoke returns: as stored (none), with the score, or with all details (all)."""
    metadata_prefix: str = ""
    """Prefix of the keys that retrieval adds to metadata."""
    selection: GroupOf[SelectionOptions] = group_field(SelectionOptions)
    """Diversity, limits and depth of the search."""


# -- HybridRetriever ------------------------------------------------------------------------------------------

# Default weights of (vector, keyword). benchmarks/README.md describes how they were chosen.
WEIGHTS = (0.7, 0.3)
LSA_WEIGHTS = (0.4, 0.6)
# Weights for LSA if it is fitted to at most SMALL_STORE texts; see benchmarks/small_memory.md.
SMALL_STORE = 200
SMALL_STORE_WEIGHTS = (0.6, 0.4)


class IndexOptions(OptionGroup):
    """Options of the keyword index over the texts of a vector store, or over the Documents passed to a retriever.

    The object also holds the index that was built with these options. When LangChain's ``configurable_fields`` copies a
    retriever at run time, the copy uses this index instead of building another one.
    """

    engine: Engine = "tantivy"
    """Search engine of the keyword index."""
    language: LanguageOption = "english"
    """Language of stemming and stop words."""
    id_key: str | None = None
    """Metadata key with the id of a Document; unset: the id in the Document or in the vector store."""
    equal_texts: Literal["once", "each"] = "once"
    """Whether copies of a text, with equal metadata and different ids, are one text (once) or several (each)."""
    path: Path | None = None
    """Folder of the keyword index; unset: memory. In a settings file, a relative path starts at the file's folder."""
    refresh: Literal["auto", "never"] | NonNegativeFloat = "auto"
    """When to compare the index with the vector store: at each search (auto), never, or each time after n seconds."""
    _adapter: Any = PrivateAttr(None)

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.path is not None and self.engine != "tantivy":
            raise ValueError(f"path is for the engine 'tantivy', got engine={self.engine!r}: leave one of them out")
        return self

    @property
    def adapter(self) -> Any:
        """Vector store with the keyword index that a retriever has built for it; None before it is built."""
        return self._adapter

    def built(self, adapter: Any) -> Self:
        """Return a copy of these options that also holds the index built with them."""
        copy = self.model_copy()
        copy._adapter = adapter
        return copy


class HybridFields(OptionModel):
    """Options that a HybridRetriever adds to those of :class:`PipelineFields`."""

    keyword_retriever: InstanceOf[BaseRetriever] | None = None
    """Retriever to use for the keyword search, instead of an index."""
    semantic_weight: float | None = Field(default=None, ge=0)
    """Weight of the vector search; unset: 1 minus keyword_weight, or without both, a weight for the embedding."""
    keyword_weight: float | None = Field(default=None, ge=0)
    """Weight of the keyword search; unset: see semantic_weight."""
    index: GroupOf[IndexOptions] = group_field(IndexOptions, repr=False)
    """Keyword index for a vector store that has none, or for documents."""


# -- GraphRetriever -------------------------------------------------------------------------------------------


class GraphOptions(OptionGroup):
    """Options of a graph search: seeds, traversal, score, and selection among the visited chunks.

    >>> GraphOptions(traversal="beam", seed_k=3).traversal.width
    10
    """

    traversal: TraversalOption = None
    """Algorithm that selects the chunks to visit; unset: the traversal of the preset."""
    score: ScoreOption = None
    """Score of the visited chunks; unset: the score of the preset or of the traversal."""
    seed_k: int = Field(default=10, ge=1)
    """Maximum number of hits to use as seeds, the best first; ``seed_ids`` replaces them."""
    seed_keyword_weight: float | None = Field(default=None, ge=0, le=1)
    """Weight of the keyword search when seeds are searched for; unset: the weight of the preset."""
    seed_filter: FilterOption = None
    """Filter of the seeds only."""
    seed_labels: Labels = frozenset()
    """Labels of seeds; a seed must have at least one of them. Empty: no restriction."""
    candidates: Candidates = "all"
    """Candidates for results: all hits of the search (all), or only seeds and chunks reached by edges (reached)."""
    slots: int = Field(default=0, ge=0)
    """Number of the k results reserved for hits found through the graph."""


class GraphFields(OptionModel):
    """Options that a graph retriever has in addition to those of a hybrid retriever."""

    edges: Edges = Field(default=None, repr=False)
    """Edges for a store that has none: a list of Edge, or an InMemoryGraph."""
    preset: Preset | None = None
    """Combination of traversal and score, most of them from a published system; unset: evidence."""
    graph: GroupOf[GraphOptions] = group_field(GraphOptions)
    """Seeds, traversal and scores."""


# -- MemoryRetriever ------------------------------------------------------------------------------------------


class MemoryOptions(OptionGroup):
    """Options of memory search: how much sources, usage, repetition and dates affect the score.

    >>> MemoryOptions(hotness=0.3).hotness.half_life_days
    7.0
    """

    session_turns: int = Field(default=10, ge=0)
    """Number of the last turns of the session to use."""
    source_weights: SourceWeights = Field(default={"vector": 0.45, "graph": 0.40, "session": 0.15})
    """Weights of the sources. Without a weight of its own, keyword shares the weight of vector."""
    hotness: HotnessOption = None
    """Weight of the frequency and recency of a memory's use; unset: 0."""
    novelty: NoveltyOption = Novelty()
    """Down-weighting of memories that repeat the session; a floor of 1 turns it off."""
    date_boost: float = Field(default=0.3, ge=0, le=1)
    """Weight of a match between a memory's time and a date in the question."""


class MemoryFields(OptionModel):
    """Options that only a memory retriever has."""

    mode: ModeOption = None
    """Weights of a memory's score, and the traversal; unset: the mode set in the store (set_mode), or general."""
    labels: Labels = frozenset()
    """Labels of memories; a hit must have all of them."""
    known_at: TimeOption = None
    """Point in time up to which stored knowledge is used; unset: now."""
    session: Any = Field(default=None, repr=False, exclude=True)
    """Conversation: a chat history or a list of messages."""
    session_id: str | None = None
    """Id of the session, in a store that keeps sessions."""
    memory: GroupOf[MemoryOptions] = group_field(MemoryOptions)
    """Effect of sources, usage, repetition and dates on the score."""


# -- HierarchicalRetriever ------------------------------------------------------------------------------------


class TreeOptions(OptionGroup):
    """Options for searching the tree: where the search starts, how scores propagate, and when it ends.

    >>> TreeOptions(roots={"memory": ["user/memories/"]}).roots
    {'memory': ('user/memories',)}
    """

    alpha: float = Field(default=0.5, ge=0, le=1)
    """Weight of a node's own score; its directory's score has the remaining weight."""
    start_k: int = Field(default=3, ge=1)
    """Number of the best directories to start from."""
    start_documents: int = Field(default=3, ge=0)
    """Number of the best documents to start from, together with their directories."""
    max_rounds: int = Field(default=3, ge=1)
    """Number of rounds without a change of the best k after which the search ends; a round opens one directory."""
    roots: Roots = Field(
        default={MEMORY: ("user/memories", "agent/memories"), RESOURCE: ("resources",), SKILL: ("agent/skills",)}
    )
    """Root directories of each type, below any scheme."""
    include_directories: bool | None = None
    """Whether directories without text of their own can be hits; unset: only in find and search."""


class HierarchicalFields(OptionModel):
    """Options that only a hierarchical retriever has."""

    planner: PlannerOption = None
    """Planner that derives typed queries from a conversation; unset: rules."""
    mode: Literal["thinking", "quick"] = "thinking"
    """Use of the reranker: at the start points and at each level (thinking), or not at all (quick)."""
    score_threshold: float = Field(default=0.0, ge=0, lt=1)
    """Score that a hit must exceed."""
    tree: GroupOf[TreeOptions] = group_field(TreeOptions)
    """Starting points, propagation of scores and end of the search in the tree."""


# -- AdvancedRetriever ----------------------------------------------------------------------------------------


class ConversationFields(OptionModel):
    """Options of an AdvancedRetriever that other retrievers do not have."""

    expander: ExpanderOption = Field(default_factory=HistoryTerms)
    """Expander that completes follow-up questions from the conversation."""
    fuse_raw: bool | None = None
    """Whether to search for the original question, too; unset: only if the rewrite may be wrong."""
    get_session_history: Callable[[str], Any] | None = None
    """Function that returns the history of a session, by its id."""
