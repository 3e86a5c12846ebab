"""Features that stores can have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_hybridgraph.stores.protocols import (
    AcceptsChunks,
    AwaitsVectors,
    HasGraph,
    HasMemory,
    HasParents,
    HasSessions,
    HasSummaries,
    HasTree,
    HasVectors,
    ListsChunks,
    ReadsIndex,
    RecordsFiles,
    SearchesHybrid,
    SearchesKeywords,
    SearchesVectors,
    implements,
)


class Feature(NamedTuple):
    """A capability that some stores have and others lack.

    ``protocol`` is the protocol in ``stores.protocols`` that a store with this feature implements, or None if the
    feature needs none. A store's attribute ``lacks`` maps the name of each missing feature to the reason.
    """

    name: str
    meaning: str
    protocol: Any = None


FEATURES = (
    Feature("vectors", "vector search, restricted by filter, tenant and time", SearchesVectors),
    Feature("keywords", "BM25 search, restricted by filter, tenant and time", SearchesKeywords),
    Feature("headings", "the keyword search also finds chunks by their title and headings"),
    Feature("identifiers", "names and codes in a question outrank similarity"),
    Feature("diversity", "`mmr_lambda` and `max_marginal_relevance_search`", HasVectors),
    Feature("parents", "larger texts that chunks point to", HasParents),
    Feature("edges", "graph retrieval", HasGraph),
    Feature("tree", "directories and documents for `HierarchicalRetriever`", HasTree),
    Feature("summaries", "summaries of directories", HasSummaries),
    Feature("listing", "filter-only queries, in the order of writing", ListsChunks),
    Feature("sessions", "turns of conversations", HasSessions),
    Feature("memory", "`MemoryRetriever`, with confidence, utility and validity from the metadata", HasMemory),
    Feature("memory updates", "`remember`, `feedback`, `supersede`, `retract`, `expire`"),
    Feature("history", "`known_at=`: search as of an earlier state of knowledge"),
    Feature("writing", "upserts that embed only changed texts; deletes that include edges and parents", AcceptsChunks),
    Feature("edge builders", "`ingest` connects new documents to stored ones", ReadsIndex),
    Feature("files", "`ingest` reads only changed files", RecordsFiles),
    Feature("transactions", "a batch is written completely or not at all"),
    Feature("fitted embeddings", "LSA, fitted to the stored texts"),
    Feature("tenants", "separate data of several tenants"),
    Feature("several processes", "any number of processes can write"),
    Feature("several machines", "processes on other machines can read and write"),
    Feature("one request", "vector and keyword search in one round trip", SearchesHybrid),
    Feature("native async", "searches in an event loop without a thread", AwaitsVectors),
)
NAMES = frozenset(feature.name for feature in FEATURES)


def wrong_declarations(store: Any) -> list[str]:
    """Return a message for each error in a store's ``lacks``.

    ``lacks`` may contain only names of features. It must contain each feature whose protocol the store does not
    implement, and no feature whose protocol it does implement.
    """
    lacks: Mapping[str, str] = getattr(store, "lacks", {})
    wrong = [f"{name!r} is not a feature; the features are {', '.join(sorted(NAMES))}" for name in lacks.keys() - NAMES]
    for name, _, protocol in FEATURES:
        if protocol is not None and implements(store, protocol) is (name in lacks):
            problem = f"lacks {name!r} but implements" if name in lacks else f"does not declare {name!r} but lacks"
            wrong.append(f"{type(store).__name__} {problem} {protocol.__name__}")
    return wrong


def feature_table(lacking: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Markdown table of the features of each store, followed by the reasons for missing features.

    ``lacking`` maps the name of each store to its ``lacks``.

    >>> table = feature_table({"Tiny": {"edges": "It has no graph."}, "Full": {}})
    >>> [line for line in table.splitlines() if line.startswith(("| edges", "- "))]
    ['| edges | graph retrieval | – | yes |', '- **edges**: It has no graph. (Tiny)']
    """
    lines = [f"| Feature | Meaning | {' | '.join(lacking)} |", "|---|---|" + "---|" * len(lacking)]
    for name, meaning, _ in FEATURES:
        cells = ("–" if name in lacks else "yes" for lacks in lacking.values())
        lines.append(f"| {name} | {meaning} | {' | '.join(cells)} |")
    stores: dict[tuple[str, str], list[str]] = {}
    for name, _, _ in FEATURES:
        for title, lacks in lacking.items():
            if name in lacks:
                stores.setdefault((name, lacks[name]), []).append(title)
    notes = [f"- **{name}**: {why} ({', '.join(titles)})" for (name, why), titles in stores.items()]
    return "\n".join([*lines, "", "Reasons for missing features, and the stores to which they apply:", "", *notes])
