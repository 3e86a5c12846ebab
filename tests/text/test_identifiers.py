import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.text.identifiers import compounds, forms, name_of

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
