"""Summaries of directories: their content, their length, when they are updated, and their index."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, StoreError
from langchain_hybridgraph.ingestion import build_layers, ingest
from langchain_hybridgraph.ingestion.summaries import Directory, DirectoryEntry, Summary, extracted, name_of
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.text.sentences import ABSTRACT_LENGTH, OVERVIEW_LENGTH
from tests.support.models.saying_model import SayingModel
from tests.support.samples.clock import NOW, stop_the_clock

PAGES = {
    "docs/guide.md": "# Guide\n\n## Install\n\nRun the installer. It takes a minute.\n\n## Use\n\nOpen the window.",
    "docs/api/get.md": "Gets a thing by its id.",
    "docs/api/put.md": "Puts a thing into the store.",
    "notes/today.md": "Zebrafish were fed.",
}


def pages(**changed):
    contents = PAGES | changed
    texts = {uri: text for uri, text in contents.items() if text}
    return [Document(text, metadata={"uri": uri, "title": name_of(uri)}, id=uri) for uri, text in texts.items()]


def store_with_pages(path=None):
    store = HybridGraphStore(path, DeterministicFakeEmbedding(size=8))
    ingest(pages(), store)
    return store


@pytest.fixture
def store():
    return store_with_pages()


def layer(store, uri):
    (chunk,) = store.summaries.index().get([uri])
    return chunk


class Noted:
    """Summariser that records the directories that it receives."""

    def __init__(self, failing=()):
        self.directories, self.failing = [], set(failing)

    def __call__(self, directory):
        self.directories.append(directory.uri)
        if directory.uri in self.failing:
            raise RuntimeError("no tokens left")
        return Summary(f"About {directory.uri}", "- " + "\n- ".join(part.name for part in directory.parts))


# -- without a model --------------------------------------------------------------------------------------------


def test_a_summary_consists_of_its_contents(store):
    """A summary consists of lead sentences of documents and abstracts of directories."""
    build_layers(store)
    abstract = "api: get.md (Gets a thing by its id.), put.md (Puts a thing into the store.)"
    assert layer(store, "docs/api").metadata["abstract"] == abstract
    assert layer(store, "docs").text.splitlines()[:3] == [
        "docs: api, guide.md (Run the installer. It takes a minute.)",
        abstract,
        "guide.md: Run the installer. It takes a minute.",
    ]
    ingest(pages(**{"docs/api/get.md": "Gets things."}), store)
    build_layers(store)
    assert "get.md (Gets things.)" in layer(store, "docs").text


def test_a_directory_that_is_a_document_is_summarised_from_its_text():
    """The summary of a directory that is a document contains its lead sentences and headings."""
    summary = extracted(Directory("d", "Manual", PAGES["docs/guide.md"], (DirectoryEntry("x", "Of x."),)))
    assert summary.abstract == "Manual: Run the installer. It takes a minute."
    assert summary.overview.splitlines()[1:] == ["Sections: Install; Use", "x: Of x."]


@given(
    st.text(max_size=9_000),
    st.text(max_size=300),
    st.lists(st.tuples(st.text(max_size=400), st.text(max_size=400)), max_size=300),
)
def test_layers_are_short(text, title, parts):
    """For any content, the abstract (L0) and the overview (L1) stay within their maximum lengths."""
    summary = extracted(Directory("d", title, text, tuple(DirectoryEntry(*part) for part in parts)), ["term"] * 500)
    assert len(summary.abstract) <= ABSTRACT_LENGTH
    assert len(summary.overview) <= OVERVIEW_LENGTH


# -- updates ------------------------------------------------------------------------------------------------------


def test_only_changed_directories_are_summarised_again(tmp_path):
    """A changed text updates the summary of its directory, and of the directory above only if that summary changed.
    Changed metadata do not.
    """
    store = store_with_pages(tmp_path)
    build_layers(store, first := Noted())
    assert first.directories == ["docs/api", "docs", "notes"]
    for page in (changed := pages()):
        page.metadata["year"] = 2024
    ingest(changed, store)
    build_layers(store, again := Noted())
    assert again.directories == []
    ingest(pages(**{"docs/api/get.md": "Gets things by their ids."}), store)
    build_layers(store, changed := Noted())
    assert changed.directories == ["docs/api"]
    store.close()


def test_an_interrupted_run_continues(tmp_path):
    """Summaries written before an interruption are kept, and the next run makes only the others."""
    store = store_with_pages(tmp_path)

    class Dies(Noted):
        def __call__(self, directory):
            if len(self.directories) == 2:
                raise KeyboardInterrupt
            return super().__call__(directory)

    with pytest.raises(KeyboardInterrupt):
        build_layers(store, Dies())
    store.close()
    store = HybridGraphStore(tmp_path, DeterministicFakeEmbedding(size=8))
    build_layers(store, rest := Noted())
    assert rest.directories == ["notes"]
    store.close()


def test_summaries_of_deleted_directories_are_removed(store):
    """The summary of a directory without documents is deleted, and the directory above no longer mentions it."""
    build_layers(store)
    store.delete(document=["docs/api/get.md", "docs/api/put.md"])
    report = build_layers(store)
    assert (report.removed, sorted(store.summaries.index().document_ids())) == (1, ["docs", "notes"])
    assert "api" not in layer(store, "docs").text


# -- with a model -----------------------------------------------------------------------------------------------


def test_a_model_writes_the_summaries(store):
    """A model receives the parts of each directory and writes its abstract and overview."""
    model = SayingModel(answer={"abstract": "All about things.", "overview": "Things are got and put."})
    build_layers(store, model)
    assert len(model.calls) == 3
    assert "Gets a thing by its id." in str(model.calls[0])
    assert "All about things." in str(model.calls[1])  # docs, which contains docs/api
    assert layer(store, "docs/api").metadata["abstract"] == "All about things."
    assert layer(store, "docs/api").text.splitlines()[:2] == ["All about things.", "Things are got and put."]


def test_summaries_of_a_model_are_kept(store):
    """A run without a model replaces only outdated summaries, and the next run with a model replaces those."""
    build_layers(store, Noted())
    assert build_layers(store).summarised == 0
    ingest(pages(**{"notes/today.md": "Okapis were fed."}), store)
    assert build_layers(store).summarised == 1
    assert layer(store, "docs").metadata["abstract"] == "About docs"
    assert layer(store, "notes").metadata["abstract"] == "notes: today.md (Okapis were fed.)"
    build_layers(store, again := Noted())
    assert again.directories == ["notes"]


@pytest.mark.parametrize("answer", ["prose", {"overview": "x"}, {"abstract": "  "}, None, 7])
def test_an_unusable_answer(answer, store):
    """After an unusable answer the extracted summary is used with a warning, and the next run calls the model again."""
    failing = Noted(failing=["docs", "docs/api", "notes"])
    assert len(build_layers(store, failing if answer is None else SayingModel(answer=answer)).warnings) == 3
    assert layer(store, "notes").metadata["abstract"] == "notes: today.md (Zebrafish were fed.)"
    build_layers(store, again := Noted())
    assert len(again.directories) == 3


# -- bad input --------------------------------------------------------------------------------------------------


def test_a_store_without_a_tree():
    """A store without a directory tree raises ConfigurationError, which names it and a suitable store."""
    with pytest.raises(ConfigurationError, match="InMemoryVectorStore has none; ingest into a HybridGraphStore"):
        build_layers(InMemoryVectorStore(DeterministicFakeEmbedding(size=8)))


# -- the index of summaries -------------------------------------------------------------------------------------------

PETS = {"pets/cats.md": "Cats purr and sleep.", "pets/dogs.md": "Dogs bark at night.", "cars/fast.md": "It is fast."}


def summarized_store(path=None, embedding="lsa", **options):
    store = HybridGraphStore(path, embedding, **options)
    store.upsert([Chunk(uri, text, {"uri": uri}, uri) for uri, text in PETS.items()])
    store.flush()
    return store


@pytest.mark.parametrize("retriever", [HybridRetriever, GraphRetriever])
def test_summaries_do_not_affect_other_searches(retriever):
    """Search results of a store are the same with and without summaries, which are counted separately."""
    with_layers, without = summarized_store(), summarized_store()
    build_layers(with_layers)
    for question in ("Which pets purr?", "pets", "cars fast"):
        one, other = (retriever(store, k=10).retrieve(question) for store in (with_layers, without))
        assert [(hit.id, hit.score) for hit in one.hits] == [(hit.id, hit.score) for hit in other.hits]
    assert with_layers.find(Scope()) == without.find(Scope())
    assert with_layers.document_ids() == without.document_ids()
    assert [store.admin.stats()["layers"] for store in (with_layers, without)] == [2, 0]
    assert with_layers.admin.check().counts == {"chunks": 3, "edges": 0, "layers": 2}


def test_a_reader_sees_summaries_that_are_made_later(tmp_path):
    """A reader sees summaries made after it was opened, creates none, and they are there after reopening the folder."""
    with summarized_store(tmp_path) as writer, HybridGraphStore(tmp_path, read_only=True) as reader:
        with pytest.raises(StoreError, match="read_only"):
            build_layers(reader)
        assert reader.summaries.index() is None
        build_layers(writer)
        assert len(reader.summaries.index()) == 2
    for read_only in (False, True):
        with HybridGraphStore(tmp_path, read_only=read_only) as store:
            assert sorted(store.summaries.index().document_ids()) == ["cars", "pets"]
    with HybridGraphStore(tmp_path) as store:
        assert build_layers(store).unchanged == 2


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_new_model_embeds_the_summaries_again(tmp_path, in_memory):
    """When the model is fitted again, the texts of the summaries are kept and embedded with the new model."""
    with summarized_store(None if in_memory else tmp_path) as store:
        build_layers(store)
        generation = store.admin.stats()["generation"]
        more = [Chunk(f"more/{n}", f"word{n} other{n} text", {"uri": f"more/{n}"}, f"more/{n}") for n in range(20)]
        store.upsert(more)
        store.flush()
        assert store.admin.stats()["generation"] > generation
        assert sorted(store.summaries.current().get(["cars", "pets", "more"])) == ["cars", "pets"]
        assert "pets" in store.summaries.index().vector_search(Query("Which pets purr?", 5), 5).ids
        assert build_layers(store).summarised == 1
        assert sorted(store.summaries.index().document_ids()) == ["cars", "more", "pets"]
        assert len(list(tmp_path.glob("layers-*"))) == (not in_memory)


def test_a_new_model_keeps_the_summaries_of_all_tenants(tmp_path):
    """Each tenant has its own summaries; a refit caused by one tenant keeps those of all tenants."""
    for tenant in ("one", "two"):
        with HybridGraphStore(tmp_path, tenant=tenant) as store:
            store.upsert([Chunk("a", f"a text of {tenant}", {"uri": f"{tenant}/a"}, "a")])
            build_layers(store)
            assert store.summaries.index().document_ids() == [tenant]
    with HybridGraphStore(tmp_path, tenant="two") as store:
        store.add_texts([f"word{n} other{n} text" for n in range(40)])
        generation = store.admin.stats()["generation"]
    for tenant in ("one", "two"):
        with HybridGraphStore(tmp_path, tenant=tenant, read_only=True) as store:
            assert list(store.summaries.current().get(["one", "two"])) == [tenant]
    assert [folder.name for folder in tmp_path.glob("layers-*")] == [f"layers-{generation}"]


HISS = Chunk("pets/cats.md", "Cats hiss.", {"uri": "pets/cats.md"}, "pets/cats.md")


@pytest.mark.parametrize("change", [lambda store: store.upsert([HISS]), lambda store: store.remove(["pets/dogs.md"])])
def test_a_change_hides_a_summary_at_once(tmp_path, change):
    """Changing or deleting a chunk hides its directory's summary in every process until it is made again."""
    embedding = DeterministicFakeEmbedding(size=8)
    with (
        summarized_store(tmp_path, embedding) as writer,
        HybridGraphStore(tmp_path, embedding, read_only=True) as reader,
    ):
        build_layers(writer)
        assert sorted(reader.summaries.current().get(["cars", "pets"])) == ["cars", "pets"]
        change(writer)
        for store in (writer, reader):
            summaries = store.summaries.current()
            assert list(summaries.get(["cars", "pets"])) == ["cars"]
            assert [summaries.is_current(uri) for uri in ("cars", "pets", "nowhere")] == [True, False, False]
        report = build_layers(writer)
        assert (report.summarised, report.unchanged) == (1, 1)
        assert sorted(reader.summaries.current().get(["cars", "pets"])) == ["cars", "pets"]


