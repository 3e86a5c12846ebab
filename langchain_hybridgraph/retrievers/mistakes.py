"""What is said of a setting or a first argument that a retriever cannot take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.forms import nearest


def check_names(kind: type[BaseModel], given: Mapping[str, Any]) -> None:
    """Raises pydantic's ValidationError, a ValueError, for settings that this kind of retriever does not have."""
    known = kind.model_fields
    unknown = [
        InitErrorDetails(
            type=_error(f"{kind.__name__} has no such setting. {_advice(name, known)}"), loc=(name,), input=value
        )
        for name, value in given.items()
        if name not in known
    ]
    if unknown:
        raise ValidationError.from_exception_data(kind.__name__, unknown)


def _advice(name: str, known: Iterable[str]) -> str:
    shown = sorted(known)
    near = nearest(name, shown).strip()
    return near[0].upper() + near[1:] if near else f"There are {', '.join(shown)}"


def check_store(kind: type[BaseModel], given: object) -> None:
    """Raises pydantic's error for a first argument that is no VectorStore, with the line that makes it one."""
    if not isinstance(given, VectorStore):
        raise _error(f"wanted a LangChain VectorStore. {_line(kind.__name__, given)}")


def _line(kind: str, given: object) -> str:
    """How to come from what was given to a store."""
    is_a = f"This is a {type(given).__name__}"
    if isinstance(given, VectorStoreRetriever):
        return f"{is_a}; pass the store that it asks: {kind}(retriever.vectorstore)"
    if isinstance(given, BaseRetriever):
        return f"{is_a}; it may be the keyword side of a store: {kind}(store, keyword_retriever=retriever)"
    if type(given).__module__.partition(".")[0] == "chromadb":
        name = repr(getattr(given, "name", "…"))
        chroma = f"Chroma(client=client, collection_name={name}, embedding_function=embeddings)"
        return f"{is_a} of chromadb; open it with langchain_chroma: {kind}({chroma})"
    if isinstance(given, str | Path):
        ours, chroma = f"HybridGraphStore({str(given)!r})", f"Chroma(persist_directory={str(given)!r}, …)"
        return f"This is the text {str(given)!r}; open what is there: {kind}({ours}), or {kind}({chroma})"
    if isinstance(given, list | tuple) and all(isinstance(each, Document) for each in given):
        return f"These are Documents; a store is made of them by {kind}.from_documents(documents)"
    return f"{is_a}; HybridGraphStore is one, and so are Chroma, PGVector and all others of LangChain"


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
