"""Stage that searches all sources for candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.records import Chunk, ScoredId, SourceResult, content_id
from langchain_hybridgraph.stores.protocols import KnowsCopies, implements

MIN_CANDIDATES = 100
"""Minimum number of candidates requested from each source; fewer scores are not enough for a good normalisation."""
MAX_CANDIDATES = 20_000
"""Number of candidates at which no more are requested from a source, even if most of them are copies of one another."""


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
    results: dict[Source, SourceResult] = {}
    unified: dict[Source, SourceResult] = {}
    sources: Sequence[Source] = pipeline.sources
    with trace.stage("gather"):
        while searches := [(source, call) for source in sources if (call := source.search(query, n)) is not None]:
            answers = yield from context.ask_all([call for _, call in searches], is_required=not results)
            latest = {source: each for (source, _), each in zip(searches, answers, strict=True) if each is not None}
            results |= latest
            unified = unify_ids(results)
            if not pipeline.merges_copies:
                break
            unified = merge_copies(unified, pipeline.store)
            # If most of the n entries are copies, the source may have more texts.
            few = max(query.k, n // 2) if n < MAX_CANDIDATES else 0
            sources = [each for each in latest if len(latest[each].entries) >= n and len(unified[each].entries) < few]
            n *= 4
    for result in results.values():
        trace.degrade(result.reason, result.remark)
        if result.entries and not result.are_cosines:
            trace.degrade("no-cosine", "the vector store does not document how its scores relate to cosines")
    return unified


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
    return _renamed(results, new_ids | _ids_for_vector_results(results, new_ids))


def merge_copies(results: Mapping[Source, SourceResult], store: object) -> dict[Source, SourceResult]:
    """Return the results with one entry per text in each list, even if the store contains copies of the text.

    Copies are chunks with equal text and metadata. They get the id that the store uses for all of them or, if there is
    none, the id of a copy that several sources or only a source without vectors found, or else of the first copy. Only
    entries that contain their chunk are compared, as in :func:`unify_ids`.
    """
    chunks = _chunks_of(results)
    counts = Counter(chunk.text for chunk in chunks.values())
    # With a single source, the store may not have been checked for deleted texts, so its id may be out of date.
    stored_ids = store.ids_of_copies(chunks.values()) if len(results) > 1 and implements(store, KnowsCopies) else {}
    other_ids = {entry.id for source, each in results.items() if source.name != "vector" for entry in each.entries}
    copies: dict[tuple[str, str], list[str]] = {}
    for id, chunk in chunks.items():
        if counts[chunk.text] > 1:
            copies.setdefault(chunk.content, []).append(id)
    new_ids = {id: next((each for each in ids if each in other_ids), ids[0]) for ids in copies.values() for id in ids}
    # The chunk with the store's id may have been changed since the store was read.
    new_ids |= {id: new for id, new in stored_ids.items() if chunks.get(new, chunks[id]).content == chunks[id].content}
    return _renamed(results, {id: new for id, new in new_ids.items() if id != new})


def _renamed(results: Mapping[Source, SourceResult], new_ids: Mapping[str, str]) -> dict[Source, SourceResult]:
    """Return the results with new ids in entries that contain their chunk; a list contains each new id once."""
    if not new_ids:
        return dict(results)
    renamed = {}
    for source, result in results.items():
        entries: dict[str, ScoredId] = {}
        for e in result.entries:
            id = new_ids.get(e.id, e.id) if e.chunk else e.id
            entries.setdefault(
                id, e if id == e.id or e.chunk is None else ScoredId(id, e.score, replace(e.chunk, id=id))
            )
        renamed[source] = result._replace(entries=list(entries.values()))
    return renamed


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