def test_a_text_that_expires_hides_the_summary(monkeypatch):
    """A summary is hidden once a text below it has expired, even without a write; a new one leaves the text out."""
    stop_the_clock(monkeypatch)
    store, later = summarized_store(), NOW.timestamp() + 3_600
    store.upsert([Chunk("pets/old.md", "An old secret.", {"uri": "pets/old.md", "valid_until": later}, "pets/old.md")])
    build_layers(store)
    assert list(store.summaries.current().get(["pets"])) == ["pets"]
    monkeypatch.setattr(time, "time", lambda: later + 1)
    assert list(store.summaries.current().get(["pets"])) == []
    build_layers(store)
    assert "secret" not in layer(store, "pets").text


def damage_pages(catalog):
    raw = bytearray(catalog.read_bytes())
    for start in range(4_096, len(raw), 4_096):
        raw[start : start + 40] = b"\xff" * 40
    catalog.write_bytes(raw)


@pytest.mark.parametrize("refits", [True, False])
@pytest.mark.parametrize("damage", [lambda catalog: catalog.write_bytes(bytes(5_000)), damage_pages, Path.unlink])
def test_damaged_summaries_are_reported_and_written_again(tmp_path, damage, refits):
    """Damaged summaries stop no write; searches report layers-failed, check names them, repair writes them again."""
    embedding = "lsa" if refits else DeterministicFakeEmbedding(size=8)
    with summarized_store(tmp_path, embedding) as store:
        build_layers(store)
    (folder,) = tmp_path.glob("layers-*")
    damage(folder / "catalogue.sqlite")
    for log in folder.glob("catalogue.sqlite-*"):
        log.unlink()
    with HybridGraphStore(tmp_path, embedding) as store:
        assert store.add_texts(["A new text."], ids=["new"]) == ["new"]
        result = HierarchicalRetriever(store).find("cats purr")
        assert "layers-failed" in result.degraded
        assert "pets/cats.md" in [hit.uri for hit in result]
        (problem,) = store.admin.check().problems
        assert re.match(r"summaries of directories: .*layers-.*; repair\(\) writes them again", problem)
        assert store.admin.repair().problems == ()
        assert "layers-failed" not in HierarchicalRetriever(store).find("cats purr").degraded
        assert sorted(store.summaries.index().document_ids()) == ["cars", "pets"]
        assert build_layers(store).unchanged == 2
