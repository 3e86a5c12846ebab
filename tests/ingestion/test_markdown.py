import pytest

from langchain_hybridgraph.ingestion.markdown import outline


def paths(text, **options):
    return [section.path for section in outline(text, **options).sections]


def test_headings_nest_below_the_title():
    """The path of a section contains the headings above it, but not the document's title."""
    text = "# Guide\nhello\n## Install\na\n### Linux\nb\n## Use\nc"
    assert paths(text) == [(), ("Install",), ("Install", "Linux"), ("Use",)]
    assert outline(text).title == "Guide"


def test_a_fence_has_no_headings():
    """A line that starts with # inside ``` or ~~~ is code; a long fence is closed only by one of at least its
    length.
    """
    assert paths("# T\na\n```sh\n# no\n```\n## Yes\nb\n~~~\n## no\n~~~") == [(), ("Yes",)]
    assert paths("````\n```\n# no\n````\n# Yes\na")[-1] == ()
    assert outline("````\n```\n# no\n````\n# Yes\na").title == "Yes"


def test_underlined_headings():
    """A paragraph above === or --- is a heading; a list item, a rule, front matter or a table is not."""
    assert paths("Guide\n=====\nx\n\nUse\n---\ny") == [(), ("Use",)]
    for text in ("- item\n---\nx", "\n---\nx", "---\ntitle: x\n---\nx", "| a |\n|---|\n"):
        assert paths(text) == [()]


def test_sections_cover_the_text():
    """Sections cover the complete text, and the text before the first heading is a section without a path."""
    text = "intro\n\n## A\na\n## B\nb\n"
    assert "".join(text[s.start : s.end] for s in outline(text).sections) == text
    assert paths(text) == [(), ("A",), ("B",)]


def anchors(text):
    return [(text[start:].partition("\n")[0], name) for start, name in outline(text).anchors]


def test_repeated_headings_are_not_anchors():
    """Two headings with the same slug are not anchors, because a link could not distinguish them after an edit."""
    text = "# T\nx\n## Parameters\na\n## Returns\nb\n## Parameters\nc"
    assert anchors(text) == [("# T", "t"), ("## Returns", "returns")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Use it { #use-it }\na", [("## Use it { #use-it }", "use-it")]),
        ("## Use it {: #use .wide }\na", [("## Use it {: #use .wide }", "use")]),
        ("> ## Quoted { #q }\n", [("> ## Quoted { #q }", "q")]),
    ],
)
def test_anchors_of_all_kinds(text, expected):
    """The id of a heading is its anchor, also in a quote."""
    assert anchors(text) == expected


def test_links_are_found_where_they_are_written():
    """The offset of a link is its first character, even in quotes, lists and tables."""
    text = "> [a](a.md)\n> and [b](b.md)\n\n- x\n\n  [c](c.md)\n\n"
    text += "| h |\n|---|\n| [e](e.md) |\n"
    assert [text[start : start + 3] for start, _ in outline(text).links] == ["[a]", "[b]", "[c]", "[e]"]


def test_markup_of_headings_is_left_out():
    """Backticks, bold, links, closing # and attributes are not part of a heading."""
    assert outline("# The `x` of [y](z.md) **w** ##  \na").title == "The x of y w"
    assert outline("# Install {#setup}\na").title == "Install"
    assert outline("# Install { #setup }\na").title == "Install"
    assert outline("# The {x} set\na").title == "The {x} set"
