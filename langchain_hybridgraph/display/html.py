"""HTML tables of results, reports, stores and retrievers."""

import math
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import chain, cycle
from typing import Any

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.display import explanation
from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.records import Hit, is_backward

# The table inherits text and background colours from the page, so it is readable in light and dark themes. The class
# is repeated to override the page's own rules for tables.
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
.hybridgraph.hybridgraph .bar { display: flex; height: .6em; margin: .25em 0; overflow: hidden;
  background: rgba(128, 128, 128, .18); border-radius: .2em; }
.hybridgraph.hybridgraph .chip { display: inline-block; width: .65em; height: .65em; border-radius: .15em; }
@media (max-width: 34em) { .hybridgraph.hybridgraph .score { width: 8em; } }
"""


# Maximum number of hits in the table of a result, and of characters shown of the text of a hit.
_MOST_HITS, _PASSAGE = 50, 320
# Maximum number of characters of a value, and of lines in a list of values, in a table of fields.
_LONGEST_CELL = 500
_MOST_LINES = 20


def result_table(result: explanation.SearchResult) -> str:
    """Return a result as an HTML table: rank, score with its parts as bars, text with highlighted words, and path.

    The full width of a bar corresponds to a score of 1 or more; negative parts shorten all others. Words of the query
    are highlighted as a keyword index in English matches them. At most 50 hits are shown, with long texts shortened.
    All content is escaped.

    >>> from langchain_hybridgraph import RetrievalResult
    >>> from langchain_hybridgraph.records import Chunk
    >>> hit = Hit(Chunk("a", "Ada <i>wrote</i> it."), 0.9, "vector", {"vector": 0.9}, found_by=("vector",))
    >>> result = RetrievalResult(["a"], hits=[hit], took_ms=2.0, plan={"query": "Who wrote it?"})
    >>> "Ada &lt;i&gt;<mark>wrote</mark>&lt;/i&gt; it." in result_table(result)
    True
    """
    # Other libraries' retrievers return Documents without scores.
    hits = result.hits or tuple(Hit(Chunk(each.id or "", each.page_content), math.nan, "", {}) for each in result)
    visible_hits = hits[:_MOST_HITS]
    notes = [f"{len(result)} hit{'' if len(result) == 1 else 's'} in {result.took_ms:.1f} ms"]
    if result.answerability is not None:
        notes.append(result.answerability.explain())
    notes += explanation.describe_degradation(result)
    if len(hits) > _MOST_HITS:
        notes.append(f"… and {len(hits) - _MOST_HITS} more")
    below = "".join(f"<p><small>{escape(note)}</small></p>" for note in notes)
    if not hits:
        return _page(f"<p>Nothing found.</p>{below}")
    names = dict.fromkeys(chain.from_iterable(hit.parts for hit in visible_hits))
    colours = dict(zip(names, cycle(explanation.COLOURS), strict=False))
    titles = {explanation.path_end(hit): explanation.title(hit) for hit in hits}
    rows = (
        _row(rank, hit, result.plan.get("query") or "", colours, titles) for rank, hit in enumerate(visible_hits, 1)
    )
    head = '<tr><th class="rank"></th><th class="score">Score</th><th>Found</th></tr>'
    return _page(f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{below}")


def _row(rank: int, hit: Hit, query: str, colours: Mapping[str, str], titles: Mapping[str, str]) -> str:
    score = "–" if math.isnan(hit.score) else f"{hit.score:.3f}"
    pieces = explanation.excerpt(hit.chunk.text, query, "english", _PASSAGE)
    text = "".join(f"<mark>{escape(piece)}</mark>" if is_match else escape(piece) for piece, is_match in pieces)
    heading = explanation.headings(hit)
    lines = f"<strong>{escape(heading)}</strong> " if heading else ""
    if hit.id != heading:
        lines += f"<small><code>{escape(hit.id)}</code></small>"
    path = "".join(f"<p><small>{way}</small></p>" for way in _path_lines(hit, titles))
    return (
        f'<tr><td class="rank">{rank}</td><td class="score"><strong>{score}</strong>{_bar(hit.parts, colours)}</td>'
        f'<td dir="auto">{lines}<div>{text}</div>{path}</td></tr>'
    )


def fields_table(heading: str, fields: Mapping[str, Any], notes: Iterable[str] = ()) -> str:
    """Return an escaped HTML table of fields, for an object that is not a search result, with ``notes`` below it."""
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


def _page(inside: str) -> str:
    # The last two classes prevent dollar signs from being rendered as TeX formulas.
    return f'<div class="hybridgraph tex2jax_ignore mathjax_ignore"><style>{STYLE}</style>{inside}</div>'


def _bar(parts: Mapping[str, float], colours: Mapping[str, str]) -> str:
    """Return an HTML bar, as long as the score, with its positive parts, and the numbers of all parts below it."""
    if not parts:
        return ""
    gains = [(name, value) for name, value in parts.items() if value > 0]
    total, score = math.fsum(value for _, value in gains), math.fsum(parts.values())
    unit = 100 / max(1.0, score) * max(0.0, score) / (total or 1.0)
    pieces = (f'<span style="width:{unit * value:.1f}%;background:{colours[name]}"></span>' for name, value in gains)
    figures = "<br>".join(
        f'<span class="chip" style="background:{colours[name]}"></span> {escape(str(name))} '
        f"{'−' if value < 0 else ''}{abs(value):.3f}"
        for name, value in parts.items()
    )
    return f'<div class="bar">{"".join(pieces)}</div><small>{figures}</small>'


def _path_lines(hit: Hit, titles: Mapping[str, str]) -> Iterator[str]:
    if len(hit.path) > 1:
        edges = {str(step["from_chunk_id"]): step for step in hit.graph_context}
        yield " ".join(["↳ from", *(escape(titles.get(id, id)) + _edge(edges.get(id)) for id in hit.path[:-1])])
    if hit.child is not None:
        yield f"parent of {escape(hit.child.id)}"


def _edge(step: Mapping[str, Any] | None) -> str:
    """Return an arrow to the next chunk on a path; for a shared entity or an unknown edge, return a line."""
    if step is None:
        return " –"
    description = str(step.get("description") or "")
    tooltip = f' title="{escape(description)}"' if description else ""
    tail, head = ("–", "–") if step.get("entity") else ("←", "–") if is_backward(step) else ("–", "→")
    return f" <em{tooltip}>{tail}{escape(explanation.edge_name(step))} {float(step['weight']):.2f}{head}</em>"
