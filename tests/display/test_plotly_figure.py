"""Pictures drawn by plotly."""

import sys
from base64 import b64decode

import pytest

from langchain_hybridgraph.display import interactive
from langchain_hybridgraph.display.colours import INK
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Chunk, Hit
from tests.support.samples.sample_hits import answer, graph_hit, search_hit

pytest.importorskip("plotly")
HITS = answer(search_hit("a", 0.9), graph_hit(("a", "b"), 0.5, ("cites", 0.8)))


def hovers(figure):
    return [text for trace in figure.data if trace.mode == "markers" for text in trace.hovertext]


def test_the_hover_text_explains_the_hit():
    """The hover text of a chunk has its title, its text and each line of ``explain``."""
    _, second = hovers(interactive(HITS))
    assert second.split("<br>") == ["<b>Text of b.</b>", "Text of b.", "", *HITS.hits[1].explain().split(" · ")]


def test_a_notebook_also_gets_a_png(monkeypatch):
    """A notebook also gets a PNG for viewers that run no JavaScript, such as GitHub."""
    pytest.importorskip("matplotlib")
    import plotly.io

    displayed = []
    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")
    monkeypatch.setattr("IPython.display.display", lambda bundle, **options: displayed.append((bundle, options)))
    figure = interactive(HITS, width=6)
    figure._ipython_display_()
    [(bundle, options)] = displayed
    assert bundle.keys() >= {"application/vnd.plotly.v1+json", "image/png"}
    assert b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert options["metadata"]["image/png"]["width"] == 6 * 96
    assert (figure.layout.paper_bgcolor, figure.layout.font.color) == ("rgba(0,0,0,0)", INK)


def test_names_and_edges_are_written():
    """The interactive picture has the same heading, chunks and edges as the static one."""
    labels = {note.text for note in interactive(HITS).layout.annotations}
    assert {
        "Who wrote it?",
        "2 came back",
        "1\xa0\xa0Text of a.   0.90",
        "2\xa0\xa0Text of b.   0.50",
        "cites",
    } <= labels


def test_chunks_outside_the_result_are_hollow():
    """Chunks that were visited but not returned have hollow markers and their own legend."""
    figure = interactive(answer(search_hit("a", 0.9)), HITS)
    looks = {trace.name: trace.marker.symbol for trace in figure.data if trace.mode == "markers"}
    assert looks == {"found by search": "circle", "1 hop away, hollow: did not come back": "square-open"}


def test_texts_are_not_markup():
    """HTML and formulas in texts are shown as plain text."""
    hit = Hit(Chunk("a", "<b>$x$</b> & more"), 0.9, "vector", {}, path=("a",))
    figure = interactive(answer(hit, query="<i>?"))
    assert "<b>&lt;b&gt;&#36;x&#36;&lt;/b&gt; &amp; more</b>" in hovers(figure)[0]
    assert "&lt;i&gt;?" in {note.text for note in figure.layout.annotations}


def test_needs_no_network():
    """The HTML of a figure contains plotly's JavaScript instead of a link to it."""
    page = interactive(HITS).to_html(full_html=False, include_plotlyjs=True)
    assert '<script src="http' not in page
    assert "<script charset" not in page


def test_nothing_found():
    """The picture of an empty result shows "nothing found"."""
    assert {note.text for note in interactive(answer()).layout.annotations} == {"Who wrote it?", "nothing found"}


def test_without_plotly(monkeypatch):
    """The error without plotly names the extra to install."""
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ConfigurationError, match=r'pip install "langchain-hybridgraph\[notebook\]"'):
        interactive(HITS)
