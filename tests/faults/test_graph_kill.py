"""Graph of a reader while the writer is killed: its answers match the catalog.

    python -m tests.faults.test_graph_kill FOLDER SEED

changes chunks and edges until it is killed, and prints a line for every change.
"""

import random
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import MENTIONS, Edge, EdgeFilter, Scope
from tests.support.servers.python_process import start_python
from tests.support.stores.words import open_words

IDS = [f"c{number}" for number in range(60)]
ENTITIES = [f"entity:{number}" for number in range(8)]


def edges(dice, count):
    links = (Edge(*dice.sample(IDS, 2), "r", dice.choice([0.3, 0.6, 1.0])) for _ in range(count))
    return [*links, *(Edge(dice.choice(IDS), dice.choice(ENTITIES), MENTIONS) for _ in range(count))]


def step(store, dice):
    verb = dice.choice(["upsert", "upsert", "remove", "replace", "prune"])
    if verb == "upsert":
        ids = dice.sample(IDS, dice.choice([0, 3, 30]))
        store.upsert([Chunk(id, f"text {dice.random()}") for id in ids], edges=edges(dice, dice.choice([1, 10, 100])))
    elif verb == "remove":
        store.remove(dice.sample(IDS, dice.choice([1, 10])))
    elif verb == "replace":
        store.replace_edges(dice.sample(IDS, 5), ["r", MENTIONS], edges(dice, 3))
    else:
        store.graph.prune(0.4, 20)


def main(folder, seed):
    dice = random.Random(seed)
    store = open_words(Path(folder))
    while True:
        step(store, dice)
        print("done", flush=True)


def answers(store):
    """Return all answers of the graph, as ids."""
    graph = store.scoped_graph(Scope(), EdgeFilter("both"))
    nodes = graph.nodes([*IDS, *ENTITIES])
    neighbours = []
    for hops in (graph.neighbours(nodes), graph.links(nodes)):
        ends = zip(hops.origin.tolist(), graph.ids(hops.node), hops.weight.tolist(), strict=True)
        neighbours.append(sorted(ends))
    return neighbours, graph.degrees(nodes).tolist(), np.flatnonzero(nodes >= 0).tolist()


@pytest.mark.parametrize(
    ("rounds", "seed"), [(2, 1), *(pytest.param(15, 100 * each, marks=pytest.mark.faults) for each in range(100, 105))]
)
def test_a_reader_is_correct_after_kills(tmp_path, rounds, seed):
    """After deaths of the writer, an open reader gives the same answers as a new one."""
    folder = tmp_path / "index"
    dice = random.Random(seed)
    with closing(open_words(folder)) as store:
        store.upsert([])
    with closing(open_words(folder, read_only=True)) as reader:
        for number in range(rounds):
            with start_python("-m", "tests.faults.test_graph_kill", folder, seed + number) as writer:
                for _ in range(dice.randint(2, 12)):
                    writer.stdout.readline()
                    answers(reader)  # the graph can be traversed in any state
                writer.kill()
            assert writer.returncode == -9, "the writer failed before it was killed"
            with closing(open_words(folder)) as fresh:
                assert answers(reader) == answers(fresh)
                assert fresh.admin.check().problems == ()


if __name__ == "__main__":
    main(*sys.argv[1:])
