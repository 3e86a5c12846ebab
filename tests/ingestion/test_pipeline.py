"""Ingestion into a store in memory and into the embedded store."""

import io
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

import langchain_hybridgraph.execution.processes as progress_module
from langchain_hybridgraph import Chunk, HybridGraphStore
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.processes import Step, report, showing
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
from langchain_hybridgraph.ingestion.splitting import ParentChildSplitter, RecursiveSplitter
from tests.support.stores.memory_store import MemoryStore, PlainStore

ingest = partial(ingest_documents, split=RecursiveSplitter(join_sections=False))  # each section is a chunk


def page(text, source, id=None, **metadata):
    return Document(page_content=text, metadata={"source": source, **metadata}, id=id)


GUIDE = "# Guide\n\nhello\n\n## Install\n\nrun the [setup](setup.md)\n\n## Use\n\nask anything"


def counts(report):
    return report.added, report.updated, report.unchanged, report.removed, report.embedded


def content(store):
    return store.chunks, store.parents, store.edges


@pytest.fixture
def store():
    return MemoryStore()


def test_vanished_chunks_are_removed_after_the_new_are_written(store):
    """A section that was deleted from its document is removed with its edges after the new text is written."""
    ingest([page(GUIDE, "a.md")], store)
    store.calls.clear()
    assert ingest([page("# Guide\n\nhello\n\n## Use\n\nask anything", "a.md")], store).removed == 1
    assert set(store.chunks) == {"a.md#0", "a.md#use"}
    assert store.links("sequence") == {("a.md#0", "a.md#use")}
    names = [name for name, _ in store.calls]
    assert names.index("upsert") < names.index("remove") < names.index("flush")


def test_other_documents_stay(store):
    """Documents that are not passed in are kept, unless prune_documents selects them."""
    ingest([page("a", "a.md"), page("b", "b.md"), page("c", "notes/c.md")], store)
    assert ingest([page("a", "a.md")], store).removed == 0
    assert ingest([page("a", "a.md")], store, prune_documents=lambda id: not id.startswith("notes/")).removed == 1
    assert set(store.chunks) == {"a.md#0", "notes/c.md#0"}
    store.upsert([Chunk("session:s#1", "hi", {}, "session:s")])
    ingest([page("a", "a.md")], store, prune_documents=True)
    assert set(store.chunks) == {"a.md#0", "session:s#1"}
    with pytest.raises(ConfigurationError, match="would delete all documents"):
        ingest([], store, prune_documents=True)


def test_parts_of_a_document_may_be_scattered(store):
    """Pages with one source are one document, even in different batches, and do not replace or remove each other."""
    pages = [page("text", source) for source in ["a.pdf", "b.pdf"] * 4]
    ingest(pages, store, batch_size=1)
    assert len(store.chunks) == 8
    assert counts(ingest(pages[:7], store, batch_size=1)) == (0, 0, 7, 1, 0)


def test_the_last_version_of_a_document_is_stored(store):
    """If a document occurs twice in an ingest, no chunk of its first version is left."""
    report = ingest([page(GUIDE, "a.md", id="a"), page("new", "a.md", id="a")], store)
    assert report.warnings == ("several documents have the id 'a': the last one counts",)
    assert {id: chunk.text for id, chunk in store.chunks.items()} == {"a#0": "new"}


def test_batches_are_transactions(store):
    """No write has more chunks than the batch size, and no parent is written twice."""
    splitter = ParentChildSplitter(RecursiveSplitter(30, 0), RecursiveSplitter(6, 0))
    ingest([page("one two three four. " * 60, "a"), page("x", "b")], store, split=splitter, batch_size=7)
    assert max([size for name, size in store.calls if name == "upsert" and size]) == 7
    assert len(store.parents_written) == len(store.parents) > 1
    assert {chunk.parent for chunk in store.chunks.values()} == set(store.parents)


def test_a_generator_is_read_batch_by_batch(store):
    """Documents of a batch are read only after the previous batches are written."""
    read = []

    def documents():
        for number in range(6):
            read.append(len(store.chunks))
            yield page(f"text {number}", f"{number}.md")

    ingest(documents(), store, batch_size=2)
    assert read == [0, 0, 2, 2, 4, 4]


def test_progress_is_reported():
    """A progress function receives every phase, the number of finished documents and, if known, the total."""
    steps = []
    documents = [page(str(n), f"{n}.md") for n in range(5)]
    ingest(documents, MemoryStore(), batch_size=2, progress=steps.append)
    read = [step.done for step in steps if step.phase == "reading"]
    assert read == sorted(read)
    assert read[-1] == 5
    assert {step.total for step in steps if step.unit == "documents"} == {5}
    assert {step.phase for step in steps} == {"reading", "cutting", "embedding", "edges", "index"}
    ingest(iter(documents), MemoryStore(), progress=steps.append)
    assert [step for step in steps if step.phase == "reading"][-1] == Step("reading", 5, None, "documents", share=None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ingest([], MemoryStore(), batch_size=0), "batch_size must be"),
        (lambda: ingest([], {}), "dict cannot store chunks"),
        (lambda: ingest([page("a", "a.md")], PlainStore(), prune_documents=True), "prune_documents needs"),
        (lambda: ingest(page("a", "b"), MemoryStore()), r"not Document: ingest\(\[document\], store\)"),
        (lambda: ingest("docs/", MemoryStore()), r"not str: .*read_files\(path\)"),
        (lambda: ingest(Path("docs"), MemoryStore()), r"not PosixPath: .*read_files\(path\)"),
        (lambda: ingest(MemoryStore(), [page("a", "b")]), "and then the store, not MemoryStore"),
        (lambda: ingest(7, MemoryStore()), "and then the store, not int"),
        (lambda: ingest(["docs/a.md"], MemoryStore()), "not str"),
        (lambda: ingest([], MemoryStore(), split="paragraph"), "split='paragraph'"),
        (lambda: ingest([], MemoryStore(), edges="every"), "edges='every'"),
        (lambda: ingest([page("a", "b")], MemoryStore(), split=str.strip), "strings or Documents, got 'a'; return"),
    ],
)
def test_wrong_arguments(call, message):
    """An invalid argument raises ConfigurationError, which explains what to pass."""
    with pytest.raises(ConfigurationError, match=message):
        call()


