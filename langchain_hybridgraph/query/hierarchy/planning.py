"""Query planning for hierarchical search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.execution.asynchronous import is_asynchronous
from langchain_hybridgraph.execution.effects import Effect, Search, ask_or_raise, part_of_deadline
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.query.planning import (
    LARGEST_PLAN,
    LAST_MESSAGES,
    LONGEST_SUMMARY,
    QueryPlan,
    TypedQuery,
    context_of,
)


class ConversationSession(NamedTuple):
    """Summary of a conversation, and a way to read its messages.

    ``messages`` is a function without arguments. It returns an Effect that reads the messages.
    """

    summary: str
    messages: Callable[[], Effect]


def plan_queries(
    text: str, session: ConversationSession | None, planner: Any, trace: Trace, deadline: float | None = None
) -> Search[QueryPlan]:
    """Return a plan with the queries to search for, made by the planner from the query and the session.

    The plan contains only the raw query if there is no session, if the query is blank, or if the planner fails
    (``planner-failed``). If the messages of the session cannot be read, the planner receives none (``session-failed``).
    Reading the session and planning together may take at most half of the time until the deadline.
    """
    if session is None or not text.strip():
        return QueryPlan((_raw(text),))
    until = part_of_deadline(deadline, 0.5)
    try:
        (messages,) = yield from ask_or_raise(session.messages()._replace(deadline=until))
    except Exception as error:  # noqa: BLE001 - a chat history may be the caller's own; without it the question is planned alone
        trace.record("session", error, "session-failed")
        messages = []
    trace.has_context = bool(messages or session.summary)
    # The rule planner also needs the first question; other planners receive the last messages.
    planner_messages = (
        list(messages) if getattr(planner, "reads_all_messages", False) else list(messages)[-LAST_MESSAGES:]
    )
    arguments = session.summary[:LONGEST_SUMMARY], planner_messages, text
    arun = partial(planner.acall, *arguments) if hasattr(planner, "acall") else None
    call = Effect("planner", partial(planner, *arguments), arun, lane=lane_of("planner", planner), deadline=until)
    try:
        with trace.stage("plan"):
            (answer,) = yield from ask_or_raise(call)
        plan = _checked_plan(answer)
    except Exception as error:  # noqa: BLE001 - a planner may be the caller's own; the raw query is searched without it
        trace.record("planner", error, "planner-failed")
        return QueryPlan.raw(_raw(text).query, error, _context(session, messages))
    for reason in plan.degraded:
        trace.degrade(reason)
    if plan.error:
        trace.errors["planner"] = plan.error
    return replace(plan, session_context=plan.session_context or _context(session, messages))


def _context(session: ConversationSession, messages: Sequence[Any]) -> str:
    try:
        return context_of(session.summary[:LONGEST_SUMMARY], messages)
    except ConfigurationError:  # a form of messages that only the planner can read
        return ""


def _raw(text: str) -> TypedQuery:
    """Wrap the raw text in a typed query that covers all types.

    A typed query must not be blank, so blank text (as in a vector-only search) is replaced by "?".
    """
    return TypedQuery(text) if text.strip() else TypedQuery("?")


def _checked_plan(answer: Any) -> QueryPlan:
    """Return a planner's result as a plan of at most ``LARGEST_PLAN`` queries.

    Raises ValueError if the result is not a list of TypedQuery.
    """
    if (
        isinstance(answer, str)
        or not isinstance(answer, Sequence)
        or not all(isinstance(q, TypedQuery) for q in answer)
    ):
        raise ValueError(f"the planner must return a list of TypedQuery, got {quote_value(answer)}")
    plan = answer if isinstance(answer, QueryPlan) else QueryPlan(tuple(answer))
    return replace(plan, queries=tuple(sorted(plan, key=lambda query: query.priority)[:LARGEST_PLAN]))


def messages_call(source: str, history: Any) -> Effect:
    """Return the call that reads the messages of a chat history."""
    arun = getattr(history, "aget_messages", None) if is_asynchronous(history) else None
    return Effect(source, lambda: list(history.messages), arun, lane=lane_of(source, history))


def as_session(session: Any) -> ConversationSession | None:
    """Convert a session in any supported form to a ConversationSession.

    Raises ConfigurationError for anything else.
    """
    if session is None:
        return None
    if isinstance(session, Mapping):
        if unknown := session.keys() - {"summary", "messages"}:
            raise ConfigurationError(
                f"session has the unknown keys {sorted(map(str, unknown))}; pass only 'summary' and 'messages'"
            )
        inner = as_session(session.get("messages") or [])
        assert inner is not None, "a list is a session"
        return inner._replace(summary=str(session.get("summary") or ""))
    if isinstance(session, Sequence) and not isinstance(session, str | bytes):
        messages = list(session)
        return ConversationSession("", lambda: Effect("session", lambda: messages, quick=True))
    if hasattr(session, "messages"):
        return ConversationSession("", lambda: messages_call("session", session))
    raise ConfigurationError(
        f"session must be a BaseChatMessageHistory, a list of messages, or "
        f"{{'summary': …, 'messages': […]}}, got {session!r}"
    )
