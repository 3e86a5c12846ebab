import io
import sys

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

import langchain_hybridgraph.execution.processes as progress_module
from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.execution.processes import Step, report, showing
from langchain_hybridgraph.ingestion import ingest, read_files


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_the_line_goes_to_stderr(monkeypatch, capsys):
    """On a terminal, a line with the phase and counts is printed to stderr and deleted at the end."""
    terminal, times = a_terminal(monkeypatch), iter([0.0, 0.1, 0.6])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(times))
    with showing(True):
        report("reading", 2_000, 7_000, "files")
        report("reading", 3_000, 7_000, "files")
    assert capsys.readouterr().out == ""
    assert terminal.getvalue() == "\r\033[Kreading: 3,000 of 7,000 files, 1 s, about 1 s left\r\033[K"


def test_lines_without_a_terminal(monkeypatch):
    """Without a terminal, progress is printed as lines without control characters."""
    stream = io.StringIO()
    monkeypatch.setattr(progress_module, "INTERVAL", 0.0)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with showing(True):
        report("embedding", 3_000, 7_000, "files")
        report("embedding", 4_000, None, "files")
    assert stream.getvalue().splitlines() == [
        "embedding: 3,000 of 7,000 files, 0 s, about 0 s left",
        "embedding: 4,000 files, 0 s",
    ]


def test_the_share_grows_with_the_number_of_files(tmp_path):
    """If the embedding is fitted at the end, half of the ingest is done when all files are written."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("word " * 100)
    steps = []
    ingest(read_files(tmp_path), HybridGraphStore(None, "lsa"), progress=steps.append, batch_size=1)
    shares = [step.share for step in steps]
    assert shares == sorted(shares)
    assert {0.25, 0.5, 0.75} <= {round(share, 6) for share in shares if share is not None}


def test_embedded_chunks_are_measured(tmp_path):
    """While chunks are embedded, the share grows with their number, and not while files are only read."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("".join(f"# {name} {n}\n\n{'word ' * 150}\n\n" for n in range(200)))
    steps = []
    ingest(read_files(tmp_path), HybridGraphStore(None, DeterministicFakeEmbedding(size=8)), progress=steps.append)
    embedded = [
        (step.done, step.total, step.share) for step in steps if step.unit == "chunks" and step.phase == "embedding"
    ]
    assert embedded == [(n, 400, pytest.approx(0.9 * n / 400)) for n in (0, 100, 200, 300, 400)]
    assert [step.share for step in steps if step.phase == "reading"] == [0, 0]
    assert 0.9 <= steps[-1].share <= 1


def test_the_remaining_time_does_not_grow_while_chunks_are_embedded(monkeypatch):
    """With an embedding of constant speed, the estimate falls by the time that has passed since the last one."""
    seconds = [0.0, 0, 30, 40, 50, 60, 70]
    times, stream = iter(seconds), io.StringIO()
    monkeypatch.setattr(progress_module, "INTERVAL", 0.0)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(sys, "stderr", stream)
    with showing(True):
        for embedded in (0, 0, 100, 200, 300, 400):
            listener = progress_module._listener.get()
            listener(Step("embedding", embedded, 400, "chunks", embedded / 400))
    left = [line.partition(" s")[2] for line in stream.getvalue().splitlines()]
    assert left == ["", "", *(f", about {n} s left" for n in (30, 20, 10, 0))]
