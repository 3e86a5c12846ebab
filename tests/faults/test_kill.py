"""Writers killed at any moment: acknowledged writes are stored, others completely or not at all."""

import contextlib
import multiprocessing.connection
import random
import time
from contextlib import closing

import pytest

from langchain_hybridgraph.records import Query, Scope
from tests.faults import busy_writer
from tests.faults.busy_writer import IDS, open_store
from tests.support.servers.python_process import start_python
from tests.support.stores.words import has_own_vectors

WRITER = "tests.faults.busy_writer"


class Model:
    """Expected contents of the store, according to the output of a writer that changes these ids."""

    def __init__(self, ids=IDS):
        self.ids = ids
        self.sure = {}
        self.doubtful = None

    def hear(self, line):
        if "done" in line:
            self.sure, self.doubtful = self._after(line), None
        elif line.keys() & {"upsert", "remove"}:
            self.doubtful = line

    def settle_doubt(self, texts):
        """Apply the step that the kill interrupted, if the store contains all of it."""
        if self.doubtful is not None and texts == self._after(self.doubtful):
            self.sure = texts
        self.doubtful = None

    def _after(self, line):
        if "upsert" in line:
            return self.sure | line["upsert"]
        removed = set(line.get("remove", ()))
        return {id: text for id, text in self.sure.items() if id not in removed}


def kill_writers(folder, kind, dice, models):
    """Start one to three writers, each with the ids of its own model, kill them, and return their number.

    Each is killed immediately, or shortly after it starts a step of a random kind.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([WRITER])
    writers, listeners = {}, {}
    for model in dice.sample(models, dice.randint(1, 3)):
        output, input = context.Pipe(duplex=False)
        arguments, options = (folder, dice.random(), kind), {"ids": model.ids, "say": input.send}
        writers[output] = context.Process(target=busy_writer.main, args=arguments, kwargs=options)
        listeners[output] = model
        writers[output].start()
        input.close()
    for output, writer in writers.items():
        verb = dice.choice([None, "upsert", "remove", "flush", "flush"])
        if verb is not None:
            listen(listeners, output, verb)
        time.sleep(dice.choice([0, 0.002, 0.01, 0.03, 0.1]) * dice.random())
        writer.kill()
        writer.join()
        assert writer.exitcode == -9, "the writer failed by itself"
        model = listeners.pop(output)
        with contextlib.suppress(EOFError):
            while True:
                model.hear(output.recv())
    return len(writers)


def listen(listeners, output, verb):
    """Let the models hear all writers, until one of them starts a step of this kind."""
    while True:
        for ready in multiprocessing.connection.wait(listeners):
            line = ready.recv()
            listeners[ready].hear(line)
            if ready is output and verb in line and "done" not in line:
                return


def judge(folder, kind, *models):
    """Assert that the catalog, the matrix and Tantivy agree with the models of all writers."""
    expected = {}
    with closing(open_store(folder, kind)) as store:
        for model in models:
            texts = {chunk.id: chunk.text for chunk in store.get(model.ids)}
            model.settle_doubt(texts)
            assert texts == model.sure
            expected |= texts
        if kind == "fitted":
            store.flush()  # the process may have been killed before the first fit, which check() reports
        assert store.admin.check().problems == ()
        assert set(store.find(Scope())) == expected.keys()
        ids = sorted(expected)
        if ids:
            assert has_own_vectors(store, expected)
        for id in ids[:: max(1, len(ids) // 100)]:
            result = store.keyword_search(Query(expected[id].split()[1], 3), 3)
            assert (list(result.ids), result.reason) == ([id], None)
        for id in ids[:: max(1, len(ids) // 20)]:
            assert len(store.vector_search(Query(expected[id], 2000), 2000).ids) == len(ids)


@pytest.mark.parametrize("kind", ["words", "fitted"])
@pytest.mark.parametrize("count", [3, pytest.param(250, marks=pytest.mark.faults)])
def test_a_store_is_correct_after_kills(tmp_path, kind, count):
    """Acknowledged texts of each of up to three writers are stored, and others completely or not at all."""
    dice, kills = random.Random(count), 0
    models = [Model([f"{place}/{number}" for number in range(400)]) for place in range(3)]
    while kills < count:
        kills += kill_writers(tmp_path / "index", kind, dice, models)
        judge(tmp_path / "index", kind, *models)
    assert any(model.sure for model in models)


ADDER = """
import sys
from pathlib import Path
from langchain_hybridgraph.records import Chunk
from tests.support.stores.words import has_own_vectors, open_words

store = open_words(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 10**9):
    store.upsert([Chunk(f"c{number}", f"token{number} text")])
    print(number, flush=True)
    store.flush()
"""


@pytest.mark.faults
def test_each_text_that_was_accepted_is_found_after_a_kill(tmp_path):
    """Every acknowledged text is found after the writer is killed, often during Tantivy's commit."""
    dice, accepted = random.Random(3), []
    for _ in range(15):
        writer = start_python("-c", ADDER, tmp_path / "index", len(accepted))
        accepted += [int(writer.stdout.readline()) for _ in range(dice.randint(1, 4))]
        time.sleep(0.1 * dice.random())
        writer.kill()
        accepted += map(int, writer.communicate()[0].split())
        with closing(open_store(tmp_path / "index", "words")) as store:
            accepted += range(len(accepted), len(store))  # committed, but killed before it could print
            assert accepted == list(range(len(store)))
            for number in accepted:
                result = store.keyword_search(Query(f"token{number}", 1), 1)
                assert (list(result.ids), result.reason) == ([f"c{number}"], None)
                near = store.vector_search(Query(f"token{number} text", len(accepted)), len(accepted))
                assert dict(near.scores)[f"c{number}"] == pytest.approx(1)
            assert store.admin.check().problems == ()
