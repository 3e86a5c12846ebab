"""Reasons why a result is degraded."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

Level = Literal["warning", "info"]


class Degradation(NamedTuple):
    """Degradation reason, which a result may list in ``degraded``; ``meaning`` is Markdown.

    ``level`` is ``"warning"`` if something that was requested did not happen, and ``"info"`` if the outcome is normal.
    """

    name: str
    level: Level
    meaning: str

    @property
    def plain_meaning(self) -> str:
        """Meaning without Markdown."""
        return self.meaning.replace("`", "")


_WARNINGS = {
    # search
    "filter-matches-nothing": 'no text has the key, value or tenant in the filter; `plan["remarks"]` has similar ones',
    "no-keyword-index": "there is no keyword index; only the vector search was used",
    "keyword-fallback": "the keyword index is missing or damaged, so all texts were scanned; run `hybridgraph repair`",
    "keyword-stale": "the vector store has newer texts, which were not searched by keyword; `refresh()` indexes them",
    "keyword-behind": "the newest texts are not in the keyword index yet; the next write brings it up to date",
    "keyword-failed": "the keyword search failed; only the vector search was used",
    "no-vector-index": "vectors or model are damaged, so only keywords were searched; run `hybridgraph repair`",
    "vectors-damaged": "some vectors are damaged, so only keywords find their texts; run `hybridgraph repair`",
    "vector-failed": "the vector search failed; only the keyword search was used",
    "no-lsa-index": "LSA is not fitted yet, so only keywords were searched; if `ingest` was interrupted, run it again",
    "query-out-of-vocabulary": "LSA knows no word of the query, so only the keyword search was used",
    "fusion-failed": "the ranked lists could not be fused, so they were interleaved",
    "interleaved": "the ranked lists were interleaved instead of fused",
    "lookup-failed": "the vector store could not confirm that the keyword hits still exist; they are as indexed",
    "catalog-failed": "the catalog could not be read, so the hits could not be returned",
    "commits-lost": "the catalog's log was damaged, so the last texts are missing; `hybridgraph check` counts them",
    "texts-damaged": "some damaged texts were left out; `hybridgraph check` names, `repair` deletes them",
    # graph
    "no-graph-store": "the store has no edges, so only the hybrid search was used; pass `edges=` or `ingest` texts",
    "graph-failed": "the traversal failed, so only the hybrid search was used",
    "no-seeds": "no search hit passes `seed_filter` and has one of `seed_labels`, so there was no traversal",
    "seeds-missing": "some of `seed_ids` do not exist in the scope of this call; the others were used",
    "unknown-relation": 'no edge has some of the `relations`; `plan["remarks"]` lists the existing ones',
    # hierarchy
    "no-tree": "the texts have no directories, so only the hybrid search was used, with one hit per document",
    "layers-stale": "texts have changed since they were summarised; `hybridgraph tree` updates the summaries",
    "layers-failed": "the summaries of the directories could not be searched, so the search started at documents",
    # conversation and memory
    "session-failed": "the conversation could not be read, so the query was planned without it",
    "expander-failed": "the query could not be rewritten using the conversation; the original query was used",
    "history-failed": "the session's history could not be fetched; the original query was used",
    "planner-failed": "the planner returned no usable plan; the original query was used",
    "nothing-similar": "no memory is similar to the query; the most recent and trusted memories are returned",
    # results
    "parents-failed": "some parents could not be read; their children are returned instead",
    "rerank-failed": "the reranker failed; the hits keep their previous order",
    "single-chunk-exceeds-budget": "the best chunk alone exceeds the token budget; it is returned in full",
    # any source
    "deadline-exceeded:SOURCE": "this source did not answer within `deadline_ms` and was left out",
    "SOURCE-failed": "this source failed; the others were used",
}
_OUTCOMES = {
    "empty-index": "the index contains no texts, or none of this tenant; its path or the tenant may be misspelt",
    "no-query-text": "the query has no text, so keyword search was skipped; without a vector, nothing was searched",
    "filter-only": "the query has a filter and no text; the texts that match the filter are in the store's order",
    "query-cut": "the query is longer than 10,000 characters; only its beginning was used",
    "no-cosine": "the vector store's scores have no documented meaning, so only their order was used",
    "too-few-texts": "fewer than 200 texts are too few to tell whether they answer the question; `answerable` is None",
    "filter-post-applied": "the vector store cannot evaluate this filter, so it was applied to the store's results",
    "no-edges": "the store has no edges, and no setting requested a traversal; only the hybrid search was used",
    "node-cap-reached": "the traversal reached more chunks than `max_nodes` allows; the best of them were kept",
    "converged-early": "the best results stopped changing, so the traversal ended early; nothing is missing",
    "no-layers": "the directories have no summaries, so the search started at documents; `hybridgraph tree` makes them",
    "small-talk": "the message is only a greeting, thanks or a goodbye, so nothing was searched for",
}

REASONS: Mapping[str, Degradation] = {
    **{name: Degradation(name, "warning", meaning) for name, meaning in _WARNINGS.items()},
    **{name: Degradation(name, "info", meaning) for name, meaning in _OUTCOMES.items()},
}
"""All reasons by name, in the order of the documentation. ``SOURCE`` stands for the name of any source."""


def degradation(reason: str) -> Degradation:
    """Return the description of a reason; an unknown reason, such as a custom planner's, is a warning.

    >>> degradation("converged-early").level, degradation("deadline-exceeded:vector").name
    ('info', 'deadline-exceeded:SOURCE')
    """
    kind, colon, _ = reason.partition(":")
    pattern = f"{kind}:SOURCE" if colon else "SOURCE-failed" if reason.endswith("-failed") else reason
    unknown = Degradation(reason, "warning", "see the documentation of the component that reported it")
    return REASONS.get(reason) or REASONS.get(pattern) or unknown


def warnings_in(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the reasons whose level is ``warning``."""
    return tuple(reason for reason in reasons if degradation(reason).level == "warning")
