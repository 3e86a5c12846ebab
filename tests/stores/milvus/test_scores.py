"""Scores and exact matches in Milvus, compared with the embedded store."""

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.stores.milvus import search
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.samples.clock import PATIENCE

pytest.importorskip("milvus_lite")

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
def stores(tmp_path_factory):
    """Return an embedded store and a store in Milvus with the same texts and vectors."""
    milvus = MilvusStore(f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}", MEANINGLESS, timeout=PATIENCE)
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
