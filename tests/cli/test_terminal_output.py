"""The passage of a hit that is shown on a terminal."""

import pytest

pytest.importorskip("rich")

from langchain_hybridgraph.cli.output import QueryWords, passage

CODE = "results = store.search(k=5) " * 20 + "name = 'quokka' " + "print(results) " * 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A quokka sleeps. It eats leaves.", "A quokka sleeps. …"),
        ("It eats leaves. A quokka sleeps.", "… A quokka sleeps."),
        ("It has long ears.", "It has long ears."),
    ],
)
def test_a_passage_begins_with_a_sentence(text, expected):
    """The passage begins with the sentence that contains the words, or with the first one."""
    assert passage(text, QueryWords("quokkas", "english"), 18).plain == expected


def test_a_word_inside_a_long_sentence_is_shown():
    """A word far from the beginning of its sentence, as in a block of code, is shown with its surroundings."""
    result = passage(f"It searches the store. {CODE}", QueryWords("quokkas", "english"), 60)
    assert result.plain == "… = store.search(k=5) name = 'quokka' print(results) …"
    assert [result.plain[span.start : span.end] for span in result.spans] == ["quokka"]


def test_a_word_inside_a_text_without_blanks_is_shown():
    """In a text without blanks, the passage begins with the word."""
    assert "quokka" in passage(f"{'x-' * 500}quokka", QueryWords("quokkas", "english"), 60).plain
