"""Removal of accents and combining marks."""

import re
import unicodedata

import pytest

from langchain_hybridgraph.text.analyzer import Unaccented, combining_marks


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("Curaçao, naïve, Ελλάς", "Curacao, naive, Ελλας"),
        (unicodedata.normalize("NFD", "café"), "cafe"),
        ("كِتَاب שָׁלוֹם", "كتاب שלום"),
        ("हिन्दी ไทย", "हिन्दी ไทย"),
        ("ﬁne", "fine"),
    ],
)
def test_accents_are_removed_and_letters_are_kept(text, bare):
    """Accents and the points of Arabic and Hebrew are removed; vowel signs are kept because they are letters."""
    assert text.translate(Unaccented({})) == bare


def test_given_replacements_take_precedence():
    """A table of replacements can turn one letter into several, or keep a letter that would lose its accent."""
    assert "Straße Йод и й".translate(Unaccented({"ß": "ss", "й": "й"})) == "Strasse Иод и й"


def test_marks_keep_a_word_together():
    """A pattern that includes the combining marks matches a Hindi word as one word."""
    assert re.findall(r"\w+", "हिन्दी") != ["हिन्दी"]
    assert re.findall(f"[\\w{combining_marks()}]+", "हिन्दी में") == ["हिन्दी", "में"]
