"""Copies of indexes and Chroma collections, compared with their source."""

import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import chromadb
import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, migration
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    NotAnIndexError,
    StoreError,
    StoreLockedError,
)
from langchain_hybridgraph.ingestion import ingest, read_files
from langchain_hybridgraph.ingestion.summaries import build_layers
from langchain_hybridgraph.migration import ChromaServer, migrate
from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.stores import folder as folder_module
from langchain_hybridgraph.stores.folder import CATALOG
from langchain_hybridgraph.stores.tenants import list_tenants
from tests.support.servers.chroma_server import ChromaRun

MODEL = DeterministicFakeEmbedding(size=16)


def fill(path, tenant=None, word="drummer", chunks=30):
    """Write every kind of data: chunks, parents, edges, a session, feedback, a mode and summaries."""
    with HybridGraphStore(path, MODEL, tenant=tenant) as store:
        texts = [
            Chunk(f"{word}-{n}", f"The {word} plays piece {n} in the town of {n * n}.",
                  {"source": f"{word}.md", "uri": f"{word}/{n}.md", "year": 1990 + n, "labels": ["music"]},
                  parent_id=f"{word}-parent")
            for n in range(chunks)
        ]  # fmt: skip
        edges = [
            *(Edge(f"{word}-{n}", f"{word}-{n + 1}", "sequence", 0.5, f"then the {word}") for n in range(chunks - 1)),
            Edge(f"{word}-0", f"entity:{word}", "mentions", valid_from="2020-01-01"),
        ]
        store.upsert(texts, parents=[Chunk(f"{word}-parent", f"All about the {word}.")], edges=edges)
        store.flush()
        store.sessions.add(f"session-{word}", [("user", f"Who is the {word}?")])
        store.memory.feedback(f"{word}-0", "validate")
        store.memory.credibility(f"{word}.md")
        store.memory.supersede(f"{word}-4", f"The {word} has retired.", at="2024-01-01")
        store.memory.retract(f"{word}-5")
        store.delete([f"{word}-6"])
        store.memory.set_mode("procedural")
        build_layers(store)


def everything(path, tenant=None):
    """Return everything that a user can see of a store."""
    with HybridGraphStore(path, MODEL, tenant=tenant, read_only=True) as store:
        ids = store.find(Scope(tenant=tenant))
        summaries = store.summaries.current()
        facts = store.admin.stats()
        return {
            "ids": ids,
            "chunks": [(chunk.id, chunk.text, dict(chunk.metadata), chunk.parent) for chunk in store.get(ids)],
            "vectors": store.vectors(ids).tobytes(),
            "edges": store.edges(ids),
            "memory": store.memory.states(ids, Scope(tenant=tenant)),
            "yesterday": store.memory.states(ids, Scope(tenant=tenant, known_at=0.0)),
            "before": [hit.id for hit in store.similarity_search("drummer", k=5, as_of="2023-01-01")],
            "sessions": store.sessions.counts(),
            "mode": store.memory.mode,
            "summaries": {} if summaries is None else {uri: chunk.text for uri, chunk in
                                                       summaries.get(summaries.store.document_ids()).items()},
            "counts": {name: facts[name] for name in ("chunks", "parents", "edges", "entities", "retracted")},
        }  # fmt: skip


def kill_at(source, destination, *, done, page=1_000, **options):
    """Start a copy in another process, and kill it when this number of chunks has been copied."""
    code = f"""
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_hybridgraph import migration
migration.PAGE = {page}
model = DeterministicFakeEmbedding(size=16) if {options} else None
migration.migrate({str(source)!r}, {str(destination)!r}, embedding=model, **{options},
                  progress=lambda step: print(step.phase, step.done, flush=True))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            phase, number = line.rsplit(" ", 1)
            if phase == "copying" and int(number) >= done:
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Return an index without tenants that contains every kind of data."""
    path = tmp_path_factory.mktemp("source") / "index"
    fill(path)
    return path


