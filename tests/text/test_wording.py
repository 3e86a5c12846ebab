"""Comparison of the wording of two texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.text.wording import may_be_reworded, same_wording


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada likes tea.", "ada likes tea!"),
        ("The red car is fast.", "Red car, is fast"),
        ("Ada  has\na cat…", "Ada has the cat"),
        ("Ada’s cat isn’t black.", "Ada's cat isn't black."),
        ("Zoë sings.", "Zoe\u0308 sings."),
        ("", " "),
    ],
)
def test_the_same_words(one, other):
    """Texts that differ only in spaces, punctuation, first capital or English articles have the same wording."""
    assert same_wording(one, other)
    assert same_wording(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada is allergic to peanuts.", "Ada is not allergic to peanuts."),
        ("Ada likes tea and dislikes coffee.", "Ada likes coffee and dislikes tea."),
        ("Ada is a vet.", "Ada was a vet."),
        ("Ada worked at the bank and lives in Rome.", "Ada works at the bank and lived in Rome."),
        ("All cats are black.", "Some cats are black."),
        ("Ada flew from Paris to Rome.", "Ada flew to Paris from Rome."),
        ("The rent is 840 euros.", "The rent is 890 euros."),
        ("It is 5 degrees.", "It is -5 degrees."),
        ("Ada works for the US.", "Ada works for us."),
        ("Ada writes C.", "Ada writes C++."),
        ("Ada likes tea.", "Ada likes tea?"),
        ("Vitamin A is good.", "Vitamin is good."),
        ("Der Hund beißt den Mann.", "Den Hund beißt der Mann."),
        ("猫は好き", "猫は嫌い"),
    ],
)
def test_other_words(one, other):
    """Texts that differ in negation, order, tense, quantity, numbers, names or persons are never duplicates."""
    for pair in ((one, other), (other, one)):
        assert not same_wording(*pair)
        assert not may_be_reworded(*pair)


@given(st.lists(st.sampled_from(["Ada", "owes", "Bo", "not", "was", "3", "to"]), min_size=1, unique=True), st.data())
def test_any_other_order_is_another_statement(words, data):
    """Texts with the same words in another order do not have the same wording."""
    mixed = data.draw(st.permutations(words))
    assert same_wording(" ".join(["so", *words]), " ".join(["so", *mixed])) == (words == mixed)


@pytest.mark.parametrize(
    ("one", "other", "synonyms"),
    [
        ("Ada likes tea.", "Ada enjoys tea.", True),
        ("Ada really likes tea.", "Ada likes tea.", True),
        ("User prefers quiet rooms.", "The user favours quiet rooms.", True),
        ("Ada likes to drink tea.", "Ada likes drinking tea.", True),
        ("The deadline is 5 May 2024.", "The cutoff is 5 May 2024.", True),
        ("In the morning Ada drinks tea.", "Ada drinks tea in the morning.", False),
        ("Ada really likes tea.", "Ada likes tea.", False),
        ("En hiver Ada chante.", "Ada chante en hiver.", False),
    ],
)
def test_rewordings(one, other, synonyms):
    """Plain words may be replaced by synonyms; with ``synonyms=False``, a phrase may move and weak words be added."""
    assert may_be_reworded(one, other, synonyms=synonyms)
    assert may_be_reworded(other, one, synonyms=synonyms)
    assert not same_wording(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada seems kind to cats.", "Ada seems unkind to cats."),
        ("Ada is careful with glass.", "Ada is careless with glass."),
        ("Ada is a nurse.", "Ada is a former nurse."),
        ("The user's favourite colour is blue.", "The user's favourite colour is green."),
        ("Turn left at the church.", "Turn right at the church."),
        ("Ada bebe el té.", "Ada odia el té."),
        ("", "Ada likes tea."),
        (
            "Open a shell, go to the folder of the cluster and run kubectl there with the name of a node and its zone.",
            "Open a shell, go to the folder of the cluster and run helm there with the name of a node and its zone.",
        ),
    ],
)
def test_differences_that_vectors_miss(one, other):
    """Texts that differ in numbers, negations, opposites, names or an added word are not rewordings."""
    for pair in ((one, other), (other, one)):
        assert not may_be_reworded(*pair)


@given(st.text(), st.text())
def test_any_texts_can_be_compared(one, other):
    """Comparing any two texts raises no error, and gives the same result in both orders."""
    assert may_be_reworded(one, other) == may_be_reworded(other, one)
