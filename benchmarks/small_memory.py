"""Everyday questions to a small memory without a model: right answers first, in the first three, and empty answers.

    python benchmarks/small_memory.py [--embedding lsa] [--set nurse]... [--misses]

``small_memory.json`` has the facts that forty people told an assistant, sixteen or twenty each, and twenty questions
about them in everyday words, most of which do not repeat the words of the fact. The people that are "tuned on" decided
about topics and settings, the others are held out. Every fact is added by itself, in the order of the file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, MemoryRetriever

DATA = Path(__file__).with_name("small_memory.json")


def main() -> None:
    """Print one row per person and retriever."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--embedding", default="lsa")
    options.add_argument("--set", action="append", help="only this person; may be given several times")
    options.add_argument("--misses", action="store_true", help="list the questions whose fact is not first")
    arguments = options.parse_args()
    people: dict[str, Any] = json.loads(DATA.read_text("utf-8"))
    print("| person | | retriever | right first | in the first 3 | empty |\n|---|---|---|---|---|---|")
    for name, person in people.items():
        if arguments.set and name not in arguments.set:
            continue
        store = HybridGraphStore(None, arguments.embedding)
        for place, fact in enumerate(person["facts"], 1):
            store.add_texts([fact], ids=[str(place)])
        for retriever in (HybridRetriever(store, k=3), MemoryRetriever(store, k=3)):
            answers = [[d.id for d in retriever.invoke(one["question"])] for one in person["questions"]]
            row = counted(answers, [str(one["fact"]) for one in person["questions"]])
            use = "held out" if person["held_out"] else "tuned on"
            print(
                f"| {name} | {use}, {person['written']} | {type(retriever).__name__} | {' | '.join(row)} |", flush=True
            )
        if arguments.misses:
            list_misses(person, answers)
        store.close()


def counted(answers: Sequence[Sequence[str | None]], right: Sequence[str]) -> list[str]:
    """Count the answers with the right fact first and in the first three, and the empty answers."""
    pairs = list(zip(answers, right, strict=True))
    first = sum(answer[:1] == [id] for answer, id in pairs)
    in_answer, empty = sum(id in answer for answer, id in pairs), sum(not answer for answer in answers)
    return [f"{first} of {len(right)}", str(in_answer), str(empty)]


def list_misses(person: dict[str, Any], answers: Sequence[Sequence[str | None]]) -> None:
    """Print the questions whose fact is not first, with the first hit."""
    facts = person["facts"]
    for one, answer in zip(person["questions"], answers, strict=True):
        if answer[:1] != [str(one["fact"])]:
            first_hit = facts[int(answer[0] or 0) - 1] if answer else "nothing"
            print(f"    {one['question']}  expected: {facts[one['fact'] - 1]}  got: {first_hit}")


if __name__ == "__main__":
    main()
