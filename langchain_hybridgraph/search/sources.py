"""Sources of candidates."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution.effects import Effect, forget
from langchain_hybridgraph.records import Query, SourceResult, best_first, content_id
from langchain_hybridgraph.search.conversation import turns
from langchain_hybridgraph.stores import protocols

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.filters.expressions import Filter


# Vector, keyword and session sources of candidates.


class Source(Protocol):
    """Source of one ranked list of candidates, with its weight in the fusion."""

    @property
    def name(self) -> str:
        """Name that appears in ``retrieval_source`` and in ``degraded``."""

    @property
    def weight(self) -> float:
        """Weight of this source's ranks or scores, relative to other sources."""

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call for a SourceResult of up to n entries, or None if the query has no input for this source."""

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return the call for scores by id of others' candidates, or None if this source cannot score them."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorSource:
    """Source of the chunks whose vectors have the largest cosines with the query's vector."""

    store: protocols.SearchesVectors
    weight: float
    name: str = "vector"
    shared_call: _SharedCall | None = field(default=None, kw_only=True)

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches by the query's vector, or by the vector of its text if it has no vector."""
        if query.vector is None and query.text is None:
            return None
        if self.shared_call is not None and query.text is not None:  # without a text, there is no keyword search
            return self.shared_call.effect("vector", query, n)
        store, search = self.store, getattr(self.store, "avector_search", None)
        awaited = None if search is None else partial(search, query, n)
        return Effect(self.name, partial(store.vector_search, query, n), awaited, owner=store)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return the call for the cosines of the chunks with the query's vector, or None without a vector."""
        vector, store = result.vector, self.store
        if vector is None:
            return None
        quick = getattr(store, "has_fast_lookups", False)
        return Effect(self.name, partial(store.vector_scores, vector, ids), quick=quick, owner=store)


@dataclass(frozen=True, slots=True, eq=False)
class KeywordSource:
    """Source of the chunks with the highest BM25 scores."""

    store: protocols.SearchesKeywords
    weight: float
    name: str = "keyword"
    shared_call: _SharedCall | None = field(default=None, kw_only=True)

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches for the words of the query's text, or None for a query without text."""
        if query.text is None:
            return None
        if self.shared_call is not None:
            return self.shared_call.effect("keyword", query, n)
        store = self.store
        quick = getattr(store, "has_fast_keyword_search", False)
        return Effect(self.name, partial(store.keyword_search, query, n), quick=quick, owner=store)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return the call that computes the BM25 scores of the chunks ``ids``, or None for a query without text."""
        text, store = query.text, self.store
        if text is None:
            return None
        # A store with a shared call has usually just read the chunks, but may have to read them again.
        return Effect(self.name, partial(store.keyword_scores, text, ids), quick=self.shared_call is None, owner=store)


@dataclass(frozen=True, slots=True, eq=False)
class TimedVectorSource(VectorSource):
    """Source of the chunks most similar to the query, with additional chunks from times that the query mentions.

    The user may mean a chunk from a mentioned time even if other chunks are more similar. ``within`` returns the filter
    for a second search limited to these times, or None if the query mentions none.
    """

    all: VectorSource = field(kw_only=True)
    within: Callable[[Query], Filter | None] = field(kw_only=True)

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches all chunks and those from mentioned times, with one vector."""
        call = self.all.search(query, n)
        times = self.within(query)
        if call is None or times is None:
            return call
        store, first, afirst = self.store, call.run, call.arun

        def narrowed(result: SourceResult) -> Query:
            vector = query.vector if result.vector is None else result.vector
            return replace(query, scope=query.scope.narrowed(times), vector=vector)

        def run() -> SourceResult:
            result = first()
            return _both(result, store.vector_search(narrowed(result), n))

        async def arun() -> SourceResult:
            assert afirst is not None
            assert protocols.implements(store, protocols.AwaitsVectors)
            result = await afirst()
            return _both(result, await store.avector_search(narrowed(result), n))

        return call._replace(run=run, arun=None if afirst is None else arun)


def _both(result: SourceResult, more: SourceResult) -> SourceResult:
    best = best_first({**more.scores, **result.scores}.items())
    return result._replace(ids=list(best), scores=best, chunks={**more.chunks, **result.chunks})


