"""What a conversation makes of a query: up to five typed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.calls import Call, Failure, Search
from langchain_hybridgraph.query.planner import TypedQuery
from langchain_hybridgraph.query.trace import Trace

LONGEST_SUMMARY, LAST_MESSAGES = 30_000, 5


class Session(NamedTuple):
    """A conversation: its summary, and a call that gives its messages."""

    summary: str
    messages: Callable[[], Call]


def planned(text: str, session: Session | None, planner: Any, trace: Trace) -> Search[tuple[TypedQuery, ...]]:
    """The queries to run: the raw one without a session, what the planner makes of it with one.

    A session that cannot be read is an empty one (``session-failed``); a planner that fails leaves the raw query
    (``planner-failed``).
    """
    if session is None or not text.strip():
        return (_raw(text),)
    (messages,) = yield [session.messages()]
    if isinstance(messages, Failure):
        trace.note("session", messages.error)
        trace.degrade("session-failed")
        messages = []
    # The rules look for the first question, too; what a model is shown has to end somewhere.
    shown = list(messages) if getattr(planner, "reads_all_messages", False) else list(messages)[-LAST_MESSAGES:]
    given = session.summary[:LONGEST_SUMMARY], shown, text
    arun = partial(planner.acall, *given) if hasattr(planner, "acall") else None
    with trace.stage("plan"):
        (made,) = yield [Call("planner", partial(planner, *given), arun, lane=("planner", id(planner)))]
    try:
        if isinstance(made, Failure):
            raise made.error
        planned = _checked_plan(made)
    except Exception as error:  # noqa: BLE001 - a planner may be the caller's own; the raw query goes on without it
        trace.note("planner", error)
        trace.degrade("planner-failed")
        return (_raw(text),)
    for reason in getattr(made, "degraded", ()):
        trace.degrade(reason)
    if said := getattr(made, "error", ""):
        trace.errors["planner"] = said
    return planned


def _raw(text: str) -> TypedQuery:
    """The query as it was put, in every type; also one without a text, which only a vector can answer."""
    return TypedQuery(text) if text.strip() else TypedQuery("?")


def _checked_plan(made: Any) -> tuple[TypedQuery, ...]:
    if isinstance(made, str) or not isinstance(made, Sequence) or not all(isinstance(q, TypedQuery) for q in made):
        raise ValueError(f"the planner gave {made!r}; wanted a list of TypedQuery")
    return tuple(sorted(made, key=lambda query: query.priority)[:5])


def as_session(session: Any) -> Session | None:
    """A session in any of its forms; raises ConfigurationError for anything else."""
    if session is None:
        return None
    if isinstance(session, Mapping):
        if unknown := session.keys() - {"summary", "messages"}:
            raise ConfigurationError(f"session has {sorted(map(str, unknown))}; it takes 'summary' and 'messages'")
        inner = as_session(session.get("messages") or [])
        assert inner is not None, "a list is a session"
        return inner._replace(summary=str(session.get("summary") or ""))
    if isinstance(session, Sequence) and not isinstance(session, str | bytes):
        messages = list(session)
        return Session("", lambda: Call("session", lambda: messages, quick=True))
    if hasattr(session, "messages"):
        awaited = getattr(session, "aget_messages", None)
        return Session("", lambda: Call("session", lambda: list(session.messages), awaited))
    raise ConfigurationError(
        f"session is {session!r}; wanted a BaseChatMessageHistory, a list of messages, or "
        "{'summary': …, 'messages': […]}"
    )
