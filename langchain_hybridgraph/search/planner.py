"""Plans of several queries for a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import getattr_static
from typing import Any, ClassVar, NamedTuple

from langchain_hybridgraph.chunks import Serializable
from langchain_hybridgraph.errors import ConfigurationError, check_number, describe_error, quote_value, shorten
from langchain_hybridgraph.execution import effects
from langchain_hybridgraph.execution import llm as chat
from langchain_hybridgraph.search import conversation

# Query plans and the protocol of planners.

MEMORY, RESOURCE, SKILL = "memory", "resource", "skill"
LARGEST_PLAN = 5
# Maximum number of last messages, and maximum number of characters of the summary, that a planner receives.
LAST_MESSAGES, LONGEST_SUMMARY = 5, 30_000


@dataclass(frozen=True, slots=True)
class TypedQuery(Serializable):
    """Query for contexts of one type, such as ``MEMORY``, ``RESOURCE`` or ``SKILL``, or of all types (None).

    ``intent`` is its purpose in a few words. ``priority`` is an integer from 1, the highest, to 5. Raises
    ConfigurationError for any other priority and for a query without text.

    >>> TypedQuery("user's favourite editor", MEMORY, priority=2).weight
    0.8
    """

    query: str
    context_type: str | None = None
    intent: str = ""
    priority: int = 1

    def __post_init__(self) -> None:
        if not self.query.strip() or self.priority not in range(1, 6):
            raise ConfigurationError(
                f"{self!r}: a query must have text and a priority from 1 (highest) to 5, "
                'such as TypedQuery("install Chroma", "skill", priority=2)'
            )

    @property
    def weight(self) -> float:
        """Factor for the scores of the query's hits: (6 − priority) / 5."""
        return (6 - self.priority) / 5


@dataclass(frozen=True, eq=False)
class QueryPlan(Serializable, Sequence[TypedQuery]):
    """Sequence of queries to run, equal to any sequence of the same queries. If it is empty, nothing is searched for.

    If the planner failed, the plan contains only the raw query, ``degraded`` contains ``planner-failed``, and ``error``
    is the error message.

    >>> plan = QueryPlan((TypedQuery("install Chroma", SKILL),))
    >>> plan == [TypedQuery("install Chroma", SKILL)], plan.degraded
    (True, ())
    """

    queries: tuple[TypedQuery, ...]
    degraded: tuple[str, ...] = ()
    error: str = ""

    @classmethod
    def raw(cls, query: str, error: BaseException) -> QueryPlan:
        """Return the plan to use if the planner failed: only the query as the user wrote it, for all types."""
        return cls((TypedQuery(query),), ("planner-failed",), describe_error(error))

    def __getitem__(self, index: Any) -> Any:
        return self.queries[index]

    def __len__(self) -> int:
        return len(self.queries)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str):
            return list(self.queries) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # plans equal lists, which are not hashable


def best(queries: Sequence[TypedQuery]) -> tuple[TypedQuery, ...]:
    """Return the 5 queries with the highest priority, highest first; equal priorities keep their order.

    Of queries with the same type and the same text, ignoring case and extra spaces, only the first is returned.

    >>> a, b = TypedQuery("Cats", priority=2), TypedQuery("dogs", priority=1)
    >>> [query.query for query in best([a, b, TypedQuery("cats ", priority=3)])]
    ['dogs', 'Cats']
    """
    once: dict[tuple[str | None, str], TypedQuery] = {}
    for query in sorted(queries, key=lambda query: query.priority):
        once.setdefault((query.context_type, " ".join(query.query.casefold().split())), query)
    return tuple(once.values())[:LARGEST_PLAN]


# Planner that asks a chat model for queries.

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
_FORM = chat.answer_schema(
    "QueryPlan",
    "The queries to search for; an empty list for small talk.",
    queries={"description": "0 to 5 queries."}
    | chat.list_schema(
        query={"type": "string", "description": "Self-contained search query."},
        context_type={"type": "string", "description": "One of the listed types."},
        intent={"type": "string", "description": "What the query should find, in a few words."},
        priority={"type": "integer", "description": "From 1 (necessary for the answer) to 5 (may help)."},
    ),
)


