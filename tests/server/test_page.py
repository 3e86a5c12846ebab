"""The search page, in a headless browser."""

import json
import threading
import time

import pytest
import uvicorn
from langchain_core.documents import Document

from langchain_hybridgraph import Edge, HybridGraphStore, ingest
from langchain_hybridgraph.server.access import Token
from langchain_hybridgraph.server.app import create_app
from tests.support.servers.browser import Tab, needs_browser

pytestmark = needs_browser

TAG = "<img src=x onerror=\"document.title='attacked'\"><script>document.title = 'attacked'</script>"
DOCUMENTS = [
    Document("# Parcels\n\nA parcel takes two days. See [invoices](invoices.md).", id="parcels.md"),
    Document("# Invoices\n\nInvoices are sent monthly by the billing team.", id="invoices.md"),
    Document(f"A text with {TAG} in it, about tags.", id=f"tags {TAG}.md", metadata={"title": f"Tags {TAG}"}),
]
RESULTS = "document.querySelectorAll('li.hit').length"


@pytest.fixture(scope="module")
def address():
    """Serve three documents, and return the address of the page."""
    store = HybridGraphStore()
    for document in DOCUMENTS:
        document.metadata |= {"source": document.id, "team": "post" if "parcel" in document.id else "office", TAG: TAG}
    ingest(DOCUMENTS, store)
    yield from served(create_app(store))


