"""What is said of a setting or a first argument that a retriever cannot take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from langchain_hybridgraph.errors import ConfigurationError, shorten
from langchain_hybridgraph.query.graph import TRAVERSALS
from langchain_hybridgraph.query.graph.scores import GRAPH_SCORES
from langchain_hybridgraph.registry import nearest, parameters_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_names(kind: type[BaseModel], given: Mapping[str, Any]) -> None:
    """Raises pydantic's ValidationError, a ValueError, for settings that this kind of retriever does not have."""
    known = {name: field for each, field in kind.model_fields.items() for name in {each, field.alias or each}}
    unknown = [
        InitErrorDetails(
            type=_error(f"{kind.__name__} has no such setting. {_advice(name, value, known)}"),
            loc=(shorten(name, 100),),
            input=value,
        )
        for name, value in given.items()
        if name not in known
    ]
    if unknown:
        raise ValidationError.from_exception_data(kind.__name__, unknown)


def _advice(name: str, value: object, known: Iterable[str]) -> str:
    shown = sorted(known)
    if "traversal" in shown and (lines := stage_lines({name: value})):
        return f"Give {lines[0]}"
    near = nearest(name, shown).strip()
    return near[0].upper() + near[1:] if near else f"There are {', '.join(shown)}"


def stage_lines(given: Mapping[str, object]) -> list[str]:
    """The traversal and the score that have these parameters, or those that they are shorthand for, as arguments.

    What is a parameter of neither is left out.

    >>> stage_lines({"max_hops": 1, "direction": "both", "tau": 0.5, "colour": "red"})
    ["traversal={'type': 'bfs', 'max_hops': 1, 'direction': 'both'}", "score={'type': 'distance_decay', 'tau': 0.5}"]
    """
    named = dict(_in_full(name, value) for name, value in given.items())
    lines = []
    for what, kinds in (("traversal", TRAVERSALS), ("score", GRAPH_SCORES)):
        theirs = {kind: [name for name in named if name in parameters_of(made)] for kind, made in kinds.items()}
        kind = max(theirs, key=lambda each: len(theirs[each]))
        if theirs[kind]:
            lines.append(f"{what}={ {'type': kind} | {name: named.pop(name) for name in theirs[kind]}!r}")
    return lines


def _in_full(name: str, value: object) -> tuple[str, object]:
    """What a shorthand for a parameter stands for."""
    if name == "bidirectional":
        return "direction", "both" if value else "out"
    if name in ("relation_filter", "relations"):
        return "relations", [value] if isinstance(value, str) else value
    return name, value


def check_texts(name: str, what: str, given: object) -> tuple[str, ...]:
    """Return the texts of a setting that takes a list of them; ``what`` says what they are.

    Raises ConfigurationError for one text in place of a list, and for anything else.

    >>> check_texts("seed_labels", "labels", ["Claim"])
    ('Claim',)
    """
    if isinstance(given, str):
        raise ConfigurationError(
            f"{name} must be a list of {what}, got the text {given!r:.80}; write {name}=[{given!r:.80}]"
        )
    if not isinstance(given, Iterable):
        raise ConfigurationError(
            f"{name} must be a list of {what}, got {given!r:.80}; write {name}=[{str(given)!r:.80}]"
        )
    texts = tuple(given)
    if any(not isinstance(text, str) for text in texts):
        raise ConfigurationError(
            f"{name} must be a list of {what}, which are texts, got {list(texts)!r:.200}; "
            f"write {name}={[str(text) for text in texts]!r:.200}"
        )
    return texts


def check_vector(given: object) -> NDArray[np.float32]:
    """Return the query's vector; raises ConfigurationError for several vectors and for what is not a vector."""
    try:
        vector = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"vector must be a list of numbers, got {given!r:.80}; pass embeddings.embed_query(query)"
        ) from None
    if vector.ndim == 2:
        raise ConfigurationError(
            f"vector must be the vector of one query, got a list of vectors ({len(vector)} of them); search "
            "once for each, such as [retriever.retrieve(None, vector=each) for each in vectors]"
        )
    if vector.ndim != 1 or not len(vector):
        raise ConfigurationError(
            f"vector must be a list of numbers, got {given!r:.80}; pass embeddings.embed_query(query)"
        )
    return vector


