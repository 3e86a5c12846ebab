"""Milvus store: the suite of all stores, collections that are refused, filters, and scores."""

import itertools
import json
import math
from contextlib import closing, contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    FormatVersionError,
    NotAnIndexError,
    TenantError,
)
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.chunk_rows import catalog_rows
from langchain_hybridgraph.stores.milvus import search
from langchain_hybridgraph.stores.milvus.connection import MOST_ELEMENTS
from langchain_hybridgraph.stores.milvus.schema import text
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.samples.clock import PATIENCE
from tests.support.samples.filter_strategies import filters
from tests.support.stores.suite import HashedWords, StoreSuite
from tests.support.stores.words import Words

pytest.importorskip("milvus_lite")

numbers = itertools.count()


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    uri = f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}"
    MilvusStore(uri, Words(), collection="plain")
    MilvusStore(uri, Words(), collection="shared", tenant="ada")
    return uri


class TestMilvus(StoreSuite):
    @pytest.fixture
    def store(self, uri):
        store = MilvusChunkStore(uri, self.embedding, timeout=PATIENCE, collection=f"c{next(numbers)}")
        yield store
        for name in store._index.names:
            store._index.connection.call("drop_collection", collection_name=name)

    @pytest.fixture
    def open_tenant(self, uri):
        name = f"c{next(numbers)}"

        @contextmanager
        def open_tenant(tenant):
            yield MilvusChunkStore(uri, self.embedding, timeout=PATIENCE, collection=name, tenant=tenant)

        return open_tenant

    @pytest.fixture
    def open_again(self, uri, store):
        name = store._index.names.chunks.removesuffix("_chunks")
        return lambda: closing(MilvusChunkStore(uri, self.embedding, timeout=PATIENCE, collection=name))


# -- collections that are refused -------------------------------------------------------------------------------------


class WiderEmbeddings(Words):
    """Another model, with vectors of another length."""

    def embed_query(self, text):
        return [*super().embed_query(text), 0.0]


class OtherEmbeddings(Words):
    """Another model, with vectors of the same length."""


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"embedding": WiderEmbeddings()}, EmbeddingMismatchError, r"\(64 dimensions\), but .* \(65\) was passed"),
        ({"embedding": OtherEmbeddings()}, EmbeddingMismatchError, "made with the embedding"),
        ({"language": "german"}, ConfigurationError, "language='english', but language='german' was passed"),
        ({"tenant": "ada"}, TenantError, "made without tenants"),
        ({"collection": "shared"}, TenantError, "open it with tenant="),
        ({"collection": "a-b"}, ConfigurationError, "letters, digits and underscores, got 'a-b'"),
        ({"consistency": "strong"}, ConfigurationError, "one of Strong, Session, Bounded, Eventually"),
        ({"timeout": 0}, ConfigurationError, "timeout must be .*, got 0"),
        ({"embedding": "lsa"}, ConfigurationError, "fitted to the corpus of one machine"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_another_configuration_is_refused(uri, options, error, message):
    """Invalid options, or options that differ from those of the collection, raise an error that contains the values."""
    with pytest.raises(error, match=message):
        MilvusStore(uri, **{"embedding": Words(), "collection": "plain"} | options)


def test_a_collection_made_by_hand_is_refused(uri):
    """A collection made by another application is refused."""
    client = MilvusStore(uri, Words(), collection="plain")._index.connection._client()
    client.create_collection("hand_chunks", dimension=64)
    with pytest.raises(NotAnIndexError, match=r"'hand_chunks' .* was not made by this package"):
        MilvusStore(uri, Words(), collection="hand")


def test_another_format_is_refused(uri):
    """A collection of a later format is refused with an error that contains both formats."""
    client = MilvusStore(uri, Words(), collection="plain")._index.connection._client()
    client.create_collection("later_chunks", dimension=64, properties={"hybridgraph": '{"hybridgraph": 99}'})
    with pytest.raises(FormatVersionError, match="has format 99, but this version of the package reads format 3"):
        MilvusStore(uri, Words(), collection="later")


@pytest.mark.parametrize(
    "uri", ["localhost:19530", "ftp://host", "milvus://[::1]:19530", "milvus://", "index", "http://host:port"]
)
def test_a_uri_that_is_not_one_is_refused(uri):
    """An invalid URI raises a ConfigurationError that shows the accepted form."""
    with pytest.raises(ConfigurationError, match="must be milvus://host:19530/database"):
        MilvusStore(uri, Words())


def test_a_text_that_milvus_cannot_hold_is_refused(uri):
    """A text of more than 65,535 bytes raises an error with its size, and none of the batch is written."""
    store = MilvusStore(uri, Words(), collection="plain")
    with pytest.raises(ValueError, match="the text of 'long' has 70,000 bytes; Milvus stores up to 65,535"):
        store.upsert([Chunk("short", "short"), Chunk("long", "x" * 70_000)])
    assert store.get(["short"]) == []


# -- filters ----------------------------------------------------------------------------------------------------------

VALUES = [
    *[None, True, 1, 2**53 + 1, 10**400, math.inf, math.nan, "1", "2024-01-01", "2024-01-01T01:00+01:00"],
    *[["a", "b", 1, True, "2024-01-01"], [], [{"k": 1}, [1, 2]], {"k": 2, "l": ["a"]}, {"k.l": -1}],
]
ROWS = [
    {},
    *({"k": value} for value in VALUES),
    {"k": None, "l": "present"},
    {"k": 1.0, "l": 0.5},
    {"k": "a", "l": "abc"},
    {"k.l": "dotted", "": "empty"},
    {"k": 'a "quoted" \\ value', "l": "\ud800"},
    {"k": list(range(MOST_ELEMENTS))},  # has more marks than an array can hold
]
UNMARKED = str(len(ROWS) - 1)


def stored(metadata):
    """Return metadata as a store returns it."""
    (row,) = catalog_rows([Chunk("a", "text", metadata)], [], "")
    return json.loads(row.metadata)


@pytest.fixture(scope="module")
def store(uri):
    store = MilvusChunkStore(uri, HashedWords(), collection="filters")
    store.upsert([Chunk(str(number), f"text {number}", metadata) for number, metadata in enumerate(ROWS)])
    store.flush()
    return store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=filters)
