"""The notebooks run from top to bottom, are stored with their outputs, and display correctly."""

import os
import re
from pathlib import Path

import pytest

from tests.support.servers.browser import evaluate, needs_browser

pytestmark = pytest.mark.notebooks
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NOWHERE = "http://127.0.0.1:9"  # the discard port: whatever wants to download fails at once
RETRIEVER = """
from langchain_hybridgraph import HybridGraphStore, HybridRetriever
retriever = HybridRetriever(HybridGraphStore.from_texts(["Bytes, compressed.", "Trains, late."], "lsa"))
"""
NEEDED = {"06_measuring": "ir_measures", "07_llamaindex": "llama_index.core"}


def run(path, folder, monkeypatch, before=None):
    """Run a notebook in this folder without a network and return it with its outputs.

    Modules in the folder ``before`` take precedence over installed modules of the same name.
    """
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, NOWHERE)
        monkeypatch.setenv(name.lower(), NOWHERE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, filter(None, (before, ROOT)))))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    """Return the path of each notebook."""
    return request.param


@pytest.fixture(scope="module")
def executed(path, tmp_path_factory):
    """Run each notebook once, in its own kernel."""
    if path.stem in NEEDED:
        pytest.importorskip(NEEDED[path.stem])
    with pytest.MonkeyPatch.context() as monkeypatch:
        return run(path, tmp_path_factory.mktemp("empty"), monkeypatch)


def forms(cell):
    """Return the formats of a cell's outputs; a slider, which needs a kernel, has none."""
    if "ipywidgets" in cell.source:
        return []
    return [sorted(output.get("data", [output.output_type])) for output in cell.outputs]


def test_notebooks_are_stored_with_their_outputs(path, executed):
    """Every cell is stored with outputs in the same formats as in a run."""
    stored = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in stored] == list(range(1, len(stored) + 1))
    assert [forms(cell) for cell in stored] == [forms(cell) for cell in executed.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_name_no_machine(path):
    """No stored output contains a machine's path or a memory address, and no cell failed."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    outputs = [
        "".join(value) if isinstance(value, list) else str(value)
        for cell in cells
        for output in cell.outputs
        for kind, value in output.get("data", {"text": output.get("text", "failed: /home/")}).items()
        if not kind.startswith("image/")
    ]
    assert outputs
    assert [
        text for text in outputs if re.search(r"(?<![\w.])/(home|root|tmp|usr|Users)/|\b0x[0-9a-f]{6,}", text)
    ] == []


def test_notebooks_run_without_a_network(executed):
    """Every cell of a notebook runs in an empty folder without a network and prints no warning."""
    streams = [
        output for cell in executed.cells for output in cell.get("outputs", ()) if output.output_type == "stream"
    ]
    assert [output.text for output in streams if output.name == "stderr"] == []


@needs_browser
def test_notebooks_are_displayed_correctly(executed, tmp_path):
    """In a narrow, dark browser, tables have rows, pictures have a size, and no table is wider than its cell."""
    page, _ = pytest.importorskip("nbconvert").HTMLExporter(theme="dark").from_notebook_node(executed)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ()) if "data" in output]
    expression = "(() => { const tables = [...document.querySelectorAll('.hybridgraph table')], \
        pictures = [...document.querySelectorAll('.jp-RenderedImage img')], box = e => e.getBoundingClientRect(); \
        return {tables: tables.filter(t => box(t).height > 40 && t.querySelectorAll('tbody tr').length > 0).length, \
        pictures: pictures.filter(p => box(p).height > 50).length, \
        over: tables.filter(t => box(t).right > box(t.closest('.jp-OutputArea-output')).right + 1).length} })()"
    assert evaluate(page, expression, tmp_path, width=500) == {
        "tables": sum('class="hybridgraph' in output.data.get("text/html", "") for output in outputs),
        "pictures": sum("image/png" in output.data for output in outputs),
        "over": 0,
    }


def test_the_slider_may_be_missing(tmp_path, monkeypatch):
    """Without ipywidgets, the cell with the slider displays one result."""
    (tmp_path / "ipywidgets.py").write_text("raise ImportError('not here')")
    path = tmp_path / "weights.ipynb"
    notebook = nbformat.read(ROOT / "notebooks" / "02_hybrid_weights.ipynb", as_version=4)
    [slider] = [cell for cell in notebook.cells if "import FloatSlider" in cell.source]
    notebook.cells = [nbformat.v4.new_code_cell(RETRIEVER), slider]
    nbformat.write(notebook, path)
    outputs = run(path, tmp_path, monkeypatch, before=tmp_path).cells[-1].outputs
    assert ["<table>" in output.data["text/html"] for output in outputs] == [True]
