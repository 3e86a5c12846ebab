"""Options for a single call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.options.groups import call_text, group_with, place_of, stage_forms, translated
from langchain_hybridgraph.records import Annotate
from langchain_hybridgraph.registry import similar_name

if TYPE_CHECKING:
    from langchain_hybridgraph.options.models import GraphOptions, MemoryOptions, SelectionOptions, TreeOptions


class FindSettings(TypedDict, total=False):
    """Options of a hierarchical retriever's ``find`` and ``search``. A group changes only the options set in it."""

    filter: Filter | Mapping[str, Any] | None
    as_of: float | str | datetime | None
    tenant: str | None
    vector: Sequence[float] | None
    semantic_weight: float | None
    keyword_weight: float | None
    min_score: float | None
    max_tokens: int | None
    annotate: Annotate | None
    return_scores: bool | None
    deadline_ms: float | None
    selection: SelectionOptions | Mapping[str, Any] | None
    mode: Any
    score_threshold: float | None
    tree: TreeOptions | Mapping[str, Any] | None


class CallSettings(FindSettings, total=False):
    """Options for a single call of any retriever, except ``k``.

    A retriever raises TypeError for an option that only others accept: those of :data:`GRAPH_ONLY`,
    :data:`MEMORY_ONLY` and :data:`TREE_ONLY`.
    """

    seed_ids: Sequence[str] | None
    graph: GraphOptions | Mapping[str, Any] | None
    labels: str | Sequence[str] | None
    known_at: float | str | datetime | None
    session: Any
    session_id: str | None
    memory: MemoryOptions | Mapping[str, Any] | None
    target_uri: str | Sequence[str] | None


Options = Mapping[str, Any]
"""Options of one call, by name: those of :class:`CallSettings`, and ``k``."""

GRAPH_ONLY = frozenset({"seed_ids", "graph"})
"""Call options of a GraphRetriever and its subclasses."""
MEMORY_ONLY = frozenset({"mode", "labels", "known_at", "session", "session_id", "memory"})
"""Call options of a MemoryRetriever."""
TREE_ONLY = frozenset({"mode", "score_threshold", "tree", "target_uri", "session"})
"""Call options of a HierarchicalRetriever."""
OF_ALL = frozenset({"k", *CallSettings.__annotations__}) - GRAPH_ONLY - MEMORY_ONLY - TREE_ONLY
"""Call options of all retrievers."""

HISTORY = "conversation_history"
"""Name of the call option through which an AdvancedRetriever receives the conversation."""

# Maximum number of characters of each part of an error message.
_LONGEST_PART = 500


def unknown_options(
    kind: type, values: Mapping[str, Any], all_names: Iterable[str], *, called: str | None = None
) -> TypeError:
    """Return the error for options that a call does not accept, with similar names and the accepted options.

    ``values`` maps the rejected names to their values. ``called`` is the retriever's name, by default that of ``kind``.
    """
    all_names = sorted(all_names)
    advice = shorten("".join(f"; {advice}" for advice in _advice(kind, values, all_names)), _LONGEST_PART)
    all_options = f"; the options are {', '.join(all_names)}" if all_names else ""
    names = shorten(", ".join(values), _LONGEST_PART)
    return TypeError(f"{called or kind.__name__} does not take {names} per call{advice}{all_options}")


def _advice(kind: type, values: Mapping[str, Any], all_names: Sequence[str]) -> Iterator[str]:
    if histories := [name for name in ("chat_history", "history") if name in values]:
        retriever = "" if HISTORY in all_names else " to an AdvancedRetriever"
        yield f"pass {histories[0]}{retriever} as {HISTORY}="
    others = {}
    for name, value in values.items():
        group = group_with(kind, name)
        if group in all_names:
            yield f"{name} is an option of {group}=: per call give {group}={ {name: value}!r}"
        elif (options := translated(name, value)) is not None and options.keys() <= {*all_names}:
            yield f"write retriever.invoke(query, {call_text(options)})" if options else f"leave out {name}="
            if (place := place_of(name)) is not None:
                yield f"{name} is an option of {place}"
        elif name not in histories:
            others[name] = value
    if "graph" in all_names and (form := stage_forms(others)):
        yield f"per call give graph={form!r}"
    elif own := [name for name in others if name in getattr(kind, "model_fields", ())]:
        yield f"set it in the constructor: {kind.__name__}(…, {', '.join(f'{name}=…' for name in own)})"
    elif places := [f"{name} is an option of {place}" for name in others if (place := place_of(name))]:
        yield from places
    elif near := [similar for name in others if (similar := similar_name(name, all_names)) is not None]:
        yield f"did you mean {' and '.join(near)}?"
