"""Every retriever and the store, from a file and the environment."""

import inspect
import json

import pytest
import yaml
from langchain_core.documents import Document
from values import GOOD

from langchain_hybridgraph import (
    AdvancedRetriever,
    AppendHistory,
    GraphRetriever,
    HierarchicalRetriever,
    HistoryTerms,
    HybridGraphStore,
    HybridRetriever,
    LSAEmbeddings,
    MemoryRetriever,
    ScoreReranker,
    TokenBudget,
    build_layers,
    ingest,
)
from langchain_hybridgraph.config import HybridGraphSettings
from langchain_hybridgraph.config.settings import SHORTHAND
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters import parse_filter
from langchain_hybridgraph.query.fusion import ConvexCombination, Interleave
from langchain_hybridgraph.query.graph_scores import Propagation
from langchain_hybridgraph.query.scoring import Hotness, Novelty
from langchain_hybridgraph.query.traversal import BFS
from langchain_hybridgraph.retrievers.graph import _SHORT
from langchain_hybridgraph.retrievers.memory import WEIGHTS as MEMORY_WEIGHTS
from langchain_hybridgraph.retrievers.modes import mode_from

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
    "hierarchical": HierarchicalRetriever,
    "memory": MemoryRetriever,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A real index with a tree."""
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
    """Writes a file of these settings, over the index, and gives its path."""

    def written(**sections):
        path = tmp_path / "hybridgraph.yaml"
        path.write_text(yaml.safe_dump({"store": {"path": str(folder), "read_only": True}} | sections))
        return path

    return written


def ids(documents):
    return [document.metadata["source"] for document in documents]


# -- every key reaches what it is for --


def arguments(section):
    """The names that the constructors of a section take, with their defaults."""
    if section == "store":
        return {name: each.default for name, each in inspect.signature(HybridGraphStore.__init__).parameters.items()}
    return {field.alias or name: field.default for name, field in OF[section].model_fields.items()}


# What differs on purpose: the weights and language of a store (chosen there), and objects there
# that have a name here.
OTHER = {
    "retriever_semantic_weight",
    "retriever_keyword_weight",
    "store_language",
    "graph_seed_labels",
    "advanced_retriever",
    "advanced_expander",
    "hierarchical_roots",
    "memory_labels",
    "memory_source_weights",
    "memory_novelty",
}


@pytest.mark.parametrize("key", HybridGraphSettings.model_fields)
def test_every_key_is_an_argument_with_its_default(key):
    """A key is its section and the name of a constructor's argument."""
    section, name = key.split("_", 1)
    default = arguments(section)[name]
    if key not in OTHER:
        assert HybridGraphSettings.model_fields[key].default == default


# Objects, documents, and what only a program has.
NO_DATA = {
    "vector_store",
    "texts",
    "plain",
    "keyword_retriever",
    "version",
    "graph",
    "planner",
    "get_session_history",
    "session",
    "sinks",
    "tracer",
    "logger",
}
OF_BASE_RETRIEVER = {"name", "tags", "metadata"}


@pytest.mark.parametrize("section", OF)
def test_every_argument_that_is_data_is_a_key(section):
    """A new setting of a retriever gets a key, or stands among those that no file can give."""
    known = {key.split("_", 1)[1] for key in HybridGraphSettings.model_fields if key.startswith(f"{section}_")}
    sections = [other for other in (*getattr(OF[section], "_sections", ()), "retriever") if other != section]
    inherited = set().union(*(arguments(other) for other in sections))
    assert arguments(section).keys() - known - inherited - NO_DATA - OF_BASE_RETRIEVER - {"k"} == set()


def test_shorthand_is_shorthand_there_too():
    """The keys that contradict a preset are those of the retriever."""
    assert set(SHORTHAND) == set(_SHORT)


def test_the_defaults_are_the_memorys():
    """Those of sources and of novelty."""
    fields = HybridGraphSettings.model_fields
    assert Novelty(**fields["memory_novelty"].default) == Novelty()
    assert fields["memory_source_weights"].default == dict(MEMORY_WEIGHTS)