class QueryPlanner:
    """Planner that asks a chat model for up to 5 typed queries, as a :class:`QueryPlan`, highest priority first.

    The model reads the query, the last 5 messages and up to 30,000 characters of the session's summary. A plan without
    queries means that the turn is small talk.

    - ``llm`` is any LangChain chat model. A model without structured output is prompted for JSON.
    - ``types`` maps each type to a description, which tells the model what the type contains and how to write queries
      for it.
    - ``method`` is passed to LangChain's ``with_structured_output``. Set it, for example to ``"json_mode"``, if the
      default method does not work with the model.

    JSON within prose is accepted. A query of an unknown type searches all types.

    The plan contains only the raw query, with the reason ``planner-failed``, if the model fails, if its answer is not a
    list of queries, or after ``timeout`` seconds (None means no limit). A call that times out keeps running in the
    background and can delay the exit of the process; to avoid this, set a timeout on the model as well.

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
        self, llm: Any, *, types: Mapping[str, str] = STYLES, timeout: float | None = TIMEOUT, method: str | None = None
    ) -> None:
        if timeout is not None:
            check_number("timeout", timeout, gt=0)
        self._model = chat.with_schema(llm, _FORM, "QueryPlanner", method)
        self._types = {name.casefold(): name for name in types}
        self._instructions = _instructions(types)
        self.timeout = timeout

    def __call__(self, summary: str | None, messages: Sequence[Any], query: str) -> QueryPlan:
        """Return the queries to run."""
        return effects.drive(self._plan(summary, messages, query), effects.deadline_in(self.timeout))

    async def acall(self, summary: str | None, messages: Sequence[Any], query: str) -> QueryPlan:
        """Return the same result as calling the planner, without blocking the event loop."""
        return await effects.adrive(self._plan(summary, messages, query), effects.deadline_in(self.timeout))

    def _plan(self, summary: str | None, messages: Sequence[Any], query: str) -> effects.Search[QueryPlan]:
        if not query.strip():
            return QueryPlan(())
        material = {
            "summary": shorten(summary or "", LONGEST_SUMMARY),
            "messages": [
                {"role": turn.speaker, "text": shorten(turn.text, _LONGEST_MESSAGE)}
                for turn in conversation.turns(messages)[-LAST_MESSAGES:]
            ],
            "message": shorten(query, _LONGEST_MESSAGE),
        }
        question, model = chat.prompt_messages(self._instructions, material), self._model
        try:
            (answer,) = yield from effects.ask_or_raise(
                chat.model_call("planner", self, model.invoke, model.ainvoke, question)
            )
            return QueryPlan(self._queries(chat.parse_answer(answer)))
        except Exception as error:  # noqa: BLE001 - a model may fail with anything; the raw query is searched instead
            return QueryPlan.raw(query, error)

    def _queries(self, answer: Any) -> tuple[TypedQuery, ...]:
        items = answer.get("queries") if isinstance(answer, Mapping) else answer
        queries = [query for item in items if (query := self._query(item))] if isinstance(items, list) else []
        if items != [] and not queries:
            raise ValueError(f"there is no query in the model's answer: {shorten(str(answer), 200)}")
        return best(queries)

    def _query(self, item: Any) -> TypedQuery | None:
        text = item.get("query") if isinstance(item, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            return None
        priority = chat.parse_number(item.get("priority"))
        return TypedQuery(
            shorten(" ".join(text.split()), _LONGEST_QUERY),
            self._types.get(str(item.get("context_type")).strip().casefold()),
            shorten(" ".join(str(item.get("intent") or "").split()), 200),
            _USUAL_PRIORITY if priority is None else round(min(5.0, max(1.0, priority))),
        )


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
        f"{chat.DATA_ONLY} Answer only with JSON:\n"
        '{"queries": [{"query": "…", "context_type": "…", "intent": "what the query should find", "priority": 1}]}\n'
        "Priorities are from 1 (necessary for the answer) to 5 (may help)."
    )


# Planner that creates queries by rules.

_HOW_TO = re.compile(
    r"(?:(?:explain|show me|tell me|teach me|help me|know|learn) )?"
    r"(?:how (?:to|(?:do|can|could|should|would|might|did) (?:i|we|you|one)|"
    r"(?:i|we|you|one) (?:can|could|should|would|might))|"
    r"(?:what(?:'s| is) the )?(?:best |right |easiest )?way to|(?:the )?steps (?:to|for)|"
    r"(?:a |the )?(?:guide|tutorial) (?:to|for|on)|(?:help|teach|show) me(?: to)?|instructions (?:to|for))\b",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"(?:(?:please|hi|hello|hey|ok|okay|so|and|but|also|then|now|thanks|thank you|bitte)\b|"
    r"(?:can|could|would|will) you(?: please| kindly)?\b|do you know\b|i(?:'d| would) like (?:to know|you to|to)\b|"
    r"i(?:'m| am) (?:trying|looking) to\b|i (?:want|need|wish|have) (?:to know|you to|to)\b|let me know\b|let's\b|"
    r"(?:i )?(?:wonder|am wondering)\b)[\s,.:!;–-]*",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"(?:(?:tell me|show me|give me|find me|find|search for|look up|look for|describe|explain|list|summari[sz]e)"
    r"(?: (?:something|more|everything|all))?(?: (?:about|on))?|"
    r"(?:what|how) about|how(?:'s| (?:is|are|was|were|does|do|did|can|could|will|would|has|have|had))|"
    r"(?:what|which|who|where|when|why)(?:'s| (?:is|are|was|were|does|do|did|can|could|will|would|has|have|had))?"
    r"(?: (?:there|it that|(?:i|we|you|one)(?: (?:find|get|see))?))?|"
    r"(?:is|are|was|were) there)\b",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|a|an|any|some)\b", re.IGNORECASE)
# A capital "My" that is not at the beginning is part of a title.
_OWN = re.compile(r"(?:\b(?:my|mine|our|ours)|^(?:My|Our))\b")
# "Can I", "do I need" and "if I" ask about something that applies to everybody.
_ONE_OF_US = re.compile(
    r"\b(?:did|have|had|was|were|am|are) (?:i|we)\b(?! (?:need|have|get|know)\b)|"
    r"\bdo (?:i|we)\b(?= (?:like|love|hate|prefer|want|own|have|use|work|live)\b)(?! have to\b)|"
    r"\b(?:i|we) (?:said|told|mentioned|asked|decided|chose|agreed|liked?|prefer(?:red)?|wanted|used|lived?|was)\b|"
    r"\b(?:about|remind|remember) (?:me|us)\b",
    re.IGNORECASE,
)
_POINTS = re.compile(r"\b(?:it|its|they|them|their|this|that|these|those|there)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;?!]|\. ")
_SAYING = re.compile(
    r"(?:say|said|tell|told|mention(?:ed)?|ask(?:ed)?|talk(?:ed)?|decided?|choose|chosen?|agreed?)(?: you)?"
    r"(?: (?:about|of|for|on|to))?\b(?: (?:the|an?)\b)?",
    re.IGNORECASE,
)
_VERBS = re.compile(
    r"(?:add|allow|apply|attach|back|build|cache|call|cancel|change|check|clean|clear|clone|combine|compare|"
    r"compile|compress|compute|configure|connect|convert|copy|count|create|debug|declare|decode|define|delete|"
    r"deploy|design|detect|disable|download|draw|edit|enable|encode|encrypt|export|extend|extract|filter|fix|"
    r"format|generate|get|handle|implement|import|improve|increase|index|insert|inspect|install|integrate|join|"
    r"limit|load|log|make|manage|mark|measure|merge|migrate|mock|monitor|mount|move|open|optimize|optimise|"
    r"parse|pass|plot|prevent|profile|publish|read|rebuild|reduce|refactor|register|reload|remove|rename|"
    r"render|repair|replace|reset|resize|restart|restore|retry|revert|roll|rotate|run|save|scale|schedule|send|"
    r"serialize|serve|set|setup|share|sort|speed|split|start|stop|store|stream|switch|sync|test|track|train|"
    r"translate|troubleshoot|tune|turn|uninstall|update|upgrade|upload|use|validate|verify|write)(?! of\b) ",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class RulePlanner:
    """Planner that uses rules instead of a model.

    Small talk gives an empty plan. Otherwise, the first query is the user's own query, for all types. Further queries
    depend on its words:

    - "How to" or a verb at the beginning adds a skill query.
    - "My", "our" or "did I" adds a memory query.
    - Any other question adds its noun phrase as a resource query.

    The rules are written for English. In other languages, the plan has no further queries.

    ``expander``, by default :class:`HistoryTerms`, completes the query from the conversation. If the completed query is
    ``sure`` and has no ``context`` (see :class:`~langchain_hybridgraph.search.conversation.ExpandedQuery`), it replaces
    the user's query. Otherwise, it is added as a second query for all types, because nDCG@10 is .564 with both, .525
    with only the raw query and .519 with only the completed one. If it only adds words at the end, there is no resource
    query, and skill and memory queries receive these words in place of their first pronoun, or at the end.

    The priority is 1 for the first query, for skill queries, and for memory queries with "my" or "our". It is 2 for all
    other queries, which are less certain to help.

    Raises the errors of the expander, and ConfigurationError for messages in an unknown form.

    >>> plan = RulePlanner()("", [], "How do I export my dashboards to Grafana?")
    >>> for each in plan: print(each.priority, each.context_type, each.query)
    1 None How do I export my dashboards to Grafana?
    1 memory user's dashboards to Grafana
    1 skill export my dashboards to Grafana
    >>> history = [("user", "Who wrote The Salt Road?"), ("assistant", "Marguerite Oldenburg.")]
    >>> for each in RulePlanner()("", history, "How long is it?"): print(each.priority, each.query)
    1 How long is it?
    2 How long is it? wrote Salt Road Marguerite Oldenburg
    >>> len(RulePlanner()("", [], "Thanks a lot!"))
    0
    """

    expander: conversation.Expander = field(default_factory=conversation.HistoryTerms)
    # The first question states the topic of a conversation; with only the last five messages, nDCG@10 is .523.
    reads_all_messages: ClassVar[bool] = True

    def __call__(self, summary: str | None, messages: Sequence[Any], query: str) -> QueryPlan:
        """Return the queries to search for; the summary is not used."""
        return effects.drive(self._plan(messages, query))

    async def acall(self, summary: str | None, messages: Sequence[Any], query: str) -> QueryPlan:
        """Return the same result as calling the planner; an asynchronous expander is awaited."""
        return await effects.adrive(self._plan(messages, query))

    def _plan(self, messages: Sequence[Any], query: str) -> effects.Search[QueryPlan]:
        history = conversation.turns(messages, query)
        if conversation.is_small_talk(query, history[-1].text if history else ""):
            return QueryPlan(())
        expanded_query: conversation.ExpandedQuery | str = query
        if history:
            (expanded_query,) = yield from effects.ask_or_raise(
                conversation.expander_call(self.expander, query, history)
            )
        return QueryPlan(_queries(query, expanded_query))


def _queries(query: str, expanded_query: conversation.ExpandedQuery | str) -> tuple[TypedQuery, ...]:
    """Return the query itself, the completed query, and the queries for single types."""
    expansion = conversation.ExpandedQuery(expanded_query) if isinstance(expanded_query, str) else expanded_query
    whole = expansion.text if expansion.text.strip() else query
    if whole.strip() == query.strip():
        whole = query
    elif expansion.sure and not expansion.context:
        query = whole
    first = TypedQuery(query, intent="what was asked")
    if whole == query:
        return best([first, *_typed_queries(query)])
    second = TypedQuery(whole, intent="the question, completed from the conversation", priority=2)
    if not whole.startswith(query):
        return best([first, second, *_typed_queries(whole)])
    # A noun phrase followed by more words finds less than the complete query.
    typed_queries = [each for each in _typed_queries(query) if each.context_type != RESOURCE]
    completed = [replace(each, query=_completed(each.query, whole[len(query) :])) for each in typed_queries]
    return best([first, second, *completed])


def _completed(query: str, words: str) -> str:
    """Return the query with ``words`` in place of its pronouns, or at its end if it has none."""
    completed, count = _POINTS.subn(lambda match: words.strip(), query, count=1)
    return " ".join(_POINTS.sub(" ", completed).split()) if count else query + words


def _typed_queries(query: str) -> Iterator[TypedQuery]:
    question = conversation.without(_POLITE, query[:1_000].strip()).strip(" ?？!.。¿¡").replace("’", "'")
    about_the_user, how_to = _memory(question), _skill(question)
    if about_the_user:
        yield TypedQuery(about_the_user, MEMORY, "facts about the user", 1 if _OWN.search(question) else 2)
    if how_to:
        yield TypedQuery(how_to, SKILL, "how it is done", 1)
    if not about_the_user and not how_to and (phrase := _noun_phrase(question)):
        yield TypedQuery(phrase, RESOURCE, "facts about it", 2)


def _skill(question: str) -> str:
    """Return the part of the question that begins with its verb, or "" if it does not ask how to do something."""
    if lead := _HOW_TO.match(question):
        return question[lead.end() :].strip(" ,:")
    return question if _VERBS.match(question) else ""


def _memory(question: str) -> str:
    """Return a query for memories, ``user's …`` if possible, or "" if the question is not about the user."""
    question = question[lead.end() :] if (lead := _HOW_TO.match(question)) else question
    if (match := _OWN.search(question) or _ONE_OF_US.search(question)) is None:
        return ""
    phrase = _CLAUSE.split(conversation.without(_SAYING, question[match.end() :].strip(" ,")))[0].strip()
    return f"user's {phrase}" if phrase else question


