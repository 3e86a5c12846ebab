"""Detection of topic changes in conversations."""

from __future__ import annotations

from langchain_hybridgraph.retrievers.advanced.result_fusion import Result, unit_of

# Ratio of the best scores above which two searches are considered equally good (benchmarks/README.md).
SIMILAR_SCORE = 0.9


def is_new_topic(by_question: Result, by_context: Result) -> bool:
    """Return whether a question changes the topic of its conversation.

    ``by_question`` is the result of a search with the question alone, and ``by_context`` is the result of a search with
    the question mixed with its context. The topic has changed if the best score in ``by_context`` is clearly lower,
    because no chunk is then similar to both the question and the context.
    """
    return _best_score(by_context) < SIMILAR_SCORE * _best_score(by_question)


def _best_score(result: Result) -> float:
    return result.hits[0].score / unit_of(result) if result.hits else 0.0
