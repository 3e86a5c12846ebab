"""Validation of stores, documents, vectors and other arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BaseModel

from langchain_hybridgraph.errors import ConfigurationError, shorten
from langchain_hybridgraph.filters.expressions import Filter
from langchain_hybridgraph.options.groups import call_text
from langchain_hybridgraph.options.values import option_error

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_texts(name: str, what: str, value: object) -> tuple[str, ...]:
    """Check the value of an option that takes a list of strings, and return it as a tuple.

    ``what`` describes the strings in the error message, for example "ids". Raises ConfigurationError for a single
    string and for anything else that is not a list of strings.

    >>> check_texts("seed_ids", "ids", ["a"])
    ('a',)
    """
    if isinstance(value, str):
        raise ConfigurationError(
            f"{name} must be a list of {what}, got the string {value!r:.80}; write {name}=[{value!r:.80}]"
        )
    if not isinstance(value, Iterable):
        raise ConfigurationError(
            f"{name} must be a list of {what}, got {value!r:.80}; write {name}=[{str(value)!r:.80}]"
        )
    texts = tuple(value)
    if any(not isinstance(text, str) for text in texts):
        raise ConfigurationError(
            f"{name} must be a list of {what} as strings, got {list(texts)!r:.200}; "
            f"write {name}={[str(text) for text in texts]!r:.200}"
        )
    return texts


def check_labels(name: str, value: object) -> list[str]:
    """Return the labels in the value of the option ``name``. A string is one label, and None means no labels.

    Raises ConfigurationError for any other value that is not a collection of strings.

    >>> check_labels("seed_labels", "Claim")
    ['Claim']
    """
    labels = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(labels, Sequence | Set) or not all(isinstance(label, str) for label in labels):
        raise ConfigurationError(
            f"{name} must be a string or a list of strings, got {value!r:.200}; write {name}=['home', 'tea']"
        )
    return list(labels)


def check_vector(value: object) -> NDArray[np.float32]:
    """Return the query's vector as an array. Raises ConfigurationError for anything that is not one vector."""
    try:
        vector = np.asarray(value, np.float32)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(
            f"vector must be a list of numbers, got {value!r:.80}; pass embeddings.embed_query(query)"
        ) from None
    if vector.ndim == 2:
        raise ConfigurationError(
            f"vector must be the vector of one query, got a list of vectors ({len(vector)} of them); search "
            "once for each: [retriever.retrieve(None, vector=each) for each in vectors]"
        )
    if vector.ndim != 1 or not len(vector):
        raise ConfigurationError(
            f"vector must be a list of numbers, got {value!r:.80}; pass embeddings.embed_query(query)"
        )
    return vector


def check_documents(value: Iterable[object]) -> list[Document]:
    """Return the Documents as a list. Raises ConfigurationError for anything else and for an empty id."""
    if isinstance(value, str | Document):
        raise ConfigurationError(
            f"documents must be a list of Documents, got one {type(value).__name__}: {_how_to_wrap(value)}"
        )
    documents = list(value)
    for document in documents:
        if not isinstance(document, Document):
            raise ConfigurationError(
                f"documents must be LangChain Documents, got {document!r:.60}: {_how_to_wrap(document)}"
            )
        if document.id == "":
            raise ConfigurationError(
                f'a document id must not be empty, got "" for {document.page_content!r:.60}; leave out id to derive it '
                "from the text"
            )
    return documents  # type: ignore[return-value]  # all of them are


def _how_to_wrap(value: object) -> str:
    if isinstance(value, Document):
        return "pass [document]"
    if isinstance(value, str):
        return "wrap each text, [Document(page_content=text) for text in texts]"
    return "create them with Document(page_content=…, metadata=…)"


def documents_of(
    texts: Sequence[str], metadatas: Sequence[Mapping[str, Any]] | None, ids: Sequence[str] | None
) -> list[Document]:
    """Return Documents with these texts, metadata and ids.

    Raises ConfigurationError if ``texts`` is not a list of strings, or if another list has a different length.
    """
    contents = check_texts("texts", "texts", texts)
    for name, values in (("metadatas", metadatas), ("ids", ids)):
        if values is not None and len(values) != len(contents):
            raise ConfigurationError(
                f"{name} has {len(values)} entries for {len(contents)} texts; pass one for each text, or none"
            )
    return check_documents(
        Document(page_content=text, metadata=dict(metadata), id=id)
        for text, metadata, id in zip(contents, metadatas or repeat({}), ids or repeat(None), strict=False)
    )


