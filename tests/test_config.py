import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.config import HybridGraphSettings
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.fusion import FUSIONS


@pytest.fixture
def write(tmp_path):
    """Writes the YAML file and gives its path."""

    def written(text):
        path = tmp_path / "settings.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


# -- values and where they come from --


def test_defaults():
    """Weights .7 and .3, five Documents, and no index."""
    settings = HybridGraphSettings()
    assert (settings.retriever_semantic_weight, settings.retriever_keyword_weight) == (0.7, 0.3)
    assert (settings.retriever_k, settings.store_path) == (5, None)


def test_precedence(write, monkeypatch):
    """Argument before environment before file before default, each for itself."""
    path = write("retriever_k: 1\nretriever_overfetch: 11\nretriever_min_score: 0.1\n")
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "2")
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_OVERFETCH", "12")
    settings = HybridGraphSettings.from_file(path, retriever_k=3)
    found = (settings.retriever_k, settings.retriever_overfetch, settings.retriever_min_score)
    assert found == (3, 12, 0.1)
    assert settings.retriever_deadline_ms is None


def test_the_environment_in_any_case_and_empty(write, monkeypatch):
    """A variable in small letters counts, an empty one is unset and leaves the file its say."""
    path = write("retriever: {k: 4, overfetch: 4}")
    monkeypatch.setenv("hybridgraph_retriever_k", "2")
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_OVERFETCH", "")
    settings = HybridGraphSettings.from_file(path)
    assert (settings.retriever_k, settings.retriever_overfetch) == (2, 4)


def test_none_is_unset(write, monkeypatch):
    """None as an argument and null in the file leave the say to what comes below; 0 does not."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "2")
    settings = HybridGraphSettings.from_file(
        write("retriever_overfetch: null\nretriever_min_score: 0"), retriever_k=None
    )
    assert (settings.retriever_k, settings.retriever_overfetch, settings.retriever_min_score) == (2, 3, 0.0)


def test_sections_and_flat_keys_are_the_same(write):
    """A key stands flat or in its section, and both may be mixed."""
    flat = HybridGraphSettings.from_file(write("retriever_k: 7\nstore_language: german\n"))
    nested = HybridGraphSettings.from_file(write("retriever:\n  k: 7\nstore_language: german\nstore:\n"))
    assert flat == nested
    assert flat.retriever_k == 7


def test_an_empty_file_is_no_settings(write):
    """A file of comments gives the defaults."""
    assert HybridGraphSettings.from_file(write("# nothing yet\n")) == HybridGraphSettings()


def test_without_a_path_the_working_directory_is_looked_at(tmp_path, monkeypatch):
    """``from_file()`` reads hybridgraph.yaml where it is called, and needs none; a plain constructor never reads."""
    monkeypatch.chdir(tmp_path)
    assert HybridGraphSettings.from_file().retriever_k == 5
    Path("hybridgraph.yaml").write_text("retriever_k: 6", encoding="utf-8")
    assert HybridGraphSettings.from_file().retriever_k == 6
    assert HybridGraphSettings().retriever_k == 5


def test_a_relative_index_starts_at_its_file(write, tmp_path, monkeypatch):
    """In a file ``store_path`` is relative to the file's folder; elsewhere it is taken as it is."""
    path = write("store: {path: indexes/docs}")
    assert HybridGraphSettings.from_file(path).store_path == tmp_path / "indexes/docs"
    monkeypatch.setenv("HYBRIDGRAPH_STORE_PATH", "here")
    assert HybridGraphSettings.from_file(path).store_path == Path("here")


def test_absolute_and_home_paths_stay(write, monkeypatch):
    """An absolute path in a file stays, and ~ is the home."""
    monkeypatch.setenv("HOME", "/home/ada")
    assert HybridGraphSettings.from_file(write("store_path: /var/index")).store_path == Path("/var/index")
    assert HybridGraphSettings.from_file(write("store_path: ~/index")).store_path == Path("/home/ada/index")
    assert HybridGraphSettings(store_path="~/index").store_path == Path("/home/ada/index")


def test_fusion_is_a_name_or_a_mapping(write, monkeypatch):
    """A mapping is passed on as it is; in the environment it is JSON, and a name stays a name."""
    mapping = {"type": "rrf", "rank_constant": 10}
    path = write("retriever: {fusion: {type: rrf, rank_constant: 10}}")
    assert HybridGraphSettings.from_file(path).retriever_fusion == mapping
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_FUSION", '{"type": "rrf", "rank_constant": 10}')
    assert HybridGraphSettings().retriever_fusion == mapping
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_FUSION", "concat")
    assert HybridGraphSettings().arguments("retriever")["fusion"] == "concat"


def test_a_fusion_with_a_wrong_parameter(write):
    """A mapping is checked when it is read, and the error says what the fusion says."""
    path = write("retriever_fusion: {type: rrf, constant: 10}")
    with pytest.raises(ConfigurationError, match=r"or a mapping of its parameters .*no parameter 'constant'; wanted"):
        HybridGraphSettings.from_file(path)


