"""Layout of chunks and edges in a picture."""

import numpy as np
import pytest

from langchain_hybridgraph.display.layout import Frame, is_faint, shorten_to_width, summary, wrap_text
from langchain_hybridgraph.display.subgraph import neighbourhood
from tests.support.samples.sample_hits import answer, graph_hit, search_hit


def framed(*hits, width=10.0, around=None):
    result = answer(*hits)
    subgraph = neighbourhood(result, around)
    return Frame.of(result, subgraph, width, lambda text, *, size: len(text) * size / 150)


def test_lines_join_their_chunks():
    """The line of every edge starts at one chunk and ends at the other, even within a column."""
    frame = framed(
        search_hit("a", 0.9),
        graph_hit(("a", "b"), 0.5),
        graph_hit(("a", "b", "c"), 0.4),
        graph_hit(("a", "s"), 0.3),
        graph_hit(("s", "t"), 0.2),
    )
    steps = {(link.source, link.target) for link in frame.subgraph.links}
    assert steps == {("a", "b"), ("b", "c"), ("a", "s"), ("s", "t")}
    for link in frame.subgraph.links:
        line = frame.line(link)
        assert line[0].tolist() == pytest.approx(frame.at(frame.subgraph.spots[link.source]))
        assert line[-1].tolist() == pytest.approx(frame.at(frame.subgraph.spots[link.target]))


def test_lines_leave_room_for_labels():
    """The last two thirds of an edge's line are in the row of the chunk that it leads to."""
    frame = framed(search_hit("a", 0.9), graph_hit(("a", "b"), 0.5), graph_hit(("a", "c"), 0.4))
    assert len(frame.subgraph.links) == 2
    for link in frame.subgraph.links:
        x, y = frame.at(frame.subgraph.spots[link.target])
        line = frame.line(link)
        end = line[line[:, 0] >= x - 0.66 * frame.gap, 1]
        assert len(end)
        assert np.allclose(end, y)


def test_the_height_follows_the_rows():
    """Each additional chunk adds a row to the height of the picture."""
    one, two = framed(search_hit("a", 0.9)), framed(search_hit("a", 0.9), search_hit("b", 0.8))
    assert two.height - one.height == pytest.approx(0.36)


def test_counts_and_degradations_are_below_the_question():
    """The line below the question has the numbers of chunks returned, visited and not drawn, then the warnings."""
    small = answer(search_hit("a", 0.9), degraded=("node-cap-reached", "keyword-failed"))
    subgraph = neighbourhood(small, answer(graph_hit(("a", "b"), 0.5), graph_hit(("a", "c"), 0.4)), nodes=2)
    frame = Frame.of(small, subgraph, 10.0, lambda text, *, size: 0.1)
    assert frame.below == "1 came back · 1 more visited · 1 not drawn · keyword-failed"


def test_an_early_end_is_not_mentioned():
    """An early end of the traversal is not mentioned below the question, because nothing is missing."""
    early = answer(search_hit("a", 0.9), degraded=("converged-early",))
    assert summary(early, neighbourhood(early)) == "1 came back"
    assert summary(answer(degraded=("converged-early",)), neighbourhood(answer())) == "nothing found"


def test_edges_outside_the_result_are_faint():
    """Edges between two returned chunks are drawn in full colour, and all others are faint."""
    subgraph = neighbourhood(
        answer(search_hit("a", 0.9), graph_hit(("a", "b"), 0.5)), answer(graph_hit(("a", "c"), 0.4))
    )
    assert [(link.target, is_faint(link, subgraph.spots)) for link in subgraph.links] == [("b", False), ("c", True)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", [""]), ("Ada", ["Ada"]), ("Ada Lovelace", ["Ada", "Lovelace"]), ("Constantinople", ["Constant", "inople"])],
)
def test_breaks_between_words(text, lines):
    """Lines of a label break between words, and a word longer than a line is split."""
    assert wrap_text(text, 8, 2, len) == lines


def test_an_ending_may_have_its_own_line():
    """The ending of a label is on a new line if the text fills its line."""
    assert wrap_text("Lovelace", 8, 2, len, end="  .9") == ["Lovelace", ".9"]


def test_a_label_without_room_is_an_ellipsis():
    """A label without any room is shortened to an ellipsis."""
    assert shorten_to_width("Ada", 0, len) == "…"


def test_one_label_to_a_chunk():
    """If two edges lead to a chunk, only the edge on the chunk's own path has a label."""
    hits = graph_hit(("a", "b"), 0.5, ("cites", 0.5)), graph_hit(("s", "b", "c"), 0.4, ("cites", 0.5), ("part_of", 0.5))
    frame = framed(*hits)
    labels = {(link.source, link.target): frame.label(link) for link in frame.subgraph.links}
    assert labels["a", "b"].text == "cites"
    assert labels["s", "b"] is None
