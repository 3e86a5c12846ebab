"""Write the table of features in docs/engines.md from the declarations of the stores.

    python docs/feature_table.py [--check]

``--check`` writes nothing; it exits with 1 and names the command when the table is out of date.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph.stores import protocols
from langchain_hybridgraph.stores import store as embedded
from langchain_hybridgraph.stores.milvus import store as milvus

PAGE = Path(__file__).parent / "engines.md"
BEGIN, END = "<!-- features -->\n", "<!-- /features -->\n"
STORES = {
    "`HybridGraphStore(None)`": embedded.LACKS_IN_MEMORY,
    "`HybridGraphStore(path)`": embedded.LACKS,
    "`MilvusStore(uri)`": milvus.LACKS,
}


class Feature(NamedTuple):
    """Capability that some stores have and others lack; ``protocol`` is the one that it needs, or None."""

    name: str
    meaning: str
    protocol: Any = None


FEATURES = (
    Feature("vectors", "vector search, restricted by filter, tenant and time", protocols.SearchesVectors),
    Feature("keywords", "BM25 search, restricted by filter, tenant and time", protocols.SearchesKeywords),
    Feature("headings", "the keyword search also finds chunks by their title and headings"),
    Feature("identifiers", "names and codes in a question outrank similarity"),
    Feature("diversity", "`mmr_lambda` and `max_marginal_relevance_search`", protocols.HasVectors),
    Feature("parents", "larger texts that chunks point to", protocols.HasParents),
    Feature("edges", "graph retrieval", protocols.HasGraph),
    Feature("tree", "directories and documents for `HierarchicalRetriever`", protocols.HasTree),
    Feature("summaries", "summaries of directories", protocols.HasSummaries),
    Feature("listing", "filter-only queries, in the order of writing", protocols.ListsChunks),
    Feature("sessions", "turns of conversations", protocols.HasSessions),
    Feature(
        "memory", "`MemoryRetriever`, with confidence, utility and validity from the metadata", protocols.HasMemory
    ),
    Feature("memory updates", "`remember`, `feedback`, `supersede`, `retract`, `expire`"),
    Feature("history", "`known_at=`: search as of an earlier state of knowledge"),
    Feature(
        "writing",
        "upserts that embed only changed texts; deletes that include edges and parents",
        protocols.AcceptsChunks,
    ),
    Feature("edge builders", "`ingest` connects new documents to stored ones", protocols.ReadsIndex),
    Feature("files", "`ingest` reads only changed files", protocols.RecordsFiles),
    Feature("transactions", "a batch is written completely or not at all"),
    Feature("fitted embeddings", "LSA, fitted to the stored texts"),
    Feature("tenants", "separate data of several tenants"),
    Feature("several processes", "any number of processes can write"),
    Feature("several machines", "processes on other machines can read and write"),
    Feature("one request", "vector and keyword search in one round trip", protocols.SearchesHybrid),
    Feature("native async", "searches in an event loop without a thread", protocols.AwaitsVectors),
)


def feature_table(lacking: Mapping[str, Mapping[str, str]]) -> str:
    """Return a Markdown table of features by store, then the reasons from each store's ``lacks`` in ``lacking``."""
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


def updated(page: str) -> str:
    """Return the page with the current table between its two markers."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{feature_table(STORES)}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if updated(page) == page:
        sys.exit()
    if sys.argv[1:] == ["--check"]:
        sys.exit("the table of features in docs/engines.md is out of date; run: python docs/feature_table.py")
    PAGE.write_text(updated(page), encoding="utf-8")
