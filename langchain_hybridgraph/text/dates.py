"""Dates that a text mentions."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

Span = tuple[float, float]

_WHOLE = "january|february|march|april|may|june|july|august|september|october|november|december"
_MONTHS = _WHOLE.split("|")
# "may", "mar" and "sun" are words, too: a month without a day needs its full name and a word such as "in" before it.
_MONTH = "|".join([*_MONTHS, *(f"{name[:3]}\\.?" for name in _MONTHS), "sept\\.?"])
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
# A month or day without a year may belong to any of this number of years, the current year and those before it.
_YEARS = 5
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
_COUNTS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "a couple of": 2, "a few": 3}
# The most exact forms come first. The matches of each are removed from the text, so that "3 May 2023" is not also read
# as a month or a year.
_DATES = (
    rf"\b{_YEAR}-(?P<number>\d\d)-(?P<day>\d\d)(?:\b|(?=t\d\d))",
    rf"\b{_DAY} (?:of )?(?P<month>{_MONTH}),? {_YEAR}\b",
    rf"\b(?P<month>{_MONTH}) {_DAY},? {_YEAR}\b",
    rf"\b(?P<month>{_MONTH}),? (?:of )?{_YEAR}\b",
    rf"\b(?P<month>{_MONTH}) {_DAY}\b",
    rf"\b{_DAY} (?:of )?(?P<month>{_WHOLE})\b",
    rf"\b(?:in|during|of|since|by|until|early|late|mid) (?P<month>{_WHOLE})\b",
    rf"(?:\b(?:in|during|of|since|by|summer|winter|spring|fall|autumn|until) |(?<=\bin \d{{4}} and )"
    rf"|(?<=\bin \d{{4}} or )){_YEAR}\b",
)


def mentioned_spans(text: str, now: float) -> list[Span]:
    """Return the times mentioned in a question, as spans [start, end) in Unix seconds.

    The recognised times are English expressions and ISO dates: days ("3 May 2023", "May 3rd", "2023-05-03"), months
    ("May 2023", "in May"), years, and times relative to ``now`` ("today", "last night", "this week", "last December",
    "three weeks ago"). A day or month without a year gives one span for the current year and one for each of the four
    years before it. Days begin and end at midnight UTC.

    >>> from langchain_hybridgraph.times import iso_time
    >>> [[iso_time(each)[:10] for each in span] for span in mentioned_spans("What did she say on May 3, 2023?", 1.7e9)]
    [['2023-05-03', '2023-05-04']]
    >>> mentioned_spans("May I ask who wrote Emma?", 1.7e9)
    []
    """
    rest = text.lower()
    if not _MAY_NAME.search(rest):
        return []
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    spans: list[Span] = []
    for pattern, read in _READ:
        for match in pattern.finditer(rest):
            spans += read(match, today)
        rest = pattern.sub(" ", rest)
    return list(dict.fromkeys(spans))


def _date(match: re.Match[str], today: datetime) -> Iterator[Span]:
    """Yield the span of a day, month or year, once for each year that may be meant."""
    parts = match.groupdict()
    month = int(parts.get("number") or 0)
    if name := parts.get("month"):
        month = next(number for number, each in enumerate(_MONTHS, start=1) if each.startswith(name[:3]))
    for year in [int(parts["year"])] if "year" in parts else range(today.year, today.year - _YEARS, -1):
        if "day" in parts:
            with suppress(ValueError):  # 31 June is not a date
                yield _days(datetime(year, month, int(parts["day"]), tzinfo=UTC), 1)
        else:
            yield _months(year, month, 1) if month else _months(year, 1, 12)


def _months(year: int, first: int, n: int) -> Span:
    years, last = divmod(first + n - 1, 12)
    end = datetime(year + years, last + 1, 1, tzinfo=UTC)
    return datetime(year, first, 1, tzinfo=UTC).timestamp(), end.timestamp()


def _days(start: datetime, n: int) -> Span:
    return start.timestamp(), (start + timedelta(days=n)).timestamp()


def _ago(match: re.Match[str], today: datetime) -> Iterator[Span]:
    """Yield one unit around the day ``count`` units ago: "a week ago" is this day and three days on each side."""
    count, unit = match.group(1), _UNITS[match.group(2)]
    n = _COUNTS.get(count) or int(count)
    if n * unit < today.toordinal():
        yield _days(today - timedelta(days=n * unit + (unit - 1) // 2), unit)


def _relative(match: re.Match[str], today: datetime) -> Iterator[Span]:
    which, unit = match.group(1), match.group(2)
    back = which != "this"
    if unit == "night":
        yield _days(today - timedelta(days=1), 2)
    elif unit in ("week", "weekend"):
        monday = today - timedelta(days=today.weekday() + 7 * back)
        yield _days(monday + timedelta(days=5), 2) if unit == "weekend" else _days(monday, 7)
    elif unit == "month":
        before = today.replace(day=1) - timedelta(days=1) if back else today
        yield _months(before.year, before.month, 1)
    elif unit == "year":
        yield _months(today.year - back, 1, 12)
    else:
        month = _MONTHS.index(unit) + 1
        yield _months(today.year - (back and month >= today.month), month, 1)


# A text can match one of the patterns below only if it matches this one.
_MAY_NAME = re.compile(rf"\d|{_WHOLE}|today|yesterday| ago\b|\b(?:this|last|previous) ")
_READ: list[tuple[re.Pattern[str], Callable[[re.Match[str], datetime], Iterator[Span]]]] = [
    *((re.compile(form), _date) for form in _DATES),
    (re.compile(r"\bday before yesterday\b"), lambda m, today: iter([_days(today - timedelta(days=2), 1)])),
    (re.compile(r"\byesterday\b"), lambda m, today: iter([_days(today - timedelta(days=1), 1)])),
    (re.compile(r"\btoday\b"), lambda m, today: iter([_days(today, 1)])),
    (re.compile(rf"\b({'|'.join(_COUNTS)}|\d{{1,3}}) ({'|'.join(_UNITS)})s? ago\b"), _ago),
    (re.compile(rf"\b(this|last|previous) (night|week|weekend|month|year|{_WHOLE})\b"), _relative),
]
