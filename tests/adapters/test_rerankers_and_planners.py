"""Rerankers, planners and expanders in the configuration, with a chat model or the application's factory."""

import sys
from types import ModuleType

import pytest
from langchain_core.language_models import FakeListChatModel

from langchain_hybridgraph import HierarchicalRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError
from langchain_hybridgraph.options.objects import chat_model
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.rerankers import LLMReranker
from langchain_hybridgraph.settings import HybridGraphSettings


@pytest.fixture(autouse=True)
def application(monkeypatch):
    """Create a module of the application with factory functions."""
    module = ModuleType("my_application")
    module.model = lambda: FakeListChatModel(responses=['{"ratings": []}'])
    module.by_length = lambda factor=1: lambda query, texts: [factor / len(text) for text in texts]
    module.planner = lambda: lambda summary, messages, query: []
    module.shout = lambda mark="!": lambda query, turns: query + mark
    module.broken = lambda: 1 / 0
    monkeypatch.setitem(sys.modules, "my_application", module)
    monkeypatch.setenv("HYBRIDGRAPH_ALLOW_FACTORIES", "1")
    module.__spec__ = type(sys.__spec__)("my_application", None)


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore.from_texts(["A cat.", "A cat and a dog."], "lsa", ids=["cat", "both"]) as vector_store:
        yield vector_store


def configured(tmp_path, text):
    (tmp_path / "settings.yaml").write_text(text, encoding="utf-8")
    return HybridGraphSettings.from_file(tmp_path / "settings.yaml")


def test_a_reranker_with_a_chat_model(tmp_path, store):
    """A reranker of type ``llm`` takes its model's factory and its own parameters from the file."""
    settings = configured(tmp_path, "retriever: {reranker: {type: llm, model: my_application:model, batch_size: 3}}")
    reranker = HybridRetriever.from_settings(settings, store=store).reranker
    assert isinstance(reranker, LLMReranker)
    assert reranker.batch_size == 3


def test_a_reranker_from_a_factory(tmp_path, store):
    """A reranker's factory function is called with the other keys of its mapping and may return any reranker."""
    for form, factor in (("'my_application:by_length'", 1), ("{type: 'my_application:by_length', factor: 2}", 2)):
        settings = configured(tmp_path, f"retriever: {{reranker: {form}}}")
        result = HybridRetriever.from_settings(settings, store=store).retrieve("cat dog")
        assert [document.id for document in result] == ["cat", "both"]
        assert result[0].metadata["rerank_score"] == pytest.approx(factor / len("A cat."))
        assert result.warnings == ()


def test_a_model_by_name_needs_langchain(tmp_path, store, monkeypatch):
    """Without langchain, the error for a model by name names the model and the command that installs langchain."""
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    settings = configured(tmp_path, "retriever: {reranker: {type: llm, model: 'openai:gpt-4o-mini'}}")
    with pytest.raises(MissingExtraError, match=r"openai:gpt-4o-mini.* needs init_chat_model: pip install langchain$"):
        HybridRetriever.from_settings(settings, store=store)


@pytest.mark.parametrize(
    ("option", "form", "kind"),
    [
        ("planner", "rules", "RulePlanner"),
        ("planner", "{type: llm, model: 'my_application:model'}", "QueryPlanner"),
        ("planner", "'my_application:planner'", "function"),
        ("expander", "{type: llm, model: 'my_application:model', turns: 3}", "LLMRewrite"),
        ("expander", "'my_application:shout'", "function"),
    ],
)
def test_a_planner_or_expander_by_name(tmp_path, store, option, form, kind):
    """A planner or expander can be one of the package's, a chat model or a factory function of the application."""
    section, retriever = {"planner": ("tree", HierarchicalRetriever), "expander": ("advanced", AdvancedRetriever)}[
        option
    ]
    (tmp_path / "settings.yaml").write_text(f"{section}: {{{option}: {form}}}", encoding="utf-8")
    assert type(getattr(retriever.from_config(tmp_path / "settings.yaml", store=store), option)).__name__ == kind


@pytest.mark.parametrize(
    ("form", "expected"), [("history", "did you mean 'history_terms'"), (3, "expander is 3; expected"), ("a:b", "a:b")]
)
def test_an_invalid_expander_is_rejected(store, form, expected):
    """The error for an invalid expander names it, and the expected forms."""
    with pytest.raises(ValueError, match=expected):
        AdvancedRetriever.from_store(store, expander=form)


@pytest.mark.parametrize("name", ["my_application:broken", "my_application:nothing_there", "no_provider:model", "gpt"])
def test_the_error_of_an_invalid_model_names_the_model(name):
    """The error for an invalid model contains the model's name as written in the file."""
    with pytest.raises(ConfigurationError, match=name):
        chat_model(name)