def test_milvus_returns_exactly_the_matches(store, condition):
    """find() returns exactly the chunks whose metadata matches the filter."""
    rows = [{"document_id": str(number), **stored(row)} for number, row in enumerate(ROWS)]
    assert store.find(Scope(condition)) == [str(number) for number, row in enumerate(rows) if condition.matches(row)]


@pytest.mark.parametrize(
    "condition",
    [
        {"k": 1},
        {"k": {"$ne": True}},
        {"k": {"$in": [1, "a"]}},
        {"k": {"$exists": False}},
        {"k": {"$gte": 1}},
        {"$not": {"k": {"$gt": 0}}},
        {"k": {"$not_contains": "b"}},
        {"$or": [{"k.k": 2}, {"l": {"$eq": "present"}}]},
    ],
    ids=str,
)
def test_the_server_selects_nothing_else(store, condition):
    """For equality, presence, membership, numbers and times, the server returns only matches and the unmarked row."""
    scope = Scope(parse_filter(condition))
    selected = {row.chunk.id for row in store._index.all_rows(store._index.in_scope(scope))}
    assert UNMARKED in selected
    assert selected - {UNMARKED} == set(store.find(scope)) - {UNMARKED} != set()


@pytest.mark.parametrize("value", ['"', "\\", '\\"', "'", "{x}", "é 数据", "a\nb", "%_"])
def test_texts_are_quoted(store, value):
    """Quotation marks, backslashes and other special characters in a string are escaped in expressions."""
    assert store._index.read(store._index.names.chunks, f"tenant == {text(value)}", ["key"]) == []


# -- scores -----------------------------------------------------------------------------------------------------------

WORDS = (
    *("river", "dam", "valley", "turbine", "bread", "oven", "flour", "moon"),
    *("earth", "concrete", "water", "power", "spring", "salt", "days"),
)
# Vectors that say nothing about the words, so only the words can find a text.
MEANINGLESS = DeterministicFakeEmbedding(size=16)
CHUNKS = [
    *(
        Chunk(
            f"t{n}",
            " ".join(WORDS[n * step % len(WORDS)] for step in range(1, 6 + n % 7)) + ".",
            {"n": n, "even": n % 2 == 0, "title": f"Notes on {WORDS[n % len(WORDS)]}"},
        )
        for n in range(120)
    ),
    Chunk("gatb", "libgatbcore-dev: development library of the Genome Analysis Toolbox"),
    Chunk("faker", "ruby-faker - library for generating names and addresses"),
    Chunk("php", "php-faker - library for generating names and addresses"),
    Chunk("error", "If the pump reports E-4711, open the valve.", {"even": True}),
    Chunk("guide", "Turn the lever to the left.", {"title": "Zeppelin"}),
    Chunk("cafe", "Der Fluß überschwemmt das Tal, 数据 und Käse."),
]
QUESTIONS = [
    "libgatbcore-dev",
    "what is ruby-faker for?",
    "How do I open the valve after E-4711?",
    "zeppelin",
    "which river floods the valley in spring?",
    "bread",
    "Käse 数据",
    "the salt of the earth, and the moon with its many days of power over water and over concrete dams",
    "nothing of the sort",
]


@pytest.fixture(scope="module")
def stores(uri):
    """Return an embedded store and a store in Milvus with the same texts and vectors."""
    milvus = MilvusStore(uri, MEANINGLESS, timeout=PATIENCE, collection="scores")
    embedded = HybridGraphStore(None, MEANINGLESS)
    for store in (embedded, milvus):
        store.upsert(CHUNKS)
        store.flush()
    return embedded, milvus


@pytest.mark.parametrize("filter", [None, {"even": True}], ids=["all", "filtered"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_scores_are_those_of_the_embedded_store(stores, question, filter):
    """Milvus finds the same texts with nearly the same scores, parts and probability of an answer."""
    results = [HybridRetriever(store, k=5, filter=filter).retrieve(question) for store in stores]
    own, milvus = ({hit.id: hit.score for hit in result.hits} for result in results)
    assert list(milvus)[:1] == list(own)[:1]
    assert milvus == pytest.approx(own, abs=0.03)
    assert results[1].answerability.value == pytest.approx(results[0].answerability.value, abs=0.03)


def test_names_are_found_in_a_store_larger_than_the_sample(stores, monkeypatch):
    """A name is found even if its text is not among the chunks whose words were counted."""
    monkeypatch.setattr(search, "MOST_SAMPLED", 20)
    milvus = stores[1]
    monkeypatch.setattr(milvus._index, "statistics", None)
    assert HybridRetriever(milvus, k=1).invoke("what is ruby-faker for?")[0].id == "faker"
    assert milvus._index.statistics.sampled < len(CHUNKS)


def test_candidates_of_the_vector_search_have_keyword_scores(stores):
    """A text is scored by its words even if only the vector search found it."""
    embedded, milvus = stores
    question, ids = "which river floods the valley in spring?", [chunk.id for chunk in CHUNKS]
    assert milvus.keyword_scores(question, ids) == pytest.approx(embedded.keyword_scores(question, ids), rel=0.05)
