"""Accents and marks."""

import re
import unicodedata

import pytest

from langchain_hybridgraph.text.accents import Unaccented, combining_marks


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
def test_accents_go_and_letters_stay(text, bare):
    """Accents, written together or apart, and points of Arabic and Hebrew; vowel signs are letters."""
    assert text.translate(Unaccented({})) == bare


def test_other_letters_become_what_they_are_said_to():
    """One letter may become several, or stay where Unicode would take it apart."""
    assert "Straße Йод и й".translate(Unaccented({"ß": "ss", "й": "й"})) == "Strasse Иод и й"


def test_marks_keep_a_word_together():
    """Without them a word of Hindi is several."""
    assert re.findall(r"\w+", "हिन्दी") != ["हिन्दी"]
    assert re.findall(f"[\\w{combining_marks()}]+", "हिन्दी में") == ["हिन्दी", "में"]
