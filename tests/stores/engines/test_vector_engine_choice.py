"""Sizes from which another engine searches the vectors."""

import pytest

from langchain_hybridgraph.stores.engines.vector_engine_choice import (
    searches_chroma,
    searches_despite_filter,
    searches_exactly,
    searches_server,
)

MB = 1 << 20


def test_up_to_40_mb_all_vectors_are_compared():
    """A matrix of up to 40 MB is searched exactly, a larger one approximately."""
    assert (searches_exactly(40 * MB), searches_exactly(40 * MB + 4)) == (True, False)


def test_beyond_400_mb_chroma_is_searched():
    """Chroma is searched beyond 400 MB, which is 409,600 vectors of 256 dimensions."""
    assert (searches_chroma(409_600, 256), searches_chroma(409_601, 256)) == (False, True)


def test_a_server_is_searched_from_10_000_chunks_on():
    """A Chroma server is searched only from 10,000 chunks on."""
    assert (searches_server(9_999), searches_server(10_000)) == (False, True)


@pytest.mark.parametrize(("share", "expected"), [(1.0, True), (0.9, True), (0.89, False)])
def test_chroma_is_searched_if_a_filter_allows_nearly_all_rows(share, expected):
    """Chroma is searched if at least 90 % of the rows are allowed."""
    assert searches_despite_filter(share) is expected