def test_everything_is_copied(index, tmp_path):
    """Chunks in order, exact vectors, edges, memory, sessions, mode and summaries are copied."""
    report = migrate(index, tmp_path / "copy")
    assert report.problems == ()
    assert report.copied == report.verified
    counts = {name: report.copied[name] for name in ("chunks", "retracted", "summaries", "settings")}
    assert (counts, report.left_out) == ({"chunks": 30, "retracted": 1, "summaries": 1, "settings": 2}, {})
    original = everything(index)
    assert original["summaries"], "the source has summaries to compare"
    assert everything(tmp_path / "copy") == original


def test_the_history_of_a_memory_is_copied(index, tmp_path):
    """With known_at before a fact was superseded, the copy gives the same validity as the source."""
    migrate(index, tmp_path / "copy")
    for path in (index, tmp_path / "copy"):
        with HybridGraphStore(path, MODEL) as store:
            now = store.memory.states(["drummer-4"], Scope())["drummer-4"]
            then = store.memory.states(["drummer-4"], Scope(known_at=now.learned_at))["drummer-4"]
        assert (now.valid_until is None, then.valid_until) == (False, None)


def test_tenants_stay_apart(tmp_path):
    """Each tenant has the same data in the copy as in the source, and no other data."""
    for tenant, word in (("ada", "xylophonist"), ("bo", "drummer")):
        fill(tmp_path / "index", tenant, word, chunks=8)
    assert migrate(tmp_path / "index", tmp_path / "copy").problems == ()
    assert list_tenants(tmp_path / "copy") == list_tenants(tmp_path / "index")
    for tenant in ("ada", "bo"):
        assert everything(tmp_path / "copy", tenant) == everything(tmp_path / "index", tenant)


def test_the_model_of_an_lsa_index_is_copied(tmp_path):
    """The copy of an LSA index uses the same model and embeds nothing again."""
    texts = [f"The {animal} sleeps on the {place}." for animal in ("cat", "dog", "cow") for place in ("mat", "roof")]
    HybridGraphStore.from_texts(texts, "lsa", path=tmp_path / "index").close()
    assert migrate(tmp_path / "index", tmp_path / "copy").problems == ()
    answers = []
    for path in (tmp_path / "index", tmp_path / "copy"):
        with HybridGraphStore(path) as store:
            answers.append(store.similarity_search_with_score("a cat", k=3))
            assert store.flush() == 0
    assert answers[0] == answers[1]


def test_an_ingest_continues_in_the_copy(tmp_path):
    """The copy keeps the record of files that were ingested into the source."""
    (tmp_path / "notes.txt").write_text("The technician visits on Tuesdays.")
    with HybridGraphStore(tmp_path / "index", MODEL) as store:
        ingest(read_files([tmp_path / "notes.txt"]), store)
        recorded = store.files.read()
    migrate(tmp_path / "index", tmp_path / "copy")
    with HybridGraphStore(tmp_path / "copy", MODEL) as store:
        assert store.files.read() == recorded != []


def test_a_killed_copy_of_a_folder_leaves_no_index(tmp_path):
    """After a SIGKILL in the middle of a copy, there is no index at the destination, and the same call completes it."""
    fill(tmp_path / "index", chunks=400)
    kill_at(tmp_path / "index", tmp_path / "copy", done=100)
    assert not (tmp_path / "copy").exists()
    assert migrate(tmp_path / "index", tmp_path / "copy").problems == ()
    assert {path.name for path in tmp_path.iterdir()} == {"index", "copy"}
    assert everything(tmp_path / "copy") == everything(tmp_path / "index")


