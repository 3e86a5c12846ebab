"""Structured logging of searches."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.telemetry.events import Event, SearchEnded, StageEnded

LOGGER = "langchain_hybridgraph.retrieval"

Logger = logging.Logger | logging.LoggerAdapter[Any]


class LogSink:
    """Sink that logs each search and, at level DEBUG, each stage.

    The default logger is ``langchain_hybridgraph.retrieval``. A search is logged at level ERROR if it
    raised an error, at WARNING if it has :attr:`~SearchEnded.warnings`, and at INFO otherwise. The message is
    ``retrieval`` (``stage`` for a stage) followed by a JSON object. The keys of the object are also attributes of the
    log record (``extra=``), for formatters that convert records to JSON.

    The query is logged only as its length and a short hash, and errors only as their types, because error messages may
    quote the query. With ``text=True``, the query and the error messages of the search are logged in full.

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
        name, fields = self._fields(event)
        search = event.search
        fields |= {"query_length": search.query_length, "query_hash": query_hash(search.query)}
        if self.text:
            fields["query"] = search.query
        self.logger.log(level, "%s %s", name, json.dumps(fields, ensure_ascii=False, default=str), extra=fields)

    def _fields(self, event: Event) -> tuple[str, dict[str, Any]]:
        search = event.search
        if isinstance(event, StageEnded):
            error = None if event.error is None else type(event.error).__name__
            took_ms = round(event.took_ms, 3)
            return "stage", {"retriever": search.retriever, "stage": event.stage, "took_ms": took_ms, "error": error}
        return "retrieval", {
            "retriever": search.retriever,
            "mode": event.mode,
            "k": search.k,
            "results": len(event.results),
            "took_ms": round(event.took_ms, 3),
            "degraded": list(event.degraded),
            "errors": self._errors(event),
            "cancelled": event.cancelled,
        }

    def _errors(self, event: SearchEnded) -> dict[str, str]:
        if not self.text:
            return event.error_types
        messages = dict(event.errors)
        return (
            messages
            if event.error is None
            else messages | {"retriever": f"{type(event.error).__name__}: {event.error}"}
        )


def logger_from(logger: Any) -> Logger:
    """Return a logger that was passed as an object or by name. Raises ConfigurationError for anything else."""
    if isinstance(logger, str):
        return logging.getLogger(logger)
    if isinstance(logger, logging.Logger | logging.LoggerAdapter):
        return logger
    raise ConfigurationError(f'logger must be a logger such as logging.getLogger("…"), or its name, got {logger!r}')


def _level(event: Event) -> int:
    if isinstance(event, StageEnded):
        return logging.DEBUG
    if event.error is not None:
        return logging.ERROR
    return logging.WARNING if event.warnings else logging.INFO


def query_hash(query: str | None) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of a query, or "" for an empty query or None.

    >>> query_hash("cat")
    '77af778b51ab'
    """
    return hashlib.sha256(query.encode("utf-8", "replace")).hexdigest()[:12] if query else ""
