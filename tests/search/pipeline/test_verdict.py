"""Whether a question is answerable, with many texts and with few."""

import json
import math
import re
import uuid
from itertools import pairwise
from pathlib import Path

import chromadb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_chroma import Chroma
from langchain_core.embeddings import DeterministicFakeEmbedding as FakeVectors

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.records import QuestionWords
from langchain_hybridgraph.search.verdict import answerability
from tests.support.models.query_embeddings import QueryEmbeddings

SHARES = st.floats(0, 1)


def likely(odds):
    return pytest.approx(1 / (1 + math.exp(-odds)))


def test_similarity_and_words_together():
    """Signals are added: odds of 20 · .6 + 55 · .1 + 7 · .25 − ln(10) − 14 in 10,000 texts or more."""
    judged = answerability(0.68, 0.2, QuestionWords(10, 40.0, 10.0), deviation=0.08)
    assert (judged.similarity, judged.matched, judged.words) == (pytest.approx(0.6), 0.25, 10)
    assert judged.spread == pytest.approx(0.1)
    assert judged.value == likely(12 + 5.5 + 1.75 - math.log(10) - 14)
    assert judged.is_answerable
    assert answerability(0.68, 0.2, QuestionWords(10, 40.0, 10.0), deviation=0.08, texts=20_000) == judged


def test_the_spread_counts_between_two_limits():
    """A spread outside .05 to .11 counts as the nearest of these, and an unknown one as their mean."""
    values = [answerability(0.5, 0.0, QuestionWords(10, 40.0), deviation=d).value for d in (0.0, None, 0.3)]
    assert values == [likely(10 + 55 * spread - math.log(10) - 14) for spread in (0.05, 0.08, 0.11)]


def test_lsa():
    """With LSA, the odds are 3.5 · .6 + 7 · .3 + 8 · .25 + 6 · .5 − .5 · ln(10) − 8."""
    judged = answerability(0.6, 0.0, QuestionWords(10, 40.0, 10.0), coverage=0.5)
    assert judged.value == likely(2.1 + 2.1 + 2 + 3 - 0.5 * math.log(10) - 8)


def test_words_alone():
    """Without cosines, the odds are 16.5 · .25 + 2 · .5 − .6 · ln(10) − 4.5."""
    expected = likely(4.125 + 1 - 0.6 * math.log(10) - 4.5)
    assert answerability(None, 0.0, QuestionWords(10, 40.0, 10.0)).value == expected


def test_similarity_alone():
    """Without a keyword index or words in the question, the odds are 24 · .6 + 45 · .08 − .8 ln(10) − 12.4."""
    expected = likely(14.4 + 3.6 - 0.8 * math.log(10) - 12.4)
    assert answerability(0.6, 0.0, None).value == expected
    assert answerability(0.6, 0.0, QuestionWords(0, 0.0, 0.0)).value == expected


def test_without_figures_there_is_no_value():
    """Without cosines and keyword scores, the answerability is None."""
    assert answerability(None, 0.0, None) is None


def test_an_exact_match_is_an_answer():
    """An exact match determines the value, regardless of a low similarity."""
    assert answerability(0.0, 0.0, QuestionWords(9, 90.0, 1.0), 0.95).value == 0.95


@given(SHARES, SHARES, SHARES, st.integers(1, 200), SHARES)
def test_more_evidence_never_lowers_the_value(similarity, matched, further, count, exact):
    """A larger cosine, BM25 score or exact match never lowers the value, which stays in [0, 1]."""
    words, more_words = (QuestionWords(count, 1.0, best) for best in (matched, min(1.0, matched + further)))
    one = answerability(similarity, 0.0, words, exact)
    more = (
        answerability(min(1.0, similarity + further), 0.0, words, exact),
        answerability(similarity, 0.0, more_words, exact),
        answerability(similarity, 0.0, words, min(1.0, exact + further)),
    )
    assert all(0 <= one.value <= other.value <= 1 for other in more)