def check_documents(given: Iterable[object]) -> list[Document]:
    """Return what is given as a list, if all are Documents; else raise ConfigurationError with how to make them."""
    if isinstance(given, str | Document):
        raise ConfigurationError(
            f"documents must be a list of Documents, got one {type(given).__name__}: {_wrap(given)}"
        )
    documents = list(given)
    for document in documents:
        if not isinstance(document, Document):
            raise ConfigurationError(f"documents must be LangChain Documents, got {document!r:.60}: {_wrap(document)}")
        if document.id == "":
            raise ConfigurationError(
                f'a document has the id "", which names nothing: {document.page_content!r:.60}; leave id out to have '
                "one made from the text"
            )
    return documents  # type: ignore[return-value]  # all of them are


def _wrap(given: object) -> str:
    if isinstance(given, Document):
        return "pass [document]"
    if isinstance(given, str):
        return "wrap each text, [Document(page_content=text) for text in texts]"
    return "LangChain's Document(page_content=…, metadata=…) makes them"


def check_store(kind: type[BaseModel], given: object) -> None:
    """Raises pydantic's error for a first argument that is no VectorStore, with the line that makes it one."""
    if not isinstance(given, VectorStore):
        raise _error(f"wanted a LangChain VectorStore. {_line(kind.__name__, given)}")


def _line(kind: str, given: object) -> str:
    """How to come from what was given to a store."""
    if isinstance(given, VectorStoreRetriever):
        return f"{_is_a(given)}; pass the store that it asks: {kind}(retriever.vectorstore)"
    if isinstance(given, BaseRetriever):
        return f"{_is_a(given)}; it may be the keyword side of a store: {kind}(store, keyword_retriever=retriever)"
    if said := _made_of(given, kind, over=kind):
        return said
    return f"{_is_a(given)}; HybridGraphStore is one, and so are Chroma, PGVector and all others of LangChain"


def check_retriever(kind: type[BaseModel], given: object) -> None:
    """Raises pydantic's error for a first argument that is no retriever, with the line that makes it one."""
    if not isinstance(given, BaseRetriever):
        raise _error(f"wanted a LangChain retriever. {_line_to_retriever(kind.__name__, given)}")


def _line_to_retriever(kind: str, given: object) -> str:
    """How to come from what was given to a retriever."""
    if isinstance(given, VectorStore):
        return f"{_is_a(given)}, a store: {kind}(HybridRetriever(store)), or {kind}.from_store(store)"
    if said := _made_of(given, kind, over=f"{kind}.from_store"):
        return said
    return f"{_is_a(given)}; HybridRetriever(store) is one, and so are all others of LangChain"


def _made_of(given: object, kind: str, *, over: str) -> str:
    """How ``kind`` is made of a class, a collection of chromadb, a path or Documents; "" for anything else.

    ``over`` is what takes a store.
    """
    if isinstance(given, type):
        return f"This is the class {given.__name__}; give one of the kind: {kind}({given.__name__}(…))"
    if type(given).__module__.partition(".")[0] == "chromadb":
        name = repr(getattr(given, "name", "…"))
        chroma = f"Chroma(client=client, collection_name={name}, embedding_function=embeddings)"
        return f"{_is_a(given)} of chromadb; open it with langchain_chroma: {over}({chroma})"
    if isinstance(given, str | Path):
        path = repr(shorten(str(given), 200))
        ours, chroma = f"HybridGraphStore({path})", f"Chroma(persist_directory={path}, …)"
        return f"This is the text {path}; open what is there: {over}({ours}), or {over}({chroma})"
    if isinstance(given, list | tuple) and all(isinstance(each, Document) for each in given):
        return f"These are Documents; a store is made of them by {kind}.from_documents(documents)"
    return ""


def _is_a(given: object) -> str:
    name = type(given).__name__
    return f"This is {'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def check_value(kind: type[BaseModel], name: str, value: Any) -> None:
    """Raises ConfigurationError for what a call sets to a value that the constructor would not take.

    ``name`` is a field of ``kind`` that has bounds.
    """
    try:
        # Pydantic reads a number in a text, which nothing after it does; if strict it knows no NumPy numbers.
        _adapter(kind, name).validate_python(value, strict=isinstance(value, str))
    except ValidationError as error:
        said = error.errors(include_url=False)[0]["msg"]
        raise ConfigurationError(f"{name} is {value!r}; {said[0].lower()}{said[1:]}") from None


@cache
def _adapter(kind: type[BaseModel], name: str) -> TypeAdapter[Any]:
    field = kind.model_fields[name]
    bounded: Any = Annotated[field.annotation, *field.metadata]
    return TypeAdapter(bounded)


def _error(said: str) -> PydanticCustomError:
    return PydanticCustomError("retriever_setting", "{said}", {"said": said})
