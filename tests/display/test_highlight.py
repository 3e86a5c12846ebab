"""Words of a question in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.display.highlight import highlight_html, matches, passage
from langchain_hybridgraph.errors import ConfigurationError


def words(text, query, language="english"):
    return [text[start:end] for start, end in matches(text, query, language)]


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("The parcels are lost.", "Where is my lost parcel?", ["parcels", "lost"]),
        ("It is what it is.", "What is it that is lost?", []),
        ("Ask os.path.join first.", "joining a path", ["path", "join"]),
        ("A ThreadPoolExecutor waits.", "a pool of threads", ["ThreadPoolExecutor"]),
        ("Ada's café", "cafe of Ada", ["Ada", "café"]),
        ("数据库很快", "数据", ["数据"]),
        ("数据库很快", "据库很", ["据库很"]),
        ("हिन्दी भाषा", "भाषा", ["भाषा"]),
        ("Nothing at all", "", []),
        ("", "parcel", []),
    ],
)
def test_words_are_compared_as_an_index_compares_them(text, query, marked):
    """By stem, without accents, without stop words, in the parts of identifiers, in pairs without spaces."""
    assert words(text, query) == marked


def test_another_language():
    """German words meet by German stems."""
    assert words("Die Rechnungen kommen.", "Rechnung", "german") == ["Rechnungen"]


def test_an_unknown_language_is_named():
    """The error for an unknown language lists the known ones."""
    with pytest.raises(ConfigurationError, match="klingon"):
        matches("text", "text", "klingon")


def test_the_passage_has_the_most_of_the_words():
    """The passage of a long text with the most words of the query is shown, beginning at a word."""
    text = "parcel " + "filler " * 100 + "the lost parcel came back " + "filler " * 100
    start, end = passage(text, matches(text, "lost parcel"), 100)
    assert text[start:end].startswith("filler")
    assert "lost parcel" in text[start:end]
    assert end - start == 100


def test_the_beginning_where_nothing_matches():
    """A text without a word of the query is shown from its beginning."""
    assert highlight_html("word " * 100, "parcel", size=10) == "word word  …"


@given(st.text("ab <>&\"'s数据\u0301", max_size=200), st.text("ab <&数据", max_size=30), st.integers(1, 50))
def test_nothing_is_lost_and_nothing_is_markup(text, query, size):
    """Without its own marks a passage is the escaped text, or a part of it."""
    from html import unescape

    text_shown = highlight_html(text, query, size=size).replace("<mark>", "").replace("</mark>", "")
    assert "<" not in text_shown
    assert unescape(text_shown).removeprefix("… ").removesuffix(" …").strip() in text.strip()
