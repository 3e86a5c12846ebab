"""Expanders by name, and their settings."""

import pytest
from langchain_core.language_models import FakeListLLM

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.conversation import (
    EXPANDERS,
    AppendHistory,
    HistoryTerms,
    LLMRewrite,
    StripQuestion,
    expander_from,
)
from langchain_hybridgraph.query.conversation.history import turns


def test_an_expander_has_a_name():
    """An expander can be given by its name, by a mapping with its parameters, or as a function."""
    assert [expander_from(name) for name in EXPANDERS] == [HistoryTerms(), AppendHistory(), StripQuestion()]
    assert expander_from({"type": "history_terms", "most": 5}) == HistoryTerms(most=5)
    assert expander_from(turns) is turns
    with pytest.raises(ConfigurationError, match="did you mean 'history_terms'"):
        expander_from("history")


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
