"""Matplotlib figure of a result and its graph neighbourhood."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.display.colours import HOP_COLOURS, INK
from langchain_hybridgraph.display.hits import SearchResult
from langchain_hybridgraph.display.layout import (
    HEADING,
    KINDS,
    LABEL,
    MARGIN,
    NAME,
    NOT_BACK,
    WIDTH,
    Frame,
    Line,
    Measure,
    PlacedText,
    between,
    check_size,
    is_faint,
    value_for_column,
)
from langchain_hybridgraph.display.subgraph import NODES, TraversedEdge, neighbourhood
from langchain_hybridgraph.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHAPES = ("o", "s", "^", "D")


def draw(
    result: SearchResult,
    around: SearchResult | None = None,
    *,
    width: float = WIDTH,
    nodes: int = NODES,
) -> Figure:
    """Draw a result as a graph: the seeds, the edges followed from them, and the chunks reached.

    Seeds are on the left, best first; the chunks reached are to their right, one column per hop. An edge is an arrow
    with the name of its relation. If two chunks are connected through an entity that both mention, they are joined by a
    line with the name of the entity. The size of a chunk shows its score, and its number shows the rank.

    To see more chunks that the search reached through edges, pass a result of the same query with a larger k as
    ``around``. The additional chunks are hollow. At most ``nodes`` hits are drawn, those of ``result`` first, each with
    the chunks on its path.

    ``width`` is in inches; the height depends on the content. The background is transparent, and the text is legible in
    light and dark themes, unless the matplotlib style sets other colours. Chinese text needs a suitable font in
    ``rcParams["font.family"]``.

    A notebook shows the figure if it is the last expression of a cell; save it with ``figure.savefig("result.svg")``.
    Raises ConfigurationError if matplotlib is not installed, for a ``width`` below 4, and for ``nodes`` below 1.
    """
    check_size(width, nodes)
    figure, measure, ink = _paper()
    frame = Frame.of(result, neighbourhood(result, around, nodes), width, measure)
    figure.set_size_inches(frame.width, frame.height)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, frame.width), ylim=(frame.height, 0))
    axes.set_axis_off()
    _Pen(axes, frame, ink).draw()
    figure._repr_png_ = partial(_png, figure)  # without this, notebooks could show the figure only through pyplot
    result_figure: Figure = figure
    return result_figure


class _Pen:
    """Pen that draws a picture on matplotlib axes whose unit is an inch."""

    def __init__(self, axes: Any, frame: Frame, ink: str) -> None:
        self._axes, self._frame, self._ink = axes, frame, ink

    def draw(self) -> None:
        """Draw the heading, all edges, the chunks on top of them, and the legend."""
        spots, frame = self._frame.subgraph.spots, self._frame
        self._write(PlacedText(frame.heading, MARGIN, MARGIN, "left"), HEADING, va="top", weight="bold")
        self._write(PlacedText(frame.below, MARGIN, frame.top - 0.3, "left"), LABEL)
        for link in frame.subgraph.links:
            self._edge(link, is_faint(link, spots))
        best = max((spot.score for spot in spots.values()), default=0.0) or 1.0
        for spot in spots.values():
            self._marker(frame.at(spot), spot.column, 25 + 95 * spot.score / best, hollow=spot.rank is None)
            self._write(frame.name(spot), NAME)
        self._legend(frame.height - MARGIN)

    def _edge(self, link: TraversedEdge, faint: bool) -> None:
        line = self._frame.line(link)
        alpha = 0.3 if faint else 0.6
        self._axes.plot(*between(line).T, color=self._ink, alpha=alpha, linewidth=0.6 + 1.2 * link.weight, zorder=1)
        for end in link.heads:
            self._head(line if end == link.target else line[::-1], alpha)
        if (label := self._frame.label(link)) is not None:
            self._write(label, LABEL, style="italic")

    def _head(self, line: Line, alpha: float) -> None:
        arrow = {"arrowstyle": "-|>,head_width=.22,head_length=.4", "color": self._ink, "alpha": alpha, "shrinkB": 0}
        line = between(line)
        self._axes.annotate("", xy=tuple(line[-1]), xytext=tuple(line[-2]), arrowprops=arrow | {"lw": 0}, zorder=2)

    def _marker(self, at: tuple[float, float], column: int, area: float, *, hollow: bool) -> None:
        shape, colour = value_for_column(column, SHAPES), value_for_column(column, HOP_COLOURS)
        filling = self._axes.figure.get_facecolor() if hollow else colour
        x, y = at
        paint = {"c": [filling], "edgecolors": [colour], "linewidths": 1.3}
        self._axes.scatter([x], [y], s=area, marker=shape, zorder=3, **paint)

    def _write(self, text: PlacedText, size: float, va: str = "center", **style: Any) -> None:
        """Write a text at its position, without parsing formulas."""
        style |= {"ha": text.align, "va": va, "size": size, "linespacing": 1.1, "multialignment": text.align}
        style["color"] = self._ink
        self._axes.text(text.x, text.y, text.text, parse_math=False, **style)

    def _legend(self, y: float) -> None:
        spots = self._frame.subgraph.spots.values()
        x = MARGIN + 0.07
        for column in sorted({min(spot.column, len(KINDS) - 1) for spot in spots}):
            self._marker((x, y), column, 45, hollow=False)
            x = self._entry(KINDS[column], x, y)
        for column in sorted({spot.column for spot in spots if spot.rank is None})[:1]:
            self._marker((x, y), column, 45, hollow=True)
            self._entry(NOT_BACK, x, y)

    def _entry(self, text: str, x: float, y: float) -> float:
        self._write(PlacedText(text, x + 0.13, y, "left"), LABEL)
        return x + self._frame.measure(text, size=LABEL) + 0.42


def _paper() -> tuple[Any, Measure, str]:
    """Return (figure, text measure, text colour).

    The figure is created without pyplot, so it does not have to be closed.
    """
    try:
        from matplotlib import rcParams, rcParamsDefault
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.font_manager import FontProperties
    except ImportError as error:
        raise ConfigurationError('a picture needs matplotlib: pip install "langchain-hybridgraph[notebook]"') from error
    figure: Any = Figure()
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()

    def measure(text: str, *, size: float) -> float:
        width, _, _ = renderer.get_text_width_height_descent(text, FontProperties(size=size), False)
        return float(width) / float(figure.dpi)

    if all(rcParams[name] == rcParamsDefault[name] for name in ("text.color", "figure.facecolor")):
        figure.set_facecolor("none")
        return figure, measure, INK
    return figure, measure, str(rcParams["text.color"])


def _png(figure: Figure) -> tuple[bytes, dict[str, int]]:
    """Return a PNG for notebooks, at twice the screen's resolution, and the size at which it is shown."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=192)
    width, height = figure.get_size_inches()
    return buffer.getvalue(), {"width": round(96 * width), "height": round(96 * height)}
