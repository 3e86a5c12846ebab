"""Behaviour specific to the rank_bm25 engine."""

import math
import threading

import pytest

from langchain_hybridgraph.stores.rank_bm25_index import RankBM25Index


def test_scores_are_bm25():
    """Scores equal BM25 with k1 = 1.2, b = 0.75 and idf = ln((N + 1)/n), computed by hand."""
    index = RankBM25Index("none")
    index.apply(1, [(0, "a a b"), (1, "c")], [])
    idf = math.log(3 / 1)
    assert index.search("a", 5) == [(0, pytest.approx(idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))))]
    assert index.bound("a") == pytest.approx(2.2 * idf)


def test_words_of_the_same_language():
    """An index made with a language stems its words."""
    index = RankBM25Index("german")
    index.apply(1, [(0, "die Häuser der Stadt")], [])
    assert [row for row, _ in index.search("haus", 5)] == [0]


def test_statistics_are_computed_once_after_changes(monkeypatch):
    """Statistics are computed at the first search after changes, not for every batch or query."""
    from langchain_hybridgraph.stores import rank_bm25_index as rank_bm25

    counted = []
    count = rank_bm25._statistics_of
    monkeypatch.setattr(
        rank_bm25, "_statistics_of", lambda words, *others: counted.append(len(words)) or count(words, *others)
    )
    index = RankBM25Index()
    for version in range(5):
        index.apply(version, [(version, "ada")], [])
    for _ in range(3):
        index.search("ada", 5)
    assert counted == [5]


def test_threads_see_whole_versions():
    """A search during a change sees the complete state before or after it."""
    index = RankBM25Index()
    index.apply(1, [(0, "ada")], [])
    wrong = []

    def ask():
        while index.applied_version < 60:
            rows = [row for row, _ in index.search("ada", 100)]
            if rows != list(range(len(rows))):
                wrong.append(rows)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for version in range(2, 61):
        index.apply(version, [(version - 1, "ada")], [])
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(index.search("ada", 100)) == 60
