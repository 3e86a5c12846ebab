"""Record of requests that a language model has answered."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from langchain_hybridgraph.records import Edge

# Name of the file in the index folder.
CACHE_FILE = "llm_edges.jsonl"


class CachedAnswer(NamedTuple):
    """The recorded answer to one request, as the hashes of the answer's edges."""

    question: str
    edges: tuple[str, ...]


class LLMCache:
    """Record of answered requests, in a file with one JSON object per line, or in memory if ``path`` is None.

    The file contains only hashes, so no part of a deleted text remains in it. Each answer is on disk when :meth:`note`
    returns. A line that a crash has cut off is ignored. If the file is deleted, all requests are sent again.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._answers: dict[str, CachedAnswer] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)  # detect an unwritable file now, not after the first answer
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                answer = _answer(line)
                if answer is not None:
                    self._answers[answer.question] = answer

    def is_answered(self, question: str, hashes: Iterable[str]) -> bool:
        """Return whether the request was answered and all edges of its answer are still among ``hashes``."""
        answer = self._answers.get(question)
        return answer is not None and set(hashes).issuperset(answer.edges)

    def note(self, question: str, edges: Iterable[Edge]) -> None:
        """Record that a request was answered with these edges. The edges must already be in the store."""
        answer = self._answers[question] = CachedAnswer(question, tuple(sorted({edge_hash(edge) for edge in edges})))
        if self.path is not None:
            line = json.dumps({"question": answer.question, "edges": list(answer.edges)})
            with self.path.open("a", encoding="utf-8") as file:
                # Begin a new line even if the last one was cut off.
                file.write(f"\n{line}\n" if file.tell() else f"{line}\n")
                file.flush()
                os.fsync(file.fileno())


def edge_hash(edge: Edge) -> str:
    """Return a hash that identifies an edge by its source, relation and target."""
    return hashed(edge.source, edge.relation, edge.target)


def hashed(*parts: str) -> str:
    """Return a short hash of several strings.

    >>> hashed("ab", "c") == hashed("a", "bc")
    False
    """
    digest = blake2b(digest_size=12)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def _answer(line: str) -> CachedAnswer | None:
    try:
        record = json.loads(line)
        return CachedAnswer(str(record["question"]), tuple(map(str, record["edges"])))
    except (ValueError, KeyError, TypeError):
        return None
