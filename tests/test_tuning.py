"""Selection of a setting by measurement."""

import numpy as np
import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.evaluation import EvaluationReport, choose_setting, vary_weight


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
    """If many settings differ only by chance, the best one is not recommended."""
    chance = np.random.default_rng(0)
    choice = choose_setting(
        measured(default=chance.random(40), **{f"s{n}": chance.random(40) for n in range(30)}), "default"
    )
    assert choice.best != "default"
    assert choice.checked.low < 0
    assert choice.setting == "default"


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
