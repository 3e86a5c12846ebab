"""Chunks."""

import pytest

from langchain_hybridgraph.chunks import Chunk


@pytest.mark.parametrize(
    ("metadata", "headings"),
    [
        ({}, ""),
        ({"title": "Guide"}, "Guide"),
        ({"title": "Guide", "section_heading": "Install > Linux"}, "Guide > Install > Linux"),
        ({"title": None, "section_heading": "Install"}, "Install"),
        ({"title": 7, "section_heading": ["Install"]}, ""),
        ({"title": "a\ud800b"}, "a\ufffdb"),
    ],
)
def test_headings_are_the_title_and_the_section_heading(metadata, headings):
    """The headings are those metadata values that are strings, joined by ``>``."""
    assert Chunk("a", "text", metadata).headings == headings
