"""Crashes and damaged files, seen through the methods of a store."""

import json
import os
import shutil
import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import FormatVersionError, NotAnIndexError, StoreError
from langchain_hybridgraph.records import Edge, Query, Scope
from langchain_hybridgraph.stores import catalog_writes, index
from langchain_hybridgraph.stores import vectors as vectors_module
from tests.support.models.fitted_words import FittedWords
from tests.support.servers.python_process import output_of_python
from tests.support.stores.words import Words, ids_by_vector, open_named, open_words

TEXTS = {f"c{number}": f"word{number} common" for number in range(8)}


@pytest.fixture
def folder(tmp_path):
    """Return the folder of an index with eight texts."""
    path = tmp_path / "index"
    with closing(open_words(path)) as store:
        store.add_texts(list(TEXTS.values()), ids=list(TEXTS))
    return path


def open_fitted(path):
    """Open a store whose embedding is fitted to the texts."""
    return open_named(path, FittedWords(), "fitted", load=FittedWords.load)


def by_keyword(store, text):
    """Return the ids that a keyword search finds, and the reason why it was limited."""
    result = store.keyword_search(Query(text, 20), 20)
    return sorted(result.ids), result.reason


def assert_sound(path, open_store=open_words, ids=TEXTS):
    """Assert that check() finds no problem, and that both searches find exactly these chunks."""
    with closing(open_store(path)) as store:
        assert store.admin.check().problems == ()
        assert by_keyword(store, "common") == (sorted(ids), None)
        assert set(ids_by_vector(store, "common")) == set(ids)


KILLED = """
import os, shutil, sys
from pathlib import Path
from langchain_hybridgraph.chunks import Chunk
from tests.stores.test_damage import open_fitted

def count_down(folder, moment):
    left = [moment]
    def hook(event, args):
        if event in ("open", "os.remove", "os.rename", "os.truncate") and str(args[0]).startswith(str(folder)):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), 9)
    sys.addaudithook(hook)

original = Path(sys.argv[1])
for moment in range(1, 60):
    child = os.fork()
    if not child:
        copy = original.with_name(f"killed-{moment}")
        shutil.copytree(original, copy)
        store = open_fitted(copy)
        count_down(copy, moment)
        store.upsert([Chunk("late", "word99 common")])
        store.admin.refit()
        store.close()
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(moment)
        break
"""


def test_a_process_killed_while_it_fits_a_model_leaves_a_sound_index(tmp_path):
    """Wherever a write and a fit are interrupted, the next store finds all committed texts, and fits again."""
    original = tmp_path / "original"
    with closing(open_fitted(original)) as store:
        store.upsert([Chunk(id, text) for id, text in TEXTS.items()])
        store.flush()
    rounds = int(output_of_python("-c", KILLED, original))
    killed = list(tmp_path.glob("killed-*"))
    assert len(killed) == rounds > 5
    for path in killed:
        with closing(open_fitted(path)) as store:
            ids = set(store.document_ids())
            store.flush()
            assert store.admin.repair().problems == ()
            assert store.admin.refit() == len(ids)
        assert ids >= set(TEXTS)
        assert_sound(path, open_fitted, ids)
        assert len(list(path.glob("model-*.npz"))) == 1


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.99])
def test_a_torn_write_ahead_log_leaves_complete_commits(tmp_path, folder, share):
    """After a power failure in the middle of a write, each commit is there completely or not at all."""
    store = open_words(folder)
    for number in range(5):
        store.add_texts(["late common", "later common"], ids=[f"a{number}", f"b{number}"])
    torn = tmp_path / "torn"
    shutil.copytree(folder, torn)
    store.close()
    log = torn / "catalogue.sqlite-wal"
    os.truncate(log, int(share * log.stat().st_size))
    with closing(open_words(torn)) as again:
        ids = set(by_keyword(again, "common")[0])
        again.admin.repair()
    assert ids >= set(TEXTS)
    assert all((f"a{number}" in ids) == (f"b{number}" in ids) for number in range(5))
    assert_sound(torn, ids=ids)


def retrieve(store, question="common"):
    """Return the ids that a hybrid search finds, and the reasons for degradation."""
    result = HybridRetriever(store, k=20).retrieve(question)
    return {hit.id for hit in result.hits}, set(result.degraded)


