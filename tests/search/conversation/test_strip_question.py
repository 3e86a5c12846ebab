"""The question without its question words."""

import pytest

from langchain_hybridgraph.search.conversation import StripQuestion, turns

CARS = turns(["User: red car", "Assistant: A roadster", "User: how fast", "Assistant: 200"])


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("Could you please tell me what the capital of France is?", "capital of France is"),
        ("what are the regulations for motorcycles?", "regulations for motorcycles"),
        ("Can you?", "Can you?"),
        ("Storm drains", "Storm drains"),
        ("Isolation of a fuse?", "Isolation of a fuse"),
    ],
)
def test_strip_question(query, left):
    """Courtesy and question words are removed unless the question consists only of them."""
    assert StripQuestion()(query, CARS).text == left
