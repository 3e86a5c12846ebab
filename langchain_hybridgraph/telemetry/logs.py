"""A structured line of log per search."""

from __future__ import annotations

import json
import logging
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.telemetry.events import Event, SearchEnded, StageEnded

LOGGER = "langchain_hybridgraph.retrieval"

Logger = logging.Logger | logging.LoggerAdapter[Any]


class LogSink:
    """Logs each search, by default to ``langchain_hybridgraph.retrieval``, and its stages at level DEBUG.

    A search is INFO, one with :attr:`~SearchEnded.warnings` WARNING, one that raised ERROR. The message is
    ``retrieval`` and a JSON object; each of its keys is an attribute of the record, too (``extra=``), for formatters
    that make JSON of records.

    The query stands in it as its length and a short hash, and of errors only the type does, as their messages may
    quote the query; with ``text=True`` query and messages are logged as they are.

    >>> from langchain_hybridgraph.telemetry.events import Search
    >>> import sys
    >>> logger = logging.Logger("example")
    >>> logger.addHandler(logging.StreamHandler(sys.stdout))
    >>> LogSink(logger)(SearchEnded(Search("HybridRetriever", 10, "cat", 0), "hybrid", 1.5, (("id", 0.9),)))
    retrieval {"retriever": "HybridRetriever", "mode": "hybrid", "k": 10, "results": 1, "took_ms": 1.5, \
"degraded": [], "errors": {}, "cancelled": false, "query_length": 3, "query_hash": "77af778b51ab"}
    """

    def __init__(self, logger: Logger | str | None = None, *, text: bool = False) -> None:
        self.logger = logger_from(LOGGER if logger is None else logger)
        self.text = text

    def __call__(self, event: Event) -> None:
        """Log an event."""
        level = _level(event)
        if not self.logger.isEnabledFor(level):
            return
        name, said = self._said(event)
        asked = event.search
        said |= {"query_length": asked.query_length, "query_hash": asked.query_hash}
        if self.text:
            said["query"] = asked.query
        self.logger.log(level, "%s %s", name, json.dumps(said, ensure_ascii=False, default=str), extra=said)

    def _said(self, event: Event) -> tuple[str, dict[str, Any]]:
        asked = event.search
        if isinstance(event, StageEnded):
            error = None if event.error is None else type(event.error).__name__
            took = round(event.took_ms, 3)
            return "stage", {"retriever": asked.retriever, "stage": event.stage, "took_ms": took, "error": error}
        return "retrieval", {
            "retriever": asked.retriever,
            "mode": event.mode,
            "k": asked.k,
            "results": len(event.results),
            "took_ms": round(event.took_ms, 3),
            "degraded": list(event.degraded),
            "errors": self._errors(event),
            "cancelled": event.cancelled,
        }

    def _errors(self, event: SearchEnded) -> dict[str, str]:
        if not self.text:
            return event.error_types
        said = dict(event.errors)
        return said if event.error is None else said | {"retriever": f"{type(event.error).__name__}: {event.error}"}


def logger_from(logger: Any) -> Logger:
    """A logger, by itself or by its name; raises ConfigurationError for anything else."""
    if isinstance(logger, str):
        return logging.getLogger(logger)
    if isinstance(logger, logging.Logger | logging.LoggerAdapter):
        return logger
    raise ConfigurationError(f'logger is {logger!r}; wanted logging.getLogger("…"), or its name')


def _level(event: Event) -> int:
    if isinstance(event, StageEnded):
        return logging.DEBUG
    if event.error is not None:
        return logging.ERROR
    return logging.WARNING if event.warnings else logging.INFO