@pytest.fixture(scope="module", params=["own", "chroma"])
def errors(request):
    """A retriever over 300 texts with a code each, whose vectors say nothing about the codes."""
    texts, embedding = [f"Error E-{4000 + n}: clear queue {n % 7}." for n in range(300)], FakeVectors(size=384)
    if request.param == "own":
        return HybridRetriever(HybridGraphStore.from_texts(texts, embedding), k=5)
    client = chromadb.EphemeralClient()
    return HybridRetriever(Chroma.from_texts(texts, embedding, collection_name=uuid.uuid4().hex, client=client), k=5)


@pytest.mark.parametrize(
    "question",
    ["What do E-4100 and E-4101 mean?", "E-4100 E-4101", "What is the difference between E-4100, E-4101 and E-4102?"],
)
def test_a_question_with_several_codes_is_answerable(errors, question):
    """Two or three codes identify texts as surely as one code does, and their texts are the first hits."""
    results, codes = errors.retrieve(question), set(re.findall(r"E-\d+", question))
    assert results.answerability.exact == pytest.approx(errors.retrieve("E-4100").answerability.exact) == 0.6
    assert results.answerable
    assert {text.page_content[6:12] for text in results[: len(codes)]} == codes
    assert errors.retrieve(question, min_score=0.5)[0].page_content[6:12] in codes


# -- few texts -------------------------------------------------------------------------------------------------


def test_the_same_evidence_counts_more_with_few_texts():
    """A paraphrase with similarity .4 and no common word is answerable in 8 texts, but not in 5,000."""
    few, many = (answerability(0.4, 0.0, QuestionWords(3, 9.0), texts=texts) for texts in (8, 5_000))
    assert (few.is_answerable, many.is_answerable) == (True, False)


@pytest.mark.parametrize("coverage", [None, 0.3])
def test_the_number_of_texts_changes_the_value_gradually(coverage):
    """One more text never changes the value by more than .1, except at the limits of "too few texts to tell"."""
    judged = [answerability(0.4, 0.0, QuestionWords(3, 9.0, 1.0), texts=n, coverage=coverage) for n in range(21, 1600)]
    pairs = [(a.value, b.value) for a, b in pairwise(judged) if a.is_undecided is b.is_undecided]
    assert len(pairs) > 1500
    assert max(abs(a - b) for a, b in pairs) < 0.1


def test_too_few_texts_to_tell():
    """Between the two verdicts, few texts give none: the value is .5, and the explanation says so."""
    judged = answerability(0.22, 0.0, QuestionWords(3, 9.0), texts=8)
    assert (judged.is_answerable, judged.value) == (None, 0.5)
    explanation = "too few texts to tell whether the question is answerable: similarity 0.22 · words matched 0.00"
    assert judged.explain() == explanation


@pytest.mark.parametrize("coverage", [None, 1.0])
def test_two_hundred_texts_are_enough(coverage):
    """With 200 texts or more, there is a verdict for any similarity. With fewer, there is none for some."""
    judged = [
        [answerability(n / 100, 0.0, QuestionWords(3, 9.0), texts=texts, coverage=coverage) for n in range(101)]
        for texts in (199, 200)
    ]
    assert [any(one.is_undecided for one in every) for every in judged] == [True, False]


def test_a_cosine_of_lsa_counts_as_much_as_the_words_that_lsa_knows():
    """With few texts, a cosine of 1 is not evidence if LSA has learned hardly any word of the question."""
    most, hardly_any = (answerability(1.0, 0.0, QuestionWords(3, 9.0), texts=5, coverage=c) for c in (0.5, 0.01))
    assert (most.is_answerable, hardly_any.is_answerable) == (True, False)


# The notes of notebook 01, one question about each of them, and their vectors from all-MiniLM-L6-v2.
QUICKSTART = Path(__file__).with_name("quickstart_minilm.jsonl").read_text("utf-8")
ROWS = [json.loads(line) for line in QUICKSTART.splitlines()]
NOTES = {row["id"]: row["text"] for row in ROWS if "text" in row}
QUESTIONS = {row["id"]: row["question"] for row in ROWS if "question" in row}
VECTORS = {row.get("text") or row["question"]: row["vector"] for row in ROWS}


class ReadyMiniLM(QueryEmbeddings):
    def embed_query(self, text):
        return VECTORS[text]


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
        for result in [chroma.retrieve(question), await own.aretrieve(question), await chroma.aretrieve(question)]:
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
