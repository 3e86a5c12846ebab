"""A retriever of whose searches others may hear: by a tracer, a logger, sinks, and its own counts."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from pydantic import Field, PrivateAttr, field_validator, model_validator

from langchain_hybridgraph.adapters.documents import chunk_id
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.retrievers.statistics import RetrievalStatistics
from langchain_hybridgraph.retrievers.streaming import StreamingRetriever
from langchain_hybridgraph.retrievers.validation import check_names
from langchain_hybridgraph.telemetry import Delivery, LogSink, OpenTelemetrySink
from langchain_hybridgraph.telemetry.dispatch import (
    Results,
    check_sink,
    deliveries_for_search,
    delivery_for,
    report_search,
)
from langchain_hybridgraph.telemetry.logs import logger_from

Answer = TypeVar("Answer")


class ObservedRetriever(StreamingRetriever):
    """The settings of who hears of a retriever's searches, beside the sinks of the process (``add_sink``).

    It counts its calls itself, whoever hears of them.
    """

    tracer: Any = Field(None, repr=False, exclude=True, description="An OpenTelemetry tracer, which gets spans.")
    logger: Any = Field(None, repr=False, exclude=True, description="A logger or its name, which gets a line each.")
    sinks: Sequence[Any] = Field((), repr=False, exclude=True, description="Functions of an event, which get all.")

    _statistics: RetrievalStatistics = PrivateAttr(default_factory=RetrievalStatistics)

    @model_validator(mode="before")
    @classmethod
    def _known_settings(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            check_names(cls, given)
        return given

    @field_validator("tracer")
    @classmethod
    def _usable_tracer(cls, value: Any) -> Any:
        if value is not None and not callable(getattr(value, "start_span", None)):
            raise ConfigurationError(f'tracer is {value!r}; wanted opentelemetry.trace.get_tracer("…")')
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

    def get_retrieval_stats(self) -> dict[str, Any]:
        """Since construction: calls, errors, Documents per call, p50 and p95 in ms, how often each degradation."""
        return self._statistics.report()

    def _observed(
        self, search: Generator[Any, Any, Answer], trace: Trace, query: object, k: object, results: Results
    ) -> Generator[Any, Any, Answer]:
        """The same search, told to whoever listens; itself when nobody does."""
        heard = deliveries_for_search(self._deliveries())
        if not heard:
            return search
        return report_search(search, heard, trace, retriever=type(self).__name__, query=query, k=k, results=results)

    def _deliveries(self) -> Sequence[Delivery]:
        if self.tracer is None and self.logger is None and not self.sinks:
            return ()
        own = [delivery_for(sink) for sink in self.sinks]
        if self.tracer is not None:
            own.append(delivery_for(self.tracer, OpenTelemetrySink))
        if self.logger is not None:
            own.append(delivery_for(self.logger, LogSink))
        return own

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """What LangSmith shows of a retriever: its name, and what its vectors are kept and made by."""
        params = super()._get_ls_params(**kwargs)
        store = getattr(self, "vector_store", None)
        embedding = getattr(store, "embeddings", None)
        if store is not None:
            params["ls_vector_store_provider"] = type(store).__name__
        if embedding is not None:
            params["ls_embedding_provider"] = type(embedding).__name__
        return params


def hits_of(hits: Iterable[Any]) -> list[tuple[str, float]]:
    """The ids and scores of hits."""
    return [(hit.id, hit.score) for hit in hits]


def scores_of(documents: Iterable[Document], prefix: str = "") -> list[tuple[str, float]]:
    """The ids and scores of Documents; 0 where the metadata has no score."""
    scored = [(chunk_id(document), document.metadata.get(prefix + "relevance_score")) for document in documents]
    return [(id, float(score) if isinstance(score, int | float) else 0.0) for id, score in scored]
