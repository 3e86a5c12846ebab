"""Columns and rows of the chunks in a picture."""

from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.display.subgraph import TraversedEdge, neighbourhood
from tests.support.samples.sample_hits import answer, graph_hit, search_hit


def places(picture):
    return {spot.id: (spot.column, spot.row) for spot in picture.spots.values()}


def test_seeds_come_first_and_their_neighbours_next_to_them():
    """A seed is in the first column, centred on the chunks it leads to, with the next seed below."""
    picture = neighbourhood(
        answer(search_hit("a", 0.9), graph_hit(("a", "b"), 0.5), graph_hit(("a", "c"), 0.4), search_hit("d", 0.3))
    )
    assert places(picture) == {"b": (1, 0), "a": (0, 0.5), "c": (1, 1), "d": (0, 2)}


def test_chunks_are_below_their_predecessor():
    """Chunks beyond the first column each have their own row, below the chunk before them on the path."""
    hits = search_hit("a", 0.9), graph_hit(("a", "b"), 0.5), graph_hit(("a", "b", "c"), 0.4), graph_hit(("a", "d"), 0.3)
    assert places(neighbourhood(answer(*hits))) == {"b": (1, 0), "a": (0, 1), "c": (2, 1), "d": (1, 2)}


def test_a_seed_that_another_one_leads_to_stays_a_seed():
    """Two seeds with edges in both directions are both in the first column, and joined by one drawn edge."""
    hits = graph_hit(("b", "a"), 0.9, ("cites", 0.5)), graph_hit(("a", "b"), 0.8, ("cites", 0.5))
    picture = neighbourhood(answer(*hits))
    assert places(picture) == {"a": (0, 0), "b": (0, 1)}
    assert picture.links == [TraversedEdge("a", "b", "cites", 0.5, heads=("a", "b"), mutual=True)]


def test_paths_through_each_other_end():
    """Two chunks whose best paths go through each other are both drawn at their shortest distance from a seed."""
    hits = search_hit("a", 0.9), graph_hit(("a", "b", "c"), 0.5), graph_hit(("a", "c", "b"), 0.4)
    picture = neighbourhood(answer(*hits))
    assert {spot.id: spot.column for spot in picture.spots.values()} == {"a": 0, "b": 1, "c": 1}
    assert len(set(places(picture).values())) == 3


def test_edges_are_labelled_with_relation_or_entity():
    """An edge is labelled with its relation, and a hop through an entity with the entity."""
    hits = (
        search_hit("a", 0.9),
        graph_hit(("a", "b"), 0.5, ("depends_on", 0.8)),
        graph_hit(("a", "c"), 0.4, ("entity:ada", 0.2)),
    )
    assert neighbourhood(answer(*hits)).links == [
        TraversedEdge("a", "b", "depends on", 0.8, heads=("b",)),
        TraversedEdge("a", "c", "“ada”", 0.2),
    ]


def test_an_edge_points_as_it_is_stored():
    """An edge has one arrowhead, at its stored target, even if it was traversed backward or in both directions."""
    back = graph_hit(("a", "z"), 0.5, ("<cites", 0.6))
    assert neighbourhood(answer(search_hit("a", 0.9), back)).links == [
        TraversedEdge("a", "z", "cites", 0.6, heads=("a",))
    ]
    both = graph_hit(("z", "a"), 0.9, ("cites", 0.6)), back
    assert neighbourhood(answer(*both)).links == [TraversedEdge("a", "z", "cites", 0.6, heads=("a",), mutual=True)]


def test_chunks_on_a_path_are_drawn():
    """A chunk that is on the path of a hit but not in the result is drawn with its id."""
    picture = neighbourhood(answer(graph_hit(("a", "b", "c"), 0.5, ("cites", 0.5), ("part_of", 1.0))))
    assert [(spot.id, spot.title, spot.rank) for spot in picture.spots.values()] == [
        ("a", "a", None),
        ("b", "b", None),
        ("c", "Text of c.", 1),
    ]
    assert picture.links == [
        TraversedEdge("a", "b", "part of", 1.0, heads=("b",)),
        TraversedEdge("b", "c", "cites", 0.5, heads=("c",)),
    ]


def test_chunks_of_the_wider_result_have_no_rank():
    """Chunks of the wider result that were reached through edges are drawn without a rank, and its other hits are
    omitted.
    """
    small, wide = (
        answer(search_hit("a", 0.9)),
        answer(search_hit("a", 0.9), search_hit("x", 0.6), graph_hit(("a", "b"), 0.5)),
    )
    assert {spot.id: spot.rank for spot in neighbourhood(small, wide).spots.values()} == {"a": 1, "b": None}


def test_the_best_are_drawn():
    """If there is no room for all chunks, the first hits are drawn and the others are counted."""
    small, wide = answer(search_hit("a", 0.9)), answer(graph_hit(("a", "b"), 0.5), graph_hit(("a", "c"), 0.4))
    picture = neighbourhood(small, wide, nodes=2)
    assert (set(picture.spots), picture.left_out) == ({"a", "b"}, 1)


def test_a_chunk_is_as_far_in_a_small_picture_as_in_a_large_one():
    """A chunk is in the same column in a small picture, even if the path that makes it a seed is left out."""
    hits = search_hit("a", 0.9), graph_hit(("a", "b"), 0.5), graph_hit(("b", "c"), 0.4)
    small, large = neighbourhood(answer(*hits), nodes=2), neighbourhood(answer(*hits), nodes=3)
    assert [picture.spots["b"].column for picture in (small, large)] == [0, 0]


def test_the_nearest_predecessor_may_not_be_drawn():
    """A chunk is in the column of its shortest distance, even if its predecessor on that path is not drawn."""
    hits = search_hit("a", 0.9), graph_hit(("a", "b", "c"), 0.5), graph_hit(("s", "c", "d"), 0.4)
    assert places(neighbourhood(answer(*hits), nodes=2)) == {"c": (1, 0), "a": (0, 0.5), "b": (1, 1)}


def test_nothing_found():
    """A result without hits gives an empty picture."""
    picture = neighbourhood(answer())
    assert (dict(picture.spots), picture.links, picture.columns) == ({}, [], 1)


PATHS = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4, unique=True), min_size=1, max_size=8)


@given(PATHS, st.integers(1, 8), st.integers(0, 8))
def test_invariants(paths, nodes, back):
    """For any paths, all chunks on drawn paths are drawn in the right columns and unique places, joined by edges."""
    hits = [graph_hit(tuple(path), 0.5) for path in {path[-1]: path for path in paths}.values()]
    small, wide = answer(*hits[:back]), answer(*hits)
    picture, full = (neighbourhood(small, wide, number) for number in (nodes, len(hits)))
    visible = [hit for hit in hits if hit.hops or hit in hits[:back]][:nodes]
    assert set(picture.spots) == {id for hit in visible for id in hit.path}
    assert all(spot.column == full.spots[id].column for id, spot in picture.spots.items())
    assert len(set(places(picture).values())) == len(picture.spots)
    beyond = [spot.row for spot in picture.spots.values() if spot.column]
    assert len(set(beyond)) == len(beyond)
    assert {id for link in picture.links for id in link[:2]} <= set(picture.spots)
