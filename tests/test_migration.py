"""Copies of indexes to Milvus and back."""

import itertools
import shutil
import signal
from contextlib import closing

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, migration
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, NotAnIndexError, StoreError
from langchain_hybridgraph.migration import migrate
from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.servers.python_process import start_python

pytest.importorskip("milvus_lite")

MODEL = DeterministicFakeEmbedding(size=16)
names = (f"c{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    return f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}"


@pytest.fixture
def name():
    return next(names)


def fill(path, tenant=None, word="drummer"):
    with HybridGraphStore(path, MODEL, tenant=tenant) as store:
        chunks = [
            Chunk(f"{word}-{n}", f"The {word} plays piece {n} in the town of {n * n}.",
                  {"source": f"{word}.md", "year": 1990 + n, "share": n / 7}, parent_id=f"{word}-parent")
            for n in range(30)
        ]  # fmt: skip
        edges = [Edge(f"{word}-{n}", f"{word}-{n + 1}", "sequence", 0.3, f"then {n}") for n in range(29)]
        edges.append(Edge(f"{word}-0", f"entity:{word}", "mentions", valid_from="2020-01-01"))
        edges.append(Edge("entity:paris", "entity:france", "part_of"))  # not connected to a chunk
        store.upsert(chunks, parents=[Chunk(f"{word}-parent", f"All about the {word}.")], edges=edges)
        store.flush()
        store.sessions.add(f"session-{word}", [("user", f"Who is the {word}?")])


def contents(path, tenant=None):
    with HybridGraphStore(path, MODEL, tenant=tenant, read_only=True) as store:
        ids = store.find(Scope(tenant=tenant))
        chunks = [(chunk.id, chunk.text, dict(chunk.metadata), chunk.parent) for chunk in store.get(ids)]
        return ids, chunks, store.vectors(ids).tobytes(), store.edges([*ids, "entity:paris"])


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "index"
    fill(path)
    return path


def test_an_index_is_copied_to_milvus_and_back(index, uri, name, tmp_path, monkeypatch):
    """An index copied to Milvus and back has the same chunks in order, exact vectors and edges."""
    monkeypatch.setattr(migration, "PAGE", 7)
    there = migrate(index, uri, destination_collection=name)
    assert there.problems == ()
    assert there.copied == {"chunks": 31, "edges": 31, "parents": 1, "vectors": 31}
    assert migrate(uri, tmp_path / "back", collection=name).problems == ()
    assert contents(tmp_path / "back") == contents(index)


def test_a_write_to_the_source_is_reported(index, uri, name, tmp_path, monkeypatch):
    """A chunk that is changed while it is copied is a problem of the report."""
    shutil.copytree(index, tmp_path / "index")
    flush = MilvusChunkStore.flush

    def write_first(store):
        with HybridGraphStore(tmp_path / "index", MODEL) as source:
            source.add_texts(["Another piece."], ids=["drummer-3"])
        return flush(store)

    monkeypatch.setattr(MilvusChunkStore, "flush", write_first)
    report = migrate(tmp_path / "index", uri, destination_collection=name)
    assert not report.ok
    assert "the chunks and vectors in" in report.problems[0]
    assert "stop writing, delete the destination" in report.problems[0]


def test_a_damaged_source_is_refused(index, uri, name, tmp_path):
    """A source with a damaged vector is refused with an error that suggests a repair."""
    shutil.copytree(index, tmp_path / "index")
    [matrix] = (tmp_path / "index").glob("vectors-*.f32")
    matrix.write_bytes(b"\1" * matrix.stat().st_size)
    with pytest.raises(StoreError, match="hybridgraph repair"):
        migrate(tmp_path / "index", uri, destination_collection=name)


@pytest.mark.parametrize(
    ("source", "destination", "options", "message"),
    [
        ("index", "copy", {}, "both folders"),
        ("milvus:notes.db", "milvus:notes.db", {"collection": "hybridgraph"}, "both the source and the destination"),
        ("index", "redis://host", {}, "scheme of a store must be"),
        ("redis://host", "copy", {}, "scheme of a store must be"),
        ("milvus:notes.db", "copy", {"destination_collection": "notes"}, "it has no collection 'notes'"),
        ("nowhere", "milvus:notes.db", {}, "contains no index"),
        ("milvus:missing.db", "copy", {}, "does not exist"),
    ],
)
def test_wrong_places_are_refused(tmp_path, monkeypatch, *, source, destination, options, message):
    """Locations that cannot be copied from or to raise an error, and nothing is created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigurationError, NotAnIndexError), match=message):
        migrate(source, destination, **options)
    assert list(tmp_path.iterdir()) == []


def test_tenants_are_copied_to_milvus(uri, name, tmp_path):
    """Each tenant's data is the same after a copy to Milvus and back."""
    for tenant, word in (("ada", "xylophonist"), ("bo", "drummer")):
        fill(tmp_path / "index", tenant, word)
    assert migrate(tmp_path / "index", uri, destination_collection=name).problems == ()
    assert migrate(uri, tmp_path / "back", collection=name).problems == ()
    for tenant in ("ada", "bo"):
        assert contents(tmp_path / "back", tenant) == contents(tmp_path / "index", tenant)


def test_learned_values_become_metadata(uri, name, tmp_path):
    """A superseded fact stays superseded, and a retracted one is left out."""
    with HybridGraphStore(tmp_path / "index", MODEL) as store:
        where = [{"uri": f"people/{name}.md", "source": "people.md"} for name in ("paris", "bo", "cy")]
        store.add_texts(["Ada lives in Paris.", "Bo plays chess.", "Cy sings."], where, ids=["paris", "bo", "cy"])
        store.memory.supersede("paris", "Ada lives in Rome.", at="2024-05-01")
        store.memory.retract("cy")
        store.memory.feedback("bo", "validate")
    assert migrate(tmp_path / "index", uri, destination_collection=name).problems == ()
    with closing(MilvusStore(uri, MODEL, collection=name)) as store:
        chunks = store.get(["paris", "cy"])
    assert [(chunk.id, chunk.metadata["valid_until"][:19]) for chunk in chunks] == [("paris", "2024-04-30T23:59:59")]


def test_a_killed_copy_continues(index, tmp_path):
    """After a SIGKILL in the middle of a copy to Milvus, the same call completes it."""
    uri = f"milvus:{tmp_path / 'lite.db'}"
    code = (
        "import sys; from langchain_hybridgraph import migration; from langchain_hybridgraph.migration import migrate; "
        "migration.PAGE = 5\n"
        "migrate(*sys.argv[1:], progress=lambda step: print(step.phase, step.done, flush=True))"
    )
    with start_python("-c", code, index, uri) as process:
        for line in process.stdout:
            phase, done = line.split()
            if phase == "copying" and int(done) >= 20:
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL
    assert migrate(index, uri).problems == ()
    assert migrate(uri, tmp_path / "back").problems == ()
    assert contents(tmp_path / "back") == contents(index)


def test_a_collection_that_holds_something_else_is_refused(index, uri, name, tmp_path):
    """A collection with chunks of another source is refused as a destination."""
    fill(tmp_path / "other", word="xylophonist")
    migrate(tmp_path / "other", uri, destination_collection=name)
    with pytest.raises(StoreError, match="already contains texts that are not in"):
        migrate(index, uri, destination_collection=name)


def test_a_fitted_model_is_refused(uri, name, tmp_path):
    """An index whose model was fitted to its texts cannot be copied to Milvus."""
    HybridGraphStore.from_texts(["The cat sat.", "Dogs bark."], "lsa", path=tmp_path / "index").close()
    with pytest.raises(ConfigurationError, match="another embedding"):
        migrate(tmp_path / "index", uri, destination_collection=name)
    with pytest.raises(ConfigurationError, match="another embedding"):
        migrate(tmp_path / "index", f"milvus:{tmp_path / 'new.db'}")
    assert {path.name for path in tmp_path.iterdir()} == {"index"}


def test_a_missing_collection_is_refused(uri, tmp_path):
    """A missing collection as the source raises an error that names it, and no destination is created."""
    with pytest.raises(NotAnIndexError, match="#nothing does not exist"):
        migrate(uri, tmp_path / "copy", collection="nothing")
    assert not (tmp_path / "copy").exists()