def test_writers_wait_while_a_folder_is_copied(tmp_path, monkeypatch):
    """A write to the source during the copy raises StoreLockedError, and the copy is complete."""
    fill(tmp_path / "index", chunks=10)
    verify = migration._Copy._verify

    def write_first(copy, *arguments):
        with (
            HybridGraphStore(tmp_path / "index", MODEL, write_timeout=0.1) as store,
            pytest.raises(StoreLockedError),
        ):
            store.delete(["drummer-1"])
        return verify(copy, *arguments)

    monkeypatch.setattr(migration._Copy, "_verify", write_first)
    assert migrate(tmp_path / "index", tmp_path / "copy").ok
    assert everything(tmp_path / "copy") == everything(tmp_path / "index")


def test_a_read_only_folder_is_copied(index, tmp_path):
    """A folder that cannot be written to, and therefore cannot be locked, can be copied."""
    shutil.copytree(index, tmp_path / "index")
    for path in (tmp_path / "index", *(tmp_path / "index").rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert migrate(tmp_path / "index", tmp_path / "copy").problems == ()
    finally:
        for path in (tmp_path / "index", *(tmp_path / "index").rglob("*")):
            path.chmod(0o700)
    assert everything(tmp_path / "copy") == everything(index)


def test_a_difference_is_reported(index, tmp_path, monkeypatch):
    """A vector that changes during the copy is reported, and the folder does not get its name."""
    copy_file = folder_module._copy_file

    def spoiled(source, destination):
        copy_file(source, destination)
        if source.endswith(".f32") and Path(source).parent == index:
            vectors = np.fromfile(destination, np.float32)
            np.roll(vectors, 1).tofile(destination)

    monkeypatch.setattr(folder_module, "_copy_file", spoiled)
    report = migrate(index, tmp_path / "copy")
    assert any(problem.startswith("vectors: 30 were copied, and they differ") for problem in report.problems)
    assert list(tmp_path.iterdir()) == []


def test_a_destination_that_holds_something_is_refused(index, tmp_path):
    """A destination with an index is refused and not changed."""
    fill(tmp_path / "other", chunks=8)
    before = (tmp_path / "other" / CATALOG).read_bytes()
    with pytest.raises(StoreError, match="already contains an index"):
        migrate(index, tmp_path / "other")
    assert (tmp_path / "other" / CATALOG).read_bytes() == before


def test_a_copy_of_a_store_into_itself_is_refused(index):
    """The error does not advise to delete the folder, which is also the source."""
    with pytest.raises(ConfigurationError, match="both the source and the destination: choose a new folder"):
        migrate(index, f"{index}/../{index.name}")
    with pytest.raises(ConfigurationError, match="or another destination collection"):
        migrate("milvus:notes.db", "milvus:notes.db", destination_collection="hybridgraph")


@pytest.mark.parametrize(
    ("destination", "error"),
    [("file.txt", NotAnIndexError), ("folder", NotAnIndexError), ("redis://host", ConfigurationError)],
)
def test_a_wrong_destination_is_refused(index, tmp_path, destination, error):
    """A file, a folder with other contents, and a URI of an unknown kind are refused as destinations."""
    (tmp_path / "file.txt").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("")
    with pytest.raises(error):
        migrate(index, destination if "://" in destination else tmp_path / destination)


def test_a_folder_has_no_collection(index, tmp_path):
    """The name of a collection is refused for an index folder, as a source and as a destination."""
    for option in ("collection", "destination_collection"):
        with pytest.raises(ConfigurationError, match=r"so it has no collection 'notes': leave the collection out"):
            migrate(index, tmp_path / "copy", **{option: "notes"})
    assert not (tmp_path / "copy").exists()


def test_a_wrong_source_is_refused(tmp_path):
    """A source path without an index raises NotAnIndexError and creates no destination."""
    with pytest.raises(NotAnIndexError, match="contains no index"):
        migrate(tmp_path / "nowhere", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_another_embedding_is_refused(index, tmp_path):
    """Another embedding than that of the source's vectors is refused, since vectors are copied."""
    with pytest.raises(EmbeddingMismatchError, match="leave the embedding out"):
        migrate(index, tmp_path / "copy", embedding="lsa")


def test_a_damaged_source_is_refused(index, tmp_path):
    """A source with a damaged vector is refused with an error that suggests a repair."""
    fill(tmp_path / "index", chunks=8)
    [matrix] = (tmp_path / "index").glob("vectors-*.f32")
    matrix.write_bytes(b"\1" * matrix.stat().st_size)
    with pytest.raises(StoreError, match="hybridgraph repair"):
        migrate(tmp_path / "index", tmp_path / "copy")


# -- Chroma ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chroma(tmp_path_factory):
    """Return a Chroma folder with two collections."""
    path = tmp_path_factory.mktemp("chroma")
    texts = [f"Piece {n} for the drummer." for n in range(25)]
    with closing(chromadb.PersistentClient(str(path))) as client:
        for name in ("music", "other"):
            space = {"music": "cosine", "other": "l2"}[name]
            collection = client.create_collection(
                name, configuration={"hnsw": {"space": space}}, embedding_function=None
            )
            collection.add(
                ids=[f"{name}-{n}" for n in range(25)],
                documents=texts,
                metadatas=[{"source": "a.md", "year": 1990 + n} for n in range(25)],
                embeddings=MODEL.embed_documents(texts),
            )
    return path


def test_a_chroma_collection_is_copied(chroma, tmp_path, monkeypatch):
    """A Chroma collection is copied in pages to an index with the same texts, metadata and vector results."""
    monkeypatch.setattr(migration, "PAGE", 7)
    report = migrate(chroma, tmp_path / "copy", collection="music", embedding=MODEL)
    assert (report.problems, report.copied["chunks"]) == ((), 25)
    with HybridGraphStore(tmp_path / "copy", MODEL) as store:
        assert store.get_by_ids(["music-3"]) == [
            Document(id="music-3", page_content="Piece 3 for the drummer.", metadata={"source": "a.md", "year": 1993})
        ]
        assert store.similarity_search("Piece 7 for the drummer.", k=1)[0].id == "music-7"


def test_a_collection_must_be_named_among_several(chroma, tmp_path):
    """A folder with several collections, or without the one named, raises an error that lists them."""
    with pytest.raises(StoreError, match="several collections; pass collection=…, one of: music, other"):
        migrate(chroma, tmp_path / "copy", embedding=MODEL)
    with pytest.raises(StoreError, match="no collection 'musik'; its collections are: music, other"):
        migrate(chroma, tmp_path / "copy", collection="musik", embedding=MODEL)


def test_the_model_of_a_collection_must_be_named_and_right(chroma, tmp_path):
    """Copying a collection without naming its embedding, or with a different one, raises an error."""
    with pytest.raises(ConfigurationError, match="does not record which model"):
        migrate(chroma, tmp_path / "copy", collection="music")
    with pytest.raises(ConfigurationError, match="'lsa' cannot be the model of a Chroma collection"):
        migrate(chroma, tmp_path / "copy", collection="music", embedding="lsa")
    with pytest.raises(EmbeddingMismatchError, match="16 dimensions"):
        migrate(chroma, tmp_path / "copy", collection="music", embedding=DeterministicFakeEmbedding(size=8))

    class Other(DeterministicFakeEmbedding):
        def embed_documents(self, texts):
            return super().embed_documents([text.upper() for text in texts])

    with pytest.raises(EmbeddingMismatchError, match="were not computed by"):
        migrate(chroma, tmp_path / "copy", collection="music", embedding=Other(size=16))
    assert not (tmp_path / "copy").exists()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return a Chroma server with a collection of 25 pieces in a tenant and database of its own."""
    run = ChromaRun(tmp_path_factory.mktemp("server"))
    run.start()
    settings = chromadb.Settings(
        chroma_api_impl="chromadb.api.fastapi.FastAPI", chroma_server_host="127.0.0.1", chroma_server_http_port=run.port
    )
    admin = chromadb.AdminClient(settings)
    admin.create_tenant("ada")
    admin.create_database("notes", "ada")
    texts = [f"Piece {n} for the drummer." for n in range(25)]
    with closing(chromadb.HttpClient(port=run.port, tenant="ada", database="notes")) as client:
        collection = client.create_collection(
            "music", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        collection.add(
            ids=[f"music-{n}" for n in range(25)],
            documents=texts,
            metadatas=[{"source": "a.md", "year": 1990 + n} for n in range(25)],
            embeddings=MODEL.embed_documents(texts),
        )
    yield ChromaServer(run.url, tenant="ada", database="notes")
    run.stop()


def test_a_collection_of_a_server_is_copied(server, tmp_path, monkeypatch):
    """A collection of a Chroma server is copied in pages, with the same metadata and vector results."""
    monkeypatch.setattr(migration, "PAGE", 7)
    report = migrate(server, tmp_path / "copy", embedding=MODEL)
    assert report.problems == ()
    assert report.copied == report.verified == {"chunks": 25, "vectors": 25}
    with HybridGraphStore(tmp_path / "copy", MODEL) as store:
        assert store.get_by_ids(["music-3"])[0].metadata == {"source": "a.md", "year": 1993}


def test_the_url_of_a_server_is_a_source(server, tmp_path):
    """A URL as the source means the server's default database; a missing collection or server is a clear error."""
    with pytest.raises(StoreError, match="has no collections"):
        migrate(server.url, tmp_path / "copy", collection="music", embedding=MODEL)
    with pytest.raises(StoreError, match="could not connect"):
        migrate("http://127.0.0.1:1", tmp_path / "copy", collection="music", embedding=MODEL)
    assert not (tmp_path / "copy").exists()


def test_a_killed_copy_of_a_collection_continues(chroma, tmp_path):
    """After a SIGKILL in the middle of a copy, the same call completes it without duplicates or gaps."""
    for done in (7, 14):
        kill_at(chroma, tmp_path / "copy", done=done, page=7, collection="music")
    report = migrate(chroma, tmp_path / "copy", collection="music", embedding=MODEL)
    assert (report.problems, report.resumed, report.copied["chunks"]) == ((), True, 25)
    again = migrate(chroma, tmp_path / "copy", collection="music", embedding=MODEL)
    assert (again.problems, again.resumed, again.verified) == ((), True, report.verified)


def test_other_chunks_in_the_destination_are_refused(chroma, tmp_path):
    """A destination with chunks that are not in the source, or with another text under an id, is not changed."""
    migrate(chroma, tmp_path / "copy", collection="music", embedding=MODEL)
    before = everything(tmp_path / "copy")
    with pytest.raises(StoreError, match="already contains chunks that are not in"):
        migrate(chroma, tmp_path / "copy", collection="other", embedding=MODEL)
    with HybridGraphStore(tmp_path / "other", MODEL) as store:
        store.add_texts(["Another piece."], ids=["music-24"])
    with pytest.raises(StoreError, match="already contains another text with the id 'music-24'"):
        migrate(chroma, tmp_path / "other", collection="music", embedding=MODEL)
    assert everything(tmp_path / "copy") == before


def test_a_changed_text_in_a_collection_is_reported(server, tmp_path, monkeypatch):
    """A change of a Chroma collection during the copy is reported."""
    verify = migration._Copy._verify

    def write_first(copy, *arguments):
        with closing(chromadb.HttpClient(port=urlsplit(server.url).port, tenant="ada", database="notes")) as client:
            collection = client.get_collection("music", embedding_function=None)
            collection.update(ids=["music-3"], metadatas=[{"year": 2000}])
        return verify(copy, *arguments)

    monkeypatch.setattr(migration._Copy, "_verify", write_first)
    report = migrate(server, tmp_path / "copy", embedding=MODEL)
    assert ["was written to during the migration" in problem for problem in report.problems] == [True]
