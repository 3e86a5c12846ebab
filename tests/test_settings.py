"""Settings: values, precedence, weights, errors and origins."""

import re
from pathlib import Path

import pytest

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.base import notation_of
from langchain_hybridgraph.settings import OPTIONS, HybridGraphSettings, allowed_values
from langchain_hybridgraph.settings_file import Origin
from tests.support.samples.option_values import BAD, GOOD


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a YAML file and returns its path."""

    def write_text(text):
        path = tmp_path / "settings.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_text


# -- values and precedence --


def test_variables_in_lower_case_and_empty_variables(write, monkeypatch):
    """A lower-case environment variable is used, and an empty one is ignored."""
    path = write("retriever: {k: 4}\nselection: {overfetch: 4}")
    monkeypatch.setenv("hybridgraph_retriever_k", "2")
    monkeypatch.setenv("HYBRIDGRAPH_SELECTION_OVERFETCH", "")
    settings = HybridGraphSettings.from_file(path)
    assert (settings.retriever_k, settings.selection_overfetch) == (2, 4)


def test_none_is_unset(write, monkeypatch):
    """None as an argument and null in the file mean unset, while 0 is a value."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "2")
    path = write("selection_overfetch: null\nretriever_min_score: 0")
    settings = HybridGraphSettings.from_file(path, retriever_k=None)
    assert (settings.retriever_k, settings.selection_overfetch, settings.retriever_min_score) == (2, 3, 0.0)


def test_sections_and_flat_keys_are_the_same(write):
    """A key can be flat or in its section, and a file can mix both."""
    flat = HybridGraphSettings.from_file(write("retriever_k: 7\nstore_language: german\n"))
    assert flat == HybridGraphSettings.from_file(write("retriever:\n  k: 7\nstore_language: german\nstore:\n"))
    assert flat.retriever_k == 7


def test_without_a_path_the_file_of_the_working_directory_is_read(tmp_path, monkeypatch):
    """``from_file()`` reads hybridgraph.yaml if it exists; the constructor never reads a file."""
    monkeypatch.chdir(tmp_path)
    assert HybridGraphSettings.from_file().retriever_k == 10
    Path("hybridgraph.yaml").write_text("retriever_k: 6", encoding="utf-8")
    assert HybridGraphSettings.from_file().retriever_k == 6
    assert HybridGraphSettings().retriever_k == 10


def test_paths(write, tmp_path, monkeypatch):
    """A relative path in a file starts at the file's folder, an absolute one is unchanged, and ~ is the home folder."""
    monkeypatch.setenv("HOME", "/home/ada")
    assert HybridGraphSettings.from_file(write("store: {path: indexes/docs}")).store_path == tmp_path / "indexes/docs"
    assert HybridGraphSettings.from_file(write("index: {path: words}")).index_path == tmp_path / "words"
    assert HybridGraphSettings(store_path="here").store_path == Path("here")
    assert HybridGraphSettings.from_file(write("store_path: /var/index")).store_path == Path("/var/index")
    assert HybridGraphSettings.from_file(write("store_path: ~/index")).store_path == Path("/home/ada/index")
    assert HybridGraphSettings(store_path="~/index").store_path == Path("/home/ada/index")


KINDS = {key: option.kinds for key in OPTIONS if (option := notation_of(OPTIONS[key])) and option.kinds}


@pytest.mark.parametrize("key", KINDS)
def test_allowed_names_are_the_existing_ones(key):
    """The accepted values of each stage list the name of every implementation."""
    table, allowed_names = KINDS[key], allowed_values(key)
    assert [name for name in table if not re.search(rf"\b{name}\b", allowed_names)] == []
    for name in set(table) - {"score", "llm"}:  # a threshold and a model have no default
        assert getattr(HybridGraphSettings(**{key: name}), key) == name


# -- weights --


