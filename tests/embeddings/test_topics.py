"""Topics of everyday words, which match questions to few texts that use other words."""

import json
import re
from pathlib import Path

import pytest

from langchain_hybridgraph import HybridGraphStore, MemoryRetriever
from langchain_hybridgraph.embeddings import lsa
from langchain_hybridgraph.embeddings.lsa import topics_of_words
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings

PEOPLE = json.loads((Path(__file__).parents[2] / "benchmarks" / "small_memory.json").read_text("utf-8"))
# Numbers of right answers to 20 questions, as published in benchmarks/small_memory.md.
RIGHT = {
    "nurse": 19, "teacher": 18, "designer": 17, "baker": 17, "student": 14, "chef": 17, "clerk": 18,
    "exchange student": 15, "night nurse": 17, "retired engineer": 16, "librarian": 17, "site manager": 16,
    "retired postman": 7, "hairdresser": 9, "second call centre agent": 10, "plumber": 8, "second flight attendant": 10,
}  # fmt: skip
FACTS = ["I'm a nurse at a hospital.", "We live near the canal.", "My mum's birthday is in March."]


def best(model, question):
    """Return the fact with the largest cosine, or None if all cosines are 0."""
    cosines = model.vectors(FACTS) @ model.vectors([question])[0]
    return FACTS[int(cosines.argmax())] if cosines.any() else None


def test_a_language_without_a_table_has_no_topics():
    """In a language without topics, a question that shares no word with the facts matches none of them."""
    assert topics_of_words("none") == {}
    assert best(LSAEmbeddings(language="none").fit(FACTS), "What job?") is None


def test_topics_are_not_used_for_many_texts(monkeypatch):
    """A corpus of more than FEW_TEXTS texts is embedded without topics."""
    monkeypatch.setattr(lsa, "FEW_TEXTS", 2)
    assert best(LSAEmbeddings().fit(FACTS), "What is my job?") is None


@pytest.mark.parametrize("table", sorted(Path(lsa.__file__).parent.glob("topics_*.txt")), ids=lambda path: path.stem)
def test_the_table_has_no_line_twice(table):
    """Every path has one line, with one word at least, and no word is repeated in it."""
    lines = [line.partition(":") for line in table.read_text("utf-8").replace("\n  ", " ").splitlines()]
    assert len(lines) > 100
    paths = [path for path, _, _ in lines]
    assert len(paths) == len(set(paths))
    assert [path for path, _, words in lines if len(words.split()) != len(set(words.split())) or not words] == []
    names = {f"#{path.rpartition('/')[2]}" for path in paths}
    assert names <= set().union(*topics_of_words(table.stem.removeprefix("topics_")).values())


def test_a_phrase_hides_its_words():
    """The longest phrase of the table counts, and nothing inside it."""
    assert "#job" in topics_of_words("english")["for a live"]
    (phrase_topics,) = lsa.topics_in(["for", "a", "live"], "english")
    assert "#home" not in phrase_topics


def test_a_phrase_with_plus_adds_to_its_words():
    """A phrase that "+" joins in the table has its own topics and those of its words."""
    topics_of = topics_of_words("english")
    assert {"#petsitting", *topics_of["cat"]} < set(topics_of["feed my cat"])
    assert "#animal" not in topics_of["hot dog"]


@pytest.mark.parametrize("name", RIGHT)
def test_everyday_questions_about_a_person(name):
    """For at least the published number of twenty reworded questions, the answer comes first; no search is empty."""
    person = PEOPLE[name]
    with HybridGraphStore(None, "lsa") as store:
        for place, fact in enumerate(person["facts"], 1):
            store.add_texts([fact], ids=[str(place)])
        answers = [MemoryRetriever(store, k=1).invoke(one["question"]) for one in person["questions"]]
    assert all(answers)
    right = [answer[0].id == str(one["fact"]) for answer, one in zip(answers, person["questions"], strict=True)]
    assert sum(right) >= RIGHT[name]


def test_the_example_of_the_memory_page_is_true():
    """The example question in docs/memory.md finds the fact that the page gives as its answer."""
    page = " ".join((Path(__file__).parents[2] / "docs" / "memory.md").read_text("utf-8").split())
    question, fact = re.search(r'\("(What [^"]+)", "(I[^"]+)"\)', page).groups()
    facts = PEOPLE["nurse"]["facts"]
    assert fact in facts
    with HybridGraphStore.from_texts(facts, "lsa") as store:
        assert MemoryRetriever(store, k=1).invoke(question)[0].page_content == fact
