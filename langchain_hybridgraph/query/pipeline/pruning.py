"""Checks for work that cannot change the result.

Each function checks for one kind of work; ``benchmarks/pruning.py`` measures the time saved.
"""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.settings import Pipeline

ALL = 1 << 30


def hits_needed(pipeline: Pipeline, k: int) -> int:
    """Return the maximum number of hits that the stages after ``admit`` can use.

    This is k, unless one of these stages may bring later hits into the result.
    """
    changes_order = pipeline.mmr_lambda is not None or pipeline.max_per_document is not None or pipeline.graph_slots
    if changes_order or pipeline.resolves_parents or (pipeline.scoring is not None and not scores_unread(pipeline)):
        return ALL
    return k if pipeline.reranker is None else max(k, pipeline.rerank_depth)


def contenders_needed(pipeline: Pipeline, k: int) -> int | None:
    """Return n if only the candidates that can be among the best n need scores from every source.

    Return None if all candidates need them.

    The other candidates cannot be among the best with any scores that the sources might give them (Fagin, Lotem and
    Naor, Optimal Aggregation Algorithms for Middleware, PODS 2001). With a graph or with scores of memories, they could
    still become hits, so all candidates are scored.
    """
    return hits_needed(pipeline, k) if pipeline.expansion is None and pipeline.scoring is None else None


def scores_unread(pipeline: Pipeline) -> bool:
    """Return whether memories are scored before they are read, so that only the best ones have to be read.

    The store must provide the data for the scores as columns, and no stage before ``score`` may need the texts.
    """
    scoring = pipeline.scoring
    has_columns = scoring is not None and scoring.state_columns is not None
    return has_columns and pipeline.reranker is None and not pipeline.resolves_parents
