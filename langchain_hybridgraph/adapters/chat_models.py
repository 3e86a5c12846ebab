"""Chat models by name."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError, quote_value
from langchain_hybridgraph.registry import call_factory


def chat_model(name: Any) -> Any:
    """Create a chat model from its name.

    ``"package.module:factory"`` names a function or class, which is called without arguments. ``"provider:model"`` is
    passed to LangChain's ``init_chat_model``. Raises ConfigurationError for a name of any other form or if the model
    cannot be created, and MissingExtraError if ``langchain`` is needed but not installed.
    """
    if not isinstance(name, str) or not all(name.partition(":")):
        raise ConfigurationError(f"model must be 'provider:model' or 'package.module:factory', got {quote_value(name)}")
    if _is_factory(name):
        return call_factory("model", name, {})
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as missing:
        raise MissingExtraError(f"model {quote_value(name)} needs init_chat_model: pip install langchain") from missing
    return call_factory("model", name, {}, lambda: init_chat_model(name))


def _is_factory(name: str) -> bool:
    """Return whether a name has the form ``module:factory`` rather than ``provider:model``.

    The part after the colon usually shows the difference, because few model names are valid identifiers.
    """
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in path.split(".")):
        return False
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return "." in module  # importing it raises an error that names the missing module
