"""Tables of lists of Documents in IPython."""

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.display import show_lists

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
    """Lists of Documents are displayed as tables after show_lists()."""
    assert html_of(shell, documents) == ""
    assert show_lists()
    assert "<table>" in html_of(shell, documents)


@pytest.mark.parametrize("other", [[], [1, 2], [Document("not ours")]])
def test_other_lists_stay_as_they_were(shell, other):
    """After show_lists(), only lists of Documents that this package's retrievers have scored become tables."""
    show_lists()
    assert html_of(shell, other) == ""


def test_a_plain_interpreter():
    """Outside IPython, show_lists() returns False."""
    assert not show_lists()
