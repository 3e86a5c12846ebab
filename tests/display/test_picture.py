"""Pictures of results."""

import sys
from io import BytesIO
from itertools import combinations

import pytest
from matplotlib.collections import PathCollection

from langchain_hybridgraph.display import draw
from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError
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


@pytest.mark.parametrize("width", [5, 14])
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
    """A transparent picture has the question, which is not a formula, ranks, titles and scores, edges and reasons."""
    hits = search_hit("a", 0.9), graph_hit(("a", "b"), 0.5, ("cites", 0.8))
    figure = draw(answer(*hits, query=r"Is $\x$ < $5?", degraded=("no-graph-store",)))
    figure.savefig(BytesIO())
    assert figure.get_facecolor()[3] == 0
    assert {text.get_text() for text in texts(figure)} >= {
        r"Is $\x$ < $5?",
        "2 returned · no-graph-store",
        "1\xa0\xa0Text of a.   0.90",
        "2\xa0\xa0Text of b.   0.50",
        "cites",
    }
    assert {text.get_text() for text in texts(draw(answer()))} == {"Who wrote it?", "nothing found"}


def test_an_arrow_points_as_the_edge_is_stored():
    """An arrow leads to the target of the stored edge, and an edge through an entity is a line without a head."""
    styles = {}
    for how in ("cites", "<cites", "entity:e"):
        (patch,) = draw(answer(search_hit("a", 0.9), graph_hit(("a", "z"), 0.5, (how, 0.6)))).axes[0].patches
        (start, _), (end, _) = patch._posA_posB
        styles[how] = type(patch.get_arrowstyle()).__name__, float(start), float(end)
    assert styles == {"cites": ("CurveFilledB", 0, 1), "<cites": ("CurveFilledB", 1, 0), "entity:e": ("Curve", 0, 1)}


def test_each_distance_has_its_own_shape():
    """Chunks at different distances have different shapes, so that a picture without colours shows the distance."""
    hits = [search_hit("a", 0.9), graph_hit(("a", "y"), 0.5, ("cites", 0.6))]
    nodes = draw(answer(*hits)).axes[0].collections
    shapes = {each.get_paths()[0].vertices.tobytes() for each in nodes if isinstance(each, PathCollection)}
    assert len(shapes) == 2


def test_only_some_hits_are_drawn():
    """With more hits than nodes, the picture says how many it leaves out."""
    figure = draw(answer(*(search_hit(f"h{n}", 0.9 - n / 10) for n in range(5))), nodes=3)
    labels = {text.get_text() for text in texts(figure)}
    assert "5 returned · 2 more not drawn" in labels
    assert sum("Text of" in label for label in labels) == 3


def test_a_notebook_displays_a_png():
    """IPython displays the figure as a PNG, without pyplot."""
    display = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    data, metadata = display.format(draw(answer(search_hit("a", 0.9)), width=6))
    assert data["image/png"].startswith(b"\x89PNG")
    assert metadata["image/png"]["width"] == 6 * 96


@pytest.mark.parametrize("size", [{"width": 3}, {"width": float("nan")}, {"width": "x"}, {"nodes": 0}, {"nodes": 2.5}])
def test_a_size_that_cannot_be_drawn(size):
    """An invalid width or number of nodes raises an error with the accepted values."""
    with pytest.raises(ConfigurationError, match=r"must be (a number|an integer) ≥"):
        draw(answer(), **size)


def test_without_its_libraries(monkeypatch):
    """The error without networkx names the extra to install."""
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match=r'pip install "langchain-hybridgraph\[notebook\]"'):
        draw(answer())
