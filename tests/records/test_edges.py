"""Times, weights and checks of edges."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest

from langchain_hybridgraph.records import Edge, checked_edges


@pytest.mark.parametrize(
    "value",
    [
        "1970-01-02",
        "19700102T000000Z",
        date(1970, 1, 2),
        datetime(1970, 1, 2),
        datetime(1970, 1, 2, tzinfo=UTC),
        86_400,
        np.float32(86_400),
    ],
    ids=repr,
)
def test_an_edge_stores_its_times_in_seconds(value):
    """Times of any form are stored in seconds, so edges built with different forms are equal."""
    edge = Edge("a", "b", "cites", valid_from=value)
    assert (edge.valid_from, type(edge.valid_from)) == (86_400.0, float)
    assert edge == Edge("a", "b", "cites", valid_from=86_400.0)


@pytest.mark.parametrize("value", ["1970-01-01", date(1970, 1, 1)], ids=repr)
def test_valid_until_includes_its_day(value):
    """A valid_until that is only a date means the last moment of that day."""
    assert Edge("a", "b", "cites", valid_until=value).valid_until == 86_399.999999
    assert Edge("a", "b", "cites", valid_from=value, valid_until=value).valid_from == 0.0


@pytest.mark.parametrize("name", ["valid_from", "valid_until"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "soon", "", [2024], 1.7e12], ids=repr)
def test_an_invalid_time_of_an_edge_raises(name, value):
    """An invalid time raises a ValueError that names the edge, the field and the value."""
    with pytest.raises(ValueError, match=rf"'a' → 'b' \(cites\), {name}: .* not a time"):
        Edge("a", "b", "cites", **{name: value})


def test_valid_until_before_valid_from_raises():
    """valid_until before valid_from raises a ValueError; equal times are valid."""
    with pytest.raises(ValueError, match=r"valid_until \('2023'?.*\) before valid_from \('2024-01-01'\)"):
        Edge("a", "b", "cites", valid_from="2024-01-01", valid_until="2023-12-31")
    assert Edge("a", "b", "cites", valid_from=5, valid_until=5.0).valid_until == 5.0


@pytest.mark.parametrize(
    "weight", ["x", "0.5", None, True, math.nan, math.inf, 0, -1, 1.5, [0.5], Decimal("0.5"), np.ones(2)], ids=repr
)
def test_an_invalid_weight_raises(weight):
    """An invalid weight raises a ValueError that names the edge and shows a valid weight."""
    with pytest.raises(ValueError, match=r"'a' → 'b' \(cites\) has weight .*; pass .* such as weight="):
        Edge("a", "b", "cites", weight=weight)


@pytest.mark.parametrize("weight", [1, np.float32(0.5), np.float64(0.25)], ids=repr)
def test_the_weight_of_an_edge_is_a_float(weight):
    """A weight passed as a NumPy number is stored as a float, since SQLite cannot store NumPy numbers."""
    edge = Edge("a", "b", "cites", weight)
    assert (edge.weight, type(edge.weight)) == (weight, float)


def test_descriptions_are_cleaned():
    """Lone surrogates in an edge's description become U+FFFD."""
    assert checked_edges([Edge("a", "b", "r", description="x\ud800")])[0].description == "x\ufffd"


END = r"an edge's (source|target|relation) must be a string with at least one character, got"
DESCRIPTION = r"edge 'a' → 'b' \(r\) has description .*; pass a string, such as description="


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("a", "b", "cites")], r"must be an Edge, such as Edge\(.* got \('a', 'b', 'cites'\)"),
        (Edge("a", "b", "cites"), r'must be a list of Edge, such as \[Edge\("a"'),
        (None, "must be a list of Edge"),
        ([Edge("a", "b", "r", description=None)], DESCRIPTION),
        ([Edge("a", "b", "r", description=b"text")], DESCRIPTION),
        *[([Edge(*ends)], END) for ends in ((None, "b", "r"), ("", "b", "r"), ("a", 7, "r"), ("a", "b", ""))],
    ],
    ids=repr,
)
def test_edges_that_cannot_be_stored_are_refused(edges, message):
    """Anything but a list of Edge, and an end, relation or description that cannot be stored, raises ValueError."""
    with pytest.raises(ValueError, match=message):
        checked_edges(edges)
