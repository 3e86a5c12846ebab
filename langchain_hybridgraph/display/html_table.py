"""HTML tables of results, reports, stores and retrievers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from langchain_hybridgraph.display.colours import OTHER_PARTS, PART_COLOURS
from langchain_hybridgraph.display.highlight import highlight_html
from langchain_hybridgraph.display.hits import SearchResult, hits_in
from langchain_hybridgraph.display.picture import edge_name
from langchain_hybridgraph.display.result_explanation import describe_degradation, path_end, title
from langchain_hybridgraph.errors import ConfigurationError, shorten
from langchain_hybridgraph.records import Hit, is_backward

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