@dataclass(frozen=True, slots=True, eq=False)
class ListedSource:
    """Source of chunks that were listed, not searched; it cannot score others."""

    weight: float = 1.0
    name: str = "filter"

    def search(self, query: Query, n: int) -> None:
        """Return None."""

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> None:
        """Return None."""


# Sources of a store with native hybrid search.


def hybrid_sources(
    store: protocols.SearchesHybrid, vector_weight: float, keyword_weight: float
) -> tuple[VectorSource, KeywordSource]:
    """Return a vector source and a keyword source that share one request, which the first one makes."""
    shared = _SharedCall(store)
    return (
        VectorSource(store, vector_weight, shared_call=shared),
        KeywordSource(store, keyword_weight, shared_call=shared),
    )


class _SharedCall:
    """Call to the store that is made once per query. Each source receives its part of the result."""

    def __init__(self, store: protocols.SearchesHybrid) -> None:
        self.store = store
        self._lock = Lock()
        self._result: tuple[Query, protocols.HybridResult | Exception] | None = None
        self._task: tuple[Query, asyncio.Task[protocols.HybridResult]] | None = None

    def run(self, query: Query, n: int) -> protocols.HybridResult:
        """Return the store's result for the query, called once; wait if another thread has called it."""
        with self._lock:
            if self._result is None or self._result[0] is not query:
                try:
                    self._result = query, self.store.hybrid_search(query, n)
                except Exception as error:  # noqa: BLE001 - both sources raise the same error
                    self._result = query, error
            result = self._result[1]
        if isinstance(result, Exception):
            raise result
        return result

    async def arun(self, query: Query, n: int) -> protocols.HybridResult:
        """Await the store's result for the query, called once; cancelling one source does not cancel it."""
        if self._task is None or self._task[0] is not query:
            self._task = query, asyncio.ensure_future(self.store.ahybrid_search(query, n))
            self._task[1].add_done_callback(forget)
        return await asyncio.shield(self._task[1])

    def effect(self, name: Literal["vector", "keyword"], query: Query, n: int) -> Effect:
        """Return the call for the part ``name`` of the result."""

        async def arun() -> SourceResult:
            return cast("SourceResult", getattr(await self.arun(query, n), name))

        return Effect(name, lambda: getattr(self.run(query, n), name), arun, owner=self.store)


# Turns of a session, from a store or history.


class SessionTurns:
    """Turns of a session, newest first. They are read once for each call, and then kept in ``turns``.

    ``history`` is a chat history or a list of messages, whose texts ``embed`` converts to unit vectors (None without an
    embedding). Otherwise, the turns are those of the session ``session_id`` in a store. ``is_foreign`` is True for
    turns that are not in the store.
    """

    def __init__(
        self,
        n: int,
        *,
        store: protocols.HasSessions | None = None,
        session_id: str = "",
        history: Any = None,
        embed: Callable[[Sequence[str]], NDArray[np.float32] | None] | None = None,
    ) -> None:
        self.turns: Sequence[Chunk] = ()
        self.is_foreign = store is None
        self.history = history
        self._n, self._store, self._session_id, self._embed = n, store, session_id, embed
        self._vectors: NDArray[np.float32] | None = None

    def read(self, query: Query) -> Sequence[Chunk]:
        """Read the turns for a query, and return them."""
        if self._store is not None:
            self.turns = self._store.sessions.turns(self._session_id, self._n, query.scope)
            return self.turns
        chunks: dict[str, Chunk] = {}
        last = turns(self.history, query.text or "")[::-1][: self._n]
        for turn in last:
            id = content_id(turn.text, "")
            chunks[id] = Chunk(id, turn.text, {"role": turn.speaker} if turn.speaker else {})
        self.turns = list(chunks.values())
        self._vectors = None if self._embed is None else self._embed([turn.text for turn in self.turns])
        return self.turns

    def vectors(self, store: protocols.ReadsChunks) -> NDArray[np.float32] | None:
        """Return the unit vectors of the turns that were read, or None if they have no vectors."""
        if self.is_foreign or not protocols.implements(store, protocols.HasVectors):
            return self._vectors
        return store.vectors([turn.id for turn in self.turns])


