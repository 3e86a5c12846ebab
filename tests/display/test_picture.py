"""Pictures of results."""

import sys
from io import BytesIO
from itertools import combinations

import pytest

from langchain_hybridgraph.display import draw
from langchain_hybridgraph.errors import ConfigurationError
from tests.support.samples.sample_hits import answer, graph_hit, search_hit

pytest.importorskip("matplotlib")
LONG = "The long and winding title of a chapter that nobody has ever read to its end, part {}"


def many():
    """Return a result with three seeds, two of them connected in both directions, 26 other chunks, and long names."""
    near = [
        graph_hit(("s0", f"n{n}"), 0.6 - n / 50, ("entity:some long entity name", 0.3), title=LONG.format(n))
        for n in range(20)
    ]
    far = [graph_hit(("s0", f"n{n}", f"f{n}"), 0.1, ("depends_on", 0.9), title=LONG.format(n)) for n in range(5)]
    mutual = [
        graph_hit(("s2", "s1"), 0.8, ("entity:another long entity name", 1.0), title=LONG),
        graph_hit(("s1", "s2"), 0.7, ("entity:another long entity name", 1.0), title=LONG),
        graph_hit(("s2", "n0", "x"), 0.1, ("cites", 0.5), ("entity:some other entity name", 0.5), title=LONG),
    ]
    return answer(search_hit("s0", 0.9), *mutual, *near, *far, query=LONG)


def texts(figure):
    return [text for text in figure.axes[0].texts if text.get_text()]


@pytest.mark.parametrize("width", [5, 7, 10, 14])
def test_texts_do_not_overlap(width):
    """At any width, the texts in the picture do not overlap and are inside it."""
    figure = draw(many(), width=width, nodes=40)
    figure.canvas.draw()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    assert len(boxes) > 50
    assert [
        (one, other) for (one, a), (other, b) in combinations(boxes, 2) if a.padded(-2).overlaps(b.padded(-2))
    ] == []
    assert [one for one, box in boxes if box.x0 < 0 or box.x1 > figure.bbox.x1 + 1 or box.y0 < 0] == []


def test_the_picture_has_hits_and_edges():
    """The picture contains the question, the ranks, titles and scores of the hits, and the edges."""
    labels = {
        text.get_text()
        for text in texts(draw(answer(search_hit("a", 0.9), graph_hit(("a", "b"), 0.5, ("cites", 0.8)))))
    }
    assert {
        "Who wrote it?",
        "2 returned",
        "1\xa0\xa0Text of a.   0.90",
        "2\xa0\xa0Text of b.   0.50",
        "cites",
    } <= labels


def test_an_arrow_points_as_the_edge_is_stored():
    """An arrow leads to the target of the stored edge, and an edge through an entity is a line without a head."""
    styles = {}
    for how in ("cites", "<cites", "entity:e"):
        figure = draw(answer(search_hit("a", 0.9), graph_hit(("a", "z"), 0.5, (how, 0.6))))
        (patch,) = figure.axes[0].patches
        (start, _), (end, _) = patch._posA_posB
        styles[how] = type(patch.get_arrowstyle()).__name__, float(start), float(end)
    assert styles == {"cites": ("CurveFilledB", 0, 1), "<cites": ("CurveFilledB", 1, 0), "entity:e": ("Curve", 0, 1)}


def test_only_some_hits_are_drawn():
    """With more hits than nodes, the picture says how many it leaves out."""
    figure = draw(answer(*(search_hit(f"h{n}", 0.9 - n / 10) for n in range(5))), nodes=3)
    labels = {text.get_text() for text in texts(figure)}
    assert "5 returned · 2 more not drawn" in labels
    assert sum("Text of" in label for label in labels) == 3


def test_texts_are_not_formulas():
    """Dollar signs and invalid formulas are drawn as plain text."""
    figure = draw(answer(search_hit("a", 0.9), query=r"Is $\x$ < $5?"))
    figure.savefig(BytesIO())
    assert r"Is $\x$ < $5?" in {text.get_text() for text in texts(figure)}


def luminance(colour):
    """Return WCAG's relative luminance of a grey in hexadecimal."""
    value = int(colour[1:3], 16) / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def test_text_is_legible_on_light_and_dark_pages():
    """The figure is transparent, and its text has a contrast above 4 on light and dark pages."""
    figure = draw(answer(search_hit("a", 0.9)))
    [ink] = {text.get_color() for text in texts(figure)}
    assert figure.get_facecolor()[3] == 0
    assert ink[1:3] == ink[3:5] == ink[5:7]
    light, dark, own = luminance("#ffffff") + 0.05, luminance("#111111") + 0.05, luminance(ink) + 0.05
    assert min(light / own, own / dark) > 4


def test_a_notebook_displays_a_png():
    """IPython displays the figure as a PNG, without pyplot."""
    display = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    data, metadata = display.format(draw(answer(search_hit("a", 0.9)), width=6))
    assert data["image/png"].startswith(b"\x89PNG")
    assert metadata["image/png"]["width"] == 6 * 96


def test_the_picture_of_an_empty_result():
    """The picture of an empty result shows "nothing found" and the reasons for degradation."""
    labels = {text.get_text() for text in texts(draw(answer(degraded=("no-graph-store",))))}
    assert labels == {"Who wrote it?", "nothing found · no-graph-store"}


@pytest.mark.parametrize(
    "size",
    [{"width": 3}, {"width": float("nan")}, {"width": "x"}, {"nodes": 0}, {"nodes": "x"}, {"nodes": 2.5}],
    ids=repr,
)
def test_a_size_that_cannot_be_drawn(size):
    """An invalid width or number of nodes raises an error with the accepted values."""
    with pytest.raises(ConfigurationError, match=r"must be (a number|an integer) ≥"):
        draw(answer(), **size)


def test_without_matplotlib(monkeypatch):
    """The error without matplotlib names the extra to install."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigurationError, match=r'pip install "langchain-hybridgraph\[notebook\]"'):
        draw(answer())
