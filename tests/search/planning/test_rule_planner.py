"""Plans made by rules, their queries, and small talk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.conversation import LLMRewrite, is_small_talk
from langchain_hybridgraph.search.planner import RulePlanner, TypedQuery, best


def test_weights_of_the_priorities():
    """The weight of priority p is (6 − p) / 5: 1, .8, .6, .4 and .2."""
    assert [TypedQuery("cats", priority=p).weight for p in range(1, 6)] == [1.0, 0.8, 0.6, 0.4, 0.2]


@pytest.mark.parametrize("wrong", [{"priority": 0}, {"priority": 6}, {"priority": 1.5}, {"query": " \n"}])
def test_a_query_that_cannot_be_searched_is_refused(wrong):
    """A priority other than an integer from 1 to 5, or a query without text, raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match="priority from 1"):
        TypedQuery(**{"query": "cats", **wrong})


def test_equal_queries_are_searched_once():
    """Queries that differ only in case and spaces count once, with the better priority; the best five stay in order."""
    memory, skill = TypedQuery("red cats", "memory"), TypedQuery("red cats", "skill")
    assert best([TypedQuery("Red  cats", "memory", priority=3), memory, skill]) == (memory, skill)
    ordered = [TypedQuery(str(i), priority=p) for i, p in enumerate((3, 1, 5, 2, 3, 4, 1))]
    assert [query.query for query in best(ordered)] == ["1", "6", "3", "0", "4"]


def typed_queries(query):
    """Return the type, text and priority of the queries planned in addition to the raw one."""
    raw, *others = RulePlanner()("", [], query)
    assert (raw.query, raw.context_type, raw.priority) == (query, None, 1)
    return [(each.context_type, each.query, each.priority) for each in others]


@pytest.mark.parametrize(
    ("query", "kind", "text", "priority"),
    [
        ("How do I install Chroma?", "skill", "install Chroma", 1),
        ("how to rotate API keys", "skill", "rotate API keys", 1),
        ("Hi, could you please tell me how we can merge two stores?", "skill", "merge two stores", 1),
        ("What's the best way to split long texts?", "skill", "split long texts", 1),
        ("configure persistence for Chroma", "skill", "configure persistence for Chroma", 1),
        ("I want to migrate from FAISS", "skill", "migrate from FAISS", 1),
        ("What is my favourite editor?", "memory", "user's favourite editor", 1),
        ("Which of our services use gRPC?", "memory", "user's services use gRPC", 1),
        ("if I remodel my house, do I pay for the debris?", "memory", "user's house", 1),
        ("What did I say about pizza?", "memory", "user's pizza", 2),
        ("what did we decide on the database", "memory", "user's database", 2),
        ("What do you remember about me?", "memory", "What do you remember about me", 2),
        ("What is the difference between BFS and Dijkstra?", "resource", "difference between BFS and Dijkstra", 2),
        ("Can you please tell me about the limits of Chroma?", "resource", "limits of Chroma", 2),
        ("is there a limit on uploads?", "resource", "limit on uploads", 2),
        ("Which film came out earlier, A or B?", "resource", "film came out earlier, A or B", 2),
    ],
)
def test_the_type_of_a_question(query, kind, text, priority):
    """A how-to question becomes a skill query that starts with its verb, a question about the user's possessions a
    memory query, and any other question a resource query of its noun phrase.
    """
    assert typed_queries(query) == [(kind, text, priority)]


@pytest.mark.parametrize(
    "query", ["How long did the war last?", "where do I sue", "Can I use it abroad?", "what is x", "Wie hoch ist das?"]
)
def test_a_query_without_a_rule_is_planned_alone(query):
    """A query that no rule matches is planned without further queries."""
    assert typed_queries(query) == []


def test_small_talk_is_not_a_query():
    """Small talk gives an empty plan without a reason for degradation."""
    plan = RulePlanner()("A long summary.", ["What is it?"], "Thanks a lot!")
    assert (list(plan), plan.degraded) == ([], ())
    assert list(RulePlanner()("", ["User: What is the limit?", "Assistant: The limit is 5."], "Great!")) == []


HISTORY = [HumanMessage("Which cars are red?"), AIMessage("The roadster by Tesla.")]


def planned(query, messages=HISTORY):
    return [(one.context_type, one.query, one.priority) for one in RulePlanner()("", messages, query)]


