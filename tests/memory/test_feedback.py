"""Effects of feedback, computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.memory.scores import FEEDBACK, feedback_effect


@pytest.mark.parametrize(
    ("verb", "after"),
    [("validate", (0.55, 0.45)), ("refute", (0.05, 0.2)), ("useful", (0.4, 0.55)), ("stale", (0.3, 0.15))],
)
def test_feedback_changes_confidence_and_utility(verb, after):
    """Each kind of feedback changes a confidence of 0.4 and a utility of 0.4 by its documented amounts."""
    assert feedback_effect(verb).applied_to(0.4, 0.4) == pytest.approx(after)


def test_unset_values_start_at_their_defaults():
    """Feedback on unset values starts from a confidence of 0.5 and a utility of 1."""
    assert feedback_effect("stale").applied_to(None, None) == pytest.approx((0.4, 0.75))
    assert feedback_effect("useful").applied_to(None, None) == (None, 1.0)


@given(st.lists(st.sampled_from(sorted(FEEDBACK))))
def test_confidence_and_utility_stay_between_0_and_1(verbs):
    """Confidence and utility stay between 0 and 1 after any sequence of feedback."""
    confidence = utility = None
    for verb in verbs:
        confidence, utility = FEEDBACK[verb].applied_to(confidence, utility)
    assert confidence is None or 0 <= confidence <= 1
    assert utility is None or 0 <= utility <= 1
