"""Values of wrong types in the public API: the error names the argument, the value and what is accepted."""

import re

import pytest

from langchain_hybridgraph import HybridGraphStore, MemoryRetriever
from langchain_hybridgraph.errors import HybridGraphError
from langchain_hybridgraph.filters import by_source, has_labels
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.vectorstores.hybrid_graph_store import configured_embedding


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore.from_texts(["The cat sleeps.", "A dog barks."], "lsa", ids=["cat", "dog"]) as store:
        yield store


def of_call(**options):
    """Return calls of an AdvancedRetriever with these options, with and without a conversation."""

    def call(store):
        AdvancedRetriever(MemoryRetriever(store)).retrieve("and its dog?", conversation_history=["cat"], **options)

    return call


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (of_call(deadline_ms="x"), "deadline_ms must be a number > 0, got 'x'"),
        (of_call(session_id={}), "session_id must be a string, got {}"),
        (lambda _: has_labels(any_of=0), "any_of must be a label or a list of labels, got 0; write has_labels(any_of="),
        (lambda _: has_labels(all_of={"a": 1}), "all_of must be a label or a list of labels, got {'a': 1}"),
        (lambda _: by_source("a", key=None), "the key of a filter must be a string, got None"),
        (lambda store: store.sessions.add("s", [], ttl="60"), "ttl (a timedelta, or seconds) must be a number > 0"),
        (
            lambda _: configured_embedding({"type": "lsa", "dims": 64}),
            "no parameter 'dims'; expected language",
        ),
        (lambda _: configured_embedding({"type": "minilm", "size": 8}), "has no parameter 'size'; it takes none"),
    ],
)
def test_the_error_says_what_is_accepted(store, call, message):
    """No other error than those of this package is raised."""
    with pytest.raises(HybridGraphError, match=re.escape(message)):
        call(store)
