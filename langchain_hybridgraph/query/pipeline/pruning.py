"""Checks that let a search skip needless work.

Each function limits one kind of work to what can change the result. ``benchmarks/pruning.py`` measures the time saved.
"""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.settings import Pipeline

ALL = 1 << 30


def hits_needed(pipeline: Pipeline, k: int) -> int:
    """Return the maximum number of hits that the stages after ``admit`` can use.

    This is k, or more if one of these stages may move later hits into the result.
    """
    changes_order = pipeline.mmr_lambda is not None or pipeline.max_per_document is not None or pipeline.graph_slots
    if changes_order or pipeline.resolves_parents or (pipeline.scoring is not None and not scores_unread(pipeline)):
        return ALL
    return k if pipeline.reranker is None else max(k, pipeline.rerank_depth)


def contenders_needed(pipeline: Pipeline, k: int) -> int | None:
    """Return how many of the best candidates later stages can use, or None if they may use any candidate.

    If the result is a number n, missing scores are computed only for candidates that could still be among the best n
    (Fagin, Lotem and Naor, Optimal Aggregation Algorithms for Middleware, PODS 2001). If the search expands hits in a
    graph or scores memories, any candidate could become a hit. The result is then None, and every source scores all
    candidates.
    """
    return hits_needed(pipeline, k) if pipeline.expansion is None and pipeline.scoring is None else None


def scores_unread(pipeline: Pipeline) -> bool:
    """Return whether memories are scored before their texts are read, so that only the best ones have to be read.

    This is possible if the store provides the data for the scores as columns, and no stage before ``score`` needs the
    texts.
    """
    scoring = pipeline.scoring
    has_columns = scoring is not None and scoring.state_columns is not None
    return has_columns and pipeline.reranker is None and not pipeline.resolves_parents
