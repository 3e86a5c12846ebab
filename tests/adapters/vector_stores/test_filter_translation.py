"""Translated filters match every row that the original filters match, in the real engines."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.adapters.any_store import adapter_of
from langchain_hybridgraph.adapters.chroma import ChromaDialect
from langchain_hybridgraph.adapters.vector_stores import PGVectorDialect, QdrantDialect, translate
from langchain_hybridgraph.filters import (
    by_document,
    by_source,
    created_after,
    created_before,
    has_labels,
    parse_filter,
)
from tests.support.samples.filter_strategies import filters, numbers, operations, texts
from tests.support.stores.real_stores import Fixed

# -- filters and stored values ----------------------------------------------------------------------------------

# Times and texts in which the stores differ, and keys that some of them reserve or quote.
TIMES = """2024-01-01T23:59:59-23:00 2024-01-01T00:00+23:59 2024-01-01T12:00:00+02 2024-01-01T10 0001-01-01 9999-12-31
    2024-01-01T10:00:00,5Z"""
TEXTS = r'A 1 1.0 true null [1] ["a"] 50% a_b a\b "a" 中'
texts = texts | st.sampled_from([*TIMES.split(), *TEXTS.split(), "2024-01-01 10:00:00.25"])
key_names = st.sampled_from(["k", "l", r"a\.b", "m.n", "größe", "with space", r"\$x", "#y"])
filters = filters | st.builds(lambda key, operation: parse_filter({key: dict([operation])}), key_names, operations)
numbers = numbers.filter(lambda number: abs(number) < 2**63)
plain_texts = texts.filter(lambda text: text.isprintable() and "\ud800" not in text)
stored_scalars = plain_texts | numbers | st.booleans()
stored_names = st.sampled_from(["k", "k", "l", "a.b", "größe", "with space"])
flat = st.dictionaries(
    stored_names,
    st.one_of(
        stored_scalars,
        st.lists(plain_texts, min_size=1, max_size=3),
        st.lists(st.integers(-2, 2), min_size=1, max_size=3),
        st.lists(st.booleans(), min_size=1, max_size=2),
    ),
    max_size=3,
)
nested = st.recursive(
    stored_scalars | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "n"]), inner, max_size=2),
    max_leaves=4,
)
json_metadata = st.dictionaries(stored_names | st.just("m"), nested, max_size=3)

TYPICAL = [
    ({"lang": "en"}, {"lang": "en"}, {"lang": "de"}),
    ({"lang": {"$in": ["en", "fr"]}}, {"lang": "fr"}, {"lang": "de"}),
    ({"year": {"$gte": 2020, "$lt": 2030}}, {"year": 2024.5}, {"year": 2030}),
    ({"year": 2024}, {"year": 2024.0}, {"year": 2025}),
    ({"draft": False}, {"draft": False}, {"draft": True}),
    ({"$or": [{"lang": "en"}, {"year": {"$gt": 2020}}]}, {"year": 2021}, {"lang": "de", "year": 2000}),
    (by_document("a", "b"), {"document_id": "b"}, {"document_id": "c"}),
    (by_source("x.md"), {"source": "x.md"}, {"source": "y.md"}),
]
WITH_TIMES_AND_LABELS = [
    (has_labels(["a", "b"]), {"labels": ["b", "c"]}, {"labels": ["c"]}),
    (has_labels(all_of=["a", "b"]), {"labels": ["b", "a"]}, {"labels": ["a"]}),
    (created_after("2024-05-01"), {"created_at": "2024-05-03T10:00:00Z"}, {"created_at": "2024-04-01"}),
    (created_after("2024-05-01"), {"created_at": 1714694400.0}, {"created_at": 1.0}),
    ({"text": {"$contains": "b"}}, {"text": "abc"}, {"text": ["c"]}),
    (created_before("2024-05-01"), {"created_at": "2024-04-03"}, {"created_at": "2024-06-01T00:00:00+05:00"}),
]


def missing_matches(filter, ids, stored):
    """Return the stored metadata that match the filter but were not found by the engine."""
    return [metadata for key, metadata in stored.items() if filter.matches(metadata) and key not in ids]


# -- Chroma ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chroma(tmp_path_factory):
    chromadb = pytest.importorskip("chromadb")
    from chromadb.config import Settings

    return chromadb.PersistentClient(str(tmp_path_factory.mktemp("chroma")), Settings(anonymized_telemetry=False))


def in_chroma(client, metadatas, filters):
    """Return Chroma's results for each filter, and all metadata as Chroma returns it."""
    collection = client.get_or_create_collection("rows")
    ids = [str(row) for row in range(len(metadatas))]
    collection.add(ids=ids, embeddings=[[1.0, 0.0]] * len(ids), metadatas=[m | {"row": 1} for m in metadatas])
    try:
        every = collection.get(include=["metadatas"])
        stored = dict(zip(every["ids"], every["metadatas"], strict=True))
        conditions = [translate(filter, ChromaDialect()) for filter in filters]
        return [set(collection.get(where=each, include=[])["ids"]) for each in conditions], stored
    finally:
        client.delete_collection("rows")


@given(metadatas=st.lists(flat, min_size=1, max_size=12), filters=st.lists(filters, min_size=1, max_size=8))
def test_chroma_returns_every_match(chroma, metadatas, filters):
    """Every row that a filter matches is returned by Chroma for the translated filter."""
    matches, stored = in_chroma(chroma, metadatas, filters)
    for filter, ids in zip(filters, matches, strict=True):
        assert missing_matches(filter, ids, stored) == []


@pytest.mark.parametrize(("condition", "matching", "other"), TYPICAL, ids=repr)
def test_typical_filters_are_translated_for_chroma(chroma, condition, matching, other):
    """Typical filters translated for Chroma return the matching row and not the other one."""
    [ids], _ = in_chroma(chroma, [matching, other], [parse_filter(condition)])
    assert ids == {"0"}


