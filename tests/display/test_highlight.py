"""Highlighting of a question's words in a text."""

import pytest

from langchain_hybridgraph.display.explanation import excerpt, matches
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
    """Words match by stem, without accents and stop words, and in parts of identifiers."""
    assert words(text, query) == marked


def test_another_language():
    """German words match by German stems, and an unknown language raises an error."""
    assert words("Die Rechnungen kommen.", "Rechnung", "german") == ["Rechnungen"]
    with pytest.raises(ConfigurationError, match="klingon"):
        matches("text", "text", "klingon")


def test_the_passage_has_the_most_matches():
    """The passage of a long text has the most words of the query and starts at a word, else at the beginning."""
    text = "parcel " + "filler " * 100 + "the lost parcel came back " + "filler " * 100
    passage = "".join(piece for piece, _ in excerpt(text, "lost parcel", "english", 100))
    assert passage.startswith("… filler")
    assert "lost parcel" in passage
    assert len(passage) < 110
    assert excerpt("word " * 100, "parcel", "english", 10) == [("word word", False), (" …", False)]
