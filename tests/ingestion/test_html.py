import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.ingestion.markdown import outline
from langchain_hybridgraph.ingestion.markup import from_html


def text(html):
    return from_html(html).text


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h1>A</h1><p>b</p><h3>C</h3>d", "# A\n\nb\n\n### C\n\nd"),
        ("<p>a\n   b&nbsp;&lt;c&gt; &#233;</p>", "a b <c> é"),
        ("a<br>b<p>c", "a\nb\n\nc"),
        ("<ul><li>one<li>two</ul>", "- one\n- two"),
        ("<ol>\n<li>one</li>\n<li><p>two</p></li>\n</ol>", "- one\n- two"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
        ("<pre>  x = 1\n  y = 2</pre>", "```\n  x = 1\n  y = 2\n```"),
        ("<p>a<script>no()</script><style>p{}</style><!-- no -->b</p>", "ab"),
        ("<nav>menu</nav><main>text</main><footer>end</footer>", "text"),
        ("<h2>Use<a class='headerlink' href='#use'>¶</a></h2>x", "## Use\n\nx"),
        ("<em>a</em> <b>b</b>c", "a bc"),
    ],
)
def test_the_visible_text(html, expected):
    """Visible text, such as headings, lists, tables and code, becomes Markdown; scripts, styles and navigation do
    not.
    """
    assert text(html) == expected


def test_relative_links_stay_links():
    """Relative links are kept, and links to the web are replaced by their text."""
    html = "<a href='b%20c.html#d'>B <b>bold</b></a>, <a href='https://x.org'>web</a>, <a href='//x.org'>too</a>, "
    html += "<a>no</a>"
    assert text(html) == "[B bold](b%20c.html#d), web, too, no"


def test_a_link_around_a_heading_is_replaced_by_its_text():
    """A link around a heading is replaced by its text."""
    assert text("<h2><a href='x.html'>Use</a> it</h2>y") == "## Use it\n\ny"


def test_the_title_is_the_title_element_or_first_heading():
    """The title of a page is its title element, or the first heading of level 1."""
    assert from_html("<head><title> A\n B </title></head><h1>C</h1>").title == "A B"
    assert from_html("<h1>C <i>d</i></h1><h1>E</h1>").title == "C d"
    assert from_html("<p>x").title == ""


def test_text_after_an_unclosed_element_is_kept():
    """Text after an unclosed nav or head element is kept."""
    assert "text" in text("<nav>menu<p>text")
    assert text("<head><meta charset=utf-8><body>text") == "text"


def test_headings_of_pages_are_headings_of_sections():
    """Headings of a page become headings of sections, but code does not."""
    page_outline = outline(text("<h1>G</h1><p>a</p><h2>Use</h2><pre># no heading</pre>"))
    assert (page_outline.title, [section.path for section in page_outline.sections]) == ("G", [(), ("Use",)])


@given(st.text(alphabet="<>/abhrepnavt123 ='\"!-&;", max_size=120))
def test_any_text_is_read(html):
    """No text makes the HTML reader fail."""
    from_html(html)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("a<!-- b", "a"),
        ("<![<![a", "<![<![a"),
        ("<?php x", "<?php x"),
        ("<!doctype html>a<![CDATA[b]]>", "a"),
        ("1 < 2 <b>c</b>", "1 < 2 c"),
        ("a <p <p>b</p>", "a <p\n\nb"),
    ],
)
def test_unclosed_elements(html, expected):
    """Text around unclosed tags, comments and declarations is kept."""
    assert text(html) == expected
