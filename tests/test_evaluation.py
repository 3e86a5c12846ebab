"""Evaluation of retrievers on questions with known answers, and the selection of a setting."""

import math
import tracemalloc

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.evaluation import EvaluationReport, choose_setting, difference, measure, vary_weight
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.models.function_retriever import FunctionRetriever

pytest.importorskip("ir_measures")


TEXTS = {"train": "Trains carry coal.", "ship": "Ships carry wood.", "plane": "Planes carry letters."}


def giving(*ids):
    """Return a function that finds these ids for any question."""
    return lambda question, k: [Document("text", id=id) for id in ids][:k]


def figures(rankings, relevant, measures):
    measured = measure({"r": giving(*rankings)}, {"q": relevant}, measures)
    return [round(measured.means["r"][name], 6) for name in measures]


def test_figures_by_hand():
    """The measures for two of three answers at ranks 1 and 3 equal values computed by hand."""
    ideal = 1 + 1 / math.log2(3) + 0.5
    measures = ["nDCG@3", "R@3", "P@3", "RR@3", "Success@1"]
    assert figures("axb", ["a", "b", "c"], measures) == [round(1.5 / ideal, 6), 0.666667, 0.666667, 1.0, 1.0]


def test_grades():
    """nDCG uses the grades of answers, and an answer of grade 0 is ignored."""
    assert figures(["low", "high"], {"low": 1, "high": 3, "none": 0}, ["nDCG@2"]) == [
        round((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)), 6)
    ]


def test_nothing_found_is_zero():
    """A question without hits is measured as 0 and is part of the mean."""
    one = giving("a")
    retriever = {"r": lambda question, k: one(question, k) if question == "known" else []}
    report = measure(retriever, {"known": ["a"], "unknown": ["a"]}, ["RR@10", "Judged@10"])
    assert report.means["r"]["RR@10"] == 0.5
    assert report.of("r").tolist() == [1.0, 0.0]
    assert report.worst("r", n=1) == [("unknown", 0.0)]


def test_several_chunks_of_one_answer():
    """Several Documents with the same id occupy one rank, that of the first."""
    chunks = [Document("t", id=f"{source}#{n}", metadata={"source": source}) for source in "ab" for n in range(3)]
    by_source = {"id_of": lambda document: document.metadata["source"]}
    assert measure({"r": lambda question, k: chunks}, {"q": ["b"]}, ["RR@10"], **by_source).means["r"]["RR@10"] == 0.5


def test_real_retrievers():
    """Every kind of retriever is called with the depth of the deepest measure."""

    store = HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS))
    plain = InMemoryVectorStore(LSAEmbeddings().fit(list(TEXTS.values())))
    plain.add_texts(list(TEXTS.values()), ids=list(TEXTS))
    report = measure(
        {
            "hybrid": HybridRetriever(store, k=1),
            "advanced": AdvancedRetriever(HybridRetriever(store, k=1)),
            "vectors": plain.as_retriever(search_kwargs={"k": 1}),
            "anybody": FunctionRetriever(find=lambda query: [Document("t", id=id) for id in TEXTS]),
        },
        {"What do trains, ships and planes carry?": list(TEXTS)},
        ["R@3", "RR@3"],
    )
    assert report.means["hybrid"] == {"R@3": 1.0, "RR@3": 1.0}
    assert report.means["advanced"] == report.means["vectors"] == report.means["anybody"] == report.means["hybrid"]


def test_degradation_is_reported():
    """The report lists the degradation reasons of each retriever with their counts."""
    store = HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS))
    report = measure({"r": HybridRetriever(store)}, {"xyzzy": ["train"], "coal": ["train"]}, ["R@1"])
    assert report.degraded["r"] == {"query-out-of-vocabulary": 1}
    assert "query-out-of-vocabulary (1×)" in str(report)
    assert "query-out-of-vocabulary (1×)" in report._repr_html_()


def test_difference():
    """difference returns the mean, the counts and an interval, in little memory; is_sure needs 8 questions."""
    result = difference([1.0, 0.5, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5])
    assert (result.mean, result.better, result.equal, result.worse) == (0.25, 2, 1, 1)
    assert result.low < 0.25 < result.high
    assert not result.is_sure
    assert difference([0.75, 1.0], [0.5, 0.75])[:3] == (0.25, 0.25, 0.25)
    assert [difference([1.0] * n, [0.5] * n).is_sure for n in (1, 7, 8)] == [False, False, True]
    assert not difference([0.7, 0.6, 0.6, 0.5, 0.1, -0.1, -0.1, -0.2], [0.0] * 8).is_sure  # by the t-test, p = 0.07
    tracemalloc.start()
    difference(np.ones(1_500), np.zeros(1_500))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


def test_the_interval_equals_scipys_bootstrap():
    """The interval equals that of SciPy's bootstrap at the level for 40 questions, up to random variation."""
    from scipy.stats import bootstrap, norm, t

    level = 1 - 2 * norm.sf(t.ppf(0.975, 39) * math.sqrt(40 / 39))
    gained = np.random.default_rng(1).normal(0.1, 0.3, 40)
    theirs = bootstrap((gained,), np.mean, method="percentile", confidence_level=level, rng=2).confidence_interval
    ours = difference(gained, np.zeros(40))
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.005)


