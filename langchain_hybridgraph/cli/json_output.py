"""Output of ``--json``, with a stable schema."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.cli.stderr_messages import as_commands

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from langchain_hybridgraph.ingestion import IngestReport
    from langchain_hybridgraph.ingestion.summaries import LayersReport
    from langchain_hybridgraph.records import Hit
    from langchain_hybridgraph.result import RetrievalResult
    from langchain_hybridgraph.search.hierarchy import FindResult
    from langchain_hybridgraph.stores.embedded.maintenance import CheckReport


def search_answer(result: RetrievalResult[Document]) -> dict[str, Any]:
    """Return the output of ``search --json``: the question, how it was answered, and the hits, best first.

    The keys are ``query``, ``k``, ``filter`` (null if there is none), ``method`` (such as hybrid, vector, keyword or
    graph), ``degraded`` (the degradation reasons), ``remarks`` (details of some of them),
    ``took_ms``, ``hits`` (see :func:`hit_answer`) and ``history`` (see
    :func:`history_answer`; null without a conversation).
    """
    plan = result.plan
    return {
        "query": plan["query"],
        "k": plan["k"],
        "filter": plan["filter"],
        "history": history_answer(plan),
        "method": plan["method"],
        "degraded": list(result.degraded),
        "remarks": dict(plan.get("remarks", {})),
        "took_ms": round(result.took_ms, 3),
        "hits": [hit_answer(rank, hit) for rank, hit in enumerate(result.hits, start=1)],
    }


def history_answer(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """Describe how a conversation changed the question. Return None for a search without a conversation.

    The keys are ``expanded_query``, ``context``, ``weight`` (the weight of the context) and ``searched``, which is one
    of these values:

    - ``"raw"``: the hits were found with the question alone.
    - ``"expanded"``: they were found with the expanded query.
    - ``"both"``: the hits of both searches were merged.
    - ``"mixed"``: they were found with a weighted mean of the vectors of the question and its context.
    """
    names = ("expanded_query", "context", "weight", "searched")
    return {name: plan.get(name) for name in names} if "expanded_query" in plan else None


def find_answer(result: FindResult) -> dict[str, Any]:
    """Return the output of ``find --json``: ``queries``, ``degraded``, ``remarks``, ``took_ms`` and ``hits``.

    Each query has ``query``, ``context_type``, ``priority``, ``roots`` (the URIs below which it searched), and three
    counts: ``opened`` (directories opened), ``scored`` (nodes scored) and ``nodes`` (all nodes). Each hit has ``rank``,
    ``uri``, ``context_type``, ``is_leaf`` (false for a directory), ``score``, ``abstract``, ``relations`` (uri,
    relation, weight, description) and ``text`` (the text of its best chunk, or its overview).
    """
    return {
        "queries": [each.plan() for each in result.query_results],
        "degraded": list(result.degraded),
        "remarks": dict(result.remarks),
        "took_ms": round(result.took_ms, 3),
        "hits": [
            {
                "rank": rank,
                "uri": each.uri,
                "context_type": each.context_type,
                "is_leaf": each.is_leaf,
                "score": each.score,
                "abstract": each.abstract,
                "relations": [asdict(relation) for relation in each.relations],
                "text": "" if each.hit is None else each.hit.chunk.text,
            }
            for rank, each in enumerate(result, start=1)
        ],
    }


def hit_answer(rank: int, hit: Hit) -> dict[str, Any]:
    """Return one hit as JSON values, including the fields of the stored chunk.

    ``rank`` counts from 1, and ``score`` is between 0 and 1. The values in ``parts`` add up to the score. ``source`` is
    the search that found the hit, such as vector or graph, or fused if several searches found it. ``vector_score``,
    ``bm25_score`` and ``rerank_score`` are null if they are unknown. If the chunk is a parent returned in place of its
    child, ``child_id`` is the id of the child.
    """
    return {
        "rank": rank,
        "id": hit.id,
        "document_id": hit.chunk.document,
        "parent_id": hit.chunk.parent,
        "child_id": None if hit.child is None else hit.child.id,
        "score": hit.score,
        "parts": dict(hit.parts),
        "source": hit.source,
        "vector_score": hit.vector_score,
        "bm25_score": hit.bm25_score,
        "rerank_score": hit.rerank_score,
        "hops": hit.hops,
        "path": list(hit.path),
        "text": hit.chunk.text,
        "metadata": dict(hit.chunk.metadata),
    }


def ingest_answer(
    report: IngestReport, embedding: str, pruned: Sequence[str], vanished: Sequence[str], layers: LayersReport | None
) -> dict[str, Any]:
    """Return the output of ``ingest --json``.

    It contains the fields of :class:`IngestReport`, ``embedding``, ``pruned``, ``vanished`` and ``layers``. ``pruned``
    lists the ids of documents that ``--prune`` deleted because their files no longer exist. ``vanished`` lists the ids
    of such documents that were kept because ``--prune`` was not given. ``layers`` has the fields of
    :class:`LayersReport`, or is null if the summaries of directories were not updated.
    """
    return {
        **asdict(report),
        "embedding": embedding,
        "warnings": list(map(as_commands, report.warnings)),
        "unread": {path: as_commands(reason) for path, reason in report.unread.items()},
        "pruned": list(pruned),
        "vanished": list(vanished),
        "layers": None if layers is None else asdict(layers),
    }


def check_answer(report: CheckReport) -> dict[str, Any]:
    """Return the output of ``check --json`` and ``repair --json``.

    The keys are ``ok``, ``counts``, and three lists of strings: ``problems``, ``unchecked`` and ``notes``.
    """
    return {
        "ok": report.ok,
        "problems": list(map(as_commands, report.problems)),
        "unchecked": list(report.unchecked),
        "notes": list(report.notes),
        "counts": dict(report.counts),
    }


def print_json(answer: Mapping[str, Any]) -> None:
    """Print one indented JSON object to stdout. Values that JSON lacks (NaN, infinity) become null.

    A lone surrogate becomes U+FFFD. Non-ASCII characters are not escaped if the encoding of stdout supports them.
    """
    carries_all = (sys.stdout.encoding or "").lower().startswith("utf")
    json.dump(_sayable(answer), sys.stdout, indent=2, ensure_ascii=not carries_all, allow_nan=False)
    sys.stdout.write("\n")


def _sayable(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(key): _sayable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
