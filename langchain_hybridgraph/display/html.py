"""HTML tables of results, reports, stores and retrievers."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_hybridgraph.display.explanation import (
    SearchResult,
    describe_degradation,
    edge_name,
    hits_in,
    path_end,
    title,
)
from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError, shorten
from langchain_hybridgraph.records import Hit, is_backward
from langchain_hybridgraph.text.analyzer import Analyzer

# The colours by Okabe and Ito (Color Universal Design, 2008) can be distinguished with any colour vision, on white and
# on black.

# Colour of each part of a score. All other parts get the colours of OTHER_PARTS in turn.
PART_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "vector": "#0072B2",
        "search": "#0072B2",
        "similarity": "#0072B2",
        "keyword": "#D55E00",
        "confidence": "#D55E00",
        "graph": "#009E73",
        "recency": "#009E73",
        "session": "#CC79A7",
        "utility": "#CC79A7",
        "rerank": "#E69F00",
    }
)
OTHER_PARTS = ("#56B4E9", "#F0E442", "#E69F00", "#999999")


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


# The table inherits text and background colours from the page, so it is readable in light and dark themes. The class
# is repeated to override the page's own rules for tables. Deductions from a score are hatched.
STYLE = """
.hybridgraph.hybridgraph { max-width: 60em; overflow-wrap: anywhere; line-height: 1.4; }
.hybridgraph.hybridgraph table { width: 100%; margin: 0; border-collapse: collapse; table-layout: fixed; }
.hybridgraph.hybridgraph :is(th, td) { text-align: start; vertical-align: top; padding: .45em .6em; white-space: normal;
  border: 0; border-bottom: 1px solid rgba(128, 128, 128, .35); color: inherit; background: none; }
.hybridgraph.hybridgraph .rank { width: 1.6em; }
.hybridgraph.hybridgraph .score { width: 9.5em; }
.hybridgraph.hybridgraph .name { width: 11em; opacity: .8; }
.hybridgraph.hybridgraph p { margin: .3em 0; }
.hybridgraph.hybridgraph small { font-size: .85em; }
.hybridgraph.hybridgraph :is(p, code) { opacity: .8; }
.hybridgraph.hybridgraph mark { color: inherit; background: rgba(240, 180, 0, .38); border-radius: .2em; }
.hybridgraph.hybridgraph .bar { display: flex; height: .6em; margin: .25em 0; position: relative; overflow: hidden;
  background: rgba(128, 128, 128, .18); border-radius: .2em; }
