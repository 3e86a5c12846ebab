"""Log of the last queries of each session."""

from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.samples.cars import HISTORY


def test_the_last_ten_queries_are_kept_by_session(hybrid):
    """The last ten raw queries of each session are kept, oldest first."""
    retriever = AdvancedRetriever(hybrid)
    for n in range(12):
        retriever.invoke(f"query {n}")
    retriever.retrieve_with_context("another", HISTORY, session_id="b")
    assert retriever.query_history == [f"query {n}" for n in range(2, 12)]
    assert retriever.history_for("b") == ["another"]
    assert retriever.history_for("c") == []
