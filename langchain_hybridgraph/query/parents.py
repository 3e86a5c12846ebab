"""Replacement of children by their parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, Hit


def parent_ids(hits: Sequence[Hit]) -> list[str]:
    """Return the ids of the hits' parents, each once, in the order of the hits."""
    return list(dict.fromkeys(parent for hit in hits if (parent := _parent(hit)) is not None))


def replace_children(hits: Sequence[Hit], parents: Mapping[str, Chunk]) -> list[Hit]:
    """Return the hits with each child replaced by its parent, best first, ties by id.

    A parent appears once, with the score and the path of its best child; ``Hit.child`` is that child. If several
    children have the best score, the one with the smallest id is used. If the parent is itself among the hits, the
    better of the two hits is kept. A hit without a parent, or with a parent that is not in ``parents``, is returned
    unchanged.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> children = [("c1", 0.6), ("c2", 0.9)]
    >>> hits = [Hit(Chunk(id, "", parent_id="p"), score, "vector", {"vector": score}) for id, score in children]
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