def lose_the_log(path):
    """Copy an index whose last commits, two texts, a deletion and a changed text, are only in the log, without it."""
    with closing(open_words(path)) as store:
        store._index.catalog.checkpoint()
        store.add_texts(["late common", "later common"], ids=["late", "later"])
        store.delete(["c0"])
        store.add_texts(["word1 common again"], ids=["c1"])
        copy = shutil.copytree(path, path.with_name("copy"))
    return copy / "catalogue.sqlite-wal"


@pytest.mark.parametrize("is_deleted", [True, False])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_lost_log_is_reported_until_the_repair(folder, is_deleted, read_only):
    """Lost commits degrade every search and are counted by check, even after new writes, until repair accepts them."""
    log = lose_the_log(folder)
    if is_deleted:
        log.unlink()
    else:
        raw = bytearray(log.read_bytes())
        raw[40] ^= 255
        log.write_bytes(raw)
    with closing(open_words(log.parent, read_only=read_only)) as store:
        assert retrieve(store) == (set(TEXTS), {"commits-lost"})
        (problem,) = store.admin.check().problems
        assert "the last 3 commits are missing" in problem
        assert "3 texts are missing (rows 8 to 10) and cannot be restored" in problem
        assert "2 chunks ('c0', 'c1') are back although they were deleted or replaced" in problem
    with closing(open_words(log.parent)) as store:
        store.add_texts(["new common"], ids=["new"])
        assert retrieve(store) == ({*TEXTS, "new"}, {"commits-lost"})
        report = store.admin.repair()
        assert (report.problems, len(report.notes)) == ((), 1)
        assert "add the missing texts again" in report.notes[0]
        assert retrieve(store) == ({*TEXTS, "new"}, set())
    assert_sound(log.parent, ids={*TEXTS, "new"})


def test_an_older_catalog_is_reported(tmp_path, folder):
    """A keyword index that is newer than the catalog, as after restoring only the catalog, means lost commits."""
    shutil.copy(folder / "catalogue.sqlite", tmp_path / "backup")
    with closing(open_words(folder)) as store:
        store.add_texts(["late common"], ids=["late"])
    for log in folder.glob("catalogue.sqlite-*"):
        log.unlink()
    shutil.copy(tmp_path / "backup", folder / "catalogue.sqlite")
    with closing(open_words(folder)) as store:
        assert retrieve(store) == (set(TEXTS), {"commits-lost"})
        assert store.admin.repair().ok
    assert_sound(folder)


def change_bytes(folder, old, new):
    """Replace bytes in the file of the catalog."""
    file = folder / "catalogue.sqlite"
    raw = file.read_bytes()
    assert old in raw
    file.write_bytes(raw.replace(old, new))


def test_a_changed_weight_is_named_and_accepted_by_repair(folder):
    """check() names the chunk whose edge has another weight than was written; repair() accepts it with a note."""
    with closing(open_words(folder)) as store:
        store.replace_edges(["c1"], ["cites"], [Edge("c1", "c2", "cites", 0.7071)])
        store._index.catalog.checkpoint()
    file = folder / "catalogue.sqlite"
    file.write_bytes(file.read_bytes().replace(struct.pack(">d", 0.7071), struct.pack(">d", 0.5), 1))
    with closing(open_words(folder)) as store:
        assert "of 1 chunks ('c1') have changed" in problems(store)
        report = store.admin.repair()
        assert report.problems == ()
        assert "'c1'" in report.notes[0]
    assert_sound(folder)


def test_an_undecodable_text_is_left_out_and_deleted_by_repair(folder, caplog):
    """Searches leave a text with a damaged byte out and say so, check names it, repair deletes it; none prints it."""
    change_bytes(folder, b"word3 common", b"word3 c\xffmmon")
    with closing(open_words(folder)) as store:
        assert retrieve(store) == (TEXTS.keys() - {"c3"}, {"texts-damaged"})
        assert problems(store) == "1 chunks ('c3') are not valid UTF-8; repair() deletes them"
        report = store.admin.repair()
        assert (report.problems, report.notes) == ((), ("1 chunks ('c3') were deleted; add them again",))
        assert retrieve(store) == (TEXTS.keys() - {"c3"}, set())
        store.add_texts([TEXTS["c3"]], ids=["c3"])
    assert_sound(folder)
    assert "mmon" not in caplog.text


