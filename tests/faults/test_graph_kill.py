"""Graph of a reader while the writer is killed: its answers match the catalog."""

import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from langchain_hybridgraph.records import EdgeFilter, Scope
from tests.faults.graph_writer import ENTITIES, IDS, open_store

WRITER = "tests.faults.graph_writer"
ROOT = Path(__file__).parents[2]


def answers(store):
    """Return all answers of the graph, as ids."""
    graph = store.scoped_graph(Scope(), EdgeFilter("both"))
    nodes = graph.nodes([*IDS, *ENTITIES])
    neighbours = []
    for hops in (graph.neighbours(nodes), graph.links(nodes)):
        ends = zip(hops.origin.tolist(), graph.ids(hops.node), hops.weight.tolist(), strict=True)
        neighbours.append(sorted(ends))
    return neighbours, graph.degrees(nodes).tolist(), np.flatnonzero(nodes >= 0).tolist()


def killed_rounds(folder, rounds, seed):
    dice = random.Random(seed)
    with closing(open_store(folder)) as store:
        store.upsert([])
    with closing(open_store(folder, read_only=True)) as reader:
        for number in range(rounds):
            command = [sys.executable, "-m", WRITER, str(folder), str(seed + number)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
                for _ in range(dice.randint(2, 12)):
                    writer.stdout.readline()
                    answers(reader)  # the graph can be traversed in any state
                writer.kill()
            assert writer.returncode == -9, "the writer failed before it was killed"
            with closing(open_store(folder)) as fresh:
                assert answers(reader) == answers(fresh)
                assert fresh.admin.check().problems == ()


def test_a_reader_is_correct_after_two_kills(tmp_path):
    """After two deaths of the writer, an open reader gives the same answers as a new one."""
    killed_rounds(tmp_path / "index", 2, seed=1)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(100, 105))
def test_a_reader_is_correct_after_many_kills(tmp_path, seed):
    """After many deaths of the writer, an open reader gives the same answers as a new one."""
    killed_rounds(tmp_path / "index", 15, seed=seed * 100)
