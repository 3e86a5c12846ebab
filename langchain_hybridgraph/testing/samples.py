"""Chunks, parents and edges that the suite writes."""

from __future__ import annotations

from datetime import UTC, datetime

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Edge

BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC).timestamp(), datetime(2021, 1, 1, tzinfo=UTC).timestamp()
SECOND = 1.0

CHUNKS = (
    Chunk("cat", "the cat sat on the mat", {"topic": "animals", "year": 2020, "labels": ["pet", "small"]}),
    Chunk("dog", "the dog chased the cat", {"topic": "animals", "year": 2021}, "zoo", "pets"),
    Chunk("owl", "an owl hunts at night", {"topic": "animals", "year": 2022, "nested": {"wild": True}}, "zoo", "birds"),
    Chunk("bond", "the bond pays interest", {"topic": "money", "year": 2021, "source": "bank.md"}),
    Chunk("old", "the cat of last year", {"valid_from": "2020-01-01T00:00:00Z", "valid_until": "2021-01-01T00:00:00Z"}),
)
PARENTS = (
    Chunk("pets", "cats and dogs live with people", {"topic": "parents"}, "zoo"),
    Chunk("birds", "birds fly", {"valid_until": "2021-01-01T00:00:00Z"}, "zoo"),
)
EDGES = (
    Edge("cat", "dog", "fears", 0.8),
    Edge("cat", "bond", "owns", 0.5),
    Edge("cat", "old", "was", 0.9, valid_until="2021-01-01T00:00:00Z"),
    Edge("owl", "cat", "watches", 0.7),
)
ANIMALS = parse_filter({"topic": "animals"})
