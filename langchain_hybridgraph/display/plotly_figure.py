"""Interactive Plotly figure of a result."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from html import escape
from textwrap import wrap
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
    PlacedText,
    between,
    check_size,
    is_faint,
    value_for_column,
)
from langchain_hybridgraph.display.matplotlib_figure import draw
from langchain_hybridgraph.display.result_explanation import quote
from langchain_hybridgraph.display.subgraph import NODES, PlacedChunk, neighbourhood
from langchain_hybridgraph.errors import ConfigurationError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SHAPES = ("circle", "square", "triangle-up", "diamond")
# Pixels per inch and per point on a screen.
INCH, POINT = 96, 96 / 72


def interactive(
    result: SearchResult,
    around: SearchResult | None = None,
    *,
    width: float = WIDTH,
    nodes: int = NODES,
) -> Figure:
    """Draw a result as :func:`draw` does, but as a Plotly figure: hovering over a chunk shows its text and explanation.

    The figure needs no network in JupyterLab, Jupyter Notebook and VS Code. If scripts cannot run, as on GitHub, a
    notebook shows the picture of :func:`draw` instead, provided that matplotlib is installed. Save the figure as a page
    with ``figure.write_html("result.html")``. The background is transparent, and the text is legible in light and dark
    themes, unless ``plotly.io.templates.default`` is set to another template. Raises ConfigurationError if Plotly is
    not installed, for a ``width`` below 4, and for ``nodes`` below 1.
    """
    check_size(width, nodes)
    try:
        from plotly.graph_objects import Figure
        from plotly.io import templates
    except ImportError as error:
        raise ConfigurationError(
            'an interactive picture needs plotly: pip install "langchain-hybridgraph[notebook]"'
        ) from error
    frame = Frame.of(result, neighbourhood(result, around, nodes), width, _estimate_width)
    figure = Figure()
    for link in frame.subgraph.links:
        x, y = between(frame.line(link)).T.tolist()
        line = {"color": INK, "width": POINT * (0.6 + 1.2 * link.weight)}
        opacity = 0.45 if is_faint(link, frame.subgraph.spots) else 0.9
        figure.add_scatter(x=x, y=y, mode="lines", line=line, opacity=opacity, hoverinfo="skip", showlegend=False)
        for end in link.heads:
            figure.add_annotation(_arrow(*((x, y) if end == link.target else (x[::-1], y[::-1])), opacity))
        if (label := frame.label(link)) is not None:
            figure.add_annotation(_text(label, LABEL, italic=True))
    _add_chunks(figure, frame)
    _add_heading(figure, frame)
    blank = {"visible": False, "fixedrange": False}
    figure.update_layout(
        width=INCH * frame.width,
        height=INCH * frame.height,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        xaxis=blank | {"range": [0, frame.width]},
        yaxis=blank | {"range": [frame.height, 0]},
        plot_bgcolor="rgba(0,0,0,0)",
        dragmode="pan",
        legend={"orientation": "h", "x": 0, "y": 0, "xanchor": "left", "yanchor": "bottom", "itemclick": False},
        hoverlabel={"align": "left"},
    )
    if templates.default == "plotly":
        figure.update_layout(paper_bgcolor="rgba(0,0,0,0)", font_color=INK)
    figure._ipython_display_ = partial(_display, figure, partial(draw, result, around, width=width, nodes=nodes))
    return figure


def _display(figure: Figure, still: Callable[[], Any]) -> None:
    """Show the figure in a notebook, with a picture as a fallback. Outside notebooks, use Plotly's own display."""
    from IPython.display import display
    from plotly.io import show

    bundle = figure._repr_mimebundle_()
    if not bundle:
        show(figure)
        return
    sizes = {}
    with suppress(ConfigurationError):  # without matplotlib, there is no picture
        content, size = still()._repr_png_()
        bundle, sizes = bundle | {"image/png": b64encode(content).decode()}, {"image/png": size}
    display(bundle, raw=True, metadata=sizes)  # type: ignore[no-untyped-call]  # IPython has no types for it


def _add_chunks(figure: Figure, frame: Frame) -> None:
    spots = frame.subgraph.spots.values()
    best = max((spot.score for spot in spots), default=0.0) or 1.0
    for column, name in enumerate(KINDS):
        column_spots = [spot for spot in spots if min(spot.column, len(KINDS) - 1) == column]
        for suffix, group in (("", _back(column_spots, True)), ("-open", _back(column_spots, False))):
            if not group:
                continue
            x, y = zip(*map(frame.at, group), strict=True)
            marker = {
                "symbol": value_for_column(column, SHAPES) + suffix,
                "color": value_for_column(column, HOP_COLOURS),
                "size": [8 + 7 * spot.score / best for spot in group],
                "opacity": 1.0,
                "line": {"width": 1.6},
            }
            texts = [_hover_text(spot) for spot in group]
            figure.add_scatter(
                x=x,
                y=y,
                mode="markers",
                marker=marker,
                hovertext=texts,
                hoverinfo="text",
                name=f"{name}, {NOT_BACK}" if suffix else name,
            )
    for spot in spots:
        figure.add_annotation(_text(frame.name(spot), NAME))


def _add_heading(figure: Figure, frame: Frame) -> None:
    figure.add_annotation(
        _text(PlacedText(frame.heading, MARGIN, MARGIN, "left"), HEADING, bold=True) | {"yanchor": "top"}
    )
    figure.add_annotation(_text(PlacedText(frame.below, MARGIN, frame.top - 0.3, "left"), LABEL))


def _back(spots: list[PlacedChunk], is_back: bool) -> list[PlacedChunk]:
    return [spot for spot in spots if (spot.rank is not None) == is_back]


def _hover_text(spot: PlacedChunk) -> str:
    if spot.hit is None:
        return _plain(spot.title)
    reasons = spot.hit.explain().split(" · ")
    return "<br>".join([f"<b>{_plain(spot.title)}</b>", *map(_plain, [*wrap(quote(spot.hit, 400), 70), "", *reasons])])


def _text(text: PlacedText, size: float, *, bold: bool = False, italic: bool = False) -> dict[str, Any]:
    font = {"size": POINT * size, "weight": "bold" if bold else "normal", "style": "italic" if italic else "normal"}
    return {
        "x": text.x,
        "y": text.y,
        "text": _plain(text.text),
        "font": font,
        "align": text.align,
        "xanchor": text.align,
        "yanchor": "middle",
        "showarrow": False,
        "borderpad": 0,
    }


def _arrow(x: list[float], y: list[float], opacity: float) -> dict[str, Any]:
    """Return the arrowhead at the end of a line."""
    ends = {"x": x[-1], "y": y[-1], "ax": x[-2], "ay": y[-2], "axref": "x", "ayref": "y"}
    looks = {"showarrow": True, "arrowhead": 2, "arrowwidth": 1, "arrowcolor": INK, "opacity": opacity}
    return {**ends, **looks, "text": ""}


def _plain(text: str) -> str:
    """Escape a text, because Plotly interprets some HTML and treats ``$…$`` as a formula."""
    return escape(text, quote=False).replace("$", "&#36;").replace("\n", "<br>")


def _estimate_width(text: str, *, size: float) -> float:
    """Return the approximate width of a text on a screen, in inches, regardless of the font."""
    return sum(1.0 if ord(letter) > 0x2E7F else 0.53 for letter in text) * size / 72