def test_an_altered_text_is_named(folder):
    """check names a text that differs from what was added; after a repair, adding the original text restores it."""
    change_bytes(folder, b"word3 common", b"word3 cammon")
    with closing(open_words(folder)) as store:
        assert store.admin.check().problems == (
            "1 chunks ('c3') have another text or other metadata than were written; repair() accepts them",
        )
        report = store.admin.repair()
        assert report.problems == ()
        assert "'c3'" in report.notes[0]
        store.add_texts([TEXTS["c3"]], ids=["c3"])
        assert store.get_by_ids(["c3"])[0].page_content == TEXTS["c3"]
    assert_sound(folder)


@pytest.mark.parametrize("new", [b"CREATE TABLE l\xffarned", b"CR\xffATE TABLE learned"])
def test_a_damaged_schema_is_one_named_error(folder, new):
    """An index whose schema is damaged raises NotAnIndexError with the file and the way back."""
    change_bytes(folder, b"CREATE TABLE learned", new)
    with pytest.raises(NotAnIndexError, match=r"catalogue.sqlite is damaged .*restore the index from a backup"):
        open_words(folder)


def test_a_tenant_sees_only_its_own_ids(tmp_path):
    """check and repair count the damaged chunks and missing ids of other tenants, but do not name them."""
    for tenant in ("ada", "bo"):
        with closing(open_words(tmp_path / "index", tenant=tenant)) as store:
            store.add_texts([f"{tenant} common"], ids=[f"{tenant}1"])
            store.replace_edges([f"{tenant}1"], ["cites"], [Edge(f"{tenant}1", f"{tenant}2", "cites")])
    change_bytes(tmp_path / "index", b"ada common", b"ada c\xffmmon")
    change_bytes(tmp_path / "index", b"bo common", b"bo c\xffmmon")
    with closing(open_words(tmp_path / "index", tenant="ada")) as store:
        report = store.admin.check()
        assert report.problems == (
            "the text by which the embedding is recognised is not valid UTF-8; repair() deletes it",
            "2 chunks ('ada1'; 1 of other tenants) are not valid UTF-8; repair() deletes them",
        )
        assert "edges with an end that is not in the index: 1;" in report.notes[0]
        report = store.admin.repair()
        assert report.problems == ()
        assert "'ada1'; 1 of other tenants" in report.notes[0]


@pytest.mark.parametrize("name", ["vectors-0.f32", "vectors-0.crc"])
def test_an_unreadable_file_of_vectors_is_named(folder, name):
    """check raises StoreError with the file that cannot be read and the way back; after that, repair works."""
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(StoreError, match=rf"{name} cannot be read \(Is a directory\).* or delete it, and repair"):  # noqa: SIM117
        with closing(open_words(folder)) as store:
            store.admin.check()
    (folder / name).rmdir()
    with closing(open_words(folder)) as store:
        assert store.admin.repair().ok
    assert_sound(folder)


def test_a_reader_far_behind_reads_everything_again(folder, monkeypatch):
    """A reader that missed more commits than the log of changes holds finds the current texts."""
    for module, name in ((index, "KEPT_VERSIONS"), (catalog_writes, "_KEPT_CHANGES")):
        monkeypatch.setattr(module, name, 10)
    with closing(open_words(folder, read_only=True)) as reader, closing(open_words(folder)) as writer:
        assert by_keyword(reader, "common")[0] == sorted(TEXTS)
        for number in range(25):
            writer.add_texts([f"common {number}"], ids=["c0"])
        writer.delete(["c1"])
        assert by_keyword(reader, "common") == (sorted(TEXTS.keys() - {"c1"}), None)
        assert reader.get_by_ids(["c0"])[0].page_content == "common 24"


