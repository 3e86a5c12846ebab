import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.ingestion.markdown import outline
from langchain_hybridgraph.ingestion.readers.rst import from_rst


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
        (".. py:function:: run(x)\n   :async:\n\n   Runs ``x``.\n", "# `run(x)`\n\nRuns `x`."),
        (
            "Settings\n========\n\n.. confval:: theme\n   :type: str\n\n   The theme.",
            "# Settings\n\n## `theme`\n\nThe theme.",
        ),
        (
            "Words\n=====\n\n.. glossary::\n   :sorted:\n\n   Root page\n   start page\n      Where it begins.\n",
            "# Words\n\n## Root page, start page\n\nWhere it begins.",
        ),
        ("Write ``:ref:`a``` and ``x``.", "Write `` :ref:`a` `` and `x`."),
        (".. role:: python(code)\n\ntext", "text"),
        (".. versionadded:: 1.2\n   The option.\n", "Added in version 1.2\n\nThe option."),
        (".. literalinclude:: a.py\n   :lines: 1-3\n", '--8<-- "a.py"'),
        (".. _target:\n\nPart\n----\n\ntext", "# Part\n\ntext"),
        (".. a comment\n   of two lines\n\n.. image:: a.png\n   :alt: b\n\ntext", "text"),
        (
            ":func:`asyncio.run`, :py:class:`~a.B`, :py:mod:`!c`, :ref:`the part <part>`, :file:`a.py`",
            "{func}`asyncio.run`, {py:class}`~a.B`, c, {ref}`the part <part>`, a.py",
        ),
        ("`text <b.rst>`_ and `c <https://x.org>`__", "[text](b.rst) and [c](https://x.org)"),
        (":doc:`The guide </guide>` :doc:`b`", "[The guide](/guide.rst) [b](b.rst)"),
        (
            ".. toctree::\n   :maxdepth: 2\n\n   install\n   Use it <use/index>\n",
            "- [install](install.rst)\n- [Use it](use/index.rst)",
        ),
    ],
)
def test_the_visible_text(source, expected):
    """Titles, code, notes, roles and links become Markdown; comments, targets, images and options are removed."""
    assert text(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".. py:function:: run(x)\n   :async:\n\n   Runs ``x``.\n", [("# `run(x)`", "run")]),
        ("Words\n=====\n\n.. confval:: theme\n   :type: str\n\n   A theme.", [("## `theme`", "confval-theme")]),
        (".. py:class:: A\n\n   .. py:method:: b()\n\n      Does.", [("# `A`", "A"), ("## `b()`", "A.b")]),
        (".. rst:role:: ref\n\n   Links to a label.", [("# `ref`", "role-ref")]),
        (
            ".. rst:directive:: .. code-block:: [language]",
            [("# `.. code-block:: [language]`", "directive-code-block")],
        ),
        (
            ".. program:: build\n\n.. option:: -b name, --builder=name",
            [
                ("# `-b name, --builder=name`", "option-build-b"),
                ("# `-b name, --builder=name`", "option-build-builder"),
            ],
        ),
        (
            ".. currentmodule:: app\n\n.. autofunction:: run\n\n.. confval:: a\n   b\n",
            [("# `run`", "app.run"), ("# `a`, `b`", "confval-a"), ("# `a`, `b`", "confval-b")],
        ),
        (".. confval:: theme\n   :no-index:\n\n   Again.", []),
        (
            ".. rst:directive:: toctree\n\n   .. rst:directive:option:: depth: number\n\n      How deep.",
            [("# `toctree`", "directive-toctree"), ("## `depth: number`", "directive-toctree-depth")],
        ),
        (
            ".. cpp:function:: template<typename T> int Shape::area(T x)",
            [("# `template<typename T> int Shape::area(T x)`", "cpp-Shape-area")],
        ),
        (
            "\n.. glossary::\n\n   Root page\n   start page\n      Where it begins.\n",
            [("# Root page, start page", "term-root-page"), ("# Root page, start page", "term-start-page")],
        ),
        (
            "   Indented.\n\n\n\n.. _far part:\n.. _part:\n\nPart\n----\n\n.. _here:\n\ntext",
            [("# Part", "far part"), ("# Part", "part"), ("text", "here")],
        ),
        ("text\n\n.. _end:\n", []),
    ],
)
def test_anchors_are_separate_from_the_text(source, expected):
    """Targets of roles become anchors with positions, and their names are not in the text."""
    converted = from_rst(source)
    places = [(converted.text[anchor.start :].partition("\n")[0], anchor.name) for anchor in converted.anchors]
    assert places == expected
    assert not any(f"#{name}" in converted.text or f"({name})=" in converted.text for _, name in expected)


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
        ("Use :py:func:`~os.path.join` with ``make``", "Use join with make"),
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


@given(st.text(alphabet="=-~ab.:`<>_\n |", max_size=150))
def test_any_text_is_read(source):
    """No text makes the reader fail, and anchors are at line starts, in order."""
    converted = from_rst(source)
    starts = [anchor.start for anchor in converted.anchors]
    assert starts == sorted(starts)
    assert all(start < len(converted.text) and f"\n{converted.text}"[start] == "\n" for start in starts)
