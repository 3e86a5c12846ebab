import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.text import sentences as split_points

KINDS = ("paragraphs", "fence_edges", "sentences", "lines", "phrases", "words", "runs")


def parts(kind, text, fences=()):
    cuts = getattr(split_points, kind)(text, 0, len(text), fences)
    return [text[a:b] for a, b in split_points.spans(0, cuts, len(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It works. It is fast! Is it?", ["It works. ", "It is fast! ", "Is it?"]),
        ("See Fig. 3 by Dr. J. Who et al. 2020.", ["See Fig. 3 by Dr. J. Who et al. 2020."]),
        ("Am 2. Tag, 3. Mai, siehe Abs. 3. Dann weiter.", ["Am 2. Tag, 3. Mai, siehe Abs. 3. ", "Dann weiter."]),
        ("I am 30. He has 3. Then he left.", ["I am 30. ", "He has 3. ", "Then he left."]),
        ("Use e.g. this. Or 3.5 of that.", ["Use e.g. this. ", "Or 3.5 of that."]),
        ('He said "Go." Then he went.', ['He said "Go." ', "Then he went."]),
        ("Wait... what? no", ["Wait... what? no"]),
        ("你好。世界！真的吗？是", ["你好。", "世界！", "真的吗？", "是"]),
        ("彼は「はい。」と言った。次。", ["彼は「はい。」", "と言った。", "次。"]),
        ("यह है। वह है।", ["यह है। ", "वह है।"]),
        ("Items:\n- one\n- two\n1. three", ["Items:\n", "- one\n", "- two\n", "1. three"]),
    ],
)
def test_sentences(text, expected):
    """Sentences are split at their punctuation, in scripts with and without spaces, but not after abbreviations."""
    assert parts("sentences", text) == expected


def test_paragraphs_end_at_blank_lines_outside_fences():
    """A blank line inside a code fence does not end a paragraph, and an indent belongs to the line that it indents."""
    assert parts("paragraphs", "a\n\n  b\n```\nc\n\nd\n```\n", [(7, 20)]) == ["a\n\n", "  b\n```\nc\n\nd\n```\n"]


def test_fences_can_be_cut_off():
    """A text can be split before and after a code fence."""
    assert parts("fence_edges", "a\n```\nb\n```\nc", [(2, 11)]) == ["a\n", "```\nb\n```", "\nc"]


def test_code_has_no_sentences():
    """Text inside a code fence is not split into sentences."""
    text = "```\na. B. C.\n```"
    assert parts("sentences", text, [(0, len(text))]) == [text]


@given(st.text(alphabet="aB .!?。你\n-`\t\"'", max_size=80), st.sampled_from(KINDS), st.integers(0, 20))
def test_cuts_ascend_and_stay_inside(text, kind, start):
    """For any text, the split points are in ascending order and inside the text."""
    start = min(start, len(text))
    cuts = list(getattr(split_points, kind)(text, start, len(text), [(2, 5), (9, 12)]))
    assert cuts == sorted(cuts)
    assert all(start <= cut <= len(text) for cut in cuts)
