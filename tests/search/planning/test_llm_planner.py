import asyncio
import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.planner import MEMORY, RESOURCE, SKILL, QueryPlanner, TypedQuery
from tests.support.models.saying_model import SayingModel
from tests.support.samples.clock import PATIENCE
from tests.support.servers.openai_server import OpenAIServer, Reply, material

HISTORY = [HumanMessage("Is there a red car?"), AIMessage("A roadster.")]
RAW = TypedQuery("And its price?", None, "", 1)
PRICE = {"query": "price of the red roadster", "context_type": "resource", "intent": "the price", "priority": 1}
EDITOR = {"query": "user's budget", "context_type": "memory", "intent": "what they can pay", "priority": 2}
PLANNED = [
    TypedQuery("price of the red roadster", RESOURCE, "the price", 1),
    TypedQuery("user's budget", MEMORY, "what they can pay", 2),
]
METHODS = [None, "function_calling", "json_mode"]


def planned(answer, **options):
    return QueryPlanner(SayingModel(answer=answer), **options)("", HISTORY, "And its price?")


def short(plan):
    return [(query.query, query.context_type, query.priority) for query in plan]


def is_raw(plan):
    return plan == [RAW] and plan.degraded == ("planner-failed",)


def test_the_models_queries_are_the_plan():
    """A plan has the model's queries with their types, intents and priorities, highest priority first."""
    plan = planned({"queries": [EDITOR, PRICE]})
    assert plan == PLANNED
    assert (plan.degraded, plan.error) == ((), "")


@pytest.mark.parametrize(
    "answer",
    [
        "Let me think [1].\n" + json.dumps([PRICE, EDITOR], indent=1) + "\nThese are the queries.",
        {"queries": [PRICE, 7, None, {"query": ""}, {"query": ["x"]}, {"text": "x"}, [], EDITOR]},
        {"queries": [PRICE | {"context_type": " Resource "}, EDITOR | {"priority": "2/5"}]},
        {"queries": [PRICE | {"priority": -3}, EDITOR | {"priority": 2.4, "more": {}}]},
        {"queries": [PRICE, EDITOR, PRICE | {"query": "Price of  the red roadster", "priority": 4}]},
    ],
)
def test_wrong_forms_are_understood(answer):
    """Answers with fences, prose, nested JSON, invalid items, numbers in strings or duplicates are understood."""
    assert planned(answer) == PLANNED


@pytest.mark.parametrize(
    ("answer", "plan"),
    [
        ({"queries": []}, []),
        ({"queries": [{"query": "a"}]}, [("a", None, 3)]),
        ({"queries": [{"query": "a", "context_type": "film", "priority": True}]}, [("a", None, 3)]),
        ({"queries": [{"query": "a", "context_type": {"x": 1}, "priority": 9}]}, [("a", None, 5)]),
    ],
)
def test_missing_fields_have_defaults(answer, plan):
    """A missing or unknown type means all types, and priorities default to 3 and are clipped to 1–5."""
    planned_queries = planned(answer)
    assert (short(planned_queries), planned_queries.degraded) == (plan, ())


@pytest.mark.parametrize(
    "answer",
    [
        "I would look for the price of the roadster.",
        {"answer": "200"},
        {"queries": [7, None, {"query": " "}]},
        {"queries": 7},
        ConnectionError("refused"),
    ],
)
def test_an_unusable_answer_gives_the_raw_query(answer):
    """An unusable answer or an error gives the user's query without a type, and ``planner-failed``."""
    plan = planned(answer)
    assert is_raw(plan)
    assert plan.error


async def test_a_cancelled_caller_is_cancelled():
    """Cancelling a plan raises CancelledError instead of reporting a failed planner."""
    with OpenAIServer(Reply({"queries": []}, hangs=True)) as server:
        task = asyncio.create_task(QueryPlanner(server.chat_model()).acall("", [], "And its price?"))
        assert await asyncio.to_thread(server.has_request.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_the_prompt():
    """The prompt contains the summary, the last five messages with their roles, and the query, each up to a limit."""
    prompts = []
    model = SayingModel(answer=lambda messages: prompts.append(messages) or {"queries": []})
    QueryPlanner(model)("They speak of cars.", [("user", f"message {i}") for i in range(8)], "And its price?")
    assert prompts[0] == {
        "summary": "They speak of cars.",
        "messages": [{"role": "user", "text": f"message {i}"} for i in range(3, 8)],
        "message": "And its price?",
    }
    QueryPlanner(model)("s" * 10**6, ["m" * 10**6] * 9, "q" * 10**6)
    assert 29_990 <= len(prompts[1]["summary"]) <= 30_000
    assert len(json.dumps(prompts[1])) < 55_000


def test_types_are_open():
    """Custom types, else the usual ones with their styles, are described to the model and accepted in its answer."""
    model = SayingModel(answer={"queries": [{"query": "red cars", "context_type": "Film"}]})
    plan = QueryPlanner(model, types={"film": "what was filmed", SKILL: "how to"})("", [], "red cars?")
    assert plan[0].context_type == "film"
    assert "- film: what was filmed" in model.calls[0][0].content
    QueryPlanner(model)("", [], "red cars?")
    prompt = model.calls[1][0].content
    assert all(words in prompt for words in ("memory: ", "user's …", "resource: ", "noun phrase", "skill: ", "verb"))


def test_wrong_settings_are_refused():
    """An object that is not a model, or a timeout of 0 or less, raises ConfigurationError at construction."""
    with pytest.raises(ConfigurationError, match="QueryPlanner needs a chat model"):
        QueryPlanner("gpt")
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ConfigurationError, match="timeout"):
            QueryPlanner(SayingModel(answer=""), timeout=timeout)


# -- over HTTP ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("method", METHODS)
async def test_over_http(method, streaming):
    """A plan through langchain-openai is the same for every method of structured output, streamed or not, sync or
    async.
    """
    with OpenAIServer({"queries": [EDITOR, PRICE]}) as server:
        planner = QueryPlanner(server.chat_model(streaming=streaming), method=method)
        assert planner("They speak of cars.", HISTORY, "And its price?") == PLANNED
        assert await planner.acall("They speak of cars.", HISTORY, "And its price?") == PLANNED
        assert [material(request)["message"] for request in server.requests] == ["And its price?"] * 2
        forms = {None: "json_schema", "json_mode": "json_object"}
        requests = [request.get("response_format", {}).get("type") for request in server.requests]
        assert requests == [forms.get(method)] * 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply("rate limit", 429),
        Reply(raw=b"<html>bad gateway</html>"),
        Reply({}, arguments='{"queries": [{"query": "pri'),
        Reply("I cannot help with that."),
        Reply({"queries": [PRICE]}, hangs=True),
    ],
)
@pytest.mark.parametrize("method", METHODS)
async def test_failures_over_http(method, reply):
    """Any failure of the server or its answer gives the raw query and the error, in sync and async calls."""
    with OpenAIServer(reply) as server:
        planner = QueryPlanner(server.chat_model(), method=method, timeout=0.05 if reply.hangs else PATIENCE)
        plan = planner("", HISTORY, "And its price?")
        assert is_raw(plan)
        assert plan.error
        assert is_raw(again := await planner.acall("", HISTORY, "And its price?"))
        assert not reply.hangs or "TimeoutError" in plan.error == again.error
