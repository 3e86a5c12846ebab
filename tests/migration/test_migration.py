"""Copies of indexes and Chroma collections, compared with their source."""

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

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError, NotAnIndexError, StoreError
from langchain_hybridgraph.ingestion import ingest, read_files
from langchain_hybridgraph.ingestion.summaries import build_layers
from langchain_hybridgraph.migration import migrate, migration
from langchain_hybridgraph.migration.chroma_server import ChromaServer
from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.stores.embedded.folder.shared_folder import CATALOG
from langchain_hybridgraph.stores.embedded.tenants import list_tenants
from langchain_hybridgraph.stores.embedded.transfer import EmbeddedDestination, EmbeddedSource
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
    assert (report.copied["chunks"], report.copied["summaries"], report.left_out) == (31, 1, {})
    assert (report.same_vector_results, report.same_keyword_results) == (1.0, 1.0)
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


def test_a_killed_copy_continues(tmp_path):
    """After a SIGKILL in the middle of a copy, the same call completes it without duplicates or gaps."""
    fill(tmp_path / "index", chunks=400)
    code = (
        "import sys; from langchain_hybridgraph.migration import migrate as m; import langchain_hybridgraph.migration."
        "migration as module; module.PAGE = 20; from langchain_hybridgraph.execution.processes import Step\n"
        "print(m(*sys.argv[1:], progress=lambda step: print(step.phase, step.done, flush=True)).ok)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "index"), str(tmp_path / "copy")]
    for pages in (1, 6, 15):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                phase, done = line.split()
                if phase == "copying" and int(done) >= pages * 20:
                    process.kill()
                    break
        assert process.returncode == -signal.SIGKILL
        assert EmbeddedDestination(tmp_path / "copy").progress() is not None
    report = migrate(tmp_path / "index", tmp_path / "copy")
    assert (report.problems, report.resumed) == ((), True)
    assert EmbeddedDestination(tmp_path / "copy").progress() is None
    assert everything(tmp_path / "copy") == everything(tmp_path / "index")


def test_a_source_that_was_written_to_is_reported(tmp_path, monkeypatch):
    """A write to the source during the copy is reported, and the copy stays unfinished."""
    fill(tmp_path / "index", chunks=10)
    compare = migration._Copy.compare

    def write_first(copy):
        with HybridGraphStore(tmp_path / "index", MODEL) as store:
            store.delete(["drummer-1"])
        return compare(copy)

    monkeypatch.setattr(migration._Copy, "compare", write_first)
    report = migrate(tmp_path / "index", tmp_path / "copy")
    assert not report.ok
    assert "was written to during the migration" in report.problems[0]
    assert EmbeddedDestination(tmp_path / "copy").progress() is not None


def test_a_difference_is_reported(index, tmp_path, monkeypatch):
    """A record that changes during the copy is reported when the copy is compared."""
    write = EmbeddedDestination.write

    def spoiled(self, tenant, kind, records, progress):
        if kind == "chunks":
            records = [record._replace(vector=np.roll(record.vector, 1)) for record in records]
        write(self, tenant, kind, records, progress)

    monkeypatch.setattr(EmbeddedDestination, "write", spoiled)
    report = migrate(index, tmp_path / "copy")
    assert any(problem.startswith("vectors: 31 were copied, and they differ") for problem in report.problems)


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


def test_another_unfinished_copy_is_refused(index, tmp_path, monkeypatch):
    """A destination with an unfinished copy of one source refuses another source."""
    fill(tmp_path / "other", chunks=8)
    monkeypatch.setattr(EmbeddedDestination, "flush", lambda self: (_ for _ in ()).throw(StoreError("full")))
    with pytest.raises(StoreError, match="full"):
        migrate(index, tmp_path / "copy")
    monkeypatch.undo()
    with pytest.raises(StoreError, match="unfinished copy of"):
        migrate(tmp_path / "other", tmp_path / "copy")


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
    assert (report.problems, report.copied["chunks"], report.same_vector_results) == ((), 25, 1.0)
    with HybridGraphStore(tmp_path / "copy", MODEL) as store:
        assert store.get_by_ids(["music-3"]) == [
            Document(id="music-3", page_content="Piece 3 for the drummer.", metadata={"source": "a.md", "year": 1993})
        ]
        assert store.similarity_search("Piece 7 for the drummer.", k=1)[0].id == "music-7"


def test_results_of_a_collection_ordered_by_distance_are_not_compared(chroma, tmp_path):
    """Vector results are not compared if the collection is ordered by distance instead of cosine."""
    report = migrate(chroma, tmp_path / "copy", collection="other", embedding=MODEL)
    assert (report.problems, report.same_vector_results) == ((), None)


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
    assert (report.problems, report.same_vector_results) == ((), 1.0)
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


def test_a_changed_text_in_a_collection_is_reported(server, tmp_path, monkeypatch):
    """A change of a Chroma collection during the copy is reported."""
    compare = migration._Copy.compare

    def write_first(copy):
        with closing(chromadb.HttpClient(port=urlsplit(server.url).port, tenant="ada", database="notes")) as client:
            collection = client.get_collection("music", embedding_function=None)
            collection.update(ids=["music-3"], metadatas=[{"year": 2000}])
        return compare(copy)

    monkeypatch.setattr(migration._Copy, "compare", write_first)
    report = migrate(server, tmp_path / "copy", embedding=MODEL)
    assert ["was written to during the migration" in problem for problem in report.problems] == [True]


def test_a_source_lists_the_tenants_and_counts(index):
    """A source returns the tenants, the dimension and the counts of its index."""
    with closing(EmbeddedSource(Path(index))) as source:
        facts = source.facts()
        assert (facts.tenants, facts.has_tenants, facts.dimension) == (("",), False, 16)
        assert source.counts("")["chunks"] == 31
