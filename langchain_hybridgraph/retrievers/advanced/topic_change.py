"""Detection of a change of topic by two searches."""

from __future__ import annotations

from langchain_hybridgraph.retrievers.advanced.result_fusion import Result, unit_of

# Ratio of best scores from which two searches count as equally good (benchmarks/README.md).
SIMILAR_SCORE = 0.9


def is_new_topic(by_question: Result, by_context: Result) -> bool:
    """Return whether a question changes the topic of its conversation.

    It does if the search by the question alone has a clearly better best hit than the search by the question mixed with
    its context: after a change of topic, no chunk is similar to both.
    """
    return _best_score(by_context) < SIMILAR_SCORE * _best_score(by_question)


def _best_score(result: Result) -> float:
    return result.hits[0].score / unit_of(result) if result.hits else 0.0
