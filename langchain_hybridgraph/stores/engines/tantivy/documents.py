"""Schema and documents of a Tantivy index."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.text.identifiers import AROUND, compounds, name_of

if TYPE_CHECKING:
    import tantivy

    from langchain_hybridgraph.stores.protocols.keyword_index import IndexedText

_ANALYZED = 1_000  # number of texts analysed in one batch
_CACHE_SIZE = 1 << 18  # runs of characters between spaces
_LONGEST_CACHED = 64  # a longer run, such as a sentence without spaces, is not worth caching
_STEMS = "stems"  # name of the tokenizer
_MARK_ROW = -1


def schema() -> tantivy.Schema:
    """Return the schema of the index."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", indexed=True, fast=True)
    # Words, joined by spaces. Tantivy reduces them to stems while Python prepares the next texts.
    for field in ("text", "headings"):
        builder.add_text_field(field, tokenizer_name=_STEMS, index_option="freq")
    for field in ("compounds", "name"):
        builder.add_text_field(field, tokenizer_name="whitespace", index_option="basic")
    builder.add_boolean_field("mark", indexed=True)  # True for the one document that has the next two fields
    builder.add_integer_field("version", stored=True)
    builder.add_text_field("analysis", stored=True, tokenizer_name="raw", index_option="basic")
    return builder.build()


def register_stemmer(index: tantivy.Index, language: str) -> None:
    """Register the tokenizer of the schema. Without it, a writer of the index fails."""
    import tantivy

    tokenizer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    if Analyzer(language).stems:
        tokenizer = tokenizer.filter(tantivy.Filter.stemmer(language))
        # Stems of a few Arabic and Greek words are empty.
        tokenizer = tokenizer.filter(tantivy.Filter.custom_stopword([""]))
    index.register_tokenizer(_STEMS, tokenizer.build())


class AnalyzedTexts(NamedTuple):
    """The contents of one row as words that are not stemmed, with one attribute for each text field of the schema."""

    text: str
    headings: str
    compounds: str
    name: str


def batches(add: Iterable[IndexedText]) -> Iterator[list[IndexedText]]:
    """Yield the texts in lists of up to 1,000."""
    rest = iter(add)
    while batch := list(islice(rest, _ANALYZED)):
        yield batch


def analyze(language: str, texts: Sequence[IndexedText]) -> list[tuple[int, AnalyzedTexts]]:
    """Return the row and the analysed contents of each text."""
    split = _splitter(language)
    rows = []
    for row, text, *headings in texts:
        words, forms = split(text)
        rows.append((int(row), AnalyzedTexts(words, split("".join(headings))[0], forms, name_of(text) or "")))
    return rows


class _Splitter:
    """Splits texts into words and compounds faster than ``Analyzer`` and ``compounds`` would, with the same result.

    Most runs of characters between spaces consist of ASCII letters and punctuation. They have no compounds, and their
    words are the runs in lower case without the punctuation. Only the others are analysed, each of them once.
    """

    def __init__(self, language: str) -> None:
        self._analyzer = Analyzer(language)
        self._plain: set[str] = set()
        self._forms: dict[str, tuple[str | None, str]] = {}

    def __call__(self, text: str) -> tuple[str, str]:
        """Return the words that are not stemmed yet and the distinct compounds of a text, each joined by spaces."""
        runs = text.split()
        forms = {run: self._forms.get(run) or self._read(run) for run in set(runs) - self._plain}
        words = {run: words for run, (words, _) in forms.items() if words is not None}
        if words:
            text = " ".join([run for run in runs if run not in words])
        others = [words[run] for run in runs if run in words] if words else []
        return " ".join([self._analyzer.ascii_words(text), *others]), " ".join([forms for _, forms in forms.values()])

    def _read(self, run: str) -> tuple[str | None, str]:
        """Return the words of a run, or None if they need no analysis, and its compounds."""
        is_plain, word = self._analyzer.is_plain(run), run.strip(AROUND)
        words = None if is_plain else self._analyzer.unstemmed_words(run)
        # This fast check is enough for nearly all runs.
        has_none = is_plain and word.isalpha() and (word.islower() or word[1:].islower())
        terms = words, "" if has_none else " ".join(compounds(run))
        if len(self._plain) + len(self._forms) >= _CACHE_SIZE:
            self._plain, self._forms = set(), {}
        if terms == (None, ""):
            self._plain.add(run)
        elif len(run) <= _LONGEST_CACHED:
            self._forms[run] = terms
        return terms


@functools.cache
def _splitter(language: str) -> _Splitter:
    return _Splitter(language)


def text_document(row: int, fields: AnalyzedTexts) -> tantivy.Document:
    """Return the document for one row."""
    import tantivy

    document = tantivy.Document()
    document.add_integer("row", row)
    document.add_boolean("mark", False)
    for field, content in fields._asdict().items():
        document.add_text(field, content)
    return document


def mark_document(version: int, analysis: str) -> tantivy.Document:
    """Return the document that records the version of the index and how its texts were analysed."""
    import tantivy

    document = tantivy.Document()
    document.add_integer("row", _MARK_ROW)
    document.add_boolean("mark", True)
    document.add_integer("version", version)
    document.add_text("analysis", analysis)
    return document
