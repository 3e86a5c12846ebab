import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.context import parent_ids, replace_children


def hit(id, score, parent=None, **fields):
    return Hit(Chunk(id, f"text of {id}", parent_id=parent), score, "vector", {"vector": score}, **fields)


PARENTS = {id: Chunk(id, f"all of {id}") for id in ("p1", "p2")}


def test_pin():
    """Children c1 (.6) and c2 (.9) of p1, x (.7) and c3 (.5) of p2 become p1 (.9), x (.7) and p2 (.5)."""
    hits = [hit("c1", 0.6, "p1"), hit("c2", 0.9, "p1"), hit("x", 0.7), hit("c3", 0.5, "p2")]
    assert [(h.id, h.score) for h in replace_children(hits, PARENTS)] == [("p1", 0.9), ("x", 0.7), ("p2", 0.5)]


def test_a_parent_hit_has_the_text_of_the_parent_and_its_child():
    """A parent hit has the parent's chunk, and the score parts, the path and the chunk of the best child."""
    child = hit("c2", 0.9, "p1", vector_score=0.8, hops=1, path=("s", "c2"))
    (resolved,) = replace_children([hit("c1", 0.6, "p1"), child], PARENTS)
    assert resolved.chunk is PARENTS["p1"]
    assert resolved.child is child.chunk
    assert (resolved.parts, resolved.vector_score, resolved.path) == ({"vector": 0.9}, 0.8, ("s", "c2"))


def test_a_missing_parent_leaves_the_child():
    """A hit whose parent is missing from the store is returned unchanged."""
    orphan = hit("c", 0.5, "gone")
    assert replace_children([orphan], PARENTS) == [orphan]


def test_each_parent_is_read_once():
    """The parents of hits are listed in order, without duplicates and None."""
    hits = [hit("c3", 0.5, "p2"), hit("x", 0.7), hit("c1", 0.6, "p1"), hit("c2", 0.9, "p1")]
    assert parent_ids(hits) == ["p2", "p1"]


def test_a_parent_id_in_metadata_is_used():
    """A ``parent_id`` in the metadata of a chunk is used as its parent."""
    child = Hit(Chunk("c", "", {"parent_id": "p1"}), 0.5, "vector", {})
    assert [h.id for h in replace_children([child], PARENTS)] == ["p1"]


def test_children_of_equal_score():
    """If two children have equal scores, the one with the smaller id represents the parent, in any order."""
    (resolved,) = replace_children([hit("c2", 0.5, "p1"), hit("c1", 0.5, "p1")], PARENTS)
    assert resolved.child.id == "c1"


def test_ties_by_id():
    """Hits with equal scores are ordered by the id that is returned, not by the child's id."""
    resolved = replace_children([hit("a", 0.5, "p2"), hit("z", 0.5, "p1"), hit("p", 0.5)], PARENTS)
    assert [h.id for h in resolved] == ["p", "p1", "p2"]


@pytest.mark.parametrize(("own", "child"), [(0.9, None), (0.3, "c")])
def test_a_parent_that_is_a_hit_itself(own, child):
    """A parent among the hits appears once, with the better of its own and its child's score."""
    (resolved,) = replace_children([hit("p1", own), hit("c", 0.6, "p1")], PARENTS)
    assert (resolved.id, resolved.score) == ("p1", max(own, 0.6))
    assert (resolved.child and resolved.child.id) == child


def test_a_chunk_that_is_its_own_parent():
    """A chunk that names itself as its parent is neither read again nor reported as its own child."""
    own = hit("p1", 0.5, "p1")
    assert parent_ids([own]) == []
    assert replace_children([own], PARENTS) == [own]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 4), st.sampled_from([None, "p1", "p2", "gone"])),
        unique_by=lambda row: row[0],
    )
)
def test_properties(rows):
    """Each id appears once, ordered by score and then id, with the best score of its children; a second run changes
    nothing.
    """
    hits = [hit(id, score / 4, parent) for id, score, parent in rows]
    resolved = replace_children(hits, PARENTS)
    assert len({h.id for h in resolved}) == len(resolved)
    assert resolved == sorted(resolved, key=lambda h: (-h.score, h.id))
    expected = {}
    for id, score, parent in rows:
        place = parent if parent in PARENTS else id
        expected[place] = max(score / 4, expected.get(place, 0))
    assert {h.id: h.score for h in resolved} == expected
    assert replace_children(resolved, PARENTS) == resolved
