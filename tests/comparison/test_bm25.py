"""The package's BM25 compared with rank_bm25 and bm25s."""

import json
import os
from pathlib import Path

import bm25s
import numpy as np
import pytest
from rank_bm25 import BM25Okapi, BM25Plus

from langchain_hybridgraph.stores.bm25 import RankBM25Index
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex
from langchain_hybridgraph.text.analyzer import Analyzer

SETS = os.environ.get("HYBRIDGRAPH_SETS")


@pytest.fixture(scope="module")
def corpus():
    """Return 600 texts of 10 to 39 words with Zipf's frequencies, and 60 questions; Tantivy stores such lengths
    exactly.
    """
    numbers = np.random.default_rng(11)
    likely = 1 / np.arange(1, 401)
    words = np.array([f"w{i}" for i in range(400)])

    def some(count):
        return " ".join(numbers.choice(words, count, p=likely / likely.sum()))

    return [some(numbers.integers(10, 40)) for _ in range(600)], [some(5) for _ in range(60)]


def add_texts(index, texts):
    index.apply(1, enumerate(texts), [])
    return index


def overlap(ours, theirs, n=10):
    """Return the mean share of the n best that two lists of rankings have in common."""
    return np.mean([len(set(a[:n]) & set(b[:n])) / n for a, b in zip(ours, theirs, strict=True)])


def rankings(index, questions, n=10):
    return [[row for row, _ in index.search(question, n)] for question in questions]


def bm25s_index(texts):
    engine = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    engine.index(texts, show_progress=False)
    return engine


def test_rank_bm25s_own_scores(corpus):
    """Scoring only texts that share a word with the question gives the same scores as rank_bm25."""
    texts, questions = corpus
    engine = BM25Plus([text.split() for text in texts], k1=1.2, b=0.75, delta=0)
    index = add_texts(RankBM25Index("none"), texts)
    assert any(index.search(question, 1) for question in questions)
    for question in questions:
        theirs = {row: score for row, score in enumerate(engine.get_scores(question.split())) if score > 0}
        assert dict(index.search(question, 1000)) == pytest.approx(theirs)


def test_tantivys_scores_equal_those_of_bm25s(corpus):
    """Tantivy's scores equal bm25s' Lucene scores times k1 + 1, within 1 % or 0.01."""
    texts, questions = corpus
    index = add_texts(TantivyIndex(None, "none"), texts)
    engine = bm25s_index([text.split() for text in texts])
    assert any(index.search(question, 1) for question in questions)
    for question in questions:
        theirs = engine.get_scores(question.split()) * 2.2
        assert dict(index.search(question, 1000)) == pytest.approx(
            {row: score for row, score in enumerate(theirs.tolist()) if score > 0}, rel=0.01, abs=0.01
        )


def test_our_engines_rank_alike(corpus):
    """The fallback engine gives nearly the same results as Tantivy."""
    texts, questions = corpus
    ours = rankings(add_texts(TantivyIndex(None, "none"), texts), questions)
    rung = rankings(add_texts(RankBM25Index("none"), texts), questions)
    assert overlap(ours, rung) > 0.98


# -- measurements over the evaluation sets -----------------------------------------------------------------------


@pytest.fixture
def sets():
    if not SETS:
        pytest.skip("HYBRIDGRAPH_SETS is not set; it names the folder of the evaluation sets")
    return Path(SETS)


def rows(path):
    return [json.loads(line) for line in path.open(encoding="utf8")]


@pytest.mark.sets
def test_cranfield_against_rank_bm25_and_bm25s(sets):
    """On Cranfield, the ten best overlap by more than .9 with rank_bm25's Okapi and .97 with bm25s' Lucene."""
    texts = [f"{row['title']}\n{row['text']}" for row in rows(sets / "cranfield" / "corpus.jsonl")]
    questions = [row["text"] for row in rows(sets / "cranfield" / "queries.jsonl")]
    analyzer = Analyzer("english")
    text_words = [analyzer.all_words(text) for text in texts]
    question_words = [analyzer.words(text) for text in questions]
    ours = rankings(add_texts(TantivyIndex(None), texts), questions)
    okapi = BM25Okapi(text_words)
    of_okapi = [np.argsort(-okapi.get_scores(words), kind="stable")[:10].tolist() for words in question_words]
    of_bm25s = bm25s_index(text_words).retrieve(question_words, k=10, show_progress=False).documents.tolist()
    assert overlap(ours, of_okapi) > 0.9
    assert overlap(ours, of_bm25s) > 0.97


@pytest.mark.sets
@pytest.mark.parametrize("language", ["zh", "th"])
def test_texts_without_spaces_are_found_in_an_english_index(sets, language):
    """For 98 of 100 Chinese or Thai questions, the text with the answer is among the five best of 240."""
    corpus = rows(sets / "xquad" / f"corpus.{language}.jsonl")
    questions = rows(sets / "xquad" / f"queries.{language}.jsonl")
    judged = [line.split("\t") for line in (sets / "xquad" / "qrels.tsv").read_text().splitlines()]
    expected = {query: document for query, document, _ in judged}
    ids = [row["id"] for row in corpus]
    index = add_texts(TantivyIndex(None), [f"{row.get('title') or ''}\n{row['text']}" for row in corpus])
    with_answers = [question for question in questions if question["id"] in expected]
    best = rankings(index, [question["text"] for question in with_answers], 5)
    hits = [
        expected[question["id"]] in {ids[row] for row in five}
        for question, five in zip(with_answers, best, strict=True)
    ]
    assert np.mean(hits) > 0.98
