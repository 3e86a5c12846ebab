"""Long queries are cut before they are searched."""

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, ingest
from langchain_hybridgraph.records import Query
from langchain_hybridgraph.text.analyzer import LONGEST_QUERY, MOST_WORDS, telling_terms
from tests.support.samples.retrievers import RETRIEVERS

CHINESE = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(100_000))
QUERIES = {
    "300 kB of Chinese": CHINESE,
    "300 kB of Chinese sentences": "。".join(CHINESE[start : start + 9] for start in range(0, 100_000, 10)),
    "300 kB of words": " ".join(f"Word{n} Lovelace" for n in range(18_000)),
    "a word of 1 MB": "x" * 1_000_000,
}


class Recorded(DeterministicFakeEmbedding):
    """Embedding that records the queries it embeds."""

    queries: list[str] = []  # noqa: RUF012  # pydantic copies it per instance

    def embed_query(self, text):
        self.queries.append(text)
        return super().embed_query(text)


@pytest.fixture(scope="module")
def embedding():
    return Recorded(size=32)


@pytest.fixture(scope="module")
def store(embedding):
    texts = [f"第{n}章 Ada Lovelace met Charles Babbage {n}." for n in range(40)]
    uris = [f"book/part{n % 3}/{n}" for n in range(40)]
    documents = [Document(text, id=uri, metadata={"uri": uri}) for text, uri in zip(texts, uris, strict=True)]
    with HybridGraphStore(None, embedding) as store:
        ingest(documents, store)
        yield store


@pytest.mark.parametrize("kind", RETRIEVERS)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_every_retriever_reads_a_bounded_part_of_the_query(store, embedding, kind, query):
    """Every retriever searches for the first 10,000 characters of a long query and reports the cut without a
    warning.
    """
    embedding.queries.clear()
    result = kind(store).retrieve(query)
    assert max(map(len, embedding.queries)) == LONGEST_QUERY
    assert result.plan["query"] == query[:LONGEST_QUERY]
    assert "query-cut" in result.degraded
    assert "query-cut" not in result.warnings


def test_a_keyword_search_reads_a_bounded_part_of_the_query(store):
    """A search of the keyword index itself uses the first 10,000 characters, too."""
    words = "Charles " + "x " * LONGEST_QUERY
    assert len(store.keyword_search(Query(words, 10), 10).ids) == 10
    assert not store.keyword_search(Query("x " * LONGEST_QUERY + "Charles", 10), 10).ids


def test_a_long_question_keeps_its_most_informative_words():
    """A long question keeps the words that are frequent in it but rare in the chunks; unknown words are dropped."""
    frequencies = {f"w{i:03}": i for i in range(1, 301)} | {"topic": 300, "unknown": 0}
    counts = dict(telling_terms([*frequencies, *["topic"] * 50], frequencies.__getitem__, 300))
    assert len(counts) == MOST_WORDS
    assert counts["topic"] == 51
    assert set(counts) - {"topic"} == {f"w{i:03}" for i in range(1, MOST_WORDS)}
