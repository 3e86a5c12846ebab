"""Estimated numbers of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.text.analyzer import approximate_tokens, token_weight


@pytest.mark.parametrize(("count", "tokens"), [(0, 0), (1, 1), (3, 3), (4, 5), (10, 13), (100, 130)])
def test_words_have_1_3_tokens_each(count, tokens):
    """The estimate is 1.3 tokens per word, rounded down without floating-point error."""
    assert approximate_tokens("word " * count) == tokens


@pytest.mark.parametrize(("text", "tokens"), [("你好世界", 6), ("日本語 text", 5), ("한국어", 4), ("é à", 2)])
def test_characters_without_spaces_count_singly(text, tokens):
    """Each Chinese, Japanese or Korean character is 1.5 tokens; other letters are counted as words."""
    assert approximate_tokens(text) == tokens


@pytest.mark.parametrize("text", ["word " * 7, "a bc. Def!", "你好 world", "", "one  two\nthree"])
def test_the_weight_is_the_count_before_rounding(text):
    """The weight of a text, rounded down, equals its estimated number of tokens."""
    assert int(token_weight(text) + 1e-9) == approximate_tokens(text)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_weights_add_up(parts):
    """The weight of a text is at most the sum of the weights of its parts."""
    assert token_weight("".join(parts)) <= sum(map(token_weight, parts)) + 1e-9
