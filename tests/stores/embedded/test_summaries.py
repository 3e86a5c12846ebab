"""Separate index of summaries: hidden from all other searches, and updated with the vectors."""

import re
import time
from pathlib import Path

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridGraphStore, HybridRetriever, build_layers
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.records import Query, Scope
from tests.support.samples.clock import NOW, stop_the_clock

PAGES = {"pets/cats.md": "Cats purr and sleep.", "pets/dogs.md": "Dogs bark at night.", "cars/fast.md": "It is fast."}


def summarized_store(path=None, embedding="lsa", **options):
    store = HybridGraphStore(path, embedding, **options)
    store.upsert([Chunk(uri, text, {"uri": uri}, uri) for uri, text in PAGES.items()])
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
        entries = store.summaries.index().vector_search(Query("Which pets purr?", 5), 5).entries
        assert "pets" in [entry.id for entry in entries]
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


def change_text(store):
    store.upsert([Chunk("pets/cats.md", "Cats hiss.", {"uri": "pets/cats.md"}, "pets/cats.md")])


@pytest.mark.parametrize("change", [change_text, lambda store: store.remove(["pets/dogs.md"])])
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
    """A summary is hidden once a text below it has expired, even without a write."""
    stop_the_clock(monkeypatch)
    store, later = summarized_store(), NOW.timestamp() + 3_600
    store.upsert([Chunk("pets/old.md", "An old secret.", {"uri": "pets/old.md", "valid_until": later}, "pets/old.md")])
    build_layers(store)
    assert list(store.summaries.current().get(["pets"])) == ["pets"]
    monkeypatch.setattr(time, "time", lambda: later + 1)
    assert list(store.summaries.current().get(["pets"])) == []


def test_check_includes_the_summaries(tmp_path):
    """check() reports a problem in the index of summaries as such, and repair() fixes it."""
    store = summarized_store(tmp_path, DeterministicFakeEmbedding(size=8))
    build_layers(store)
    with store.summaries.index()._index.catalog.writing() as connection:
        connection.execute("INSERT INTO edges VALUES (1, 'lost', 999, 1.0, '', NULL, NULL, 0)")
    assert store.admin.check().problems == ("summaries of directories: 1 edges point to missing nodes",)
    assert store.admin.repair().ok
    store.close()


def fill_with_zeros(catalog):
    catalog.write_bytes(bytes(5_000))


def damage_pages(catalog):
    raw = bytearray(catalog.read_bytes())
    for start in range(4_096, len(raw), 4_096):
        raw[start : start + 40] = b"\xff" * 40
    catalog.write_bytes(raw)


@pytest.mark.parametrize("refits", [True, False])
@pytest.mark.parametrize("damage", [fill_with_zeros, damage_pages, Path.unlink])
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
