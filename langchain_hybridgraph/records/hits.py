"""Search hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_hybridgraph.records.chunks import Chunk
from langchain_hybridgraph.records.explanation import explain_hit, explain_route
from langchain_hybridgraph.records.serialization import Serializable


@dataclass(frozen=True, slots=True)
class Hit(Serializable):
    """A chunk with its score and the parts of that score; hits are passed from stage to stage.

    - ``parts`` sum to ``score``, and ``found_by`` lists the sources that found the chunk.
    - ``path`` contains the chunk ids from the seed to this chunk. It contains only this chunk's id if the chunk was not
      reached through edges.
    - ``graph_context`` describes the last edges of the path as they are stored, last edge first. The ``direction`` of
      an edge is ``"backward"`` if it was followed from its target to its source.
    - ``child`` is the chunk that matched, if the hit contains its parent instead.
    """

    chunk: Chunk
    score: float
    source: str
    parts: Mapping[str, float]
    vector_score: float | None = None
    bm25_score: float | None = None
    rerank_score: float | None = None
    hops: int = 0
    path: tuple[str, ...] = ()
    graph_context: tuple[Mapping[str, Any], ...] = ()
    child: Chunk | None = None
    found_by: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Id of the chunk."""
        return self.chunk.id

    def explain(self) -> str:
        """Return one line that explains the rank of this hit and the edges through which it was found.

        Only the last edges of a long path are known (``graph_context``); earlier edges are left out.

        >>> parts, both = {"vector": 0.6, "keyword": 0.3}, ("vector", "keyword")
        >>> Hit(Chunk("a", "t"), 0.9, "fused", parts, vector_score=0.8, found_by=both).explain()
        'score 0.900 = vector 0.600 + keyword 0.300 · found by vector and keyword · cosine 0.800'
        >>> cites = {"from_chunk_id": "a", "relation": "cites", "weight": 0.8, "description": "B builds on A."}
        >>> parts, path = {"vector": 0.2, "graph": 0.3}, ("a", "b")
        >>> reached = Hit(Chunk("b", "t"), 0.5, "graph", parts, hops=1, path=path, graph_context=(cites,))
        >>> for reason in reached.explain().split(" · "):
        ...     print(reason)
        score 0.500 = vector 0.200 + graph 0.300
        found by graph
        1 hop from a to b: cites (weight 0.80, “B builds on A.”)
        >>> from dataclasses import replace
        >>> replace(reached, graph_context=({**cites, "direction": "backward"},)).explain().split(" · ")[-1]
        '1 hop from a to b: b cites a (followed backward, weight 0.80, “B builds on A.”)'
        """
        return explain_hit(
            self.score,
            self.parts,
            sources=self.found_by or (self.source,),
            cosine=self.vector_score,
            bm25=self.bm25_score,
            reranked=self.rerank_score,
            route=explain_route(self.id, self.path, self.hops, self.graph_context) if self.hops else None,
            parent_of=None if self.child is None else self.child.id,
        )
