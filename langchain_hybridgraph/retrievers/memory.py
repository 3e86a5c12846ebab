"""MemoryRetriever, which searches memories."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field, PrivateAttr

from langchain_hybridgraph.adapters.tool import SearchArguments
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import Filter, by_meta, created_after, created_before, has_labels
from langchain_hybridgraph.memory_scores import DAY, DAYS_AFTER, DAYS_BEFORE, Scoring, TimeEvidence
from langchain_hybridgraph.options.arguments import MEMORY_ONLY, Options
from langchain_hybridgraph.options.base import check_value
from langchain_hybridgraph.options.models import MODES, MemoryFields, MemoryOptions, Mode, mode_from
from langchain_hybridgraph.options.objects import session_in
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.retrievers.base import PreparedSearch, TextsOfCalls
from langchain_hybridgraph.retrievers.graph import GraphRetriever
from langchain_hybridgraph.search.context import Pipeline
from langchain_hybridgraph.search.evidence import CombinedTraversal, LinkEvidence
from langchain_hybridgraph.search.expansion import Expansion
from langchain_hybridgraph.search.fusion import ReciprocalRankFusion
from langchain_hybridgraph.search.scores import NoisyOr
from langchain_hybridgraph.search.sources import SessionSource, SessionTurns, TimedVectorSource, VectorSource
from langchain_hybridgraph.stores import protocols
from langchain_hybridgraph.stores.vectors import unit
from langchain_hybridgraph.text.dates import mentioned_spans
from langchain_hybridgraph.times import parse_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EVIDENCE = LinkEvidence()
# Maximum number of messages whose vectors are cached.
MOST_MESSAGES = 1_000
# Maximum number of the newest memories that are considered if nothing is similar to the question.
MOST_RECENT = 1_000


class MemorySearchArguments(SearchArguments):
    """Arguments of a tool that searches memories: query, k, filter, time, labels and session."""

    as_of: str | None = Field(
        None, description="Point in time to search as of, an ISO date such as 2024-05-01; unset: now."
    )
    labels: list[str] | str | None = Field(None, description="Only memories that have all of these labels.")
    session_id: str | None = Field(None, description="Id of the conversation whose last turns are searched, too.")


class MemoryRetriever(GraphRetriever, MemoryFields):
    """Retriever for memories that scores them by similarity, confidence, recency and utility.

    A vector search and a keyword search find memories, the last turns of a session are added, and the graph is
    traversed from all of these. ``mode`` determines how the hits are scored before the best k are selected. It is
    ``"general"``, ``"belief_system"``, ``"agent_memory"`` or ``"procedural"``, or a mapping with parameters, such as
    ``{"type": "general", "recency": 0.3}``. The default is the store's mode (``set_mode``), or general if the store has
    none. Confidence and utility are learned by a :class:`HybridGraphStore`; with any other store, ``confidence``,
    ``utility`` and ``valid_from`` in the metadata are used. ``score_breakdown`` contains parts that add up to the
    score.

    A session is passed as ``session=`` (a chat history or a list of messages) or, if the store keeps sessions, as
    ``session_id=``. Without either, the config of ``invoke`` selects one by ``session_id`` or ``thread_id``. Memories
    that repeat what is in the session are down-weighted (``novelty``). The last turn of the session is left out if it
    is the question itself.

    ``as_of`` is the point in time to search as of; with ``known_at``, only what was stored by that time is used.
    Memories from a date that the question mentions are boosted (``date_boost``). ``source_weights`` are the weights of
    ``vector``, ``keyword``, ``graph`` and ``session``. Without a weight for ``keyword``, the vector and keyword
    searches share the weight of ``vector``.

    By default, two traversals follow edges: that of the mode, and :class:`LinkEvidence` from the best hits. A
    ``traversal`` of your own, in ``graph`` or in the mode, is used alone, and so is the traversal of a ``preset``. With
    a ``score`` in ``graph``, the traversal of the mode is used alone.

    >>> from langchain_hybridgraph import HybridGraphStore
    >>> facts = {"sure": "The gate code is 4711.", "doubted": "The gate code is 1234."}
    >>> trust = [{"confidence": 0.9}, {"confidence": 0.1}]
    >>> store = HybridGraphStore.from_texts(list(facts.values()), "lsa", trust, ids=list(facts))
    >>> [document.id for document in MemoryRetriever(store, k=1).invoke("What is the gate code?")]
    ['sure']
    """

    _sections: ClassVar[tuple[str, ...]] = (*GraphRetriever._sections, "memory")
    _call_options: ClassVar[frozenset[str]] = GraphRetriever._call_options | MEMORY_ONLY
    _tool_arguments: ClassVar[type[BaseModel]] = MemorySearchArguments
    _embedded: TextsOfCalls[NDArray[np.float32]] = PrivateAttr(default_factory=TextsOfCalls)

    # -- retrieving -----------------------------------------------------------------------------------------

    def _read(self, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        sessions = (options.get("session"), options.get("session_id"), self.session, self.session_id)
        has_sessions = protocols.implements(self._store, protocols.HasSessions)
        if has_sessions and all(session is None for session in sessions):
            options = {**options, **session_in(config)}
        return input, options

    def _prepare(self, query: str | None, options: Options, callbacks: Any = None) -> PreparedSearch:
        prepared_search = super()._prepare(query, options, callbacks)
        prepared_search.trace.has_context = self._session(options) is not None
        text, session_id = prepared_search.query.text, options.get("session_id")
        session_id = self.session_id if session_id is None else session_id
        if text is None or session_id is None or options.get("session") is not None:
            return prepared_search
        scope = _without_question(self._store, session_id, text, prepared_search.query.scope)
        return replace(prepared_search, query=replace(prepared_search.query, scope=scope))

    # -- settings of the pipeline ---------------------------------------------------------------------------

    def _pipeline(self, options: Options, callbacks: Any) -> Pipeline:
        options = {**options, "mode": self._mode(options)}
        pipeline = super()._pipeline(options, callbacks)
        if self.labels:
            labels = has_labels(all_of=sorted(self.labels))
            pipeline = replace(pipeline, own_filter=labels if self.filter is None else self.filter & labels)
        store, expansion, session = self._store, pipeline.expansion, self._session(options)
        sources = list(pipeline.sources)
        if self._memory(options).date_boost:
            for place, source in enumerate(sources):
                if isinstance(source, VectorSource):
                    sources[place] = TimedVectorSource(source.store, source.weight, all=source, within=_within)
        weight = self._source_weights(options).get("session", 0.0)
        if session is not None and weight:
            sources.append(SessionSource(session, weight))
        if protocols.implements(store, protocols.ReadsIndex) and (expansion is None or not expansion.is_graph_only):
            pipeline = replace(pipeline, newest=lambda scope: store.find(scope)[-MOST_RECENT:])
        return replace(pipeline, sources=tuple(sources), scoring=self._scoring(options, session, weight))

    def _scoring(self, options: Options, session: SessionTurns | None, weight: float) -> Scoring:
        store: Any = self._store
        memory, has_memory = self._memory(options), protocols.implements(store, protocols.HasMemory)
        similarity = None if session is None else partial(_similarity_to_session, store, session, reads=not weight)
        return Scoring(
            composite=self._mode(options),
            states=store.memory.states if has_memory else lambda ids, scope: {},
            state_columns=store.memory.columns if has_memory and not (session and session.is_foreign) else None,
            hotness=memory.hotness,
            novelty=memory.novelty,
            session_similarity=similarity,
            time_evidence=partial(_dates, boost=memory.date_boost) if memory.date_boost else None,
        )

    def _mode(self, options: Options) -> Mode:
        mode = options.get("mode", self.mode)
        if mode is None and protocols.implements(self._store, protocols.HasMemory):
            mode = self._store.memory.mode
        return mode_from("general" if mode is None else mode)

    def _session(self, options: Options) -> SessionTurns | None:
        messages, id = options.get("session"), options.get("session_id")
        if messages is None and id is None:
            messages, id = self.session, self.session_id
        if messages is not None and id is not None:
            raise ConfigurationError("session= and session_id= were both given; pass only one of them")
        n = self._memory(options).session_turns
        if messages is not None:
            return SessionTurns(n, history=messages, embed=self._vectors_of)
        if id is None:
            return None
        store = self._store
        if not protocols.implements(store, protocols.HasSessions):
            raise ConfigurationError(
                f"session_id={id!r} needs a store that keeps sessions, such as HybridGraphStore; for another store "
                "pass session=[messages] or a chat history"
            )
        return SessionTurns(n, store=store, session_id=id)

    def _vectors_of(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        embedding = self.vector_store.embeddings
        if embedding is None or not texts:
            return None
        cache = self._embedded
        new = [text for text in dict.fromkeys(texts) if text not in cache]
        if new:
            embedded = zip(new, embedding.embed_documents(new), strict=True)
            cache |= {text: unit(np.asarray(vector, np.float32)) for text, vector in embedded}
        vectors = np.stack([cache[text] for text in texts])
        while len(cache) > MOST_MESSAGES:
            cache.pop(next(iter(cache)), None)
        return vectors

    def _expansion(self, options: Options) -> Expansion | None:  # type: ignore[override]  # no search without a weight
        expansion = super()._expansion(options)
        weights = self._source_weights(options)
        weight = weights.get("graph", 0.0)
        if not weight and not expansion.is_graph_only:
            return None
        requested, mode = options["graph"].traversal, self._mode(options)
        if self._requested_score(options) is not None:
            own = requested is not None or self.preset is not None
            return expansion if own else replace(expansion, traversal=mode.traversal)
        traversal = requested or mode.traversal
        is_default = requested is None and any(mode.traversal == each.traversal for each in MODES.values())
        combined = replace(
            expansion,
            traversal=CombinedTraversal(_EVIDENCE, traversal) if is_default else traversal,
            score=NoisyOr(min(1.0, weight / (weights.get("vector") or weight or 1.0))),
            is_requested=requested is not None or self.edges is not None or expansion.is_graph_only,
        )
        if isinstance(self.fusion, ReciprocalRankFusion) and self.fusion.normalize == "theoretical":
            searched = sum(weight for name, weight in weights.items() if name != "graph")
            return replace(combined, share=weight / (searched + weight), rank_constant=self.fusion.rank_constant)
        return combined

    def _weights(self, options: Options) -> tuple[float, float]:
        vector, words = super()._weights(options)
        weights = self._source_weights(options)
        weight = weights.get("vector", 0.0)
        return (weight, weights["keyword"]) if "keyword" in weights else (weight * vector, weight * words)

    def _memory(self, options: Options) -> MemoryOptions:
        return self.memory.changed(options.get("memory"))

    def _source_weights(self, options: Options) -> Mapping[str, float]:
        return cast(Mapping[str, float], self._memory(options).source_weights)

    def _scope(self, options: Options) -> Scope:
        scope = super()._scope(options)
        call_labels, known_at = options.get("labels"), options.get("known_at")
        labels = self.labels | check_value(type(self), "labels", call_labels)
        known_time = self.known_at if known_at is None else parse_time(known_at)
        if known_time is not None and not protocols.implements(self._store, protocols.HasMemory):
            raise ConfigurationError(
                f"known_at={known_at!r} needs a store that records when memories were stored, such as HybridGraphStore"
            )
        if labels:
            scope = scope.narrowed(has_labels(all_of=sorted(labels)))
        return replace(scope, known_at=known_time)


# -- functions of the scoring stage ---------------------------------------------------------------------------


def _similarity_to_session(
    store: protocols.ReadsChunks, session: SessionTurns, ids: Sequence[str], query: Query, *, reads: bool = False
) -> Sequence[float]:
    """Return, for each chunk, its largest cosine with another turn of the session, or 0 without vectors."""
    if reads:
        session.read(query)
    turns = session.vectors(store)
    if turns is None or not len(turns) or not protocols.implements(store, protocols.HasVectors):
        return [0.0] * len(ids)
    vectors = store.vectors(ids)
    if vectors.shape[1] != turns.shape[1]:
        return [0.0] * len(ids)  # no chunk has a vector yet
    cosines = vectors @ turns.T
    own = {turn.id: place for place, turn in enumerate(session.turns)}
    for place, id in enumerate(ids):
        if id in own:
            cosines[place, own[id]] = 0.0
    return cast(list[float], cosines.max(axis=1).tolist())


def _without_question(store: Any, session_id: str, question: str, scope: Scope) -> Scope:
    """Return the scope, excluding the session's last turn if that turn is the question itself."""
    for turn in store.sessions.turns(session_id, 1, scope):
        metadata = turn.metadata
        if metadata.get("role") == "user" and "turn" in metadata and turn.text.strip() == question.strip():
            is_question = by_meta(session_id=metadata["session_id"], turn=metadata["turn"])
            return scope.narrowed(~is_question)
    return scope


def _spans(query: Query) -> list[tuple[float, float]]:
    return mentioned_spans(query.text or "", time.time() if query.scope.as_of is None else query.scope.as_of)


def _dates(query: Query, boost: float) -> TimeEvidence | None:
    return TimeEvidence(spans, boost) if (spans := _spans(query)) else None


def _within(query: Query) -> Filter | None:
    """Return a filter for memories from around the dates in a query, if there are any."""
    parts = [
        created_after(start - DAYS_BEFORE * DAY, key=key) & created_before(end + DAYS_AFTER * DAY, key=key)
        for start, end in _spans(query)
        for key in ("valid_from", "created_at")
    ]
    return reduce(or_, parts) if parts else None