def test_a_follow_up_query_is_completed():
    """A follow-up question is also searched with words of the conversation, in every type; others stay."""
    both = [("What about its price?", 1), ("What about its price? cars red Tesla roadster", 2)]
    assert planned("What about its price?") == [(None, *each) for each in both]
    assert planned("And how to paint the doors?")[1] == ("skill", "paint the doors cars red Tesla roadster", 1)
    query = "Which flour and salt does sourdough bread need?"
    assert planned(query) == planned(query, [])
    assert planned("How do I paint it?")[1:] == [
        ("skill", "paint cars red Tesla roadster", 1),
        (None, "How do I paint it? cars red Tesla roadster", 2),
    ]


def test_the_first_question_is_used():
    """The first question of a conversation of any length is used, so a session passes all messages to the planner."""
    history = [("user", "Which cars are red?"), *[("assistant", "Fine."), ("user", "Really?")] * 10_000]
    assert planned("What about its price?", history)[1][1] == "What about its price? Really cars red Fine"
    assert RulePlanner.reads_all_messages


async def test_an_expander_may_complete_the_query():
    """An expander's question replaces the user's, and the typed queries are made from it, also asynchronously."""
    planner = RulePlanner(expander=LLMRewrite(FakeListChatModel(responses=["How do I paint the red roadster?"])))
    plan = planner("", HISTORY, "and painting?")
    assert [each.query for each in plan] == ["How do I paint the red roadster?", "paint the red roadster"]
    assert await planner.acall("", HISTORY, "and painting?") == plan


@given(st.text())
def test_the_raw_query_is_always_kept(query):
    """Any text gives an empty plan, or a plan of at most five queries with the raw query first."""
    plan = RulePlanner()(None, [], query)
    assert len(plan) <= 5
    assert not plan or plan[0].query == query


TALK = """
Hi! | hello there | Good morning, everyone | Thanks a lot, bye! | ok thanks | How are you today?
Hallo und danke schön! | Vielen Dank! | Merci beaucoup | Bonjour, ça va ? | ¡Hola! ¿Qué tal? | Muchas gracias
Grazie mille | Olá, tudo bem? | Спасибо! | Привет | 你好！ | 谢谢 | ありがとうございます | 안녕하세요 | شكرا
👍🎉 | ... | You’re welcome
"""
NO_TALK = """
Hello World in Rust | Thanks, and what does it cost? | Hey Jude lyrics | hi-fi systems | hidden markov models
bye law | Good Morning Vietnam | why? | more | and then? | go on | nice | super | Danke schön auf Englisch
你好吗的意思 | C++ | 42 | Bonjour Tristesse | thank you notes for teachers | How are you billed? | Ok Google
good practices
"""


def lines(text):
    return [one.strip() for line in text.splitlines() for one in line.split("|") if one.strip()]


@pytest.mark.parametrize("query", lines(TALK))
def test_small_talk(query):
    """Greetings, thanks and farewells alone are small talk, in several languages."""
    assert is_small_talk(query)


@pytest.mark.parametrize("query", lines(NO_TALK))
def test_anything_more_is_searched(query):
    """A query that contains more than a courtesy, or a word that could be searched for, is not small talk."""
    assert not is_small_talk(query)


@pytest.mark.parametrize("query", ["Great!", "ok", "Makes sense, got it.", "Ja, gut", "да"])
def test_assent_to_a_statement(query):
    """Assent is small talk after a statement, but not without a conversation."""
    assert is_small_talk(query, "The limit is 5.")
    assert not is_small_talk(query)


@pytest.mark.parametrize("query", ["Yes", "no", "Yes, please!", "Sure, thanks", "5"])
def test_an_answer_to_a_question(query):
    """An answer to the question of the last message is not small talk, with or without courtesy."""
    assert not is_small_talk(query, "Shall I look up the limit?")
    assert is_small_talk("No, thanks!", "Anything else?")


def test_a_long_text_is_not_small_talk():
    """A long repetitive text is recognised as not small talk, without trying all ways to parse it."""
    assert not is_small_talk("thank you so much " * 10_000 + "!")


ENDS = """
Thanks, that's all! | Thank you, that will be all. | No more questions, thanks! | I'm done, thanks
Thank you, you've been very helpful. | Danke, das war's! | Merci, c'est tout ! | Gracias, eso es todo. | Grazie, è tutto
Bedankt, dat was alles | Спасибо, это всё! | 谢谢，就这些 | ありがとうございました、以上です。 | شكرا، هذا كل شيء
"""


@pytest.mark.parametrize("query", lines(ENDS))
def test_the_end_of_a_conversation(query):
    """Thanks with the remark that nothing else is needed is small talk, in several languages."""
    assert is_small_talk(query)
    assert is_small_talk(query, "The roadster. Anything else?")
