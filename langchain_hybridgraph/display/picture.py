"""Picture of a result and its edges."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from functools import partial
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.degradation import warnings_in
from langchain_hybridgraph.display.explanation import COLOURS, SearchResult, edge_name, path_end, title
from langchain_hybridgraph.errors import ConfigurationError, check_number, check_whole_number
from langchain_hybridgraph.records import Hit, is_backward

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from networkx import DiGraph

# Default width and narrowest width in inches, height of a row in inches, and default maximum number of hits.
WIDTH, NARROWEST, ROW, NODES = 10.0, 4.0, 0.5, 25
# Font sizes in points, and the width of an average letter as a share of the font size.
HEADING, NAME, LABEL, LETTER = 12.0, 9.0, 7.5, 0.55
KINDS = ("found by search", "1 hop away", "2 hops away", "3 hops away or more")
SHAPES = ("o", "s", "^", "D")
# Colour of lines and words on a transparent background, legible on white and on black, with contrasts of 4.4 and 4.7.
INK = "#787878"


def draw(result: SearchResult, *, width: float = WIDTH, nodes: int = NODES) -> Figure:
    """Draw a result as a graph: the seeds, the edges followed from them, and the chunks reached.

    Seeds are on the left, best first; the chunks reached are to their right, one column per hop. An edge is an arrow in
    its stored direction, with the name of its relation; a shared entity is a line with its name. The size of a chunk
    shows its score, and its number shows the rank.

    At most ``nodes`` hits are drawn, each with the chunks on its path. ``width`` is in inches; the height depends on
    the content. The text is legible in light and dark themes. Chinese text needs a suitable font in
    ``rcParams["font.family"]``.

    A notebook shows the figure if it is the last expression of a cell; save it with ``figure.savefig("result.svg")``.
    Raises ConfigurationError without matplotlib or networkx, for a ``width`` below 4, and for ``nodes`` below 1.
    """
    check_number("width", width, ge=NARROWEST)
    check_whole_number("nodes", nodes, 1)
    try:
        import matplotlib  # noqa: F401 - the picture is drawn below
        import networkx as nx
    except ImportError as error:
        raise ConfigurationError(
            'a picture needs matplotlib and networkx: pip install "langchain-hybridgraph[notebook]"'
        ) from error
    hits = {path_end(hit): hit for hit in result.hits}
    drawn_hits = dict(list(hits.items())[:nodes])
    graph = _graph(drawn_hits.values())
    places = _places(graph, drawn_hits)
    columns = 1 + max((column for column, _ in places.values()), default=0)
    rows = 1 + max((row for _, row in places.values()), default=0)

    figure, axes = _paper(width, rows, columns)

    def write(x: float, y: float, text: str, size: float, **style: Any) -> None:
        axes.annotate(text, (x, y), color=INK, size=size, parse_math=False, **style)

    def shorten(text: str, share: float) -> str:
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
        name = ranks.get(id, "") + shorten(title(drawn_hits[id]) if id in drawn_hits else id, 0.88)
        score = f"   {drawn_hits[id].score:.2f}" if id in drawn_hits else ""
        write(column, row, name + score, NAME, xytext=(6, 8), textcoords="offset points", va="center")
        if caption := ", ".join(dict.fromkeys(filter(None, labels.get(id, ())))):
            offset = {"xytext": (6, -8), "textcoords": "offset points"}
            write(column, row, shorten(caption, 1.0), LABEL, va="center", style="italic", **offset)
    letters = int(72 * width / LETTER / HEADING)
    heading = textwrap.shorten(result.plan.get("query") or "A vector, without words", letters, placeholder=" …")
    summary = [f"{len(result.hits)} returned" if result.hits else "nothing found"]
    if len(hits) > nodes:
        summary.append(f"{len(hits) - nodes} more not drawn")
    write(0, -0.5 - 1.05 / ROW, heading, HEADING, va="top")
    write(0, -0.5 - 0.72 / ROW, " · ".join([*summary, *warnings_in(result.degraded)]), LABEL, va="top")
    figure._repr_png_ = partial(_png, figure)  # without this, notebooks could show the figure only through pyplot
    picture: Figure = figure
    return picture


def _paper(width: float, rows: float, columns: int) -> tuple[Any, Any]:
    """Return a transparent figure and its axes, which count columns and rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure((width, ROW * rows + 1.4))  # without pyplot, a figure does not have to be closed
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-0.12, columns - 0.12), ylim=(rows - 0.5 + 0.2 / ROW, -0.5 - 1.2 / ROW))
    axes.set_axis_off()
    figure.set_facecolor("none")
    return figure, axes


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
