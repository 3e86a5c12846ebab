"""Tables of lists of Documents in IPython."""

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.display import show, show_lists

pytest.importorskip("IPython")


@pytest.fixture(scope="module")
def documents():
    store = HybridGraphStore.from_texts(["Parcels were lost.", "Trains are late."], "lsa", ids=["n", "m"])
    return HybridRetriever(store, annotate="all").invoke("a lost parcel")


@pytest.fixture
def shell():
    """Return a running IPython shell, as in a notebook."""
    from IPython.core.interactiveshell import InteractiveShell

    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def html_of(shell, value):
    data, _ = shell.display_formatter.format(value)
    return data.get("text/html", "")


def test_lists_are_plain_until_show_lists(shell, documents):
    """Lists of Documents are displayed as tables only between show_lists() and show_lists(on=False)."""
    assert html_of(shell, documents) == ""
    assert show_lists()
    assert "<table>" in html_of(shell, documents)
    assert show_lists(on=False)
    assert html_of(shell, documents) == ""


@pytest.mark.parametrize("other", [[], [1, 2], [Document("not ours")]])
def test_other_lists_stay_as_they_were(shell, other):
    """After show_lists(), only lists of Documents that this package's retrievers have scored become tables."""
    show_lists()
    assert html_of(shell, other) == ""


def test_other_formatters_of_lists_stay(shell, documents):
    """Another library's formatter for lists is used for other lists, and for all lists after show_lists(on=False)."""
    shell.display_formatter.formatters["text/html"].for_type(list, lambda values: f"theirs: {len(values)}")
    show_lists()
    show_lists()
    assert html_of(shell, [1, 2]) == "theirs: 2"
    assert "<table>" in html_of(shell, documents)
    show_lists(on=False)
    assert html_of(shell, documents) == "theirs: 2"


def test_a_plain_interpreter(documents, capsys):
    """Outside IPython, show_lists() returns False and show prints text."""
    assert not show_lists()
    show(documents, "lost")
    assert capsys.readouterr().out.startswith("1  ")
