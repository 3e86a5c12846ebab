"""Reporting and statistics of a retriever's searches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from pydantic import Field, ModelWrapValidatorHandler, PrivateAttr, model_validator

from langchain_hybridgraph.adapters.documents import chunk_id
from langchain_hybridgraph.display.html import fields_table
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.options.group import OptionGroup, check_options
from langchain_hybridgraph.options.telemetry import TelemetryOptions
from langchain_hybridgraph.options.validation.arguments import check_positions
from langchain_hybridgraph.options.validation.option_places import place_of
from langchain_hybridgraph.retrievers.streaming import StreamingRetriever
from langchain_hybridgraph.telemetry import Delivery, LogSink, OpenTelemetrySink
from langchain_hybridgraph.telemetry.dispatch import (
    Results,
    deliveries_for_search,
    delivery_for,
    report_search,
)
from langchain_hybridgraph.telemetry.events import RetrievalStatistics

Answer = TypeVar("Answer")


class ObservedRetriever(StreamingRetriever):
    """Retriever that reports its searches to its own sinks and to the process-wide sinks (``add_sink``).

    Statistics of the calls are recorded even if there are no sinks.
    """

    telemetry: TelemetryOptions = Field(
        default_factory=TelemetryOptions,
        repr=False,
        exclude=True,
        description="Tracer, logger and sinks of this retriever.",
    )

    _statistics: RetrievalStatistics = PrivateAttr(default_factory=RetrievalStatistics)

    if not TYPE_CHECKING:  # type checkers check the arguments of __init__

        def __new__(cls, *arguments: Any, **settings: Any) -> Self:
            """Raise TypeError for arguments in positions that the constructor does not have, with the line to write."""
            check_positions(cls, arguments, settings)
            return super().__new__(cls)

    @model_validator(mode="wrap")
    @classmethod
    def _check_constructor(cls, options: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return check_options(cls, options, handler, place_of)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Leave out groups of options that have only default values."""
        for name, value in super().__repr_args__():
            if not isinstance(value, OptionGroup) or value.model_fields_set:
                yield name, value

    def _repr_html_(self) -> str:
        options = {name: getattr(self, name) for name in self._shown_options}
        return fields_table(type(self).__name__, {name: _display_value(value) for name, value in options.items()})

    @property
    def _shown_options(self) -> Iterable[str]:
        """Names of the options to display in a notebook: k, the first one, and those that were set."""
        first = ("vector_store", "retriever", "k")
        names = [name for name in first if name in type(self).model_fields]
        others = (name for name, each in type(self).model_fields.items() if each.repr and name in self.model_fields_set)
        return dict.fromkeys([*names, *others])

    def get_retrieval_stats(self) -> dict[str, Any]:
        """Return statistics of the calls so far (see :meth:`RetrievalStatistics.report`)."""
        return self._statistics.report()

    def _observed(
        self, search: Generator[Any, Any, Answer], trace: Trace, query: object, k: object, results: Results
    ) -> Generator[Any, Any, Answer]:
        """Wrap the search to report it to the sinks, or return it unchanged if there are no sinks."""
        deliveries = deliveries_for_search(self._deliveries())
        if not deliveries:
            return search
        return report_search(
            search, deliveries, trace, retriever=type(self).__name__, query=query, k=k, results=results
        )

    def _deliveries(self) -> Sequence[Delivery]:
        listeners = self.telemetry
        own = [delivery_for(sink) for sink in listeners.sinks]
        if listeners.tracer is not None:
            own.append(delivery_for(listeners.tracer, OpenTelemetrySink))
        if listeners.logger is not None:
            own.append(delivery_for(listeners.logger, LogSink))
        return own

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        """Return the fields that LangSmith shows for a retriever: its name, vector store and embedding."""
        params = super()._get_ls_params(**kwargs)
        store = getattr(self, "vector_store", None)
        embedding = getattr(store, "embeddings", None)
        if store is not None:
            params["ls_vector_store_provider"] = type(store).__name__
        if embedding is not None:
            params["ls_embedding_provider"] = type(embedding).__name__
        return params


def _display_value(value: Any) -> Any:
    """Return the value of an option for display, with only those options of a group that were set."""
    if isinstance(value, OptionGroup):
        return {name: getattr(value, name) for name in sorted(value.model_fields_set)}
    if value is None:
        return None
    text = repr(value)
    return type(value).__name__ if text.startswith("<") else text


def hits_of(hits: Iterable[Any]) -> list[tuple[str, float]]:
    """Return the ids and scores of hits."""
    return [(hit.id, hit.score) for hit in hits]


def scores_of(documents: Iterable[Document], prefix: str = "") -> list[tuple[str, float]]:
    """Return the ids and scores of Documents; the score is 0 if the metadata contain none."""
    scores_by_id = [(chunk_id(document), document.metadata.get(prefix + "relevance_score")) for document in documents]
    return [(id, float(score) if isinstance(score, int | float) else 0.0) for id, score in scores_by_id]