def check_positions(kind: type[BaseModel], arguments: Sequence[object], settings: Mapping[str, object]) -> None:
    """Raise TypeError, with the call to write, for too many or a missing positional argument of a constructor."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD][1:]
    if not names or names[0] not in ("vector_store", "retriever"):
        return  # a subclass of the user's own, with another constructor
    name = kind.__name__
    others = ("semantic_weight", "keyword_weight", "k") if names[0] == "vector_store" else ("k",)
    positions = 1 if len(arguments) > 1 and _is_weight(arguments[1]) else len(names)
    if len(arguments) > positions:
        values = arguments[positions:]
        if isinstance(values[0], list | tuple) and len(values[0]) == 2 and _is_weight(values[0]):
            values = (*values[0], *values[1:])  # as for an EnsembleRetriever
        options = dict(zip(others, values, strict=False))
        rest = ", …" if len(values) > len(others) else ""
        raise TypeError(
            f"{name} takes {' and '.join(names)} by position, and options by name, got {len(arguments)} positional "
            f"arguments; write {name}({', '.join(names[:positions])}, {call_text(options)}{rest})"
        )
    if not arguments and settings and names[0] not in settings:
        retrievers, stores = settings.get("retrievers"), (BaseRetriever if names[0] == "retriever" else VectorStore)
        if isinstance(retrievers, list | tuple) and names[0] == "vector_store":
            advice = _how_to_combine(name, retrievers, settings.get("weights"))
        else:
            alias = next((each for each, value in settings.items() if isinstance(value, stores)), names[0])
            advice = f"write {name}({alias}, …)" if len(settings) > (alias in settings) else f"write {name}({alias})"
        raise TypeError(
            f"{name} needs its first argument, {names[0]}, got {', '.join(f'{each}=' for each in settings)}; {advice}"
        )


def _is_weight(value: object) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    return bool(values) and all(isinstance(each, int | float) for each in values)


def check_by_name(k: object, others: Sequence[object]) -> None:
    """Raise ConfigurationError if there are ``others``, arguments of ``retrieve`` that were passed by position."""
    if others:
        name = "filter" if isinstance(others[0], Mapping | Filter) else "…"
        raise ConfigurationError(
            f"retrieve takes the query and k by position, and options by name, got {others[0]!r:.80} as well; "
            f"write retrieve(query, k={k!r}, {name}={others[0]!r:.80})"
        )


def _how_to_combine(kind: str, retrievers: Sequence[object], weights: object) -> str:
    """Return advice on replacing an EnsembleRetriever of these retrievers by a ``kind``."""
    places = {isinstance(each, VectorStoreRetriever): place for place, each in reversed([*enumerate(retrievers)])}
    if True not in places or len(retrievers) > 2:
        return (
            f"{kind} searches one vector store: write {kind}(vector_store), and combine others with EnsembleRetriever"
        )
    line = f"{kind}(retrievers[{places[True]}].vectorstore"
    if False not in places:
        return f"write {line})"
    line += f", keyword_retriever=retrievers[{places[False]}]"
    if isinstance(weights, list | tuple) and len(weights) == 2:
        line += f", semantic_weight={weights[places[True]]}, keyword_weight={weights[places[False]]}"
    return f"write {line})"


def check_store(kind: type[BaseModel], value: object) -> None:
    """Raise a pydantic error that shows how to get a VectorStore unless ``value`` is one."""
    if isinstance(value, VectorStore):
        return
    name = kind.__name__
    if isinstance(value, VectorStoreRetriever):
        advice = f"{_is_a(value)}; pass its store: {name}(retriever.vectorstore)"
    elif isinstance(value, BaseRetriever):
        advice = f"{_is_a(value)}; it can be the keyword search of a store: {name}(store, keyword_retriever=retriever)"
    else:
        other = f"{_is_a(value)}; pass a HybridGraphStore, or another VectorStore such as Chroma or PGVector"
        advice = _how_to_create(value, name, over=name) or other
    raise option_error(f"Expected a LangChain VectorStore. {advice}")


def check_retriever(kind: type[BaseModel], value: object) -> None:
    """Raise a pydantic error that shows how to get a retriever unless ``value`` is one."""
    if isinstance(value, BaseRetriever):
        return
    name = kind.__name__
    if isinstance(value, VectorStore):
        advice = f"{_is_a(value)}, which is a store; write {name}(HybridRetriever(store)) or {name}.from_store(store)"
    else:
        other = f"{_is_a(value)}; pass HybridRetriever(store), or another LangChain retriever"
        advice = _how_to_create(value, name, over=f"{name}.from_store") or other
    raise option_error(f"Expected a LangChain retriever. {advice}")


def _how_to_create(value: object, kind: str, *, over: str) -> str:
    """Return advice on creating a ``kind`` from a class, a chromadb object, a path or Documents, otherwise ""."""
    if isinstance(value, type):
        return f"This is the class {value.__name__}; pass an instance: {kind}({value.__name__}(…))"
    if type(value).__module__.partition(".")[0] == "chromadb":
        name = repr(getattr(value, "name", "…"))
        chroma = f"Chroma(client=client, collection_name={name}, embedding_function=embeddings)"
        return f"{_is_a(value)} of chromadb; open it with langchain_chroma: {over}({chroma})"
    if isinstance(value, str | Path):
        path = repr(shorten(str(value), 200))
        ours, chroma = f"HybridGraphStore({path})", f"Chroma(persist_directory={path}, …)"
        return f"This is the string {path}; open the index: {over}({ours}), or {over}({chroma})"
    if isinstance(value, list | tuple):
        advice = {
            Document: f"These are Documents; create a store from them with {kind}.from_documents(documents)",
            str: f"These are texts; create a store from them with {kind}.from_texts(texts)",
            BaseRetriever: f"These are retrievers; {_how_to_combine(kind, value, None)}",
        }
        return next((line for type, line in advice.items() if all(isinstance(each, type) for each in value)), "")
    return ""


def _is_a(value: object) -> str:
    if value is None:
        return "This is None"
    name = type(value).__name__
    return f"This is {'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