def test_the_fusions_named_are_those_there_are():
    """Every fusion stands among the allowed values, and every name may be given."""
    allowed = HybridGraphSettings.model_fields["retriever_fusion"].json_schema_extra["allowed"]
    assert allowed.startswith(" or ".join(", ".join(FUSIONS).rsplit(", ", 1)))
    assert [HybridGraphSettings(retriever_fusion=name).retriever_fusion for name in FUSIONS] == list(FUSIONS)


# -- weights --


def test_one_weight_gives_the_other():
    """1 − w fills the weight that is not given, whichever it is."""
    assert HybridGraphSettings(retriever_semantic_weight=0.6).retriever_keyword_weight == pytest.approx(0.4)
    assert HybridGraphSettings(retriever_keyword_weight=0).retriever_semantic_weight == 1.0


def test_weights_from_two_places(write, monkeypatch):
    """A weight in the file and one in the environment are both given, and neither is made of the other."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_KEYWORD_WEIGHT", "0.5")
    settings = HybridGraphSettings.from_file(write("retriever: {semantic_weight: 2}"))
    assert (settings.retriever_semantic_weight, settings.retriever_keyword_weight) == (2.0, 0.5)


def test_unset_weights_are_not_passed_on():
    """Without a given weight the retriever may choose; the other keys reach it under its own names."""
    assert HybridGraphSettings().arguments("retriever") == {"k": 5}
    given = HybridGraphSettings(retriever_semantic_weight=0.7).arguments("retriever")
    assert (given["semantic_weight"], given["keyword_weight"]) == (0.7, pytest.approx(0.3))


def test_arguments_of_the_store():
    """Only what was given, so that the store keeps what it was made with."""
    assert HybridGraphSettings().arguments("store") == {}
    settings = HybridGraphSettings(store_path="i", store_tenant="acme", retriever_k=1)
    assert settings.arguments("store") == {"path": Path("i"), "tenant": "acme"}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"retriever_semantic_weight": -0.1}, "retriever_semantic_weight is -0.1; wanted a number from 0"),
        ({"retriever_semantic_weight": 0, "retriever_keyword_weight": 0}, "are both 0"),
        ({"retriever_keyword_weight": 1.5}, "retriever_semantic_weight is not given"),
        ({"retriever_keyword_weight": float("nan")}, "retriever_keyword_weight is nan"),
        ({"retriever_keyword_weight": float("inf")}, "retriever_keyword_weight is inf"),
    ],
)
def test_unusable_weights(weights, message):
    """Negative, all-zero, infinite weights, and one above 1 without the other, are errors."""
    with pytest.raises(ConfigurationError, match=message):
        HybridGraphSettings(**weights)


@given(st.floats(0, 1))
def test_weights_fill_to_one(weight):
    """Whatever one weight is, both lie in [0, 1] and sum to 1."""
    settings = HybridGraphSettings(retriever_semantic_weight=weight)
    other = settings.retriever_keyword_weight
    assert 0 <= other <= 1
    assert weight + other == pytest.approx(1)


# -- errors --


BAD = {
    "retriever_semantic_weight": "much",
    "retriever_keyword_weight": -1,
    "retriever_k": 0,
    "retriever_fusion": "magic",
    "retriever_overfetch": 2.5,
    "retriever_min_score": 1.01,
    "retriever_mmr_lambda": -0.5,
    "retriever_per_document": 0,
    "retriever_parents": "perhaps",
    "retriever_deadline_ms": 0,
    "retriever_on_error": "ignore",
    "retriever_keyword_engine": "lucene",
    "retriever_metadata_prefix": 1,
    "store_path": [1],
    "store_embedding": 3,
    "store_language": ["german"],
    "store_tenant": 17,
}


def test_every_key_has_a_bad_value_here():
    """A new setting gets its bad value in this file."""
    assert BAD.keys() == HybridGraphSettings.model_fields.keys()


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_a_bad_value_names_file_key_value_and_what_is_allowed(key, value, write):
    """The error of a value in a file is one line with all four."""
    path = write(f"{key}: {value}")
    allowed = HybridGraphSettings.model_fields[key].json_schema_extra["allowed"]
    with pytest.raises(ConfigurationError) as caught:
        HybridGraphSettings.from_file(path)
    assert str(caught.value).startswith(f"{path}: {key} is {value!r}; wanted {allowed}")
    assert "\n" not in str(caught.value)


def test_a_bad_variable_is_named_as_it_is_written(monkeypatch):
    """The error of an environment variable names the variable."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "many")
    with pytest.raises(ConfigurationError) as caught:
        HybridGraphSettings()
    assert str(caught.value) == "HYBRIDGRAPH_RETRIEVER_K is 'many'; wanted a whole number from 1"


