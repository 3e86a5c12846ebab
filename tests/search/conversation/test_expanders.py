"""Expansion of a question from its conversation, without a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListLLM

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.conversation import (
    AppendHistory,
    ExpandedQuery,
    HistoryTerms,
    LLMRewrite,
    StripQuestion,
    leaning,
    turns,
)

CARS = turns(["User: red car", "Assistant: A roadster", "User: how fast", "Assistant: 200"])


@pytest.mark.parametrize(
    "query",
    [
        "Who wrote the earliest computer program?",
        "Welche Nebenwirkungen hat das neue Medikament gegen Grippe?",
        "国务院关于房地产税收政策的最新规定",
    ],
)
def test_a_question_of_four_content_words_is_complete(query):
    """A question with four content words is searched unchanged, in several languages."""
    assert leaning(query) == 0.0
    assert HistoryTerms()(query, CARS) == ExpandedQuery(query)


@pytest.mark.parametrize(
    "query",
    ["How old is the moon?", "What is NATO?", "Was kostet die NATO?", "At what temperature?"],
)
def test_a_short_question_may_change_the_topic(query):
    """A short question without a sign of continuation gets the full weight, but is not marked as sure."""
    expanded_query = HistoryTerms()(query, CARS)
    assert (expanded_query.weight, expanded_query.sure) == (0.5, False)


@pytest.mark.parametrize(
    "query",
    [
        "What about MySQL?",
        "And NATO?",
        "Und die NATO?",
        "Does it like Ada?",
        "How fast are others?",
        "Combien sont celles ?",
        "Сколько он стоит?",
        "它多少钱？",
        "why?",
        "それはいくらですか",
        "!?",
    ],
)
def test_a_sign_of_continuation_is_sure(query):
    """An opening word, a pronoun or a question of function words is a sure sign of continuation."""
    assert leaning(query) == 1.0
    expanded_query = HistoryTerms()(query, CARS)
    assert (expanded_query.weight, expanded_query.sure) == (0.5, True)


@pytest.mark.parametrize(
    "query", ["How heavy are red trucks?", "Which cars have four seats?", "Has it a loud diesel engine?"]
)
def test_three_words_may_continue_the_conversation(query):
    """A question of three words continues the conversation if it shares a word with it in any form, or has a
    pronoun.
    """
    expanded_query = HistoryTerms(weight=0.4)(query, CARS)
    assert (expanded_query.weight, expanded_query.sure) == (0.2, True)


def test_history_terms_take_the_ends_of_the_conversation():
    """The added terms come from the last question, the first question and the last answer, in this order."""
    history = turns(
        [
            ("user", "Which electric cars are red?"),
            ("assistant", "Several."),
            ("user", "Are trains fast?"),
            ("assistant", "Some."),
            ("user", "Who builds roadsters?"),
            ("assistant", "A company called Tesla builds them."),
        ]
    )
    expanded_query = HistoryTerms()("since when?", history)
    assert expanded_query.context == (
        "Which electric cars are red? Who builds roadsters? A company called Tesla builds them."
    )
    assert expanded_query.text == "since when? builds roadsters electric cars red Tesla company called"
    assert HistoryTerms(most=2)("since when?", history).text == "since when? builds roadsters"


def test_turns_of_unknown_speakers():
    """If the speakers are unknown, the last turn is treated as the answer to the turn before it."""
    expanded_query = HistoryTerms()("why?", turns(["red cars", "loud trains", "they have engines"]))
    assert expanded_query.context == "red cars loud trains they have engines"


@given(st.text(max_size=50), st.lists(st.text(max_size=50), max_size=6))
def test_history_terms_take_any_text(query, history):
    """For any question and history, the expanded text starts with the question and the weight is within [0, .5]."""
    expanded_query = HistoryTerms()(query, turns(history))
    assert expanded_query.text.startswith(query)
    assert 0 <= expanded_query.weight <= 0.5


@pytest.mark.parametrize(
    ("most", "history", "text"),
    [
        (3, CARS, "and its price? Assistant: A roadster User: how fast Assistant: 200"),
        (9, CARS[:1], "and its price? User: red car"),
        (3, [], "and its price?"),
    ],
)
def test_append_history(most, history, text):
    """The last turns, or all turns of a shorter conversation, are appended unchanged and in order."""
    assert AppendHistory(most)("and its price?", history) == ExpandedQuery(text, sure=False)


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("Could you please tell me what the capital of France is?", "capital of France is"),
        ("Can you?", "Can you?"),
        ("Isolation of a fuse?", "Isolation of a fuse"),
    ],
)
def test_strip_question(query, left):
    """Courtesy and question words are removed unless the question consists only of them."""
    assert StripQuestion()(query, CARS).text == left


@pytest.mark.parametrize(
    "make",
    [
        lambda: AppendHistory(0),
        lambda: HistoryTerms(weight=1.5),
        lambda: HistoryTerms(most=0),
        lambda: LLMRewrite("gpt"),
        lambda: LLMRewrite(FakeListLLM(responses=["x"]), turns=0),
        lambda: LLMRewrite(FakeListLLM(responses=["x"]), timeout=0),
    ],
)
def test_settings_that_cannot_be_used(make):
    """Invalid parameters of an expander raise ConfigurationError at construction."""
    with pytest.raises(ConfigurationError):
        make()
