"""Replacement of children by their parents."""

from __future__ import annotations

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Query
from tests.support.samples.small_pipeline import ListSource, Shelf, run


class Parents(Shelf):
    """Store with chunks c1 and c2 of a parent p, which can be missing or unreadable."""

    has_parents = True

    def __init__(self, *, missing: bool = False, raising: bool = False):
        super().__init__("x")
        self.chunks |= {id: Chunk(id, id, {"parent_id": "p"}) for id in ("c1", "c2")}
        self.missing, self.raising = missing, raising

    def read_parents(self, ids, scope):
        if self.raising:
            raise OSError("disk")
        return {} if self.missing else {id: Chunk(id, "the whole") for id in ids}


def through_parents(store):
    return run(Query("q", 5), store=store, sources=(ListSource("vector", 1, ["c1", "x", "c2"]),), parents=True)


def test_children_are_replaced_by_their_parent():
    """Two children become one parent with the better child's score, and its path still ends at that child."""
    hits, trace = through_parents(Parents())
    assert [hit.id for hit in hits] == ["p", "x"]
    assert (hits[0].child.id, hits[0].path, trace.reasons) == ("c1", ("c1",), ())


@pytest.mark.parametrize("store", [Parents(missing=True), Parents(raising=True)])
def test_missing_parents_leave_the_children(store):
    """If a parent is missing or cannot be read, its children are returned and the failure is reported."""
    hits, trace = through_parents(store)
    assert [hit.id for hit in hits] == ["c1", "x", "c2"]
    assert trace.reasons == ("parents-failed",)
