"""Retrievers and stores built from a file and the environment."""

import inspect
import json

import pytest
import yaml
from langchain_core.documents import Document

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    build_layers,
    ingest,
)
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.memory_scores import Hotness, Novelty
from langchain_hybridgraph.options.base import OptionGroup, groups_of
from langchain_hybridgraph.options.models import mode_from
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.search.conversation import AppendHistory, HistoryTerms
from langchain_hybridgraph.search.fusion import ConvexCombination
from langchain_hybridgraph.search.rerankers import ScoreReranker
from langchain_hybridgraph.search.scores import Propagation
from langchain_hybridgraph.search.traversals import BFS
from langchain_hybridgraph.settings import IN_CODE_ONLY, MODELS, HybridGraphSettings, StoreFields
from tests.support.samples.option_values import GOOD
from tests.support.samples.retrievers import BY_NAME, STORE_RETRIEVERS

TEXTS = {
    "api/auth.md": "Tokens are renewed every hour by the client.",
    "api/limits.md": "A client may ask ten times a second.",
    "guide/start.md": "Install the package and open a browser.",
    "guide/tokens.md": "Tokens stand in the header of a request.",
}
QUESTION = "How are tokens renewed by the client?"
OF = {
    "retriever": HybridRetriever,
    "graph": GraphRetriever,
    "advanced": AdvancedRetriever,
    "selection": HybridRetriever,
    "index": HybridRetriever,
    "tree": HierarchicalRetriever,
    "memory": MemoryRetriever,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Build an index with a directory tree."""
    path = tmp_path_factory.mktemp("index") / "docs"
    with HybridGraphStore(path, "lsa") as store:
        documents = [
            Document(text, metadata={"uri": uri, "source": uri, "year": 2020 + place})
            for place, (uri, text) in enumerate(TEXTS.items())
        ]
        ingest(documents, store)
        build_layers(store)
    return path


@pytest.fixture
def write(tmp_path, folder):
    """Return a function that writes a file of settings for the index and returns its path."""

    def write_sections(**sections):
        path = tmp_path / "hybridgraph.yaml"
        path.write_text(yaml.safe_dump({"store": {"path": str(folder), "read_only": True}} | sections))
        return path

    return write_sections


# -- every key reaches its constructor --


def test_every_option_is_a_key():
    """Every option of a retriever and of its groups has a key, unless it takes an object."""
    of_langchain = {"name", "tags", "metadata", "vector_store"}
    for kind in STORE_RETRIEVERS:
        groups = groups_of(kind)
        options = kind.model_fields.keys() - groups.keys() - of_langchain - IN_CODE_ONLY
        grouped = {name for group in groups.keys() - {"telemetry"} for name in groups[group].model_fields}
        keys = {key.split("_", 1)[1] for key in HybridGraphSettings.model_fields}
        assert options | (grouped - IN_CODE_ONLY) <= keys, kind


def test_the_keys_of_the_store_are_its_arguments():
    """The store's keys are arguments of HybridGraphStore with the same defaults."""
    parameters = inspect.signature(HybridGraphStore.__init__).parameters
    assert {"path", "embedding", "near_duplicate"} <= StoreFields.model_fields.keys()
    for name, field in StoreFields.model_fields.items():
        assert field.default == parameters[name].default


CONVERTED = {
    "retriever_filter": parse_filter({"year": {"$gte": 2020}}),
    "retriever_as_of": 1714521600.0,
    "retriever_fusion": ConvexCombination(normalize="max"),
    "retriever_reranker": ScoreReranker(0.2),
    "selection_budget": TokenBudget(500, fill=False),
    "graph_traversal": BFS(max_hops=3, relations=["cites"]),
    "graph_score": Propagation(0.4),
    "graph_seed_filter": parse_filter({"kind": "page"}),
    "graph_seed_labels": frozenset({"api", "web"}),
    "advanced_expander": AppendHistory(2),
    "tree_roots": {"memory": ("user/memories",)},
    "memory_mode": mode_from({"type": "procedural", "recency": 0.3}),
    "memory_labels": frozenset({"api", "web"}),
    "memory_known_at": 1714521600.0,
    "memory_hotness": Hotness(0.3, 2),
    "memory_novelty": Novelty(floor=1),
}
# Settings of a keyword index that accompanies another vector store.
OTHER_STORE = {"index_engine", "index_language", "index_id_key", "index_equal_texts", "index_path", "index_refresh"}


@pytest.mark.parametrize(
    "key",
    [
        key
        for key in GOOD
        if not key.startswith("store_") and key not in OTHER_STORE | {"advanced_retriever", "tree_planner"}
    ],
)
def test_a_value_from_the_file_or_the_environment_reaches_the_retriever(key, write, folder, monkeypatch):
    """A value from the file or the environment reaches the retriever, converted as by the constructor."""
    section, name = key.split("_", 1)
    is_in_group = any(issubclass(kind, OptionGroup) and name in kind.model_fields for kind in MODELS[section])
    group = getattr(OF[section], "model_fields", {}).keys() & ({section} if is_in_group else set())
    expected = CONVERTED.get(key, GOOD[key])
    expected = tuple(expected) if isinstance(expected, list) else expected
    with HybridGraphStore(folder, read_only=True) as store:
        from_file = OF[section].from_config(write(**{section: {name: GOOD[key]}}), store=store)
        value = GOOD[key] if isinstance(GOOD[key], str) else json.dumps(GOOD[key])
        monkeypatch.setenv(f"HYBRIDGRAPH_{key.upper()}", value)
        from_environment = OF[section].from_config(write(), store=store)
    for retriever in (from_file, from_environment):
        actual = getattr(getattr(retriever, *group) if group else retriever, name)
        assert (tuple(actual) if isinstance(actual, list) else actual) == expected


# -- the retrievers --


@pytest.mark.parametrize("kind", [*STORE_RETRIEVERS, AdvancedRetriever])
def test_a_retriever_from_a_file_opens_its_index_and_answers(kind, write):
    """Each retriever opens the store of the file, and its answer has the k of the file."""
    documents = kind.from_config(write(retriever={"k": 2})).invoke(QUESTION)
    assert (len(documents), documents[0].metadata["source"]) == (2, "api/auth.md")


def test_full_precedence(write, folder, monkeypatch):
    """Call, constructor, environment, file and default take precedence in this order."""
    with HybridGraphStore(folder, read_only=True) as store:
        assert len(HybridRetriever.from_config(write(), store=store).invoke("tokens client package a")) == 4
        path = write(retriever={"k": 4})
        assert HybridRetriever.from_config(path, store=store).k == 4
        monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "3")
        assert HybridRetriever.from_config(path, store=store).k == 3
        retriever = HybridRetriever.from_config(path, store=store, k=2)
        assert retriever.k == 2
        assert len(retriever.invoke(QUESTION, k=1)) == 1


