"""The one table of settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic_settings import BaseSettings

from langchain_hybridgraph.errors import brief

SECTIONS: Mapping[str, str] = {
    "store": "The index: HybridGraphStore.",
    "retriever": "What every retriever has; the weights are those of vectors and words.",
    "graph": "GraphRetriever.",
    "advanced": "AdvancedRetriever: questions of a conversation.",
    "hierarchical": "HierarchicalRetriever: trees of directories and documents.",
    "memory": "MemoryRetriever: what is remembered; it has the keys of graph, too.",
}
"""The sections of a file, and whose settings stand in each."""

# Where the names that a setting may have are at home.
KINDS: Mapping[str, str] = {
    "fusion": "query.fusion:FUSIONS",
    "traversal": "query.traversal:TRAVERSALS",
    "score": "query.graph_scores:GRAPH_SCORES",
    "reranker": "retrievers.named_stages:RERANKERS",
    "planner": "retrievers.named_stages:PLANNERS",
    "expander": "query.expanders:EXPANDERS",
    "mode": "retrievers.modes:CHANGES",
}


# Stages that a function of the application may make, named as package.module:factory.
FACTORIES = frozenset({"reranker", "planner"})


def kinds(what: str) -> Mapping[str, Any]:
    """The objects that a setting such as ``"fusion"`` can name, by their names."""
    module, name = KINDS[what].split(":")
    table: Mapping[str, Any] = getattr(import_module(f"langchain_hybridgraph.{module}"), name)
    return table


# -- how a value is read --------------------------------------------------------------------------------------


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):  # YAML reads yes and on as True, and pydantic would make 1 of it
        raise ValueError("a truth value is not a number")
    return value


def _decoded(value: Any) -> Any:
    """A variable's JSON; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from error


def _listed(value: Any) -> Any:
    """A list; the text of a variable is JSON, or names between commas."""
    found = _decoded(value)
    return [each.strip() for each in found.split(",")] if isinstance(found, str) else found


def _from_home(path: Path) -> Path:
    return Path(os.path.expanduser(path))  # Path.expanduser raises for an unknown user


def _known(what: str, form: Any) -> Any:
    """The form, checked; what takes more than its parameters to make (a model) is not made."""
    from langchain_hybridgraph.query.forms import named

    table = kinds(what)
    if what in FACTORIES and _is_factory(form):
        return form
    name, parameters = named(what, form, table)
    if is_dataclass(table[name]):
        from langchain_hybridgraph.query.forms import from_form

        from_form(what, {"type": name, **parameters}, table, callable)
    return form


def _is_factory(form: Any) -> bool:
    name = form.get("type") if isinstance(form, Mapping) else form
    return isinstance(name, str) and all(name.partition(":"))


