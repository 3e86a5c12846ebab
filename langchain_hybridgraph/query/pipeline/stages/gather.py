"""Stage that searches all sources for candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.records import Chunk, ScoredId, SourceResult, content_id

MIN_CANDIDATES = 100
"""Minimum number of candidates requested from each source; fewer scores are not enough for a good normalisation."""


def gather(context: SearchContext) -> Search[dict[Source, SourceResult]]:
    """Search all sources at the same time and return their results.

    Raises RetrievalError if every source failed, unless ``on_error`` is "empty".
    """
    query, pipeline, trace = context
    if query.text is None:
        trace.degrade("no-query-text")
    n = max(query.k * pipeline.overfetch, MIN_CANDIDATES)
    if pipeline.source_filter is not None:
        filter = query.scope.filter
        narrower = pipeline.source_filter if filter is None else filter & pipeline.source_filter
        query = replace(query, scope=replace(query.scope, filter=narrower))
    searches = [(source, call) for source in pipeline.sources if (call := source.search(query, n)) is not None]
    with trace.stage("gather"):
        answers = yield from context.ask_all([call for _, call in searches], is_required=True)
    results = {source: result for (source, _), result in zip(searches, answers, strict=True) if result is not None}
    for result in results.values():
        trace.degrade(result.reason, result.remark)
        if result.entries and not result.are_cosines:
            trace.degrade("no-cosine", "the vector store does not document how its scores relate to cosines")
    return unify_ids(results)


def unify_ids(results: Mapping[Source, SourceResult]) -> dict[Source, SourceResult]:
    """Return the results with one id per chunk, even if two sources use different ids for the same text.

    - A chunk whose id is only a hash of its content gets the id of a chunk with the same text and the same ``source``
      in its metadata.
    - If the vector search and another source each found a chunk with the same text but under different ids, both get
      the id from the other source. That id is preferred because a vector store may generate its own ids, while the ids
      of a keyword retriever come from the application. If both chunks have a ``source`` and the two differ, they
      keep their ids.

    Only entries that contain their chunk are compared, so at least two sources have to return chunks. This package's
    stores return entries without chunks, so their ids do not change.
    """
    if sum(bool(result.entries) and result.entries[0].chunk is not None for result in results.values()) < 2:
        return dict(results)
    chunks = _chunks_of(results)
    contents = {id: (chunk.text, str(chunk.metadata.get("source", ""))) for id, chunk in chunks.items()}
    unnamed = {id for id, content in contents.items() if id == content_id(*content)}
    ids_by_content = {content: id for id, content in contents.items() if id not in unnamed}
    new_ids = {id: ids_by_content[contents[id]] for id in unnamed if contents[id] in ids_by_content}
    new_ids |= _ids_for_vector_results(results, new_ids)
    if not new_ids:
        return dict(results)
    return {
        source: result._replace(
            entries=[
                ScoredId(new_ids[e.id], e.score, replace(e.chunk, id=new_ids[e.id]))
                if e.id in new_ids and e.chunk
                else e
                for e in result.entries
            ]
        )
        for source, result in results.items()
    }


def _chunks_of(results: Mapping[Source, SourceResult]) -> dict[str, Chunk]:
    return {id: chunk for result in results.values() for id, chunk in result.chunks.items()}


def _ids_for_vector_results(results: Mapping[Source, SourceResult], new_ids: Mapping[str, str]) -> dict[str, str]:
    """Return a dict from current id to new id for chunks that only the vector search found.

    The new id comes from a chunk with the same text that only another source found.
    """
    by_vector = _chunks_of({source: result for source, result in results.items() if source.name == "vector"})
    by_others = _chunks_of({source: result for source, result in results.items() if source.name != "vector"})
    unmatched: dict[str, list[Chunk]] = {}
    for id, chunk in by_others.items():
        if id not in by_vector and id not in new_ids:
            unmatched.setdefault(chunk.text, []).append(chunk)
    ids = {}
    for id, chunk in by_vector.items():
        if id in by_others or id in new_ids:
            continue
        same = next((other for other in unmatched.get(chunk.text, ()) if _have_same_source(chunk, other)), None)
        if same is not None:
            ids[id] = same.id
            unmatched[chunk.text].remove(same)
    return ids


def _have_same_source(chunk: Chunk, other: Chunk) -> bool:
    one, two = chunk.metadata.get("source"), other.metadata.get("source")
    return one is None or two is None or one == two
