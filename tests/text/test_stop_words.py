"""Function words of several languages."""

import pytest

from langchain_hybridgraph.text.analyzer import function_words


@pytest.mark.parametrize("word", ["welche", "welcher", "welches", "welchem", "welchen"])
def test_german_question_words_are_known_in_every_form(word):
    """Every form of the German question word "welch-" is recognised as a function word."""
    assert word in function_words(["ist", "das", "auto"]).words
    assert function_words([word, "auto"]).capital_nouns
