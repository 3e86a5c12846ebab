"""The query pipeline, composed of named stages."""

from __future__ import annotations

from dataclasses import replace

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.execution.effects import Search, Trace
from langchain_hybridgraph.records import Hit, Query, query_error
from langchain_hybridgraph.search.candidate_stages import expand, fuse, gather, list_matches, rank, score_candidates
from langchain_hybridgraph.search.certain_hits import announce_before_rerank
from langchain_hybridgraph.search.context import Pipeline, SearchContext
from langchain_hybridgraph.search.hit_stages import (
    admit,
    budget,
    calibrate,
    describe,
    parents,
    recall,
    rerank,
    score,
    select,
)
from langchain_hybridgraph.search.verdict import FILTER_MATCHES_NOTHING, assess, report_emptiness


def search(query: Query, pipeline: Pipeline, trace: Trace) -> Search[list[Hit]]:
    """Return the hits of a query, best first.

    This generator yields calls to engines and models, and receives their results.
    """
    if not query.k:
        return []
    trace.raises = pipeline.on_error == "raise"
    context = SearchContext(plan(query), pipeline, trace)
    if context.is_filter_only:
        candidates = yield from list_matches(context)
    else:
        results = yield from gather(context)
        candidates = yield from rank(context, results)
        candidates = yield from fuse(context, candidates)
        candidates = yield from expand(context, candidates)
    candidates = yield from score_candidates(context, candidates)
    hits = yield from admit(context, candidates)
    hits = yield from parents(context, hits)
    if pipeline.announce is not None:
        announce_before_rerank(context, hits)
    hits = yield from rerank(context, hits)
    hits = yield from score(context, hits)
    hits = yield from recall(context, hits, candidates)
    trace.answerability = answerability = assess(context, hits, candidates)
    hits = yield from select(context, hits, 1.0 if answerability is None else answerability.unit)
    hits = budget(context, hits)
    hits = calibrate(context, hits, answerability)
    hits = yield from describe(context, hits, candidates)
    if not hits:
        yield from report_emptiness(context, candidates)
        if FILTER_MATCHES_NOTHING in trace.reasons:
            trace.answerability = None  # no text was compared with the question
    return hits


def plan(query: Query) -> Query:
    """Return the query with its text prepared for the engines.

    Lone surrogates are replaced, and a blank text becomes None. Raises ConfigurationError if the text is not a string.
    """
    if not isinstance(query.text, str | None):
        raise query_error(query.text)
    text = replace_surrogates(query.text or "")
    return replace(query, text=text if text.strip() else None)
