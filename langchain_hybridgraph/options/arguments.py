"""Options of a call, and validation of arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence, Sized
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BaseModel

from langchain_hybridgraph.errors import ConfigurationError, check_mapping, quote_value, shorten
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.options.base import call_text, option_advice
from langchain_hybridgraph.records import Annotate, check_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.options.models import GraphOptions, MemoryOptions, SelectionOptions, TreeOptions


# -- options of a call ------------------------------------------------------------------------------------------


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


def unknown_options(
    kind: type[BaseModel], values: Mapping[str, Any], all_names: Iterable[str], *, called: str | None = None
) -> TypeError:
    """Return the error for options that a call does not accept, with what to write instead.

    ``values`` maps the rejected names to their values. ``called`` is the retriever's name, by default that of ``kind``.
    """
    names = sorted(all_names)
    message = f"{called or kind.__name__} does not take {shorten(', '.join(values), 500)} per call"
    if not names:
        return TypeError(message)
    advice = (
        option_advice(kind, name, value, names, lambda call: f"retriever.invoke(query, {call_text(call)})")
        for name, value in values.items()
    )
    return TypeError("; ".join([message, *(shorten(each, 500) for each in dict.fromkeys(advice))]))


# -- arguments --------------------------------------------------------------------------------------------------


def check_vector(value: object) -> NDArray[np.float32]:
    """Return the query's vector as an array. Raises ConfigurationError for anything that is not one vector."""
    try:
        vector = np.asarray(value, np.float32)
    except (TypeError, ValueError, OverflowError):
        vector = np.zeros(0, np.float32)
    if vector.ndim == 2:
        raise ConfigurationError(
            f"vector must be the vector of one query, got a list of vectors ({len(vector)} of them); search "
            "once for each: [retriever.retrieve(None, vector=each) for each in vectors]"
        )
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise ConfigurationError(
            f"vector must be a list of numbers for one query, got {quote_value(value)}; pass embed_query(query)"
        )
    return vector


def check_documents(value: Any) -> list[Document]:
    """Return the Documents as a list. Raises ConfigurationError for anything else and for an empty id."""
    is_list = isinstance(value, Iterable) and not isinstance(value, str | Document)
    items: list[Any] = list(value) if is_list else [value]
    for each in items:
        if not is_list or not isinstance(each, Document):
            raise ConfigurationError(
                f"documents must be a list of LangChain Documents, got {quote_value(each)}; write [document], or "
                "[Document(page_content=text) for text in texts]"
            )
        if each.id == "":
            raise ConfigurationError(
                f'a document id must not be empty, got "" for {each.page_content!r:.60}; leave out id to derive it '
                "from the text"
            )
    return items


def check_lengths(texts: int, **lists: Any) -> None:
    """Raise ConfigurationError for an argument that is neither None nor a list with an entry for each text."""
    for name, values in lists.items():
        count = len(values) if isinstance(values, Sized) and not isinstance(values, str | set | Mapping) else None
        if values is not None and count != texts:
            got = quote_value(values) if count is None else f"{count} entries"
            raise ConfigurationError(f"{name} must be a list with an entry for each of {texts} texts, got {got}")


def documents_of(
    texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None, ids: Sequence[str] | None
) -> list[Document]:
    """Return Documents with these texts, metadata and ids.

    Raises ConfigurationError if ``texts`` is not a list of strings, or if another list has a different length.
    """
    contents = check_texts("texts", "texts", texts)
    check_lengths(len(contents), metadatas=metadatas, ids=ids)
    own_ids = [None] * len(contents) if ids is None else check_texts("ids", "ids", ids)
    documents = [Document(text, id=id) for text, id in zip(contents, own_ids, strict=True)]
    for document, metadata in zip(documents, metadatas if metadatas is not None else (), strict=False):
        check_mapping("metadata", metadata)
        document.metadata = dict(metadata)
    return check_documents(documents)


def check_positions(kind: type[BaseModel], arguments: Sequence[object], settings: Mapping[str, object]) -> None:
    """Raise TypeError, with the call to write, for too many or a missing positional argument of a constructor."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD][1:]
    if not names or names[0] not in ("vector_store", "retriever"):
        return  # a subclass of the user's own, with another constructor
    name, first = kind.__name__, names[0]
    if len(arguments) > len(names):
        others = ("semantic_weight", "keyword_weight", "k") if first == "vector_store" else ("k",)
        options = call_text(dict(zip(others, arguments[len(names) :], strict=False)))
        raise TypeError(
            f"{name} takes {' and '.join(names)} by position, and options by name, got {len(arguments)} positional "
            f"arguments; write {name}({', '.join(names)}, {options})"
        )
    if not arguments and settings and first not in settings:
        creator = name if first == "vector_store" else f"{name}.from_store"
        advice = _how_to_create(settings.get("retrievers"), creator, f"{name}({first}, …)", settings.get("weights"))
        raise TypeError(
            f"{name} needs its first argument, {first}, got {', '.join(f'{each}=' for each in settings)}; {advice}"
        )


def check_first(kind: type[BaseModel], value: object, expected: type) -> None:
    """Raise ConfigurationError, with the call to write, unless the first argument is an ``expected`` object.

    ``expected`` is VectorStore or BaseRetriever.
    """
    if not isinstance(value, expected):
        creator = kind.__name__ if expected is VectorStore else f"{kind.__name__}.from_store"
        default = (
            f"{creator}(store), where store is a HybridGraphStore or another VectorStore, such as Chroma, or "
            f"{kind.__name__}.from_documents(documents)"
        )
        message = f"expected a {expected.__name__} of LangChain, got an object of the class {type(value).__name__}"
        raise ConfigurationError(f"{message}; {_how_to_create(value, creator, default)}")


def _how_to_create(value: object, creator: str, default: str, weights: Any = None) -> str:
    """Return the call of ``creator`` with this retriever or the retrievers of an EnsembleRetriever, or the default."""
    if isinstance(value, VectorStoreRetriever):
        return f"write {creator}(retriever.vectorstore)"
    if isinstance(value, BaseRetriever):
        return f"write {creator}(store, keyword_retriever=retriever), where store is the store with the same texts"
    retrievers = value if isinstance(value, list | tuple) else ()
    places = {isinstance(each, VectorStoreRetriever): place for place, each in enumerate(retrievers)}
    if len(retrievers) != 2 or len(places) != 2:
        return f"write {default}"
    options = [f"retrievers[{places[True]}].vectorstore", f"keyword_retriever=retrievers[{places[False]}]"]
    if isinstance(weights, list | tuple) and len(weights) == 2:
        options += [f"semantic_weight={weights[places[True]]}", f"keyword_weight={weights[places[False]]}"]
    return f"write {creator}({', '.join(options)})"