def _noun_phrase(question: str) -> str:
    """Return two or more words after the question words and the article; "" if the text is not such a question."""
    lead = _QUESTION.match(question)
    if lead is None:
        return ""
    phrase = conversation.without(_ARTICLE, question[lead.end() :].strip(" ,:"))
    return phrase if " " in phrase else ""


# Query planning for hierarchical search.


class ConversationSession(NamedTuple):
    """Summary of a conversation, and the call that reads its messages."""

    summary: str
    messages: effects.Effect


def plan_queries(
    text: str, session: ConversationSession | None, planner: Any, trace: effects.Trace, deadline: float | None = None
) -> effects.Search[QueryPlan]:
    """Return a plan made by the planner from the query and the session.

    A planner is a function of the session's summary, its last 5 messages, oldest first (all of them if the planner sets
    ``reads_all_messages``), and the query. It returns up to 5 typed queries, or none for small talk. If it has a method
    ``acall``, this is awaited in an event loop.

    It is the raw query alone if there is no session, if the query is blank, or if the planner fails
    (``planner-failed``). If the messages cannot be read, the planner receives none (``session-failed``). All this may
    take at most half of the time until the deadline.
    """
    if session is None or not text.strip():
        return QueryPlan((TypedQuery(text if text.strip() else "?"),))  # a search by a vector has no text
    until = effects.part_of_deadline(deadline, 0.5)
    try:
        (messages,) = yield from effects.ask_or_raise(session.messages._replace(deadline=until))
    except Exception as error:  # noqa: BLE001 - a chat history may be the caller's own; without it the question is planned alone
        trace.record("session", error, "session-failed")
        messages = []
    trace.has_context = bool(messages or session.summary)
    # The rule planner also needs the first question; other planners receive the last messages.
    first = 0 if getattr(planner, "reads_all_messages", False) else -LAST_MESSAGES
    arguments = session.summary[:LONGEST_SUMMARY], list(messages)[first:], text
    arun = partial(planner.acall, *arguments) if hasattr(planner, "acall") else None
    call = effects.Effect("planner", partial(planner, *arguments), arun, owner=planner, deadline=until)
    try:
        with trace.stage("plan"):
            (answer,) = yield from effects.ask_or_raise(call)
        is_plan = isinstance(answer, Sequence) and all(isinstance(each, TypedQuery) for each in answer)
        if not is_plan or answer == "":
            raise TypeError(f"the planner must return a list of TypedQuery, got {quote_value(answer)}")
        plan = answer if isinstance(answer, QueryPlan) else QueryPlan(tuple(answer))
    except Exception as error:  # noqa: BLE001 - a planner may be the caller's own; the raw query is searched without it
        trace.record("planner", error, "planner-failed")
        return QueryPlan.raw(text, error)
    for reason in plan.degraded:
        trace.degrade(reason)
    if plan.error:
        trace.errors["planner"] = plan.error
    return replace(plan, queries=tuple(sorted(plan, key=lambda query: query.priority)[:LARGEST_PLAN]))


def messages_call(source: str, history: Any) -> effects.Effect:
    """Return the call that reads the messages of a chat history."""
    arun = getattr(history, "aget_messages", None) if effects.is_asynchronous(history) else None

    def read() -> list[Any]:
        messages = history.messages
        if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
            raise TypeError(f"the messages of a chat history must be a list, got {quote_value(messages)}")
        return list(messages)

    return effects.Effect(source, read, arun, owner=history)


def has_messages(history: Any) -> bool:
    """Return whether an object has messages; the property, which may query a database, is not read."""
    missing = object()
    return getattr_static(history, "messages", missing) is not missing or hasattr(type(history), "__getattr__")


def as_session(session: Any) -> ConversationSession | None:
    """Convert a session in any supported form; raise ConfigurationError for anything else."""
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
        return ConversationSession("", effects.Effect("session", lambda: messages, quick=True))
    if has_messages(session):
        return ConversationSession("", messages_call("session", session))
    raise ConfigurationError(
        f"session must be a BaseChatMessageHistory, a list of messages, or "
        f"{{'summary': …, 'messages': […]}}, got {session!r}"
    )
