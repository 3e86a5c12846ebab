"""Repeated and parallel ingests of files, which give the same result as a first ingest."""

import os
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.execution.processes import worker_processes
from langchain_hybridgraph.ingestion import FileError, RecursiveSplitter, ingest, pipeline, read_files

NAMES = ("cats.md", "dogs.md", "pets/birds.md", "pets/fish/carp.md", "notes.txt", "lines.jsonl")
TITLES = ("Cats", "Dogs", "Great Auk", "Carp", "Night Owl", "Great")
SENTENCES = (
    "Cats purr.",
    "Some carp sleep near a great auk.",
    "The Great Auk met Ada Lovelace in Paris.",
    "Lovelace never saw a night owl or dogs.",
    "See [dogs](dogs.md) and [birds](pets/birds.md#food).",
    "See [cats](../cats.md).",
    "\n\n## Food\n\nThey eat seed.",
    "\n\n## Sleep\n\nThey dream of cats.",
    "\n\n## Call\n\nA night owl is not a great",
    "\n\n```\n" + 300 * "carp += 1\n" + "```\n\nSee [dogs](dogs.md#food).",
)


def store():
    return HybridGraphStore(None, DeterministicFakeEmbedding(size=8))


@pytest.fixture
def one():
    return store()


def write(root, name, title, sentences):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = " ".join(SENTENCES[each] for each in sentences)
    if name.endswith(".jsonl"):
        path.write_text(f'{{"id": "line", "text": "{SENTENCES[0]} {title}"}}\n', encoding="utf-8")
    else:
        path.write_text(f"# {TITLES[title]}\n\n{text}\n", encoding="utf-8")


def content(one):
    """Return all chunks with their texts, and all edges."""
    documents = one.document_chunks(one.document_ids())
    stored = [chunk for ids in documents.values() for chunk in one.get(list(ids))]
    chunks = {chunk.id: (chunk.text, dict(chunk.metadata)) for chunk in stored}
    sources = {*chunks, ".", "pets", "pets/fish", "docs", "docs/pets", "docs/pets/fish"}
    return chunks, set(one.edges(sorted(sources)))


contents = st.tuples(st.sampled_from(range(len(TITLES))), st.lists(st.sampled_from(range(len(SENTENCES))), max_size=4))
changes = st.dictionaries(st.sampled_from(NAMES), st.none() | contents, max_size=3)


