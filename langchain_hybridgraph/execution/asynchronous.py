"""Detection of native asynchronous methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

# Methods that do the work of a chat model, an embedding and a chat history, and of a retriever, a compressor and a
# store.
_WORK_METHODS = ("_agenerate", "aembed_query", "aget_messages")
_WRAPPER_METHODS = ("_aget_relevant_documents", "acompress_documents", "asimilarity_search")
_METHODS = (*_WORK_METHODS, *_WRAPPER_METHODS, "ainvoke")
_PACKAGE = __name__.partition(".")[0]
_DEPTH = 8


def is_asynchronous(thing: Any) -> bool:
    """Return whether a LangChain object has native asynchronous methods, which do not occupy a thread while they wait.

    Every LangChain object has asynchronous methods. The default ones run the synchronous methods in the event loop's
    default executor. If such a call hangs, ``asyncio.run`` never returns, because it waits for that executor. Objects
    without native asynchronous methods should therefore be called on a worker.

    LangChain's own chains and retrievers are treated as asynchronous if they contain a model, store or retriever that
    is asynchronous. Unknown objects are treated as asynchronous.
    """
    return _is_asynchronous(thing, _DEPTH) is not False


def _is_asynchronous(thing: Any, depth: int) -> bool | None:
    """Return whether the object is asynchronous, or None if this is unknown."""
    name = next((name for name in _METHODS if hasattr(type(thing), name)), None)
    own = None if name is None else _is_own(thing, name)
    if own is False or name in _WORK_METHODS or (own and not _depends_on_parts(type(thing), name)):
        return own
    parts = {_is_asynchronous(part, depth - 1) for part in _parts(thing)} - {None} if depth else set()
    return any(parts) if parts else own


def _is_own(thing: Any, name: str) -> bool | None:
    """Return whether the object defines its own asynchronous method. Return None for a chain, because the answer then
    depends on its parts.
    """
    method = getattr(type(thing), name)
    if _runs_in_executor(method):
        return False
    if name == "_agenerate":  # the base class for simple LLMs calls another method, _acall
        return not (_is_of_core(method) and _runs_in_executor(getattr(type(thing), "_acall", None)))
    if name == "ainvoke" and getattr(thing, "func", None) is not None:  # a RunnableLambda
        return getattr(thing, "afunc", None) is not None
    return None if name == "ainvoke" and _is_of_core(method) else True


def _runs_in_executor(method: Any) -> bool:
    """Return whether ``method`` is LangChain's default, which only runs the synchronous method in an executor."""
    return _is_of_core(method) and "run_in_executor" in method.__code__.co_names


def _is_of_core(method: Any) -> bool:
    return inspect.isfunction(method) and method.__module__.startswith("langchain_core.")


def _depends_on_parts(kind: type, name: str | None) -> bool:
    """Return whether an object of this class is asynchronous only if its parts are.

    This applies to LangChain's own objects and to this package's models that wrap a chat model.
    """
    package = kind.__module__.partition(".")[0]
    return name == "ainvoke" if package == _PACKAGE else package.startswith("langchain")


def _parts(thing: Any) -> Iterator[Any]:
    """Yield the LangChain objects in the attributes of an object, such as the steps of a chain or the store of a
    retriever.
    """
    slots = [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
    for value in [*slots, *getattr(thing, "__dict__", {}).values()]:
        values = (
            value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else (value,)
        )
        yield from (part for part in values if any(hasattr(type(part), name) for name in _METHODS))