READ = {
    "retriever_filter": parse_filter({"year": {"$gte": 2020}}),
    "retriever_as_of": 1714521600.0,
    "retriever_fusion": ConvexCombination(normalize="max"),
    "retriever_reranker": ScoreReranker(0.2),
    "retriever_budget": TokenBudget(500, fill=False),
    "graph_traversal": BFS(max_hops=3, relations=["cites"]),
    "graph_score": Propagation(0.4),
    "graph_seed_filter": parse_filter({"kind": "page"}),
    "graph_seed_labels": frozenset({"api", "web"}),
    "graph_hop_decay": (1, 0.5),
    "advanced_expander": AppendHistory(2),
    "hierarchical_roots": {"memory": ("user/memories",)},
    "memory_mode": mode_from({"type": "procedural", "recency": 0.3}),
    "memory_labels": frozenset({"api", "web"}),
    "memory_known_at": 1714521600.0,
    "memory_hotness": Hotness(0.3, 2),
    "memory_novelty": Novelty(floor=1),
}
# Settings of an index over documents, beside a vector store that is not ours.
BESIDE = {"retriever_keyword_engine", "retriever_language", "retriever_id_key", "retriever_refresh"}


@pytest.mark.parametrize(
    "key",
    [
        key
        for key in GOOD
        if not key.startswith("store_") and key not in BESIDE | {"advanced_retriever", "hierarchical_planner"}
    ],
)
def test_a_value_in_the_file_and_in_the_environment_is_the_retrievers(key, write, folder, monkeypatch):
    """It becomes what the constructor makes of it, from either place."""
    section, name = key.split("_", 1)
    wanted = READ.get(key, GOOD[key])
    wanted = tuple(wanted) if isinstance(wanted, list) else wanted
    with HybridGraphStore(folder, read_only=True) as store:
        filed = OF[section].from_config(write(**{section: {name: GOOD[key]}}), store=store)
        value = GOOD[key] if isinstance(GOOD[key], str) else json.dumps(GOOD[key])
        monkeypatch.setenv(f"HYBRIDGRAPH_{key.upper()}", value)
        varied = OF[section].from_config(write(), store=store)
    for retriever in (filed, varied):
        found = getattr(retriever, name)
        assert (tuple(found) if isinstance(found, list) else found) == wanted


# -- the retrievers --


@pytest.mark.parametrize(
    "kind", [HybridRetriever, GraphRetriever, HierarchicalRetriever, MemoryRetriever, AdvancedRetriever]
)
def test_a_retriever_from_a_file_opens_its_index_and_answers(kind, write):
    """k of the file, then of the constructor, then of the call."""
    path = write(retriever={"k": 2})
    retriever = kind.from_config(path)
    assert len(retriever.invoke(QUESTION)) == 2
    assert len(kind.from_config(path, k=1).invoke(QUESTION)) == 1
    assert len(retriever.invoke(QUESTION, k=3)) == 3
    assert ids(retriever.invoke(QUESTION))[0] == "api/auth.md"


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, HierarchicalRetriever, MemoryRetriever])
def test_k_is_the_same_from_a_file_and_from_a_constructor(kind, write, folder):
    """One default for programs, files and the command line."""
    with HybridGraphStore(folder, read_only=True) as store:
        assert (kind.from_config(write(), store=store).k, kind(store).k) == (10, 10)
        assert AdvancedRetriever.from_config(write(), store=store).retriever.k == 10


def test_the_whole_precedence(write, folder, monkeypatch):
    """Call, constructor, environment, file, default: each wins over what comes after it."""
    with HybridGraphStore(folder, read_only=True) as store:
        assert len(HybridRetriever.from_config(write(), store=store).invoke("tokens client package a")) == 4
        path = write(retriever={"k": 4})
        assert HybridRetriever.from_config(path, store=store).k == 4
        monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "3")
        assert HybridRetriever.from_config(path, store=store).k == 3
        retriever = HybridRetriever.from_config(path, store=store, k=2)
        assert retriever.k == 2
        assert len(retriever.invoke(QUESTION, k=1)) == 1


