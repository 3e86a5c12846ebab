"""Conversion of results and records to JSON and back."""

import json
import math
from collections import deque
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document
from pydantic import BaseModel

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk, to_json
from langchain_hybridgraph.evaluation import Difference, EvaluationReport, TuningResult
from langchain_hybridgraph.ingestion import build_layers, ingest
from langchain_hybridgraph.records import Edge, Hit
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.memory import MemoryRetriever
from langchain_hybridgraph.search.conversation import ExpandedQuery
from langchain_hybridgraph.search.hierarchy import FindResult
from langchain_hybridgraph.search.planner import QueryPlan, TypedQuery
from langchain_hybridgraph.stores.check import CheckReport
from langchain_hybridgraph.vectorstores.admission import Admission, LoweredMemory

TEXTS = {
    "pets/cats.md": "Cats purr. See [dogs](dogs.md).",
    "pets/dogs.md": "Dogs bark at cats.",
    "cars/van.md": "A van carries nine people.",
}


def through_json(value):
    """Return the value after a round trip through strict JSON."""
    return json.loads(json.dumps(value.to_dict(), allow_nan=False))


@pytest.fixture(scope="module")
def store():
    """Return a store with three documents, edges and summaries."""
    store = HybridGraphStore(None, "lsa")
    ingest([Document(text, metadata={"uri": uri, "source": uri}, id=uri) for uri, text in TEXTS.items()], store)
    build_layers(store)
    return store


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, HierarchicalRetriever, MemoryRetriever])
def test_a_result_round_trips(store, kind):
    """Results of every retriever keep their documents, hits, degradation reasons, time and plan."""
    result = kind(store).retrieve("Do cats purr?")
    assert len(result) > 0
    back = RetrievalResult.from_dict(through_json(result))
    assert list(back) == list(result)
    assert all(isinstance(document, Document) for document in back)
    assert back.hits == result.hits
    assert back.answerability == result.answerability
    assert (back.degraded, back.took_ms) == (result.degraded, result.took_ms)
    assert back.plan == to_json(result.plan)
    assert [hit.explain() for hit in back.hits] == [hit.explain() for hit in result.hits]


def test_results_of_a_tree_search_round_trip(store):
    """A result of a directory search keeps its contexts, hits and query plan."""
    result = HierarchicalRetriever(store).search("Do cats purr?", ["User: I like pets."])
    assert result.total > 0
    back = FindResult.from_dict(through_json(result))
    assert back == result
    assert [each.hit for each in back] == [each.hit for each in result]
    assert back.query_plan == result.query_plan


@pytest.mark.parametrize(
    "record",
    [
        Chunk("a", "text", {"source": "a.md"}, parent_id="p"),
        Edge("a", "b", "cites", 0.5, "A cites B.", valid_from="2024-01-01"),
        TypedQuery("cats", "memory", "what they do", 2),
        QueryPlan((TypedQuery("cats"),), ("planner-failed",), "TimeoutError"),
        ExpandedQuery("whole", "context", 0.25, sure=False),
        Admission("a", "joined", "so", ("b",), (LoweredMemory("b", 0.5, 0.25),), "text"),
        CheckReport(("lost",), ("Chroma",), {"chunks": 2}, ("1 edge",)),
        TuningResult("a", "b", Difference(0.1, 0.0, 0.2, 1, 2, 3), ("a", "a")),
        EvaluationReport(("q1", "q2"), ("R@10",), {"a": {"R@10": [0.5, 1.0]}}, {"a": {"no-edges": 1}}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_round_trips(record):
    """A record restored from JSON equals the original, with the same types in all fields."""
    back = type(record).from_dict(through_json(record))
    assert back == record
    assert repr(back) == repr(record)


def test_reports_round_trip(store, tmp_path):
    """The reports of an ingest, of building summaries and of a check can be restored from JSON."""
    with HybridGraphStore(tmp_path / "index", "lsa") as index:
        documents = [Document(text, metadata={"uri": uri}) for uri, text in TEXTS.items()]
        for report in (ingest(documents, index), build_layers(index), index.admin.check()):
            assert type(report).from_dict(through_json(report)) == report


def test_odd_metadata_becomes_json():
    """NumPy values, times, sets, enums, paths and models in metadata are converted to JSON values."""

    class Colour(Enum):
        RED = "red"

    class Model(BaseModel):
        at: date

    odd = {
        "float": np.float32(0.5), "int": np.int64(3), "bool": np.bool_(True), "text": np.str_("x"), "array": np.eye(2),
        "at": datetime(2024, 5, 1, tzinfo=UTC), "day": date(2024, 5, 1), "gap": timedelta(minutes=1), "set": {2, 1},
        "enum": Colour.RED, "path": Path("a/b"), "model": Model(at=date(2024, 5, 1)), "nan": math.nan,
        "deque": deque([1]), 7: {"deep": (np.int8(1),)}, "bytes": b"raw",
    }  # fmt: skip
    hit = Hit(Chunk("a", "text", odd), np.float64(0.5), "vector", {"vector": np.float32(0.5)})
    assert through_json(hit)["chunk"]["metadata"] == {
        "float": 0.5, "int": 3, "bool": True, "text": "x", "array": [[1.0, 0.0], [0.0, 1.0]],
        "at": "2024-05-01T00:00:00+00:00", "day": "2024-05-01", "gap": 60.0, "set": [1, 2],
        "enum": "red", "path": "a/b", "model": {"at": "2024-05-01"}, "nan": None,
        "deque": [1], "7": {"deep": [1]}, "bytes": "b'raw'",
    }  # fmt: skip
    document = Document("text", metadata={"at": datetime(2024, 5, 1, tzinfo=UTC), "n": np.int64(3)}, id="a")
    back = RetrievalResult.from_dict(through_json(RetrievalResult([document])))
    assert back[0] == Document("text", metadata={"at": "2024-05-01T00:00:00+00:00", "n": 3}, id="a")


@pytest.mark.parametrize(
    ("data", "message"),
    [({"id": "a"}, "at text"), ({"id": "a", "text": 5}, "at text"), ([], "Chunk.to_dict()"), (None, "Chunk.to_dict()")],
)
def test_other_values_are_errors(data, message):
    """Data that is not a Chunk raises a ValueError that names the field or the expected form."""
    with pytest.raises(ValueError, match=r"this is not a Chunk") as error:
        Chunk.from_dict(data)
    assert message in str(error.value)


def test_results_can_be_added_to_lists(store):
    """Adding a result to a list, a tuple or another result gives a list."""
    result, other = HybridRetriever(store).retrieve("Do cats purr?", k=2), Document("other")
    assert [other] + result == (other,) + result == [other, *result]  # noqa: RUF005 - the operator is what is tested
    assert type(result + result) is list
    with pytest.raises(TypeError):
        result + "text"
