import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage

from langchain_hybridgraph.search.conversation import LLMRewrite
from langchain_hybridgraph.search.planner import RulePlanner


def typed_queries(query):
    """Return the type, text and priority of the queries planned in addition to the raw one."""
    raw, *others = RulePlanner()("", [], query)
    assert (raw.query, raw.context_type, raw.priority) == (query, None, 1)
    return [(each.context_type, each.query, each.priority) for each in others]


@pytest.mark.parametrize(
    ("query", "skill"),
    [
        ("How do I install Chroma?", "install Chroma"),
        ("how to rotate API keys", "rotate API keys"),
        ("Hi, could you please tell me how we can merge two stores?", "merge two stores"),
        ("What's the best way to split long texts?", "split long texts"),
        ("configure persistence for Chroma", "configure persistence for Chroma"),
        ("I want to migrate from FAISS", "migrate from FAISS"),
        ("Wie installiere ich Chroma?", "installiere ich Chroma"),
        ("Comment installer Chroma ?", "installer Chroma"),
        ("¿Cómo puedo instalar Chroma?", "instalar Chroma"),
        ("如何安装 Chroma", "安装 Chroma"),
    ],
)
def test_how_to_questions_become_skill_queries(query, skill):
    """A how-to question becomes a skill query that starts with the user's verb."""
    assert typed_queries(query) == [("skill", skill, 1)]


@pytest.mark.parametrize(
    ("query", "memory", "priority"),
    [
        ("What is my favourite editor?", "user's favourite editor", 1),
        ("Which of our services use gRPC?", "user's services use gRPC", 1),
        ("if I remodel my house, do I pay for the debris?", "user's house", 1),
        ("What did I say about pizza?", "user's pizza", 2),
        ("what did we decide on the database", "user's database", 2),
        ("What do you remember about me?", "What do you remember about me", 2),
        ("Wo ist mein Schlüssel?", "Wo ist mein Schlüssel", 2),
    ],
)
def test_possessions_of_the_user_are_memories(query, memory, priority):
    """A question about the user's possessions becomes a memory query, such as "user's favourite editor"."""
    assert typed_queries(query) == [("memory", memory, priority)]


@pytest.mark.parametrize(
    ("query", "resource"),
    [
        ("What is the difference between BFS and Dijkstra?", "difference between BFS and Dijkstra"),
        ("Can you please tell me about the limits of Chroma?", "limits of Chroma"),
        ("is there a limit on uploads?", "limit on uploads"),
        ("Which film came out earlier, My Darling or Mon Amour?", "film came out earlier, My Darling or Mon Amour"),
    ],
)
def test_any_other_question_is_a_resource(query, resource):
    """Any other question becomes a resource query of its noun phrase, with the lower priority."""
    assert typed_queries(query) == [("resource", resource, 2)]


@pytest.mark.parametrize(
    "query",
    [
        "Cómo se llama el río?",
        "How long did the war last?",
        "Are wolves dogs?",
        "where do I sue",
        "Can I use it abroad?",
        "mis-capped RNA",
        "and its price?",
        "red roadster",
        "what is x",
        "use of force",
        "C++",
        "Wie hoch ist der Turm?",
        "42",
    ],
)
def test_a_query_without_a_rule_is_planned_alone(query):
    """A query that no rule matches is planned without further queries."""
    assert typed_queries(query) == []


def test_small_talk_is_not_a_query():
    """Small talk gives an empty plan without a reason for degradation."""
    plan = RulePlanner()("A long summary.", ["What is it?"], "Thanks a lot!")
    assert (list(plan), plan.degraded) == ([], ())


HISTORY = [HumanMessage("Which cars are red?"), AIMessage("The roadster by Tesla.")]


def planned(query, messages=HISTORY):
    return [(one.context_type, one.query, one.priority) for one in RulePlanner()("", messages, query)]


def test_a_follow_up_query_is_completed():
    """A follow-up question is also searched with words of the conversation, in every type."""
    assert planned("What about its price?") == [
        (None, "What about its price?", 1),
        (None, "What about its price? cars red Tesla roadster", 2),
    ]
    assert planned("How do I paint it?")[1:] == [
        ("skill", "paint cars red Tesla roadster", 1),
        (None, "How do I paint it? cars red Tesla roadster", 2),
    ]


@pytest.mark.parametrize(
    ("query", "kind", "completed"),
    [
        ("And how to paint the doors?", "skill", "paint the doors cars red Tesla roadster"),
        ("What about my warranty?", "memory", "user's warranty cars red Tesla roadster"),
    ],
)
def test_a_follow_up_without_a_pronoun_is_completed_at_its_end(query, kind, completed):
    """Words of the conversation are appended to a typed query that has no pronoun."""
    assert planned(query)[:2] == [(None, query, 1), (kind, completed, 1)]


def test_an_independent_query_stays():
    """A question that does not depend on the conversation is planned as without it."""
    query = "Which flour and salt does sourdough bread need?"
    assert planned(query) == planned(query, [])


def test_the_first_question_is_used():
    """The first question of a conversation of any length is used, so a session passes all messages to the planner."""
    history = [("user", "Which cars are red?"), *[("assistant", "Fine."), ("user", "Really?")] * 10_000]
    assert planned("What about its price?", history)[1][1] == "What about its price? Really cars red Fine"
    assert RulePlanner.reads_all_messages


async def test_an_expander_may_complete_the_query():
    """An expander's question replaces the user's, and the typed queries are made from it, also asynchronously."""
    planner = RulePlanner(expander=LLMRewrite(FakeListChatModel(responses=["How do I paint the red roadster?"])))
    plan = planner("", HISTORY, "and painting?")
    assert [(each.context_type, each.query) for each in plan] == [
        (None, "How do I paint the red roadster?"),
        ("skill", "paint the red roadster"),
    ]
    assert await planner.acall("", HISTORY, "and painting?") == plan


@given(st.text())
def test_the_raw_query_is_always_kept(query):
    """Any text gives an empty plan, or a plan of at most five queries with the raw query first."""
    plan = RulePlanner()(None, [], query)
    assert len(plan) <= 5
    assert not plan or plan[0].query == query
