"""Length of error messages that contain values."""

import pickle

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever, ingest
from langchain_hybridgraph.errors import LONGEST_MESSAGE, ConfigurationError, MissingExtraError, needs_extra
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever

HUGE = "x" * 5_000_000
QUOTES = "'\"" * 2_500_000


CALLS = {
    "k": lambda store, value: HybridRetriever(store).retrieve("cat", k=value),
    "tenant": lambda store, value: HybridRetriever(store).retrieve("cat", tenant=value),
    "filter": lambda store, value: parse_filter({value: {"$near": 1}}),
    "as_of": lambda store, value: HybridRetriever(store).retrieve("cat", as_of=value),
    "labels": lambda store, value: MemoryRetriever(store, labels=[value, 1]),
    "relations": lambda store, value: GraphRetriever(store, graph={"traversal": {"type": "bfs", value: 1}}),
    "call option": lambda store, value: HybridRetriever(store).retrieve("cat", **{value: 1}),
    "remember": lambda store, value: store.memory.remember(value),
    "option": lambda store, value: HybridRetriever(store, **{value: 1}),
    "seed ids": lambda store, value: GraphRetriever(store).retrieve("cat", seed_ids=value),
    "retriever": lambda store, value: AdvancedRetriever(value),
    "unknown id": lambda store, value: store.memory.supersede(value, "New."),
    "edges": lambda store, value: store.upsert([], edges=[value]),
    "texts": lambda store, value: store.add_texts(value),
    "metadata": lambda store, value: store.add_documents([Document("a", metadata={value: object()})]),
    "split": lambda store, value: ingest([], store, split=value),
    "embedding": lambda store, value: HybridGraphStore(None, embedding=value),
    "language": lambda store, value: HybridGraphStore(None, language=value),
    "path": lambda store, value: list(read_files("missing" + value[:1_000])),
    "turns": lambda store, value: store.sessions.add("s", value),
}


@pytest.mark.parametrize(
    ("call", "value"),
    [*((call, HUGE) for call in CALLS), *((call, QUOTES) for call in ("k", "labels", "relations", "retriever"))],
    ids=lambda value: value[:20],
)
def test_a_huge_value_is_shortened(store, call, value):
    """An error message about a five-megabyte value has fewer than 2,000 characters."""
    with pytest.raises((ValueError, TypeError, OSError)) as raised:
        CALLS[call](store, value)
    assert 0 < len(str(raised.value)) < 2_000
    assert type(raised.value).__module__ != "builtins" or len(repr(raised.value)) < 2_200


def test_the_end_of_a_message_is_kept():
    """Shortening an error message keeps the fix at its end."""
    error = ConfigurationError(f"mode is {HUGE!r}; pass 'quick' or 'thinking'")
    assert str(error).startswith("mode is 'xxx")
    assert str(error).endswith("xxx'; pass 'quick' or 'thinking'")
    assert len(str(error)) < 300
    assert len(str(ConfigurationError(HUGE))) <= LONGEST_MESSAGE
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ModuleNotFoundError("", name="fastapi"), MissingExtraError, r"but the module fastapi is missing.*\[server\]"),
        (ModuleNotFoundError("gone", name="langchain_hybridgraph.gone"), ModuleNotFoundError, "^gone$"),
        (ImportError("DLL load failed", name="grpc"), ImportError, "^DLL load failed$"),
    ],
)
def test_only_a_missing_library_is_a_missing_extra(error, raised, message):
    """A missing module of a library is named with the extra to install; other import errors are raised unchanged."""
    with pytest.raises(raised, match=message) as caught, needs_extra("serve", "FastAPI", "server"):
        raise error
    assert type(caught.value) is raised
    assert error in (caught.value, caught.value.__cause__)
