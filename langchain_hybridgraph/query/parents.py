"""Replaces children by their parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, Hit


def parent_ids(hits: Sequence[Hit]) -> list[str]:
    """The ids of the parents that the hits point to, each once, in the hits' order.

    An id that the store then does not give is a missing parent (``parents-failed``).
    """
    return list(dict.fromkeys(parent for hit in hits if (parent := _parent(hit)) is not None))


def replace_children(hits: Sequence[Hit], parents: Mapping[str, Chunk]) -> list[Hit]:
    """The hits with each child replaced by its parent, best first, ties by id.

    A parent stands once, with everything of its best child (equal scores: the child of smaller id), which
    ``Hit.child`` keeps; a parent that was found itself competes with its children. A hit without a parent, or
    whose parent is not among ``parents``, stays as it is.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> found = [("c1", 0.6), ("c2", 0.9)]
    >>> hits = [Hit(Chunk(id, "", parent_id="p"), score, "vector", {"vector": score}) for id, score in found]
    >>> [(hit.id, hit.score, hit.child.id) for hit in replace_children(hits, {"p": Chunk("p", "both")})]
    [('p', 0.9, 'c2')]
    """
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.id)):
        resolved = _resolved(hit, parents)
        best.setdefault(resolved.id, resolved)
    return sorted(best.values(), key=lambda hit: (-hit.score, hit.id))


def _parent(hit: Hit) -> str | None:
    return None if hit.child is not None or hit.chunk.parent == hit.id else hit.chunk.parent


def _resolved(hit: Hit, parents: Mapping[str, Chunk]) -> Hit:
    parent = _parent(hit)
    if parent is None or parent not in parents:
        return hit
    return replace(hit, chunk=parents[parent], child=hit.chunk)
