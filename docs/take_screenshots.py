"""Take the pictures of the search page in the documentation: ``python docs/take_screenshots.py`` (needs Chromium)."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn

sys.path.insert(0, str(Path(__file__).parent.parent))

from langchain_hybridgraph import HybridGraphStore, ingest
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.server.app import create_app
from tests.support.servers.browser import Tab

DOCS = Path(__file__).parent
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
    """Index the documentation, search it in the page, and store the picture."""
    store = HybridGraphStore()
    ingest(read_files([DOCS]), store)
    server = uvicorn.Server(uvicorn.Config(create_app(store), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, Tab(folder, width=1200, height=900, dark=True) as tab:
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
