"""Unusual histories for AdvancedRetriever and planners."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_hybridgraph import HierarchicalRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever

TEXTS = {
    "cars/roadster.md": "The red roadster by Tesla costs 200,000 and is fast.",
    "cars/van.md": "The blue van costs 9,000 and carries parcels.",
    "trains/coal.md": "Trains are slow in winter and carry coal.",
    "autos/rot.md": "Das rote Auto von Tesla kostet 200.000 und fährt schnell.",
}
CARS = [HumanMessage("Which car is red?"), AIMessage("The roadster by Tesla is red.")]
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture(scope="module")
def store():
    uris = [{"uri": uri} for uri in TEXTS]
    with HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS), metadatas=uris) as vector_store:
        yield vector_store


@pytest.fixture(scope="module")
def advanced(store):
    return AdvancedRetriever(HybridRetriever(store), k=1)


def test_ten_thousand_turns_are_read_at_their_ends(advanced):
    """The context of ten thousand turns contains only the first question, the last question and the last answer."""
    turns = [*CARS, *[HumanMessage("Really?"), AIMessage("Yes.")] * 5_000]
    result = advanced.retrieve_with_context("how fast?", turns)
    assert [document.id for document in result] == ["cars/roadster.md"]
    assert result.plan["context"] == "Which car is red? Really? Yes."


def test_parts_that_are_not_text_are_skipped(advanced):
    """Images and tool calls in the question and its history are skipped."""
    turns = [
        HumanMessage([IMAGE, {"type": "text", "text": "Which car is red?"}]),
        AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
        ToolMessage("Trains carry coal.", tool_call_id="1"),
        AIMessage([{"type": "text", "text": "The roadster by Tesla."}]),
        HumanMessage([IMAGE, {"type": "text", "text": "how fast?"}]),
    ]
    assert advanced.invoke(turns)[0].id == "cars/roadster.md"
    assert advanced.retrieve_with_context("how fast?", [HumanMessage([IMAGE])]).plan["searched"] == "raw"


def test_a_history_in_another_language(advanced):
    """A German follow-up question is expanded with words of its history, without German function words."""
    turns = ["User: Was ist das rote Auto?", "Assistant: Das rote Auto ist von Tesla."]
    result = advanced.retrieve_with_context("und wie schnell ist es?", turns)
    assert result.plan["expanded_query"] == "und wie schnell ist es? rote Auto Tesla"
    assert result[0].id == "autos/rot.md"


def test_a_search_in_a_session_finds_what_a_question_leaves_out(store):
    """The default planner completes a follow-up question, also from the first question of a long session."""
    result = HierarchicalRetriever(store, k=1).search("What about its speed?", CARS)
    assert [query.query for query in result.query_plan][1] == "What about its speed? car red Tesla roadster"
    assert next(iter(result)).uri == "cars/roadster.md"
    turns = [*CARS, *[HumanMessage("Really?"), AIMessage("Yes.")] * 20]
    result = HierarchicalRetriever(store, k=1).search("What about its speed?", turns)
    assert "car red" in [query.query for query in result.query_plan][1]
