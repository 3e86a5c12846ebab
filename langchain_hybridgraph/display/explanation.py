"""Hits of results, explained in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.degradation import degradation, warnings_in
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Answerability, Hit, name_of


@runtime_checkable
class SearchResult(Protocol):
    """Search result that can be displayed, such as a :class:`~langchain_hybridgraph.RetrievalResult`."""

    # This is a protocol so that the result class can import this module without an import cycle.

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...]
    took_ms: float
    plan: dict[str, Any]
    answerability: Answerability | None

    def __len__(self) -> int: ...


def hits_in(result: SearchResult | Iterable[Any], prefix: str = "") -> list[Hit]:
    """Return the hits of a result, or rebuild them from the metadata of Documents, in the same order.

    ``prefix`` is the ``metadata_prefix`` of the retriever that returned the Documents. A Document without a score gets
    the score NaN. Raises ConfigurationError for anything that is not a result or a list of Documents.
    """
    if isinstance(result, SearchResult) and len(result.hits) == len(result):
        return list(result.hits)
    if isinstance(result, str) or not isinstance(result, Iterable):
        raise ConfigurationError(
            f"expected a RetrievalResult or a list of Documents, got {type(result).__name__}: {result!r}"
        )
    return [_hit(document, prefix) for document in result]


def _hit(document: Any, prefix: str) -> Hit:
    if not hasattr(document, "page_content"):
        raise ConfigurationError(
            f"expected a list of Documents, but the list contains a {type(document).__name__}: {document!r}"
        )
    metadata = document.metadata
    score, id = metadata.get(f"{prefix}relevance_score"), document.id or ""
    return Hit(
        chunk=Chunk(id, document.page_content, metadata),
        score=math.nan if score is None else score,
        source=metadata.get(f"{prefix}retrieval_source", ""),
        parts=metadata.get(f"{prefix}score_breakdown", {}),
        vector_score=metadata.get(f"{prefix}vector_score"),
        bm25_score=metadata.get(f"{prefix}bm25_score"),
        rerank_score=metadata.get(f"{prefix}rerank_score"),
        hops=metadata.get(f"{prefix}hops", 0),
        path=tuple(metadata.get(f"{prefix}source_path", ())),
        graph_context=tuple(metadata.get(f"{prefix}graph_context", ())),
    )


# Maximum number of characters quoted from a text.
QUOTED = 110


def explain_result(result: SearchResult) -> str:
    """Explain a result with a paragraph about the search, then a paragraph about each hit, best first.

    The paragraph about a hit has its title, the beginning of its text, the output of :meth:`Hit.explain`, and the
    titles of other hits on its path. For an empty result, the explanation contains "Nothing found".

    >>> from langchain_hybridgraph import RetrievalResult
    >>> from langchain_hybridgraph.records import Chunk
    >>> hit = Hit(Chunk("a", "Ada wrote it."), 0.9, "vector", {"vector": 0.9}, found_by=("vector",))
    >>> print(explain_result(RetrievalResult(["a"], hits=[hit], took_ms=2.0, plan={"query": "Who wrote it?"})))
    Who wrote it?
    1 hit in 2.0 ms.
    <BLANKLINE>
    1. Ada wrote it. (a)
       score 0.900 = vector 0.900 · found by vector
    """
    paragraphs = [_about(result)]
    by_place = {path_end(hit): (rank, hit) for rank, hit in enumerate(result.hits, 1)}
    for rank, hit in enumerate(result.hits, 1):
        heading = title(hit)
        quoted = [] if heading == quote(hit) else [f"“{quote(hit)}”"]
        lines = [*quoted, hit.explain(), *_path_titles(hit, by_place)]
        label = heading if heading == hit.id else f"{heading} ({hit.id})"
        paragraphs.append("\n   ".join([f"{rank}. {label}", *lines]))
    return "\n\n".join(paragraphs)


def path_end(hit: Hit) -> str:
    """Return the last id of the hit's path, or the hit's id if it has no path.

    If a parent was returned instead of its child, the path ends at the child.
    """
    return hit.path[-1] if hit.path else hit.id


def title(hit: Hit) -> str:
    """Return a label for a hit: its title and section.

    Without these, the label is the beginning of the text, or the id if the text is empty.
    """
    headings = [hit.chunk.metadata.get(key) for key in ("title", "section_heading")]
    return " › ".join(dict.fromkeys(" ".join(str(part).split()) for part in headings if part)) or quote(hit) or hit.id


def quote(hit: Hit, size: int = QUOTED) -> str:
    """Return the beginning of a hit's text without its title, on one line, cut between words."""
    first, _, rest = hit.chunk.text.strip().partition("\n")
    has_title = first.strip() == str(hit.chunk.metadata.get("title") or "")
    line = " ".join((rest if has_title and rest.strip() else hit.chunk.text).split())
    if len(line) <= size:
        return line
    return (line[:size].rpartition(" ")[0] or line[:size]) + " …"