def test_one_weight_overrides_both_of_a_lower_source(write, folder):
    """A weight passed to from_config replaces both weights of the file."""
    path = write(retriever={"semantic_weight": 0.6})
    with HybridGraphStore(folder, read_only=True) as store:
        retriever = HybridRetriever.from_config(path, store=store, semantic_weight=0.2)
    assert retriever.retrieve(QUESTION, k=0).plan["weights"] == pytest.approx({"vector": 0.2, "keyword": 0.8})


@pytest.mark.parametrize(("name", "kind"), zip(BY_NAME, STORE_RETRIEVERS, strict=False))
def test_the_file_selects_the_retriever_of_an_advanced_retriever(write, folder, name, kind):
    """The file selects the inner retriever of an AdvancedRetriever, which reads its own section."""
    path = write(advanced={"retriever": name, "fuse_raw": False}, graph={"seed_k": 4})
    with HybridGraphStore(folder, read_only=True) as store:
        advanced = AdvancedRetriever.from_config(path, store=store, expander="history_terms")
    assert (type(advanced.retriever), advanced.fuse_raw, advanced.expander) == (kind, False, HistoryTerms())
    assert kind not in (GraphRetriever, MemoryRetriever) or advanced.retriever.graph.seed_k == 4


# -- the store and the embedding --


def test_a_store_with_an_embedding_and_its_parameters(tmp_path):
    """The store passes its language to the LSA embedding that the file describes."""
    path = tmp_path / "h.yaml"
    path.write_text("store:\n  path: made\n  language: german\n  embedding: {type: lsa}\n")
    with HybridGraphStore.from_config(path) as store:
        assert isinstance(store.embeddings, LSAEmbeddings)
        assert repr(store.embeddings) == "LSAEmbeddings(language='german', not fitted)"
    assert (tmp_path / "made").is_dir()


@pytest.mark.parametrize(
    "sections",
    [
        {"store": {"embedding": "subprocess:getoutput"}},
        {"retriever": {"reranker": {"type": "subprocess:getoutput", "cmd": "id"}}},
        {"tree": {"planner": {"type": "llm", "model": "subprocess:getoutput"}}},
        {"advanced": {"expander": "package.module:factory"}},
    ],
)
def test_a_file_names_factories_only_with_permission(write, monkeypatch, sections):
    """A factory in a file is refused, unless the variable or an argument allows it; a provider's model is not one."""
    path = write(**sections)
    with pytest.raises(ConfigurationError, match="would be imported and called"):
        HybridGraphSettings.from_file(path)
    assert HybridGraphSettings.from_file(path, allow_factories=True).model_fields_set
    monkeypatch.setenv("HYBRIDGRAPH_ALLOW_FACTORIES", "1")
    assert HybridGraphSettings.from_file(path).model_fields_set


def test_a_missing_store_path_is_an_error(tmp_path, monkeypatch):
    """Without store_path, from_config raises an error that names the key."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="store_path is not set"):
        HybridRetriever.from_config()
