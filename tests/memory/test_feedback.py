"""Effects of feedback, computed by hand."""

from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.memory.scores import FEEDBACK


@given(st.lists(st.sampled_from(sorted(FEEDBACK))))
def test_confidence_and_utility_stay_between_0_and_1(verbs):
    """Confidence and utility stay between 0 and 1 after any sequence of feedback."""
    confidence = utility = None
    for verb in verbs:
        confidence, utility = FEEDBACK[verb].applied_to(confidence, utility)
    assert confidence is None or 0 <= confidence <= 1
    assert utility is None or 0 <= utility <= 1
