"""Limit on the length of a query."""

from __future__ import annotations

from langchain_hybridgraph.execution.trace import Trace

LONGEST = 10_000
"""Maximum number of characters of a query that are used.

The work of every stage grows with the length of the query. It grows fastest in the graph, which looks up possible
names: in Chinese text, up to twelve possible names begin at each character.
"""


def bounded(text: str | None, trace: Trace) -> str | None:
    """Return the first ``LONGEST`` characters of a query, and report a cut as ``query-cut`` to ``trace``.

    >>> trace = Trace()
    >>> len(bounded("long " * 5_000, trace)), trace.reasons
    (10000, ('query-cut',))
    """
    # A query that is not a string is rejected later, by the search, so that telemetry reports the error.
    if not isinstance(text, str) or len(text) <= LONGEST:
        return text
    trace.degrade("query-cut", f"the query has {len(text):,} characters; the first {LONGEST:,} were searched for")
    return text[:LONGEST]