def _filter(form: dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.filters import parse_filter

    parse_filter(form)
    return form


def _time(value: Any) -> Any:
    from langchain_hybridgraph.times import parse_time

    parse_time(value)
    return value


def _budget(value: int | dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.query.budget import TokenBudget

    form = {"max_tokens": value} if isinstance(value, int) else value
    if "counter" in form:
        raise ValueError("a counter is a function, which a file cannot give")
    _made("budget", TokenBudget, form)
    return form


def _mode(form: Any) -> Any:
    from langchain_hybridgraph.query.scoring import Composite

    parameters = dict(form) if isinstance(form, Mapping) else {}
    parameters.pop("type", None)
    if (traversal := parameters.pop("traversal", None)) is not None:
        _known("traversal", traversal)
    _made("mode", Composite, {name: value for name, value in parameters.items() if value is not None})
    return form


def _hotness(value: float | dict[str, Any]) -> float | dict[str, Any]:
    from langchain_hybridgraph.query.scoring import Hotness

    _made("hotness", Hotness, value if isinstance(value, dict) else {"alpha": value})
    return value


def _novelty(value: dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.query.scoring import Novelty

    _made("novelty", Novelty, value)
    return value


def _made(what: str, kind: Any, parameters: Mapping[str, Any]) -> None:
    from langchain_hybridgraph.query.forms import from_form

    from_form(what, {"type": what, **parameters}, {what: kind}, callable)


def _sources(weights: dict[str, float]) -> dict[str, float]:
    if unknown := weights.keys() - set(WEIGHED):
        raise ValueError(f"{', '.join(sorted(unknown))} is none of them")
    if any(weight < 0 for weight in weights.values()):
        raise ValueError("a weight is a number from 0")
    return weights


def _embedding(value: str | dict[str, Any]) -> str | dict[str, Any]:
    name = value if isinstance(value, str) else value.get("type")
    if name not in ("auto", "lsa", "minilm") and not (isinstance(name, str) and all(name.partition(":"))):
        raise ValueError(f"{brief(name)} is none of them")
    return value


def _language(value: str) -> str:
    from langchain_hybridgraph.stores.analysis import language_name

    return language_name(value)


Number = Annotated[float, BeforeValidator(_no_truth_value)]
Count = Annotated[int, BeforeValidator(_no_truth_value)]
Folder = Annotated[Path, AfterValidator(_from_home)]
Language = Annotated[str, AfterValidator(_language)]
Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Numbers = Annotated[tuple[Number, ...], BeforeValidator(_listed)]
FilterForm = Annotated[dict[str, Any], BeforeValidator(_decoded), AfterValidator(_filter)]
NameOrObject = Annotated[str | dict[str, Any], BeforeValidator(_decoded)]
FusionForm = Annotated[NameOrObject, AfterValidator(partial(_known, "fusion"))]
TraversalForm = Annotated[NameOrObject, AfterValidator(partial(_known, "traversal"))]
ScoreForm = Annotated[NameOrObject, AfterValidator(partial(_known, "score"))]
RerankerForm = Annotated[NameOrObject, AfterValidator(partial(_known, "reranker"))]
PlannerForm = Annotated[NameOrObject, AfterValidator(partial(_known, "planner"))]
ExpanderForm = Annotated[NameOrObject, AfterValidator(partial(_known, "expander"))]
EmbeddingForm = Annotated[
    NameOrObject,
    AfterValidator(_embedding),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["auto", "lsa", "minilm"]},
                {"type": "string", "pattern": ".:."},
                {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
            ]
        }
    ),
]
Budget = Annotated[
    Count | dict[str, Any],
    BeforeValidator(_decoded),
    BeforeValidator(_no_truth_value),
    AfterValidator(_budget),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {
                    "type": "object",
                    "properties": {"max_tokens": {"type": "integer", "minimum": 1}, "fill": {"type": "boolean"}},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Time = Annotated[Any, AfterValidator(_time), WithJsonSchema({"type": ["string", "number"]})]
ModeForm = Annotated[NameOrObject, AfterValidator(partial(_known, "mode")), AfterValidator(_mode)]
_NUMBER = {"type": "number", "minimum": 0}
HotnessForm = Annotated[
    Number | dict[str, Any],
    BeforeValidator(_decoded),
    BeforeValidator(_no_truth_value),
    AfterValidator(_hotness),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {
                    "type": "object",
                    "properties": {"alpha": _NUMBER, "half_life_days": _NUMBER},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
NoveltyForm = Annotated[
    dict[str, Any],
    BeforeValidator(_decoded),
    AfterValidator(_novelty),
    WithJsonSchema(
        {
            "type": "object",
            "properties": dict.fromkeys(("above", "slope", "floor"), _NUMBER),
            "additionalProperties": False,
        }
    ),
]
WEIGHED = ("vector", "keyword", "graph", "session")
SourceWeights = Annotated[
    dict[str, Number],
    BeforeValidator(_decoded),
    AfterValidator(_sources),
    WithJsonSchema({"type": "object", "properties": dict.fromkeys(WEIGHED, _NUMBER), "additionalProperties": False}),
]
Roots = Annotated[dict[str, list[str]], BeforeValidator(_decoded)]


def _setting(default: Any, allowed: str, description: str, **more: Any) -> Any:
    """A key: its default, what it may be, what it means; ``names`` says which objects it can name."""
    extra: JsonDict = {"allowed": allowed}
    if (names := more.pop("names", None)) is not None:
        extra["names"] = names
    return Field(default, description=description, json_schema_extra=extra, **more)


_FROM_0 = "a number from 0"
_SHARE = "a number from 0 to 1"
_FROM_1 = "a whole number from 1"
_SWITCH = "true or false"
_SHORT = "Shorthand for bfs with hop_decay, not beside preset, traversal or score:"


class Keys(BaseSettings):
    """Every setting; the first word of a key is its section, the rest the name of a constructor's argument."""

    # -- store --

    store_path: Folder | None = _setting(
        None, "a path", "Folder of the index; a relative one in a file starts at the file's folder."
    )
    store_embedding: EmbeddingForm | None = _setting(
        None,
        "auto, lsa, minilm or package.module:factory, or a mapping of such a type and its parameters",
        "Embedding model; unset: the one that the index was made with.",
    )
    store_language: Language | None = _setting(
        None, "the English name of a language, such as german", "Stemming and stop words of a new index."
    )
    store_tenant: str | None = _setting(None, "a text", "The tenant whose chunks are seen.")
    store_read_only: bool = _setting(False, _SWITCH, "Whether the store refuses every change.")
    store_write_timeout: float = _setting(
        30.0, _FROM_0, "Seconds that a change waits while other threads or processes write to the folder.", ge=0
    )
    store_near_duplicate: float = _setting(
        0.95,
        "a number above 0, up to 1",
        "Cosine from which remember joins a memory to one that says the same.",
        gt=0,
        le=1,
    )

    # -- retriever --

    retriever_semantic_weight: Number | None = _setting(
        None,
        _FROM_0,
        "Weight of the vector side. One weight alone gives the other 1 − it; unset: the embedding decides "
        "(.7 of vectors and .3 of words, with LSA .4 and .6).",
        ge=0,
    )
    retriever_keyword_weight: Number | None = _setting(
        None, _FROM_0, "Weight of the keyword side; unset: the embedding decides.", ge=0
    )
    retriever_weights: Literal["adaptive", "fixed"] = _setting(
        "adaptive",
        "adaptive or fixed",
        "Whether the default fusion weighs the words by what they say about this question.",
    )
    retriever_k: Count = _setting(10, _FROM_1, "How many Documents come back.", ge=1)
    retriever_filter: FilterForm | None = _setting(
        None, "a mapping such as {year: {$gte: 2020}}", "Filter of every call; a call's own filter narrows it further."
    )
    retriever_tenant: str | None = _setting(None, "a text", "The tenant whose chunks a retriever sees.")
    retriever_as_of: Time | None = _setting(
        None,
        "a time such as 2024-05-01 or 2024-05-01T10:00:00Z, or unix seconds",
        "The time whose truth is asked for; unset: now.",
    )
    retriever_min_score: Number = _setting(0.0, _SHARE, "Hits with a lower score are left out.", ge=0, le=1)
    retriever_fusion: FusionForm | None = _setting(
        None,
        "rrf, convex, distribution, max, interleave or concat, or a mapping of its parameters",
        "How the lists of the sources become one; unset: the retriever's default.",
        names="fusion",
    )
    retriever_changelog_weight: Number = _setting(
        0.9,
        _SHARE,
        "Factor on the scores of change logs and release notes; 1 ranks them like other documents.",
        ge=0,
        le=1,
    )
    retriever_overfetch: Count = _setting(3, _FROM_1, "Candidates per source: k times this, at least 100.", ge=1)
    retriever_reranker: RerankerForm | None = _setting(
        None,
        "score, cross_encoder or llm, package.module:factory, or a mapping such as {type: llm, model: provider:model}",
        "What reads question and texts together; unset: nothing.",
        names="reranker",
    )
    retriever_rerank_depth: Count = _setting(50, _FROM_1, "How many of the best hits the reranker reads.", ge=1)
    retriever_mmr_lambda: Number | None = _setting(
        None,
        _SHARE,
        "Diversity by maximal marginal relevance: 1 looks at the score only, 0 at the difference only; unset: off.",
        ge=0,
        le=1,
    )
    retriever_per_document: Count | None = _setting(
        None, _FROM_1, "At most so many hits of one document; unset: any number.", ge=1
    )
    retriever_parents: bool = _setting(True, _SWITCH, "Whether a child gives way to its parent, where there is one.")
    retriever_budget: Budget | None = _setting(
        None,
        "a whole number from 1, or a mapping of max_tokens and fill",
        "Whole chunks up to so many tokens; unset: the retriever's default.",
    )
    retriever_deadline_ms: Number | None = _setting(
        None,
        "a number above 0",
        "Sources that take longer, in milliseconds, are left out and named; unset: all are waited for.",
        gt=0,
    )
    retriever_on_error: Literal["degrade", "empty", "raise"] = _setting(
        "degrade",
        "degrade, empty or raise",
        "A failing source: go on with the others and raise if all fail; give nothing if all fail; raise at the first.",
    )
    retriever_keyword_engine: Literal["tantivy", "rank_bm25"] = _setting(
        "tantivy", "tantivy or rank_bm25", "Engine of a keyword index that is built over documents."
    )
    retriever_language: Language = _setting(
        "english",
        "the English name of a language, such as german",
        "Language of a keyword index that is built over documents.",
    )
    retriever_id_key: str | None = _setting(
        None, "a text", "Metadata key that holds the id of a Document, beside another vector store."
    )
    retriever_refresh: Literal["auto", "never"] | Annotated[Number, Field(ge=0)] = _setting(
        "auto",
        "auto, never or a number of seconds from 0",
        "Refreshing of the keyword index over another vector store: at each search, never, or at most once in this "
        "number of seconds.",
    )
    retriever_annotate: Literal["all", "score", "none"] = _setting(
        "none",
        "all, score or none",
        "Metadata of the Documents that invoke gives: as stored (none), with their score, or with all that is known "
        "of how they were found.",
    )
    retriever_metadata_prefix: str = _setting(
        "", "a text", "Stands before the keys that retrieval writes into metadata."
    )

    # -- graph --

    graph_preset: (
        Literal["evidence", "hop_decay", "distance_decay", "propagation", "ring_decay", "beam", "pagerank"] | None
    ) = _setting(
        None,
        "evidence, hop_decay, distance_decay, propagation, ring_decay, beam or pagerank",
        "The setting of a source system; unset: evidence, the best one measured.",
    )
    graph_traversal: TraversalForm | None = _setting(
        None,
        "bfs, beam, water_circle, best_first, evidence or pagerank, or a mapping of its parameters",
        "Who is visited; unset: the preset's.",
        names="traversal",
    )
    graph_score: ScoreForm | None = _setting(
        None,
        "hop_decay, distance_decay, propagation, ring_decay, flow or noisy_or, or a mapping of its parameters",
        "What the visited are worth; unset: the preset's, or that of the traversal.",
        names="score",
    )
    graph_seed_k: Count = _setting(10, _FROM_1, "The walk begins at so many of the best hits.", ge=1)
    graph_seed_keyword_weight: Number | None = _setting(
        None, _SHARE, "Weight of the words in finding seeds; unset: the preset's.", ge=0, le=1
    )
    graph_seed_filter: FilterForm | None = _setting(
        None, "a mapping such as {year: {$gte: 2020}}", "Filter of the seeds alone."
    )
    graph_seed_labels: Names = _setting((), "a list of texts", "Seeds have one of these labels; empty: any or none.")
    graph_candidates: Literal["all", "reached"] = _setting(
        "all",
        "all or reached",
        "Hits that may come back: all hits of the search, or only seeds and what edges reached.",
    )
    graph_graph_slots: Count = _setting(
        0, "a whole number from 0", "So many of the k places are for hits that edges led to.", ge=0
    )
    graph_min_traversal_score: Number = _setting(
        0.0, _SHARE, "Minimum weight of an edge at which a walk continues.", ge=0, le=1
    )
    graph_max_hops: Count | None = _setting(None, "a whole number from 0", f"{_SHORT} hops.", ge=0)
    graph_bidirectional: bool | None = _setting(None, _SWITCH, f"{_SHORT} whether edges are walked both ways.")
    graph_relation_filter: Names | None = _setting(None, "a list of texts", f"{_SHORT} the relations that are walked.")
    graph_min_weight: Number | None = _setting(None, _SHARE, f"{_SHORT} lighter edges are not walked.", ge=0, le=1)
    graph_max_nodes: Count | None = _setting(
        None, "a whole number from 0", f"{_SHORT} at most so many chunks are added.", ge=0
    )
    graph_vector_weight: Number | None = _setting(None, _FROM_0, f"{_SHORT} weight of the similarity.", ge=0)
    graph_graph_weight: Number | None = _setting(None, _FROM_0, f"{_SHORT} weight of the last edge.", ge=0)
    graph_hop_decay: Numbers | None = _setting(None, "a list of numbers", f"{_SHORT} decay per hop.", min_length=1)
    graph_score_expanded: bool | None = _setting(
        None, _SWITCH, f"{_SHORT} whether expanded chunks' own similarity counts."
    )

    # -- advanced --

    advanced_retriever: Literal["hybrid", "graph", "hierarchical", "memory"] = _setting(
        "hybrid", "hybrid, graph, hierarchical or memory", "The retriever that is asked."
    )
    advanced_expander: ExpanderForm = _setting(
        "history_terms",
        "history_terms, append_history or strip_question, or a mapping of its parameters (append_history: turns)",
        "What makes a question whole.",
        names="expander",
    )
    advanced_fuse_raw: bool | None = _setting(
        None,
        _SWITCH,
        "Whether the raw question is searched for too; if not given, unless a sure rewrite stands for it.",
    )

    # -- hierarchical --

    hierarchical_alpha: Number = _setting(
        0.5, _SHARE, "What a node's own score counts beside its directory's.", ge=0, le=1
    )
    hierarchical_start_k: Count = _setting(3, _FROM_1, "The walk starts at so many of the best directories.", ge=1)
    hierarchical_start_documents: Count = _setting(
        3, "a whole number from 0", "And at so many of the best documents, and where these stand.", ge=0
    )
    hierarchical_max_rounds: Count = _setting(
        3, _FROM_1, "Ends after so many directories in which the best k stay the same.", ge=1
    )
    hierarchical_score_threshold: Number = _setting(
        0.0, "a number from 0 to below 1", "Only scores above it count.", ge=0, lt=1
    )
    hierarchical_roots: Roots | None = _setting(
        None,
        "a mapping such as {memory: [user/memories]}",
        "The directories of each type; unset: user/memories and agent/memories, resources, agent/skills.",
    )
    hierarchical_planner: PlannerForm | None = _setting(
        None,
        "rules or llm, package.module:factory, or a mapping such as {type: llm, model: provider:model}",
        "Planner of typed queries from a conversation; unset: rules.",
        names="planner",
    )
    hierarchical_directories: bool | None = _setting(
        None, _SWITCH, "Whether directories without a text of their own may be hits; unset: in find and search."
    )

    # -- memory --

    memory_mode: ModeForm | None = _setting(
        None,
        "general, belief_system, agent_memory or procedural, or a mapping of such a type and of similarity, "
        "confidence, recency, utility, decay_per_hour and traversal",
        "What counts, and how far the graph is walked; unset: as the store says (set_mode), else general.",
        names="mode",
    )
    memory_labels: Names = _setting((), "a list of texts", "Memories have all of these labels.")
    memory_known_at: Time | None = _setting(
        None,
        "a time such as 2024-05-01 or 2024-05-01T10:00:00Z, or unix seconds",
        "The time whose knowledge is asked for; unset: now.",
    )
    memory_session_id: str | None = _setting(None, "a text", "The session, in a store that keeps sessions.")
    memory_session_turns: Count = _setting(
        10, "a whole number from 0", "So many of the session's last turns are looked at.", ge=0
    )
    memory_source_weights: SourceWeights = _setting(
        {"vector": 0.45, "graph": 0.40, "session": 0.15},
        "a mapping of vector, keyword, graph and session to numbers from 0",
        "What the sources count; the words have their part of the vector's unless they are named.",
    )
    memory_hotness: HotnessForm | None = _setting(
        None,
        "a number from 0 to 1, or a mapping of alpha and half_life_days",
        "How much it counts that a memory is used often and was lately; unset: not at all.",
    )
    memory_novelty: NoveltyForm = _setting(
        {"above": 0.8, "slope": 2.5, "floor": 0.5},
        "a mapping of above, slope and floor",
        "What is left of a memory that says what the session has said; floor 1 leaves all.",
    )
    memory_named_times: Number = _setting(
        0.3, _SHARE, "How much it speaks for a memory to be of a time that the question names.", ge=0, le=1
    )
