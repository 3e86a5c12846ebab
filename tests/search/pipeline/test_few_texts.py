import json
import uuid
from pathlib import Path

import chromadb
import pytest
from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings

# The notes of notebook 01, one question about each of them, and their vectors from all-MiniLM-L6-v2.
ROWS = [
    json.loads(line) for line in Path(__file__).with_name("quickstart_minilm.jsonl").read_text("utf-8").splitlines()
]
NOTES = {row["id"]: row["text"] for row in ROWS if "text" in row}
QUESTIONS = {row["id"]: row["question"] for row in ROWS if "question" in row}


class ReadyMiniLM(Embeddings):
    def __init__(self):
        self.vectors = {row.get("text") or row["question"]: row["vector"] for row in ROWS}

    def embed_documents(self, texts):
        return [self.vectors[text] for text in texts]

    def embed_query(self, text):
        return self.vectors[text]


def embedding(name):
    return ReadyMiniLM() if name == "minilm" else LSAEmbeddings().fit(list(NOTES.values()))


@pytest.fixture(params=["minilm", "lsa"])
def retrievers(request):
    """A retriever over the own store and one over Chroma, with the same vectors."""
    chroma = Chroma(
        f"notes-{uuid.uuid4().hex}",
        embedding(request.param),
        client=chromadb.EphemeralClient(),
        collection_metadata={"hnsw:space": "cosine"},
    )
    chroma.add_texts(list(NOTES.values()), ids=list(NOTES))
    with HybridGraphStore(None, embedding(request.param)) as store:
        store.add_texts(list(NOTES.values()), ids=list(NOTES))
        yield HybridRetriever(store, k=3), HybridRetriever(chroma, k=3)


def test_right_first_answers_stay_above_the_threshold():
    """With a pretrained embedding, min_score=.5 keeps at least 11 of 12 right notes in first place."""
    with HybridGraphStore(None, ReadyMiniLM()) as store:
        store.add_texts(list(NOTES.values()), ids=list(NOTES))
        results = {id: HybridRetriever(store, k=3).retrieve(QUESTIONS[id], min_score=0.5) for id in NOTES}
    assert len(results) == 12
    right_ids = [id for id, result in results.items() if result.hits and result.hits[0].id == id]
    assert len(right_ids) >= 11
    assert all(results[id].answerable is not False for id in right_ids)
    assert all(results[id].answerability.unit >= 1 for id in right_ids)
    assert all(results[id].answerability.similarity < results[id].hits[0].vector_score for id in right_ids)


async def test_the_verdict_is_the_same_over_chroma(retrievers):
    """The verdict on the same vectors is the same over the own store and over Chroma, sync and async."""
    own, chroma = retrievers
    assert len(QUESTIONS) == 12
    for question in QUESTIONS.values():
        expected = own.retrieve(question)
        results = [chroma.retrieve(question), await own.aretrieve(question), await chroma.aretrieve(question)]
        for result in results:
            assert result.answerable is expected.answerable
            assert result.answerability.value == pytest.approx(expected.answerability.value, abs=0.05)


@pytest.mark.parametrize(
    ("question", "answerable"),
    [
        ("How do I reset a forgotten password?", True),
        ("How much time do bees need?", False),
        ("What is the price of a house?", None),
    ],
)
def test_lsa_on_few_texts(question, answerable):
    """LSA refuses a question of which the texts contain only everyday words. A shared topic may not suffice to tell."""
    with HybridGraphStore(None, "lsa") as store:
        store.add_texts(list(NOTES.values()), ids=list(NOTES))
        result = HybridRetriever(store).retrieve(question)
        assert result.answerable is answerable
        assert answerable is False or result.answerability.unit >= 1
