"""Delivery of events to sinks, one thread per sink."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Sequence
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import NamedTuple
from weakref import WeakSet

from langchain_hybridgraph.execution.threads import at_fork
from langchain_hybridgraph.telemetry.events import Event, Sink

MAX_WAITING = 1_000
"""Maximum number of searches whose events wait for a sink. The events of further searches are dropped and counted."""

EXIT_SECONDS = 1.0
_IDLE_SECONDS = 30.0

_log = logging.getLogger("langchain_hybridgraph.telemetry")


class _EventBatch(NamedTuple):
    """Events of one search, with the caller's context variables (such as the current span)."""

    context: Context
    events: Sequence[Event]


class Delivery:
    """Queue and thread that deliver events to one sink, so that a search need not wait for the sink.

    A sink that raises still receives the next event; only its first error is logged, as a warning. While a sink hangs,
    the events of up to ``size`` searches wait, and the events of further searches are dropped. ``delivered``,
    ``failed`` and ``dropped`` count events. The thread is a daemon and ends when it is idle. At interpreter exit, up to
    one second is spent on delivering the remaining events.
    """

    def __init__(self, sink: Sink, size: int = MAX_WAITING) -> None:
        self.sink = sink
        self.size = size
        self.delivered = self.failed = self.dropped = 0
        self._reset()
        _all.add(self)

    def enqueue(self, context: Context, events: Sequence[Event]) -> None:
        """Queue the events of a search. The sink receives them later, in the given ``context``.

        Returns immediately and never raises.
        """
        with self._lock:
            if self._waiting.qsize() >= self.size:
                self.dropped += len(events)
                return
            self._waiting.put(_EventBatch(context, events))
            if not self._is_running and not self._start():
                self.dropped += len(events)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the sink has received all events queued so far. Return False if that takes longer than ``timeout``
        seconds.
        """
        return self._mark().wait(timeout)

    def _mark(self) -> threading.Event:
        """Return a ``threading.Event`` that is set when the sink has received everything queued so far."""
        mark = threading.Event()
        with self._lock:
            if self._is_running:
                self._waiting.put(mark)
            else:  # the thread ends only when the queue is empty
                mark.set()
        return mark

    def _reset(self) -> None:
        """Create an empty queue and a new lock.

        A forked process calls this method, because the thread does not run in it and the lock may be locked forever.
        """
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_EventBatch | threading.Event] = SimpleQueue()
        self._is_running = False

    def _start(self) -> bool:
        try:
            threading.Thread(target=self._work, name="hybridgraph-telemetry", daemon=True).start()
        except RuntimeError:  # no more threads are available, or the interpreter is exiting
            return False
        self._is_running = True
        return True

    def _work(self) -> None:
        while True:
            try:
                batch = self._waiting.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._is_running = False
                        return
                continue
            if isinstance(batch, threading.Event):
                batch.set()
            else:
                for event in batch.events:
                    self._deliver(batch.context, event)
                    del event
            # Release the event: it may refer to an exception, which keeps the frames of the search alive.
            del batch

    def _deliver(self, context: Context, event: Event) -> None:
        try:
            context.run(self.sink, event)
            self.delivered += 1
        except BaseException as error:  # noqa: BLE001 - a sink is foreign code; its errors must not stop delivery
            self.failed += 1
            if self.failed == 1:
                _log.warning(
                    "the telemetry sink %r raised %s: %s; searches are not affected, and further errors of "
                    "this sink are only counted (Delivery.failed)",
                    self.sink,
                    type(error).__name__,
                    error,
                )


_all: WeakSet[Delivery] = WeakSet()


def flush(timeout: float = EXIT_SECONDS) -> bool:
    """Wait until all sinks have received all events queued so far. Return False if that takes longer than ``timeout``
    seconds.
    """
    deadline = time.monotonic() + timeout
    marks = [delivery._mark() for delivery in list(_all)]
    return all(mark.wait(max(0.0, deadline - time.monotonic())) for mark in marks)


def _reset_all() -> None:
    for delivery in list(_all):
        delivery._reset()


atexit.register(flush)
at_fork(after_in_child=_reset_all)
