"""Scores of chunks in a hierarchical search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.execution.effects import Search, ask_all
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.query.hierarchy.best_first import ReachedNode
from langchain_hybridgraph.query.pipeline import Candidates
from langchain_hybridgraph.records import Chunk, FusedCandidate, Hit, Query

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.protocols import Level, Weights


class Scores:
    """Scores of the chunks in one search.

    At first, only candidates have scores. :meth:`add_scores` computes the scores of other chunks.
    """

    def __init__(self, ranked: Candidates, fusion: Any) -> None:
        self.candidates = ranked.fused_candidates
        self._ranked, self._fusion = ranked, fusion
        self._by_id = {one.id: one for one in self.candidates}
        self._own = [dict(ranking.scores) for ranking in ranked.rankings]
        # From here on, the fusion needs only the best entry of each list.
        self._rankings = [
            replace(ranking, entries=ranking.entries[:1], scores=own)
            for ranking, own in zip(ranked.rankings, self._own, strict=True)
        ]

    def score(self, id: str) -> float:
        """Return the fused score of a chunk, or 0 if it is unknown."""
        candidate = self._by_id.get(id)
        return 0.0 if candidate is None else candidate.score

    def best(self, level: Level) -> Weights:
        """Return the score of each node's best chunk, or 0 for a node without chunks."""
        scores = np.zeros(len(level.nodes))
        np.maximum.at(scores, level.owners, list(map(self.score, level.chunks)))
        return scores

    def parts(self, id: str) -> Mapping[str, float]:
        """Return each source's part of the fused score of a chunk."""
        candidate = self._by_id.get(id)
        return {} if candidate is None else candidate.parts

    def raw(self, source: str, id: str) -> float | None:
        """Return the score that a source gave to a chunk, or None if it is unknown."""
        return next((ranking.scores.get(id) for ranking in self._rankings if ranking.source == source), None)

    def found_by(self, id: str) -> tuple[str, ...]:
        """Return the names of the sources that found the chunk."""
        pairs = zip(self._ranked.results, self._ranked.source_ids, strict=True)
        return tuple(source.name for source, ids in pairs if id in ids)

    def add_scores(self, ids: Iterable[str], query: Query, trace: Trace) -> Search[None]:
        """Compute the scores of these chunks with all sources. Chunks that already have a score are skipped."""
        new = [id for id in dict.fromkeys(ids) if id not in self._by_id]
        if not new:
            return
        calls_by_place = []
        for place, (source, answer) in enumerate(self._ranked.results.items()):
            unknown = [id for id in new if id not in self._own[place]]
            if unknown and (call := source.score(query, answer, unknown)) is not None:
                calls_by_place.append((place, call))
        answers = yield from ask_all(trace, [call for _, call in calls_by_place], {})
        for (place, _), scores in zip(calls_by_place, answers, strict=True):
            self._own[place] |= scores
        self._by_id |= {one.id: one for one in self._fusion.others(self._rankings, new)}
        self._by_id |= {id: FusedCandidate(id, 0.0, {}) for id in new if id not in self._by_id}


def own_hit(chunk: Chunk, scores: Scores, own: float) -> Hit:
    """Return a hit that contains the chunk and has the score ``own``.

    If the reranker changed the score, the difference is listed under ``rerank`` in ``parts``.
    """
    # A chunk that no source listed was reached through its directory.
    parts, found_by = dict(scores.parts(chunk.id)), scores.found_by(chunk.id) or ("hierarchy",)
    change = own - math.fsum(parts.values())
    reranked = abs(change) > 1e-9
    cosine = scores.raw("vector", chunk.id)
    return Hit(
        chunk=chunk,
        score=own,
        source=found_by[0] if len(found_by) == 1 else "fused",
        parts=parts | ({"rerank": change} if reranked else {}),
        vector_score=None if cosine is None else min(1.0, max(0.0, cosine)),
        bm25_score=scores.raw("keyword", chunk.id),
        rerank_score=own if reranked else None,
        path=(chunk.id,),
        found_by=found_by,
    )


def with_directory(hit: Hit, node: ReachedNode, alpha: float) -> Hit:
    """Return a copy of the hit with its node's value as the score.

    The entry ``hierarchy`` in ``parts`` is the contribution of the node's directory. If the directory has no value, the
    hit is returned unchanged.
    """
    if node.directory_value is None:
        return hit
    parts = {name: alpha * part for name, part in hit.parts.items()} | {"hierarchy": (1 - alpha) * node.directory_value}
    return replace(hit, score=node.value, parts=parts)