@pytest.mark.parametrize("number", [0, 1, 7, 99])
def test_another_format_is_refused_and_left_alone(folder, number):
    """An index of an earlier or later format raises an error, for reading too, and no file is changed."""
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
        connection.commit()
    before = (folder / "catalogue.sqlite").read_bytes()
    for read_only in (True, False):
        with pytest.raises((FormatVersionError, NotAnIndexError)):
            open_words(folder, read_only=read_only)
    assert (folder / "catalogue.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"", b"not a database, but long enough to look like one" * 50, b"SQLite format 3\x00" + b"\x7f" * 9_000]
)
def test_a_file_that_is_not_a_catalog_is_refused(folder, content):
    """A catalog that is not a database, or a damaged one, raises a StoreError of one line."""
    (folder / "catalogue.sqlite").write_bytes(content)
    with pytest.raises(StoreError) as caught:
        open_words(folder)
    assert "\n" not in str(caught.value)


def test_damaged_pages_are_reported_by_every_command(folder, tmp_path):
    """If pages of an index within the catalog are overwritten, check, stats, repair and backup name the file."""
    with closing(open_words(folder)) as store:
        store.admin.check()
        store._index.catalog.checkpoint()
    file = folder / "catalogue.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        offsets = connection.execute("SELECT pgoffset FROM dbstat WHERE name = 'sqlite_autoindex_nodes_2'").fetchall()
    with file.open("r+b") as raw:
        for (offset,) in offsets:
            raw.seek(offset)
            raw.write(b"\x55" * 3_000)
    backup = tmp_path / "backup"
    with closing(open_words(folder)) as store:
        for command in (store.admin.check, store.admin.stats, store.admin.repair, lambda: store.admin.backup(backup)):
            with pytest.raises(StoreError, match=r"catalogue.sqlite is damaged .*restore the index from a backup"):
                command()
    assert not backup.exists()


def test_check_notes_a_keyword_index_that_was_rebuilt(folder):
    """If a file of the keyword index is truncated, a writer rebuilds it, and check names the file in a note."""
    (file,) = (folder / "keywords").glob("*.term")
    os.truncate(file, 100)
    for notes in ((f"keyword index {file.parent}: the file {file.name} is damaged or missing",), ()):
        with closing(open_words(folder)) as store:
            report = store.admin.check()
        assert [note.partition("cannot open the ")[2] for note in report.notes] == list(notes)
    assert_sound(folder)


# -- without Tantivy --------------------------------------------------------------------------------------------------

WITHOUT_TANTIVY = """
import json, sys
from pathlib import Path

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "tantivy":
            raise {error}

sys.meta_path.insert(0, Blocked())
from langchain_hybridgraph.records import Chunk, Query
from tests.support.stores.words import open_words

store, found = open_words(Path(sys.argv[1])), []
for id, text in (("bird", "a bird sings"), ("cat", "a cat that barks"), ("fish", "a fish swims")):
    store.upsert([Chunk(id, text)])
    store.flush()
store.remove(["fish"])
for word in ("bird", "cat", "barks", "fish"):
    result = store.keyword_search(Query(word, 10), 10)
    found.append([list(result.ids), result.reason])
print(json.dumps(found))
"""


@pytest.mark.parametrize("error", ["ImportError('undefined symbol')", "OSError('cannot read the wheel')"])
def test_an_index_is_read_and_written_without_tantivy(tmp_path, error):
    """Without Tantivy, searches use the fallback, and chunks written then are later found with Tantivy."""
    folder, fallback = tmp_path / "index", "keyword-fallback"
    with closing(open_words(folder)) as store:
        store.add_texts(["a cat purrs", "a dog barks"], ids=["cat", "dog"])
    output = output_of_python("-c", WITHOUT_TANTIVY.replace("{error}", error), folder)
    expected = [[["bird"], fallback], [["cat"], fallback], [["dog", "cat"], fallback], [[], fallback]]
    assert json.loads(output) == expected
    with closing(open_words(folder)) as store:
        result = store.keyword_search(Query("bird purrs barks fish", 10), 10)
        assert (set(result.ids), result.reason) == ({"bird", "cat", "dog"}, None)
        assert store.admin.check().problems == ()


# -- vectors ----------------------------------------------------------------------------------------------------------

COUNT = 300
ANIMALS = [f"animal{n % 50} colour{n % 7} number{n}" for n in range(COUNT)]
ROW = 64 * 4


def opened(animals, kind="words", **options):
    return HybridGraphStore(animals, "lsa" if kind == "fitted" else Words(), **options)


@pytest.fixture(params=["words", "fitted"])
def kind(request):
    return request.param


