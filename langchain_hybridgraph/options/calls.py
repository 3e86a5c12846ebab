"""Options for a single call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.options.groups import call_text, option_advice
from langchain_hybridgraph.records import Annotate

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
    names = sorted(all_names)
    advice = [
        option_advice(kind, name, value, names, lambda call: f"retriever.invoke(query, {call_text(call)})")
        for name, value in values.items()
    ]
    all_options = f"the options are {', '.join(names)}"
    parts = shorten("; ".join(dict.fromkeys(each for each in advice if each != all_options)), _LONGEST_PART)
    unknown = shorten(", ".join(values), _LONGEST_PART)
    message = f"{called or kind.__name__} does not take {unknown} per call"
    return TypeError("; ".join(filter(None, [message, parts, all_options if names else ""])))
