"""Run the notebooks and store their outputs, so that they can be read without running them.

    python notebooks/store_outputs.py [01_quickstart ...]

Each notebook runs in an empty folder, without a network and without ipywidgets, whose sliders work only in Jupyter.
Neither times of a run nor details of the machine are stored.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
NOWHERE = "http://127.0.0.1:9"  # the discard port: any download fails at once


def main(names: list[str]) -> None:
    """Store the outputs of the named notebooks, or of all."""
    for path in [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb")):
        print(path.name, flush=True)
        store(path)


def store(path: Path) -> None:
    """Run one notebook and write it back with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    metadata = {cell.id: cell.metadata.copy() for cell in notebook.cells}
    about = notebook.metadata.copy()
    with TemporaryDirectory() as folder, TemporaryDirectory() as modules:
        (Path(modules) / "ipywidgets.py").write_text("raise ImportError('left out here')")
        proxies = {f"{kind}_PROXY": NOWHERE for kind in ("HTTP", "HTTPS", "ALL")}
        proxies |= {name.lower(): NOWHERE for name in proxies}
        os.environ |= proxies | {"PYTHONPATH": os.pathsep.join([modules, str(FOLDER.parent)])}
        run = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=run, record_timing=False)
        client.execute()
    for cell in notebook.cells:
        cell.metadata = metadata[cell.id]
    notebook.metadata = about
    nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
