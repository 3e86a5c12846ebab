"""Creation of rerankers, planners and chat models by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from langchain_hybridgraph.embeddings.resolve import imported_factory
from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError, quote_value
from langchain_hybridgraph.query import llm_rerank
from langchain_hybridgraph.query.llm_rerank import LLMReranker
from langchain_hybridgraph.query.planning import QueryPlanner, RulePlanner, llm_planner
from langchain_hybridgraph.query.rerankers import RERANKERS as WITHOUT_MODEL
from langchain_hybridgraph.query.rerankers import Reranker
from langchain_hybridgraph.registry import from_config


def chat_model(name: Any) -> Any:
    """Create a chat model from its name.

    For ``"package.module:factory"``, the function or class is called without arguments; ``"provider:model"`` is passed
    to LangChain's ``init_chat_model``. Raises ConfigurationError for any other name, and if the model cannot be
    created.
    """
    if not isinstance(name, str) or not all(name.partition(":")):
        raise ConfigurationError(f"model must be 'provider:model' or 'package.module:factory', got {quote_value(name)}")
    if _is_factory(name):
        return _call_factory("model", name, {})
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as missing:
        raise MissingExtraError(f"model {quote_value(name)} needs init_chat_model: pip install langchain") from missing
    return _call_factory("model", name, {}, lambda: init_chat_model(name))


def _is_factory(name: str) -> bool:
    """Return whether a name consists of a module and an object in it, and is not ``provider:model``.

    The names of models are seldom valid identifiers.
    """
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in path.split(".")):
        return False
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return "." in module  # importing it raises an error that names the missing module


def _llm_reranker(
    model: str,
    *,
    batch_size: int = llm_rerank.BATCH_SIZE,
    max_characters: int = llm_rerank.MAX_CHARACTERS,
    workers: int = llm_rerank.WORKERS,
    timeout: float | None = llm_rerank.TIMEOUT,
    method: str | None = None,
) -> LLMReranker:
    settings = {"batch_size": batch_size, "max_characters": max_characters, "workers": workers}
    return LLMReranker(chat_model(model), **settings, timeout=timeout, method=method)


def _llm_planner(model: str, *, timeout: float | None = llm_planner.TIMEOUT, method: str | None = None) -> QueryPlanner:
    return QueryPlanner(chat_model(model), timeout=timeout, method=method)


RERANKERS: Mapping[str, Callable[..., Reranker]] = MappingProxyType({**WITHOUT_MODEL, "llm": _llm_reranker})
"""Rerankers that a configuration file can name; others are named as ``"package.module:factory"``."""
PLANNERS: Mapping[str, Callable[..., Any]] = MappingProxyType({"rules": RulePlanner, "llm": _llm_planner})
"""Planners that a configuration file can name; others are named as ``"package.module:factory"``."""


def create_stage(what: str, form: str | Mapping[str, Any], kinds: Mapping[str, Callable[..., Any]]) -> Any:
    """Create a stage from a name or a mapping: one of the ``kinds``, or the result of ``"package.module:factory"``.

    >>> create_stage("planner", "rules", PLANNERS).__class__.__name__
    'RulePlanner'
    """
    name = form if isinstance(form, str) else form.get("type")
    if isinstance(name, str) and name not in kinds and all(name.partition(":")):
        parameters = {} if isinstance(form, str) else {key: value for key, value in form.items() if key != "type"}
        return _call_factory(what, name, parameters)
    return from_config(what, form, kinds, callable)


def _call_factory(
    what: str, name: str, parameters: Mapping[str, Any], factory: Callable[..., Any] | None = None
) -> Any:
    factory = imported_factory(name, what) if factory is None else factory
    try:
        return factory(**parameters)
    except ConfigurationError:
        raise
    except Exception as error:  # the factory is the user's code and may raise anything
        raise ConfigurationError(
            f"{what} {quote_value(name)} could not be created with {quote_value(dict(parameters))}: "
            f"{type(error).__name__}: {error}"
        ) from error