@pytest.mark.parametrize(
    ("questions", "measures", "message"),
    [
        ({}, ["R@1"], "nothing to measure"),
        ({"q": []}, ["R@1"], "'q' has no known answer"),
        ({"q": {"a": 0}}, ["R@1"], "'q' has no known answer"),
        ({"q": "a"}, ["R@1"], r"\['a'\]"),
        ({"q": [1]}, ["R@1"], "must be strings"),
        ({"q": {"a": 1.5}}, ["R@1"], "must be integers"),
        ({"q": ["a"]}, ["R@0"], "depth ≥ 1"),
        ({"q": ["a"]}, ["RBP@10"], "not supported"),
        ({"q": ["a"]}, ["nonsense@3"], "nonsense@3"),
        ({"q": ["a"]}, ["R"], "R@10"),
        ({"q": ["a"]}, [], "measures is empty"),
    ],
)
def test_invalid_questions_and_measures_raise(questions, measures, message):
    """The error for an invalid question or measure names it and shows a correction."""
    with pytest.raises(ConfigurationError, match=message):
        measure({"r": giving("a")}, questions, measures)


def test_documents_without_an_id_raise():
    """A Document without an id raises an error instead of being measured as 0."""
    with pytest.raises(ConfigurationError, match="id_of="):
        measure({"r": lambda question, k: [Document("t")]}, {"q": ["a"]})


def test_an_object_that_is_not_a_retriever_raises():
    """The error for an object that is not a retriever has its name and type."""
    with pytest.raises(ConfigurationError, match="'r' has the type int"):
        measure({"r": 7}, {"q": ["a"]})


def test_unknown_names_raise():
    """The error for an unknown retriever or measure lists the measured ones."""
    measured = measure({"r": giving("a")}, {"q": ["a"]}, ["R@1"])
    with pytest.raises(ConfigurationError, match="one of the retrievers 'r' and one of the measures R@1"):
        measured.of("s")
    with pytest.raises(ConfigurationError, match="R@2"):
        measured.difference("r", "r", "R@2")


def measured(**figures):
    count = len(next(iter(figures.values())))
    questions = tuple(map(str, range(count)))
    return EvaluationReport(
        questions, ("R@1",), {name: {"R@1": np.array(each, float)} for name, each in figures.items()}, {}
    )


def test_a_setting_that_is_better_everywhere_is_recommended():
    """A setting that is better for every question is chosen in every part and recommended."""
    choice = choose_setting(measured(default=[0.5] * 10, good=[0.7] * 10, bad=[0.1] * 10), "default")
    assert choice.best == choice.setting == "good"
    assert choice.in_parts == ("good",) * 5
    assert choice.checked.mean == pytest.approx(0.2)


def test_a_lucky_setting_is_not_recommended():
    """If many settings differ only by chance, or there are few questions, the best one is not recommended."""
    chance = np.random.default_rng(0)
    others = {f"s{n}": chance.random(40) for n in range(30)}
    choice = choose_setting(measured(default=chance.random(40), **others), "default")
    assert choice.best != "default"
    assert choice.checked.low < 0
    assert choice.setting == "default"
    assert choose_setting(measured(default=[0.9, 0.9], x=[1, 1]), "default", parts=2).setting == "default"


def test_the_check_uses_unseen_questions():
    """The check measures each choice on questions that were not used for choosing it."""
    choice = choose_setting(measured(default=[0.5, 0.5], a=[0.0, 1.0], b=[1.0, 0.0]), "default", parts=2)
    assert sorted(choice.in_parts) == ["a", "b"]
    assert choice.checked.mean == -0.5


def test_ties_go_to_the_default_then_to_the_first():
    """Among equally good settings the default is chosen, or the first if the default is not among them."""
    assert choose_setting(measured(a=[1, 0], default=[0, 1]), "default", parts=2).best == "default"
    assert choose_setting(measured(default=[0, 0], b=[1, 0], a=[0, 1]), "default", parts=2).best == "b"


def test_weights_are_those_of_the_call():
    """vary_weight makes one search per weight: 1 searches only vectors, 0 only keywords."""
    store = HybridGraphStore.from_texts(["Trains carry coal.", "Coal is black."], "lsa", ids=["train", "coal"])
    retriever = HybridRetriever(store)
    ask = vary_weight(retriever, [0, 1])
    assert set(ask["0"]("coal", 2).hits[0].parts) == {"keyword", "exact"}
    assert set(ask["1"]("coal", 2).hits[0].parts) == {"vector"}


@pytest.mark.parametrize(("default", "parts"), [("none", 2), ("default", 1), ("default", 3)])
def test_an_invalid_default_or_number_of_parts_raises(default, parts):
    """An unknown default or an invalid number of parts raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match=r"measured|parts"):
        choose_setting(measured(default=[0, 1]), default, parts=parts)
