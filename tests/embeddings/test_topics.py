"""The topics of everyday words, by which few texts are found in other words."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from langchain_hybridgraph import HybridGraphStore, MemoryRetriever
from langchain_hybridgraph.embeddings import LSAEmbeddings, lsa, topics
from langchain_hybridgraph.embeddings.topics import topics_of_words

PEOPLE = json.loads((Path(__file__).parents[2] / "benchmarks" / "small_memory.json").read_text("utf-8"))
RIGHT = {"nurse": 17, "teacher": 18, "designer": 15, "baker": 12, "student": 11}  # of 20, benchmarks/small_memory.md
FACTS = ["I'm a nurse at a hospital.", "We live near the canal.", "My mum's birthday is in March."]


def best(model, question):
    """The fact with the largest cosine, None where all cosines are 0."""
    cosines = model.vectors(FACTS) @ model.vectors([question])[0]
    return FACTS[int(cosines.argmax())] if cosines.any() else None


def test_few_texts_are_found_in_other_words():
    """A question that shares no word with any fact has the cosine of their topics."""
    model = LSAEmbeddings().fit(FACTS)
    assert best(model, "What is my job?") == FACTS[0]
    assert best(model, "Which street is my home in?") == FACTS[1]
    assert best(model, "How old is my mother?") == FACTS[2]


def test_a_language_without_a_table_has_no_topics():
    """Words are all that counts there."""
    assert topics_of_words("none") == {}
    assert best(LSAEmbeddings(language="none").fit(FACTS), "What job?") is None


def test_many_texts_show_by_themselves_what_goes_together(monkeypatch):
    """Above the limit no topic counts."""
    monkeypatch.setattr(lsa, "FEW_TEXTS", 2)
    assert best(LSAEmbeddings().fit(FACTS), "What is my job?") is None


def test_a_saved_model_keeps_its_topics(tmp_path):
    """It finds the same as the one that was saved."""
    LSAEmbeddings().fit(FACTS).save(tmp_path / "model.npz")
    assert best(LSAEmbeddings.load(tmp_path / "model.npz"), "What is my job?") == FACTS[0]


@pytest.mark.parametrize("language", sorted(topics._LANGUAGES))
def test_the_table_has_no_line_twice(language):
    """Every topic has one line, with two words at least."""
    table = topics_of_words(language)
    sizes = Counter(topic for each in table.values() for topic in each)
    lines = [line.partition(":")[0] for line in topics._LANGUAGES[language].split("\n") if not line.startswith(" ")]
    assert {f"#{name}" for name in lines if name} == sizes.keys()
    assert len(sizes) == len([name for name in lines if name])
    assert min(sizes.values()) >= 2


@pytest.mark.parametrize("name", PEOPLE)
def test_everyday_questions_about_a_person(name):
    """The published number of twenty reworded questions have their answer first; every search returns one."""
    person = PEOPLE[name]
    with HybridGraphStore(None, "lsa") as store:
        for place, fact in enumerate(person["facts"], 1):
            store.add_texts([fact], ids=[str(place)])
        answers = [MemoryRetriever(store, k=1).invoke(one["question"]) for one in person["questions"]]
    assert all(answers)
    right = [answer[0].id == str(one["fact"]) for answer, one in zip(answers, person["questions"], strict=True)]
    assert sum(right) >= RIGHT[name]
