"""Lost or damaged vector files: searches report them, and repair() restores the results."""

import os
from contextlib import closing

import numpy as np
import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.stores import vectors as vectors_module
from tests.support.stores.words import Words

COUNT = 300
TEXTS = [f"animal{n % 50} colour{n % 7} number{n}" for n in range(COUNT)]
ROW = 64 * 4


def opened(folder, kind="words", **options):
    return HybridGraphStore(folder, "lsa" if kind == "fitted" else Words(), **options)


@pytest.fixture(params=["words", "fitted"])
def kind(request):
    return request.param


@pytest.fixture
def folder(tmp_path, kind):
    with closing(opened(tmp_path / "index", kind)) as store:
        store.upsert([Chunk(f"c{n}", text) for n, text in enumerate(TEXTS)])
        store.flush()
    return tmp_path / "index"


def answers(store):
    """Return the results of vector search and of hybrid search, with their reasons."""
    alone = [store.vector_search(Query(text, 10), 10) for text in TEXTS[::60]]
    both = [HybridRetriever(store, k=5).retrieve(text) for text in TEXTS[::60]]
    return (
        [(result.entries, result.reason) for result in alone],
        [([document.id for document in result], result.degraded) for result in both],
    )


def reasons(store):
    alone, both = answers(store)
    reasons_of_both = {reason for _, degraded in both for reason in degraded}
    assert reasons_of_both == {reason for _, reason in alone if reason is not None}
    assert all(ids for ids, _ in both), "the keyword search returned no ids"
    return reasons_of_both


def rewrite(pattern, change):
    def damage(folder):
        (file,) = folder.glob(pattern)
        file.write_bytes(change(file.read_bytes()))

    return damage


def remove(pattern):
    def damage(folder):
        (file,) = folder.glob(pattern)
        file.unlink()

    return damage


def noise(data):
    return np.random.default_rng(0).bytes(len(data))


