"""The reasons that an answer can give in ``degraded``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Level = Literal["warning", "info"]


@dataclass(frozen=True)
class Degradation:
    """A reason in ``degraded``.

    ``level`` is ``"warning"`` when something that was requested did not happen, and ``"info"`` when the outcome is a
    normal one. ``meaning`` explains the reason in Markdown; ``plain_meaning`` is the same without markup.
    ``may_miss_hits`` says whether the answer may lack hits that the store could have given.
    """

    name: str
    level: Level
    meaning: str
    may_miss_hits: bool = False

    @property
    def plain_meaning(self) -> str:
        """The meaning without Markdown."""
        return self.meaning.replace("`", "")


def _warning(name: str, meaning: str, *, may_miss_hits: bool = True) -> Degradation:
    return Degradation(name, "warning", meaning, may_miss_hits)


def _info(name: str, meaning: str) -> Degradation:
    return Degradation(name, "info", meaning)


_TABLE = (
    # -- search
    _info(
        "no-query-text", "the query has no text, so keyword search was skipped; only the vector was searched, if given"
    ),
    _info("query-cut", "the query is longer than 10,000 characters; only its beginning was searched for"),
    _warning("no-keyword-index", "there is no keyword index; the vector search answered alone", may_miss_hits=False),
    _warning(
        "keyword-fallback",
        "the keyword index cannot be opened, so BM25 was computed over the stored texts; `hybridgraph repair` fixes it",
        may_miss_hits=False,
    ),
    _warning(
        "keyword-stale",
        "the vector store has changed since its texts were indexed, so what it received later was not searched by "
        "words; `refresh()` takes it in",
    ),
    _warning(
        "keyword-behind",
        "the keyword index does not have the newest texts, which are found by their vectors only; the next write or "
        "opening for writing brings it up to date",
    ),
    _warning("keyword-failed", "the keyword search failed; the vector search answered alone"),
    _warning(
        "no-vector-index",
        "the vectors, or the model that made them, are missing or damaged; the keyword search answered alone; "
        "`hybridgraph repair` restores them",
    ),
    _warning(
        "vectors-damaged",
        "some vectors are missing or damaged; those texts are found by keyword only; "
        "`hybridgraph repair` restores them",
    ),
    _warning("vector-failed", "the vector search failed; the keyword search answered alone"),
    _warning(
        "no-lsa-index",
        "the index has too few texts for LSA vectors; the keyword search answered alone",
        may_miss_hits=False,
    ),
    _warning(
        "query-out-of-vocabulary",
        "the LSA vectors know no word of the query, so only the keyword search could find anything. LSA learns new "
        "words as the index grows, or by `hybridgraph repair --refit`",
    ),
    _info(
        "no-cosine",
        "the vector store does not say what its scores mean, so only their order counted and `vector_score` is None",
    ),
    _warning("fusion-failed", "the result lists could not be fused"),
    _warning("interleaved", "the result lists were interleaved in turn instead of fused"),
    _info(
        "filter-post-applied", "the vector store cannot evaluate this filter, so it was applied to the store's results"
    ),
    _warning(
        "lookup-failed",
        "the vector store could not confirm that keyword hits still exist; they are returned as they were indexed",
    ),
    _warning("catalogue-failed", "the catalogue could not be read, so the hits could not be returned"),
    # -- graph
    _warning(
        "no-graph-store",
        "the store has no edges; the answer is that of the hybrid search, or the seeds alone with `seed_ids` or "
        '`candidates="reached"`',
        may_miss_hits=False,
    ),
    _info("no-edges", "the store has no edges, and no setting requested a walk; the answer is that of the search"),
    _warning(
        "graph-failed",
        "the edges could not be walked; the answer is that of the hybrid search, or the seeds alone with `seed_ids` or "
        '`candidates="reached"`',
    ),
    _warning(
        "no-seeds",
        "no text that the search found passes `seed_filter` and has one of `seed_labels`, so no edge was walked; with "
        '`candidates="reached"` the answer is empty',
    ),
    _warning(
        "seeds-missing",
        "some of `seed_ids` are neither chunks nor documents that this call may see; the walk began at the others, and "
        "without any the answer is empty",
    ),
    _warning(
        "unknown-relation",
        "no edge has one of the requested relations (`relations`, `relation_filter`); the walk used the others. "
        '`plan["remarks"]` and `explain` list the existing relations',
    ),
    _info("node-cap-reached", "edges led to more chunks than `max_nodes` allows; the best of them were kept"),
    # -- hierarchy
    _info("converged-early", "the best results stopped changing, so the walk ended early; nothing is missing"),
    _warning(
        "no-tree",
        "the texts have no directories; the answer is that of the hybrid search, one hit per document",
        may_miss_hits=False,
    ),
    _info(
        "no-layers",
        "the directories have no summaries, so the search began at documents; `hybridgraph tree` makes them",
    ),
    _warning(
        "layers-stale",
        "texts have changed since their directories were summarised, so some summaries were left out; `hybridgraph "
        "tree` updates them",
    ),
    _warning("layers-failed", "the summaries of the directories could not be searched; the search began at documents"),
    # -- conversation
    _warning("session-failed", "the conversation could not be read, so the query was planned without it"),
    _warning("expander-failed", "the query could not be rewritten from the conversation; it was searched for as given"),
    _warning("history-failed", "the session's history could not be fetched; the query was searched for as given"),
    _warning("planner-failed", "the planner gave no usable plan; the query was searched for as given"),
    # -- memory
    _warning(
        "nothing-similar",
        "no memory is similar to the query or shares a word with it; the most recent and most trusted memories are "
        "returned instead, with a similarity of 0",
        may_miss_hits=False,
    ),
    # -- results
    _warning("parents-failed", "some parents could not be read; their children are returned instead"),
    _warning("rerank-failed", "the reranker failed; the earlier order was kept"),
    _warning(
        "single-chunk-exceeds-budget",
        "the best chunk alone exceeds the token budget; it is returned in full",
        may_miss_hits=False,
    ),
    # -- any source
    _warning("deadline-exceeded:SOURCE", "this source did not answer within `deadline_ms` and was left out"),
    _warning("SOURCE-failed", "this source failed; the others answered"),
)

REASONS: Mapping[str, Degradation] = MappingProxyType({each.name: each for each in _TABLE})
"""Every reason by its name, in the order of the documentation; ``SOURCE`` is any source's name."""


def degradation(reason: str) -> Degradation:
    """Return the entry for a reason; a name that a planner or retriever of your own made up is a warning.

    >>> degradation("converged-early").level, degradation("deadline-exceeded:vector").name
    ('info', 'deadline-exceeded:SOURCE')
    """
    known = REASONS.get(reason) or REASONS.get(_pattern(reason))
    return known or _warning(reason, "see the documentation of the component that reports it")


def warnings_in(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return the reasons whose level is ``warning``.

    >>> warnings_in(["converged-early", "keyword-failed"])
    ('keyword-failed',)
    """
    return tuple(reason for reason in reasons if degradation(reason).level == "warning")


def _pattern(reason: str) -> str:
    kind, colon, _ = reason.partition(":")
    if colon:
        return f"{kind}:SOURCE"
    return "SOURCE-failed" if reason.endswith("-failed") else reason
