"""Hands events to a sink on a thread of its own."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Sequence
from contextvars import Context
from queue import Empty, SimpleQueue
from typing import NamedTuple
from weakref import WeakSet

from langchain_hybridgraph.telemetry.events import Event, Sink

WAITING = 1_000
"""So many searches may wait for a sink; those that come then are dropped and counted."""

EXIT_SECONDS = 1.0
_IDLE_SECONDS = 30.0

_log = logging.getLogger("langchain_hybridgraph.telemetry")


class _Parcel(NamedTuple):
    """The events of one search, and the context (current span, …) of who searched."""

    context: Context
    events: Sequence[Event]


class Delivery:
    """Events on their way to one sink: the search puts them down and goes on.

    A sink that raises is told about the next event all the same; the first time a warning is logged. While a sink
    hangs its events wait, up to ``size`` searches; further ones are dropped. ``delivered``, ``failed`` and ``dropped``
    count events. The thread is a daemon and ends when there is nothing to do; at the interpreter's exit what still
    waits is given a second.
    """

    def __init__(self, sink: Sink, size: int = WAITING) -> None:
        self.sink = sink
        self.size = size
        self.delivered = self.failed = self.dropped = 0
        self._renew()
        _all.add(self)

    def put(self, context: Context, events: Sequence[Event]) -> None:
        """Let events be delivered in this context; returns at once and raises nothing."""
        with self._lock:
            if self._waiting.qsize() >= self.size:
                self.dropped += len(events)
                return
            self._waiting.put(_Parcel(context, events))
            if not self._is_running and not self._start():
                self.dropped += len(events)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the sink has had what was put before; False when the seconds are over first."""
        return self._mark().wait(timeout)

    def _mark(self) -> threading.Event:
        """What is set when the sink has had everything so far."""
        mark = threading.Event()
        with self._lock:
            if self._is_running:
                self._waiting.put(mark)
            else:  # a thread ends only when nothing waits
                mark.set()
        return mark

    def _renew(self) -> None:
        """Begin with nothing; also in a forked process, which has neither the thread nor a lock that it can trust."""
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_Parcel | threading.Event] = SimpleQueue()
        self._is_running = False

    def _start(self) -> bool:
        try:
            threading.Thread(target=self._work, name="hybridgraph-telemetry", daemon=True).start()
        except RuntimeError:  # no more threads can be had, or the interpreter ends
            return False
        self._is_running = True
        return True

    def _work(self) -> None:
        while True:
            try:
                parcel = self._waiting.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._waiting.empty():
                        self._is_running = False
                        return
                continue
            if isinstance(parcel, threading.Event):
                parcel.set()
            else:
                for event in parcel.events:
                    self._hand(parcel.context, event)
                    del event
            # An event may hold an exception, and that the frames of the search.
            del parcel

    def _hand(self, context: Context, event: Event) -> None:
        try:
            context.run(self.sink, event)
            self.delivered += 1
        except BaseException as error:  # noqa: BLE001 - a sink may be anybody's, and the next event is another matter
            self.failed += 1
            if self.failed == 1:
                _log.warning(
                    "the telemetry sink %r has raised %s: %s; no search is touched by that, and further errors of "
                    "this sink are only counted (Delivery.failed)",
                    self.sink,
                    type(error).__name__,
                    error,
                )


_all: WeakSet[Delivery] = WeakSet()


def flush(timeout: float = EXIT_SECONDS) -> bool:
    """Wait until all sinks have had all events so far; False when the seconds are over first."""
    until = time.monotonic() + timeout
    marks = [delivery._mark() for delivery in list(_all)]
    return all(mark.wait(max(0.0, until - time.monotonic())) for mark in marks)


def _renew_all() -> None:
    for delivery in list(_all):
        delivery._renew()


atexit.register(flush)
if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_renew_all)
