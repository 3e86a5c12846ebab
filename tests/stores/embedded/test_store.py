"""EmbeddedStore on disk and in memory: writes, searches, tenants, several stores on one folder, and repair."""

import copy
import os
import pickle
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import repeat
from unittest.mock import Mock, patch

import numpy as np
import pytest

from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    NotAnIndexError,
    ReadOnlyError,
    StoreError,
    TenantError,
)
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Edge, EdgeFilter, Query, Scope
from langchain_hybridgraph.stores import access, catalog_writes, index, vectors
from langchain_hybridgraph.stores import generations as packing
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex
from tests.support.models.fitted_words import FittedWords
from tests.support.stores.suite import HashedWords, StoreSuite
from tests.support.stores.words import chunk, everywhere, has_own_vectors, ids_by_vector, ids_by_word, open_named

FITTED = {"embedding": FittedWords(), "name": "fitted", "load": FittedWords.load}


class TestOnDisk(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path):
        with closing(open_named(tmp_path / "index", self.embedding, "words")) as store:
            yield store

    @pytest.fixture
    def open_tenant(self, tmp_path):
        return lambda tenant: closing(open_named(tmp_path / "index", self.embedding, "words", tenant=tenant))

    @pytest.fixture
    def open_again(self, store):
        return lambda: closing(open_named(store.path, self.embedding, "words"))


class TestInMemory(StoreSuite):
    @pytest.fixture
    def store(self):
        with closing(open_named(None, self.embedding, "words")) as store:
            yield store


@pytest.fixture
def opened(folder):
    """Return a function that opens the folder; stores that are still open at the end are closed."""
    stores = []

    def open_store(path=folder, embedding=None, name="words", **options):
        stores.append(open_named(path, embedding or HashedWords(), name, **options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def store(opened, place):
    return opened(place)


def fill(store, *chunks, **options):
    counts = store.upsert(chunks, **options)
    store.flush()
    return counts


def write(opened, *chunks, vectors=None, **options):
    """Write chunks to the folder, and close the store."""
    store = opened(**options)
    fill(store, *chunks, vectors=vectors)
    store.close()


class Reversed(HashedWords):
    """HashedWords with reversed vectors, to be used under the same name or another."""

    def embed_query(self, text):
        return super().embed_query(text)[::-1]


class Wider(HashedWords):
    def embed_query(self, text):
        return super().embed_query(text) + [0.0] * 8


class Raising(HashedWords):
    def embed_query(self, text):
        raise ConnectionError("no network")


# -- writing --------------------------------------------------------------------------------------------------------


def test_changed_metadata_keeps_the_vector(store):
    """Changing only the metadata keeps a chunk's vector, and filters use the new metadata."""
    fill(store, chunk("a", page=1))
    before = store.vectors(["a"])
    fill(store, chunk("a", page=2))
    assert store.vectors(["a"]).tolist() == before.tolist()
    assert ids_by_vector(store, "text", filter=parse_filter({"page": 2})) == ["a"]
    assert ids_by_vector(store, "text", filter=parse_filter({"page": 1})) == []


def test_equal_new_texts_are_embedded_once(store):
    """Two chunks with the same text need only one embedding."""
    counts = fill(store, chunk("a", "same"), chunk("b", "same"), chunk("c", "other"))
    assert (counts["embedded"], sorted(store.embedding.texts)) == (2, ["other", "same"])
    assert ids_by_vector(store, "same")[:2] == ["a", "b"]


def test_given_vectors_are_stored(store):
    """Vectors are scaled to length 1 and stored without calling the embedding; other numbers and widths are refused."""
    with pytest.raises(ValueError, match=r"got \(1, 64\) for 2 chunks"):
        store.upsert([chunk("a"), chunk("b")], vectors=[[1.0] * 64])
    with pytest.raises(EmbeddingMismatchError, match="64 dimensions, but the index has 3"):
        store.upsert([chunk("a")], vectors=[[1.0, 2.0, 3.0]])
    assert len(store) == 0
    fill(store, chunk("first"))
    store.embedding.texts.clear()
    counts = fill(store, chunk("a"), chunk("b"), vectors=2 * np.eye(2, 64))
    assert (counts["embedded"], store.embedding.texts) == (0, [])
    assert store.vectors(["a", "b"]).tolist() == np.eye(2, 64).tolist()


def test_given_vectors_may_come_from_elsewhere(opened):
    """A folder whose vectors were passed in opens only with the embedding that it was first opened with."""
    write(opened, chunk("a"), vectors=[[1.0] + [0.0] * 63])
    assert ids_by_vector(opened(), "text") == ["a"]
    with pytest.raises(EmbeddingMismatchError):
        opened(embedding=Reversed())


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (RuntimeError("no quota"), RuntimeError),
        ([[1.0] * 64], ValueError),
        ([[1.0] * 64, [float("nan")] * 64], ValueError),
        ([[1.0] * 32] * 2, EmbeddingMismatchError),
        ([[1.0] * 64, [1.0] * 63], ValueError),
    ],
    ids=["raises", "too few", "not finite", "other width", "ragged"],
)
def test_a_failing_embedding_writes_nothing(opened, output, error):
    """If the embedding fails or returns bad vectors, none of the batch is stored, and the next batch works."""
    store = opened()
    fill(store, chunk("old"))
    with patch.object(store.embedding, "embed_documents", side_effect=repeat(output)), pytest.raises(error):
        store.upsert([chunk("a"), chunk("b")], edges=[Edge("a", "b", "r")])
    store.flush()
    assert (everywhere(store), store.edges(["a"])) == ({"old"}, [])
    fill(store, chunk("a"))
    assert everywhere(store) == {"old", "a"}
    assert store.admin.check().ok


