"""Conversion of conversation histories to turns."""

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, AIMessageChunk, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.conversation import Turn, turns

TURNS = [Turn("user", "red car", "User: red car"), Turn("assistant", "A roadster", "Assistant: A roadster")]


@pytest.mark.parametrize(
    "history",
    [
        ["User: red car", "Assistant: A roadster"],
        [("human", "red car"), ("ai", "A roadster")],
        [{"role": "user", "content": "red car"}, {"role": "ai", "content": [{"type": "text", "text": "A roadster"}]}],
        [{"type": "human", "content": "red car"}, {"role": "bot", "content": "A roadster"}],
        [{"role": "user", "text": "red car"}, {"role": "ai", "tool_calls": [1]}, {"role": "ai", "text": "A roadster"}],
        [HumanMessage([{"type": "text", "text": "red car"}]), ChatMessage(role="assistant", content="A roadster")],
        ("User: red car", AIMessageChunk("A roadster")),
        InMemoryChatMessageHistory(messages=[HumanMessage("red car"), AIMessage("A roadster")]),
        {"summary": "Cars.", "messages": [HumanMessage("red car"), AIMessage("A roadster")]},
    ],
)
def test_every_form_gives_the_same_turns(history):
    """A history may consist of strings, pairs, mappings, messages or a mixture of them."""
    assert turns(history) == TURNS


@pytest.mark.parametrize("history", [None, [], (), ["", "  "], [HumanMessage("")]])
def test_an_empty_history_has_no_turns(history):
    """All forms of an empty history give an empty list of turns."""
    assert turns(history) == []


def test_a_line_stays_as_it_was_given():
    """The speaker is parsed from a line, and the turn keeps the original line; other roles are kept."""
    assert turns(["AGENT : yes"]) == [Turn("assistant", "yes", "AGENT : yes")]
    assert turns([("moderator", "Please ask.")]) == [Turn("moderator", "Please ask.", "Moderator: Please ask.")]
    assert turns(["Note: yes"]) == [Turn("", "Note: yes", "Note: yes")]


def test_messages_without_text_are_left_out():
    """Images, tool calls, system and tool messages are not turns."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    history = [
        SystemMessage("You help."),
        HumanMessage([image, {"type": "text", "text": "What is this?"}]),
        HumanMessage([image]),
        AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}]),
        ToolMessage("raw result", tool_call_id="1"),
        AIMessage("A cat."),
    ]
    assert [turn.line for turn in turns(history)] == ["User: What is this?", "Assistant: A cat."]


def test_the_question_is_not_its_own_history():
    """A question at the end of the history is left out if the user asked it."""
    assert turns([*TURNS_AS_PAIRS, ("user", "how fast")], "how fast ") == TURNS
    assert turns([*TURNS_AS_PAIRS, ("assistant", "how fast")], "how fast")[2].speaker == "assistant"
    assert turns(["red car", "how fast"], "how fast") == [Turn("", "red car", "red car")]


TURNS_AS_PAIRS = [("user", "red car"), ("assistant", "A roadster")]


def test_both_ends_of_a_long_history_are_read():
    """A history of 10,000 items gives the first 5 and the last 45 turns."""
    read = turns([f"User: {n}" for n in range(10_000)])
    assert [int(turn.text) for turn in read] == [*range(5), *range(9_955, 10_000)]


NOT_LISTS = ["User: red car", b"red car", {"role": "user", "content": "red car"}, 7, {"a", "b"}]
NOT_ITEMS = [7, None, ("a", "b", "c"), ("Which car is red?", "A roadster"), (1, "b"), {"txt": "a"}, {"role": "user"}]


def test_a_history_of_another_form_is_an_error():
    """The error for a history that is not a list shows the value, that for an invalid item its number."""
    for history in NOT_LISTS:
        with pytest.raises(ConfigurationError, match=r"the history is .* expected a list"):
            turns(history)
    for item in NOT_ITEMS:
        with pytest.raises(ConfigurationError, match="item 1 of the history is"):
            turns(["User: red car", item])
