"""Remembers what a language model was asked already."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from langchain_hybridgraph.records import Edge


class Answer(NamedTuple):
    """Recorded result of one request: the hashes of the edges."""

    question: str
    edges: tuple[str, ...]


class LLMCache:
    """Answered questions in a file of one JSON object per line, or in memory for ``path`` None.

    It holds hashes only, so that nothing of a deleted text is left in it. Each answer is on disk when :meth:`note`
    returns. A line that a crash has cut off is passed over. Deleting the file makes the model be asked again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._answers: dict[str, Answer] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)  # fail now rather than with the first answer
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                answer = _answer(line)
                if answer is not None:
                    self._answers[answer.question] = answer

    def is_answered(self, question: str, there: Iterable[str]) -> bool:
        """Whether the question was asked, and all edges of its answer are among ``there`` (hashes) still."""
        answer = self._answers.get(question)
        return answer is not None and set(there).issuperset(answer.edges)

    def note(self, question: str, edges: Iterable[Edge]) -> None:
        """Remember that the question was answered by these edges, which are in the store already."""
        answer = self._answers[question] = Answer(question, tuple(sorted({edge_hash(edge) for edge in edges})))
        if self.path is not None:
            line = json.dumps({"question": answer.question, "edges": list(answer.edges)})
            with self.path.open("a", encoding="utf-8") as file:
                # A line of its own even after one that was cut off.
                file.write(f"\n{line}\n" if file.tell() else f"{line}\n")
                file.flush()
                os.fsync(file.fileno())


def edge_hash(edge: Edge) -> str:
    """By what an edge of an answer is recognised: its source, target and relation."""
    return hashed(edge.source, edge.relation, edge.target)


def hashed(*parts: str) -> str:
    """A short hash of several texts.

    >>> hashed("ab", "c") == hashed("a", "bc")
    False
    """
    digest = blake2b(digest_size=12)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def _answer(line: str) -> Answer | None:
    try:
        read = json.loads(line)
        return Answer(str(read["question"]), tuple(map(str, read["edges"])))
    except (ValueError, KeyError, TypeError):
        return None
