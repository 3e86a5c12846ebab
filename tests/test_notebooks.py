"""The notebooks run from top to bottom, and are stored without output."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NOWHERE = "http://127.0.0.1:9"  # the discard port: whatever wants to download fails at once


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_without_a_network(path, tmp_path, monkeypatch):
    """Every cell runs, in an empty folder, when no other machine can be reached."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, NOWHERE)
        monkeypatch.setenv(name.lower(), NOWHERE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_stored_without_output(path):
    """What a run shows is not part of the file."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count is not None] == []
