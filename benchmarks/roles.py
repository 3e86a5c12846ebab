"""Share of Sphinx's roles that are resolved to the right chunk.

    python benchmarks/roles.py FOLDER [--inventory FILE]

FOLDER is the documentation of a project, for example ``doc`` in Sphinx' source package, and is ingested into memory. A
role is resolved if an edge leads from its chunk to the chunk of its target, or if both are in one chunk. FILE is the
``objects.inv`` that ``sphinx-build FOLDER OUT`` writes. It shows which unresolved roles have a target in the project;
the others refer to another project or to nothing.
"""

from __future__ import annotations

import argparse
import re
import zlib
from collections import Counter
from pathlib import Path

from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, ingest
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.ingestion.markdown import outline
from langchain_hybridgraph.ingestion.sphinx_anchors import role_anchor, role_targets

ROLE = re.compile(r"[:{]([a-z:-]+)[:}]`")
ENTRY = re.compile(r"^(?P<name>.+?) (?P<kind>\S+:\S+) -?\d+ \S+ .*$", re.MULTILINE)


def main() -> None:
    """Print a line for each role."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="folder of the documentation")
    options.add_argument("--inventory", type=Path, help="objects.inv of the documentation")
    arguments = options.parse_args()
    there = targets_in(arguments.inventory) if arguments.inventory else set()
    total, resolved, missed = Counter[str](), Counter[str](), Counter[str]()
    for role, target, is_resolved in roles(arguments.folder):
        total[role] += 1
        resolved[role] += is_resolved
        missed[role] += not is_resolved and target in there
    print("| role | number | resolved | not resolved, with a target in the project |\n|---|---|---|---|")
    for role, number in [*total.most_common(), ("all", total.total())]:
        counts = (resolved.total(), missed.total()) if role == "all" else (resolved[role], missed[role])
        print(f"| {role} | {number} | {counts[0]} | {counts[1] if arguments.inventory else ''} |")


def roles(folder: Path) -> list[tuple[str, str, bool]]:
    """Return the roles of a folder: name without its domain, target, and whether it is resolved."""
    documents = list(read_files(folder))
    resolved = []
    with HybridGraphStore(None, embedding=DeterministicFakeEmbedding(size=4)) as store:
        ingest(documents, store, edges=["links"])
        ids = store.document_chunks(list(store.document_ids()))
        chunks = {document: list(store.get(sorted(ids[document]))) for document in ids}
        holders = {
            (name, chunk.id)
            for inside in chunks.values()
            for chunk in inside
            for name in chunk.metadata.get("targets", ())
        }
        edges = {(edge.source, edge.target) for edge in store.edges([id for each in ids.values() for id in each])}
        ends: dict[str, set[str]] = {}
        for source, end in edges:
            ends.setdefault(source, set()).add(end)
        for document in documents:
            text = document.page_content
            for start, link in outline(text).links:
                if link.kind != "role":
                    continue
                role = ROLE.match(text, start)
                sources = [
                    chunk.id
                    for chunk in chunks[document.metadata["source"]]
                    if chunk.metadata["start_index"] <= start < chunk.metadata["start_index"] + len(chunk.text)
                ]
                is_resolved = any(
                    (link.target, end) in holders for source in sources for end in {source, *ends.get(source, ())}
                )
                resolved.append((role[1].rpartition(":")[2] if role else "", link.target, is_resolved))
    return resolved


def targets_in(inventory: Path) -> set[str]:
    """Return the anchors of everything that an ``objects.inv`` lists."""
    text = zlib.decompress(inventory.read_bytes().split(b"\n", 4)[4]).decode()
    kinds = {"std:cmdoption": "option", "rst:directive:option": "dir", "std:label": "ref"}
    entries = ((kinds.get(match["kind"], match["kind"]), match["name"]) for match in ENTRY.finditer(text))
    anchors = (role_anchor(kind, name.replace(".-", " -", 1)) for kind, name in entries)
    return {name for anchor in anchors for name in role_targets(anchor)}


if __name__ == "__main__":
    main()
