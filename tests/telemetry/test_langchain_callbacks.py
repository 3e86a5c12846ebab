"""Custom events for LangChain's handlers and tracers."""

import asyncio

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.telemetry import SEARCH, STAGE
from tests.support.models.function_retriever import FunctionRetriever
from tests.support.stores.pet_store import HISTORY, QUESTION, STAGES


class Handler(BaseCallbackHandler):
    """Callback handler that records its events with their runs."""

    def __init__(self):
        self.events = []

    def on_retriever_start(self, serialized, query, *, run_id, **kwargs):
        self.events.append(("start", run_id, kwargs.get("name")))

    def on_retriever_end(self, documents, *, run_id, **kwargs):
        self.events.append(("end", run_id, len(documents)))

    def on_retriever_error(self, error, *, run_id, **kwargs):
        self.events.append(("error", run_id, type(error).__name__))

    def on_custom_event(self, name, data, *, run_id, **kwargs):
        self.events.append((name, run_id, data))


class AwaitingHandler(AsyncCallbackHandler):
    """Async callback handler that records custom events and checks that it runs in its event loop."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.events = []

    async def on_custom_event(self, name, data, *, run_id, **kwargs):
        assert asyncio.get_running_loop() is self.loop
        self.events.append((name, run_id, data))


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_run_has_an_event_per_stage(store, is_async):
    """Between its start and end, a run has one event for each stage in order, then one for the search."""
    handler = Handler()
    retriever, config = HybridRetriever(store, k=1), {"callbacks": [handler]}
    _ = await retriever.ainvoke(QUESTION, config) if is_async else retriever.invoke(QUESTION, config)
    assert [name for name, _, _ in handler.events] == ["start", *[STAGE] * 6, SEARCH, "end"]
    assert [data["stage"] for name, _, data in handler.events if name == STAGE] == STAGES
    assert len({run for _, run, _ in handler.events}) == 1


async def test_async_handlers_run_in_their_event_loop(store):
    """Async handlers receive all events in their event loop, even if the search runs in a thread."""
    handler = AwaitingHandler()
    await HybridRetriever(store).ainvoke(QUESTION, {"callbacks": [handler]})
    assert [name for name, _, _ in handler.events] == [*[STAGE] * 6, SEARCH]


def test_a_run_has_the_names_that_langsmith_shows(store):
    """A run has the names, tags and metadata of the retriever and the call, and LangSmith's own metadata."""
    tracer = RunCollectorCallbackHandler()
    retriever = HybridRetriever(store, k=1, tags=["mine"], metadata={"team": "search"})
    retriever.invoke(QUESTION, {"callbacks": [tracer], "tags": ["call"]})
    (run,) = tracer.traced_runs
    assert (run.name, run.run_type, set(run.tags)) == ("HybridRetriever", "retriever", {"mine", "call"})
    metadata = run.extra["metadata"]
    assert metadata["team"] == "search"
    assert metadata["ls_retriever_name"] == "hybrid"
    assert [document.id for document in run.outputs["documents"]] == ["cat"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_retriever_below_is_a_child_run(store, is_async):
    """AdvancedRetriever is one run whose child runs are tagged as question and conversation."""
    tracer = RunCollectorCallbackHandler()
    retriever = AdvancedRetriever(HybridRetriever(store, k=1), expander=lambda query, _: f"{query} cat", fuse_raw=True)
    call_input, config = {"input": "Where is it?", "chat_history": HISTORY}, {"callbacks": [tracer]}
    _ = await retriever.ainvoke(call_input, config) if is_async else retriever.invoke(call_input, config)
    (run,) = tracer.traced_runs
    assert (run.name, {child.name for child in run.child_runs}) == ("AdvancedRetriever", {"HybridRetriever"})
    assert sorted(child.tags for child in run.child_runs) == [["conversation"], ["question"]]


def test_a_retriever_as_a_source_is_a_child_run(store):
    """A LangChain retriever used as the keyword source is a child run tagged "keyword"."""
    tracer = RunCollectorCallbackHandler()
    shelf = FunctionRetriever(find=lambda query: [Document("The cat sat on the mat.", id="cat")])
    HybridRetriever(store, keyword_retriever=shelf).invoke(QUESTION, {"callbacks": [tracer]})
    (run,) = tracer.traced_runs
    (child,) = run.child_runs
    assert (child.name, child.tags) == ("FunctionRetriever", ["keyword"])


def test_an_advanced_run_has_its_own_stages(store):
    """Stages of the conversation belong to AdvancedRetriever's run, and the search's stages to the child run."""
    handler = Handler()
    AdvancedRetriever(HybridRetriever(store, k=1)).invoke(
        {"input": "Where is it?", "chat_history": HISTORY}, {"callbacks": [handler]}
    )
    above = handler.events[0][1]
    stages = [(run == above, data["stage"]) for name, run, data in handler.events if name == STAGE]
    assert stages == [*((False, stage) for stage in STAGES), (True, "expand-query"), (True, "embed")]
