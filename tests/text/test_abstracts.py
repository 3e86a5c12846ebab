"""Abstracts of texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.text.sentences import abstract_of, clip


@pytest.mark.parametrize(
    ("text", "abstract"),
    [
        ("# Title\n\nOne. Two.", "One. Two."),
        ("os.walk(top)\n\nWalks a tree.", "Walks a tree."),
        ("只有一句话。还有一句。", "只有一句话。还有一句。"),
        ("no sentence at all", "no sentence at all"),
        ("", "Title"),
        ("# Title", "Title"),
        ("===\n\n***", "Title"),
    ],
)
def test_abstract_is_the_first_paragraph_of_sentences(text, abstract):
    """An abstract is the first paragraph of sentences, or the first paragraph, or the title, in this order of
    preference.
    """
    assert abstract_of(text, "Title") == abstract


@given(st.text(), st.integers(3, 50))
def test_clip_limits_the_length(text, max_length):
    """A clipped text is never longer than its limit."""
    assert len(clip(text, max_length)) <= max_length
