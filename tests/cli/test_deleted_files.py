"""``hybridgraph ingest --prune``: only documents whose files no longer exist are deleted."""

import json
import shutil

import pytest

from langchain_hybridgraph import HybridGraphStore
from tests.cli.commands import hybridgraph
from tests.support.samples.files import write

LINES = '{"id": "p1", "text": "A grinder."}\n{"text": "A kettle."}\n{"text": "A filter."}\n'


def ingest(*arguments, code=0):
    done = hybridgraph("ingest", *arguments, "--json", "--embedding", "lsa")
    assert done.exit_code == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to a directory with files in several folders and an index of all of them."""
    monkeypatch.chdir(tmp_path)
    names = ("docs/a.md", "docs/sub/b.md", "docs/sub/c.md", "docs2/d.md", "other/e.md")
    write(tmp_path, docs__rows_DOT_jsonl=LINES, **{name: f"This is {name}." for name in names})
    ingest("docs", "docs2", "other", "--index", "index")
    with HybridGraphStore("index") as store:
        store.add_texts(["Not from a file."], [{"document_id": "mine", "uri": "docs/mine"}])
    return tmp_path


def documents():
    with HybridGraphStore("index", read_only=True) as store:
        return sorted(store.document_ids())


def test_documents_of_deleted_files_are_deleted(here):
    """--prune deletes documents of deleted files and lines below the given paths, and keeps all others."""
    before = documents()
    for name in ("docs/a.md", "docs/sub/b.md", "docs2/d.md", "other/e.md"):
        (here / name).unlink()
    (here / "docs" / "a.md").mkdir()  # a folder may have the name of a deleted file
    (here / "docs" / "rows.jsonl").write_text("".join(LINES.splitlines(keepends=True)[1:]))
    report, lines = ingest("docs", "--index", "index", "--prune"), ["docs/rows.jsonl:3", "p1"]
    expected = sorted(["docs/a.md", "docs/sub/b.md", *lines])
    assert sorted(set(before) - set(documents())) == sorted(report["pruned"]) == expected


@pytest.mark.parametrize("path", ["./docs/", "docs/sub/..", "{here}/docs", "../{name}/docs"])
def test_paths_in_any_form(here, path):
    """A path may be relative, absolute or not normalized, and still matches the ingested documents."""
    (here / "docs" / "sub" / "b.md").unlink()
    assert ingest(path.format(here=here, name=here.name), "--index", "index", "--prune")["pruned"] == ["docs/sub/b.md"]


def test_documents_of_a_folder_with_the_same_name_are_kept(here):
    """Documents below another folder with the same name are neither deleted nor reported, as long as it exists."""
    away, before = write(here / "away" / "docs", x_DOT_md="From far away."), documents()
    report = ingest(away, "--index", "index", "--prune")
    assert (report["pruned"], documents()) == ([], sorted([*before, "docs/x.md"]))
    write(away, a_DOT_md="Another text.")
    assert "would have the source 'docs/a.md'" in ingest(away, "--index", "index", code=1)
    (here / "docs" / "sub" / "b.md").unlink()
    (away / "a.md").unlink()
    assert ingest(away, "--index", "index", "--prune")["pruned"] == ["docs/sub/b.md"]


def test_a_folder_that_cannot_be_looked_into(here):
    """Documents below a folder that cannot be listed are kept."""
    (here / "docs" / "sub").chmod(0)
    try:
        assert ingest("docs", "--index", "index", "--prune")["pruned"] == []
    finally:
        (here / "docs" / "sub").chmod(0o755)


def test_a_folder_that_is_gone(here):
    """--prune deletes the documents of a deleted folder below a path, and reports how many it deleted."""
    shutil.rmtree(here / "docs" / "sub")
    assert "path 'docs/sub' does not exist" in ingest("docs/sub", "--index", "index", "--prune", code=2)
    done = hybridgraph("ingest", "docs", "--index", "index", "--prune")
    assert done.exit_code == 0
    assert "deleted 2 documents whose files are gone: docs/sub/b.md, docs/sub/c.md\n" in done.stdout


def test_a_folder_that_was_never_read(here):
    """A path that was never ingested gives an error message, and nothing is deleted."""
    before = documents()
    (here / "empty").mkdir()
    assert "nothing was read in empty" in ingest("empty", "--index", "index", "--prune", code=1)
    assert "path 'dcos' does not exist" in ingest("dcos", "--index", "index", "--prune", code=2)
    assert "path 'dcos' does not exist" in ingest("docs", "dcos", "--index", "index", "--prune", code=2)
    assert documents() == before
