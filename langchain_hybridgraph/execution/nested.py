"""Searches that are parts of other searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any, TypeVar

from langchain_hybridgraph.execution.effects import Effect, Failure, Search
from langchain_hybridgraph.execution.worker_threads import OverloadedError

T = TypeVar("T")


def together(searches: Sequence[Search[T]]) -> Search[list[T]]:
    """Run several searches at the same time and return their results.

    In each step, the calls of all searches are made at the same time. Each search and its calls run in a
    ``contextvars`` context of their own. If a search raises, its error is raised; to prevent this, wrap the searches in
    :func:`attempt`.
    """
    if len(searches) == 1:
        return [(yield from searches[0])]
    contexts = [copy_context() for _ in searches]
    results: dict[int, T] = {}
    results_to_send: dict[int, Any] = dict.fromkeys(range(len(searches)))
    try:
        while results_to_send:
            calls_by_place: dict[int, list[Effect]] = {}
            for place, answer in results_to_send.items():
                context = contexts[place]
                try:
                    calls = context.run(searches[place].send, answer)
                    calls_by_place[place] = [call._replace(context=call.context or context.copy()) for call in calls]
                except StopIteration as stop:
                    results[place] = stop.value
            calls_of_all = [call for calls in calls_by_place.values() for call in calls]
            answers = iter((yield calls_of_all) if calls_by_place else ())
            results_to_send = {place: [next(answers) for _ in calls] for place, calls in calls_by_place.items()}
    finally:
        for search, context in zip(searches, contexts, strict=True):
            context.run(search.close)
    return [results[place] for place in range(len(searches))]


def attempt(source: str, search: Search[T]) -> Search[T | Failure]:
    """Return the result of a search, or a :class:`Failure` of this source if the search raises."""
    try:
        return (yield from search)
    except Exception as error:  # noqa: BLE001 - as for a call, the outer search handles the failure
        return Failure(source, error, isinstance(error, OverloadedError))


def within(search: Search[T], deadline: float | None) -> Search[T]:
    """Run a search and apply a deadline to each of its calls; a call with an earlier deadline keeps it.

    If ``deadline`` is None, the calls are not changed.
    """
    if deadline is None:
        return (yield from search)
    results: Any = None
    try:
        while True:
            calls = search.send(results)
            results = yield [call._replace(deadline=min(deadline, call.deadline or math.inf)) for call in calls]
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        search.close()
