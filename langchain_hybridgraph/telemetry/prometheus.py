"""Metrics for Prometheus."""

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


class _Registered(NamedTuple):
    """The metrics of a registry, the searches that stand in them, and what is told of those they are a part of."""

    metrics: _Metrics
    counted: WeakSet[Search]
    told: WeakKeyDictionary[Search, set[Any]]
    counting: threading.Lock  # sinks of one registry may hear on threads of their own


class PrometheusSink:
    """Counts searches in a registry of ``prometheus_client``, by default its own; serving it is the application's.

    - ``rag_retrieval_duration_seconds{mode, retriever}`` (histogram): how long searches took, also those that raised
    - ``rag_retrieved_documents_count{mode, retriever}`` (histogram): number of Documents that they returned
    - ``rag_retrieval_degraded_total{reason}``: number of searches with this reason in ``degraded``, warnings only
    - ``rag_pipeline_errors_total{component, exception_type}``: what failed, whether or not the search went on without;
      the component ``retriever`` is the search itself, which raised

    ``mode`` is ``context`` for a search with a conversation and ``plain`` for one without; ``retriever`` is the class.

    A search that another retriever of ours asks for is a part of that one's: it is not counted as a search of its own,
    and what both say of it is counted once. Sinks of one registry share its metrics: however many hear of a search, it
    is counted once. Raises MissingExtraError, which names the line to install, without ``prometheus_client``.

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
        """Count a search; its stages are not counted."""
        if isinstance(event, StageEnded) or event.cancelled:
            return
        with self._registered.counting:
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
        below = self._registered.told
        told = below.pop(event.search, set())
        failed = {*event.warnings, *event.error_types.items()}
        for each in sorted(failed - told, key=str):
            if isinstance(each, str):
                self._metrics.degraded.labels(each).inc()
            else:
                self._metrics.errors.labels(*each).inc()
        if event.search.parent is not None:
            below.setdefault(event.search.parent, set()).update(told, failed)


_known: WeakKeyDictionary[CollectorRegistry, _Registered] = WeakKeyDictionary()
_making = threading.Lock()


def _registered(registry: CollectorRegistry | None) -> _Registered:
    try:
        from prometheus_client import REGISTRY
    except ImportError as missing:
        raise MissingExtraError(
            "PrometheusSink needs prometheus_client, which cannot be imported: "
            'pip install "langchain-hybridgraph[prometheus]"'
        ) from missing
    at = REGISTRY if registry is None else registry
    with _making:
        if at not in _known:
            _known[at] = _Registered(_metrics(at), WeakSet(), WeakKeyDictionary(), threading.Lock())
        return _known[at]


def _metrics(at: CollectorRegistry) -> _Metrics:
    from prometheus_client import Counter, Histogram

    labels = ["mode", "retriever"]
    return _Metrics(
        Histogram("rag_retrieval_duration_seconds", "Duration of searches.", labels, buckets=SECONDS, registry=at),
        Histogram("rag_retrieved_documents_count", "Documents per search.", labels, buckets=DOCUMENTS, registry=at),
        Counter("rag_retrieval_degraded_total", "Searches that were degraded.", ["reason"], registry=at),
        Counter(
            "rag_pipeline_errors_total",
            "Failures of components of a search.",
            ["component", "exception_type"],
            registry=at,
        ),
    )
