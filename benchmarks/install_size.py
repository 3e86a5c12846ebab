"""Size of an installation, by distribution.

    python benchmarks/install_size.py [--extras cli,documents]

A new virtual environment is created in a temporary folder, and this repository is installed in it with pip. The table
lists every installed distribution with its size on disk, compiled bytecode included, whether the first search of each
kind loads it, and the distributions that require it. The searches are those of the README, with LSA: one in the
package's own store, and one in a Chroma collection.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OWN_STORE = """
from langchain_hybridgraph import HybridGraphStore, HybridRetriever
texts = ["Error E-4711: the card issuer asks for a second factor.", "Invoices are sent monthly.", "A key is a factor."]
store = HybridGraphStore.from_texts(texts, "lsa")
assert HybridRetriever(store, k=1).invoke("What does E-4711 mean?")[0].page_content == texts[0]
"""
CHROMA = f"""{OWN_STORE}
from langchain_chroma import Chroma
collection = Chroma("notes", store.embeddings)
collection.add_texts(texts, ids=["card", "invoices", "key"])
assert HybridRetriever(collection, k=1).invoke("What does E-4711 mean?")[0].page_content == texts[0]
"""
LOADED = """
import json, sys
from importlib.metadata import packages_distributions
names = packages_distributions()
tops = {module.partition(".")[0] for module in sys.modules}
print(json.dumps(sorted({name for top in tops for name in names.get(top, ())})))
"""
INSTALLED = """
import json
from importlib.metadata import distributions
from pip._vendor.packaging.requirements import Requirement
rows = []
for each in distributions():
    size = sum(path.stat().st_size for file in each.files or () if (path := file.locate()).is_file())
    needed = map(Requirement, each.requires or ())
    requires = [need.name for need in needed if need.marker is None or need.marker.evaluate({"extra": ""})]
    rows.append({"name": each.name, "version": each.version, "bytes": size, "requires": requires})
print(json.dumps(rows))
"""


def output(*command: str | Path) -> Any:
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=tempfile.gettempdir()).stdout)


def same_name(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extras", default="", help="extras to install, separated by commas")
    extras = parser.parse_args().extras
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        started = time.monotonic()
        what = f"{ROOT}[{extras}]" if extras else str(ROOT)
        subprocess.run([python, "-m", "pip", "install", "--quiet", what], check=True, stdout=sys.stderr)
        seconds = time.monotonic() - started
        rows = [row for row in output(python, "-c", INSTALLED) if row["name"] not in ("pip", "setuptools")]
        own, chroma = (set(map(same_name, output(python, "-c", code + LOADED))) for code in (OWN_STORE, CHROMA))
    required_by: dict[str, list[str]] = {}
    for row in rows:
        for name in row["requires"]:
            required_by.setdefault(same_name(name), []).append(row["name"])
    print("| MB | distribution | first search loads it | required by |\n|---|---|---|---|")
    for row in sorted(rows, key=lambda row: -row["bytes"]):
        name = same_name(row["name"])
        loaded = "yes" if name in own else "over Chroma" if name in chroma else ""
        parents = ", ".join(sorted(required_by.get(name, ())))
        print(f"| {row['bytes'] / 1e6:.1f} | {row['name']} {row['version']} | {loaded} | {parents} |")
    total = sum(row["bytes"] for row in rows) / 1e6
    print(f"\n{len(rows)} distributions, {total:,.0f} MB; pip took {seconds:.0f} s")


if __name__ == "__main__":
    main()