def test_a_chunk_that_becomes_a_parent_is_not_found_any_more(store):
    """Writing a chunk's id as a parent removes the chunk, and writing it as a chunk removes the parent."""
    fill(store, chunk("a"), chunk("b"))
    fill(store, parents=[chunk("a")])
    assert everywhere(store) == {"b"}
    assert store.read_parents(["a"], Scope()).keys() == {"a"}
    fill(store, chunk("a"))
    assert everywhere(store) == {"a", "b"}
    assert not store.has_parents


def test_replace_edges_touches_only_its_sources_and_relations(store):
    """replace_edges() keeps the edges of other sources and of other relations."""
    store.upsert([], edges=[Edge("a", "b", "r"), Edge("a", "c", "r"), Edge("a", "b", "s"), Edge("b", "c", "r")])
    assert store.replace_edges(["a"], ["r"], [Edge("a", "d", "r")]) == 1
    expected = {("a", "d", "r"), ("a", "b", "s"), ("b", "c", "r")}
    assert {(e.source, e.target, e.relation) for e in store.edges(["a", "b"])} == expected


# -- scope ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5, 0.95, 1.0])
def test_a_filter_of_any_selectivity_fills_k(store, share):
    """Both searches return min(k, matches) hits for filters of any selectivity."""
    fill(store, *(chunk(f"c{n:03}", f"text number{n}", part=n / 300) for n in range(300)))
    for search in (ids_by_vector, ids_by_word):
        hits = search(store, "text", 20, filter=parse_filter({"part": {"$lt": share}}))
        assert len(hits) == min(20, round(300 * share))
        assert all(int(id[1:]) / 300 < share for id in hits)


def test_the_derived_document_can_be_filtered(store):
    """Filters can use document_id even if it is derived from the source or the id."""
    fill(store, chunk("a", source="one.md"), chunk("b", source="two.md"), chunk("c"))
    assert ids_by_vector(store, "text", filter=parse_filter({"document_id": "one.md"})) == ["a"]
    assert ids_by_word(store, "text", filter=parse_filter({"document_id": "c"})) == ["c"]


def test_unsuitable_queries(store):
    """A query needs a text or a vector, of the index's width, and a result reports words that no vector contains."""
    fill(store, chunk("a"))
    with pytest.raises(ValueError, match="text or a vector"):
        store.vector_search(Query(None, 1), 1)
    with pytest.raises(EmbeddingMismatchError, match="3 dimensions, but the index has 64"):
        store.vector_search(Query(None, 1, vector=np.ones(3, np.float32)), 1)
    for result, reason in (
        (store.keyword_search(Query(None, 1), 1), "no-query-text"),
        (store.vector_search(Query("", 5), 5), "query-out-of-vocabulary"),
    ):
        assert (list(result.ids), result.reason) == ([], reason)


# -- opening and closing --------------------------------------------------------------------------------------------


def test_a_folder_keeps_its_language(opened):
    """A folder keeps the language that it was created with, even if another language is passed later."""
    write(opened, chunk("a", "die Häuser"), language="german")
    store = opened(language="english")
    assert (store.language, ids_by_word(store, "haus")) == ("german", ["a"])


@pytest.mark.parametrize(
    ("model", "name"),
    [(Wider(), "words"), (Reversed(), "other"), (Reversed(), "words"), (Raising(), "other"), (FittedWords(), "fitted")],
    ids=["other width", "other model", "same name, other vectors", "raises, other name", "fitted"],
)
def test_another_embedding_is_refused(opened, model, name):
    """Opening with another embedding raises an error that names the original one and releases the lock."""
    write(opened, chunk("a"))
    with pytest.raises(EmbeddingMismatchError, match="made with the embedding 'words'"):
        opened(embedding=model, name=name)
    fill(opened(), chunk("b"))


