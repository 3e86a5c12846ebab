import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.ingestion.edges.links import candidates
from langchain_hybridgraph.ingestion.markdown import find_definitions, find_links, split_fragment


def targets(text, definitions=None):
    return [(link.kind, link.target) for link in find_links(text, definitions)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](b.md)", [("path", "b.md")]),
        ('[a](b.md "the title")', [("path", "b.md")]),
        ("[a](<my notes.md>)", [("path", "my notes.md")]),
        ("[a](b_(c).md) and [d](e.md)", [("path", "b_(c).md"), ("path", "e.md")]),
        ("[a\nb](../c/d.md#e)", [("path", "../c/d.md#e")]),
        ("![image](a.png)", []),
        ("`[a](b.md)` and ``[c](d.md)``", []),
        ("```\n[a](b.md)\n```\n[c](d.md)", [("path", "d.md")]),
        ("<A class='x' HREF=\"a.html?x=1&amp;y=2\">", [("path", "a.html?x=1&y=2")]),
        ("[`a.b` *c*](d.md)", [("path", "d.md")]),
        ("[![logo](a.png)](b.md)", [("path", "b.md")]),
        ("[one][ref]\n\n[ref]: b.md#c 'title'", [("path", "b.md#c")]),
        ("/// tip | More\n\n[a](b.md)\n\n///", [("path", "b.md")]),
        ("::: note\n[a](b.md)\n:::", [("path", "b.md")]),
        ("    [code](no.md)", []),
        ("[[Ada Lovelace]] and [[Turing|him]]", [("wiki", "Ada Lovelace"), ("wiki", "Turing")]),
        ("a [b] c (d)", []),
    ],
)
def test_links_of_all_kinds(text, expected):
    """Markdown, HTML and wiki links are found; images and code are not."""
    assert targets(text) == expected


def test_references_use_the_definitions_of_the_document():
    """Reference links in all three forms lead to their definition, in any case; undefined ones are not links."""
    text = "[the guide][G], [g][], [g], [unknown]"
    definitions = find_definitions("x\n\n[G]: docs/a.md 'title'\n[g]: docs/later.md\n")
    assert {name: definition["href"] for name, definition in definitions.items()} == {"G": "docs/a.md"}
    assert targets(text, definitions) == [("path", "docs/a.md")] * 3


def test_fragments_are_decoded():
    """A link is split into path and fragment, without its query and with percent signs decoded."""
    assert split_fragment("a%20b.md?raw=1#c%20d") == ("a b.md", "c d")
    assert split_fragment("#top") == ("", "top")


@given(st.text(alphabet="[]()<>`#|!:\"' ab\n./h", max_size=200))
def test_any_text_can_be_searched(text):
    """No text makes the link parser fail, and every target it finds can be resolved."""
    for link in find_links(text, find_definitions(text)):
        candidates(split_fragment(link.target)[0], "docs/a.md")
