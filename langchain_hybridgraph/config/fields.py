"""Table of all settings."""

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

from langchain_hybridgraph.errors import quote_value

SECTIONS: Mapping[str, str] = {
    "store": "The index: HybridGraphStore.",
    "retriever": "Settings of every retriever; the weights are those of vector and keyword search.",
    "graph": "GraphRetriever.",
    "advanced": "AdvancedRetriever: questions in a conversation.",
    "hierarchical": "HierarchicalRetriever: trees of directories and documents.",
    "memory": "MemoryRetriever: memories; the keys of graph apply, too.",
}
"""Sections of a file, with what each one configures."""

# Tables of the objects that a setting can name, as module:variable.
KINDS: Mapping[str, str] = {
    "fusion": "query.fusion:FUSIONS",
    "traversal": "query.graph:TRAVERSALS",
    "score": "query.graph.scores:GRAPH_SCORES",
    "reranker": "adapters.named_stages:RERANKERS",
    "planner": "adapters.named_stages:PLANNERS",
    "expander": "query.conversation:EXPANDERS",
    "mode": "retrievers.memory_modes:CHANGES",
}


# Stages that a factory function of the application may create, named as package.module:factory.
FACTORIES = frozenset({"reranker", "planner"})


def named_objects(what: str) -> Mapping[str, Any]:
    """Return the objects that a setting such as ``"fusion"`` can name, by name."""
    module, name = KINDS[what].split(":")
    table: Mapping[str, Any] = getattr(import_module(f"langchain_hybridgraph.{module}"), name)
    return table


# -- validation of values -------------------------------------------------------------------------------------


def _reject_bool(value: Any) -> Any:
    if isinstance(value, bool):  # YAML reads yes and on as True, which pydantic would convert to 1
        raise ValueError("a truth value is not a number")
    return value