def test_an_unreachable_model_is_recognised_by_name(opened):
    """If the embedding is unreachable, keyword search works, and vector search raises the model's error."""
    write(opened, chunk("a"))
    store = opened(embedding=Raising())
    assert ids_by_word(store, "text") == ["a"]
    with pytest.raises(ConnectionError, match="no network"):
        ids_by_vector(store, "text")


def test_a_store_on_an_empty_folder_is_checked_at_the_first_chunk(opened):
    """A store refuses to work once another one has filled their empty folder with another embedding."""
    writer, same, other = opened(), opened(), opened(embedding=Reversed(), name="other")
    fill(writer, chunk("a"))
    assert ids_by_vector(same, "text") == ["a"]
    with pytest.raises(EmbeddingMismatchError):
        ids_by_vector(other, "text")
    writer.close()
    with pytest.raises(EmbeddingMismatchError):
        other.upsert([chunk("b")])


@pytest.mark.parametrize(
    ("prepare", "options", "error"),
    [
        (lambda opened, _: opened().close(), {"tenant": "one"}, (TenantError, "made without tenants")),
        (lambda opened, _: opened(tenant="one").close(), {}, (TenantError, "open it with tenant=")),
        (lambda _, folder: folder.write_text("x"), {}, (NotAnIndexError, "is a file")),
        (lambda _, folder: (folder / "x").mkdir(parents=True), {}, (NotAnIndexError, "not empty and contains.*Chroma")),
        (lambda *_: None, {"read_only": True}, (NotAnIndexError, "read_only=True cannot create one")),
        (lambda *_: None, {"write_timeout": float("nan")}, (ConfigurationError, "write_timeout must be a number")),
    ],
)
def test_unsuitable_folders_and_options_are_refused(opened, folder, prepare, options, error):
    """A folder that is not an index, or has other tenants, and invalid options raise an error and change no file."""
    prepare(opened, folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(error[0], match=error[1]):
        opened(**options)
    assert sorted(folder.rglob("*")) == before


def test_leftovers_of_an_interrupted_creation_are_ignored(opened, folder):
    """An index can be created in a folder that contains only leftovers of an interrupted creation."""
    folder.mkdir()
    for name in ("writer.lock", "catalogue.sqlite.new", "catalogue.sqlite.new-wal", "catalogue.sqlite.new-shm"):
        (folder / name).write_bytes(b"left behind")
    fill(opened(), chunk("a"))
    assert not list(folder.glob("*.new*"))


def test_read_only_reads_and_changes_nothing(opened, folder):
    """A read-only store searches normally, raises an error for every change, and modifies no file."""
    write(opened, chunk("a"))

    def files():
        paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))]
        return {path.name: path.read_bytes() for path in paths}

    before = files()
    reader = opened(read_only=True)
    assert everywhere(reader) == {"a"}
    assert reader.admin.check().problems == ()
    for change in (
        partial(reader.upsert, [chunk("b")]),
        partial(reader.remove, ["a"]),
        partial(reader.replace_edges, ["a"], ["r"], []),
        reader.flush,
        reader.admin.repair,
    ):
        with pytest.raises(ReadOnlyError, match="read_only=True"):
            change()
    reader.close()
    assert files() == before


def test_all_files_are_as_readable_as_the_folder(opened, folder):
    """With umask 022, no file of the index is private to its owner."""
    before = os.umask(0o022)
    try:
        for n in range(3):
            write(opened, chunk(f"c{n}"), **FITTED)
    finally:
        os.umask(before)
    assert [path.name for path in folder.rglob("*") if path.stat().st_mode & 0o044 != 0o044] == []


def test_a_closed_store_raises_an_error(store):
    """Every call to a closed store raises StoreError, except for closing it again."""
    fill(store, chunk("a"))
    store.close()
    store.close()
    for call in (
        partial(ids_by_vector, store, "text"),
        partial(ids_by_word, store, "text"),
        partial(store.get, ["a"]),
        partial(store.upsert, []),
        store.admin.check,
        store.admin.stats,
    ):
        with pytest.raises(StoreError, match="closed"):
            call()


# -- engines in step ------------------------------------------------------------------------------------------------


def test_a_reader_of_an_index_left_behind_reports_it(opened, folder, monkeypatch):
    """If a writer died before indexing its last text, readers report "keyword-behind" until a writer opens."""
    store = opened()
    fill(store, chunk("a", "an old text"))
    store.upsert([chunk("b", "a new text")])
    store.close()
    monkeypatch.setattr(access, "BEHIND_SECONDS", -1.0)
    result = opened(read_only=True).keyword_search(Query("text", 9), 9)
    assert (list(result.ids), result.reason) == (["a"], "keyword-behind")
    result = opened().keyword_search(Query("text", 9), 9)
    assert (sorted(result.ids), result.reason) == (["a", "b"], None)