@dataclass(frozen=True, slots=True, eq=False)
class SessionSource:
    """Source of the last turns of a session, newest first. The i-th of n turns has the score 1 − (i − 1) / n.

    The result contains the texts of turns that are not in the store.
    """

    session: SessionTurns
    weight: float
    name: str = "session"

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that reads the turns; the text of the query is not used."""
        session = self.session

        def run() -> SourceResult:
            newest, is_foreign = session.read(query), session.is_foreign
            n = len(newest)
            scores = {turn.id: 1 - i / n for i, turn in enumerate(newest)}
            return SourceResult.of(scores, chunks={turn.id: turn for turn in newest} if is_foreign else {})

        return Effect(self.name, run, quick=not session.is_foreign, owner=session.history)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> None:
        """Return None: this source cannot score chunks that are not turns."""


# Ids of chunks that several sources found.


def unify_ids(results: Mapping[Source, SourceResult]) -> dict[Source, SourceResult]:
    """Return the results with one id per chunk, even if two sources use different ids for the same text.

    If the vector search and another source each found a chunk with the same text, both get the id from the other
    source, or that from the vector search if the other is only a hash of the content: a vector store may generate its
    own ids, while the ids of a keyword retriever come from the application. Texts with different ``source`` stay
    different chunks.

    Only results with ``chunks`` are compared; those of this package's stores have none.
    """
    by_vector: dict[str, Chunk] = {}
    by_others: dict[str, Chunk] = {}
    for source, result in results.items():
        (by_vector if source.name == "vector" else by_others).update(result.chunks)
    unmatched: dict[str, list[Chunk]] = {}
    for id, chunk in by_others.items():
        if id not in by_vector:
            unmatched.setdefault(chunk.text, []).append(chunk)
    new_ids: dict[str, str] = {}
    for id, chunk in by_vector.items():
        for other in () if id in by_others else unmatched.get(chunk.text, ()):
            one, two = chunk.metadata.get("source"), other.metadata.get("source")
            if one is None or two is None or one == two:
                is_hash = other.id == content_id(other.text, str(two or ""))
                new_ids |= {other.id: id} if is_hash else {id: other.id}
                unmatched[chunk.text].remove(other)
                break
    return _renamed(results, new_ids) if new_ids else dict(results)


def merge_copies(results: Mapping[Source, SourceResult], store: object) -> dict[Source, SourceResult]:
    """Return the results with one entry per text in each list, even if the store contains copies of the text.

    Copies are chunks with equal text and metadata. They get the id that the store uses for all of them, or else the id
    of a copy that several sources or only a source without vectors found, or else of the first. Only results with
    ``chunks`` are compared.
    """
    chunks = {id: chunk for result in results.values() for id, chunk in result.chunks.items()}
    counts = Counter(chunk.text for chunk in chunks.values())
    # With a single source, the store may not have been checked for deleted texts, so its id may be out of date.
    stored_ids = {}
    if len(results) > 1 and protocols.implements(store, protocols.KnowsCopies):
        stored_ids = store.ids_of_copies(chunks.values())
    other_ids = {id for source, each in results.items() if source.name != "vector" for id in each.ids}
    copies: dict[tuple[str, str], list[str]] = {}
    for id, chunk in chunks.items():
        if counts[chunk.text] > 1:
            copies.setdefault(chunk.content, []).append(id)
    new_ids = {id: next((each for each in ids if each in other_ids), ids[0]) for ids in copies.values() for id in ids}
    # The chunk with the store's id may have been changed since the store was read.
    new_ids |= {id: new for id, new in stored_ids.items() if chunks.get(new, chunks[id]).content == chunks[id].content}
    return _renamed(results, {id: new for id, new in new_ids.items() if id != new})


def _renamed(results: Mapping[Source, SourceResult], new_ids: Mapping[str, str]) -> dict[Source, SourceResult]:
    """Return the results with new ids for their ``chunks``; a list contains each new id once."""
    if not new_ids:
        return dict(results)
    renamed = {}
    for source, result in results.items():
        scores: dict[str, float] = {}
        chunks: dict[str, Chunk] = {}
        for id in result.ids:
            chunk = result.chunks.get(id)
            new = id if chunk is None else new_ids.get(id, id)
            if new not in scores:
                scores[new] = result.scores[id]
                if chunk is not None:
                    chunks[new] = chunk if new == id else replace(chunk, id=new)
        renamed[source] = result._replace(ids=list(scores), scores=scores, chunks=chunks)
    return renamed
