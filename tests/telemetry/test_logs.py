"""LogSink: one structured log line per search, without the query."""

import json
import logging

import pytest

from langchain_hybridgraph import HybridRetriever, LogSink, MemoryRetriever
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.telemetry import flush
from tests.support.stores.pet_store import QUESTION, STAGES, broken


@pytest.fixture
def logger():
    """Return a logger whose records are kept."""
    logger = logging.getLogger("test.retrieval")
    logger.setLevel(logging.INFO)
    handler = RecordingHandler()
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


class RecordingHandler(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def records(logger):
    assert flush(120)
    return logger.handlers[0].records


def logged(record):
    return json.loads(record.getMessage().partition(" ")[2])


def test_a_line_describes_the_search(store, logger):
    """A search is logged with the query's length and hash, k, results, mode and degradation, as JSON and as
    attributes.
    """
    HybridRetriever(store, k=2, telemetry={"logger": logger}).invoke(QUESTION)
    (record,) = records(logger)
    line = logged(record)
    assert record.levelname == "INFO"
    assert line.pop("took_ms") == record.took_ms > 0
    assert line == {
        "retriever": "HybridRetriever",
        "mode": "hybrid",
        "k": 2,
        "results": 2,
        "degraded": [],
        "errors": {},
        "cancelled": False,
        "query_length": 17,
        "query_hash": "ba4dd41eacda",
    }
    assert {name: getattr(record, name) for name in line} == line


@pytest.mark.parametrize("text", [False, True])
def test_a_degraded_search_is_a_warning(store, logger, text):
    """A degraded search is a warning with error types; the query and the messages are logged only with text=True."""
    HybridRetriever(store, reranker=broken, telemetry={"sinks": [LogSink(logger, text=text)]}).invoke(QUESTION)
    (record,) = records(logger)
    assert (record.levelname, record.degraded) == ("WARNING", ["rerank-failed"])
    message = f"TimeoutError: no answer to {QUESTION!r}"
    assert record.errors == {"rerank": message if text else "TimeoutError"}
    assert getattr(record, "query", None) == (QUESTION if text else None)
    assert (QUESTION in str(vars(record))) is text


def test_a_normal_outcome_is_not_a_warning(store, logger):
    """A degradation reason of level ``info`` is logged at level INFO."""
    assert MemoryRetriever(store, telemetry={"logger": logger}).retrieve(QUESTION).degraded == ("no-edges",)
    (record,) = records(logger)
    assert (record.levelname, record.degraded) == ("INFO", ["no-edges"])


def test_a_search_that_raises_is_an_error_without_the_query(store, logger):
    """A search that raises is logged as an error with the exception's type, without its message."""
    with pytest.raises(ConfigurationError, match="got b'Where is the cat"):
        HybridRetriever(store, telemetry={"logger": logger}).retrieve(QUESTION.encode())
    (record,) = records(logger)
    assert (record.levelname, record.errors) == ("ERROR", {"retriever": "ConfigurationError"})
    assert "Where" not in str(vars(record))


def test_stages_are_lines_at_debug(store, logger):
    """At level DEBUG each stage is logged in its own line before the search."""
    logger.setLevel(logging.DEBUG)
    HybridRetriever(store, telemetry={"logger": logging.LoggerAdapter(logger)}).invoke(QUESTION)
    *stages, search = records(logger)
    assert [logged(record)["stage"] for record in stages] == STAGES
    assert {record.levelname for record in stages} == {"DEBUG"}
    assert search.getMessage().startswith("retrieval {")