@pytest.mark.parametrize(
    ("place", "expected"), [("disk", (["a"], "keyword-fallback")), ("memory", ([], "no-keyword-index"))]
)
def test_texts_that_are_not_indexed_yet_are_reported(opened, folder, place, expected):
    """Before the first flush, keyword search scans the texts of a folder, or reports a missing index."""
    store = opened(folder if place == "disk" else None)
    store.upsert([chunk("a")])
    result = store.keyword_search(Query("text", 1), 1)
    assert (list(result.ids), result.reason) == expected
    store.flush()
    result = store.keyword_search(Query("text", 1), 1)
    assert (list(result.ids), result.reason) == (["a"], None)


def test_a_failing_engine_loses_nothing(opened, monkeypatch, caplog):
    """If an engine fails, the error states that nothing is lost, stores can be opened, and a later flush repairs it."""
    store = opened()
    fill(store, chunk("a"))
    monkeypatch.setattr(TantivyIndex, "apply", Mock(side_effect=StoreError("no space left on device")))
    store.upsert([chunk("b")])
    with pytest.raises(StoreError, match=r"in the catalog, but.*no space left"):
        store.flush()
    other = opened()
    assert set(ids_by_vector(other, "text")) == {"a", "b"}
    assert "no space left" in caplog.text
    assert any("no space left" in problem for problem in other.admin.check().problems)
    monkeypatch.undo()
    store.flush()
    assert everywhere(store) == {"a", "b"}
    assert other.admin.check().problems == ()


# -- a model fitted to the corpus -----------------------------------------------------------------------------------


@pytest.fixture
def fitted(opened, place):
    return opened(place, **FITTED)


def test_chunks_that_wait_for_the_fit(fitted):
    """Before the fit, chunks are read but have no vectors, as check reports; repair() fits the model to embed them."""
    assert fitted.admin.check().problems == ()
    fitted.upsert([chunk("a", "red cat"), chunk("b", "blue dog")])
    result = fitted.vector_search(Query("cat", 1), 1)
    assert (list(result.ids), result.reason) == ([], "no-lsa-index")
    assert fitted.read(["a"], Scope(), {}).keys() == {"a"}
    assert not fitted.vectors(["a"]).any()
    assert fitted.vector_scores(np.ones(16, np.float32), ["a"]) == {}
    (problem,) = fitted.admin.check().problems
    assert "chunks without a vector: 2," in problem
    assert fitted.admin.repair().problems == ()
    assert ids_by_vector(fitted, "cat")[0] == "a"


def test_vectors_cannot_be_given_to_a_fitted_model(fitted):
    """A store with a fitted model refuses vectors=, since they would be lost at the next fit."""
    with pytest.raises(ValueError, match="fitted to the texts"):
        fitted.upsert([chunk("a")], vectors=[[1.0] * 16])
    assert len(fitted) == 0


def test_the_model_is_fitted_again_when_the_corpus_has_doubled(fitted):
    """When the corpus has doubled, a new model is fitted, used for all chunks, and replaces the old files."""
    fill(fitted, chunk("a", "red"), chunk("b", "blue"))
    fill(fitted, chunk("c", "green"))
    assert (fitted.admin.stats()["generation"], fitted.embedding.words) == (1, ["blue", "red"])
    fill(fitted, chunk("d", "pink"))
    assert (fitted.admin.stats()["generation"], fitted.embedding.words) == (2, ["blue", "green", "pink", "red"])
    for id, word in (("a", "red"), ("c", "green"), ("d", "pink")):
        assert ids_by_vector(fitted, word)[0] == id
    if fitted.path:
        assert generations(fitted.path) == {"2"}
    assert fitted.admin.check().problems == ()


def test_the_model_is_fitted_again_when_it_needs_a_refit(fitted):
    """A model that needs a refit is fitted again once new texts are written; refit() fits it at once."""
    assert (fitted.admin.refit(), fitted.admin.stats()["generation"]) == (0, 0)
    fill(fitted, *(chunk(f"c{n}", "red") for n in range(5)))
    fitted.embedding.is_due = True
    fitted.flush()
    assert fitted.admin.stats()["generation"] == 1
    fill(fitted, chunk("new", "zebra"))
    assert (fitted.admin.stats()["generation"], ids_by_vector(fitted, "zebra")[0]) == (2, "new")
    fill(fitted, chunk("c", "green"))
    assert fitted.embedding.words == ["red", "zebra"]
    assert fitted.admin.refit() == 7
    assert (fitted.admin.stats()["generation"], fitted.embedding.words) == (3, ["green", "red", "zebra"])
    assert ids_by_vector(fitted, "green")[0] == "c"
    assert fitted.admin.check().problems == ()


