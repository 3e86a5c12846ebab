"""Size of an installation, by distribution.

    python benchmarks/install_size.py [--extras cli,documents]

A new virtual environment is created in a temporary folder, and this repository is installed in it with pip. The table
lists every installed distribution with its size on disk, compiled bytecode included, whether the first search of each
kind loads it, and the distributions that require it. A second table lists the direct dependencies, and how much of the
installation only they need. The searches are those of the README, with LSA: one in the
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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGE = "langchain-hybridgraph"
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
rows, extras = {}, {}
for each in distributions():
    size = sum(path.stat().st_size for file in each.files or () if (path := file.locate()).is_file())
    needs = [Requirement(need) for need in each.requires or ()]
    rows[each.name] = {"version": each.version, "bytes": size, "needs": needs}
    for need in needs:
        extras.setdefault(need.name.lower(), {""}).update(need.extras)
for name, row in rows.items():
    wanted = extras.get(name.lower(), {""})
    row["needs"] = [need.name for need in row["needs"]
                    if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in wanted)]
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
        installed = output(python, "-c", INSTALLED)
        own, chroma = (set(map(same_name, output(python, "-c", code + LOADED))) for code in (OWN_STORE, CHROMA))
    rows = {same_name(name): row for name, row in installed.items()}
    needs = {name: sorted({same_name(need) for need in row["needs"]}) for name, row in rows.items()}
    everything = closure(needs, [PACKAGE])
    print("| MB | distribution | first search loads it | required by |\n|---|---|---|---|")
    for name in sorted(everything, key=lambda name: -rows[name]["bytes"]):
        loaded = "yes" if name in own else "over Chroma" if name in chroma else ""
        parents = ", ".join(sorted(parent for parent in everything if name in needs[parent]))
        print(f"| {rows[name]['bytes'] / 1e6:.1f} | {name} {rows[name]['version']} | {loaded} | {parents} |")
    print(f"\n{len(everything)} distributions, {megabytes(rows, everything)} MB; pip took {seconds:.0f} s")
    print("\n| dependency | MB | MB that only it needs |\n|---|---|---|")
    for name in (["langchain-chroma", "chromadb"], *([need] for need in needs[PACKAGE] if "chroma" not in need)):
        others = closure(needs | {PACKAGE: [need for need in needs[PACKAGE] if need not in name]}, [PACKAGE])
        print(f"| {', '.join(name)} | {megabytes(rows, name)} | {megabytes(rows, everything - others)} |")


def closure(needs: Mapping[str, Sequence[str]], names: Sequence[str]) -> set[str]:
    """Return the names of distributions and of everything that they require."""
    result: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in needs and name not in result:
            result.add(name)
            waiting += needs[name]
    return result


def megabytes(rows: Mapping[str, Any], names: Iterable[str]) -> str:
    return f"{sum(rows[name]['bytes'] for name in names) / 1e6:,.1f}"


if __name__ == "__main__":
    main()