def edge_name(step: Mapping[str, Any]) -> str:
    """Return the name of an edge in a hit's ``graph_context``: its relation, or the entity that both ends mention.

    >>> edge_name({"relation": "depends_on"}), edge_name({"relation": "mentions", "entity": "name:Ada Lovelace"})
    ('depends on', '“Ada Lovelace”')
    """
    entity = str(step.get("entity", ""))
    return f"“{name_of(entity)}”" if entity else str(step["relation"]).replace("_", " ")


def describe_degradation(result: SearchResult) -> list[str]:
    """Describe what did not happen as requested, with the error or the meaning of the reason, then normal outcomes.

    The last sentence says whether ``min_score`` left out hits.

    >>> from langchain_hybridgraph import RetrievalResult
    >>> remarks = {"unknown-relation": "no edge has the relation 'cite'; there are cites"}
    >>> plan = {"remarks": remarks, "errors": {"keyword": "OSError: disk"}}
    >>> result = RetrievalResult([], degraded=["keyword-failed", "unknown-relation"], plan=plan)
    >>> print(*describe_degradation(result), sep="\\n")
    Not as requested: keyword-failed (the keyword search failed; only the vector search was used; OSError: disk).
    Not as requested: unknown-relation (no edge has the relation 'cite'; there are cites).
    """
    remarks, errors = result.plan.get("remarks", {}), result.plan.get("errors", {})
    warnings, sentences = warnings_in(result.degraded), []
    for reason in warnings:
        details = [remarks.get(reason, degradation(reason).plain_meaning), errors.get(reason.removesuffix("-failed"))]
        sentences.append(f"Not as requested: {reason} ({'; '.join(filter(None, details))}).")
    normal = [reason for reason in result.degraded if reason not in warnings]
    sentences += (f"{reason}: {degradation(reason).plain_meaning}." for reason in normal)
    return [*sentences, *([f"min_score: {remarks['min_score']}."] if "min_score" in remarks else [])]


def _about(result: SearchResult) -> str:
    plan = result.plan
    query = plan.get("query")
    hits = f"{len(result.hits)} hit{'' if len(result.hits) == 1 else 's'}" if result.hits else "Nothing found"
    summary = f"{hits} in {result.took_ms:.1f} ms{_searched(result)}{_expansion(plan)}."
    if plan.get("method") == "filter":
        query = "(a filter, without words)"
    elif query is None:
        query = "(a vector, without words)"
    judged = [] if result.answerability is None else [result.answerability.explain()]
    return "\n".join([query, summary, *judged, *describe_degradation(result)])


def _searched(result: SearchResult) -> str:
    plan, reasons = result.plan, set(result.degraded)
    weights = [
        f"{name} (weight {weight:g})"
        for name, weight in plan.get("weights", {}).items()
        if reasons.isdisjoint((f"{name}-failed", f"no-{name}-index", f"deadline-exceeded:{name}"))
    ]
    if not weights or plan.get("method") == "filter":
        return ""
    return f", searched by {' and '.join(weights)}" + (f", fusion {plan['fusion']}" if len(weights) > 1 else "")


def _expansion(plan: Mapping[str, Any]) -> str:
    expansion = plan.get("walk")
    if expansion is None or plan.get("method") != "graph":
        return ""
    return f", then expanded through edges (traversal {expansion['traversal']}, score {expansion['score']})"


def _path_titles(hit: Hit, by_place: Mapping[str, tuple[int, Hit]]) -> list[str]:
    """Return one line, with title and rank, for each other hit on the path to this hit.

    Hits whose label is only their id are left out.
    """
    lines = []
    for number, id in enumerate(hit.path[:-1]):
        if id in by_place and title(by_place[id][1]) != id:
            rank, there = by_place[id]
            lines.append(f"{id} is {'the seed ' if not number else ''}“{title(there)}”, hit number {rank}")
    return lines