NOTHING, SOME = {"no-vector-index"}, {"vectors-damaged"}
DAMAGES = {
    "no matrix": (remove("vectors-*.f32"), NOTHING),
    "an empty matrix": (rewrite("vectors-*.f32", lambda _: b""), NOTHING),
    "half a matrix": (rewrite("vectors-*.f32", lambda data: data[: len(data) // 2 + 3]), SOME),
    "a matrix of noise": (rewrite("vectors-*.f32", noise), NOTHING),
    "a matrix of ones": (rewrite("vectors-*.f32", lambda data: b"\0\0\x80\x3f" * (len(data) // 4)), NOTHING),
    "a matrix of NaN": (rewrite("vectors-*.f32", lambda data: b"\xff" * len(data)), NOTHING),
    "a matrix of zeros": (rewrite("vectors-*.f32", lambda data: bytes(len(data))), NOTHING),
    "a page of noise": (rewrite("vectors-*.f32", lambda d: d[:8192] + noise(d[:4096]) + d[12288:]), SOME),
    "a page of zeros": (rewrite("vectors-*.f32", lambda d: d[:8192] + bytes(4096) + d[12288:]), SOME),
    "no checksums": (remove("vectors-*.crc"), NOTHING),
    "checksums cut off": (rewrite("vectors-*.crc", lambda data: data[: len(data) // 2]), SOME),
    "checksums of noise": (rewrite("vectors-*.crc", noise), NOTHING),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("read_only", [False, True])
def test_damaged_vectors_are_reported_and_restored(folder, kind, damage, read_only):
    """Searches leave out damaged vectors and report it, check() reports the chunks, and repair() restores them."""
    with closing(opened(folder, kind)) as store:
        before = answers(store)
    injure, expected = DAMAGES[damage]
    injure(folder)
    with closing(opened(folder, kind, read_only=read_only)) as store:
        assert reasons(store) == expected
        assert any("have no usable vector" in problem for problem in store.admin.check().problems)
    with closing(opened(folder, kind)) as store:
        assert store.admin.repair().problems == ()
        assert answers(store) == before
    with closing(opened(folder, kind)) as store:
        assert answers(store) == before


@pytest.mark.parametrize("kind", ["fitted"])
@pytest.mark.parametrize("injure", [remove("model-*.npz"), rewrite("model-*.npz", noise)])
def test_a_lost_model_is_reported_and_fitted_again(folder, kind, injure):
    """Without the model file, searches report "no-vector-index", and repair() fits the model again."""
    with closing(opened(folder, kind)) as store:
        before = answers(store)
    injure(folder)
    with closing(opened(folder, kind)) as store:
        assert reasons(store) == NOTHING
        assert store.admin.repair().problems == ()
        assert answers(store) == before


def test_answers_without_damage_have_no_reason(folder, kind):
    """With an undamaged file, even with an incomplete row at its end, a reader's results report no degradation."""
    with (folder / os.fspath(next(folder.glob("vectors-*.f32")).name)).open("ab") as file:
        file.write(b"123")
    with closing(opened(folder, kind, read_only=True)) as store:
        assert reasons(store) == set()


@pytest.mark.parametrize("kind", ["words"])
def test_a_reader_notices_damage_and_repair_while_it_is_open(folder, kind):
    """An open reader reports a truncated file instead of crashing, and finds all chunks after a repair."""
    with closing(opened(folder, read_only=True)) as reader, closing(opened(folder)) as writer:
        before = answers(reader)
        os.truncate(folder / "vectors-0.f32", 40 * ROW)
        assert reasons(reader) == SOME
        writer.admin.repair()
        assert answers(reader) == before


@pytest.mark.parametrize("kind", ["words"])
def test_a_reader_finds_a_vector_that_was_damaged_and_repaired_in_place(folder, kind):
    """An open reader finds a vector again that another store repaired without changing the size of its file."""
    with closing(opened(folder, read_only=True)) as reader, closing(opened(folder)) as writer:
        with (folder / "vectors-0.f32").open("r+b") as file:
            file.seek(60 * ROW)
            file.write(noise(bytes(ROW)))
        vector = vectors_module.unit(writer.embedding.embed_query(TEXTS[60]))
        assert reader.vector_search(Query(TEXTS[60], 1), 1).reason == "vectors-damaged"
        assert reader.vector_scores(vector, ["c60"]) == {"c60": 0.0}
        writer.admin.repair()
        result = reader.vector_search(Query(TEXTS[60], 1), 1)
        assert (result.reason, result.entries[0].id) == (None, "c60")
        assert reader.vector_scores(vector, ["c60"]) == {"c60": pytest.approx(1.0)}


@pytest.mark.parametrize("kind", ["words"])
def test_damaged_vectors_do_not_come_back_in_scores_and_copies(folder, kind):
    """A damaged vector gets the score 0, and a chunk with a damaged vector is embedded again when it is updated."""
    rewrite("vectors-*.f32", lambda data: noise(data[: 10 * ROW]) + data[10 * ROW :])(folder)
    with closing(opened(folder)) as store:
        vector = store.vector_search(Query(TEXTS[20], 1), 1).vector
        assert store.vector_scores(vector, ["c0", "c20"]) == {"c0": 0.0, "c20": pytest.approx(1.0)}
        assert not store.vectors(["c3"]).any()
        assert store.upsert([Chunk("c3", TEXTS[3], {"changed": True})])["embedded"] == 1
        assert store.vector_scores(store.vector_search(Query(TEXTS[3], 1), 1).vector, ["c3"])["c3"] == pytest.approx(1)


@pytest.mark.parametrize("kind", ["words"])
def test_the_signs_of_a_large_matrix_are_computed_again_after_a_repair(folder, kind, monkeypatch):
    """After a repair, a search that first compares signs returns the same results as before the damage."""
    monkeypatch.setattr(vectors_module, "EXACT_BYTES", 0)
    monkeypatch.setattr(vectors_module, "LEAST_RESCORED", 20)
    with closing(opened(folder)) as store:
        before = answers(store)
    rewrite("vectors-*.f32", noise)(folder)
    with closing(opened(folder)) as store:
        assert reasons(store) == NOTHING
        store.admin.repair()
        assert answers(store) == before


def swapped(data, width, one, other):
    rows = [data[start : start + width] for start in range(0, len(data), width)]
    rows[one], rows[other] = rows[other], rows[one]
    return b"".join(rows)


@pytest.mark.parametrize("with_owners", [False, True])
def test_a_vector_of_another_text_is_reported_and_restored(folder, kind, with_owners):
    """check() reports two vectors that were swapped along with their checksums, and repair() restores them."""
    with closing(opened(folder, kind)) as store:
        before = answers(store)
    rewrite("vectors-*.f32", lambda data: swapped(data, len(data) // COUNT, 60, 120))(folder)
    rewrite("vectors-*.crc", lambda data: swapped(data, 4, 60, 120))(folder)
    if with_owners:
        rewrite("vectors-*.own", lambda data: swapped(data, 4, 60, 120))(folder)
    with closing(opened(folder, kind)) as store:
        assert answers(store) != before
        assert any(
            "2 chunks have no usable vector, or a vector of another text" in each
            for each in store.admin.check().problems
        )
        assert store.admin.repair().problems == ()
        assert answers(store) == before


@pytest.mark.parametrize("kind", ["words"])
def test_overwritten_vectors_of_racing_writers_are_reported(folder, kind):
    """check() reports a vector that another writer overwrote with that of another text, and repair() restores it."""
    with closing(opened(folder)) as store:
        store.upsert([Chunk("mine", "a text of mine")])
        other = store.embedding.embed_documents(["a text of theirs"])
        store._index.generation.matrix.write(COUNT, vectors_module.unit(other), texts=[b"theirs"])
        assert any("1 chunks" in problem for problem in store.admin.check().problems)
        assert store.admin.repair().problems == ()
        assert store.vector_search(Query("a text of mine", 1), 1).entries[0].score == pytest.approx(1)


def test_vectors_of_an_earlier_version_are_sound(folder, kind):
    """An index of an earlier version, without the file of owners, can still be searched, checked and written to."""
    remove("vectors-*.own")(folder)
    with closing(opened(folder, kind)) as store:
        assert reasons(store) == set()
        assert store.admin.check().problems == ()
        store.upsert([Chunk("late", "a late animal1")])
        assert store.admin.check().problems == ()
        assert set(store.find(Scope())) == {"late", *(f"c{n}" for n in range(COUNT))}


def test_a_file_deleted_under_an_open_store_is_reported(folder, kind):
    """If the vector file is deleted, open stores keep working, check() reports it, and repair() restores it."""
    with closing(opened(folder, kind)) as store:
        before = answers(store)
        remove("vectors-*.f32")(folder)
        assert answers(store) == before
        assert any(f"{COUNT} chunks have no usable vector" in problem for problem in store.admin.check().problems)
        assert store.admin.repair().ok
    with closing(opened(folder, kind)) as store:
        assert store.admin.check().ok
        assert answers(store) == before
