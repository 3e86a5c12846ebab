"""Files that worker processes read and split give the same results as in a single process."""

from dataclasses import replace
from functools import partial

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.execution.processes import worker_processes
from langchain_hybridgraph.ingestion import RecursiveSplitter, ingest, pipeline, read_files

TEXTS = {
    "ada.md": "# Ada Lovelace\n\nShe wrote to Charles Babbage. See [the engine](engine.md#parts).",
    "engine.md": "# Engine\n\nBabbage planned it.\n\n## Parts\n\nWheels.\n",
    "first.md": "---\ndocument_id: joined\n---\nJoan Clarke met Alan Turing. The same.",
    "second.md": "---\ndocument_id: joined\n---\nTuring knew Clarke. The same.",
    "page.rst": "Title\n=====\n\nAda Lovelace wrote `this <ada.md>`_.",
    "page.html": "<h1>Notes</h1><p>Charles Babbage and <a href='ada.md'>Ada</a></p>",
    "empty.txt": " \n",
    "rows.jsonl": '{"id": "row", "text": "Ada Lovelace again."}\n',
    "broken.md": b"\xff\x00\x01",
}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with files of several kinds, enough of them for worker processes to be started."""
    for name, text in TEXTS.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    for number in range(20):
        (tmp_path / f"note{number}.md").write_text(f"# Note {number}\n\nSee [Ada](ada.md), of Note {number + 1}.\n")
    return tmp_path


def ingested(folder, **options):
    """Return the report of an ingest, and all its chunks and edges."""
    with HybridGraphStore(None, DeterministicFakeEmbedding(size=8)) as store:
        report = ingest(read_files(folder, skipped=lambda _: None), store, **options)
        ids = [id for ids in store.document_chunks(store.document_ids()).values() for id in ids]
        chunks = {chunk.id: chunk for chunk in store.get(sorted(ids))}
        edges = sorted(store.edges(sorted(ids)), key=lambda edge: (edge.source, edge.relation, edge.target))
        return report, chunks, edges


@pytest.mark.parametrize("split", ["flat", "parent_child", RecursiveSplitter(20, 5), None])
def test_workers_change_nothing(folder, monkeypatch, split):
    """Chunks, edges and counts do not depend on the process that reads a file."""
    monkeypatch.setattr(pipeline, "_BATCH", 1)
    by_count = []
    for count in (0, 1):
        monkeypatch.setattr(pipeline, "worker_processes", partial(worker_processes, count))
        by_count.append(ingested(folder, split=split))
    (report, chunks, edges), by_workers = by_count
    assert len(chunks) > 25
    assert len(edges) > 25
    assert by_workers[1:] == (chunks, edges)
    assert replace(report, seconds=0) == replace(by_workers[0], seconds=0)
