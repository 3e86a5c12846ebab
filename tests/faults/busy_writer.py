"""Process that writes to an index until it is killed, and reports each step.

Each step is printed as a line of JSON before it starts, and again with ``"done": true`` once the store has
acknowledged it. With ``STEPS``, the store is closed after this number of steps.

    python -m tests.faults.busy_writer FOLDER SEED words|fitted [STEPS]
"""

import itertools
import json
import random
import sys
from pathlib import Path

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.stores import access, generations, index
from tests.support.models.fitted_words import FittedWords
from tests.support.stores.words import open_named, open_words

IDS = [f"chunk/{number}" for number in range(400)]
COLOURS = ["amber", "blue", "coral", "green", "red"]


def open_store(folder, kind, **options):
    """Return the store that the writer uses, and that the test opens after the writer's death."""
    if kind == "fitted":
        return open_named(folder, FittedWords(), "fitted", load=FittedWords.load, **options)
    return open_words(folder, **options)


def step(dice, ids):
    """Choose the next step, which changes some of these ids."""
    verb = dice.choices(["upsert", "remove", "flush"], [6, 2, 2])[0]
    if verb == "upsert":
        some = dice.sample(ids, dice.choice([1, 3, 40, 200]))
        return {"upsert": {id: f"{dice.choice(COLOURS)} token{dice.getrandbits(40)}" for id in some}}
    return {"remove": dice.sample(ids, dice.choice([1, 20]))} if verb == "remove" else {"flush": True}


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(folder, seed, kind, steps=None, *, ids=IDS, say=say):
    # Small limits make index steps between flushes, a trimmed outbox and packed vectors frequent.
    access.STEP_ROWS, index.KEPT_VERSIONS, generations.MOST_DEAD = 150, 6, 30
    dice = random.Random(seed)
    store = open_store(Path(folder), kind)
    say({"opened": True})
    for _ in itertools.count() if steps is None else range(int(steps)):
        task = step(dice, ids)
        say(task)
        if "upsert" in task:
            store.upsert([Chunk(id, text) for id, text in task["upsert"].items()])
        elif "remove" in task:
            store.remove(task["remove"])
        else:
            if kind == "fitted":
                store.embedding.is_due = True
            store.flush()
        say({**task, "done": True})
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
