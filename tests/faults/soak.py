"""Hours of work on one index: two processes write, three read, and nothing may grow or be lost.

    python -m tests.faults.soak [SECONDS] [--chunks 100000]

Each writer owns half of the chunks. It adds new ones with edges, deletes its oldest ones, remembers a fact, gives
feedback, and opens the store again now and then, so the number of chunks stays the same. Readers search by question,
through the graph and for memories. Twelve times, or every five minutes in an hour, the state is printed. At the end,
the index must contain exactly the chunks that the writers have not deleted, and ``check`` must find no problems.

Before the first row, a quarter of the chunks are replaced in the same steps, because a new index has no rows of deleted
chunks, so its files grow until they are packed for the first time. All texts consist of the same 25,000 words, so that
the caches of words, which are limited, have their final size early.

Python allocates with the C library (glibc 2.33 or newer) as well, so that ``allocated_mb`` contains everything that was
allocated and not freed, including numpy, SQLite and Tantivy. ``resident_mb`` is the memory without mapped files after
freed pages were returned to the system; it also contains pages in which a single allocation is still in use, so it
grows until it fits the largest state of any moment.

The state is flat if the median of the last three rows is at most 10 % above that of the three rows after the first.
Latency is also given in processor time, because the time of day depends on what else the machine does.
"""

import argparse
import ctypes
import gc
import multiprocessing
import os
import queue
import random
import statistics
import sys
import tempfile
import time
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path

from langchain_hybridgraph import GraphRetriever, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge, Query, Scope
from tests.support.stores.words import has_own_vectors, open_words

WRITERS, READERS, ROWS, BATCH = 2, 3, 12, 20
PAUSE = {"write": 0.5, "read": 0.1}
STEPS_PER_OPENING = 50
LIMIT = 1.1
LIBC = ctypes.CDLL(None)
ENVIRONMENT = {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "2"}
COLUMNS = ("allocated_mb", "resident_mb", "handles", "processor_ms", "p50_ms", "p95_ms", "index_mb", "chunks", "steps")
FLAT = ("allocated_mb", "handles", "processor_ms", "index_mb")


def name_of(id):
    """Return two words that only the text of this chunk contains together."""
    owner, _, number = id.rpartition("x") if "x" in id else ("stays", "", id.removeprefix("stays"))
    return f"{owner}high{int(number) // 1000} {owner}low{int(number) % 1000}"


def text_of(id):
    """Return the text of a chunk: twenty words that depend on its id, and its name."""
    dice = random.Random(id)
    return " ".join(f"word{int(dice.paretovariate(0.3)) % 20_000}" for _ in range(20)) + f" {name_of(id)}"


def add(store, ids):
    edges = [Edge(source, target, "next") for source, target in pairwise(ids)]
    store.upsert([Chunk(id, text_of(id), {"number": int(id.partition("x")[2])}) for id in ids], edges=edges)


class Writer:
    """Writer number ``name``, whose chunks are those with numbers from ``first`` up to ``end``."""

    def __init__(self, name, first, end):
        self.name, self.first, self.end = name, first, end
        self.fact = None

    def replace_oldest(self, store):
        """Add twenty chunks and delete the twenty oldest, and return the ids of the new ones."""
        ids = [f"w{self.name}x{each}" for each in range(self.end, self.end + BATCH)]
        add(store, ids)
        self.end += BATCH
        store.flush()
        store.remove([f"w{self.name}x{each}" for each in range(self.first, self.first + BATCH)])
        self.first += BATCH
        return ids

    def step(self, store, number):
        ids = self.replace_oldest(store)
        store.memory.feedback(ids[number % BATCH], random.choice(["validate", "refute", "useful", "stale"]))
        if number % 5 == 0:
            if self.fact is not None:
                store.remove([self.fact])
            [admission] = store.memory.remember([f"The code of gate {self.name} is {number}."])
            self.fact = admission.id

    def state(self):
        return {"name": self.name, "first": self.first, "end": self.end, "fact": self.fact}


class Reader:
    """Reader that searches for chunks that are never deleted, and for others."""

    def step(self, store, number):
        retriever = (HybridRetriever, GraphRetriever, MemoryRetriever)[number % 3](store, k=5)
        id = f"stays{random.randrange(100)}"
        result = retriever.retrieve(text_of(id))
        # On a busy machine, a writer may be interrupted between its commit and that of the keyword index.
        assert set(result.degraded) <= {"keyword-behind"}, result.degraded
        assert result[0].id == id, f"{result[0].id} instead of {id}"

    def state(self):
        return {}


def work(figures, folder, verb, worker, seconds):
    """Write or read until the time is over, and send a row of figures in each twelfth of it."""
    store = open_words(folder, read_only=verb == "read")
    begin, times, processor, row, number = time.monotonic(), [], [], 1, 0
    while row <= ROWS:
        start, used = time.perf_counter(), time.process_time()
        worker.step(store, number)
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
        number += 1
        if number % STEPS_PER_OPENING == 0:
            store.close()
            store = open_words(folder, read_only=verb == "read")
        time.sleep(PAUSE[verb])
        if time.monotonic() - begin > row * seconds / ROWS:
            about = {"verb": verb, "row": row, "times": times, "processor": processor}
            figures.put({**about, **own_size(), **worker.state()})
            times, processor, row = [], [], row + 1
    store.close()


NAMES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class Allocations(ctypes.Structure):
    """The result of the C library's ``mallinfo2``, in bytes."""

    _fields_ = [(name, ctypes.c_size_t) for name in NAMES]


