"""Calibration of scores to answer probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_hybridgraph.records import Answerability, Hit


def calibrate(hits: Sequence[Hit], answerability: Answerability | None) -> list[Hit]:
    """Return the hits with their scores and score parts multiplied by the unit of ``answerability``."""
    return list(hits) if answerability is None else [answerability.scale(hit) for hit in hits]