@example(changes=[{"cats.md": (0, [4]), "dogs.md": (1, [0])}, {"dogs.md": None}])
@example(changes=[{"cats.md": (0, [3]), "dogs.md": (4, [0])}, {"dogs.md": (1, [0])}])
@example(changes=[{"cats.md": (0, [3]), "dogs.md": (4, [0])}, {"dogs.md": None}])
@example(changes=[{"cats.md": (0, [3])}, {"dogs.md": (4, [0])}])
@example(changes=[{"pets/fish/carp.md": (3, []), "cats.md": (0, [3])}, {"pets/fish/carp.md": None}])
@example(changes=[{"cats.md": (5, []), "dogs.md": (2, []), "notes.txt": (0, [8])}, {"dogs.md": None}])
@example(changes=[{"cats.md": (0, [4, 0]), "dogs.md": (1, [0])}, {"cats.md": (0, [0, 4])}])
@example(changes=[{"cats.md": (0, [4]), "dogs.md": (3, [0])}, {"dogs.md": (5, [0])}])
@example(changes=[{"cats.md": (0, [9])}, {"dogs.md": (3, [6])}])
@example(changes=[{"cats.md": (0, [9]), "dogs.md": (2, [6])}, {"dogs.md": (4, [6])}])
@example(changes=[{"cats.md": (0, [9]), "dogs.md": (3, [0])}, {"dogs.md": (3, [0, 6])}])
@given(changes=st.lists(changes, min_size=1, max_size=4))
def test_any_changes_give_what_a_first_ingest_gives(changes):
    """After any changes between ingests, chunks and edges equal those of one ingest of the final files."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "docs")
        root.mkdir()
        again = store()
        for step in changes:
            for name, new in step.items():
                if new is None:
                    (root / name).unlink(missing_ok=True)
                else:
                    write(root, name, *new)
            ingest(read_files(root, skipped=print), again, prune_documents=lambda id: True)
        fresh = store()
        ingest(read_files(root, skipped=print), fresh, prune_documents=True)  # the folder may be empty
        assert content(again) == content(fresh)


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """Folder of three files with an old modification time, so that their status is trusted."""
    monkeypatch.setattr("langchain_hybridgraph.ingestion.files._TICK", 0)
    for place, name in enumerate(("cats.md", "dogs.md", "lines.jsonl")):
        write(tmp_path / "docs", name, place, [place])
    return tmp_path / "docs"


@pytest.fixture
def opened(monkeypatch):
    """Names of the files that are opened."""
    names = []
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *more, **rest: names.append(path.name) or real(path, *more, **rest))
    return names


def counts(report):
    return report.documents, report.chunks, report.added, report.updated, report.unchanged, report.removed


def test_unchanged_files_are_not_opened(docs, opened, monkeypatch, one):
    """A file whose status (size, times, inode) is unchanged is not read, and the report counts it as unchanged. A file
    with a new modification time and the same bytes is read once, but not split again.
    """
    first = ingest(read_files(docs), one)
    before = content(one)
    os.utime(docs / "cats.md", ns=(1, 1))
    monkeypatch.setattr("langchain_hybridgraph.ingestion.splitting.Cutter.cut", None)
    opened.clear()
    for _ in range(2):
        assert counts(ingest(read_files(docs), one)) == (3, first.chunks, 0, 0, first.chunks, 0)
    assert opened == ["cats.md"]
    assert content(one) == before


def test_a_very_recent_file_is_read_again(docs, opened, monkeypatch, one):
    """A file written just before it was read is compared by its bytes, since it may have changed within the same
    tick.
    """
    monkeypatch.setattr("langchain_hybridgraph.ingestion.files._TICK", 10**15)
    ingest(read_files(docs), one)
    opened.clear()
    ingest(read_files(docs), one)
    assert sorted(opened) == ["cats.md", "dogs.md", "lines.jsonl"]


@pytest.mark.parametrize("options", [{"split": RecursiveSplitter(100, 0)}, {"split": len}, {"edges": ["sequence"]}])
def test_changed_options_read_all_files_again(docs, opened, options):
    """All files are read again if the options differ, or if a custom function makes this unclear."""
    if options.get("split") is len:
        options = {"split": lambda text: [text]}
        ingest(read_files(docs), one := store(), **options)
    else:
        ingest(read_files(docs), one := store())
    opened.clear()
    ingest(read_files(docs), one, **options)
    assert set(opened) == {"cats.md", "dogs.md", "lines.jsonl"}


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.delete(document="docs/dogs.md"),
        lambda one: one.delete(["docs/dogs.md#0"]),
        lambda one: one.add_texts(["Dogs meow."], [{"document_id": "docs/dogs.md"}], ids=["docs/dogs.md#0"]),
        lambda one: one.graph.prune(min_weight=0.99),
    ],
    ids=["document", "chunk", "replaced", "edges"],
)
def test_changes_through_the_store_are_repaired(docs, change, one):
    """A document that was changed directly in the store is read again and restored."""
    ingest(read_files(docs), one)
    before = content(one)
    change(one)
    assert content(one) != before
    ingest(read_files(docs), one)
    assert content(one) == before


def test_an_interrupted_ingest_continues(docs):
    """Files whose edges were not written when an ingest was interrupted are read again by the next one."""
    one, whole = store(), store()
    ingest(read_files(docs), whole)

    def interrupt(step):
        if step.phase == "index":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(read_files(docs), one, progress=interrupt)
    ingest(read_files(docs), one)
    assert content(one) == content(whole)


def test_the_last_of_two_files_with_one_document_is_used(docs, one):
    """If two files contain the same document, the last file is used, even if only the first one changes. The report
    names both files.
    """
    for text in ("one", "two", "three"):
        (docs / "a.jsonl").write_text(f'{{"id": "line", "text": "{text}"}}\n', encoding="utf-8")
        assert any("a.jsonl and" in warning for warning in ingest(read_files(docs), one).warnings)
        assert one.get_by_ids(["line#0"])[0].page_content.startswith("Cats purr.")
    (docs / "lines.jsonl").unlink()
    ingest(read_files(docs), one, prune_documents=True)
    assert one.get_by_ids(["line#0"])[0].page_content == "three"


def test_a_bad_line_is_named_each_time(docs, one):
    """Every ingest reports an invalid line of an unchanged file. Once it is repaired, its text is in the store."""
    good = '{"id": "first", "text": "Cats purr."}\n{"id": "second", "text": "Dogs bark."}\n'
    bad = good.replace("purr", "meow").replace('"Dogs bark."', "Dogs")
    for text in (good, bad, bad, good):
        (docs / "rows.jsonl").write_text(text, encoding="utf-8")
        report = ingest(read_files(docs, skipped=lambda message: None), one)
        reasons = [reason.partition(" is not JSON")[0] for reason in report.unread.values()]
        assert reasons == ["line 2: this line"] * (text == bad)
        expected = ["Cats meow." if text == bad else "Cats purr.", "Dogs bark."]
        assert [document.page_content for document in one.get_by_ids(["first#0", "second#0"])] == expected


def test_a_name_that_is_not_utf8(docs):
    """A file whose name is not UTF-8 is ingested with the bytes of its name in its source, and read only once."""
    try:
        Path(os.fsdecode(os.fsencode(docs) + b"/caf\xe9.md")).write_text("Cats purr.", encoding="utf-8")
    except OSError:
        pytest.skip("the file system accepts only names in UTF-8")
    one = store()
    assert ingest(read_files(docs), one).unread == {}
    assert one.get_by_ids([f"{docs.name}/caf\\xe9.md#0"])[0].page_content == "Cats purr."
    reading = read_files(docs)
    reading.read = None  # an unchanged file is not opened
    assert ingest(reading, one).added == 0


@pytest.fixture
def projects(tmp_path):
    """Two folders with the same name, each with a file of the same name."""
    for project, text in (("one", "apples"), ("two", "pears")):
        (tmp_path / project / "docs").mkdir(parents=True)
        (tmp_path / project / "docs" / "README.md").write_text(f"About {text}.")
        (tmp_path / project / "docs" / f"{text}.md").write_text(f"More about {text}.")
    return tmp_path / "one" / "docs", tmp_path / "two" / "docs"


@pytest.mark.parametrize("split", ["flat", None, RecursiveSplitter(counter=lambda text: len(text) + 1)])
def test_another_file_with_the_same_source_is_refused(projects, split, one):
    """A file does not replace another file with the same source that still exists, and nothing is written or pruned."""
    ingest(read_files(projects[0]), one, split=split)
    before = content(one)
    for path in (projects[1], projects[1] / ".." / "docs"):
        with pytest.raises(FileError, match=r"but an earlier ingest used this source .*one/docs/README\.md"):
            ingest(read_files(path), one, split=split, prune_documents=True)
    assert content(one) == before


def test_a_file_with_two_sources_is_reported(projects, one, monkeypatch):
    """If an ingest runs in another working folder, so that a file gets another source, a warning names both."""
    ingest(read_files(projects[0]), one)
    monkeypatch.chdir(projects[0])
    [warning] = ingest(read_files("."), one).warnings
    assert warning.startswith("2 files are also in the index under another source, for example 'README.md' as 'docs/R")


def test_a_moved_folder_is_an_update(projects, one):
    """Once the recorded file is gone, another file with its source replaces it, and its own path is recorded."""
    ingest(read_files(projects[0]), one)
    new_home = projects[0].parent.rename(projects[0].parent.with_name("moved"))
    assert ingest(read_files(new_home / "docs"), one).unchanged == 2
    with pytest.raises(FileError, match=r"moved/docs/README\.md"):
        ingest(read_files(projects[1]), one)
    shutil.rmtree(new_home)
    assert counts(ingest(read_files(projects[1]), one)) == (2, 2, 1, 1, 0, 0)


def test_the_same_file_through_a_link_is_not_another_file(projects, one):
    """A link to a recorded folder, and a link that leads to another folder later, are updates."""
    ingest(read_files(projects[0]), one)
    current = projects[0].parent.with_name("current")
    current.symlink_to(projects[0].parent)
    assert ingest(read_files(current / "docs"), one).unchanged == 2
    current.unlink()
    current.symlink_to(projects[1].parent)
    assert ingest(read_files(current / "docs"), one).updated == 1


@pytest.mark.parametrize("is_folder", [True, False])
def test_unreadable_files_are_not_pruned(tmp_path, monkeypatch, is_folder):
    """Pruning keeps the stored documents of files and folders that have become unreadable, and removes those of a
    missing file.
    """
    (folder := tmp_path / "folder").mkdir()
    (folder / "row.jsonl").write_text('{"id": "r3", "text": "A swan."}\n{"text": "A duck."}\n')
    files = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt", "rows.jsonl", "folder")]
    for file in files[:3]:
        file.write_text(f"Text of {file.name}.")
    files[3].write_text('{"id": "r1", "text": "An otter."}\n{"id": "r2", "text": "A heron."}\n')
    one = store()
    ingest(read_files(tmp_path if is_folder else files), one)
    files[0].write_bytes(b"\x00\xff" * 100)
    files.pop(1).unlink()
    files[2].write_text('{"id": "r1", "text": "An otter."}\n[\n')
    monkeypatch.setattr(os, "scandir", lambda path, real=os.scandir: real(path / ("x" * (path == folder))))
    ingest(read_files(tmp_path if is_folder else files, skipped=print), one, prune_documents=True)
    assert sorted(Path(id).name for id in one.document_ids()) == ["a.txt", "c.txt", "r1", "r2", "r3", "row.jsonl:2"]


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


@pytest.mark.parametrize("split", ["flat", "parent_child", RecursiveSplitter(20, 5), None])
def test_workers_change_nothing(tmp_path, monkeypatch, split):
    """Chunks, edges and counts do not depend on the process that reads a file."""
    for name, text in TEXTS.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    for number in range(20):  # enough files for worker processes to be started
        (tmp_path / f"note{number}.md").write_text(f"# Note {number}\n\nSee [Ada](ada.md), of Note {number + 1}.\n")
    monkeypatch.setattr(pipeline, "_BATCH", 1)
    results = []
    for count in (0, 1):
        monkeypatch.setattr(pipeline.processes, "worker_processes", partial(worker_processes, count))
        one = store()
        report = ingest(read_files(tmp_path, skipped=lambda _: None), one, split=split)
        results.append((replace(report, seconds=0), *content(one)))
    (_, chunks, edges), by_workers = results
    assert min(len(chunks), len(edges)) > 25
    assert by_workers == results[0]
