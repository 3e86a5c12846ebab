"""Who listens to which searches."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.telemetry.delivery import Delivery
from langchain_hybridgraph.telemetry.events import Event, Search, SearchEnded, Sink, StageEnded

Answer = TypeVar("Answer")
Results = Callable[[Any], Iterable[tuple[str, float]]]

_of_all: tuple[Delivery, ...] = ()
_by_owner: WeakValueDictionary[tuple[Any, int], Delivery] = WeakValueDictionary()
_changing = threading.Lock()
if hasattr(os, "register_at_fork"):  # a forked process must not inherit the lock while another thread holds it
    os.register_at_fork(before=_changing.acquire, after_in_parent=_changing.release, after_in_child=_changing.release)
_log = logging.getLogger("langchain_hybridgraph.telemetry")


class _Heard(NamedTuple):
    """The search that runs here, and who listens to it."""

    search: Search
    deliveries: tuple[Delivery, ...]


_current: ContextVar[_Heard | None] = ContextVar("hybridgraph_search", default=None)


def add_sink(sink: Sink) -> Delivery:
    """Let a sink hear all searches of this process; gives what counts and flushes its events.

    A sink is a function of an event. It is called on a thread of its own, so it may be slow, raise or hang without
    touching a search. A sink that is added again hears once; of two objects of one kind both hear (two LogSinks log
    each search twice; PrometheusSinks of one registry count it once). Raises ConfigurationError for what is no
    function, and for a class in place of a sink made of it.

    >>> heard = []
    >>> delivery = add_sink(heard.append)
    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> store = HybridGraphStore.from_texts(["the cat sat", "dogs bark"], "lsa")
    >>> _ = HybridRetriever(store, k=1).invoke("Where is the cat?")
    >>> delivery.flush()
    True
    >>> heard[-1].search.retriever, heard[-1].mode, len(heard[-1].results)
    ('HybridRetriever', 'hybrid', 1)
    >>> remove_sink(heard.append)
    """
    global _of_all  # noqa: PLW0603 - who listens is a matter of the process, like logging's handlers
    usable_sink(sink)
    for known in _of_all:
        if known.sink == sink:
            return known
    delivery = delivery_for(sink)
    with _changing:
        _of_all = (*_of_all, delivery)
    return delivery


def remove_sink(sink: Sink) -> None:
    """Let a sink hear nothing more; what is on its way still comes."""
    global _of_all  # noqa: PLW0603 - as above
    with _changing:
        _of_all = tuple(delivery for delivery in _of_all if delivery.sink != sink)


def usable_sink(sink: Any) -> None:
    """Raise ConfigurationError, which names the line that mends it, for what cannot be told of an event.

    >>> usable_sink("prometheus")
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: 'prometheus' is no sink; wanted a function of an event, such as \
PrometheusSink()
    """
    if isinstance(sink, type):
        raise ConfigurationError(
            f"{sink.__name__} is a class and no sink yet; make one of it, with parentheses: {sink.__name__}()"
        )
    if not callable(sink):
        raise ConfigurationError(f"{sink!r} is no sink; wanted a function of an event, such as PrometheusSink()")


def delivery_for(owner: Any, make: Callable[[Any], Sink] | None = None) -> Delivery:
    """The one delivery to a sink, or to the sink that ``make`` makes for its owner, however many retrievers name it.

    Such a sink keeps its owner alive, so that no other one can have its identity meanwhile.
    """
    key = (make, id(owner))
    found = _by_owner.get(key)
    if found is None:
        with _changing:
            found = _by_owner.get(key)
            if found is None:
                found = _by_owner[key] = Delivery(owner if make is None else make(owner))
    return found


def listeners(own: Sequence[Delivery] = ()) -> tuple[Delivery, ...]:
    """Who hears a search that begins here: its retriever's own sinks, those of the process, those of its parent."""
    heard = _current.get()
    above = () if heard is None else heard.deliveries
    if not own and not above:
        return _of_all
    return tuple(dict.fromkeys((*own, *_of_all, *above)))


def observed(
    search: Generator[Any, Any, Answer],
    deliveries: tuple[Delivery, ...],
    trace: Trace,
    *,
    retriever: str,
    query: object,
    k: object,
    results: Results,
) -> Generator[Any, Any, Answer]:
    """The same search, of which each listener hears when it has ended.

    All events of a search are put down together at its end: a thread that woke for each of them would take turns with
    the search. ``results`` gives ids and scores of its answer. A query or k that cannot be used is told, too: the
    search raises.
    """
    heard = _current.get()
    began = time.time_ns() - int((time.perf_counter() - trace.began) * 1e9)
    text = query if query is None or isinstance(query, str) else f"{query!r}"
    n = k if isinstance(k, int) else None
    asked = Search(retriever, n, text, began, None if heard is None else heard.search)
    token = _current.set(_Heard(asked, deliveries))
    ended = partial(_tell, deliveries, asked, trace)
    try:
        answer = yield from search
    except BaseException as raised:
        _leave(token)
        ended((), raised)
        raise
    _leave(token)
    ended(results(answer), None)
    return answer


def _leave(token: Token[_Heard | None]) -> None:
    with suppress(ValueError):  # a search that was left alone may be closed in another context
        _current.reset(token)


def _tell(
    deliveries: tuple[Delivery, ...],
    search: Search,
    trace: Trace,
    results: Iterable[tuple[str, float]],
    error: BaseException | None,
) -> None:
    try:
        events = _events(search, trace, tuple(results), error)
        for delivery in deliveries:
            delivery.put(copy_context(), events)
    except Exception:  # noqa: BLE001 - whatever this is, the search has its answer
        _log.warning("a search could not be told to its listeners", exc_info=True)


def _events(
    search: Search, trace: Trace, results: tuple[tuple[str, float], ...], error: BaseException | None
) -> tuple[Event, ...]:
    began = trace.began
    stages = [
        StageEnded(search, run.name, search.began + int((run.began - began) * 1e9), run.took_ms, run.error)
        for run in trace.runs
    ]
    raised = error if isinstance(error, Exception) else None
    ended = SearchEnded(
        search=search,
        mode=trace.method,
        took_ms=trace.took_ms,
        results=results,
        degraded=trace.reasons,
        has_context=trace.has_context,
        errors=dict(trace.errors),
        error=raised,
        cancelled=error is not None and raised is None,
    )
    return (*stages, ended)
