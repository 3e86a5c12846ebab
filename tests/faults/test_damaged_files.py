"""Damage to a random file of an index is reported, and repaired or refused with a named error."""

import logging
import random
import shutil
import sqlite3
from contextlib import closing

import pytest

from langchain_hybridgraph import HierarchicalRetriever, HybridRetriever, build_layers
from langchain_hybridgraph.errors import HybridGraphError, StoreError
from langchain_hybridgraph.records import Edge, FileRecord, Scope
from langchain_hybridgraph.stores import generations
from tests.support.stores.words import open_words

TEXTS = {f"c{number}": f"word{number} common topic{number % 7} A-{number}x" for number in range(60)}
DAMAGES = ("flip", "flip", "zeros", "cut", "junk", "delete")


def original_index(folder):
    """Create an index with several commits, edges and summaries, whose last commits are only in its log."""
    store = open_words(folder)
    for start in range(0, 60, 15):
        ids = list(TEXTS)[start : start + 15]
        store.add_texts(
            [TEXTS[id] for id in ids], [{"uri": f"d{start}/{id}", "n": id, "source": "s"} for id in ids], ids=ids
        )
    for number in range(0, 50, 2):
        edge = Edge(f"c{number}", f"c{number + 1}", "cites", 0.5, "a reason", valid_until=4e9)
        store.replace_edges([edge.source], ["cites"], [edge])
    for year in (2090, 2091):
        store.add_texts(
            [TEXTS["c50"]], [{"uri": "d45/c50", "source": "s", "valid_until": f"{year}-01-01"}], ids=["c50"]
        )
    build_layers(store)
    for number, kind in enumerate(("validate", "refute", "useful", "stale") * 5):
        store.memory.feedback(f"c{number}", kind)
    store.sessions.add_pairs("s", [("user", "gone"), ("ai", "gone")], ttl=60)
    store.sessions.delete("s")
    for number in range(30):
        name = f"file{number}.md"
        store.files.write([FileRecord(name, "1 2 3", b"d" * 16, b"m" * 16, number, 0, (f"c{number}",), name.encode())])
    shutil.copytree(folder, folder.with_name("original"))
    store.close()
    return folder.with_name("original")