def test_weights_from_two_places(write, monkeypatch):
    """If one weight comes from the file and the other from the environment, both are used unchanged."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_KEYWORD_WEIGHT", "0.5")
    settings = HybridGraphSettings.from_file(write("retriever: {semantic_weight: 2}"))
    assert (settings.retriever_semantic_weight, settings.retriever_keyword_weight) == (2.0, 0.5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("{semantic_weight: 0, keyword_weight: 0}", ":1: retriever_semantic_weight cannot be used: .*got 0 and 0"),
        ("{keyword_weight: 1.5}", ":1: retriever_keyword_weight cannot be used: if only keyword_weight is set"),
    ],
)
def test_unusable_pairs_of_weights(weights, message, write):
    """Two weights of 0, and a single weight above 1, are refused with their place in the file."""
    with pytest.raises(ConfigurationError, match=message):
        HybridGraphSettings.from_file(write(f"retriever: {weights}"))


# -- errors --


def test_every_key_has_a_good_and_a_bad_value():
    """The test samples have a valid and an invalid value for every setting."""
    assert BAD.keys() == GOOD.keys() == HybridGraphSettings.model_fields.keys()


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_the_error_of_a_bad_value_names_file_key_value_and_allowed_values(key, value, write):
    """The error for an invalid value is one line with file, line, key, value and accepted values."""
    path = write(f"{key}: {value}")
    allowed_names = allowed_values(key)
    with pytest.raises(ConfigurationError) as caught:
        HybridGraphSettings.from_file(path)
    assert str(caught.value).startswith(f"{path}:1: {key} must be {allowed_names}, got {value!r}")
    assert "\n" not in str(caught.value)


def test_all_bad_values_are_reported_at_once(write, monkeypatch):
    """One error has a line for each invalid value, whether from the call, the environment or the file."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_MIN_SCORE", "2")
    with pytest.raises(ConfigurationError) as caught:
        HybridGraphSettings.from_file(write("retriever_k: many\nretreiver: {}"), retriever_fusion="magic")
    names = [re.split(" is | must ", line)[0].split()[-1] for line in str(caught.value).splitlines()]
    assert names == ["retriever_fusion", "HYBRIDGRAPH_RETRIEVER_MIN_SCORE", "retriever_k", "retreiver"]
    assert [problem.key for problem in caught.value.problems] == [names[0], "retriever_min_score", *names[2:]]
    assert [problem.origin.kind for problem in caught.value.problems] == ["call", "environment", "file", "file"]


@pytest.mark.parametrize("word", ["yes", "on", "true"])
def test_a_truth_value_is_not_a_number(write, word):
    """YAML's yes is not accepted as a weight of 1."""
    with pytest.raises(ConfigurationError, match=r"retriever_semantic_weight must be a number .*, got True"):
        HybridGraphSettings.from_file(write(f"retriever_semantic_weight: {word}"))


