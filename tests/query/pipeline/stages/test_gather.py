"""Searches of several sources, some of which fail."""

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
    """If a source fails or is empty, the other has the full weight."""
    hits, trace = hybrid(vector, keyword)
    assert ids(hits) == "ab"
    assert (trace.method, trace.reasons) == (method, reasons)
    assert hits[0].score == pytest.approx(1.0)


def test_the_error_of_failed_sources_names_them():
    """An empty result and a failure are different."""
    with pytest.raises(RetrievalError, match=r"vector: ValueError: one.*keyword: OSError: two"):
        hybrid(ValueError("one"), OSError("two"))


def test_failed_sources_can_give_an_empty_result():
    """on_error='empty' returns no hits, with the reasons."""
    hits, trace = hybrid(ValueError("one"), OSError("two"), on_error="empty")
    assert hits == []
    assert trace.reasons == ("vector-failed", "keyword-failed")


def test_the_first_failure_can_be_an_error():
    """on_error='raise' does not degrade."""
    with pytest.raises(RetrievalError, match="vector"):
        hybrid(ValueError("one"), "ab", on_error="raise")


def test_a_callers_mistake_is_not_a_degradation():
    """A foreign tenant is refused, although the other source could answer."""
    with pytest.raises(TenantError):
        hybrid(TenantError("not yours"), "ab")


def test_a_source_can_report_a_degradation():
    """The reasons of a source that answered are reported, and its results count."""
    sources = (ListSource("vector", 0.7, "", "query-out-of-vocabulary"), ListSource("keyword", 0.3, "ab"))
    hits, trace = run(Query("q", 5), store=Shelf(*"ab"), sources=sources)
    assert ids(hits) == "ab"
    assert trace.reasons == ("query-out-of-vocabulary",)


@pytest.mark.parametrize("text", [None, "", "  \n\t "])
def test_a_query_without_text_searches_by_its_vector_only(text):
    """Without a vector the result is empty and gives the reason."""
    calls = []

    class RecordingSource(ListSource):
        def search(self, query, n):
            calls.append(query.text)

    hits, trace = run(Query(text, 5), store=Shelf("a"), sources=(RecordingSource("vector", 1, "a"),))
    assert (hits, trace.reasons, calls) == ([], ("no-query-text",), [None])
