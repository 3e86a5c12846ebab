"""Calls to chat models as effects, with their timeouts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.asynchronous import is_asynchronous
from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.execution.structured_output import SILENT
from langchain_hybridgraph.execution.worker_threads import lane_of


def model_call(
    source: str,
    caller: object,
    ask: Callable[..., Any],
    aask: Callable[..., Awaitable[Any]] | None,
    question: Any,
    **config: Any,
) -> Effect:
    """Return an effect that sends a question to a model. Tracers show the call under the class name of ``caller``.

    ``ask`` and ``aask`` are the model's methods, such as ``invoke`` and ``ainvoke``. ``config`` is added to the
    configuration that they receive. A model without asynchronous methods of its own is called on a worker. Inside a
    LangGraph graph, the answer is not streamed to the user. Each caller has its own lane, so different callers do not
    delay each other.
    """
    configuration = {"run_name": type(caller).__name__, **config, **SILENT}
    is_awaited = aask is not None and is_asynchronous(getattr(aask, "__self__", None))
    arun = partial(aask, question, configuration) if aask is not None and is_awaited else None
    return Effect(source, partial(ask, question, configuration), arun, lane=lane_of("model", caller))


def check_timeout(owner: str, timeout: float | None, example: float) -> None:
    """Raise ConfigurationError unless the timeout is positive or None (no limit)."""
    if timeout is not None and not timeout > 0:
        raise ConfigurationError(f"{owner}(timeout={timeout!r}): pass seconds, such as {example:g}, or None")
