import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.ingestion.markdown import outline
from langchain_hybridgraph.ingestion.markup import from_rst


def text(source):
    return from_rst(source).text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "Guide\n=====\n\na\n\nUse\n---\n\nb\n\nMore\n----\n\nDeep\n~~~~",
            "# Guide\n\na\n\n## Use\n\nb\n\n## More\n\n### Deep",
        ),
        ("=====\nGuide\n=====\n\nUse\n===\n\nx", "# Guide\n\n## Use\n\nx"),
        ("a paragraph\nof two lines\n-------------", "a paragraph\nof two lines\n-------------"),
        ("longer than\n---\n\nx", "longer than\n---\n\nx"),
        ("Run::\n\n   # make\n   make\n\nDone.", "Run:\n\n```\n# make\nmake\n```\n\nDone."),
        (".. code-block:: python\n   :linenos:\n\n   x = 1\n\nend", "```\nx = 1\n```\n\nend"),
        (".. note:: Mind this.\n\n   And that.\n", "Mind this.\n\nAnd that."),
        (".. py:function:: run(x)\n   :async:\n\n   Runs ``x``.\n", "run(x)\n\nRuns ``x``."),
        (
            ".. py:class:: A\n\n   A thing.\n\n   .. py:method:: b()\n\n      Does.\n\nEnd.",
            "A\n\nA thing.\n\nb()\n\nDoes.\n\nEnd.",
        ),
        ("Write ``:ref:`a``` and ``x``.", "Write ``:ref:`a``` and ``x``."),
        (".. role:: python(code)\n\ntext", "text"),
        (".. literalinclude:: a.py\n   :lines: 1-3\n\ntext", "text"),
        (".. _target:\n\nPart\n----\n\ntext", "# Part\n\ntext"),
        (".. a comment\n   of two lines\n\n.. image:: a.png\n   :alt: b\n\ntext", "text"),
        (
            ":func:`asyncio.run`, :py:class:`~a.B`, :py:mod:`!c`, :ref:`the part <part>`, :file:`a.py`",
            "asyncio.run, a.B, c, the part, a.py",
        ),
        ("`text <b.rst>`_ and :doc:`b`", "[text](b.rst) and [b](b)"),
        (".. toctree::\n   :maxdepth: 2\n\n   install\n   Use it <use/index>\n\ntext", "text"),
    ],
)
def test_the_visible_text(source, expected):
    """Titles and code become Markdown, and roles text; comments, targets, images and options are removed."""
    assert text(source) == expected


def test_the_title_is_the_first_heading():
    """The title of a text is its first heading; a text without headings has no title."""
    assert from_rst("Guide\n=====\n\nx\n\nOther\n=====\n").title == "Guide"
    assert from_rst("just text").title == ""
    assert from_rst("::\n\n   # a comment\n").title == ""


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


def test_code_holds_no_headings():
    """Comments in code blocks are not headings."""
    result = outline(text("Guide\n=====\n\n::\n\n  # a\n  b\n\nUse\n---\n\nx"))
    assert [section.path for section in result.sections] == [(), ("Use",)]


def test_nested_directives_take_linear_time():
    """Ten thousand nested directives are read without recursion."""
    source = "".join(f"{'   ' * (n % 50)}.. note::\n\n" for n in range(10_000))
    assert text(source + "end") == "end"


@given(st.text(alphabet="=-~ab.:`<>_\n |", max_size=150))
def test_any_text_is_read(source):
    """No text makes the reader fail."""
    converted = from_rst(source)
    assert converted.text == converted.text.strip()