def damage(folder, dice):
    """Damage one file, and return how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "lock" not in path.name)
    file, how = dice.choice(files), dice.choice(DAMAGES)
    raw = bytearray(file.read_bytes())
    if how == "delete" or not raw:
        file.unlink()
        return file.relative_to(folder), "delete", 0
    place = dice.randrange(len(raw))
    if how == "flip":
        raw[place] ^= 1 << dice.randrange(8)
    elif how == "zeros":
        raw[place : place + 200] = bytes(len(raw[place : place + 200]))
    elif how == "cut":
        del raw[place:]
    else:
        raw[place : place + 200] = dice.randbytes(len(raw[place : place + 200]))
    file.write_bytes(raw)
    return file.relative_to(folder), how, place


def contents(store):
    """Return the texts and metadata of a store by id."""
    return {chunk.id: (chunk.text, dict(chunk.metadata)) for chunk in store.get(store.find(Scope()))}


def look(store):
    """Return what the store contains and finds, and its reports of damage."""
    results = [HybridRetriever(store, k=5).retrieve(query) for query in ("word7 common", "A-13x", "topic3")]
    results.append(HierarchicalRetriever(store).find("topic3 word10"))
    reports = {reason for result in results for reason in result.degraded} - {"too-few-texts", "converged-early"}
    hits = [[(hit.id, round(hit.score, 4)) for hit in result.hits] for result in results[:3]]
    return (contents(store), hits), reports


def judge(folder, expected):
    """Return what is wrong with the way in which an index reports its damage, or None; raise package errors."""
    with closing(open_words(folder, read_only=True)) as reader:
        state, reports = look(reader)
    with closing(open_words(folder)) as store:
        problems = store.admin.check().problems
        if state != expected and not problems and not reports:
            return "silent"
        report = store.admin.repair()
        if not report.ok:
            return f"not repaired: {report.problems}"
        (texts, _), reports = look(store)
        if reports - ({"layers-stale", "empty-index"} if report.notes else set()):
            return f"degraded after repair: {reports}"
        wrong = {id for id, content in texts.items() if expected[0].get(id) != content}
        if (wrong or len(texts) < len(TEXTS)) and not report.notes:
            return "silent loss"
        store.add_texts(["another text"], ids=["another"])
        store.add_texts(list(TEXTS.values()), [{**expected[0][id][1]} for id in TEXTS], ids=list(TEXTS))
        store.delete(["another"])
        build_layers(store)
        if contents(store) != expected[0]:
            return "not as before after adding all texts again"
    return None


def damage_many(tmp_path, count, seed):
    original = original_index(tmp_path / "index")
    with closing(open_words(shutil.copytree(original, tmp_path / "sound"), read_only=True)) as store:
        expected, reports = look(store)
    assert reports == set()
    damage_each(original, count, random.Random(seed), damage=damage, judge=judge, expected=expected)


def damage_each(original, count, dice, *, damage, judge, expected):
    """Damage ``count`` copies of an index, and assert that each is reported, and repaired or refused."""
    failures, refusals = [], 0
    for number in range(count):
        folder = shutil.copytree(original, original.with_name(f"damaged{number}"))
        what = damage(folder, dice)
        try:
            failure = judge(folder, expected)
        except HybridGraphError as error:
            refusals += 1
            failure = None if "/damaged" in str(error) else f"does not name the file: {error}"
        except BaseException as error:  # noqa: BLE001 - an error that is not from the package is a failure
            failure = f"{type(error).__name__}: {error}"
        if failure is not None:
            failures.append((what, failure))
        shutil.rmtree(folder, ignore_errors=True)  # threads of a refused index may still write
    assert failures == []
    assert refusals < count / 2


TABLES = ("nodes", "edges", "learned", "past_validity", "past_trust", "credibility", "about")
TABLES += ("files", "file_documents", "file_paths")


def values(folder):
    """Return the contents of all tables, except logs, or None if SQLite cannot read them."""
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as connection:
        connection.text_factory = bytes
        try:
            return {table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}"))) for table in TABLES}
        except sqlite3.DatabaseError:
            return None


def damage_value(folder, dice):
    """Change one byte in a row of a table, and return where."""
    file, table = folder / "catalogue.sqlite", dice.choice(TABLES)
    with closing(sqlite3.connect(file)) as connection:
        pages = connection.execute("SELECT pgoffset, pgsize FROM dbstat WHERE name = ? ORDER BY pageno", (table,))
        offset, size = dice.choice(pages.fetchall())
    raw = bytearray(file.read_bytes())
    place = dice.choice([place for place in range(offset + 200, offset + size) if raw[place]])
    raw[place] ^= dice.randrange(1, 256)
    file.write_bytes(raw)
    return table, place - offset


def judge_values(folder, expected):
    """Return what is wrong with the way in which an index reports changed values, or None."""
    is_changed = values(folder) != expected
    with closing(open_words(folder)) as store:
        if is_changed and not store.admin.check().problems:
            return "silent"
        report = store.admin.repair()
        store._index.catalog.checkpoint()
        if not report.ok:
            raise StoreError(f"{folder}: {report.problems}")
        if is_changed and not report.notes and any(values(folder)[table] != expected[table] for table in TABLES[:6]):
            return "silent loss"
    return None


def damage_values(tmp_path, count, seed):
    original = original_index(tmp_path / "index")
    with closing(open_words(original)) as store:
        store._index.catalog.checkpoint()
    expected = values(original)
    damage_each(original, count, random.Random(seed), damage=damage_value, judge=judge_values, expected=expected)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """Suppress the warnings about damage, and pack vectors soon."""
    monkeypatch.setattr(generations, "MOST_DEAD", 1)
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("damage", "count"), [(damage_many, 8), (damage_values, 12)])
def test_damage_is_reported(damage, count, tmp_path):
    """Each damaged file or changed byte in a table of the catalog is reported, and repaired or refused by name."""
    damage(tmp_path, count, seed=1)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("damage", "first"), [(damage_many, 100), (damage_values, 200)])
def test_much_damage_is_reported(damage, first, tmp_path, seed):
    """Each of 500 damaged files and 500 changed bytes is reported, and repaired or refused by name."""
    damage(tmp_path, 100, seed=first + seed)