def large_filter(form, size):
    """Return a filter for ``a`` from 0 to ``size`` - 1: a long list, many comparisons, or as many levels."""
    if form == "long":
        return parse_filter({"a": {"$in": list(range(size))}})
    filter = parse_filter({"a": 0})
    for part in range(1, size):
        other = parse_filter({"a": part})
        filter = filter & ~other if form == "deep" and part % 2 == 0 else filter | other
    return filter


@pytest.mark.parametrize(("form", "size"), [("long", 100_000), ("wide", 3_000), ("deep", 90)])
def test_large_filters_never_break_chroma(chroma, form, size):
    """Filters with thousands of parts or dozens of levels are not translated for Chroma, and smaller ones are."""
    for parts in (25, size):
        filter = large_filter(form, parts)
        [ids], stored = in_chroma(chroma, [{"a": 0}, {"a": parts - 1}, {"a": -1}], [filter])
        assert missing_matches(filter, ids, stored) == []
        assert (translate(filter, ChromaDialect()) is None) == (parts == size)


# -- Qdrant ----------------------------------------------------------------------------------------------------


def in_qdrant(metadatas, filters):
    """Return the rows that Qdrant's local engine finds for each filter."""
    client_module = pytest.importorskip("qdrant_client")
    models = client_module.models
    client = client_module.QdrantClient(":memory:")
    client.create_collection("rows", vectors_config=models.VectorParams(size=1, distance=models.Distance.COSINE))
    rows = [models.PointStruct(id=row, vector=[1.0], payload={"metadata": m}) for row, m in enumerate(metadatas)]
    client.upsert("rows", rows)
    answers = [client.scroll("rows", translate(filter, QdrantDialect("metadata")), limit=1000) for filter in filters]
    return [{point.id for point in points} for points, _ in answers]


@given(metadatas=st.lists(json_metadata, min_size=1, max_size=8), filters=st.lists(filters, min_size=1, max_size=5))
def test_qdrant_returns_every_match(metadatas, filters):
    """Every row that a filter matches is returned by Qdrant for the translated filter, for any JSON metadata."""
    for filter, matches in zip(filters, in_qdrant(metadatas, filters), strict=True):
        assert missing_matches(filter, matches, dict(enumerate(metadatas))) == []


@pytest.mark.parametrize(("condition", "matching", "other"), [*TYPICAL, *WITH_TIMES_AND_LABELS], ids=repr)
def test_typical_filters_are_translated_for_qdrant(condition, matching, other):
    """Typical filters translated for Qdrant return the matching row and not the other one."""
    assert in_qdrant([matching, other], [parse_filter(condition)]) == [{0}]


def test_metadata_under_another_key_are_filtered():
    """A filter finds texts whose metadata are under a key that the user chose."""
    qdrant = pytest.importorskip("langchain_qdrant")
    rows = {"ids": [1, 2], "metadatas": [{"lang": "en"}, {"lang": "fr"}]}
    store = qdrant.QdrantVectorStore.from_texts(
        ["one", "two"], Fixed(), **rows, location=":memory:", metadata_payload_key="facts"
    )
    assert [hit.page_content for hit in HybridRetriever(store).retrieve("one", filter={"lang": "fr"})] == ["two"]


# -- PGVector --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("use_jsonb", "translated"), [(True, {"year": {"$eq": 2024}}), (False, None)])
def test_pgvector_is_recognised_by_its_class(use_jsonb, translated):
    """Filters for PGVector are translated only with JSONB, because with JSON, $and and $or match nothing."""

    class PGVector:
        create_collection = None

    store = PGVector()
    store.use_jsonb = use_jsonb
    assert translate(parse_filter({"year": 2024}), adapter_of(store).dialect) == translated


@pytest.mark.parametrize(
    ("condition", "translated"),
    [
        ({"lang": "en"}, {"lang": {"$in": ["en"]}}),
        ({"draft": False}, {"draft": {"$eq": False}}),
        ({"lang": {"$in": ["en", 1]}}, {"$or": [{"lang": {"$eq": 1}}, {"lang": {"$in": ["en"]}}]}),
        ({"year": {"$gte": 2020, "$lt": 2030}}, {"$and": [{"year": {"$gte": 2020}}, {"year": {"$lt": 2030}}]}),
        ({"text": {"$contains": "5%"}}, {"$or": [{"text": {"$eq": "5%"}}, {"text": {"$like": r"%5\%%"}}]}),
        ({"text": {"$exists": True}}, {"text": {"$exists": True}}),
        # Times are compared as dates, a day wider, because local dates differ from UTC dates.
        ({"t": {"$gt": "2024-05-01T10:00Z"}}, {"t": {"$gte": "2024-04-30"}}),
        ({"t": {"$lte": "2024-05-01T10:00Z"}}, {"t": {"$lt": "2024-05-03"}}),
        ({"t": datetime(2024, 5, 1)}, {"$and": [{"t": {"$gte": "2024-04-30"}}, {"t": {"$lt": "2024-05-03"}}]}),
        # PGVector would evaluate these differently, or reject them.
        *(({key: operand}, None) for key, operand in [("a b", 1), ("a.b", 1), ("a", 2**53), ("a", "\0")]),
        *(({"a": operation}, None) for operation in ({"$ne": 1}, {"$ne": "1"}, {"$eq": [1]})),
    ],
    ids=repr,
)
def test_filters_of_pgvector(condition, translated):
    """A filter is translated to PGVector's language as far as that has the same meaning."""
    assert translate(parse_filter(condition), PGVectorDialect()) == translated
