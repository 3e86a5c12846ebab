"""One-line explanations of hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from langchain_hybridgraph.records.edges import name_of


def explain_hit(
    score: float,
    parts: Mapping[str, float],
    *,
    sources: Sequence[str],
    cosine: float | None,
    bm25: float | None,
    reranked: float | None,
    route: str | None,
    parent_of: str | None,
) -> str:
    """Return a line with the score of a hit, its parts, the sources that found it, and the route to it.

    ``route`` is the result of :func:`explain_route` for a hit that was reached through edges, and None for any other
    hit.
    """
    total = " + ".join(f"{name} {value:.3f}" for name, value in parts.items())
    reasons = [f"score {score:.3f} = {total}" if parts else f"score {score:.3f}"]
    if route is not None:
        reasons += _shares(parts)
    reasons.append(f"found by {_enumeration(sources)}")
    if cosine is not None:
        reasons.append(f"cosine {cosine:.3f}")
    if bm25 is not None:
        reasons.append(f"BM25 {bm25:.2f}")
    if reranked is not None:
        reasons.append(f"reranked {reranked:.3f}")
    if route is not None:
        reasons.append(route)
    elif parts.get("graph"):
        reasons.append("the question names its title")
    if parent_of is not None:
        reasons.append(f"parent of {parent_of}")
    return " · ".join(reasons)


def explain_route(id: str, path: Sequence[str], hops: int, graph_context: Sequence[Mapping[str, Any]]) -> str:
    """Return a description of the path to a hit: its seed, the chunks in between, and the edges that are known."""
    seed, *between, end = path if len(path) > 1 else (id, id)
    via = f" via {', '.join(between if len(between) < 4 else [between[0], '…', between[-1]])}" if between else ""
    edges = {step["from_chunk_id"]: step for step in graph_context}
    steps = ", then ".join(_step(edges[one], one, two) for one, two in pairwise(path) if one in edges)
    distance = "1 hop" if hops == 1 else f"{hops} hops"
    return f"{distance} from {seed}{via} to {end}" + (f": {steps}" if steps else "")


def explain_answerability(
    value: float, *, is_answerable: bool | None, similarity: float | None, matched: float | None, exact: float
) -> str:
    """Return one line with the probability that a question has an answer, and the reasons."""
    reasons = {"similarity": similarity, "words matched": matched, "exact match": exact or None}
    summary = " · ".join(f"{name} {reason:.2f}" for name, reason in reasons.items() if reason is not None)
    if is_answerable is None:
        return f"too few texts to tell whether the question is answerable: {summary}"
    return f"probably {'answerable' if is_answerable else 'not answerable'} ({value:.2f}): {summary}"


def is_backward(step: Mapping[str, Any]) -> bool:
    """Return whether an edge of a ``graph_context`` was followed from its target to its source."""
    return step.get("direction") == "backward"


def _enumeration(names: Sequence[str]) -> str:
    *before, last = names or ("",)
    return f"{', '.join(before)} and {last}" if before else last


def _shares(parts: Mapping[str, float]) -> list[str]:
    """Return a list that contains a phrase such as "0.500 from search, 0.300 from the graph".

    The list is empty if the score has no graph part, or only one part from search. The reranker's part is not counted.
    """
    searched = [part for name, part in parts.items() if name not in ("graph", "rerank")]
    if "graph" not in parts or len(searched) < 2:
        return []
    return [f"{sum(searched):.3f} from search, {parts['graph']:.3f} from the graph"]


def _step(step: Mapping[str, Any], one: str, two: str) -> str:
    """Return a description of the edge between two chunks.

    If the edge was followed backward, the description names both chunks.
    """
    weight, description = f"weight {step['weight']:.2f}", str(step["description"])
    if entity := str(step.get("entity", "")):
        return f"both mention {name_of(entity)} ({weight})"
    details = f"{weight}, “{description}”" if description else weight
    relation = str(step["relation"]).replace("_", " ")
    return f"{two} {relation} {one} (followed backward, {details})" if is_backward(step) else f"{relation} ({details})"
