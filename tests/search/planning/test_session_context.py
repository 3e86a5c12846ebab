"""The part of a session that planners receive."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from langchain_hybridgraph.search.conversation import context_of, last_turns


def test_every_form_of_a_message():
    """LangChain messages, pairs, mappings and strings are read; unknown roles are kept and system messages left out."""
    messages = [
        SystemMessage("a"),
        HumanMessage("b"),
        AIMessage("c"),
        ("human", "d"),
        {"role": "critic", "content": "e"},
        "f",
    ]
    assert last_turns(messages, 9) == [
        ("user", "b"),
        ("assistant", "c"),
        ("user", "d"),
        ("critic", "e"),
        ("", "f"),
    ]


def test_parts_without_text_are_left_out():
    """A message with text and a picture gives its text, and a message with only a picture is left out."""
    picture = {"type": "image_url", "image_url": {"url": "data:…"}}
    messages = [HumanMessage([{"type": "text", "text": "Which cat"}, picture, "is it?"]), HumanMessage([picture])]
    assert last_turns(messages) == [("user", "Which cat is it?")]


def test_the_last_five_with_a_text():
    """The last five messages with text are returned, oldest first."""
    messages = [("user", str(i) if i % 2 else " ") for i in range(10_000)]
    assert [text for _, text in last_turns(messages)] == ["9991", "9993", "9995", "9997", "9999"]


def test_the_context_has_the_summary_and_the_last_five_messages():
    """The context consists of the summary and the last five messages."""
    messages = [("user", str(number)) for number in range(6)]
    assert context_of("A summary.", messages).splitlines() == [
        "Summary: A summary.",
        *(f"User: {n}" for n in range(1, 6)),
    ]
