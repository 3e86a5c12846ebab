"""Result tables in a real browser."""

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from tests.support.servers.browser import evaluate, needs_browser

pytestmark = needs_browser

HOSTILE = [
    "<script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "</td></table><svg onload='window.ran = 1'>",
    '" onmouseover="window.ran = 1" autofocus onfocus="window.ran = 1',
    "</style><script>window.ran = 1</script>",
]


def page(result):
    return f"<!doctype html><html><body>{result._repr_html_()}</body></html>"


@pytest.fixture(scope="module")
def hostile():
    """Return real hits whose texts, titles, ids and links contain HTML."""
    store = HybridGraphStore(None, "lsa")
    store.add_documents(
        [
            Document(f"{text} the parcel {text}", id=f"{text}{n}", metadata={"title": text, "source": text})
            for n, text in enumerate(HOSTILE)
        ]
    )
    return HybridRetriever(store, k=5).retrieve(f"parcel {HOSTILE[0]}")


def test_no_script_of_the_data_runs(hostile, tmp_path):
    """HTML in texts, titles, ids and the query is displayed as text and never runs."""
    expression = "{ran: window.ran ?? 0, made: document.querySelectorAll('td script, td img, td svg').length, \
        rows: document.querySelectorAll('tbody tr').length, \
        read: document.querySelector('table').innerText.includes('<script>window.ran = 1')}"
    assert evaluate(page(hostile), expression, tmp_path) == {"ran": 0, "made": 0, "rows": 5, "read": True}


def test_the_check_finds_violations(tmp_path):
    """An unescaped script does run in this browser, so the check above can fail."""
    assert evaluate(f"<html><body>{HOSTILE[0]}</body></html>", "window.ran ?? 0", tmp_path) == 1


@pytest.mark.parametrize("width", [500, 1200])
def test_the_table_fits_its_page(hostile, tmp_path, width):
    """The rows and bars are visible, and the table is not wider than a wide or narrow page."""
    expression = (
        "{high: [...document.querySelectorAll('tbody tr')].every(row => row.getBoundingClientRect().height > 20), \
        bars: [...document.querySelectorAll('.bar span')].every(bar => bar.getBoundingClientRect().width > 0), \
        over: document.documentElement.scrollWidth - document.documentElement.clientWidth}"
    )
    assert evaluate(page(hostile), expression, tmp_path, width) == {"high": True, "bars": True, "over": 0}
