"""Tracer, logger and sinks of a retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, field_validator

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.group import OptionGroup
from langchain_hybridgraph.telemetry.dispatch import check_sink
from langchain_hybridgraph.telemetry.sinks import logger_from


class TelemetryOptions(OptionGroup):
    """Options for the tracer, logger and sinks that receive the events of one retriever.

    Sinks that ``add_sink`` registered for the process receive these events, too.

    >>> TelemetryOptions(logger="search").logger.name
    'search'
    """

    tracer: Any = Field(default=None, description="OpenTelemetry tracer, which receives a span per search and stage.")
    logger: Any = Field(default=None, description="Logger or its name, which receives a line per search.")
    sinks: Sequence[Any] = Field(default=(), description="Callables that receive every event.")

    @field_validator("tracer")
    @classmethod
    def _usable_tracer(cls, value: Any) -> Any:
        if value is not None and not callable(getattr(value, "start_span", None)):
            raise ConfigurationError(
                f'tracer must have start_span, got {value!r}; pass opentelemetry.trace.get_tracer("…")'
            )
        return value

    @field_validator("logger")
    @classmethod
    def _usable_logger(cls, value: Any) -> Any:
        return None if value is None else logger_from(value)

    @field_validator("sinks")
    @classmethod
    def _usable_sinks(cls, value: Sequence[Any]) -> tuple[Any, ...]:
        for sink in value:
            check_sink(sink)
        return tuple(value)