@pytest.fixture
def animals(tmp_path, kind):
    with closing(opened(tmp_path / "index", kind)) as store:
        store.upsert([Chunk(f"c{n}", text) for n, text in enumerate(ANIMALS)])
        store.flush()
    return tmp_path / "index"


@pytest.fixture
def before(animals, kind):
    """Return the answers before any damage."""
    with closing(opened(animals, kind)) as store:
        return answers(store)


def problems(store):
    return "\n".join(store.admin.check().problems)


def assert_repaired(animals, kind, before):
    """Assert that repair() restores the answers, in the store and when it is opened again."""
    with closing(opened(animals, kind)) as store:
        assert store.admin.repair().problems == ()
        assert answers(store) == before
    with closing(opened(animals, kind)) as store:
        assert store.admin.check().problems == ()
        assert answers(store) == before


def answers(store):
    """Return the results of vector search and of hybrid search, with their reasons."""
    alone = [store.vector_search(Query(text, 10), 10) for text in ANIMALS[::60]]
    both = [HybridRetriever(store, k=5).retrieve(text) for text in ANIMALS[::60]]
    return (
        [(list(result.scores.items()), result.reason) for result in alone],
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
    return lambda folder: next(folder.glob(pattern)).unlink()


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


@pytest.mark.parametrize(("damage", "read_only"), [*zip(DAMAGES, [False, True] * 6, strict=True)])
def test_damaged_vectors_are_reported_and_restored(animals, kind, before, damage, read_only):
    """Searches leave out damaged vectors and report it, check() reports the chunks, and repair() restores them."""
    injure, expected = DAMAGES[damage]
    injure(animals)
    with closing(opened(animals, kind, read_only=read_only)) as store:
        assert reasons(store) == expected
        assert "without a usable vector" in problems(store)
    assert_repaired(animals, kind, before)


@pytest.mark.parametrize("kind", ["fitted"])
@pytest.mark.parametrize("injure", [remove("model-*.npz"), rewrite("model-*.npz", noise)])
def test_a_lost_model_is_reported_and_fitted_again(animals, kind, before, injure):
    """Without the model file, searches report "no-vector-index", and repair() fits the model again."""
    injure(animals)
    with closing(opened(animals, kind)) as store:
        assert reasons(store) == NOTHING
        assert store.admin.repair().problems == ()
        assert answers(store) == before


def test_answers_without_damage_have_no_reason(animals, kind):
    """With an undamaged file, even with an incomplete row at its end, a reader's results report no degradation."""
    rewrite("vectors-*.f32", lambda data: data + b"123")(animals)
    with closing(opened(animals, kind, read_only=True)) as store:
        assert reasons(store) == set()


@pytest.mark.parametrize("kind", ["words"])
def test_a_reader_notices_damage_and_repair_while_it_is_open(animals, kind):
    """An open reader reports a truncated file instead of crashing, and finds all chunks after a repair."""
    with closing(opened(animals, read_only=True)) as reader, closing(opened(animals)) as writer:
        before = answers(reader)
        os.truncate(animals / "vectors-0.f32", 40 * ROW)
        assert reasons(reader) == SOME
        writer.admin.repair()
        assert answers(reader) == before


@pytest.mark.parametrize("kind", ["words"])
def test_a_reader_finds_a_vector_that_was_damaged_and_repaired_in_place(animals, kind):
    """An open reader finds a vector again that another store repaired without changing the size of its file."""
    with closing(opened(animals, read_only=True)) as reader, closing(opened(animals)) as writer:
        with (animals / "vectors-0.f32").open("r+b") as file:
            file.seek(60 * ROW)
            file.write(noise(bytes(ROW)))
        vector = vectors_module.unit(writer.embedding.embed_query(ANIMALS[60]))
        assert reader.vector_search(Query(ANIMALS[60], 1), 1).reason == "vectors-damaged"
        assert reader.vector_scores(vector, ["c60"]) == {"c60": 0.0}
        writer.admin.repair()
        result = reader.vector_search(Query(ANIMALS[60], 1), 1)
        assert (result.reason, result.ids[0]) == (None, "c60")
        assert reader.vector_scores(vector, ["c60"]) == {"c60": pytest.approx(1.0)}


@pytest.mark.parametrize("kind", ["words"])
def test_damaged_vectors_do_not_come_back_in_scores_and_copies(animals, kind):
    """A damaged vector gets the score 0, and a chunk with a damaged vector is embedded again when it is updated."""
    rewrite("vectors-*.f32", lambda data: noise(data[: 10 * ROW]) + data[10 * ROW :])(animals)
    with closing(opened(animals)) as store:
        vector = store.vector_search(Query(ANIMALS[20], 1), 1).vector
        assert store.vector_scores(vector, ["c0", "c20"]) == {"c0": 0.0, "c20": pytest.approx(1.0)}
        assert not store.vectors(["c3"]).any()
        assert store.upsert([Chunk("c3", ANIMALS[3], {"changed": True})])["embedded"] == 1
        vector = store.vector_search(Query(ANIMALS[3], 1), 1).vector
        assert store.vector_scores(vector, ["c3"]) == {"c3": pytest.approx(1)}


@pytest.mark.parametrize("kind", ["words"])
def test_the_signs_of_a_large_matrix_are_computed_again_after_a_repair(animals, kind, monkeypatch):
    """After a repair, a search that first compares signs returns the same results as before the damage."""
    monkeypatch.setattr(vectors_module, "EXACT_BYTES", 0)
    monkeypatch.setattr(vectors_module, "LEAST_RESCORED", 20)
    with closing(opened(animals)) as store:
        before = answers(store)
    rewrite("vectors-*.f32", noise)(animals)
    with closing(opened(animals)) as store:
        assert reasons(store) == NOTHING
        store.admin.repair()
        assert answers(store) == before


def swapped(data, width, one, other):
    rows = [data[start : start + width] for start in range(0, len(data), width)]
    rows[one], rows[other] = rows[other], rows[one]
    return b"".join(rows)


@pytest.mark.parametrize("with_owners", [False, True])
def test_a_vector_of_another_text_is_reported_and_restored(animals, kind, before, with_owners):
    """check() reports two vectors that were swapped along with their checksums, and repair() restores them."""
    rewrite("vectors-*.f32", lambda data: swapped(data, len(data) // COUNT, 60, 120))(animals)
    rewrite("vectors-*.crc", lambda data: swapped(data, 4, 60, 120))(animals)
    if with_owners:
        rewrite("vectors-*.own", lambda data: swapped(data, 4, 60, 120))(animals)
    with closing(opened(animals, kind)) as store:
        assert answers(store) != before
        assert "without a usable vector, or with that of another text: 2;" in problems(store)
    assert_repaired(animals, kind, before)


@pytest.mark.parametrize("kind", ["words"])
def test_overwritten_vectors_of_racing_writers_are_reported(animals, kind):
    """check() reports a vector that another writer overwrote with that of another text, and repair() restores it."""
    with closing(opened(animals)) as store:
        store.upsert([Chunk("mine", "a text of mine")])
        other = store.embedding.embed_documents(["a text of theirs"])
        store._index.generation.matrix.write(COUNT, vectors_module.unit(other), texts=[b"theirs"])
        assert "another text: 1;" in problems(store)
        assert store.admin.repair().problems == ()
        assert list(store.vector_search(Query("a text of mine", 1), 1).scores.values()) == [pytest.approx(1)]


def test_vectors_of_an_earlier_version_are_sound(animals, kind):
    """An index of an earlier version, without the file of owners, can still be searched, checked and written to."""
    remove("vectors-*.own")(animals)
    with closing(opened(animals, kind)) as store:
        assert reasons(store) == set()
        assert store.admin.check().problems == ()
        store.upsert([Chunk("late", "a late animal1")])
        assert store.admin.check().problems == ()
        assert set(store.find(Scope())) == {"late", *(f"c{n}" for n in range(COUNT))}


def test_a_file_deleted_under_an_open_store_is_reported(animals, kind):
    """If the vector file is deleted, open stores keep working, check() reports it, and repair() restores it."""
    with closing(opened(animals, kind)) as store:
        before = answers(store)
        remove("vectors-*.f32")(animals)
        assert answers(store) == before
        assert f"without a usable vector, or with that of another text: {COUNT};" in problems(store)
        assert store.admin.repair().ok
    with closing(opened(animals, kind)) as store:
        assert store.admin.check().ok
        assert answers(store) == before
