"""Settings of expanders."""

import pytest
from langchain_core.language_models import FakeListLLM

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.conversation import AppendHistory, HistoryTerms, LLMRewrite


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
