"""Options for a single call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.options.groups import call_text, group_with, place_of, stage_forms, translated
from langchain_hybridgraph.records import Annotate
from langchain_hybridgraph.registry import similar_name

if TYPE_CHECKING:
    from langchain_hybridgraph.options.models import GraphOptions, MemoryOptions, SelectionOptions, TreeOptions


class CallSettings(TypedDict, total=False):
    """Options for a single call, except ``k``. A group changes only the options set in it.

    Only graph retrievers accept ``seed_ids`` and ``graph``.
    """

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
    seed_ids: Sequence[str] | None
    graph: GraphOptions | Mapping[str, Any] | None


Options = Mapping[str, Any]
"""Options of one call, by name: those of :class:`CallSettings` or a subclass, and ``k``."""

GRAPH_ONLY = frozenset({"seed_ids", "graph"})
"""Call options that only a GraphRetriever and its subclasses accept."""


HISTORY = "conversation_history"
"""Name of the call option through which an AdvancedRetriever receives the conversation."""


class MemoryCallSettings(CallSettings, total=False):
    """Options for a call to a :class:`~langchain_hybridgraph.retrievers.memory.MemoryRetriever`, except ``k``."""

    mode: Any
    labels: str | Sequence[str] | None
    known_at: float | str | datetime | None
    session: Any
    session_id: str | None
    memory: MemoryOptions | Mapping[str, Any] | None


class TreeSearchSettings(CallSettings, total=False):
    """Options of a hierarchical retriever's ``find`` and ``search``."""

    mode: Literal["thinking", "quick"] | None
    score_threshold: float | None
    tree: TreeOptions | Mapping[str, Any] | None


class FindSettings(TreeSearchSettings, total=False):
    """Options for a call to a hierarchical retriever, except ``k``."""

    target_uri: str | Sequence[str] | None
    session: Any


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
