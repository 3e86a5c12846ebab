"""Highlighting of query words in a text."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator
from html import escape
from itertools import groupby
from typing import NamedTuple

from langchain_hybridgraph.text.analyzer import Analyzer

# Maximum number of characters shown of a long text.
PASSAGE_SIZE = 320


class Span(NamedTuple):
    """Range of characters in a text, from ``start`` up to but excluding ``end``."""

    start: int
    end: int


def matches(text: str, query: str, language: str | None = "english") -> list[Span]:
    """Return the spans of a query's words in a text, in order and without overlaps.

    Words are compared as in keyword search. If a query word matches a part of a name such as ``getUserName``, the span
    contains the complete name; parts between ``_`` or ``.`` have their own spans. In scripts without spaces, pairs of
    characters are compared. A query without words has no matches.

    >>> text = "Invoices are paid by os.path"
    >>> [text[start:end] for start, end in matches(text, "paths of invoice")]
    ['Invoices', 'path']
    """
    analyzer = Analyzer(language)
    terms = frozenset(analyzer.words(query))
    return list(_merge_spans(span for word in _words(text) for span in _matched(text, word, terms, analyzer)))


def passage(text: str, spans: Collection[Span], size: int = PASSAGE_SIZE) -> Span:
    """Return the passage of at most ``size`` characters that contains the most spans.

    Without spans, it is the beginning of the text. Otherwise, the passage starts at a word, shortly before its first
    span.
    """
    if len(text) <= size or not spans:
        return Span(0, min(len(text), size))
    room = size - size // 8

    def spans_inside(start: int) -> int:
        return sum(start <= span.start and span.end <= start + room for span in spans)

    start = max((span.start for span in spans), key=lambda at: (spans_inside(at), -at))
    if start < size // 8:
        return Span(0, size)
    before = text.rfind(" ", 0, max(start - size // 8, 0)) + 1
    return Span(before, min(len(text), before + size))


def highlight_html(text: str, query: str | None, language: str | None = "english", size: int = PASSAGE_SIZE) -> str:
    """Return the best passage of a text as escaped HTML, with the words of the query in ``<mark>``.

    >>> highlight_html("Ada <i>wrote</i> it.", "Who wrote it?")
    'Ada &lt;i&gt;<mark>wrote</mark>&lt;/i&gt; it.'
    """
    spans = matches(text, query, language) if query else []
    excerpt = passage(text, spans, size)
    parts, at = [], excerpt.start
    for start, end in (span for span in spans if excerpt.start <= span.start and span.end <= excerpt.end):
        parts += [escape(text[at:start]), f"<mark>{escape(text[start:end])}</mark>"]
        at = end
    parts.append(escape(text[at : excerpt.end]))
    return f"{'… ' if excerpt.start else ''}{''.join(parts)}{' …' if excerpt.end < len(text) else ''}"


def _words(text: str) -> Iterator[Span]:
    """Yield the spans of all runs of letters, digits and combining marks."""
    at = 0
    for is_word, run in groupby(text, lambda c: c.isalnum() or unicodedata.category(c).startswith("M")):
        length = sum(1 for _ in run)
        if is_word:
            yield Span(at, at + length)
        at += length


def _matched(text: str, word: Span, terms: Collection[str], analyzer: Analyzer) -> Iterable[Span]:
    """Return the spans in a word that match the query: the full word or, in scripts without spaces, parts of it."""
    common = frozenset(analyzer.all_words(text[word.start : word.end])).intersection(terms)
    for size in (2, 1) if common else ():
        pieces = [Span(at, at + size) for at in range(word.start, word.end - size + 1)]
        if matching := [span for span in pieces if text[span.start : span.end] in common]:
            return matching
    return [word] if common else []


def _merge_spans(spans: Iterator[Span]) -> Iterator[Span]:
    last: Span | None = None
    for span in spans:
        if last is not None and span.start < last.end:
            last = Span(last.start, span.end)
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last
