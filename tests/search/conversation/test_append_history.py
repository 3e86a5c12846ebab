"""The question with the last turns of the conversation appended."""

from langchain_hybridgraph.search.conversation import AppendHistory, turns

CARS = turns(["User: red car", "Assistant: A roadster", "User: how fast", "Assistant: 200"])


def test_append_history_pin():
    """The last three turns are appended to the question unchanged and in order."""
    assert AppendHistory(3)("and its price?", CARS).text == (
        "and its price? Assistant: A roadster User: how fast Assistant: 200"
    )


def test_append_history_of_few_turns():
    """A conversation shorter than the requested number of turns is appended completely."""
    assert AppendHistory(9)("and?", CARS[:1]).text == "and? User: red car"
    assert AppendHistory()("and?", []).text == "and?"