def test_a_pretrained_model_is_not_fitted(opened):
    """refit() with a pretrained model raises a ConfigurationError that names the model."""
    with pytest.raises(ConfigurationError, match="words is pretrained, so it cannot be fitted"):
        opened().admin.refit()


def test_the_model_is_fitted_again_for_the_chunks_of_all_tenants(opened):
    """The model is fitted again when the folder has doubled, even if no single tenant has."""
    for tenant, words in (("x", ["red", "blue"]), ("y", ["green"]), ("z", ["pink"])):
        write(opened, *(chunk(word, word) for word in words), **FITTED, tenant=tenant)
    store = opened(**FITTED, tenant="x")
    assert (store.admin.stats()["generation"], store.embedding.words) == (2, ["blue", "green", "pink", "red"])


def generations(folder):
    """Return the numbers of the generations that have files in the folder."""
    return {path.stem.partition("-")[2] for stem in ("vectors", "model") for path in folder.glob(f"{stem}-*")}


def fitted_folder(opened, *texts):
    store = opened(**FITTED)
    fill(store, *(chunk(f"c{n}", text) for n, text in enumerate(texts)))
    return store


def test_readers_follow_a_new_generation(opened):
    """A reader that stays open uses a newly fitted model and its matrix at its next call."""
    writer = fitted_folder(opened, "red", "blue")
    reader = opened(**FITTED, read_only=True)
    assert ids_by_vector(reader, "red")[0] == "c0"
    for n, word in enumerate(("green", "pink", "black", "white", "grey", "brown")):
        fill(writer, chunk(f"new{n}", word))
        assert ids_by_vector(reader, "red")[0] == "c0"
    assert reader.admin.stats()["generation"] == 3
    assert ids_by_vector(reader, "black")[0] == "new2"


def test_a_text_is_embedded_again_if_the_model_is_fitted_meanwhile(opened, monkeypatch):
    """If another store fits the model while a text is embedded, the text gets a vector of the new model."""
    store = fitted_folder(opened, "red", "blue")
    other = opened(**FITTED)
    embed, races = FittedWords.embed_documents, []

    def race(model, texts):
        vectors = embed(model, texts)
        if texts == ["red dog"] and not races:
            races.append(other.upsert([chunk("early", "amber")]))
            other.admin.refit()
        return vectors

    monkeypatch.setattr(FittedWords, "embed_documents", race)
    store.upsert([chunk("late", "red dog")])
    expected = vectors.unit(store.embedding.embed_documents(["red dog"]))
    assert (len(races), store.vectors(["late"]).tolist()) == (1, expected.tolist())


# -- space -----------------------------------------------------------------------------------------------------------


def replace_many(store, rounds, *, checkpoint=True):
    """Replace 20 of 200 texts per round, and delete 20 others; return the sizes of the folder after each round."""
    sizes = []
    for number in rounds:
        changed = [chunk(f"c{(number * 20 + n) % 200}", f"# {n} of round {number}") for n in range(20)]
        fill(store, *changed, *(chunk(f"new{n}") for n in range(20)))
        store.remove([f"new{n}" for n in range(20)])
        if store.path and checkpoint:
            store._index.catalog.checkpoint()
            sizes.append(store.admin.stats()["bytes"])
    return sizes


@pytest.mark.parametrize("kind", ["words", "fitted"])
def test_the_space_of_deleted_vectors_is_used_again(opened, folder, monkeypatch, kind):
    """The folder grows by less than 10 %, and an open reader continues to find exactly the present texts."""
    for module, name in ((packing, "MOST_DEAD"), (index, "KEPT_VERSIONS"), (catalog_writes, "_KEPT_CHANGES")):
        monkeypatch.setattr(module, name, 10)
    options = {"embedding": FittedWords(), "name": "fitted", "load": FittedWords.load} if kind == "fitted" else {}
    store = opened(**options)
    fill(store, *(chunk(f"c{n}", f"# {n} of round {n // 20}") for n in range(200)))
    reader = opened(**options, read_only=True)
    expected = {f"c{n}" for n in range(200)}
    sizes = replace_many(store, range(10))
    for first in (10, 20):
        assert set(ids_by_vector(reader, "#", 300)) == expected
        sizes += replace_many(store, range(first, first + 10))
    assert max(sizes[20:]) < 1.1 * max(sizes[10:20])
    [matrix] = folder.glob("vectors-*.f32")
    assert matrix.stat().st_size < 1.2 * 200 * store.vectors(["c0"]).nbytes
    assert set(ids_by_vector(reader, "#", 300)) == expected
    texts = [entry.text for entry in reader.get(sorted(expected))]
    assert np.allclose(reader.vectors(sorted(expected)), vectors.unit(store.embedding.embed_documents(texts)))
    assert store.admin.check().problems == ()


NOW = 1_800_000_000