def test_an_unknown_variable_is_not_ignored(monkeypatch):
    """A misspelt variable is an error, but other names with the prefix are ignored."""
    monkeypatch.setenv("HYBRIDGRAPH_INDEX", "docs")
    monkeypatch.setenv("HYBRIDGRAPH_LOG_LEVEL", "1")
    assert HybridGraphSettings() == HybridGraphSettings(retriever_k=10)
    for name, variable in {
        "HYBRIDGRAPH_RETRIEVER_KAY": "HYBRIDGRAPH_RETRIEVER_K",
        "HYBRIDGRAPH_STOREPATH": "HYBRIDGRAPH_STORE_PATH",
        "HYBRIDGRAPH_MIN_SCORE": "HYBRIDGRAPH_RETRIEVER_MIN_SCORE",
        "hybridgraph_stroe_embedding": "HYBRIDGRAPH_STORE_EMBEDDING",
    }.items():
        monkeypatch.setenv(name, "5")
        with pytest.raises(ConfigurationError, match=f"^{name} is not a setting; did you mean {variable}"):
            HybridGraphSettings()
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retriever: {semantic_wieght: 1}", "retriever_semantic_wieght is not a setting; did you mean retriever_sem"),
        ("seed_k: 3", ":1: seed_k is not a setting; did you mean graph_seed_k[?]"),
        ("graph:\n  <<: {kay: 3}", ":1: graph_kay is not a setting; "),
        ("[" * 100_000, ": this is not YAML: maximum recursion depth exceeded"),
        ("memory: {mode: {type: general, recency: -1}}", "memory_mode must be .*recency"),
        ("retriever: {filter: {year: {$gt: null}}}", "retriever_filter must be a mapping such as"),
        ("retriever: {k: 5}\nretriever: {}", ":2: retriever appears twice, first on line 1; set it once, in one place"),
        ("retriever: {k: 5}\nretriever_k: 6", ":2: retriever_k appears twice, .*; set it once, flat or in its sect"),
        ("graph:\n  max_hops: 3", ":2: graph_max_hops is not a setting; write graph_traversal: {type: bfs, max_hops: "),
        ("retriever: 0", "retriever is 0; expected a section"),
        ("retriever: [5]", "retriever is .5.; expected a section"),
        ("- retriever_k", "contains .'retriever_k'.; expected lines such as"),
        ("retriever_k:\n  [5", ":2: this is not YAML: expected ',' or ']'"),
        ("store_tenant: 2024-13-01", ": this is not YAML: month must be in"),
    ],
)
def test_bad_files(write, text, message):
    """Every error about a file starts with the name of the file."""
    path = write(text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        HybridGraphSettings.from_file(path)
    assert str(caught.value).startswith(str(path))


def test_unreadable_files(tmp_path):
    """A settings file passed by name must exist, must not be a folder and must be UTF-8."""
    (tmp_path / "latin.yaml").write_bytes("store_tenant: Zürich".encode("latin-1"))
    for name, message in (("gone.yaml", "No such file"), (".", "Is a directory"), ("latin.yaml", "codec can't decode")):
        with pytest.raises(ConfigurationError, match=message):
            HybridGraphSettings.from_file(tmp_path / name)


# -- origins --


def test_origins(write, monkeypatch):
    """Each setting reports its origin, and a computed weight has the origin of the other weight."""
    monkeypatch.setenv("HYBRIDGRAPH_SELECTION_OVERFETCH", "4")
    path = write("# mine\nretriever:\n  semantic_weight: 0.6\n  k: 2\ngraph_seed_k: 3\n")
    effective = {each.key: each for each in HybridGraphSettings.effective(path, retriever_k=7)}
    values = {key: (each.value, each.default, str(each.origin)) for key, each in effective.items()}
    assert list(effective) == list(HybridGraphSettings.model_fields)
    assert values["retriever_k"] == (7, 10, "call")
    assert values["selection_overfetch"] == (4, 3, "HYBRIDGRAPH_SELECTION_OVERFETCH")
    assert values["retriever_semantic_weight"] == (0.6, None, f"{path}:3")
    assert values["graph_seed_k"] == (3, 10, f"{path}:5")
    assert values["retriever_min_score"] == (0.0, 0.0, "default")
    assert effective["graph_seed_k"].origin == Origin("file", str(path), 5)


def test_merged_settings_have_the_line_of_their_section(write):
    """A key merged with YAML's << has the line of its section, while other keys have their own line."""
    path = write("store: &s\n  tenant: a\nretriever:\n  k: 2\n  <<: {deadline_ms: 4}\n  <<: {min_score: 1}\n")
    effective = {each.key: each for each in HybridGraphSettings.effective(path)}
    assert (effective["retriever_deadline_ms"].value, effective["retriever_k"].origin.line) == (4, 4)


def test_labels_are_reported_in_alphabetical_order(monkeypatch):
    """Labels, which are a set, are reported in the same order by every process."""
    monkeypatch.setenv("HYBRIDGRAPH_GRAPH_SEED_LABELS", ",".join("hgfedcba"))
    effective = {each.key: each.value for each in HybridGraphSettings.effective()}
    assert effective["graph_seed_labels"] == list("abcdefgh")
