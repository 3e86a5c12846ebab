"""Cost of telemetry per search: when off (compared with a build without the calls) and when on (for each kind of sink).

    python benchmarks/telemetry.py [--size 1000] [--rounds 1000]

In each turn, all variants answer the same question over one store in this one process, in a changing order. Figures are
the CPU time of the calling thread (``time.thread_time``): medians, and medians of the differences within a turn with
their 95 % interval (bootstrap). The index is small, so that a search is short and additional work is visible.

The variant ``without`` has none of the calls. It also lacks the timers of the stages, which ``stages_ms`` of a result
needs even without telemetry. ``without, again`` is the same as ``without``, so its difference is noise. The calls that
are made when telemetry is off, and the work of a sink on its own thread, are timed separately.
"""

from __future__ import annotations

import argparse
import io
import logging
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from _corpus import enlarge_corpus
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, LogSink, OpenTelemetrySink, PrometheusSink
from langchain_hybridgraph.execution.effects import Trace
from langchain_hybridgraph.retrievers import base
from langchain_hybridgraph.telemetry import Event, delivery_for, flush, report_stages


class UntimedTrace(Trace):
    """Trace whose stages have no timers."""

    _nothing = nullcontext()

    def stage(self, name: str) -> Any:
        """Do nothing."""
        return self._nothing


class WithoutTelemetry(HybridRetriever):
    """Retriever without any support for listeners."""

    def _observed(self, search: Any, *_: Any) -> Any:
        return search

    def _get_relevant_documents(self, query: str, *, run_manager: Any, **options: Any) -> list[Document]:
        return list(self._run(self._prepare(query, options, run_manager.get_child())))  # type: ignore[arg-type]


