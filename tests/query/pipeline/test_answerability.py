import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.query.pipeline.answerability import answerability
from langchain_hybridgraph.records import Answerability, QuestionWords

SHARES = st.floats(0, 1)


def likely(odds):
    return pytest.approx(1 / (1 + math.exp(-odds)))


def test_similarity_and_words_together():
    """Similarity, matched words and their number are added: odds of 6 · .5 + 12 · .25 + 2 − 8."""
    judged = answerability(0.6, 0.2, QuestionWords(10, 40.0, 10.0))
    assert (judged.similarity, judged.matched, judged.words) == (pytest.approx(0.5), 0.25, 10)
    assert judged.value == likely(3 + 3 + 2 - 8)
    assert judged.is_answerable


def test_words_alone():
    """Without cosines, the odds are 15 · .25 + 2 − 5.7."""
    assert answerability(None, 0.0, QuestionWords(10, 40.0, 10.0)).value == likely(3.75 + 2 - 5.7)


def test_similarity_alone():
    """Without a keyword index, or without words in the question, the odds are 9 · .5 − 4.4."""
    assert answerability(0.6, 0.2, None).value == likely(4.5 - 4.4)
    assert answerability(0.6, 0.2, QuestionWords(0, 0.0, 0.0)).value == likely(4.5 - 4.4)


def test_without_figures_there_is_no_value():
    """Without cosines and keyword scores, the answerability is None."""
    assert answerability(None, 0.0, None) is None


def test_an_exact_match_is_an_answer():
    """An exact match determines the value, regardless of a low similarity."""
    assert answerability(0.0, 0.0, QuestionWords(9, 90.0, 1.0), 0.95).value == 0.95


def test_a_model_that_finds_everything_similar():
    """Similarity is the distance of the cosine from the mean, so a model with high cosines is not overrated."""
    foreign, own = (answerability(cosine, 0.75, QuestionWords(5, 50.0, 0.0)) for cosine in (0.78, 0.95))
    assert foreign.similarity == pytest.approx(0.12)
    assert own.similarity == pytest.approx(0.8)


@given(SHARES, SHARES, SHARES, st.integers(1, 200), SHARES)
def test_more_evidence_never_lowers_the_value(similarity, matched, further, count, exact):
    """A larger cosine, BM25 score or exact match never lowers the value, which stays in [0, 1]."""
    words, more_words = (QuestionWords(count, 1.0, best) for best in (matched, min(1.0, matched + further)))
    one = answerability(similarity, 0.0, words, exact)
    more = (
        answerability(min(1.0, similarity + further), 0.0, words, exact),
        answerability(similarity, 0.0, more_words, exact),
        answerability(similarity, 0.0, words, min(1.0, exact + further)),
    )
    assert all(0 <= one.value <= other.value <= 1 for other in more)


def test_the_explanation_leaves_out_unknown_figures():
    """The explanation leaves out unknown figures."""
    explanation = Answerability(0.2, None, 0.1, 0.05).explain()
    assert explanation == "probably not answerable (0.20): words matched 0.10 · exact match 0.05"
