"""Limit of the length of a query."""

from __future__ import annotations

from langchain_hybridgraph.execution.trace import Trace

LONGEST = 10_000
"""Number of characters of a query that are searched for.

Every stage does work in proportion to the query, most of all the graph, which looks for names: in Chinese text up
to twelve possible names begin at each character.
"""


def bounded(text: str | None, trace: Trace) -> str | None:
    """Return the first ``LONGEST`` characters of a query; the reason ``query-cut`` reports that it was longer.

    >>> trace = Trace()
    >>> len(bounded("long " * 5_000, trace)), trace.reasons
    (10000, ('query-cut',))
    """
    # A query that is not a text is refused by the search, so that telemetry reports it.
    if not isinstance(text, str) or len(text) <= LONGEST:
        return text
    trace.degrade("query-cut", f"the query has {len(text):,} characters; the first {LONGEST:,} were searched for")
    return text[:LONGEST]
