"""Prometheus metrics of searches."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from langchain_hybridgraph.errors import MissingExtraError
from langchain_hybridgraph.telemetry.events import Event, Search, SearchEnded, StageEnded

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DOCUMENTS = (0, 1, 2, 3, 5, 10, 20, 50, 100)


class _Metrics(NamedTuple):
    duration: Histogram
    documents: Histogram
    degraded: Counter
    errors: Counter


class _RegistryState(NamedTuple):
    """Metrics of a registry, and the searches and failures already counted in them.

    ``inner_failures`` contains, for each search, the failures already counted for its inner searches.
    """

    metrics: _Metrics
    counted: WeakSet[Search]
    inner_failures: WeakKeyDictionary[Search, set[Any]]
    lock: threading.Lock  # sinks of the same registry may run on separate threads


class PrometheusSink:
    """Sink that counts searches in a ``prometheus_client`` registry, by default the global one.

    The application must expose the registry, for example with ``prometheus_client.start_http_server``. The metrics are:

    - ``rag_retrieval_duration_seconds{mode, retriever}`` (histogram): duration of searches, including those that raised
    - ``rag_retrieved_documents_count{mode, retriever}`` (histogram): number of Documents returned by a search
    - ``rag_retrieval_degraded_total{reason}``: number of searches with this reason in ``degraded``; only reasons with
      the level ``warning`` are counted
    - ``rag_pipeline_errors_total{component, exception_type}``: number of failures, including those that did not end the
      search; for a search that raised, the component is ``retriever``

    The label ``mode`` is ``context`` for a search with a conversation and ``plain`` otherwise. The label ``retriever``
    is the name of the retriever's class.

    A search started by another retriever of this package is part of the outer search. It is not counted separately, and
    a failure that both searches report is counted once. Sinks of one registry share its metrics, so a search is counted
    once regardless of the number of sinks. Raises MissingExtraError if ``prometheus_client`` cannot be imported; the
    message contains the install command.

    >>> from prometheus_client import CollectorRegistry
    >>> registry = CollectorRegistry()
    >>> PrometheusSink(registry)(SearchEnded(Search("HybridRetriever", 10, "cat", 0), "hybrid", 1.5, (("id", 0.9),)))
    >>> labels = {"mode": "plain", "retriever": "HybridRetriever"}
    >>> registry.get_sample_value("rag_retrieved_documents_count_sum", labels)
    1.0
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registered = _registered(registry)
        self._metrics = self._registered.metrics

    def __call__(self, event: Event) -> None:
        """Count a search. Stages and cancelled searches are not counted."""
        if isinstance(event, StageEnded) or event.cancelled:
            return
        with self._registered.lock:
            if event.search not in self._registered.counted:
                self._registered.counted.add(event.search)
                self._count(event)

    def _count(self, event: SearchEnded) -> None:
        if event.search.parent is None:
            labels = "context" if event.has_context else "plain", event.search.retriever
            self._metrics.duration.labels(*labels).observe(event.took_ms / 1e3)
            if event.error is None:
                self._metrics.documents.labels(*labels).observe(len(event.results))
        self._count_failures(event)

    def _count_failures(self, event: SearchEnded) -> None:
        inner = self._registered.inner_failures
        counted = inner.pop(event.search, set())
        failures = {*event.warnings, *event.error_types.items()}
        for each in sorted(failures - counted, key=str):
            if isinstance(each, str):
                self._metrics.degraded.labels(each).inc()
            else:
                self._metrics.errors.labels(*each).inc()
        if event.search.parent is not None:
            inner.setdefault(event.search.parent, set()).update(counted, failures)


_by_registry: WeakKeyDictionary[CollectorRegistry, _RegistryState] = WeakKeyDictionary()
_lock = threading.Lock()


def _registered(registry: CollectorRegistry | None) -> _RegistryState:
    try:
        from prometheus_client import REGISTRY
    except ImportError as missing:
        raise MissingExtraError(
            "PrometheusSink needs prometheus_client, which cannot be imported: "
            'pip install "langchain-hybridgraph[prometheus]"'
        ) from missing
    key = REGISTRY if registry is None else registry
    with _lock:
        if key not in _by_registry:
            _by_registry[key] = _RegistryState(_metrics(key), WeakSet(), WeakKeyDictionary(), threading.Lock())
        return _by_registry[key]


def _metrics(registry: CollectorRegistry) -> _Metrics:
    from prometheus_client import Counter, Histogram

    labels = ["mode", "retriever"]
    return _Metrics(
        Histogram(
            "rag_retrieval_duration_seconds", "Duration of searches.", labels, buckets=SECONDS, registry=registry
        ),
        Histogram(
            "rag_retrieved_documents_count", "Documents per search.", labels, buckets=DOCUMENTS, registry=registry
        ),
        Counter("rag_retrieval_degraded_total", "Searches that were degraded.", ["reason"], registry=registry),
        Counter(
            "rag_pipeline_errors_total",
            "Failures of components of a search.",
            ["component", "exception_type"],
            registry=registry,
        ),
    )
