"""Scores of candidates that a source did not find."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext


def add_scores(
    context: SearchContext, candidates: Candidates, ids: Iterable[str], skip: Set[int] = frozenset()
) -> Search[Candidates]:
    """Return the candidates with additional scores for the chunks ``ids``, computed by the sources.

    Only missing scores are computed. The sources at the positions in ``skip`` are left out.
    """
    positions, calls = [], []
    for position, (source, result) in enumerate(candidates.results.items()):
        scores = candidates.rankings[position].scores
        missing = [] if position in skip else [id for id in ids if id not in scores]
        if missing and (call := source.score(context.query, result, missing)) is not None:
            positions.append(position)
            calls.append(call)
    if not calls:
        return candidates
    rankings = list(candidates.rankings)
    for position, scores in zip(positions, (yield from context.ask_all(calls, {})), strict=True):
        rankings[position] = replace(rankings[position], scores={**rankings[position].scores, **scores})
    return candidates._replace(rankings=rankings)