.hybridgraph.hybridgraph .less { position: absolute; height: 100%;
  background: repeating-linear-gradient(45deg, #fff 0 2px, #444 2px 4px); }
.hybridgraph.hybridgraph .chip { display: inline-block; width: .65em; height: .65em; border-radius: .15em; }
@media (max-width: 34em) { .hybridgraph.hybridgraph .score { width: 8em; } }
"""


# Maximum number of characters of a value, and of lines in a list of values, in a table of fields.
_LONGEST_CELL = 500
_MOST_LINES = 20


class Table:
    """Table of a result for notebooks: rank, score with its parts as bars, text with highlighted query words, and path.

    ``result`` is a RetrievalResult, or a list of Documents from one of this package's retrievers. Pass ``query`` with
    Documents; a RetrievalResult contains its query. The full width of a bar corresponds to a score of 1, or to the sum
    of the positive parts if that is larger. Query words are highlighted where a keyword index of this ``language``
    would match them. Long texts are shortened, and at most ``rows`` hits are shown. All content is escaped, because
    texts, metadata and ids may come from untrusted sources. Raises ConfigurationError for an invalid ``result``, an
    unknown ``language``, and ``rows`` below 1.

    >>> from langchain_hybridgraph import RetrievalResult
    >>> from langchain_hybridgraph.records import Chunk
    >>> hit = Hit(Chunk("a", "Ada wrote it."), 0.9, "vector", {"vector": 0.9}, found_by=("vector",))
    >>> table = Table(RetrievalResult(["a"], hits=[hit], took_ms=2.0, plan={"query": "Who wrote it?"}))
    >>> "Ada <mark>wrote</mark> it." in table._repr_html_()
    True
    >>> table
    1  0.900  a  Ada wrote it.
    """

    def __init__(
        self,
        result: SearchResult | Iterable[Any],
        query: str | None = None,
        *,
        language: str | None = "english",
        rows: int = 50,
        metadata_prefix: str = "",
    ) -> None:
        _check_rows(rows)
        self._hits = hits_in(result, metadata_prefix)
        self._about = _about(result) if isinstance(result, SearchResult) else []
        own_query = result.plan.get("query") if isinstance(result, SearchResult) else None
        self._query, self._language, self._rows = query if query is not None else own_query, language, rows
        highlight_html(
            "", self._query, language
        )  # raises the error for an unknown language now, not when a notebook shows the table

    def __repr__(self) -> str:
        lines = [f"{rank}  {hit.score:.3f}  {hit.id}  {title(hit)}" for rank, hit in enumerate(self._visible_hits, 1)]
        return "\n".join(lines + ([self._more] if self._more else [])) or "Nothing found."

    def _repr_html_(self) -> str:
        about = "".join(f"<p><small>{escape(line)}</small></p>" for line in (*self._about, self._more) if line)
        if not self._hits:
            return _page(f"<p>Nothing found.</p>{about}")
        colours = _colours(self._visible_hits)
        titles = {path_end(hit): title(hit) for hit in self._hits}
        body = "".join(self._row(rank, hit, colours, titles) for rank, hit in enumerate(self._visible_hits, 1))
        head = '<tr><th class="rank"></th><th class="score">Score</th><th>Found</th></tr>'
        return _page(f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{about}")

    @property
    def _visible_hits(self) -> Sequence[Hit]:
        return self._hits[: self._rows]

    @property
    def _more(self) -> str:
        left = len(self._hits) - len(self._visible_hits)
        return f"… and {left} more" if left else ""

    def _row(self, rank: int, hit: Hit, colours: Mapping[str, str], titles: Mapping[str, str]) -> str:
        score = "–" if math.isnan(hit.score) else f"{hit.score:.3f}"
        text = highlight_html(hit.chunk.text, self._query, self._language)
        heading = f"<strong>{escape(title(hit))}</strong> " if _has_title(hit) else ""
        id_html = f"<small><code>{escape(hit.id)}</code></small>" if not heading or hit.id != title(hit) else ""
        path_html = "".join(f"<p><small>{way}</small></p>" for way in _path_lines(hit, titles))
        return (
            f'<tr><td class="rank">{rank}</td><td class="score"><strong>{score}</strong>{_bar(hit.parts, colours)}</td>'
            f'<td dir="auto">{heading}{id_html}<div>{text}</div>{path_html}</td></tr>'
        )


def fields_table(heading: str, fields: Mapping[str, Any], notes: Iterable[str] = ()) -> str:
    """Return an HTML table with the names and values of fields, for an object that is not a search result.

    All content is escaped. Mappings and lists are shown with one entry per line, and long values are shortened.
    ``notes`` are shown below the table.

    >>> "<td>1,200</td>" in fields_table("Report", {"chunks": 1200})
    True
    """
    cells = ((escape(name), _cell(value)) for name, value in fields.items())
    rows = "".join(f'<tr><td class="name">{name}</td><td>{value}</td></tr>' for name, value in cells)
    below = "".join(f"<p><small>{_cell(note)}</small></p>" for note in notes)
    return _page(f"<p><strong>{_cell(heading)}</strong></p><table><tbody>{rows}</tbody></table>{below}")


def _cell(value: object) -> str:
    if isinstance(value, Mapping):
        value = [f"{key}: {each}" for key, each in value.items()]
    if isinstance(value, list | tuple):
        hidden = len(value) - _MOST_LINES
        lines = [_cell(each) for each in value[:_MOST_LINES]] + ([f"… and {hidden:,} more"] if hidden > 0 else [])
        return "<br>".join(lines) or "–"
    if value is None:
        return "–"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
    return escape(shorten(str(value), _LONGEST_CELL))


def _check_rows(rows: Any) -> None:
    if not isinstance(rows, int) or rows < 1:
        raise ConfigurationError(f"rows must be at least 1, got {rows!r}; try rows=50")


def _page(inside: str) -> str:
    # The last two classes prevent dollar signs from being rendered as TeX formulas.
    return f'<div class="hybridgraph tex2jax_ignore mathjax_ignore"><style>{STYLE}</style>{inside}</div>'


def _about(result: SearchResult) -> list[str]:
    return [
        f"{len(result)} hit{'' if len(result) == 1 else 's'} in {result.took_ms:.1f} ms",
        *([] if result.answerability is None else [result.answerability.explain()]),
        *describe_degradation(result),
    ]


def _colours(hits: Iterable[Hit]) -> dict[str, str]:
    names = list(dict.fromkeys(name for hit in hits for name in hit.parts))
    others = [name for name in names if name not in PART_COLOURS]
    return {name: PART_COLOURS[name] for name in names if name in PART_COLOURS} | {
        name: OTHER_PARTS[place % len(OTHER_PARTS)] for place, name in enumerate(others)
    }


def _bar(parts: Mapping[str, float], colours: Mapping[str, str]) -> str:
    """Return an HTML bar for the parts of a score, and the numbers below it.

    Positive parts are drawn side by side. Negative parts are drawn over the end of the bar as a hatched area.
    """
    if not parts:
        return ""
    gains = [(name, value) for name, value in parts.items() if value > 0]
    total = math.fsum(value for _, value in gains)
    deduction = min(total, -math.fsum(value for value in parts.values() if value < 0))
    unit = 100 / max(1.0, total)
    pieces = [_piece(unit * value, colours[name]) for name, value in gains]
    if deduction > 0:
        left, width = unit * (total - deduction), unit * deduction
        pieces.append(f'<span class="less" style="left:{left:.1f}%;width:{width:.1f}%"></span>')
    figures = "<br>".join(_figure(name, value, colours[name]) for name, value in parts.items())
    return f'<div class="bar">{"".join(pieces)}</div><small>{figures}</small>'


def _piece(width: float, colour: str) -> str:
    return f'<span style="width:{width:.1f}%;background:{colour}"></span>'


def _figure(name: str, value: float, colour: str) -> str:
    sign = "−" if value < 0 else ""
    return f'<span class="chip" style="background:{colour}"></span> {escape(str(name))} {sign}{abs(value):.3f}'


def _has_title(hit: Hit) -> bool:
    return any(hit.chunk.metadata.get(key) for key in ("title", "section_heading"))


def _path_lines(hit: Hit, titles: Mapping[str, str]) -> Iterator[str]:
    """Yield lines of HTML: the path to the hit, and the child chunk that a parent hit replaces."""
    if len(hit.path) > 1:
        edges = {str(step["from_chunk_id"]): step for step in hit.graph_context}
        steps = [escape(titles.get(id, id)) + _edge(edges.get(id)) for id in hit.path[:-1]]
        yield " ".join(["↳ from", *steps])
    if hit.child is not None:
        yield f"parent of {escape(hit.child.id)}"


def _edge(step: Mapping[str, Any] | None) -> str:
    """Return the HTML for the edge between a chunk on a path and the next chunk.

    An edge is shown as an arrow in its direction. A shared entity, or a step without a known edge, is shown as a line.
    """
    if step is None:
        return " –"
    description = str(step.get("description") or "")
    tooltip = f" title={_quoted(description)}" if description else ""
    tail, head = ("–", "–") if step.get("entity") else ("←", "–") if is_backward(step) else ("–", "→")
    return f" <em{tooltip}>{tail}{escape(edge_name(step))} {float(step['weight']):.2f}{head}</em>"


def _quoted(text: str) -> str:
    return f'"{escape(text, quote=True)}"'


def show(result: SearchResult | Iterable[Any], query: str | None = None, **options: Any) -> None:
    """Display a result as a table. The call can be anywhere in a cell.

    ``options`` are passed to :class:`Table`. A plain interpreter shows the table as text. Raises MissingExtraError if
    IPython is not installed.
    """
    _ipython().display.display(Table(result, query, **options))


def show_lists(on: bool = True) -> bool:
    """Show lists of Documents from this package's retrievers as tables if they are the last expression of a cell.

    Only lists whose Documents were annotated at the level "all", without a ``metadata_prefix``, become tables. Other
    lists are shown as before. The setting applies to the complete notebook; ``on=False`` reverts it. Returns False if
    no IPython is running, so the same code can also run outside notebooks. Raises MissingExtraError if IPython is not
    installed.
    """
    shell = _ipython().get_ipython()
    if shell is None:
        return False
    formatter = shell.display_formatter.formatters["text/html"]
    before = formatter.type_printers.get(list)
    if isinstance(before, _Lists):
        before = before.others
    if on:
        formatter.for_type(list, _Lists(before))
    elif before is not None:
        formatter.for_type(list, before)
    else:
        formatter.type_printers.pop(list, None)
    return True


class _Lists:
    """HTML formatter that shows lists of search results as tables.

    Other lists are passed to the formatter ``others``; if there is none, the result is None.
    """

    def __init__(self, others: Any) -> None:
        self.others = others

    def __call__(self, value: list[Any]) -> str | None:
        if _is_scored_documents(value):
            return Table(value)._repr_html_()
        html: str | None = None if self.others is None else self.others(value)
        return html


def _is_scored_documents(result: Sequence[Any]) -> bool:
    """Return whether a list contains only Documents annotated at the level "all", without a prefix.

    The result is False for an empty list.
    """
    return bool(result) and all(
        hasattr(each, "page_content") and {"score_breakdown", "retrieval_rank"} <= each.metadata.keys()
        for each in result
    )


def _ipython() -> Any:
    try:
        import IPython
    except ImportError as error:
        raise MissingExtraError(
            'showing tables needs IPython, which cannot be imported: pip install "langchain-hybridgraph[notebook]"'
        ) from error
    return IPython