def _decode_json(value: Any) -> Any:
    """Parse the JSON of an environment variable; return other values unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from error


def _split_list(value: Any) -> Any:
    """Return a list; the text of a variable is JSON or comma-separated names."""
    value = _decode_json(value)
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


def _from_home(path: Path) -> Path:
    return Path(os.path.expanduser(path))  # Path.expanduser raises for an unknown user


def _check_form(what: str, form: Any) -> Any:
    """Check a form; build a dataclass to check its parameters, but nothing that needs more, such as a model."""
    from langchain_hybridgraph.registry import named

    table = named_objects(what)
    if what in FACTORIES and _is_factory(form):
        return form
    name, parameters = named(what, form, table)
    if is_dataclass(table[name]):
        from langchain_hybridgraph.registry import from_config

        from_config(what, {"type": name, **parameters}, table, callable)
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
        raise ValueError("a counter is a function, so it cannot be set here; pass it to TokenBudget in code")
    _check_parameters("budget", TokenBudget, form)
    return form


def _mode(form: Any) -> Any:
    from langchain_hybridgraph.memory.scoring import Composite

    parameters = dict(form) if isinstance(form, Mapping) else {}
    parameters.pop("type", None)
    if (traversal := parameters.pop("traversal", None)) is not None:
        _check_form("traversal", traversal)
    _check_parameters("mode", Composite, {name: value for name, value in parameters.items() if value is not None})
    return form


def _hotness(value: float | dict[str, Any]) -> float | dict[str, Any]:
    from langchain_hybridgraph.memory.scoring import Hotness

    _check_parameters("hotness", Hotness, value if isinstance(value, dict) else {"alpha": value})
    return value


def _novelty(value: dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.memory.scoring import Novelty

    _check_parameters("novelty", Novelty, value)
    return value


def _check_parameters(what: str, kind: Any, parameters: Mapping[str, Any]) -> None:
    from langchain_hybridgraph.registry import from_config

    from_config(what, {"type": what, **parameters}, {what: kind}, callable)


def _sources(weights: dict[str, float]) -> dict[str, float]:
    if unknown := weights.keys() - set(WEIGHED):
        raise ValueError(f"{', '.join(sorted(unknown))} is not one of them")
    if any(weight < 0 for weight in weights.values()):
        raise ValueError("a weight is a number from 0")
    return weights


def _embedding(value: str | dict[str, Any]) -> str | dict[str, Any]:
    name = value if isinstance(value, str) else value.get("type")
    if name not in ("auto", "lsa", "minilm") and not (isinstance(name, str) and all(name.partition(":"))):
        raise ValueError(f"{quote_value(name)} is not one of them")
    return value


def _language(value: str) -> str:
    from langchain_hybridgraph.text.analyzer import language_name

    return language_name(value)


Number = Annotated[float, BeforeValidator(_reject_bool)]
Count = Annotated[int, BeforeValidator(_reject_bool)]
Folder = Annotated[Path, AfterValidator(_from_home)]
Language = Annotated[str, AfterValidator(_language)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
Numbers = Annotated[tuple[Number, ...], BeforeValidator(_split_list)]
FilterForm = Annotated[dict[str, Any], BeforeValidator(_decode_json), AfterValidator(_filter)]
NameOrObject = Annotated[str | dict[str, Any], BeforeValidator(_decode_json)]
FusionForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "fusion"))]
TraversalForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "traversal"))]
ScoreForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "score"))]
RerankerForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "reranker"))]
PlannerForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "planner"))]
ExpanderForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "expander"))]
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
    BeforeValidator(_decode_json),
    BeforeValidator(_reject_bool),
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
ModeForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "mode")), AfterValidator(_mode)]
_NUMBER = {"type": "number", "minimum": 0}
HotnessForm = Annotated[
    Number | dict[str, Any],
    BeforeValidator(_decode_json),
    BeforeValidator(_reject_bool),
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
    BeforeValidator(_decode_json),
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
    BeforeValidator(_decode_json),
    AfterValidator(_sources),
    WithJsonSchema({"type": "object", "properties": dict.fromkeys(WEIGHED, _NUMBER), "additionalProperties": False}),
]
Roots = Annotated[dict[str, list[str]], BeforeValidator(_decode_json)]


def _setting(default: Any, allowed: str, description: str, **more: Any) -> Any:
    """Define a key by its default, allowed values and description. ``names`` is the table of objects it can name."""
    extra: JsonDict = {"allowed": allowed}
    if (names := more.pop("names", None)) is not None:
        extra["names"] = names
    return Field(default, description=description, json_schema_extra=extra, **more)


_FROM_0 = "a number from 0"
_SHARE = "a number from 0 to 1"
_FROM_1 = "a whole number from 1"
_SWITCH = "true or false"
_SHORT = "Shorthand for bfs with hop_decay, not to be combined with preset, traversal or score:"


class SettingsTable(BaseSettings):
    """All settings. The first word of a key is its section, the rest the name of a constructor argument."""

    # -- store --

    store_path: Folder | None = _setting(
        None, "a path", "Folder of the index. In a file, a relative path starts at the folder of the file."
    )
    store_embedding: EmbeddingForm | None = _setting(
        None,
        "auto, lsa, minilm or package.module:factory, or a mapping of such a type and its parameters",
        "Embedding model; unset: the model that the index was built with.",
    )
    store_language: Language | None = _setting(
        None, "the English name of a language, such as german", "Language of stemming and stop words in a new index."
    )
    store_tenant: str | None = _setting(None, "a text", "Tenant whose chunks the store reads and writes.")
    store_read_only: bool = _setting(False, _SWITCH, "Whether to open the store read-only.")
    store_write_timeout: float = _setting(
        30.0, _FROM_0, "Seconds that a write waits while other threads or processes write to the folder.", ge=0
    )
    store_near_duplicate: float = _setting(
        0.95,
        "a number above 0, up to 1",
        "Cosine similarity from which remember merges a memory with an existing one.",
        gt=0,
        le=1,
    )

    # -- retriever --

    retriever_semantic_weight: Number | None = _setting(
        None,
        _FROM_0,
        "Weight of the vector search. If only one weight is set, the other is 1 minus it; unset: depends on the "
        "embedding (0.7 for vectors and 0.3 for keywords; with LSA 0.4 and 0.6).",
        ge=0,
    )
    retriever_keyword_weight: Number | None = _setting(
        None, _FROM_0, "Weight of the keyword search; unset: depends on the embedding.", ge=0
    )
    retriever_weights: Literal["adaptive", "fixed"] = _setting(
        "adaptive",
        "adaptive or fixed",
        "Whether the default fusion adapts the keyword weight to each query.",
    )
    retriever_k: Count = _setting(10, _FROM_1, "Number of results.", ge=1)
    retriever_filter: FilterForm | None = _setting(
        None,
        "a mapping such as {year: {$gte: 2020}}",
        "Filter of every call; the filter of a call is applied in addition.",
    )
    retriever_tenant: str | None = _setting(None, "a text", "Tenant whose chunks the retriever sees.")
    retriever_as_of: Time | None = _setting(
        None,
        "a time such as 2024-05-01 or 2024-05-01T10:00:00Z, or unix seconds",
        "Point in time to search as of; unset: now.",
    )
    retriever_min_score: Number = _setting(
        0.0, _SHARE, "Minimum score of a hit; below 0.5 a question has probably no answer.", ge=0, le=1
    )
    retriever_fusion: FusionForm | None = _setting(
        None,
        "rrf, convex, distribution, max, interleave or concat, or a mapping of its parameters",
        "Fusion of the ranked lists of the sources; unset: the default of the retriever.",
        names="fusion",
    )
    retriever_changelog_weight: Number = _setting(
        0.9,
        _SHARE,
        "Factor on the scores of change logs and release notes; 1 ranks them like other documents.",
        ge=0,
        le=1,
    )
    retriever_overfetch: Count = _setting(
        3, _FROM_1, "Number of candidates per source, as a multiple of k; at least 100 are fetched.", ge=1
    )
    retriever_reranker: RerankerForm | None = _setting(
        None,
        "score, cross_encoder or llm, package.module:factory, or a mapping such as {type: llm, model: provider:model}",
        "Reranker, which scores the query and each text together; unset: none.",
        names="reranker",
    )
    retriever_rerank_depth: Count = _setting(50, _FROM_1, "Number of the best hits to rerank.", ge=1)
    retriever_mmr_lambda: Number | None = _setting(
        None,
        _SHARE,
        "Diversity by maximal marginal relevance, from 1 (score only) to 0 (diversity only); unset: off.",
        ge=0,
        le=1,
    )
    retriever_per_document: Count | None = _setting(
        None, _FROM_1, "Maximum number of hits per document; unset: no limit.", ge=1
    )
    retriever_parents: bool = _setting(
        True, _SWITCH, "Whether to return the parent of a matching child, if it has one."
    )
    retriever_budget: Budget | None = _setting(
        None,
        "a whole number from 1, or a mapping of max_tokens and fill",
        "Maximum number of tokens in the results, as complete chunks; unset: the default of the retriever.",
    )
    retriever_deadline_ms: Number | None = _setting(
        None,
        "a number above 0",
        "Time limit per source in milliseconds. Slower sources are left out and reported; unset: no limit.",
        gt=0,
    )
    retriever_on_error: Literal["degrade", "empty", "raise"] = _setting(
        "degrade",
        "degrade, empty or raise",
        "What to do when a source fails: use the others and raise if all fail (degrade), return nothing if all fail "
        "(empty), or raise at the first failure (raise).",
    )
    retriever_keyword_engine: Literal["tantivy", "rank_bm25"] = _setting(
        "tantivy", "tantivy or rank_bm25", "Engine of a keyword index built from documents."
    )
    retriever_language: Language = _setting(
        "english",
        "the English name of a language, such as german",
        "Language of a keyword index built from documents.",
    )
    retriever_id_key: str | None = _setting(
        None, "a text", "Metadata key with the id of a Document, for use with another vector store."
    )
    retriever_refresh: Literal["auto", "never"] | Annotated[Number, Field(ge=0)] = _setting(
        "auto",
        "auto, never or a number of seconds from 0",
        "When to refresh the keyword index over another vector store: at each search, never, or at most once in this "
        "number of seconds.",
    )
    retriever_annotate: Literal["all", "score", "none"] = _setting(
        "none",
        "all, score or none",
        "Metadata of the Documents that invoke returns: as stored (none), with the score (score), or with all details "
        "of how they were found (all).",
    )
    retriever_metadata_prefix: str = _setting("", "a text", "Prefix of the keys that retrieval adds to metadata.")

    # -- graph --

    graph_preset: (
        Literal["evidence", "hop_decay", "distance_decay", "propagation", "ring_decay", "beam", "pagerank"] | None
    ) = _setting(
        None,
        "evidence, hop_decay, distance_decay, propagation, ring_decay, beam or pagerank",
        "Combination of traversal and score taken from a published system; unset: evidence, which measured best.",
    )
    graph_traversal: TraversalForm | None = _setting(
        None,
        "bfs, beam, water_circle, best_first, evidence or pagerank, or a mapping of its parameters",
        "Algorithm that selects the chunks to visit; unset: that of the preset.",
        names="traversal",
    )
    graph_score: ScoreForm | None = _setting(
        None,
        "hop_decay, distance_decay, propagation, ring_decay, flow or noisy_or, or a mapping of its parameters",
        "Score of the visited chunks; unset: that of the preset or the traversal.",
        names="score",
    )
    graph_seed_k: Count = _setting(10, _FROM_1, "Number of the best hits to use as seeds.", ge=1)
    graph_seed_keyword_weight: Number | None = _setting(
        None, _SHARE, "Weight of the keyword search when finding seeds; unset: that of the preset.", ge=0, le=1
    )
    graph_seed_filter: FilterForm | None = _setting(
        None, "a mapping such as {year: {$gte: 2020}}", "Filter of the seeds only."
    )
    graph_seed_labels: Names = _setting(
        (), "a list of texts", "Labels of which a seed must have at least one; empty: no restriction."
    )
    graph_candidates: Literal["all", "reached"] = _setting(
        "all",
        "all or reached",
        "Candidates for results: all hits of the search, or only seeds and chunks reached through edges.",
    )
    graph_graph_slots: Count = _setting(
        0, "a whole number from 0", "Number of the k results reserved for hits found through the graph.", ge=0
    )
    graph_min_traversal_score: Number = _setting(
        0.0, _SHARE, "Minimum weight of an edge at which the traversal continues.", ge=0, le=1
    )
    graph_max_hops: Count | None = _setting(None, "a whole number from 0", f"{_SHORT} maximum number of hops.", ge=0)
    graph_bidirectional: bool | None = _setting(None, _SWITCH, f"{_SHORT} whether to follow edges in both directions.")
    graph_relation_filter: Names | None = _setting(None, "a list of texts", f"{_SHORT} relations to follow.")
    graph_min_weight: Number | None = _setting(None, _SHARE, f"{_SHORT} minimum weight of an edge.", ge=0, le=1)
    graph_max_nodes: Count | None = _setting(
        None, "a whole number from 0", f"{_SHORT} maximum number of chunks to add.", ge=0
    )
    graph_vector_weight: Number | None = _setting(None, _FROM_0, f"{_SHORT} weight of the vector similarity.", ge=0)
    graph_graph_weight: Number | None = _setting(None, _FROM_0, f"{_SHORT} weight of the last edge.", ge=0)
    graph_hop_decay: Numbers | None = _setting(
        None, "a list of numbers", f"{_SHORT} factor for each hop.", min_length=1
    )
    graph_score_expanded: bool | None = _setting(
        None, _SWITCH, f"{_SHORT} whether to score added chunks by their own similarity, too."
    )

    # -- advanced --

    advanced_retriever: Literal["hybrid", "graph", "hierarchical", "memory"] = _setting(
        "hybrid", "hybrid, graph, hierarchical or memory", "Retriever to query."
    )
    advanced_expander: ExpanderForm = _setting(
        "history_terms",
        "history_terms, append_history or strip_question, or a mapping of its parameters (append_history: turns)",
        "Expander, which completes a follow-up question from the conversation.",
        names="expander",
    )
    advanced_fuse_raw: bool | None = _setting(
        None,
        _SWITCH,
        "Whether to search for the original question, too; unset: unless the rewrite is confident.",
    )

    # -- hierarchical --

    hierarchical_alpha: Number = _setting(
        0.5, _SHARE, "Weight of a node's own score; the rest is the score of its directory.", ge=0, le=1
    )
    hierarchical_start_k: Count = _setting(3, _FROM_1, "Number of the best directories to start from.", ge=1)
    hierarchical_start_documents: Count = _setting(
        3, "a whole number from 0", "Number of the best documents to start from, together with their directories.", ge=0
    )
    hierarchical_max_rounds: Count = _setting(
        3, _FROM_1, "Number of directories without a change of the best k after which the search ends.", ge=1
    )
    hierarchical_score_threshold: Number = _setting(
        0.0, "a number from 0 to below 1", "Threshold that a score must exceed.", ge=0, lt=1
    )
    hierarchical_roots: Roots | None = _setting(
        None,
        "a mapping such as {memory: [user/memories]}",
        "Root directories of each type; unset: user/memories and agent/memories, resources, agent/skills.",
    )
    hierarchical_planner: PlannerForm | None = _setting(
        None,
        "rules or llm, package.module:factory, or a mapping such as {type: llm, model: provider:model}",
        "Planner, which derives typed queries from a conversation; unset: rules.",
        names="planner",
    )
    hierarchical_directories: bool | None = _setting(
        None, _SWITCH, "Whether directories without text of their own may be hits; unset: only in find and search."
    )

    # -- memory --

    memory_mode: ModeForm | None = _setting(
        None,
        "general, belief_system, agent_memory or procedural, or a mapping of such a type and of similarity, "
        "confidence, recency, utility, decay_per_hour and traversal",
        "Weights of a memory's score and its traversal; unset: as set in the store (set_mode), else general.",
        names="mode",
    )
    memory_labels: Names = _setting((), "a list of texts", "Labels that a memory must all have.")
    memory_known_at: Time | None = _setting(
        None,
        "a time such as 2024-05-01 or 2024-05-01T10:00:00Z, or unix seconds",
        "Point in time whose knowledge to use; unset: now.",
    )
    memory_session_id: str | None = _setting(None, "a text", "Session, in a store that keeps sessions.")
    memory_session_turns: Count = _setting(
        10, "a whole number from 0", "Number of the last turns of the session to use.", ge=0
    )
    memory_source_weights: SourceWeights = _setting(
        {"vector": 0.45, "graph": 0.40, "session": 0.15},
        "a mapping of vector, keyword, graph and session to numbers from 0",
        "Weights of the sources. Unless keyword is set, it takes its share of vector.",
    )
    memory_hotness: HotnessForm | None = _setting(
        None,
        "a number from 0 to 1, or a mapping of alpha and half_life_days",
        "Weight of how often and how recently a memory was used; unset: 0.",
    )
    memory_novelty: NoveltyForm = _setting(
        {"above": 0.8, "slope": 2.5, "floor": 0.5},
        "a mapping of above, slope and floor",
        "Down-weighting of memories that repeat the session; floor 1 turns it off.",
    )
    memory_named_times: Number = _setting(
        0.3, _SHARE, "Weight of a match between a memory's time and a time named in the question.", ge=0, le=1
    )
