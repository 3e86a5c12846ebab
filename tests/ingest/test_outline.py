from langchain_hybridgraph.ingest.outline import outline, slug


def paths(text, **options):
    return [section.path for section in outline(text, **options).sections]


def test_headings_nest_below_the_title():
    """A section knows the headings above it; the document's title is not repeated in the path."""
    text = "# Guide\nhello\n## Install\na\n### Linux\nb\n## Use\nc"
    assert paths(text) == [(), ("Install",), ("Install", "Linux"), ("Use",)]
    assert outline(text).title == "Guide"


def test_a_fence_holds_no_headings():
    """A line that starts with # inside ``` or ~~~ is code; a longer fence is closed by a longer one only."""
    assert paths("# T\na\n```sh\n# no\n```\n## Yes\nb\n~~~\n## no\n~~~") == [(), ("Yes",)]
    assert paths("````\n```\n# no\n````\n# Yes\na")[-1] == ()
    assert outline("````\n```\n# no\n````\n# Yes\na").title == "Yes"


def test_an_open_fence_reaches_to_the_end():
    """A fence that is never closed makes code of all that follows."""
    assert outline("a\n```\n# no").fences == ((2, 10),)


def test_underlined_headings():
    """A one-line paragraph above === or --- is a heading; a list item, a rule, front matter or a table is not."""
    assert paths("Guide\n=====\nx\n\nUse\n---\ny") == [(), ("Use",)]
    for text in ("- item\n---\nx", "\n---\nx", "---\ntitle: x\n---\nx", "a line\nanother\n---\nx", "| a |\n---\n"):
        assert paths(text) == [()]


def test_a_heading_without_text_goes_with_the_next_section():
    """No section consists of headings alone, unless the text ends with them."""
    text = "# A\n\n## B\n\n### C\ntext\n## D"
    sections = outline(text).sections
    assert [text[s.start : s.end] for s in sections] == ["# A\n\n## B\n\n### C\ntext\n", "## D"]
    assert sections[0].path == ("B", "C")


def test_sections_cover_the_text():
    """The text before the first heading is a section without a path."""
    text = "intro\n\n## A\na\n## B\nb\n"
    assert "".join(text[s.start : s.end] for s in outline(text).sections) == text
    assert paths(text) == [(), ("A",), ("B",)]


def test_only_a_heading_of_its_own_is_an_anchor():
    """Two headings with the same slug have none: a link could not tell them apart after an edit."""
    text = "# T\nx\n## Parameters\na\n## Returns\nb\n## Parameters\nc"
    assert [section.anchor for section in outline(text).sections] == ["t", None, "returns", None]


def test_markup_of_headings_is_left_out():
    """Backticks, bold, links, closing # and attributes are no part of a heading."""
    assert outline("# The `x` of [y](z.md) **w** ##  \na").title == "The x of y w"
    assert outline("# Install {#setup}\na").title == "Install"
    assert outline("# The {x} set\na").title == "The {x} set"


def test_a_heading_can_name_its_anchor():
    """An id in braces is the anchor; other attributes are not."""
    sections = outline("x\n\n## Use it {#use .wide}\na\n\n## More {.wide}\nb").sections
    assert [(section.path, section.anchor) for section in sections[1:]] == [(("Use it",), "use"), (("More",), "more")]


def test_no_headings_on_demand():
    """With headings=False the text is one section."""
    assert paths("# A\na\n# B\nb", headings=False) == [()]


def test_hashes_without_a_space_are_no_heading():
    """#tag and ####### are text."""
    assert paths("#tag\n\n####### seven\n") == [()]


def test_windows_line_ends():
    """Headings are found before \\r\\n."""
    assert outline("# A\r\ntext\r\n## B\r\nmore\r\n").title == "A"
    assert paths("# A\r\ntext\r\n## B ##\r\nmore\r\n")[1] == ("B",)


def test_slugs_are_those_of_github():
    """Punctuation goes, spaces become hyphens, letters of all scripts stay."""
    assert slug("What's new in 3.12?") == "whats-new-in-312"
    assert slug("Über  uns & ich") == "über--uns--ich"
