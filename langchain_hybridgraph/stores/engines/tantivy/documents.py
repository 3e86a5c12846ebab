"""Schema and documents of a Tantivy index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.text.identifiers import compounds, name_of

if TYPE_CHECKING:
    import tantivy

    from langchain_hybridgraph.stores.protocols.keyword_index import IndexedText

_ANALYZED = 1_000  # number of texts analysed in one batch
_MARK_ROW = -1


def schema() -> tantivy.Schema:
    """Return the schema of the index."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", indexed=True, fast=True)
    # These fields contain analysed words, joined by spaces. The tokenizer "whitespace" is built in. A custom tokenizer
    # would have to be registered each time the index is opened; writing without it breaks the writer.
    for field in ("text", "headings"):
        builder.add_text_field(field, tokenizer_name="whitespace", index_option="freq")
    for field in ("compounds", "name"):
        builder.add_text_field(field, tokenizer_name="whitespace", index_option="basic")
    builder.add_boolean_field("mark", indexed=True)  # True for the one document that has the next two fields
    builder.add_integer_field("version", stored=True)
    builder.add_text_field("analysis", stored=True, tokenizer_name="raw", index_option="basic")
    return builder.build()


class AnalyzedTexts(NamedTuple):
    """The analysed contents of one row, with one attribute for each text field of the schema."""

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
    words = Analyzer(language).all_words
    rows = []
    for row, text, *headings in texts:
        forms = " ".join(compounds(text)), name_of(text) or ""
        rows.append((int(row), AnalyzedTexts(" ".join(words(text)), " ".join(words("".join(headings))), *forms)))
    return rows


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