def served(app):
    """Run an application on a free port, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture
def tab(tmp_path, address):
    """Return a tab that shows the page."""
    with Tab(tmp_path / "profile") as tab:
        tab.open(address)
        yield tab


def search(tab, question):
    """Type a question, press Enter, and wait for the results."""
    tab.value("document.getElementById('query').focus()")
    tab.value("document.getElementById('query').value = ''")
    tab.type(question)
    tab.press("Enter")
    tab.wait("/result|error/.test(document.getElementById('status').textContent)")


def titles(tab, column="document"):
    """Return the headings of the results."""
    return tab.value(f"[...{column}.querySelectorAll('li.hit h3')].map((each) => each.textContent)")


def set_value(tab, element, value, event="change"):
    """Set the value of a field as a user does."""
    tab.value(
        f"(() => {{ const field = document.querySelector({element!r}); field.value = {value!r};"
        f" field.dispatchEvent(new Event('input', {{bubbles: true}}));"
        f" field.dispatchEvent(new Event({event!r}, {{bubbles: true}})); }})()"
    )
    tab.wait("/result|error/.test(document.getElementById('status').textContent)")


def test_typing_and_keys(tab):
    """A question is typed; results are reached and explained with keys alone."""
    tab.press("Escape")
    tab.value("document.activeElement.blur()")
    tab.press("/")
    assert tab.value("document.activeElement.id") == "query"
    search(tab, "How long does a parcel take?")
    assert titles(tab)[0] == "1. Parcels"
    assert "parcel" in tab.value("[...document.querySelectorAll('li.hit mark')].map((each) => each.textContent)")
    assert tab.value("document.querySelector('.bar').getAttribute('aria-label')").startswith("Score ")
    tab.press("ArrowDown")
    assert tab.value("document.activeElement.getAttribute('aria-label')").startswith("Result 1: Parcels, score ")
    tab.press("Enter")
    tab.wait("document.querySelector('li.hit [aria-expanded]').getAttribute('aria-expanded') === 'true'")
    tab.wait("document.querySelector('li.hit').textContent.includes('found by')")
    tab.press("Escape")
    assert tab.value("document.activeElement.id") == "query"


def test_a_filter_and_its_errors(tab):
    """A filter narrows the results; what is wrong with one is shown in words."""
    search(tab, "parcel invoice")
    assert len(titles(tab)) == 3
    set_value(tab, "#filter", json.dumps({"team": "post"}))
    tab.wait(f"{RESULTS} === 1")
    assert titles(tab) == ["1. Parcels"]
    set_value(tab, "#filter", "{team: post}")
    tab.wait("document.querySelector('.error')")
    assert "The filter is not JSON" in tab.value("document.querySelector('.error').textContent")
    set_value(tab, "#filter", json.dumps({"team": {"$like": "post"}}))
    tab.wait("document.querySelector('.error')?.textContent.includes('$like')")


def test_comparing_two_settings(tab):
    """Two settings are shown next to each other, and the second names what has moved."""
    search(tab, "invoices monthly")
    assert not tab.value("document.getElementById('b').checkVisibility()")
    tab.value("document.getElementById('compare').click()")
    tab.wait("document.querySelectorAll('.column').length === 2")
    tab.value("document.querySelector('#b .own').click()")
    set_value(tab, "#b .weight", "0")
    tab.wait("document.querySelectorAll('.column').length === 2")
    assert titles(tab, "document.querySelectorAll('.column')[1]")[0].startswith("1. Invoices")
    assert "same rank" in tab.value("document.querySelectorAll('.column')[1].textContent")
    tops = tab.value("[...document.querySelectorAll('.column')].map((each) => each.getBoundingClientRect().top)")
    assert tops[0] == tops[1]


def test_the_path_of_a_graph_hit_is_drawn(tab):
    """A hit that was reached through a link has a picture of its path."""
    search(tab, "How long does a parcel take?")
    set_value(tab, "#a .retriever", "graph")
    tab.wait("document.querySelector('li.hit svg')")
    label = tab.value("document.querySelector('li.hit svg').getAttribute('aria-label')")
    assert label == "Path: parcels.md#0 – references – invoices.md#0"
    assert tab.value("document.querySelectorAll('li.hit svg circle').length") == 2


def test_tags_are_shown_as_text(tmp_path):
    """A script tag in any field of a hit, an edge or the form is shown as text, and never run."""
    store = HybridGraphStore()
    metadata = {"title": f"Tags {TAG}", "source": TAG, TAG: TAG}
    store.add_texts([f"A text with {TAG} in it, about tags.", "Owls hoot."], [metadata, {}], ids=[TAG, f"2 {TAG}"])
    store.upsert([], edges=[Edge(TAG, f"2 {TAG}", TAG, description=TAG)])
    for address in served(create_app(store)):
        with Tab(tmp_path / "profile") as tab:
            tab.open(address)
            search(tab, f"tags {TAG}")
            assert titles(tab)[0] == f"1. Tags {TAG}"
            set_value(tab, "#a .retriever", "graph")
            tab.wait("document.querySelector('li.hit svg')")
            tab.value("document.querySelectorAll('li.hit button').forEach((each) => each.click())")
            tab.wait("document.querySelector('li.hit:last-child').textContent.includes('hop')")
            texts_on_page = [tab.value("document.getElementById('columns').textContent")]
            texts_on_page.append(tab.value("document.querySelector('li.hit svg').getAttribute('aria-label')"))
            for field, value in (("filter", json.dumps({TAG: {TAG: 1}})), ("filter", TAG), ("tenant", TAG)):
                set_value(tab, f"#{field}", value)
                tab.wait("document.querySelector('.error')")
                texts_on_page.append(tab.value("document.querySelector('.error').textContent"))
                set_value(tab, f"#{field}", "")
            assert [TAG[:20] in each for each in texts_on_page] == [True, True, True, False, False]
            assert tab.value("document.title") == "Search"
            inserted = "document.querySelectorAll('main img, main script, header img, header script').length"
            assert tab.value(inserted) == 0


def test_nothing_is_loaded_from_other_hosts(tab, address):
    """The page loads only its own searches, and its policy forbids more."""
    search(tab, "parcel")
    loaded = tab.value("performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded
    assert [each for each in loaded if not each.startswith((address, "data:"))] == []
    blocked = tab.value(
        "new Promise((done) => { addEventListener('securitypolicyviolation', (event) => done(event.violatedDirective));"
        " document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = 1'}));"
        "})"
    )
    assert blocked == "script-src-elem"


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone(tmp_path, address, dark):
    """At a width of 390 pixels nothing is cut off, also in dark mode, which changes the colours."""
    with Tab(tmp_path / "profile", width=390, height=800, dark=dark) as tab:
        tab.open(address)
        search(tab, "How long does a parcel take?")
        assert tab.value("document.documentElement.scrollWidth") <= 390
        background = tab.value("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 21, 29)" if dark else "rgb(255, 255, 255)")


def test_every_field_has_a_label(tab):
    """Each field and button has a name that a screen reader can say."""
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    fields = [
        node
        for node in nodes
        if node.get("role", {}).get("value")
        in ("searchbox", "textbox", "combobox", "spinbutton", "slider", "checkbox", "button")
    ]
    assert len(fields) >= 12
    assert [node for node in fields if not node.get("name", {}).get("value")] == []


def test_an_address_with_a_question(tmp_path, address):
    """The question in a shared address is searched for when the page opens."""
    with Tab(tmp_path / "profile") as tab:
        tab.open(f"{address}?q=parcel")
        tab.wait(f"{RESULTS} > 0")
        assert tab.value("document.getElementById('query').value") == "parcel"


def test_a_token_is_needed(tmp_path):
    """Without the right token the page says so; with it, it searches."""
    store = HybridGraphStore()
    store.add_texts(["A parcel takes two days."])
    for address in served(create_app(store, tokens=[Token(token="correct-horse-battery")])):
        with Tab(tmp_path / "profile") as tab:
            tab.open(address)
            search(tab, "parcel")
            assert "A token is needed" in tab.value("document.querySelector('.error').textContent")
            assert "a token is needed" in tab.value("document.getElementById('status').textContent")
            assert tab.value("document.activeElement.id") == "token"
            assert tab.value("location.search") == "?q=parcel"
            set_value(tab, "#token", "correct-horse-battery")
            tab.wait(f"{RESULTS} === 1")
