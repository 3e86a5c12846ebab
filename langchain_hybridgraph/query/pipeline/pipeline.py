"""The one query pipeline: a short function of named stages; the retrievers are settings of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.query.pipeline.calibrated import calibrate, judge
from langchain_hybridgraph.query.pipeline.candidates import ScoredCandidates, gather, rank
from langchain_hybridgraph.query.pipeline.certain import announce_before_rerank, announce_before_walk
from langchain_hybridgraph.query.pipeline.expand import describe, expand
from langchain_hybridgraph.query.pipeline.listed import is_filter_only, list_matches
from langchain_hybridgraph.query.pipeline.memory import recall, score
from langchain_hybridgraph.query.pipeline.postprocess import apply_budget, rerank, resolve_parents, select_hits
from langchain_hybridgraph.query.pipeline.settings import Pipeline, SearchContext
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.records import Hit, Query, SourceResult, replace_surrogates
from langchain_hybridgraph.stores.protocols import Graph


def search(query: Query, pipeline: Pipeline, trace: Trace) -> Search[list[Hit]]:
    """The hits of a query, best first; yields calls to engines and models and is sent what came of them."""
    if not query.k:
        return []
    trace.raises = pipeline.on_error == "raise"
    run = SearchContext(plan(query), pipeline, trace)
    found: Mapping[Source, SourceResult] = {}
    ranked = ScoredCandidates(found, [], [])
    graph: Graph | None = None
    if is_filter_only(run):
        hits = yield from list_matches(run)
    else:
        seeking = run.for_seeds()
        found = yield from gather(seeking)
        hits, ranked = yield from rank(seeking, found)
        yield from announce_before_walk(run, hits, ranked)
        hits, graph = yield from expand(run, hits, ranked)
        hits = yield from resolve_parents(run, hits)
    announce_before_rerank(run, hits)
    hits = yield from rerank(run, hits)
    hits = yield from score(run, hits)
    hits = yield from recall(run, hits, found)
    run.trace.answerability = judged = judge(run, hits, ranked)
    hits = yield from select_hits(run, hits, 1.0 if judged is None else judged.unit)
    hits = calibrate(apply_budget(run, hits), judged)
    return (yield from describe(run, hits, graph))


def plan(query: Query) -> Query:
    """The query as the engines get it: without half characters; a text of nothing but blanks is none."""
    if not isinstance(query.text, str | None):
        raise ConfigurationError(f"the query is {query.text!r}; it is a text, or None beside vector=")
    text = replace_surrogates(query.text or "")
    return replace(query, text=text if text.strip() else None)