def state_of(store, ids, scope):
    """Return everything that a store answers from its tables in memory, in a form that can be compared."""
    query, columns = Query("text of c3 or c5", 300, scope), store.memory.columns(ids, scope)
    keywords, tree = store.keyword_search(query, 300), store.scoped_tree(scope)
    scores = dict(keywords.scores)
    assert store.keyword_scores(query.text, list(scores)) == pytest.approx(scores)
    assert keywords.exact.keys() <= scores.keys() == set(store.find(scope))
    graph = store.scoped_graph(scope, EdgeFilter())
    nodes = graph.nodes(ids)
    assert graph.ids(nodes[nodes >= 0]) == [id for id, node in zip(ids, nodes.tolist(), strict=True) if node >= 0]
    links = graph.links(nodes[nodes >= 0])
    return {
        "vectors": list(store.vector_search(query, 300).scores.items()),
        "keywords": (list(scores.items()), keywords.exact),
        "chunks": store.find(scope),
        "memories": [[str(value) for value in column] for column in (columns.confidence, columns.valid_until)],
        "tree": [(tree.uri(n), tree.state(n), tree.chunks(n), tree.context_type(n)) for n in tree.top()],
        "links": sorted(zip(links.origin.tolist(), graph.ids(links.node), links.weight.tolist(), strict=True)),
    }


