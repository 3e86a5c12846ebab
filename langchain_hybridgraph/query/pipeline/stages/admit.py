"""Stage that admits candidates in the scope."""

from __future__ import annotations

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.hits import read_hits
from langchain_hybridgraph.query.pipeline.pruning import hits_needed
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import Hit


def admit(context: SearchContext, candidates: Candidates) -> Search[list[Hit]]:
    """Return the best admitted candidates as hits.

    A candidate is admitted if it exists, belongs to the tenant, passes the filter and is valid. Only as many candidates
    are read as later stages can use. If some of them are not admitted, candidates that earlier stages left out are
    added, and the best candidates are read again.
    """
    n = hits_needed(context.pipeline, context.query.k)
    hits = yield from read_hits(context, candidates, n)
    while candidates.complete is not None and [hit.id for hit in hits] != [
        one.id for one in candidates.fused_candidates[:n]
    ]:
        candidates = yield from candidates.complete()
        hits = yield from read_hits(context, candidates, n)
    return hits
