"""Display of results as text, tables and pictures."""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from html import escape
from io import BytesIO
from itertools import chain, cycle, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.degradation import degradation, warnings_in
from langchain_hybridgraph.records import Hit, is_backward, name_of
from langchain_hybridgraph.text.analyzer import Analyzer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from networkx import DiGraph

# -- text -----------------------------------------------------------------------------------------------------

# Maximum number of characters quoted from a text.
QUOTED = 110
# Colours of tables and pictures, by Okabe and Ito (Color Universal Design, 2008): they can be distinguished with any
# colour vision, on white and on black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999")


def explain_result(result: Any) -> str:
    """Explain a result with a paragraph about the search, then a paragraph about each hit, best first.

    If it is not known how the Documents were found, only their ranks are listed.

    >>> from langchain_hybridgraph import RetrievalResult
    >>> from langchain_hybridgraph.records import Chunk
    >>> hit = Hit(Chunk("a", "Ada wrote it."), 0.9, "vector", {"vector": 0.9}, found_by=("vector",))
    >>> print(explain_result(RetrievalResult(["a"], hits=[hit], took_ms=2.0, plan={"query": "Who wrote it?"})))
    Who wrote it?
    1 hit in 2.0 ms.
    <BLANKLINE>
    1. Ada wrote it. (a)
       score 0.900 = vector 0.900 · found by vector
    """
    if len(result) and not result.hits:
        texts = (" ".join(document.page_content.split())[:80] for document in result)
        numbered = (f"{rank}. {text}" for rank, text in enumerate(texts, 1))
        return "\n".join([*_conversation(result), str(result.plan.get("query")), *numbered])
    paragraphs = ["\n".join([*_conversation(result), _about(result)])]
    for rank, hit in enumerate(result.hits, 1):
        heading = title(hit)
        quoted = [] if heading == quote(hit) else [f"“{quote(hit)}”"]
        label = heading if heading == hit.id else f"{heading} ({hit.id})"
        paragraphs.append("\n   ".join([f"{rank}. {label}", *quoted, hit.explain()]))
    return "\n\n".join(paragraphs)


# Descriptions of the searches of an AdvancedRetriever, by the value of ``searched`` in the plan.
_SEARCHED = {
    "expanded": "Searched for: {expanded_query}",
    "both": "Searched for the question as it is, and for: {expanded_query}",
    "mixed": "Searched for the question together with its context: {context}",
}


def _conversation(result: Any) -> list[str]:
    searched = result.plan.get("searched")
    return [_SEARCHED[searched].format_map(result.plan)] if searched in _SEARCHED else []


def path_end(hit: Hit) -> str:
    """Return the last id of the hit's path (the child's, if a parent replaces it), or the hit's id without a path."""
    return hit.path[-1] if hit.path else hit.id


def headings(hit: Hit) -> str:
    """Return the title and the section of a hit, or "" if it has neither."""
    parts = [hit.chunk.metadata.get(key) for key in ("title", "section_heading")]
    return " › ".join(dict.fromkeys(" ".join(str(part).split()) for part in parts if part))


def title(hit: Hit) -> str:
    """Return a hit's title and section, or else the beginning of its text, or its id if the text is empty."""
    return headings(hit) or quote(hit) or hit.id


def quote(hit: Hit, size: int = QUOTED) -> str:
    """Return the beginning of a hit's text without its title, on one line, cut between words."""
    first, _, rest = hit.chunk.text.strip().partition("\n")
    has_title = first.strip() == str(hit.chunk.metadata.get("title") or "")
    line = " ".join((rest if has_title and rest.strip() else hit.chunk.text).split())
    if len(line) <= size:
        return line
    return (line[:size].rpartition(" ")[0] or line[:size]) + " …"


class Span(NamedTuple):
    """Range of characters in a text, from ``start`` up to but excluding ``end``."""

    start: int
    end: int


