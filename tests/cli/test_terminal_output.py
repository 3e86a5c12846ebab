"""The passage of a hit that is shown on a terminal."""

import pytest

from langchain_hybridgraph.display.explanation import excerpt


def passage(text, size):
    return "".join(piece for piece, _ in excerpt(text, "quokkas", "english", size))


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
    assert passage(text, 18) == expected


def test_a_word_inside_a_long_sentence_is_shown():
    """A word far from the beginning of its sentence, as in a block of code, is shown with its surroundings."""
    text = f"It searches the store. {CODE}"
    assert passage(text, 60) == "… = store.search(k=5) name = 'quokka' print(results) …"
    assert [piece for piece, is_match in excerpt(text, "quokkas", "english", 60) if is_match] == ["quokka"]


def test_a_word_inside_a_text_without_blanks_is_shown():
    """In a text without blanks, the passage begins with the word."""
    assert "quokka" in passage(f"{'x-' * 500}quokka", 60)