# -- invariants -------------------------------------------------------------------------------------------

words = st.lists(
    st.sampled_from(["one", "two.", "Three", "\n\n", "## A\n\n", "## B\n\n", "[x](b.md#a)", "[[c]]"]), max_size=14
)
corpus = st.dictionaries(st.sampled_from(["a.md", "b.md", "d/c.md", "d/e.md"]), words.map(" ".join), max_size=4)


def documents_of(corpus):
    return [page(text, source, uri=source) for source, text in corpus.items()]


def settings_of(size):
    return {"split": RecursiveSplitter(size, 1), "batch_size": size}


@given(corpus, corpus, st.integers(3, 9), st.integers(0, 6))
def test_an_ingest_can_be_repeated_after_a_crash(before, after, size, writes):
    """A second run after a failed write gives the same store as an uninterrupted run and embeds no text twice."""
    broken, whole = MemoryStore(), MemoryStore()
    for store in (broken, whole):
        ingest(documents_of(before), store, **settings_of(size))
    broken.fail_after = writes
    try:
        ingest(documents_of(after), broken, **settings_of(size))
    except OSError:
        broken.fail_after = None
        ingest(documents_of(after), broken, **settings_of(size))
    ingest(documents_of(after), whole, **settings_of(size))
    assert content(broken) == content(whole)
    assert sorted(broken.embedded) == sorted(whole.embedded)


# -- progress ---------------------------------------------------------------------------------------------------------


LINE = "reading: 3,000 of 7,000 files, 1 s, about 1 s left"


@pytest.mark.parametrize(("is_terminal", "expected"), [(True, f"\r\033[K{LINE}\r\033[K"), (False, f"{LINE}\n")])
def test_the_line_goes_to_stderr(monkeypatch, capsys, is_terminal, expected):
    """A line with the phase and counts is printed to stderr; on a terminal, it is replaced and deleted at the end."""
    stream, times = io.StringIO(), iter([0.0, 0.1, 0.6])
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_module, "INTERVAL", 0.5)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(times))
    with showing(True):
        report("reading", 2_000, 7_000, "files")
        report("reading", 3_000, 7_000, "files")
    assert (capsys.readouterr().out, stream.getvalue()) == ("", expected)


def test_the_share_grows_with_the_number_of_files(tmp_path):
    """If the embedding is fitted at the end, half of the ingest is done when all files are written."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("word " * 100)
    steps = []
    ingest_documents(read_files(tmp_path), HybridGraphStore(None, "lsa"), progress=steps.append, batch_size=1)
    shares = [step.share for step in steps]
    assert shares == sorted(shares)
    assert {0.25, 0.5, 0.75} <= {round(share, 6) for share in shares if share is not None}


def test_embedded_chunks_are_measured(tmp_path):
    """While chunks are embedded, the share grows with their number, and not while files are only read."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("".join(f"# {name} {n}\n\n{'word ' * 150}\n\n" for n in range(200)))
    steps = []
    store = HybridGraphStore(None, DeterministicFakeEmbedding(size=8))
    ingest_documents(read_files(tmp_path), store, progress=steps.append)
    of_chunks = [step for step in steps if step.unit == "chunks" and step.phase == "embedding"]
    embedded = [(step.done, step.total, step.share) for step in of_chunks]
    assert embedded == [(n, 400, pytest.approx(0.9 * n / 400)) for n in (0, 100, 200, 300, 400)]
    assert [step.share for step in steps if step.phase == "reading"] == [0, 0]
    assert 0.9 <= steps[-1].share <= 1


def test_the_remaining_time_does_not_grow_while_chunks_are_embedded(monkeypatch):
    """With an embedding of constant speed, the estimate falls by the time that has passed since the last one."""
    times, stream = iter([0.0, 0, 30, 40, 50, 60, 70]), io.StringIO()
    monkeypatch.setattr(progress_module, "INTERVAL", 0.0)
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(sys, "stderr", stream)
    with showing(True):
        for embedded in (0, 0, 100, 200, 300, 400):
            listener = progress_module._listener.get()
            listener(Step("embedding", embedded, 400, "chunks", embedded / 400))
    left = [line.partition(" s")[2] for line in stream.getvalue().splitlines()]
    assert left == ["", "", *(f", about {n} s left" for n in (30, 20, 10, 0))]
