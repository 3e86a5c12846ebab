"""Process that changes chunks and edges until it is killed, and prints a line for every change.

python -m tests.faults.graph_writer FOLDER SEED
"""

import random
import sys
from pathlib import Path

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import MENTIONS, Edge
from tests.support.stores.words import open_words

IDS = [f"c{number}" for number in range(60)]
ENTITIES = [f"entity:{number}" for number in range(8)]


def open_store(folder, **options):
    """Return the store that the writer, and the reader in the test, use."""
    return open_words(folder, **options)


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
    store = open_store(Path(folder))
    while True:
        step(store, dice)
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