@pytest.mark.parametrize("seldom", [True, False])
def test_a_store_that_stays_open_answers_like_a_new_one(opened, monkeypatch, seldom):
    """While rows are packed many times, the tables in memory stay equal to those of a newly opened store.

    If a reader searches seldom, it reads the whole state again, otherwise only the changes.
    """
    monkeypatch.setattr(packing, "MOST_DEAD", 5)
    if seldom:
        monkeypatch.setattr(index, "KEPT_VERSIONS", 5)
        monkeypatch.setattr(catalog_writes, "_KEPT_CHANGES", 5)
    rng, store, reader = random.Random(7), opened(), opened(read_only=True)
    ids, texts = [f"c{n}" for n in range(60)], {"stays": "text of stays"}
    scopes = [Scope(), Scope(filter=parse_filter({"part": {"$gte": 1}})), Scope(as_of=NOW)]
    fill(store, chunk("leaves"), chunk("stays"))
    store.remove(["leaves"])
    first_state = store.scoped_tree(Scope()).state(store.scoped_tree(Scope()).node("stays"))
    for round in range(24):
        later = {id: f"text of {id}" + f" # {round}" * rng.randrange(2) for id in rng.sample(ids, 12)}
        metadata = {"confidence": rng.random(), "part": rng.randrange(3), "valid_until": NOW + rng.randrange(-5, 5)}
        edges = [Edge(*rng.sample(ids, 2), "r", rng.random()) for _ in range(4)]
        metadata |= {"context_type": "skill"} if round % 2 else {}
        fill(store, *(chunk(id, text, **metadata) for id, text in later.items()), edges=edges)
        deleted = rng.sample(ids, 4)
        store.remove(deleted)
        texts = {id: text for id, text in (texts | later).items() if id not in deleted}
        picks = rng.sample(sorted(texts.keys() - {"stays"}), 5)
        store.memory.feedback(picks[:4], "useful" if round % 2 else "stale")
        store.memory.retract(picks[4])
        scopes.append(Scope(known_at=store.clock(), as_of=NOW))
        if round % (7 if seldom else 3) == 2:
            each, fresh = [*scopes[:3], scopes[-round // 2], scopes[-1]], opened()
            expected = [state_of(fresh, ids, scope) for scope in each]
            assert [state_of(reader, ids, scope) for scope in each] == expected
            assert [state_of(store, ids, scope) for scope in each] == expected
            assert {entry.id: entry.text for entry in reader.get([*ids, "stays"])} == texts
            assert has_own_vectors(reader, texts)
    tree = reader.scoped_tree(Scope())
    assert tree.state(tree.node("stays")) == first_state
    assert (len(store._index.rows) <= 90, store._index.generation.packing.number > 5) == (True, True)
    assert store.admin.check().problems == ()


@pytest.fixture
def store_of_200(opened, monkeypatch):
    """Return a store of 200 texts whose rows are packed as soon as ten of them are unused."""
    monkeypatch.setattr(packing, "MOST_DEAD", 10)
    store = opened()
    fill(store, *(chunk(f"c{n}", confidence=0.25) for n in range(200)))
    return store


def test_memories_are_read_after_all_texts_have_been_replaced(store_of_200):
    """The states of known and unknown chunks can be read although packing has left none of the earlier rows."""
    store = store_of_200
    assert store.memory.columns(["c0"], Scope()).confidence.tolist() == [0.25]
    fill(store, *(chunk(f"d{n}", confidence=0.75) for n in range(200)))
    store.remove([f"c{n}" for n in range(200)])
    assert store.memory.columns(["c0"], Scope()).confidence.tolist() == pytest.approx([np.nan], nan_ok=True)
    store.remove([f"d{n}" for n in range(200)])
    assert store.memory.columns(["d0"], Scope()).confidence.tolist() == pytest.approx([np.nan], nan_ok=True)


def test_vectors_are_kept_while_the_log_is_needed(store_of_200, folder, opened, tmp_path):
    """While a reader prevents the log from being copied into the catalog, no vectors of the catalog are deleted."""
    store_of_200._index.catalog.checkpoint()
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM nodes").fetchone()
        replace_many(store_of_200, [1, 2], checkpoint=False)
        shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    copy_of_index = opened(tmp_path / "copy", read_only=True)
    assert len(ids_by_vector(copy_of_index, "text", 300)) == len(copy_of_index) == 200
    replace_many(store_of_200, range(3))
    assert [file.name for file in folder.glob("vectors-*.f32")] != ["vectors-0.f32"]


def test_damaged_numbers_of_rows_are_reported_and_repaired(store_of_200, folder, opened):
    """check names damage to the file with the row numbers, although the store is open, and repair keeps the vectors."""
    replace_many(store_of_200, [1])
    [file] = folder.glob("vectors-*.rows")
    file.write_bytes(bytes(file.stat().st_size))
    assert "numbers of its rows is damaged" in str(store_of_200.admin.check().problems)
    assert store_of_200.admin.repair().problems == ()
    assert len(ids_by_vector(opened(), "text", 300)) == 200


def test_new_texts_are_found_if_the_numbers_of_all_earlier_rows_are_lost(store_of_200, folder, opened, monkeypatch):
    """Filters, memories and the tree have the texts that were added after a packing whose numbers are lost."""
    replace_many(store_of_200, [1])
    monkeypatch.setattr(packing, "MOST_DEAD", 1_000)
    fill(store_of_200, chunk("new", part=1, confidence=0.5))
    store_of_200.remove([f"c{n}" for n in range(200)])
    [file] = folder.glob("vectors-*.rows")
    file.unlink()
    store = opened()
    assert store.find(Scope(filter=parse_filter({"part": 1}))) == ["new"]
    assert store.memory.columns(["new"], Scope()).confidence.tolist() == [0.5]
    assert len(store.scoped_tree(Scope()).top()) == 1


def test_the_spread_of_a_past_time_is_not_used_for_the_present(opened):
    """A search at a time without texts does not change the statistics of a later search."""
    store = opened(None)
    fill(store, *(chunk(f"c{n}", f"text {n % 7} of {n}", valid_from="2020-01-01") for n in range(300)))
    query = Query("text 3 of 5", 5, Scope(as_of=1_700_000_000))
    assert store.vector_search(replace(query, scope=Scope(as_of=0)), 5).background is None
    assert store.vector_search(query, 5).background is not None


def test_an_index_in_memory_frees_deleted_vectors(opened, monkeypatch):
    """After many replacements, an index in memory has the vectors of exactly the present texts."""
    monkeypatch.setattr(packing, "MOST_DEAD", 10)
    store = opened(None)
    fill(store, *(chunk(f"c{n}") for n in range(200)))
    replace_many(store, range(10))
    assert set(ids_by_vector(store, "text", 300)) == {f"c{n}" for n in range(200)}
    assert len(store._index.generation.matrix._matrix) < 300


def test_lost_numbers_of_packed_rows_are_repaired(opened, folder, store_of_200):
    """Without the numbers of packed rows, searches say so, new texts work, and repair() embeds the others again."""
    replace_many(store_of_200, range(3))
    store_of_200.close()
    [file] = folder.glob("vectors-0.*.rows")
    file.write_bytes(file.read_bytes()[8:])
    again = opened()
    assert again.vector_search(Query("text", 5), 5).reason == "no-vector-index"
    fill(again, chunk("late"))
    assert ids_by_vector(again, "text of late")[0] == "late"
    assert any("without a usable vector" in problem for problem in again.admin.check().problems)
    assert again.admin.repair().problems == ()
    assert set(ids_by_vector(again, "text", 300)) == {"late", *(f"c{n}" for n in range(200))}


def test_a_full_disk_only_delays_the_use_of_free_space(store_of_200, folder, monkeypatch):
    """If vectors cannot be written again, texts are still deleted, and no partial files are left."""

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vectors.VectorMatrix, "sync", fail)
    replace_many(store_of_200, range(3))
    assert (len(store_of_200), generations(folder)) == (200, {"0"})
    monkeypatch.undo()
    assert set(ids_by_vector(store_of_200, "text", 300)) == {f"c{n}" for n in range(200)}


# -- care -----------------------------------------------------------------------------------------------------------


def change_words(folder, remove=(), add=()):
    """Change Tantivy's rows without the store, and without changing the version that the index has applied."""
    with closing(TantivyIndex(folder / "keywords", writable=True)) as index:
        index.apply(index.applied_version, [(row, "text ghost") for row in add], remove)


def execute(folder, statement):
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute(statement)


def drop_outbox(folder):
    """Write two rows, and delete the outbox entry that lists them."""
    with closing(open_named(folder, HashedWords(), "words")) as store:
        store.upsert([chunk("late"), chunk("a", "text changed")])
    execute(folder, "DELETE FROM changes WHERE version = (SELECT max(version) FROM changes)")


DAMAGES = {
    "a row missing in Tantivy": partial(change_words, remove=[1]),
    "a row too many in Tantivy": partial(change_words, add=[77]),
    "no Tantivy": lambda folder: shutil.rmtree(folder / "keywords"),
    "Tantivy's head overwritten": lambda folder: (folder / "keywords/meta.json").write_bytes(b"\0damaged" * 500),
    "an outbox entry dropped": drop_outbox,
    "an edge to nothing": partial(execute, statement="INSERT INTO edges VALUES (1, 'r', 9999, 1.0, '', NULL, NULL, 0)"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_check_reports_damage_and_repair_fixes_it(opened, folder, damage):
    """check() reports damage that opening has not repaired, and after repair every chunk is found."""
    write(opened, chunk("a"), chunk("b"), chunk("c"))
    DAMAGES[damage](folder)
    again = opened()
    problems = "".join(again.admin.check().problems)
    assert "1 edges point to missing nodes" in problems if "edge" in damage else not problems
    assert again.admin.repair().problems == ()
    expected = {"a", "b", "c", "late"} if "outbox" in damage else {"a", "b", "c"}
    assert everywhere(again) == expected
    again.close()
    assert opened().admin.check().problems == ()


def test_a_sound_store_has_no_problems(store):
    """For an undamaged store, check() reports no problems, nothing unchecked, and the numbers of chunks and edges."""
    fill(store, chunk("a"), chunk("b"), parents=[chunk("p")], edges=[Edge("a", "nowhere", "r")])
    report = store.admin.check()
    assert (report.ok, report.problems, report.unchecked, report.counts) == (True, (), (), {"chunks": 2, "edges": 1})


@pytest.mark.parametrize(("offset", "bits"), [(256, 1), (300, 0x40), (511, 0x80)])
def test_repair_embeds_only_damaged_chunks(opened, folder, offset, bits):
    """Repairing a matrix with one flipped bit embeds only the text of the damaged chunk."""
    write(opened, chunk("a"), chunk("b"), chunk("c"))
    data = bytearray((folder / "vectors-0.f32").read_bytes())
    data[offset] ^= bits
    (folder / "vectors-0.f32").write_bytes(data)
    again = opened()
    again.embedding.texts.clear()
    again.admin.repair()
    assert again.embedding.texts == ["text of b"]


def test_stats_are_counts_and_facts(opened):
    """stats() returns counts, properties of the index and its size on disk."""
    store = opened()
    fill(store, chunk("a"), chunk("b"), parents=[chunk("p")], edges=[Edge("a", "b", "r")])
    stats = store.admin.stats()
    assert stats.pop("bytes") > 1000
    nothing = dict.fromkeys(("entities", "sessions", "retracted", "layers", "generation"), 0)
    facts = {"dimension": 64, "embedding": "words", "language": "english", "tenant": None, "version": 1}
    assert stats == {"chunks": 2, "parents": 1, "edges": 1, **nothing, **facts}


@pytest.mark.parametrize("copied", [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy])
def test_a_store_on_disk_is_copied_by_its_path(opened, folder, copied):
    """A copy has only the settings of a used store, opens the folder on first use, can write, and outlives the store.

    If the folder is gone, each use of a copy raises NotAnIndexError.
    """
    first = opened()
    fill(first, chunk("a", uri="a/b"), edges=[Edge("a", "b", "r")])
    everywhere(first)
    first.memory.columns(["a"], Scope())
    first.scoped_tree(Scope())
    first.summaries.index()
    assert len(pickle.dumps(first)) < 2_000
    second = copied(first)
    assert second._index._opened is None
    first.close()
    fill(second, chunk("b"))
    assert everywhere(second) == {"a", "b"}
    assert second.admin.check().ok
    third = copied(second)
    second.close()
    (folder / "catalogue.sqlite").unlink()
    for _ in range(2):
        with pytest.raises(NotAnIndexError, match="contains no index"):
            len(third)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_store_in_memory_cannot_be_copied(opened, copied):
    """Copying or pickling a store in memory raises a StoreError that suggests a folder."""
    with pytest.raises(StoreError, match=r"in memory cannot be copied or pickled: give it a folder, EmbeddedStore"):
        copied(opened(None))
