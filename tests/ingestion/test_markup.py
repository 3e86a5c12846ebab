"""Conversion of HTML and reStructuredText to Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.ingestion.markdown import outline
from langchain_hybridgraph.ingestion.markup import from_html, from_rst


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h1>A</h1><p>b</p><h3>C</h3>d", "# A\n\nb\n\n### C\n\nd"),
        ("<p>a\n   b&nbsp;&lt;c&gt; &#233;</p>", "a b <c> é"),
        ("a<br>b<p>c", "a\nb\n\nc"),
        ("<ul><li>one<li>two<li> </li></ul><h2>A</h2>", "- one\n- two\n\n## A"),
        ("<ol>\n<li>one</li>\n<li>\n<p>two</p></li>\n</ol>", "- one\n- two"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
        ("<tr>\n<td><p>a</p></td>\n<td><p>b</p></td></tr><tr><td>1<td><h2>c</h2></tr>", "a | b\n1 |\n\n## c"),
        ("<pre>  x = 1\n  y = 2</pre>", "```\n  x = 1\n  y = 2\n```"),
        ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
        ("<p>a<script>no()</script><style>p{}</style><!-- no -->b</p>", "ab"),
        ("<nav>menu</nav><main>text</main><footer>end</footer>", "text"),
        ("<h2>Use<a class='headerlink' href='#use'>¶</a></h2>x", "## Use\n\nx"),
        ("<em>a</em> <b>b</b>c", "a bc"),
        ("<h2><a href='x.html'>Use</a> it</h2>y", "## Use it\n\ny"),
        ("<a href='x.html'><h2>Use it</h2>y</a> z", "## [Use it](x.html)\n\ny z"),
        # Text around unclosed tags, comments and declarations is kept.
        ("<nav>menu<p>text", "menu\n\ntext"),
        ("<head><meta charset=utf-8><body>text", "text"),
        ("<head><title>T</title><noscript><img>no</noscript><style>p{}</style><p>text", "text"),
        ("<head><noscript><p>text", "text"),
        ("a<!-- b", "a"),
        ("<![<![a", "<![<![a"),
        ("<?php x", "<?php x"),
        ("<!doctype html>a<![CDATA[b]]>", "a"),
        ("1 < 2 <b>c</b>", "1 < 2 c"),
        ("a <p <p>b</p>", "a <p\n\nb"),
    ],
)
def test_the_visible_text(html, expected):
    """Visible text, such as headings, lists, tables and code, becomes Markdown; scripts, styles and navigation do
    not.
    """
    assert from_html(html).text == expected


def test_relative_links_stay_links():
    """Relative links are kept, and links to the web are replaced by their text."""
    html = "<a href='b%20c.html#d'>B <b>bold</b></a>, <a href='https://x.org'>web</a>, <a href='//x.org'>too</a>, "
    html += "<a>no</a>"
    assert from_html(html).text == "[B bold](b%20c.html#d), web, too, no"


def test_the_title_is_the_title_element_or_first_heading():
    """The title of a page is its title element, or the first heading of level 1."""
    assert from_html("<head><title> A\n B </title></head><h1>C</h1>").title == "A B"
    assert from_html("<h1>C <i>d</i></h1><h1>E</h1>").title == "C d"
    assert from_html("<svg><title>x</title></svg>").title == ""


@given(st.text(alphabet="<>/abhrepnavt123 ='\"!-&;", max_size=120))
def test_any_text_is_read(html):
    """No text makes the HTML reader fail."""
    from_html(html)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "Ada\n===\n\na\n\nUse\n---\n\nb\n\nMore\n----\n\nDeep\n~~~~",
            "# Ada\n\na\n\n## Use\n\nb\n\n## More\n\n### Deep",
        ),
        ("=====\nGuide\n=====\n\nUse\n===\n\nx", "# Guide\n\n## Use\n\nx"),
        ("a paragraph\nof two lines\n-------------", "a paragraph\nof two lines\n-------------"),
        ("longer than\n---\n\nx", "longer than\n---\n\nx"),
        ("Run::\n\n   # make\n   ```\n\nDone.", "Run:\n\n````\n# make\n```\n````\n\nDone."),
        (".. code-block:: python\n   :linenos:\n\n   x = 1\n\nend", "```\nx = 1\n```\n\nend"),
        (".. note:: Mind this.\n\n   And that.\n", "Mind this.\n\nAnd that."),
        (".. py:function:: run(x)\n   :async:\n\n   Runs ``x``.\n", "run(x)\n\nRuns ``x``."),
        (".. py:class:: A\n\n   Is.\n\n   .. py:method:: b()\n\n      Do.\n\nEnd.", "A\n\nIs.\n\nb()\n\nDo.\n\nEnd."),
        (
            ".. rst:directive:option:: order\n   :type: a,\n      or b\n   :no-index:\n\n   Choose it.",
            "order\n\ntype: a, or b\n\nChoose it.",
        ),
        (".. figure:: a.png\n   :alt: A pump\n\n   The valve.", "alt: A pump\n\nThe valve."),
        ("Noted [1]_.\n\n.. [1] A note.\n.. [Knuth84] A book.", "Noted [1]_.\n\n[1] A note.\n[Knuth84] A book."),
        (".. deprecated:: 3.5\n   Use ``b``.", "Deprecated since 3.5\n\nUse ``b``."),
        ('.. csv-table:: Sizes\n   :header: "A"\n\n   "b", 1', 'Sizes\n\nheader: "A"\n\n"b", 1'),
        (".. code:: python\n   :caption: Doubling\n\n   2 * x", "caption: Doubling\n\n```\n2 * x\n```"),
        (".. only:: html\n\n   Only here.\n\n.. |v| replace:: 3.5\n\nSince |v|.", "Only here.\n\nSince 3.5."),
        (".. py:module:: os\n\nText.", "Text."),
        (".. rst:role:: cve\n\n   Refers to an entry.", "cve\n\nRefers to an entry."),
        ("Write ``:ref:`a``` and ``x``.", "Write ``:ref:`a``` and ``x``."),
        (".. role:: python(code)\n\ntext", "text"),
        (".. literalinclude:: a.py\n   :lines: 1-3\n\ntext", "text"),
        (".. _target:\n\nPart\n----\n\ntext", "# Part\n\ntext"),
        (".. a comment\n   of two lines\n\n.. image:: a.png\n   :alt: b\n\ntext", "text"),
        (":func:`a.run`, :py:class:`~a.B`, :py:mod:`!c`, :ref:`the d <d>`, :file:`a.py`", "a.run, a.B, c, the d, a.py"),
        ("`text <b.rst>`_ and :doc:`b`", "[text](b.rst) and [b](b)"),
        (".. toctree::\n   :maxdepth: 2\n\n   install\n   Use it <use/index>\n\ntext", "text"),
    ],
)
def test_the_visible_text_of_rst(source, expected):
    """Titles and code become Markdown, and roles text; comments, targets, images and options are removed."""
    assert from_rst(source).text == expected


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("The :ref:`guide <guide-label>` of *Ada*", "The guide of Ada"),
        (":ref:`install`", "install"),
        ("Use :py:func:`~os.path.join` with ``make``", "Use os.path.join with make"),
        ("The :confval:`html_theme` setting and :kbd:`Ctrl`", "The html_theme setting and Ctrl"),
        ("See :doc:`the tutorial <tutorial>` at `home <https://example.org>`_", "See the tutorial at home"),
    ],
)
def test_titles_have_no_markup(heading, title):
    """The title and the headings of sections are the text that a reader sees."""
    converted = from_rst(f"{heading}\n{'=' * 70}\n\nText.\n\n{heading}\n{'-' * 70}\n\nMore.\n")
    assert converted.title == title
    assert [section.path for section in outline(converted.text).sections][-1] == (title,)


def test_nested_directives_take_linear_time():
    """Ten thousand nested directives are read without recursion."""
    assert from_rst("".join(f"{'   ' * (n % 50)}.. note::\n\n" for n in range(10_000)) + "end").text == "end"


@given(st.text(alphabet="=-~ab.:`<>_\n |", max_size=150))
def test_any_rst_is_read(source):
    """No text makes the reader fail."""
    converted = from_rst(source)
    assert converted.text == converted.text.strip()


# -- Markdown ---------------------------------------------------------------------------------------------------------


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
    assert paths(text) == paths("\ufeff" + text) == [(), ("A",), ("B",)]


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
        ("\ufeff# T\na", [("# T", "t")]),
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
    assert outline("# Install {#setup}\na").title == outline("# Install { #setup }\na").title == "Install"
    assert outline("# The {x} set\na").title == "The {x} set"