def matches(text: str, query: str, language: str | None = "english") -> list[Span]:
    """Return the spans of a query's words in a text, in order and without overlaps.

    Words are compared as in keyword search. The span of a part of a name such as ``getUserName`` is the complete name;
    parts between ``_`` or ``.`` have their own spans. In scripts without spaces, pairs of characters are compared.
    Raises ConfigurationError for an unknown language.

    >>> text = "Invoices are paid by os.path"
    >>> [text[start:end] for start, end in matches(text, "paths of invoice")]
    ['Invoices', 'path']
    """
    analyzer = Analyzer(language)
    terms = frozenset(analyzer.words(query))
    spans: list[Span] = []
    for word in _words(text):
        common = terms.intersection(analyzer.all_words(text[word.start : word.end]))
        pairs = [Span(at, at + 2) for at in range(word.start, word.end - 1) if text[at : at + 2] in common]
        characters = [Span(at, at + 1) for at in range(word.start, word.end) if text[at] in common]
        for span in pairs or characters or ([word] if common else []):
            if spans and span.start < spans[-1].end:
                spans[-1] = Span(spans[-1].start, span.end)
            else:
                spans.append(span)
    return spans


def _words(text: str) -> Iterator[Span]:
    at = 0
    for is_word, run in groupby(text, lambda c: c.isalnum() or unicodedata.category(c).startswith("M")):
        length = sum(1 for _ in run)
        if is_word:
            yield Span(at, at + length)
        at += length


_RULE = re.compile(r"([-=~^*#+_.])\1{3,}")
_SENTENCE = re.compile(r"(?<=[.!?:;]) ")


