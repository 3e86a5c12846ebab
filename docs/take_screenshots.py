"""Take the pictures of the search page and the notebooks: ``python docs/take_screenshots.py`` (needs Chromium)."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from nbconvert import HTMLExporter

sys.path.insert(0, str(Path(__file__).parent.parent))

from langchain_hybridgraph import HybridGraphStore, ingest
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.server.app import create_app
from tests.support.servers.browser import Tab

DOCS = Path(__file__).parent
CELLS = {
    "01_quickstart": 5,
    "02_hybrid_weights": 3,
    "03_graph": 3,
    "04_conversation": 5,
    "05_memory_and_time": 2,
    "06_measuring": 5,
    "07_llamaindex": 3,
}
"""Cells of the notebooks whose outputs are shown."""
RESULTS = "document.querySelectorAll('li.hit').length"
COMPARE = """
(() => {
  const set = (selector, value) => {
    const field = document.querySelector(selector);
    field.value = value;
    field.dispatchEvent(new Event('input', {bubbles: true}));
    field.dispatchEvent(new Event('change', {bubbles: true}));
  };
  document.getElementById('compare').click();
  set('#a .retriever', 'graph');
  document.querySelector('#b .own').click();
  set('#b .weight', '0');
})()
"""


def main() -> None:
    """Store the pictures of the page and of the notebooks."""
    take_search_page()
    take_notebooks()


def take_notebooks() -> None:
    """Store a picture of a stored output of each notebook."""
    pictures = DOCS / "pictures/notebooks"
    pictures.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Tab(folder, width=900, height=7_000) as tab:
        for name, cell in CELLS.items():
            html, _ = HTMLExporter().from_filename(str(DOCS.parent / f"notebooks/{name}.ipynb"))
            page = Path(folder) / f"{name}.html"
            page.write_text(html, encoding="utf-8")
            tab.open(page.as_uri())
            tab.screenshot(
                pictures / f"{name}.png",
                f"document.querySelectorAll('.jp-CodeCell')[{cell}].querySelector('.jp-OutputArea-output')",
            )


def take_search_page() -> None:
    """Index the documentation, search it in the page, and store the picture."""
    store = HybridGraphStore()
    ingest(read_files([DOCS]), store)
    server = uvicorn.Server(uvicorn.Config(create_app(store), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Tab(folder, width=1200, height=900, dark=True) as tab,
    ):
        tab.open(f"http://127.0.0.1:{port}/")
        tab.value("document.getElementById('query').focus()")
        tab.type("How do I keep tenants apart?")
        tab.press("Enter")
        tab.wait(RESULTS)
        tab.value(COMPARE)
        tab.wait("document.querySelectorAll('.column').length === 2")
        time.sleep(1)  # the last of several searches replaces the results of the others
        tab.screenshot(DOCS / "pictures" / "search-page.png")
    server.should_exit = True
    thread.join()


if __name__ == "__main__":
    main()
