"""Damage to a random file of an index is reported, and repaired or refused with a named error."""

import logging
import random
import shutil
from contextlib import closing

import pytest

from langchain_hybridgraph import HierarchicalRetriever, HybridRetriever, build_layers
from langchain_hybridgraph.errors import HybridGraphError
from langchain_hybridgraph.records import Edge, Scope
from tests.support.stores.words import open_words

TEXTS = {f"c{number}": f"word{number} common topic{number % 7} A-{number}x" for number in range(60)}
DAMAGES = ("flip", "flip", "zeros", "cut", "junk", "delete")


def original_index(folder):
    """Create an index with several commits, edges and summaries, whose last commits are only in its log."""
    store = open_words(folder)
    for start in range(0, 60, 15):
        ids = list(TEXTS)[start : start + 15]
        store.add_texts([TEXTS[id] for id in ids], [{"uri": f"d{start}/{id}", "n": id} for id in ids], ids=ids)
    store.replace_edges(["c1"], ["cites"], [Edge("c1", "c2", "cites")])
    build_layers(store)
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
    original, failures, refusals = original_index(tmp_path / "index"), [], 0
    with closing(open_words(shutil.copytree(original, tmp_path / "sound"), read_only=True)) as store:
        expected, reports = look(store)
    assert reports == set()
    dice = random.Random(seed)
    for _ in range(count):
        folder = shutil.copytree(original, tmp_path / "damaged")
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
        shutil.rmtree(folder)
    assert failures == []
    assert refusals < count / 2


@pytest.fixture(autouse=True)
def _quiet():
    """Suppress the warnings about damage."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_damage_is_reported(tmp_path):
    """Each of 8 damaged files is reported, and repaired or refused with an error that names it."""
    damage_many(tmp_path, 8, seed=1)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(5))
def test_much_damage_is_reported(tmp_path, seed):
    """Each of 500 damaged files is reported, and repaired or refused with an error that names it."""
    damage_many(tmp_path, 100, seed=100 + seed)
