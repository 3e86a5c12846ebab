"""From the hits of a search over edges to chunks that it did not find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.graph_scores import GraphScore, Reached, is_mixed, needs_own, valued
from langchain_hybridgraph.query.traversal.walk import Arrived, Traversal
from langchain_hybridgraph.records import Edge, Hit

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter

# So many edges of its path, from its end on, stand in a hit's ``graph_context``.
CONTEXT = 3
# Where a chunk would be that no walk comes to.
_NOWHERE = 1_000_000


@dataclass(frozen=True, slots=True)
class Expansion:
    """How a search goes on over edges.

    The walk begins at the best ``seed_k`` hits, of those that pass ``seed_filter`` and have any of ``seed_labels``, or
    at ``seed_ids`` instead. The hits that are no seeds stay candidates. What only edges led to needs ``min_score``.
    Raises ConfigurationError for a seed_k below 1.
    """

    traversal: Traversal
    score: GraphScore
    seed_k: int = 10
    seed_filter: Filter | None = None
    seed_labels: frozenset[str] = frozenset()
    seed_ids: tuple[str, ...] | None = None
    min_score: float = 0.0

    def __post_init__(self) -> None:
        if self.seed_k < 1:
            raise ConfigurationError(f"seed_k is {self.seed_k}; the walk begins at so many hits, at least 1")

    def seeds(self, hits: Sequence[Hit]) -> list[tuple[str, float]]:
        """The ids and scores, best first, at which the walk begins.

        Scores are cosines for a graph score that compares them with those of expanded chunks, else the search's own.
        """
        if self.seed_ids is not None:
            found = {hit.id: hit for hit in hits}
            given = [(id, self._strength(found[id]) if id in found else 1.0) for id in dict.fromkeys(self.seed_ids)]
            return sorted(given, key=_by_score)
        chosen = [hit for hit in hits if self._is_seed(hit)][: self.seed_k]
        return sorted(((hit.id, self._strength(hit)) for hit in chosen), key=_by_score)

    def _strength(self, hit: Hit) -> float:
        compared = needs_own(self.score) and not is_mixed(self.score)
        return hit.vector_score if compared and hit.vector_score is not None else hit.score

    def _is_seed(self, hit: Hit) -> bool:
        metadata = hit.chunk.metadata
        if self.seed_filter is not None and not self.seed_filter.matches(
            {"document_id": hit.chunk.document, **metadata}
        ):
            return False
        labels = metadata.get("labels")
        return not self.seed_labels or (isinstance(labels, list) and not self.seed_labels.isdisjoint(map(str, labels)))

    def merged(self, hits: Sequence[Hit], expanded: Mapping[str, Hit], reached: Iterable[Arrived]) -> list[Hit]:
        """All hits with their scores after the walk, best first, ties by id.

        ``expanded`` are the hits that the walk has added, with the scores that the search would have given them.
        """
        arrived = {each.id: each for each in reached}
        known = {**{hit.id: hit for hit in hits}, **expanded}
        if self.seed_ids is not None:
            known = {id: hit for id, hit in known.items() if id in arrived}
        best = max((hit.score for hit in known.values()), default=0.0)
        merged = [self._scored(hit, arrived.get(id), best) for id, hit in known.items()]
        kept = [hit for hit in merged if hit.score >= self.min_score or hit.source != "graph" or not hit.hops]
        return sorted(kept, key=lambda hit: (-hit.score, hit.id))

    def _scored(self, hit: Hit, arrived: Arrived | None, best: float) -> Hit:
        if arrived is not None and arrived.hops:
            found_by = tuple(dict.fromkeys((*hit.found_by, "graph")))
            source = "fused" if len(found_by) > 1 else "graph"
            hit = replace(hit, hops=arrived.hops, path=arrived.path, found_by=found_by, source=source)
        if is_mixed(self.score):
            graph = 0.0 if arrived is None else arrived.value
            score = best * self.score.mixed(hit.score / best, graph) if best else graph
            return replace(hit, score=score, parts={**hit.parts, "graph": score - hit.score} if graph else hit.parts)
        value = arrived.value if arrived is not None else self._unreached(self._strength(hit))
        return replace(hit, score=value, parts={"graph": value})

    def _unreached(self, own: float) -> float:
        """What a candidate is worth that the walk did not come to."""
        zero = np.zeros(1)
        there = Reached(
            zero + own, own, np.array([_NOWHERE]), zero, zero, zero + np.nan, zero + own, zero
        )  # fmt: skip
        return float(np.nan_to_num(valued(self.score, there))[0])


def steps(hit: Hit) -> list[tuple[str, str]]:
    """The last steps of a hit's path, the very last first."""
    return list(zip(hit.path[:-1], hit.path[1:], strict=True))[::-1][:CONTEXT]


def with_context(hit: Hit, walked: Sequence[Edge | tuple[Edge, Edge] | None]) -> Hit:
    """The hit with the edges of :func:`steps` described."""
    pairs = zip(steps(hit), walked, strict=True)
    return replace(hit, graph_context=tuple(_described(one, edge) for (one, _), edge in pairs if edge is not None))


def _described(chunk: str, edge: Edge | tuple[Edge, Edge]) -> dict[str, Any]:
    if isinstance(edge, Edge):
        return {
            "from_chunk_id": chunk,
            "relation": edge.relation,
            "weight": edge.weight,
            "description": edge.description,
        }
    here, there = edge
    entity = here.target
    return {
        "from_chunk_id": chunk,
        "relation": here.relation,
        "weight": here.weight * there.weight,
        "description": f"Both mention {entity.partition(':')[2] or entity}.",
        "entity": entity,
    }


def _by_score(seed: tuple[str, float]) -> tuple[float, str]:
    return -seed[1], seed[0]
