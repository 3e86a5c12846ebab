import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.stores.bm25 import RankBM25Index
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex
from langchain_hybridgraph.text.identifiers import CONTENT_SCORE, FEW, NAME_SCORE, RARE, compounds, forms, name_of

ENGINES = {"tantivy": lambda: TantivyIndex(None), "rank_bm25": RankBM25Index}
PACKAGES = [
    "ruby-faker: fake data\nA port of another library, for Ruby programs.",
    "php-faker: fake data\nFaker, for PHP programs; Faker is a port of ruby faker.",
    "faker-doc: fake data\nThe documentation of ruby faker programs.",
    "Trains are late.",
    "Ships are late.",
]


@pytest.fixture(params=ENGINES)
def make(request):
    indexes = []

    def made_with(*texts):
        index = ENGINES[request.param]()
        indexes.append(index)
        index.apply(1, enumerate(texts), [])
        return index

    yield made_with
    for index in indexes:
        index.close()


# -- forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "compound"),
    [
        ("the (libfoo2-dev) package", "libfoo2-dev"),
        ("call os.path.join(a, b)", "os.path.join"),
        ("getUserName()", "getusername"),
        ("Error E-4711: refused.", "e-4711"),
        ("E\u20114711, with a hyphen that does not break", "e-4711"),
        ("snake_case", "snake_case"),
        ("in C++.", "c++"),
        ("__init__.py", "init__.py"),
        ("see config/settings.py", "settings.py"),
        ("型番ABC-123を", "abc-123"),
        ("pump P-7's seal", "p-7"),
    ],
)
def test_compounds_are_found_as_written(text, compound):
    """A compound is found in lower case and without surrounding punctuation."""
    assert compounds(text) == [compound]


@pytest.mark.parametrize("text", ["Plain words.", "NASA’s URLs", "e.g. the U.S.", "and/or", "a—b", "हिन्दी में", "don't"])
def test_words_are_not_compounds(text):
    """Capitals, abbreviations, contractions and combining marks do not make a compound."""
    assert compounds(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ruby-faker: fake data", "ruby-faker"),
        ("# Requests\n\nHTTP for humans.", "requests"),
        ("zlib — compression", "zlib"),
        ("`json.dumps`:\nwrites JSON", "json.dumps"),
        ("zlib", "zlib"),
        ("A library: it is old", None),
        ("Trains are late.", None),
        ("", None),
        ("---", None),
    ],
)
def test_the_name_of_a_text(text, name):
    """The name of a chunk is a single form before a colon, a dash or the end of the line."""
    assert name_of(text) == name


@given(st.text())
def test_no_text_raises(text):
    """For any text, forms contain no whitespace, and compounds and the name are among the forms."""
    assert all(form and not any(map(str.isspace, form)) for form in forms(text))
    assert set(compounds(text)) <= forms(text).keys()
    assert name_of(text) is None or name_of(text) in forms(text)


# -- exact matches ---------------------------------------------------------------------------------------------


def test_the_text_with_the_name_is_preferred(make):
    """The chunk with this name scores more than twice as high as others with the same words."""
    results = make(*PACKAGES).exact_matches("what is ruby-faker for?")
    assert results[0] == pytest.approx(NAME_SCORE)
    assert all(value < NAME_SCORE / 2 for row, value in results.items() if row)


def test_the_score_of_a_compound_is_its_share_of_the_question(make):
    """A compound that is the complete question gives the full score; among other known words it gives less than
    half.
    """
    index = make("Hall 4 has pump P-1208.", "Hall 4 has pump P-1209.", "Trains are late.")
    alone, among = index.exact_matches("P-1208?"), index.exact_matches("Are trains as late as P-1208?")
    assert alone[0] == pytest.approx(CONTENT_SCORE)
    assert alone.get(1, 0.0) < CONTENT_SCORE / 4
    assert 0 < among[0] < CONTENT_SCORE / 2


def test_a_part_outside_a_compound_lowers_its_share(make):
    """A part that is repeated outside the compound lowers the compound's share of the question to two thirds."""
    index = make("non-teaching staff", *["trains are late"] * 3)
    assert index.exact_matches("non-teaching, non-teaching")[0] == pytest.approx(CONTENT_SCORE)
    assert index.exact_matches("teaching or non-teaching")[0] == pytest.approx(CONTENT_SCORE * 2 / 3)


def test_words_of_a_small_corpus_are_not_rare(make):
    """Among five chunks, a word matches only if it is the complete question; among many, a rare word always matches."""
    five = ["a zebra grazes", *["cattle low"] * 4]
    assert make(*five).exact_matches("zebra cattle") == {}
    assert make(*five).exact_matches("zebra") == {0: pytest.approx(CONTENT_SCORE)}
    assert list(make(*five, *["cattle low"] * RARE).exact_matches("zebra cattle")) == [0]


def test_a_word_that_no_text_has_lowers_the_share_of_a_rare_word(make):
    """A question word that is in no chunk lowers the score of the only chunk with the other word to less than a
    third.
    """
    index = make("Capital letters", *(f"A text about number {n}." for n in range(40)))
    whole, half = (index.exact_matches(question)[0] for question in ("the capital", "the capital of Mongolia"))
    assert whole == pytest.approx(CONTENT_SCORE)
    assert 0 < half < CONTENT_SCORE / 3


def test_common_words_identify_no_text(make):
    """A word in more than FEW chunks gives no exact match."""
    index = make(*["zebra E-4711"] * (FEW + 1))
    assert index.exact_matches("zebra E-4711") == {}


def test_a_mask_limits_the_rows_that_are_counted(make):
    """A word that is common in the index is rare within a mask that includes only one of its rows."""
    index = make(*["a zebra"] * (FEW + 1), "cattle")
    assert index.exact_matches("zebra", np.array([False, True, False])) == {1: pytest.approx(CONTENT_SCORE)}


def test_deleted_versions_do_not_make_words_common(make):
    """Deleted versions of a chunk do not make its words common, no matter how often the chunk was rewritten."""
    index = make("E-4711 is refused", "Trains are late.")
    for version in range(2, 6):
        index.apply(version, [(version, "E-4711 is refused")], [version - 1 if version > 2 else 0])
    assert list(index.exact_matches("E-4711")) == [5]
    assert index.exact_matches("E-4711")[5] == pytest.approx(CONTENT_SCORE, rel=0.01)


@pytest.mark.parametrize("question", ["", "?", "the of and", "unknown-thing", "x" * 200, "a-b " * 5000])
def test_nothing_to_identify(make, question):
    """Empty questions, unknown words and overlong words give no scores."""
    assert make(*PACKAGES).exact_matches(question) == {}
