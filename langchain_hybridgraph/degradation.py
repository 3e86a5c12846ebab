"""Reasons why a result is degraded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Level = Literal["warning", "info"]


@dataclass(frozen=True)
class Degradation:
    """Degradation reason, which a result may list in ``degraded``.

    ``level`` is ``"warning"`` if something that was requested did not happen, and ``"info"`` if the outcome is normal.
    ``meaning`` is Markdown. ``may_miss_hits`` is true if the result may lack hits of the store.
    """

    name: str
    level: Level
    meaning: str
    may_miss_hits: bool = False

    @property
    def plain_meaning(self) -> str:
        """Meaning without Markdown."""
        return self.meaning.replace("`", "")


def _warning(name: str, meaning: str, *, may_miss_hits: bool = True) -> Degradation:
    return Degradation(name, "warning", meaning, may_miss_hits)


def _info(name: str, meaning: str) -> Degradation:
    return Degradation(name, "info", meaning)


_TABLE = (
    # -- search
    _info(
        "empty-index",
        "the index contains no texts, or none of this tenant; its path or the tenant may be misspelt",
    ),
    _warning(
        "filter-matches-nothing",
        "no text that the call may see has the key, the value or the tenant that the filter requires; "
        '`plan["remarks"]` and `explain` name it, with similar keys or the existing values',
        may_miss_hits=False,
    ),
    _info(
        "no-query-text",
        "the query has no text, so keyword search was skipped; without a vector, nothing was searched",
    ),
    _info(
        "filter-only",
        "the query has a filter and no text; the result consists of the texts that match the filter, in the order of "
        "the store",
    ),
    _info("query-cut", "the query is longer than 10,000 characters; only its beginning was used"),
    _warning("no-keyword-index", "there is no keyword index; only the vector search was used", may_miss_hits=False),
    _warning(
        "keyword-fallback",
        "the keyword index is missing or cannot be opened, so BM25 was computed over the stored texts; "
        "`hybridgraph repair` fixes it",
        may_miss_hits=False,
    ),
    _warning(
        "keyword-stale",
        "the vector store has changed since its texts were indexed, so newer texts were not searched by keyword; "
        "`refresh()` indexes them",
    ),
    _warning(
        "keyword-behind",
        "the keyword index does not contain the newest texts yet, so only the vector search finds them; the next "
        "write, or opening the store for writing, brings the index up to date",
    ),
    _warning("keyword-failed", "the keyword search failed; only the vector search was used"),
    _warning(
        "no-vector-index",
        "the vectors, or the model that made them, are missing or damaged, so only the keyword search was used; "
        "`hybridgraph repair` restores them",
    ),
    _warning(
        "vectors-damaged",
        "some vectors are missing or damaged, so only the keyword search finds their texts; "
        "`hybridgraph repair` restores them",
    ),
    _warning("vector-failed", "the vector search failed; only the keyword search was used"),
    _warning(
        "no-lsa-index",
        "LSA has not been fitted to the texts yet, because `ingest` is still running or was interrupted, so only the "
        "keyword search was used; after an interruption, run `ingest` again",
        may_miss_hits=False,
    ),
    _warning(
        "query-out-of-vocabulary",
        "the LSA model does not know any word of the query, so only the keyword search was used. LSA learns new "
        "words in the texts as the index grows, or with `hybridgraph repair --refit`",
    ),
    _info(
        "no-cosine",
        "the vector store does not document the meaning of its scores, so only their order was used and "
        "`vector_score` is None",
    ),
    _info(
        "too-few-texts",
        "fewer than 200 texts, which are too few to tell whether they answer this question; `answerable` is None, and "
        "the scores are not reduced",
    ),
    _warning("fusion-failed", "the ranked lists could not be fused, so they were interleaved"),
    _warning("interleaved", "the ranked lists were interleaved instead of fused"),
    _info(
        "filter-post-applied", "the vector store cannot evaluate this filter, so it was applied to the store's results"
    ),
    _warning(
        "lookup-failed",
        "the vector store could not confirm that the keyword hits still exist; they are returned as indexed",
    ),
    _warning("catalog-failed", "the catalog could not be read, so the hits could not be returned"),
    _warning(
        "commits-lost",
        "the keyword index contains later commits than the catalog, whose write-ahead log was lost or damaged, so the "
        "last texts are missing; `hybridgraph check` counts them, and `hybridgraph repair` accepts the loss",
    ),
    _warning(
        "texts-damaged",
        "some stored texts are damaged and were left out; `hybridgraph check` names them, and `hybridgraph repair` "
        "deletes them",
    ),
    # -- graph
    _warning(
        "no-graph-store",
        "the store has no edges, so only the hybrid search was used; `ingest` extracts edges, and `edges=` "
        "passes them; with `seed_ids` or "
        '`graph={"candidates": "reached"}` the result contains only the seeds',
        may_miss_hits=False,
    ),
    _info("no-edges", "the store has no edges, and no setting requested a traversal; only the hybrid search was used"),
    _warning(
        "graph-failed",
        "the traversal failed, so only the hybrid search was used; with `seed_ids` or "
        '`graph={"candidates": "reached"}` the result contains only the seeds',
    ),
    _warning(
        "no-seeds",
        "no search hit passes `seed_filter` and has one of `seed_labels`, so there was no traversal; with "
        '`graph={"candidates": "reached"}` the result is empty',
    ),
    _warning(
        "seeds-missing",
        "some of `seed_ids` are not ids of chunks or documents in the scope of this call; the traversal started at the "
        "others, and if there are none the result is empty",
    ),
    _warning(
        "unknown-relation",
        "some of the requested relations (`relations` of the traversal) do not occur on any edge; the traversal used "
        "the rest. "
        '`plan["remarks"]` and `explain` list the existing relations',
    ),
    _info("node-cap-reached", "the traversal reached more chunks than `max_nodes` allows; the best of them were kept"),
    # -- hierarchy
    _info("converged-early", "the best results stopped changing, so the traversal ended early; nothing is missing"),
    _warning(
        "no-tree",
        "the texts have no directories, so only the hybrid search was used, with one hit per document",
        may_miss_hits=False,
    ),
    _info(
        "no-layers",
        "the directories have no summaries, so the search started at documents; in the folder of an index, "
        "`hybridgraph tree` creates them",
    ),
    _warning(
        "layers-stale",
        "texts have changed since their directories were summarised, so some summaries were left out; `hybridgraph "
        "tree` updates them",
    ),
    _warning(
        "layers-failed", "the summaries of the directories could not be searched, so the search started at documents"
    ),
    # -- conversation
    _warning("session-failed", "the conversation could not be read, so the query was planned without it"),
    _info("small-talk", "the message is only a greeting, thanks or a goodbye, so nothing was searched for"),
    _warning("expander-failed", "the query could not be rewritten using the conversation; the original query was used"),
    _warning("history-failed", "the session's history could not be fetched; the original query was used"),
    _warning("planner-failed", "the planner returned no usable plan; the original query was used"),
    # -- memory
    _warning(
        "nothing-similar",
        "no memory is similar to the query or shares a word with it; the most recent and most trusted memories are "
        "returned instead, with similarity 0",
        may_miss_hits=False,
    ),
    # -- results
    _warning("parents-failed", "some parents could not be read; their children are returned instead"),
    _warning("rerank-failed", "the reranker failed; the hits keep their previous order"),
    _warning(
        "single-chunk-exceeds-budget",
        "the best chunk alone exceeds the token budget; it is returned in full",
        may_miss_hits=False,
    ),
    # -- any source
    _warning("deadline-exceeded:SOURCE", "this source did not answer within `deadline_ms` and was left out"),
    _warning("SOURCE-failed", "this source failed; the others were used"),
)

REASONS: Mapping[str, Degradation] = MappingProxyType({each.name: each for each in _TABLE})
"""All reasons by name, in the order of the documentation. ``SOURCE`` stands for the name of any source."""


def degradation(reason: str) -> Degradation:
    """Return the description of a reason; an unknown reason, such as a custom planner's, is a warning.

    >>> degradation("converged-early").level, degradation("deadline-exceeded:vector").name
    ('info', 'deadline-exceeded:SOURCE')
    """
    kind, colon, _ = reason.partition(":")
    pattern = f"{kind}:SOURCE" if colon else "SOURCE-failed" if reason.endswith("-failed") else reason
    return (
        REASONS.get(reason)
        or REASONS.get(pattern)
        or _warning(reason, "see the documentation of the component that reported it")
    )


def warnings_in(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the reasons whose level is ``warning``."""
    return tuple(reason for reason in reasons if degradation(reason).level == "warning")
