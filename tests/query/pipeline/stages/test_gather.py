"""Searches in several sources, some of which fail."""

from __future__ import annotations

import pytest

from langchain_hybridgraph.errors import RetrievalError, TenantError
from langchain_hybridgraph.records import Query
from tests.support.samples.small_pipeline import ListSource, Shelf, hybrid, ids, run


@pytest.mark.parametrize(
    ("vector", "keyword", "method", "reasons"),
    [
        (ValueError("down"), "ab", "keyword", ("vector-failed",)),
        ("ab", ValueError("down"), "vector", ("keyword-failed",)),
        ("ab", "", "vector", ()),
        ("", "ab", "keyword", ()),
    ],
)
def test_one_source_answers_for_both(vector, keyword, method, reasons):
    """If one source fails or is empty, the other one has the full weight."""
    hits, trace = hybrid(vector, keyword)
    assert ids(hits) == "ab"
    assert (trace.method, trace.reasons) == (method, reasons)
    assert hits[0].score == pytest.approx(1.0)


def test_the_error_of_failed_sources_names_them():
    """If all sources fail, the search raises RetrievalError with the error of each source."""
    with pytest.raises(RetrievalError, match=r"vector: ValueError: one.*keyword: OSError: two"):
        hybrid(ValueError("one"), OSError("two"))


def test_failed_sources_can_give_an_empty_result():
    """With on_error="empty", a search whose sources all fail returns no hits and the reasons."""
    hits, trace = hybrid(ValueError("one"), OSError("two"), on_error="empty")
    assert hits == []
    assert trace.reasons == ("vector-failed", "keyword-failed")


def test_the_first_failure_can_be_an_error():
    """With on_error="raise", the failure of one source raises RetrievalError."""
    with pytest.raises(RetrievalError, match="vector"):
        hybrid(ValueError("one"), "ab", on_error="raise")


def test_a_callers_mistake_is_not_a_degradation():
    """A TenantError of one source is raised, although the other source returned results."""
    with pytest.raises(TenantError):
        hybrid(TenantError("not yours"), "ab")


def test_a_source_can_report_a_degradation():
    """A source can return results along with a reason for degradation, and both are used."""
    sources = (ListSource("vector", 0.7, "", "query-out-of-vocabulary"), ListSource("keyword", 0.3, "ab"))
    hits, trace = run(Query("q", 5), store=Shelf(*"ab"), sources=sources)
    assert ids(hits) == "ab"
    assert trace.reasons == ("query-out-of-vocabulary",)


@pytest.mark.parametrize("text", [None, "", "  \n\t "])
def test_a_query_without_text_searches_by_its_vector_only(text):
    """A query without text is searched only by its vector; without a vector, the result is empty and gives the
    reason.
    """
    calls = []

    class RecordingSource(ListSource):
        def search(self, query, n):
            calls.append(query.text)

    hits, trace = run(Query(text, 5), store=Shelf("a"), sources=(RecordingSource("vector", 1, "a"),))
    assert (hits, trace.reasons, calls) == ([], ("no-query-text",), [None])