def excerpt(text: str, query: str, language: str | None, size: int) -> list[tuple[str, bool]]:
    """Return the excerpt of a text that contains the most words of a query, in pieces; True marks words of the query.

    The excerpt is one line of about ``size`` characters, from the start of a sentence or shortly before a match.

    >>> excerpt("A long preface. " * 20 + "Cats sleep. They purr.", "Do cats sleep?", "english", 30)
    [('… ', False), ('Cats', True), (' ', False), ('sleep', True), ('. They purr.', False)]
    """
    line = " ".join(_RULE.sub("", text).split())
    spans = matches(line, query, language)
    sentences = {0, *(match.end() for match in _SENTENCE.finditer(line))}
    before_words = {line.find(" ", max(at - size // 2, 0), at) + 1 or at for at, _ in spans}

    def value(start: int) -> tuple[int, bool, bool, int]:
        words = {line[at:end].casefold() for at, end in spans if start <= at and end <= start + size}
        return len(words), start in sentences, start == 0, start

    start = max(sentences | before_words, key=value)
    end = start + size
    if end < len(line):
        blank = line.rfind(" ", start, end)
        end = blank if blank > end - 40 else end
    pieces, at = [("… " if start else "", False)], start
    for span in spans:
        if start <= span.start and span.end <= end:
            pieces += [(line[at : span.start], False), (line[span.start : span.end], True)]
            at = span.end
    pieces += [(line[at:end], False), (" …" if end < len(line) else "", False)]
    return [(piece, is_match) for piece, is_match in pieces if piece]


def edge_name(step: Mapping[str, Any]) -> str:
    """Return the name of an edge in a hit's ``graph_context``: its relation, or the entity that both ends mention.

    >>> edge_name({"relation": "depends_on"}), edge_name({"relation": "mentions", "entity": "name:Ada Lovelace"})
    ('depends on', '“Ada Lovelace”')
    """
    entity = str(step.get("entity", ""))
    return f"“{name_of(entity)}”" if entity else str(step["relation"]).replace("_", " ")


def describe_degradation(result: Any) -> list[str]:
    """Describe what did not happen as requested, then normal outcomes, then whether ``min_score`` left out hits.

    >>> from langchain_hybridgraph import RetrievalResult
    >>> remarks = {"unknown-relation": "no edge has the relation 'cite'; there are cites"}
    >>> print(*describe_degradation(RetrievalResult([], degraded=["unknown-relation"], plan={"remarks": remarks})))
    Not as requested: unknown-relation (no edge has the relation 'cite'; there are cites).
    """
    remarks, errors = result.plan.get("remarks", {}), result.plan.get("errors", {})
    warnings, sentences = warnings_in(result.degraded), []
    for reason in warnings:
        details = [remarks.get(reason, degradation(reason).plain_meaning), errors.get(reason.removesuffix("-failed"))]
        sentences.append(f"Not as requested: {reason} ({'; '.join(filter(None, details))}).")
    normal = [reason for reason in result.degraded if reason not in warnings]
    sentences += (f"{reason}: {degradation(reason).plain_meaning}." for reason in normal)
    return [*sentences, *([f"min_score: {remarks['min_score']}."] if "min_score" in remarks else [])]


def _about(result: Any) -> str:
    plan, query = result.plan, result.plan.get("query")
    hits = f"{len(result.hits)} hit{'' if len(result.hits) == 1 else 's'}" if result.hits else "Nothing found"
    walk, expansion = plan.get("walk"), ""
    if walk is not None and plan.get("method") == "graph":
        expansion = f", then expanded through edges (traversal {walk['traversal']}, score {walk['score']})"
    summary = f"{hits} in {result.took_ms:.1f} ms{_searched(result)}{expansion}."
    if plan.get("method") == "filter":
        query = "(a filter, without words)"
    elif query is None:
        query = "(a vector, without words)"
    judged = [] if result.answerability is None else [result.answerability.explain()]
    return "\n".join([query, summary, *judged, *describe_degradation(result)])


def _searched(result: Any) -> str:
    plan, reasons = result.plan, set(result.degraded)
    weights = [
        f"{name} (weight {weight:g})"
        for name, weight in plan.get("weights", {}).items()
        if reasons.isdisjoint((f"{name}-failed", f"no-{name}-index", f"deadline-exceeded:{name}"))
    ]
    if not weights or plan.get("method") == "filter":
        return ""
    return f", searched by {' and '.join(weights)}" + (f", fusion {plan['fusion']}" if len(weights) > 1 else "")


# -- HTML tables ----------------------------------------------------------------------------------------------

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


def result_table(result: Any) -> str:
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
    notes += describe_degradation(result)
    if len(hits) > _MOST_HITS:
        notes.append(f"… and {len(hits) - _MOST_HITS} more")
    below = "".join(f"<p><small>{escape(note)}</small></p>" for note in notes)
    if not hits:
        return _page(f"<p>Nothing found.</p>{below}")
    names = dict.fromkeys(chain.from_iterable(hit.parts for hit in visible_hits))
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    titles = {path_end(hit): title(hit) for hit in hits}
    query = result.plan.get("query") or ""
    rows = (_row(rank, hit, query, colours, titles) for rank, hit in enumerate(visible_hits, 1))
    head = '<tr><th class="rank"></th><th class="score">Score</th><th>Found</th></tr>'
    return _page(f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>{below}")


def _row(rank: int, hit: Hit, query: str, colours: Mapping[str, str], titles: Mapping[str, str]) -> str:
    score = "–" if math.isnan(hit.score) else f"{hit.score:.3f}"
    pieces = excerpt(hit.chunk.text, query, "english", _PASSAGE)
    text = "".join(f"<mark>{escape(piece)}</mark>" if is_match else escape(piece) for piece, is_match in pieces)
    heading = headings(hit)
    lines = f"<strong>{escape(heading)}</strong> " if heading else ""
    if hit.id != heading:
        lines += f"<small><code>{escape(hit.id)}</code></small>"
    path = ""
    if len(hit.path) > 1:
        edges = {str(step["from_chunk_id"]): step for step in hit.graph_context}
        steps = " ".join(["↳ from", *(escape(titles.get(id, id)) + _edge(edges.get(id)) for id in hit.path[:-1])])
        path = f"<p><small>{steps}</small></p>"
    if hit.child is not None:
        path += f"<p><small>parent of {escape(hit.child.id)}</small></p>"
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
    return escape(errors.shorten(str(value), _LONGEST_CELL))


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


def _edge(step: Mapping[str, Any] | None) -> str:
    """Return an arrow to the next chunk on a path; for a shared entity or an unknown edge, return a line."""
    if step is None:
        return " –"
    description = str(step.get("description") or "")
    tooltip = f' title="{escape(description)}"' if description else ""
    tail, head = ("–", "–") if step.get("entity") else ("←", "–") if is_backward(step) else ("–", "→")
    return f" <em{tooltip}>{tail}{escape(edge_name(step))} {float(step['weight']):.2f}{head}</em>"


# -- pictures -------------------------------------------------------------------------------------------------

# Default width and narrowest width in inches, height of a row in inches, and default maximum number of hits.
WIDTH, NARROWEST, ROW, NODES = 10.0, 4.0, 0.5, 25
# Font sizes in points, and the width of an average letter as a share of the font size.
HEADING, NAME, LABEL, LETTER = 12.0, 9.0, 7.5, 0.55
KINDS = ("found by search", "1 hop away", "2 hops away", "3 hops away or more")
SHAPES = ("o", "s", "^", "D")
# Colour of lines and words on a transparent background, legible on white and on black, with contrasts of 4.4 and 4.7.
INK = "#787878"


def draw(result: Any, *, width: float = WIDTH, nodes: int = NODES) -> Figure:
    """Draw a result as a graph: the seeds, the edges followed from them, and the chunks reached.

    Seeds are on the left, best first; the chunks reached are to their right, one column per hop. An edge is an arrow in
    its stored direction, with the name of its relation; a shared entity is a line with its name. The size of a chunk
    shows its score, and its number shows the rank.

    At most ``nodes`` hits are drawn, each with the chunks on its path. ``width`` is in inches; the height depends on
    the content. The text is legible in light and dark themes. Chinese text needs a suitable font in
    ``rcParams["font.family"]``.

    A notebook shows the figure if it is the last expression of a cell; save it with ``figure.savefig("result.svg")``.
    Raises MissingExtraError without matplotlib or networkx, and ConfigurationError for a ``width`` below 4, ``nodes``
    below 1, or anything but the result of ``retrieve``.
    """
    errors.check_number("width", width, ge=NARROWEST)
    errors.check_whole_number("nodes", nodes, 1)
    if not hasattr(result, "hits"):
        raise errors.ConfigurationError(
            f"draw shows the result of retriever.retrieve(question), got {errors.quote_value(result)}"
        )
    with errors.needs_extra("a picture", "matplotlib and networkx", "notebook"):
        import networkx as nx
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    hits = {path_end(hit): hit for hit in result.hits}
    drawn_hits = dict(list(hits.items())[:nodes])
    graph = _graph(drawn_hits.values())
    places = _places(graph, drawn_hits)
    columns = 1 + max((column for column, _ in places.values()), default=0)
    rows = 1 + max((row for _, row in places.values()), default=0)

    figure: Any = Figure((width, ROW * rows + 1.4))  # without pyplot, a figure does not have to be closed
    FigureCanvasAgg(figure)
    figure.set_facecolor("none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-0.12, columns - 0.12), ylim=(rows - 0.5 + 0.2 / ROW, -0.5 - 1.2 / ROW))
    axes.set_axis_off()

    def write(x: float, y: float, text: str, size: float, **style: Any) -> None:
        axes.annotate(text, (x, y), color=INK, size=size, parse_math=False, **style)

    def cut(text: str, share: float) -> str:
        letters = max(8, int(share * width / columns * 72 / (LETTER * NAME)) - 13)  # the rank and the score take 13
        return textwrap.shorten(text, letters, placeholder=" …") or text[:letters]

    best = max((hit.score for hit in drawn_hits.values()), default=0.0) or 1.0
    for column in {column for column, _ in places.values()}:
        kind = min(column, len(KINDS) - 1)
        ids = [id for id in graph if places[id][0] == column]
        nx.draw_networkx_nodes(
            graph,
            places,
            nodelist=ids,
            node_size=[30 + 90 * drawn_hits[id].score / best if id in drawn_hits else 30 for id in ids],
            node_shape=SHAPES[kind],
            node_color=COLOURS[kind],
            ax=axes,
        )
        write(column, -0.5 - 0.3 / ROW, KINDS[kind], LABEL, weight="bold", ha="left")
    lines = partial(nx.draw_networkx_edges, graph, places, edge_color=INK, ax=axes, node_size=60, alpha=0.7, width=0.9)
    lines(edgelist=[pair for pair in graph.edges if graph.edges[pair]["is_arrow"]], arrowstyle="-|>", arrowsize=9)
    lines(edgelist=[pair for pair in graph.edges if not graph.edges[pair]["is_arrow"]], arrowstyle="-")
    labels: dict[str, list[str]] = {}
    for source, target, edge in graph.edges(data=True):
        labels.setdefault(max(source, target, key=lambda id: places[id]), []).append(edge["label"])
    ranks = {id: f"{rank}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}" for rank, id in enumerate(hits, 1)}
    for id, (column, row) in places.items():
        name = ranks.get(id, "") + cut(title(drawn_hits[id]) if id in drawn_hits else id, 0.88)
        score = f"   {drawn_hits[id].score:.2f}" if id in drawn_hits else ""
        write(column, row, name + score, NAME, xytext=(6, 8), textcoords="offset points", va="center")
        if caption := ", ".join(dict.fromkeys(filter(None, labels.get(id, ())))):
            offset = {"xytext": (6, -8), "textcoords": "offset points"}
            write(column, row, cut(caption, 1.0), LABEL, va="center", style="italic", **offset)
    letters = int(72 * width / LETTER / HEADING)
    heading = textwrap.shorten(result.plan.get("query") or "A vector, without words", letters, placeholder=" …")
    summary = [f"{len(result.hits)} returned" if result.hits else "nothing found"]
    if len(hits) > nodes:
        summary.append(f"{len(hits) - nodes} more not drawn")
    write(0, -0.5 - 1.05 / ROW, heading, HEADING, va="top")
    write(0, -0.5 - 0.72 / ROW, " · ".join([*summary, *warnings_in(result.degraded)]), LABEL, va="top")
    figure._repr_png_ = partial(_png, figure)  # without this, notebooks could show the figure only through pyplot
    return figure  # type: ignore[no-any-return]


def _graph(hits: Iterable[Hit]) -> DiGraph[str]:
    """Return the chunks on the paths of the hits and the edges between them.

    A node's ``column`` is its smallest distance from the start of a path, and its ``anchor`` the chunk before it there.
    """
    import networkx as nx

    graph: DiGraph[str] = nx.DiGraph()
    for hit in hits:
        steps = {each["from_chunk_id"]: each for each in hit.graph_context}
        path = hit.path or (hit.id,)
        for column, id in enumerate(path):
            if id not in graph or column < graph.nodes[id]["column"]:
                graph.add_node(id, column=column, anchor=path[column - 1] if column else None)
        for source, target in pairwise(path):
            step = steps.get(source, {})
            pair = (target, source) if step and is_backward(step) else (source, target)
            if not graph.has_edge(*pair) or not graph.edges[pair]["label"]:
                graph.add_edge(
                    *pair, label=edge_name(step) if step else "", is_arrow=bool(step) and "entity" not in step
                )
    return graph


def _places(graph: DiGraph[str], hits: Mapping[str, Hit]) -> dict[str, tuple[int, float]]:
    """Return the column and the row of each chunk. A chunk is in the row of the chunk before it or below."""
    after: dict[str | None, list[str]] = {}
    for id in sorted(graph, key=lambda id: (-hits[id].score if id in hits else 0.0, id)):
        after.setdefault(graph.nodes[id]["anchor"], []).append(id)
    places: dict[str, tuple[int, float]] = {}
    waiting, row = list(reversed(after.get(None, []))), -1
    while waiting:
        id = waiting.pop()
        column, anchor = graph.nodes[id]["column"], graph.nodes[id]["anchor"]
        if anchor is None or after[anchor][0] != id:
            row += 1
        places[id] = column, max(row, 0)
        waiting += reversed(after.get(id, []))
    return places


def _png(figure: Figure) -> tuple[bytes, dict[str, int]]:
    """Return a PNG for notebooks, at twice the screen's resolution, and the size at which it is shown."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=192)
    width, height = figure.get_size_inches()
    return buffer.getvalue(), {"width": round(96 * width), "height": round(96 * height)}
