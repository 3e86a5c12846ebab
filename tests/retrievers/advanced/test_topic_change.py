"""Detection of a change of topic by the best scores of two searches."""

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Answerability, Hit
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.advanced import is_new_topic


def result(*scores, unit=1.0):
    hits = tuple(Hit(Chunk(str(place), "text"), score, "fused", {}) for place, score in enumerate(scores))
    return RetrievalResult([], hits=hits, answerability=Answerability(0.5, unit=unit))


@pytest.mark.parametrize(("mixed", "expected"), [(0.71, True), (0.73, False), (0.9, False)])
def test_the_topic_is_new_if_the_question_alone_finds_a_clearly_better_hit(mixed, expected):
    """The topic is new if the best score with the context is below 0.9 times the question's best score of 0.8."""
    assert is_new_topic(result(0.8, 0.1), result(mixed, 0.1)) is expected


def test_scores_are_compared_before_calibration():
    """Scores are divided by their unit before they are compared."""
    assert is_new_topic(result(0.8), result(0.4, unit=0.5)) is False


def test_a_search_without_hits_has_the_score_0():
    """The topic is new if only the question alone finds hits, but not if neither search does."""
    assert (is_new_topic(result(0.1), result()), is_new_topic(result(), result())) == (True, False)
