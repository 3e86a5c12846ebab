"""Stage that calibrates scores to answer probabilities."""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.records import Answerability, Hit


def calibrate(context: SearchContext, hits: list[Hit], answerability: Answerability | None) -> list[Hit]:
    """Return the hits with calibrated scores.

    The scores and their parts are multiplied by ``answerability.unit``. If ``answerability`` is None, the hits are
    returned unchanged.
    """
    if answerability is None:
        return hits
    with context.trace.stage("calibrate"):
        return [answerability.scale(hit) for hit in hits]