def test_one_weight_overrules_both_of_what_comes_below(write, folder):
    """A weight that was made of another one has no say of its own."""
    path = write(retriever={"semantic_weight": 0.6})
    with HybridGraphStore(folder, read_only=True) as store:
        retriever = HybridRetriever.from_config(path, store=store, semantic_weight=0.2)
    assert retriever.retrieve(QUESTION, k=0).plan["weights"] == pytest.approx({"vector": 0.2, "keyword": 0.8})


def test_sections_are_their_own(write, folder):
    """A GraphRetriever takes what is every retriever's and its own; a HybridRetriever does not look at that."""
    path = write(retriever={"min_score": 0.01, "fusion": "interleave"}, graph={"preset": "beam", "seed_k": 3})
    with HybridGraphStore(folder, read_only=True) as store:
        graph = GraphRetriever.from_config(path, store=store)
        hybrid = HybridRetriever.from_config(path, store=store)
    assert (graph.min_score, graph.fusion, graph.preset, graph.seed_k) == (0.01, Interleave(), "beam", 3)
    assert (hybrid.min_score, hybrid.fusion) == (0.01, Interleave())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hybrid", HybridRetriever),
        ("graph", GraphRetriever),
        ("hierarchical", HierarchicalRetriever),
        ("memory", MemoryRetriever),
    ],
)
def test_what_an_advanced_retriever_asks(write, folder, name, kind):
    """The file names it, and its own section sets it."""
    path = write(advanced={"retriever": name, "fuse_raw": False}, graph={"seed_k": 4})
    with HybridGraphStore(folder, read_only=True) as store:
        talk = AdvancedRetriever.from_config(path, store=store, expander="history_terms")
    assert (type(talk.retriever), talk.fuse_raw, talk.expander) == (kind, False, HistoryTerms())
    assert getattr(talk.retriever, "seed_k", 4) == 4


# -- the store and the embedding --


def test_a_store_with_an_embedding_and_its_parameters(tmp_path):
    """LSA, in the store's language."""
    path = tmp_path / "h.yaml"
    path.write_text("store:\n  path: made\n  language: german\n  embedding: {type: lsa, max_words: 50, seed: 3}\n")
    with HybridGraphStore.from_config(path) as store:
        assert isinstance(store.embeddings, LSAEmbeddings)
        assert (store.embeddings.max_words, store.embeddings.seed, store.language) == (50, 3, "german")
        assert repr(store.embeddings) == "LSAEmbeddings(language='german', not fitted)"
    assert (tmp_path / "made").is_dir()


def test_a_factory_with_its_parameters(tmp_path, monkeypatch):
    """Any LangChain Embeddings by name, from the environment as well."""
    monkeypatch.setenv("HYBRIDGRAPH_STORE_PATH", str(tmp_path / "made"))
    fake = {"type": "langchain_core.embeddings:DeterministicFakeEmbedding", "size": 8}
    monkeypatch.setenv("HYBRIDGRAPH_STORE_EMBEDDING", json.dumps(fake))
    with HybridGraphStore.from_config() as store:
        assert store.embeddings.size == 8


def test_without_a_path_there_is_nothing_to_open(tmp_path, monkeypatch):
    """The error names the key."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="store_path is not set"):
        HybridRetriever.from_config()


@pytest.mark.parametrize(
    "kind", [HybridRetriever, GraphRetriever, HierarchicalRetriever, AdvancedRetriever, HybridGraphStore]
)
def test_a_bad_file_is_told_by_each(kind, write):
    """File, line, key and what is allowed."""
    path = write(graph={"traversal": "bsf"})
    with pytest.raises(ConfigurationError) as caught:
        kind.from_config(path)
    assert str(caught.value).startswith(f"{path}:2: graph_traversal is 'bsf'; wanted bfs, beam,")
