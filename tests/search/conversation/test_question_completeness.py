"""Estimate of whether a question needs its conversation."""

import pytest

from langchain_hybridgraph.search.conversation import leaning


@pytest.mark.parametrize(
    "query",
    [
        "it?",
        "and its price?",
        "What about transplant?",
        "Can women play it?",
        "Und wie viel kostet er?",
        "Et son prix ?",
        "¿y cuánto cuesta?",
        "сколько он стоит?",
        "那个多少钱？",
        "それはいくらですか",
        "",
        "!?",
    ],
)
def test_a_question_of_few_words_depends_on_the_conversation(query):
    """Questions with pronouns, ellipses and fragments depend fully on the conversation, in several languages and
    scripts.
    """
    assert leaning(query) == 1.0