def test_all_bad_values_are_told_at_once(write, monkeypatch):
    """One error holds a line per bad value, wherever each comes from."""
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_MIN_SCORE", "2")
    with pytest.raises(ConfigurationError) as caught:
        HybridGraphSettings.from_file(write("retriever_k: many"), retriever_fusion="magic")
    assert [line.split(" is ")[0].split()[-1] for line in str(caught.value).splitlines()] == [
        "retriever_k",
        "retriever_fusion",
        "HYBRIDGRAPH_RETRIEVER_MIN_SCORE",
    ]


@pytest.mark.parametrize("word", ["yes", "on", "true"])
def test_a_truth_value_is_no_number(write, word):
    """YAML's yes is not taken for a weight of 1."""
    with pytest.raises(ConfigurationError, match="retriever_semantic_weight is True; wanted a number"):
        HybridGraphSettings.from_file(write(f"retriever_semantic_weight: {word}"))


def test_an_unknown_argument_gets_the_nearest_name():
    """A misspelt argument is an error that knows better."""
    with pytest.raises(ConfigurationError) as caught:
        HybridGraphSettings(retriever_semantic_wieght=0.5)
    assert str(caught.value) == ("retriever_semantic_wieght is no setting; did you mean retriever_semantic_weight?")


def test_an_unknown_variable_is_not_ignored(monkeypatch):
    """A misspelt variable of ours is an error too; other names after the prefix are not ours to judge."""
    monkeypatch.setenv("HYBRIDGRAPH_INDEX", "docs")
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_KAY", "5")
    with pytest.raises(ConfigurationError, match=r"^HYBRIDGRAPH_RETRIEVER_KAY is no setting; did you mean"):
        HybridGraphSettings()
    monkeypatch.delenv("HYBRIDGRAPH_RETRIEVER_KAY")
    assert HybridGraphSettings() == HybridGraphSettings(retriever_k=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retriever: {semantic_wieght: 1}", "retriever_semantic_wieght is no setting; did you mean retriever_sem"),
        ("retreiver: {k: 1}", "retreiver is no setting; did you mean retriever?"),
        ("1: x", "1 is no setting; the settings are retriever_semantic_weight, "),
        ("retriever: 5", "retriever is 5; wanted a section"),
        ("retriever_k: 5\nretriever: {k: 6}", "retriever_k stands there twice"),
        ("- retriever_k", "holds .'retriever_k'.; wanted lines such as"),
        ("retriever_k: [5", "is not YAML: line 1: expected ',' or ']'"),
        ("store_tenant: 2024-13-01", "is not YAML: month must be in"),
        ("a: \x00", "is not YAML: unacceptable character"),
        ("a: !!python/object/apply:os.getcwd []", "is not YAML: line 1: could not determine a constructor"),
    ],
)
def test_bad_files(write, text, message):
    """What is wrong with a file is told after the file's name."""
    path = write(text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        HybridGraphSettings.from_file(path)
    assert str(caught.value).startswith(str(path))


def test_unreadable_files(tmp_path):
    """A named file must be there, be a file and be UTF-8."""
    (tmp_path / "latin.yaml").write_bytes("store_tenant: Zürich".encode("latin-1"))
    for name, message in [
        ("gone.yaml", "No such file"),
        (".", "Is a directory"),
        ("latin.yaml", "is not YAML: 'utf-8' codec can't decode"),
    ]:
        with pytest.raises(ConfigurationError, match=message):
            HybridGraphSettings.from_file(tmp_path / name)


# -- the keys and those who take them --


def test_every_key_is_an_argument():
    """Every key is a setting of HybridRetriever or an argument of HybridGraphStore, with the same default there.

    But k (5 here, 10 there), the weights (which may suit the embedding there), and the store's (unset here).
    """
    from langchain_hybridgraph import HybridGraphStore, HybridRetriever

    arguments = inspect.signature(HybridGraphStore.__init__).parameters
    for key, field in HybridGraphSettings.model_fields.items():
        section, name = key.split("_", 1)
        if section == "store":
            assert name in arguments, key
        elif key not in {"retriever_k", "retriever_semantic_weight", "retriever_keyword_weight"}:
            assert HybridRetriever.model_fields[name].default == field.default, key


# -- the table, the import --


def test_the_table_holds_every_key():
    """One row per key, in the order of the fields, each with four filled-in or empty cells."""
    header, rule, *rows = HybridGraphSettings.table().splitlines()
    assert (header, rule) == ("| Key | Default | Allowed | Meaning |", "|---|---|---|---|")
    assert [row.split("`")[1] for row in rows] == list(HybridGraphSettings.model_fields)
    assert all(row.count("|") == 5 for row in rows)


def test_importing_reads_no_yaml():
    """The YAML library is loaded when a file is read, not before."""
    code = "import sys, langchain_hybridgraph.config; print(sorted({'yaml', 'langchain_core'} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