def own_size():
    """Return this process's allocated memory, its memory without mapped files, and its number of handles."""
    gc.collect()
    LIBC.malloc_trim(0)
    LIBC.mallinfo2.restype = Allocations
    allocations = LIBC.mallinfo2()
    status = Path("/proc/self/status").read_text("ascii")
    anonymous = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return {
        "allocated_mb": (allocations.uordblks + allocations.hblkhd) / 2**20,
        "resident_mb": int(anonymous.split()[1]) / 1024,
        "handles": len(os.listdir("/proc/self/fd")),
    }


def size_of(folder):
    """Return the space on disk in MB."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total / 1e6


def summary(figures, folder):
    """Return one row of the table for the writers and one for the readers."""
    rows = []
    for verb in ("write", "read"):
        part = [each for each in figures if each["verb"] == verb]
        times = sorted(1000 * seconds for each in part for seconds in each["times"])
        rows.append(
            {
                "allocated_mb": max(each["allocated_mb"] for each in part),
                "resident_mb": max(each["resident_mb"] for each in part),
                "handles": max(each["handles"] for each in part),
                "processor_ms": 1000 * statistics.mean(seconds for each in part for seconds in each["processor"]),
                "p50_ms": statistics.median(times),
                "p95_ms": times[int(0.95 * len(times))],
                "index_mb": size_of(folder),
                "chunks": sum(each["end"] - each["first"] for each in part if verb == "write"),
                "steps": len(times),
            }
        )
    return rows


def growth(rows, column):
    """Return the ratio of the last three rows to the three after the first."""
    return statistics.median(row[column] for row in rows[-3:]) / statistics.median(row[column] for row in rows[1:4])


def missing_or_wrong(folder, figures):
    """Return descriptions of chunks that are missing, superfluous, or have a wrong text, vector or keyword entry."""
    last = [each for each in figures if each["verb"] == "write" and each["row"] == ROWS]
    expected = {f"stays{number}" for number in range(100)} | {each["fact"] for each in last}
    for each in last:
        expected |= {f"w{each['name']}x{number}" for number in range(each["first"], each["end"])}
    with closing(open_words(folder)) as store:
        ids = set(store.find(Scope()))
        problems = [f"{len(expected - ids)} lost", f"{len(ids - expected)} superfluous"] if ids != expected else []
        sample = sorted(id for id in random.sample(sorted(expected), 2000) if "x" in id)
        texts = {chunk.id: chunk.text for chunk in store.get(sample)}
        problems += [f"text of {id}" for id in sample if texts.get(id) != text_of(id)]
        problems += [] if has_own_vectors(store, {id: text_of(id) for id in sample}) else ["vectors"]
        for id in sample[:200]:
            ids = store.keyword_search(Query(name_of(id), 1), 1).ids
            problems += [f"keywords of {id}"] if list(ids) != [id] else []
        return problems + list(map(str, store.admin.check().problems))


def age_of(chunks):
    """Return the number of chunks that each writer has replaced before the first row: a quarter, in whole steps."""
    return chunks // WRITERS // 4 // BATCH * BATCH


def build(folder, chunks):
    """Create the index: the writers' chunks, of which a quarter are replaced, and a hundred that stay."""
    with closing(open_words(folder)) as store:
        store.add_texts([text_of(f"stays{number}") for number in range(100)], ids=[f"stays{n}" for n in range(100)])
        for writer in range(WRITERS):
            for start in range(0, chunks // WRITERS, 1000):
                end = min(start + 1000, chunks // WRITERS)
                add(store, [f"w{writer}x{number}" for number in range(start, end)])
        store.flush()
        for writer in (Writer(name, 0, chunks // WRITERS) for name in range(WRITERS)):
            while writer.first < age_of(chunks):
                writer.replace_oldest(store)


def soak(folder, seconds, chunks):
    """Run the soak, print its table, and return whether the state is flat and nothing is lost."""
    build(folder, chunks)
    print(f"{chunks} chunks built; {seconds} s of {WRITERS} writers and {READERS} readers", flush=True)
    os.environ |= ENVIRONMENT
    context, figures = multiprocessing.get_context("spawn"), []
    channel, processes = context.Queue(), []
    age, share = age_of(chunks), chunks // WRITERS
    workers = [("write", Writer(name, age, age + share)) for name in range(WRITERS)] + [("read", Reader())] * READERS
    for verb, worker in workers:
        processes.append(context.Process(target=work, args=(channel, folder, verb, worker, seconds)))
        processes[-1].start()
    table = {"write": [], "read": []}
    print(f"{'':<12}" + "".join(f"{name:>14}" for name in COLUMNS), flush=True)
    for row in range(1, ROWS + 1):
        while len(part := [each for each in figures if each["row"] == row]) < len(processes):
            assert all(process.exitcode in (None, 0) for process in processes), "a process has failed"
            with suppress(queue.Empty):
                figures.append(channel.get(timeout=1))
        for verb, values in zip(table, summary(part, folder), strict=True):
            table[verb].append(values)
            cells = "".join(f"{values[name]:>14.1f}" for name in COLUMNS)
            print(f"{row * seconds / ROWS:>6.0f} {verb:<5}{cells}", flush=True)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return judge(table, missing_or_wrong(folder, figures))


def judge(table, problems):
    is_good = not problems
    print("nothing lost, no problems" if is_good else f"PROBLEMS: {problems[:10]}")
    for verb, rows in table.items():
        for column in FLAT:
            ratio = growth(rows, column)
            is_good = is_good and ratio <= LIMIT
            print(f"{verb:<6}{column:<14}x {ratio:.2f}  {'flat' if ratio <= LIMIT else 'GROWS'}")
    return is_good


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("seconds", type=float, nargs="?", default=3600)
    options.add_argument("--chunks", type=int, default=100_000, help="number of chunks in the index")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        sys.exit(0 if soak(Path(place) / "index", arguments.seconds, arguments.chunks) else 1)


if __name__ == "__main__":
    main()
