"""Fusion by row number gives the same answers as the fusion of all candidates."""

import random

import pytest

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.search import pipeline
from langchain_hybridgraph.search.fusion import ConvexCombination
from langchain_hybridgraph.stores.access import Reader
from tests.support.stores.words import open_words

WORDS = [*(f"word{n}" for n in range(12)), "E-4711", "getUserName", "boiler"]
FUSIONS = [ConvexCombination(), ConvexCombination(normalize="max"), ConvexCombination(normalize="bound")]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Store with 500 texts: some are equal, some have a code of their own, some were replaced or deleted."""
    rng = random.Random(3)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(460)]
    texts += [f"X-{n} {rng.choice(WORDS)}" for n in range(40)]
    metadata = [{"year": rng.randint(2015, 2025)} for _ in texts]
    ids = [f"t{n:03}" for n in rng.sample(range(500), 500)]
    with open_words(tmp_path_factory.mktemp("rows") / "index") as store:
        store.add_texts(texts, metadata, ids=ids)
        store.add_texts(texts[:20], metadata[:20], ids=ids[20:40])
        store.delete(ids[40:50])
        yield store


def answer(retriever, question, options):
    """Return all that a caller sees of an answer, with rounded scores."""
    result = retriever.retrieve(question, **options)
    hits = [(hit.id, hit.source, hit.chunk.text, round(hit.score, 9), hit.explain()) for hit in result.hits]
    method = result[0].metadata["retrieval_method"] if hits else None
    return hits, method, result.answerability.explain(), result.degraded


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_of_all_candidates(store, monkeypatch, seed):
    """For random questions, weights, filters and numbers of hits, also if the best hits are not admitted."""
    rng = random.Random(seed)
    retriever = HybridRetriever(store, fusion=rng.choice(FUSIONS), min_score=rng.choice([0.0, 0.0, 0.4]))
    options = {"k": rng.choice([1, 10, 40, 80, 150])}
    if rng.random() < 0.4:
        options["filter"] = {"year": {"$gte": rng.randint(2015, 2020)}}
    if rng.random() < 0.7:
        options["semantic_weight"] = rng.choice([0.1, 0.3, 0.5, 1.0, 0.0])
    words = rng.choices(WORDS, k=rng.choice([0, 1, 3, 6]))
    question = " ".join([*words, rng.choice(["X-7", "unknown", "X-23", "the"])])
    if rng.random() < 0.4:  # the words may be unknown, and the vector is not
        options["vector"] = store.embeddings.embed_query("boiler word1")
    if rng.random() < 0.3:
        read, missing = Reader.read, {hit.id for hit in retriever.retrieve(question, k=5).hits}
        monkeypatch.setattr(
            Reader, "read", lambda self, ids, *rest: read(self, [id for id in ids if id not in missing], *rest)
        )
    by_row = []
    fuse_rows = pipeline.fuse_rows
    monkeypatch.setattr(pipeline, "fuse_rows", lambda *arguments: by_row.append(1) or fuse_rows(*arguments))
    answer_by_row = answer(retriever, question, options)
    assert by_row or not set(question.split()).intersection(WORDS)
    monkeypatch.setattr(pipeline, "can_fuse_rows", lambda *arguments: False)
    assert answer_by_row == answer(retriever, question, options)


def test_a_text_that_is_replaced_between_the_searches_is_found(store, monkeypatch):
    """It is found by the keyword search alone, whose rows are newer than those of the vector search."""
    store.add_texts(["Y-1 zebra zebra zebra"], ids=["replaced"])
    vector_search = Reader.vector_search

    def search_and_replace(self, query, n):
        result = vector_search(self, query, n)
        store.add_texts(["Y-1 zebra zebra"], ids=["replaced"])
        return result

    monkeypatch.setattr(Reader, "vector_search", search_and_replace)
    first = HybridRetriever(store).retrieve("word1 word1 word1 word2 word2 Y-1").hits[0]
    assert (first.chunk.text, first.found_by) == ("Y-1 zebra zebra", ("keyword",))


@pytest.mark.parametrize("name", ["keyword_scores", "vector_scores"])
def test_an_overridden_search_is_used(store, monkeypatch, name):
    """Searches of a subclass, of a base class of it or of an object are used, in the general stages."""
    calls = []
    original = getattr(store, name)
    monkeypatch.setattr(store, name, lambda *arguments: calls.append(1) or original(*arguments))
    assert HybridRetriever(store, semantic_weight=0.5).retrieve("word1 word2 boiler").hits
    assert calls
