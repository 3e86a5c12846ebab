"""Dates mentioned in questions."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.text.dates import mentioned_spans

NOW = datetime(2024, 3, 13, 15, 30, tzinfo=UTC)  # a Wednesday


def spans(text):
    ends = ((datetime.fromtimestamp(end, UTC) for end in span) for span in mentioned_spans(text, NOW.timestamp()))
    return [tuple(end.date().isoformat() for end in span) for span in ends]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("What happened on 3 May 2023?", ("2023-05-03", "2023-05-04")),
        ("What happened on May 3rd, 2023?", ("2023-05-03", "2023-05-04")),
        ("the 3rd of May 2023", ("2023-05-03", "2023-05-04")),
        ("2023-05-03, what was said?", ("2023-05-03", "2023-05-04")),
        ("What was said the day before yesterday?", ("2024-03-11", "2024-03-12")),
        ("Where was she last December?", ("2023-12-01", "2024-01-01")),
        ("Who came in Dec. 2023?", ("2023-12-01", "2024-01-01")),
        ("Where was she in 2022?", ("2022-01-01", "2023-01-01")),
        ("Where was she in summer 2022?", ("2022-01-01", "2023-01-01")),
        ("What did I say yesterday?", ("2024-03-12", "2024-03-13")),
        ("What did I say today?", ("2024-03-13", "2024-03-14")),
        ("What did I say last night?", ("2024-03-12", "2024-03-14")),
        ("What did I do last week?", ("2024-03-04", "2024-03-11")),
        ("What did I do last weekend?", ("2024-03-09", "2024-03-11")),
        ("What did I do this month?", ("2024-03-01", "2024-04-01")),
        ("What did I do last year?", ("2023-01-01", "2024-01-01")),
        ("What did I buy two days ago?", ("2024-03-11", "2024-03-12")),
    ],
)
def test_named_times(text, span):
    """Days, months, years, and times relative to today are found in a question."""
    assert spans(text) == [span]


def test_a_month_without_a_year():
    """A month without a year matches that month in each of the last five years."""
    assert [start[:4] for start, _ in spans("When did they camp in June?")] == ["2024", "2023", "2022", "2021", "2020"]


@pytest.mark.parametrize(
    "text",
    [
        "May I ask who wrote it?",
        "Who marched to the sun?",
        "What is the 31 June 2023 about?",
        "Which 3 cars cost 2000 euros?",
        "",
        "the second of them",
        "999 years ago 0 days",
    ],
)
def test_texts_without_a_date(text):
    """Names of months used as other words, impossible days and plain numbers are not dates."""
    assert [span for span in spans(text) if span[0] > "1900"] == []


def test_a_date_is_found_once():
    """The year inside a full date is not reported again as a year of its own."""
    years = [(f"{year}-01-01", f"{year + 1}-01-01") for year in (2020, 2021)]
    assert spans("in 2023-05-03T10:00 and in 2020 or 2021") == [("2023-05-03", "2023-05-04"), *years]


@given(st.text(max_size=60), st.floats(0, 4e9))
def test_any_text_can_be_read(text, now):
    """Any text can be searched for dates, and every span starts before it ends."""
    assert all(start < end for start, end in mentioned_spans(text, now))