class Handler(BaseCallbackHandler):
    """A LangChain handler that receives custom events."""

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Do nothing with the event."""


class NullExporter(SpanExporter):
    """An exporter that exports nothing, so that no network is timed."""

    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        """Do nothing with the spans, and report success."""
        return SpanExportResult.SUCCESS


class Variant(NamedTuple):
    """Function that searches, and the class that traces it."""

    ask: Callable[[str], Any]
    trace: type[Trace] = Trace


def sinks() -> dict[str, Any]:
    """Return one sink of each kind, as an application would have them."""
    logger = logging.Logger("benchmark", logging.INFO)
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(NullExporter()))
    return {
        "a function": lambda event: None,
        "logs": LogSink(logger),
        "Prometheus": PrometheusSink(CollectorRegistry()),
        "OpenTelemetry": OpenTelemetrySink(provider.get_tracer("benchmark")),
    }


def variants(store: HybridGraphStore, listening: dict[str, Any]) -> dict[str, Variant]:
    """Return the variants. All are compared with the first."""

    def search_with(kind: type[HybridRetriever], config: Any = None, **settings: Any) -> Callable[[str], Any]:
        retriever = kind(store, k=10, **settings)
        return lambda question: retriever.invoke(question, config)

    handler = {"callbacks": [Handler()]}
    return {
        "without": Variant(search_with(WithoutTelemetry), UntimedTrace),
        "without, again": Variant(search_with(WithoutTelemetry), UntimedTrace),
        "off": Variant(search_with(HybridRetriever)),
        **{
            name: Variant(search_with(HybridRetriever, telemetry={"sinks": [sink]})) for name, sink in listening.items()
        },
        "all four": Variant(search_with(HybridRetriever, telemetry={"sinks": list(listening.values())})),
        "LangChain handler, without": Variant(search_with(WithoutTelemetry, handler), UntimedTrace),
        "LangChain handler": Variant(search_with(HybridRetriever, handler)),
    }


@contextmanager
def traced(kind: type[Trace]) -> Iterator[None]:
    """Trace searches with this class."""
    base.Trace = kind  # type: ignore[misc]  # for the length of a call
    try:
        yield
    finally:
        base.Trace = Trace  # type: ignore[misc]


def measure(compared: dict[str, Variant], questions: Sequence[str], rounds: int) -> dict[str, np.ndarray]:
    """Return the microseconds of CPU time of the calling thread, a row of all turns per variant."""
    dice, names = np.random.default_rng(0), list(compared)
    durations = {name: np.zeros(rounds) for name in names}
    for turn in range(-20, rounds):
        question = questions[turn % len(questions)]
        for place in dice.permutation(len(names)):
            name = names[place]
            with traced(compared[name].trace):
                started_at = time.thread_time_ns()
                compared[name].ask(question)
                if turn >= 0:
                    durations[name][turn] = (time.thread_time_ns() - started_at) / 1e3
        if turn % 50 == 0:
            flush(10)
    return durations


def interval(differences: np.ndarray) -> tuple[float, float, float]:
    """Return the median and its 95 % interval."""
    dice = np.random.default_rng(1)
    resampled = np.median(dice.choice(differences, (1_000, len(differences))), axis=1)
    return float(np.median(differences)), *(float(p) for p in np.percentile(resampled, [2.5, 97.5]))


def on_their_thread(store: HybridGraphStore, listening: dict[str, Any], question: str) -> dict[str, float]:
    """Return the microseconds that each sink takes, normally on its own thread, for the events of one search."""
    events: list[Event] = []
    HybridRetriever(store, telemetry={"sinks": [events.append]}).invoke(question)
    flush(10)
    durations = {}
    for name, sink in listening.items():
        times = []
        for _ in range(200):
            search = replace(events[0].search)  # a search is reported once
            events_of_search = [replace(event, search=search) for event in events]
            started_at = time.thread_time_ns()
            for event in events_of_search:
                sink(event)
            times.append((time.thread_time_ns() - started_at) / 1e3)
        durations[name] = float(np.median(times))
    return durations


def alone(store: HybridGraphStore) -> dict[str, float]:
    """Return the microseconds that a search without listeners spends on telemetry, by part."""
    retriever, trace, search = HybridRetriever(store), Trace(), iter(())
    manager = CallbackManagerForRetrieverRun(run_id=uuid4(), handlers=[], inheritable_handlers=[])

    def run_once() -> None:
        retriever._observed(search, trace, "a question", 10, tuple)  # type: ignore[arg-type]  # it is not run
        report_stages(manager, trace)

    def timed() -> None:
        for name in ("gather", "rank", "fuse", "admit", "select"):
            with trace.stage(name):
                pass
        trace.runs.clear()

    def microseconds(work: Callable[[], None]) -> float:
        return min(timeit.repeat(work, timer=time.thread_time, repeat=20, number=2_000)) / 2_000 * 1e6

    return {"asking who listens": microseconds(run_once), "timing five stages": microseconds(timed)}


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=1_000, help="number of texts")
    options.add_argument("--rounds", type=int, default=1_000, help="number of turns")
    arguments = options.parse_args()
    corpus = enlarge_corpus(arguments.size)
    store = HybridGraphStore(None, corpus.embedding)
    store.add_texts(corpus.texts, corpus.metadatas, ids=corpus.ids)
    listening = sinks()
    deliveries = [delivery_for(sink) for sink in listening.values()]
    durations = measure(variants(store, listening), corpus.questions, arguments.rounds)
    print(f"{len(corpus.texts):,} texts, {arguments.rounds} turns, µs of the calling thread's CPU time\n")
    print("| variant | median | more than `without` (95 % interval) | ratio |\n|---|---|---|---|")
    for name, times in durations.items():
        more, low, high = interval(times - durations["without"])
        ratio = np.median(times / durations["without"])
        print(f"| {name} | {np.median(times):.0f} | {more:+.1f} ({low:+.1f} to {high:+.1f}) | {ratio:.3f} |")
    flush(10)
    print(f"\nevents dropped: {sum(delivery.dropped for delivery in deliveries)}")
    print("\nµs of the calls alone when it is off:", end=" ")
    print(", ".join(f"{name} {us:.1f}" for name, us in alone(store).items()))
    print("\nµs on a sink's own thread for the events of one search:", end=" ")
    each = on_their_thread(store, listening, corpus.questions[0])
    print(", ".join(f"{name} {us:.0f}" for name, us in each.items()))


if __name__ == "__main__":
    main()
