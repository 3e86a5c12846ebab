"""Positions of chunks, edges and texts in a picture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from langchain_hybridgraph.degradation import warnings_in
from langchain_hybridgraph.display.hits import SearchResult
from langchain_hybridgraph.display.subgraph import Neighbourhood, PlacedChunk, TraversedEdge
from langchain_hybridgraph.errors import ConfigurationError

Line = NDArray[np.float64]

# Legend of a picture, indexed by hops, from 0.
KINDS = ("found by search", "1 hop away", "2 hops away", "3 hops away or more")
NOT_BACK = "hollow: did not come back"
# Distance in inches between the end of a line and the middle of a chunk. It keeps lines out of hollow shapes.
CLEAR = 0.08

# Sizes in inches.
WIDTH = 10.0
MARGIN = 0.25
ROW = 0.36
LINE = 0.15
HEADING_LINE = 0.24
WIDEST_GAP = 2.9
NARROWEST = 4.0
# Font sizes in points.
HEADING, NAME, LABEL = 12.0, 9.0, 7.5


class Measure(Protocol):
    """Function that returns the width of a text."""

    def __call__(self, text: str, *, size: float) -> float:
        """Return the width of the text in inches; ``size`` is the font size in points."""
        ...


class PlacedText(NamedTuple):
    """Text at a position in the picture.

    ``text`` may have several lines. ``x`` is the position of the start of the lines, or of their end if ``align`` is
    "right". ``y`` is the position of their middle.
    """

    text: str
    x: float
    y: float
    align: Literal["left", "right"]


class Frame(NamedTuple):
    """Layout of a picture, in inches from its top left corner.

    ``left`` is the position of the first column, and ``gap`` the distance between columns. The names of seeds are to
    the left of their chunks if there is more than one column; all other names are to the right of their chunks. There
    is room for one edge label next to each chunk; ``labelled`` maps a chunk to the edge whose label is drawn there.
    """

    subgraph: Neighbourhood
    labelled: Mapping[str, TraversedEdge]
    heading: str
    below: str
    width: float
    height: float
    top: float
    left: float
    gap: float
    measure: Measure

    @classmethod
    def of(cls, result: SearchResult, subgraph: Neighbourhood, width: float, measure: Measure) -> Frame:
        """Create a frame of this width, with a height and columns that fit the heading, rows and names."""
        query = result.plan.get("query")
        bold = partial(measure, size=1.15 * HEADING)
        heading = wrap_text(query or "A vector, without words", width - 2 * MARGIN, 6, bold)
        top = MARGIN + HEADING_LINE * len(heading) + 0.42
        height = top + ROW * subgraph.rows + 0.65
        left, gap = _columns(subgraph, width, partial(measure, size=NAME))
        return cls(
            subgraph,
            _labelled(subgraph),
            "\n".join(heading),
            summary(result, subgraph),
            width,
            height,
            top,
            left,
            gap,
            measure,
        )

    def at(self, spot: PlacedChunk) -> tuple[float, float]:
        """Return the position of a chunk."""
        return self.left + self.gap * spot.column, self.top + ROW * (spot.row + 0.5)

    def line(self, link: TraversedEdge) -> Line:
        """Return the points of an edge's line, as an array of shape (n, 2).

        A line to a later column reaches the row of its target within a third of ``gap`` and then runs straight, which
        leaves room for the label. Any other line is an arc.
        """
        source, target = self.subgraph.spots[link.source], self.subgraph.spots[link.target]
        start, end = np.array(self.at(source)), np.array(self.at(target))
        if not self._is_onward(link):
            out = np.array([0.28 if target.column == 0 and self.subgraph.columns > 1 else -0.16, 0.0])
            return _bezier(start, start + out, end + out, end)
        if abs(start[1] - end[1]) < 1e-6:
            return np.array([start, end])
        turn = np.array([start[0] + 0.33 * self.gap, end[1]])
        # The space to the right of a seed is free; the names of other chunks are on their right.
        out = np.array([0.2 * self.gap if source.column == 0 else 0.0, 0.0])
        return np.vstack([_bezier(start, start + out, turn - (0.26 * self.gap, 0.0), turn), [end]])

    def name(self, spot: PlacedChunk) -> PlacedText:
        """Return a chunk's rank, title and score as placed text.

        The text has at most two lines, or one if the label of an arc is below it.
        """
        x, y = self.at(spot)
        is_left = spot.column == 0 and self.subgraph.columns > 1
        room = self.left - 0.16 - MARGIN if is_left else self.width - x - 0.16 - MARGIN
        measure = partial(self.measure, size=NAME)
        lines = 1 if spot.id in self.labelled and not self._is_onward(self.labelled[spot.id]) else 2
        text = "\n".join(wrap_text(_rank(spot) + spot.title, room, lines, measure, end=_score(spot)))
        return PlacedText(text, x - 0.16, y, "right") if is_left else PlacedText(text, x + 0.16, y, "left")

    def label(self, link: TraversedEdge) -> PlacedText | None:
        """Return the label of an edge as placed text.

        It is at the end of the edge or, if the edge is an arc, below the name of the edge's target. The result is None
        if the edge has no name, or if the label of another edge is drawn at the target.
        """
        if self.labelled.get(link.target) != link:
            return None
        start, end = self.subgraph.spots[link.source], self.subgraph.spots[link.target]
        x, y = self.at(end)
        measure = partial(self.measure, size=LABEL)
        if self._is_onward(link):
            room = (end.column - start.column) * self.gap - 0.33 * self.gap - 0.2
            return PlacedText(shorten_to_width(link.label, room, measure), x - 0.19, y - 0.075, "right")
        name = self.name(end)
        room = self.left - MARGIN - 0.16 if name.align == "right" else self.width - x - 0.16 - MARGIN
        way = "with" if link.mutual else "to" if link.is_backward else "from"
        caption = f"{way} {start.rank or start.title} over {link.label}"
        return PlacedText(shorten_to_width(caption, room, measure), name.x, y + LINE, name.align)

    def _is_onward(self, link: TraversedEdge) -> bool:
        return self.subgraph.spots[link.source].column < self.subgraph.spots[link.target].column


def check_size(width: Any, nodes: Any) -> None:
    """Raise ConfigurationError if ``width`` or ``nodes`` is too small."""
    if not isinstance(width, int | float) or not width >= NARROWEST:
        raise ConfigurationError(f"width must be at least {NARROWEST:g} inches, got {width!r}; try width=8")
    if not isinstance(nodes, int) or nodes < 1:
        raise ConfigurationError(f"nodes must be at least 1, got {nodes!r}; try nodes=25")


def summary(result: SearchResult, subgraph: Neighbourhood) -> str:
    """Return the line below the question: the number of chunks in the picture, and warnings."""
    if not subgraph.spots:
        return " · ".join(["nothing found", *warnings_in(result.degraded)])
    back = sum(spot.rank is not None for spot in subgraph.spots.values())
    counts = [(back, "came back"), (len(subgraph.spots) - back, "more visited"), (subgraph.left_out, "not drawn")]
    return " · ".join([*(f"{count} {what}" for count, what in counts if count), *warnings_in(result.degraded)])


def value_for_column(column: int, kinds: tuple[str, ...]) -> str:
    """Return the entry of ``kinds`` (colours or shapes) for a column.

    All columns beyond the last entry get the last entry.
    """
    return kinds[min(column, len(kinds) - 1)]


def between(line: Line) -> Line:
    """Return the line without the parts that would show inside hollow shapes at its ends."""
    start, *between, end = line
    inward = [point for point in between if min(np.hypot(*(point - start)), np.hypot(*(point - end))) > 2 * CLEAR]
    first, last = (inward or [end])[0], (inward or [start])[-1]
    return np.array([_towards(start, first), *inward, _towards(end, last)])


def _towards(point: Line, other: Line) -> Line:
    way = other - point
    end: Line = point + CLEAR * way / np.hypot(*way)
    return end


def is_faint(link: TraversedEdge, spots: Mapping[str, PlacedChunk]) -> bool:
    """Return whether an edge begins or ends at a chunk that is not in the result; such edges are drawn faintly."""
    return spots[link.source].rank is None or spots[link.target].rank is None


class TextMeasure(Protocol):
    """Function that returns the width of a text in a fixed font size."""

    def __call__(self, text: str, /) -> float:
        """Return the width of the text, in the same unit as the available space."""
        ...


def shorten_to_width(text: str, room: float, measure: TextMeasure) -> str:
    """Return the text, shortened at its end if it does not fit into ``room``.

    >>> shorten_to_width("Ada Lovelace", 5, len), shorten_to_width("Ada", 5, len)
    ('Ada …', 'Ada')
    """
    if measure(text) <= room:
        return text
    end = next((end for end in range(len(text) - 1, 0, -1) if measure(text[:end].rstrip() + " …") <= room), 0)
    return text[:end].rstrip() + " …" if end else "…"


def wrap_text(text: str, room: float, lines: int, measure: TextMeasure, *, end: str = "") -> list[str]:
    """Return ``text`` followed by ``end`` in at most ``lines`` lines, broken between words if possible.

    If the text does not fit, the last line is shortened before ``end``.

    >>> wrap_text("The notes of Ada Lovelace", 10, 2, len)
    ['The notes', 'of Ada L …']
    >>> wrap_text("The notes of Ada Lovelace", 10, 2, len, end=" .9")
    ['The notes', 'of Ad … .9']
    """
    done: list[str] = []
    rest = text
    while lines > len(done) + 1 and measure(rest + end) > room:
        fits = next((stop for stop in range(len(rest), 1, -1) if measure(rest[:stop].rstrip()) <= room), 1)
        blank = len(rest) if fits == len(rest) else rest.rfind(" ", 1, fits + 1)
        stop = blank if blank > 0 else fits
        done.append(rest[:stop].rstrip())
        rest = rest[stop:].lstrip()
    last = shorten_to_width(rest, room - measure(end), measure) + end
    return [*done, last if rest else end.lstrip()]


def _labelled(subgraph: Neighbourhood) -> dict[str, TraversedEdge]:
    """Map the id of each chunk to the edge whose label is drawn next to the chunk.

    If several named edges lead to a hit, the last edge on the hit's own path is preferred. Chunks without a named edge
    are left out.
    """
    links = [link for link in subgraph.links if link.label]
    return {link.target: link for link in sorted(links, key=lambda link: _is_own(link, subgraph.spots[link.target]))}


def _is_own(link: TraversedEdge, target: PlacedChunk) -> bool:
    return target.hit is not None and target.hit.path[-2:] == (link.source, link.target)


def _columns(subgraph: Neighbourhood, width: float, measure: TextMeasure) -> tuple[float, float]:
    """Return the position of the first column and the distance between columns.

    The outer margins are as wide as the names next to the first and the last column, up to a fixed share of the width.
    """
    if subgraph.columns == 1:
        return MARGIN + 0.1, 1.0
    names = [(spot.column, measure(_rank(spot) + spot.title + _score(spot))) for spot in subgraph.spots.values()]
    left = max(room for column, room in names if column == 0) + MARGIN + 0.2
    right = max(room for column, room in names if column == subgraph.columns - 1) + MARGIN + 0.2
    left, right = min(left, 0.32 * width), min(right, (0.38 if subgraph.columns == 2 else 0.28) * width)
    return left, min((width - left - right) / (subgraph.columns - 1), WIDEST_GAP)


def _rank(spot: PlacedChunk) -> str:
    return "" if spot.rank is None else f"{spot.rank}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"


def _score(spot: PlacedChunk) -> str:
    return "" if spot.hit is None else f"   {spot.score:.2f}"


def _bezier(a: Line, b: Line, c: Line, d: Line) -> Line:
    at = np.linspace(0.0, 1.0, 24)[:, None]
    line: Line = (1 - at) ** 3 * a + 3 * (1 - at) ** 2 * at * b + 3 * (1 - at) * at**2 * c + at**3 * d
    return line
