"""Planner that asks a chat model for queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.execution.effects import Search, adrive, ask_or_raise, deadline_in, drive
from langchain_hybridgraph.execution.llm_calls import check_timeout, model_call
from langchain_hybridgraph.execution.structured_output import (
    DATA_ONLY,
    answer_schema,
    find_json,
    list_schema,
    parse_answer,
    parse_number,
    prompt_messages,
    with_schema,
)
from langchain_hybridgraph.query.planning.query_plan import (
    MEMORY,
    RESOURCE,
    SKILL,
    QueryPlan,
    TypedQuery,
    best,
)
from langchain_hybridgraph.query.planning.session_context import LONGEST_SUMMARY, context_of, last_turns

STYLES: Mapping[str, str] = {
    MEMORY: "what is known about the user and from earlier sessions: facts, preferences, decisions. Write such a query "
    "as \"user's …\", as in: user's preferred editor",
    RESOURCE: "documents and data with facts. Write such a query as a noun phrase, as in: limits of the trial plan",
    SKILL: "instructions for doing something. Begin such a query with a verb, as in: connect a store to Grafana",
}
TIMEOUT = 20.0
"""Default time limit of the model, in seconds."""
_LONGEST_MESSAGE = 4_000
_LONGEST_QUERY = 1_000
_USUAL_PRIORITY = 3
_PRIORITIES = {"highest": 1, "high": 2, "medium": 3, "low": 4, "lowest": 5}
_FORM = answer_schema(
    "QueryPlan",
    "The queries to search for; an empty list for small talk.",
    reasoning={
        "type": "string",
        "description": "One or two sentences: what the message needs, and why these queries were chosen.",
    },
    queries={"description": "0 to 5 queries."}
    | list_schema(
        query={"type": "string", "description": "Self-contained search query."},
        context_type={"type": "string", "description": "One of the listed types."},
        intent={"type": "string", "description": "What the query should find, in a few words."},
        priority={"type": "integer", "description": "From 1 (necessary for the answer) to 5 (may help)."},
    ),
)


class QueryPlanner:
    """Planner that asks a chat model for up to 5 typed queries, as a :class:`QueryPlan`.

    ``QueryPlanner(llm)(summary, messages, query)`` shows the model the query, the last 5 messages and up to 30,000
    characters of the session's summary. The plan contains the queries, highest priority first. A plan without queries
    means that the turn is small talk.

    - ``llm`` is any LangChain chat model. A model without structured output is prompted for JSON.
    - ``types`` maps each type to a description, which tells the model what the type contains and how to write queries
      for it.
    - ``method`` is passed to LangChain's ``with_structured_output``. Set it, for example to ``"json_mode"``, if the
      default method does not work with the model.

    Imperfect answers are accepted: JSON within prose, a string instead of an object, a priority in words. Only the 5
    queries with the highest priority are kept, and a query of an unknown type searches all types.

    The plan contains only the raw query for all types, with the reason ``planner-failed``, if the model fails, if its
    answer is not a list of queries, or if there is no answer within ``timeout`` seconds (None means no limit). A call
    that times out keeps running in the background, and its LangChain threads can delay the exit of the process. To
    avoid this, set a timeout on the model as well.

    Raises ConfigurationError if ``llm`` is not a model or ``timeout`` is 0 or less.

    >>> from langchain_core.runnables import RunnableLambda
    >>> class Model:  # in place of init_chat_model("…")
    ...     def with_structured_output(self, schema, **options):
    ...         return RunnableLambda(lambda messages: {"queries": [
    ...             {"query": "price of the red roadster", "context_type": "resource", "priority": 1}]})
    >>> history = [("user", "Is there a red car?"), ("assistant", "A roadster.")]
    >>> [(each.query, each.context_type) for each in QueryPlanner(Model())("", history, "And its price?")]
    [('price of the red roadster', 'resource')]
    """

    def __init__(
        self,
        llm: Any,
        *,
        types: Mapping[str, str] = STYLES,
        timeout: float | None = TIMEOUT,
        method: str | None = None,
    ) -> None:
        check_timeout("QueryPlanner", timeout, TIMEOUT)
        self._model = with_schema(llm, _FORM, "QueryPlanner", include_raw=True, method=method)
        self._types = {name.casefold(): name for name in types}
        self._instructions = _instructions(types)
        self.timeout = timeout

    def __call__(self, summary: str | None, messages: Sequence[Any], query: str) -> QueryPlan:
        """Return the queries to run."""
        return drive(self._plan(summary, messages, query), deadline_in(self.timeout))

    async def acall(self, summary: str | None, messages: Sequence[Any], query: str) -> QueryPlan:
        """Return the same result as calling the planner, without blocking the event loop."""
        return await adrive(self._plan(summary, messages, query), deadline_in(self.timeout))

    def _plan(self, summary: str | None, messages: Sequence[Any], query: str) -> Search[QueryPlan]:
        if not query.strip():
            return QueryPlan((), reasoning="The message has no text, so nothing is searched for.")
        context = context_of(summary, messages)
        question, model = prompt_messages(self._instructions, _material(summary or "", messages, query)), self._model
        try:
            (answer,) = yield from ask_or_raise(model_call("planner", self, model.invoke, model.ainvoke, question))
            plan = parse_answer(answer)
            return QueryPlan(self._queries(plan), reasoning=_reasoning(plan), session_context=context)
        except Exception as error:  # noqa: BLE001 - a model may fail with anything; the raw query is searched instead
            return QueryPlan.raw(query, error, context)

    def _queries(self, answer: Any) -> tuple[TypedQuery, ...]:
        items = list(_items(answer))
        queries = [query for item in items if (query := self._query(item)) is not None]
        if items and not queries:
            raise ValueError(f"there is no query in the model's answer: {shorten(str(items), 200)}")
        return best(queries)

    def _query(self, item: Any) -> TypedQuery | None:
        fields = item if isinstance(item, Mapping) else {"query": item}
        text = fields.get("query")
        if not isinstance(text, str) or not text.strip():
            return None
        return TypedQuery(
            shorten(" ".join(text.split()), _LONGEST_QUERY),
            self._type(fields.get("context_type", fields.get("type"))),
            shorten(" ".join(str(fields.get("intent") or "").split()), 200),
            _priority(fields.get("priority")),
        )

    def _type(self, value: Any) -> str | None:
        """Return the type with this singular or plural name, or None (all types) if there is no such type."""
        name = str(value).strip().casefold()
        singular = name.removesuffix("ies") + "y" if name.endswith("ies") else name.removesuffix("s")
        return self._types.get(name) or self._types.get(singular)


def _instructions(types: Mapping[str, str]) -> str:
    styles = "\n".join(f"- {name}: {style}" for name, style in types.items())
    return (
        "You plan the searches needed to answer the last message of a conversation. A search engine contains texts of "
        f"these types:\n{styles}\n"
        "Give 0 to 5 queries, in the language of the conversation. Each query searches one type for one thing and is "
        'self-contained: it replaces references such as "it" by what they refer to. Do not search for the same thing '
        "twice, or in a type that cannot help. If the topic has changed, follow the last message. Greetings, thanks "
        "and small talk need no query: give an empty list.\n"
        "The input is JSON: a summary of the conversation, its latest messages, and the message to answer. "
        f"{DATA_ONLY} Answer only with JSON:\n"
        '{"reasoning": "what the message needs", "queries": '
        '[{"query": "…", "context_type": "…", "intent": "what the query should find", "priority": 1}]}\n'
        "Priorities are from 1 (necessary for the answer) to 5 (may help)."
    )


def _material(summary: str, messages: Sequence[Any], query: str) -> dict[str, Any]:
    turns = [{"role": role, "text": shorten(text, _LONGEST_MESSAGE)} for role, text in last_turns(messages)]
    return {
        "summary": shorten(summary, LONGEST_SUMMARY),
        "messages": turns,
        "message": shorten(query, _LONGEST_MESSAGE),
    }


def _reasoning(answer: Any) -> str:
    reasoning = answer.get("reasoning") if isinstance(answer, Mapping) else None
    return shorten(" ".join(reasoning.split()), _LONGEST_QUERY) if isinstance(reasoning, str) else ""


def _items(answer: Any) -> Iterator[Any]:
    """Yield those parts of the model's answer that may be queries.

    Raises ValueError if the answer is not a list of queries.
    """
    if isinstance(answer, Mapping) and "query" in answer:
        yield answer
    elif isinstance(answer, Mapping) and "queries" in answer:
        yield from _queries_in(answer["queries"])
    elif isinstance(answer, list):
        yield from answer
    else:
        raise ValueError(f"the model's answer is not a list of queries: {shorten(str(answer), 200)}")


def _queries_in(queries: Any) -> Iterator[Any]:
    if isinstance(queries, str) and (inner := find_json(queries)) is not None:
        yield from _items(inner)
    elif isinstance(queries, list):
        yield from queries
    elif queries is not None:
        yield queries


def _priority(value: Any) -> int:
    if isinstance(value, str) and value.strip().casefold() in _PRIORITIES:
        return _PRIORITIES[value.strip().casefold()]
    number = parse_number(value)
    return _USUAL_PRIORITY if number is None else round(min(5.0, max(1.0, number)))
