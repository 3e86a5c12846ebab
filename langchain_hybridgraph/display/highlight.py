"""Which words of a text a question asked for."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator
from html import escape
from itertools import groupby
from typing import NamedTuple

from langchain_hybridgraph.stores.analysis import Analyzer

# So many characters of a long text are shown.
SHOWN = 320


class Span(NamedTuple):
    """Characters of a text, from ``start`` to before ``end``."""

    start: int
    end: int


def matches(text: str, query: str, language: str | None = "english") -> list[Span]:
    """Where a text has a word of the query, as a keyword search compares words; in order, no two overlap.

    A word that is a part of an identifier marks the identifier. In scripts without spaces pairs of characters are
    compared. Nothing for a query without words.

    >>> text = "Invoices are paid by os.path"
    >>> [text[start:end] for start, end in matches(text, "paths of invoice")]
    ['Invoices', 'path']
    """
    analyzer = Analyzer(language)
    wanted = frozenset(analyzer.words(query))
    return list(_joined(span for word in _words(text) for span in _matched(text, word, wanted, analyzer)))


def passage(text: str, spans: Collection[Span], size: int = SHOWN) -> Span:
    """The part of a text, up to so many characters, that has the most of the spans; its beginning where none has any.

    It begins with a word, shortly before the first of its spans.
    """
    if len(text) <= size or not spans:
        return Span(0, min(len(text), size))
    room = size - size // 8

    def held(start: int) -> int:
        return sum(start <= span.start and span.end <= start + room for span in spans)

    start = max((span.start for span in spans), key=lambda at: (held(at), -at))
    if start < size // 8:
        return Span(0, size)
    before = text.rfind(" ", 0, max(start - size // 8, 0)) + 1
    return Span(before, min(len(text), before + size))


def marked(text: str, query: str | None, language: str | None = "english", size: int = SHOWN) -> str:
    """The best passage of a text as HTML, what the query asked for in ``<mark>``; everything in it is escaped.

    >>> marked("Ada <i>wrote</i> it.", "Who wrote it?")
    'Ada &lt;i&gt;<mark>wrote</mark>&lt;/i&gt; it.'
    """
    spans = matches(text, query, language) if query else []
    shown = passage(text, spans, size)
    parts, at = [], shown.start
    for start, end in (span for span in spans if shown.start <= span.start and span.end <= shown.end):
        parts += [escape(text[at:start]), f"<mark>{escape(text[start:end])}</mark>"]
        at = end
    parts.append(escape(text[at : shown.end]))
    return f"{'… ' if shown.start else ''}{''.join(parts)}{' …' if shown.end < len(text) else ''}"


def _words(text: str) -> Iterator[Span]:
    """Runs of letters, digits and the marks on them."""
    at = 0
    for is_word, run in groupby(text, lambda c: c.isalnum() or unicodedata.category(c).startswith("M")):
        length = sum(1 for _ in run)
        if is_word:
            yield Span(at, at + length)
        at += length


def _matched(text: str, word: Span, wanted: Collection[str], analyzer: Analyzer) -> Iterable[Span]:
    """The word if the query has it; of a run without spaces the pairs, else the characters, that the query has."""
    found = frozenset(analyzer.all_words(text[word.start : word.end])).intersection(wanted)
    for size in (2, 1) if found else ():
        pieces = [Span(at, at + size) for at in range(word.start, word.end - size + 1)]
        if those := [span for span in pieces if text[span.start : span.end] in found]:
            return those
    return [word] if found else []


def _joined(spans: Iterator[Span]) -> Iterator[Span]:
    """The spans with those that overlap made one."""
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
