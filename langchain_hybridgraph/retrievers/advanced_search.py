"""Searches of AdvancedRetriever, and their fusion."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.adapters.documents import annotate, chunk_id, score_notes
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.execution.effects import (
    Effect,
    Failure,
    Search,
    Trace,
    ask,
    ask_or_raise,
    attempt,
    is_asynchronous,
    part_of_deadline,
    together,
)
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.options.arguments import check_vector
from langchain_hybridgraph.options.conversations import ConversationCall
from langchain_hybridgraph.records import Annotate, FusedCandidate, Hit, Ranking, ScoredId
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever, Result
from langchain_hybridgraph.search.conversation import (
    AppendHistory,
    AsyncExpander,
    ExpandedQuery,
    HistoryTerms,
    StripQuestion,
    Turn,
    is_small_talk,
    turns,
)
from langchain_hybridgraph.search.fusion import ConvexCombination, ReciprocalRankFusion
from langchain_hybridgraph.search.planner import has_messages, messages_call
from langchain_hybridgraph.stores.generations import FittedEmbedding
from langchain_hybridgraph.stores.protocols import implements

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector


T = TypeVar("T")

_OWN_SCORES = ("vector_score", "bm25_score", "rerank_score")
_SCORES = ("score", "score_breakdown", "retrieval_source")


def fuse_by_score(
    answers: Mapping[str, Result | Failure],
    weights: Mapping[str, float],
    k: int | None,
    trace: Trace,
    *,
    min_score: float = 0.0,
    prefix: str = "",
) -> Result:
    """Return the k best Documents by the weighted mean of their scores in two searches.

    Both searches must be those of this package's retrievers. A Document has the score 0 in a search that did not find
    it. The mean is computed from the uncalibrated scores, and then calibrated. Documents with a mean below
    ``min_score`` are left out.

    ``prefix`` is put in front of the added metadata keys. The other arguments and the errors are the same as for
    :func:`fuse_by_rank`.
    """
    results = _successful(answers, trace)
    rankings = [_ranking(name, weights[name], one, prefix + "score", unit_of(one)) for name, one in results.items()]
    firsts = {ranking.source: ranking.entries[0].score for ranking in rankings if ranking.entries}
    fused_scale = math.fsum(weights[name] * first for name, first in firsts.items())
    answer_scale = math.fsum(weights[name] * first * unit_of(results[name]) for name, first in firsts.items())
    unit = answer_scale / fused_scale if fused_scale else 1.0
    fused = [
        FusedCandidate(one.id, min(1.0, unit * one.score), {name: unit * part for name, part in one.parts.items()})
        for one in ConvexCombination(normalize="bound")(rankings)
    ]
    return _combined_result(results, [one for one in fused if one.score >= min_score], k, trace, prefix=prefix)


def unit_of(result: Result) -> float:
    """Return the factor by which the scores of a result were calibrated, or 1 if they were not calibrated."""
    return 1.0 if result.answerability is None else result.answerability.unit


def fuse_by_rank(
    answers: Mapping[str, Result | Failure],
    weights: Mapping[str, float],
    k: int | None,
    trace: Trace,
    *,
    level: Annotate = "all",
) -> Result:
    """Return the k best Documents by weighted reciprocal rank.

    Without ``k``, the result is as long as the longer answer.

    The keys of ``answers`` and ``weights`` are the names of the searches. ``level`` determines which metadata are added
    to the Documents. If a search failed, the results of the others are fused, and ``trace`` records the failure. If all
    of them failed, the error of the first is raised. A TypeError or ValueError of the first search is always raised,
    because it means that the call was invalid.
    """
    results = _successful(answers, trace)
    best = ReciprocalRankFusion()([_ranking(name, weights[name], one) for name, one in results.items()])
    return _combined_result(results, best, k, trace, level=level)


def _combined_result(
    results: dict[str, Result],
    best: Sequence[FusedCandidate],
    k: int | None,
    trace: Trace,
    *,
    prefix: str = "",
    level: Annotate = "all",
) -> Result:
    best = best[: max(map(len, results.values())) if k is None else k]
    documents = {name: _by_id(one) for name, one in results.items()}
    hits = {name: {hit.id: hit for hit in one.hits} for name, one in results.items()}
    for reason in (reason for one in results.values() for reason in one.degraded):
        trace.degrade(reason)
    estimates = [one.answerability for one in results.values() if one.answerability is not None]
    return RetrievalResult(
        [_document(one, rank, _entries_of(one.id, documents), prefix, level) for rank, one in enumerate(best, start=1)],
        hits=[_hit(one, entries) for one in best if (entries := _entries_of(one.id, hits))],
        plan=next(iter(results.values())).plan,
        answerability=max(estimates, key=lambda one: one.value, default=None),
    )


def _by_id(results: Result) -> dict[str, tuple[int, Document]]:
    """Return the rank and the Document of each id, the first one if an id is repeated."""
    ranked = [(chunk_id(document), (rank, document)) for rank, document in enumerate(results, start=1)]
    return dict(reversed(ranked))


def _entries_of(id: str, by_search: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    return {name: entries[id] for name, entries in by_search.items() if id in entries}


def _hit(fused: FusedCandidate, entries: Mapping[str, Hit]) -> Hit:
    """Return the hit of the first search that found it, with the fused score and what only the other searches know."""
    first, *others = entries.values()
    hit = replace(
        first,
        score=fused.score,
        parts=_parts(fused, {name: (one.score, one.parts) for name, one in entries.items()}),
        found_by=tuple(dict.fromkeys(source for one in entries.values() for source in one.found_by)),
    )
    for other in others:
        missing = {name: getattr(other, name) for name in _OWN_SCORES if getattr(hit, name) is None}
        hit = replace(hit, **missing)
    return hit


def _document(
    fused: FusedCandidate, rank: int, entries: Mapping[str, tuple[int, Document]], prefix: str, level: Annotate
) -> Document:
    """Return the Document of the first search that found it; at the level "all", with the metadata of all searches."""
    first = next(iter(entries.values()))[1]
    if level != "all":
        return with_notes(first, score_notes(fused.score)) if level == "score" else first
    metadata: dict[str, Any] = {}
    searches: dict[str, dict[str, Any]] = {}
    for name, (place, document) in entries.items():
        metadata |= {key: value for key, value in document.metadata.items() if metadata.get(key) is None}
        own = {key: document.metadata.get(prefix + key) for key in (*_SCORES, *_OWN_SCORES)}
        searches[name] = {"retrieval_rank": place} | {key: value for key, value in own.items() if value is not None}
    sources = {one["retrieval_source"] for one in searches.values() if "retrieval_source" in one} or set(fused.parts)
    scores = {name: (one.get("score"), one.get("score_breakdown")) for name, one in searches.items()}
    notes = {
        "retrieval_rank": rank,
        **score_notes(fused.score),
        "score_breakdown": _parts(fused, scores),
        "retrieval_source": "fused" if len(sources) > 1 else next(iter(sources)),
        "searches": searches,
    }
    prefixed = {prefix + key: value for key, value in notes.items()}
    return first.model_copy(update={"metadata": {**metadata, **prefixed}})


def _parts(fused: FusedCandidate, scores: Mapping[str, tuple[Any, Any]]) -> dict[str, float]:
    """Split a fused score into parts that add up to it, in proportion to the parts in each search, where known."""
    parts: dict[str, float] = {}
    for name, share in fused.parts.items():
        score, own_parts = scores.get(name, (None, None))
        if not (isinstance(own_parts, Mapping) and own_parts and isinstance(score, Real) and score):
            score, own_parts = 1.0, {name: 1.0}
        for part, value in own_parts.items() if share else ():
            parts[part] = parts.get(part, 0.0) + share * value / float(score)
    return parts


def with_notes(document: Document, notes: Mapping[str, Any]) -> Document:
    """Return a copy of a Document with additional metadata; the retriever's Document stays unchanged."""
    return document.model_copy(update={"metadata": {**document.metadata, **notes}})


def _successful(answers: Mapping[str, Result | Failure], trace: Trace) -> dict[str, Result]:
    """Return the successful answers, and record the failures, or raise them as :func:`fuse_by_rank` does."""
    results = {name: one for name, one in answers.items() if not isinstance(one, Failure)}
    first = next(iter(answers))
    for name, failure in ((name, one) for name, one in answers.items() if isinstance(one, Failure)):
        is_wrong_call = name == first and isinstance(failure.error, (TypeError, ValueError))
        if is_wrong_call or not results:
            raise failure.error
        trace.note(failure.source, failure.error)
        trace.degrade(failure.reason)
    return results


def _ranking(name: str, weight: float, results: Result, key: str | None = None, unit: float = 1.0) -> Ranking:
    """Return the ranking of a search, scored by the metadata key ``key`` divided by ``unit``, or 1 without a key."""
    scores = [1.0 if key is None else float(document.metadata.get(key, 0.0)) / unit for document in results]
    entries = [ScoredId(chunk_id(document), score) for document, score in zip(results, scores, strict=True)]
    return Ranking(name, weight, entries, {entry.id: entry.score for entry in entries}, bound=1.0)


# Ratio of the best scores above which two searches are considered equally good (benchmarks/README.md).
SIMILAR_SCORE = 0.9


def is_new_topic(by_question: Result, by_context: Result) -> bool:
    """Return whether a question changes the topic of its conversation.

    This is so if the best score of the search with the question mixed with its context is clearly lower than that of
    the question alone: no chunk is then similar to both.
    """
    return _best_score(by_context) < SIMILAR_SCORE * _best_score(by_question)


def _best_score(result: Result) -> float:
    return result.hits[0].score / unit_of(result) if result.hits else 0.0


DEFAULT_SESSION = "default"
# Number of context words that are added to a keyword search if the embedding is LSA, whose vectors contain only
# relations that occur in the texts. nDCG@10 without and with five words, for conversations about three subjects: .301
# and .316, .574 and .584, .277 and .275.
CONTEXT_WORDS = 5
FUSED = 50  # number of hits of each search that are fused, so that a larger k only adds results at the end


@dataclass(frozen=True, slots=True)
class ConversationSearch:
    """Search in four stages: read the history, expand the question, run the search, describe the answer.

    ``expander``, ``fuse_raw`` and ``get_session_history`` are options of an AdvancedRetriever.
    """

    retriever: AnyRetriever
    expander: Any
    fuse_raw: bool | None
    get_session_history: Callable[[str], Any] | None

    def run(self, call: ConversationCall, trace: Trace) -> Search[Result]:
        """Return the answer to a call whose options have been checked."""
        until = part_of_deadline(call.deadline, 0.5)  # the other half of the time is for the search
        turns_before = yield from self._read_history(call, trace, until)
        text, last = call.query or "", [turn.line for turn in turns_before[-1:]]
        if text.strip() and call.options.get("vector") is None and is_small_talk(text, last):
            trace.degrade("small-talk")
            nothing: Result = RetrievalResult([], hits=[], degraded=())
            return self._describe(_SearchAnswer("none", nothing), call, ExpandedQuery(text), trace)
        expanded_query = yield from self._expand(call.query, turns_before, trace, until)
        answer = yield from self._search(call, expanded_query, trace, until)
        return self._describe(answer, call, expanded_query, trace)

    def _read_history(self, call: ConversationCall, trace: Trace, until: float | None) -> Search[list[Turn]]:
        history, fetch = call.history, self.get_session_history
        if history is None and fetch is not None:
            run = partial(fetch, call.session_id or DEFAULT_SESSION)
            history = yield from ask(trace, Effect("history", run, lane=lane_of("history", fetch), deadline=until))
        if history is not None and not isinstance(history, (str, Sequence, Mapping)) and has_messages(history):
            history = yield from ask(trace, messages_call("history", history)._replace(deadline=until))
        try:
            turns_before = turns(history, call.query or "")
        except ConfigurationError as error:
            if history is call.history:  # the caller passed it
                raise
            trace.record("history", error, "history-failed")
            turns_before = []
        trace.has_context = bool(turns_before)
        return turns_before

    def _expand(
        self, query: str | None, turns_before: Sequence[Turn], trace: Trace, until: float | None
    ) -> Search[ExpandedQuery]:
        """Return the expanded question, or the raw question if there is no history or the expander fails."""
        raw = ExpandedQuery(query or "")
        if not turns_before or not raw.text.strip():
            return raw
        try:
            with trace.stage("expand-query"):
                (answer,) = yield from ask_or_raise(_expander_call(self.expander, raw.text, turns_before, until))
            if isinstance(answer, str) and answer.strip():
                return ExpandedQuery(answer)
            if isinstance(answer, ExpandedQuery):
                return answer
            raise TypeError(f"the expander must return a string or an ExpandedQuery, got {answer!r}")
        except Exception as error:  # noqa: BLE001 - an expander may raise anything; the question stays unchanged
            _record_failure(trace, error)
            return raw

    def _search(
        self, call: ConversationCall, expanded_query: ExpandedQuery, trace: Trace, until: float | None
    ) -> Search[_SearchAnswer]:
        """Search with the raw question, the expanded one, both or, with an embedding and context, a mixed vector."""
        changes_question = expanded_query.text != (call.query or "") or bool(expanded_query.context)
        if not changes_question or not expanded_query.weight:
            return (yield from self._search_once("raw", call.query, call))
        stands_alone = expanded_query.sure and not expanded_query.context
        if self.fuse_raw is False or (self.fuse_raw is None and stands_alone):
            return (yield from self._search_once("expanded", expanded_query.text, call))
        embeddings = self.retriever.embeddings(call.options) if expanded_query.context else None
        if embeddings is None:
            return (yield from self._search_twice(call, expanded_query, trace))
        return (yield from self._search_near_context(call, expanded_query, embeddings, trace, until))

    def _search_once(self, kind: str, text: str | None, call: ConversationCall) -> Search[_SearchAnswer]:
        result = yield from self.retriever.search(
            "retriever", text, call.k, _options_in_time(call), call.callbacks, level=call.level, early=call.early
        )
        return _SearchAnswer(kind, result)

    def _search_twice(
        self, call: ConversationCall, expanded_query: ExpandedQuery, trace: Trace
    ) -> Search[_SearchAnswer]:
        k = call.k
        min_score = self.retriever.setting("min_score", call.options)
        # For this package's retrievers, the mean of both scores has to reach the minimum, not each score.
        options = _options_in_time(call) if min_score is None else {**_options_in_time(call), "min_score": 0.0}
        depth = None if k is None else max(k, FUSED)
        texts = {"question": call.query, "conversation": expanded_query.text}
        searches = [
            attempt(name, self.retriever.search(name, text, depth, options, call.callbacks))
            for name, text in texts.items()
        ]
        search_results = yield from together(searches)
        answers = dict(zip(texts, search_results, strict=True))
        weight = expanded_query.weight if expanded_query.sure else expanded_query.weight / 2
        weights = {"question": 1 - weight, "conversation": weight}
        if min_score is None:
            return _SearchAnswer("both", fuse_by_rank(answers, weights, k, trace, level=call.level))
        fused = fuse_by_score(answers, weights, k, trace, min_score=min_score, prefix=self.retriever.prefix)
        if call.level == "all":
            return _SearchAnswer("both", fused)
        documents = annotate(fused.hits, trace.method, trace.reasons, self.retriever.prefix, call.level)
        return _SearchAnswer(
            "both", RetrievalResult(documents, hits=fused.hits, degraded=fused.degraded, plan=fused.plan)
        )

    def _search_near_context(
        self,
        call: ConversationCall,
        expanded_query: ExpandedQuery,
        embeddings: Embeddings,
        trace: Trace,
        until: float | None,
    ) -> Search[_SearchAnswer]:
        """Search with the weighted mean of the question's and its context's vectors, or the raw question on failure."""
        own = None if (vector := call.options.get("vector")) is None else check_vector(vector)
        texts = [expanded_query.context] if own is not None else [expanded_query.context, call.query or ""]
        try:
            with trace.stage("embed"):
                vectors = yield from ask_or_raise(*(_embedding_call(embeddings, text, until) for text in texts))
        except Exception as error:  # noqa: BLE001 - an embedding may raise anything; the question stays unchanged
            _record_failure(trace, error)
            return (yield from self._search_once("raw", call.query, call))
        context, question = _unit_vector(vectors[0]), _unit_vector(own if own is not None else vectors[1])
        vector = cast("Vector", (1 - expanded_query.weight) * question + expanded_query.weight * context)
        if getattr(self.retriever.retriever, "reranker", None) is not None:
            # A reranker reads only text, so it needs the words that the follow-up question leaves out.
            return (yield from self._search_once("mixed", expanded_query.text, _with_vector(call, vector)))
        if expanded_query.sure:
            text = call.query
            if isinstance(embeddings, FittedEmbedding):
                text = _with_context_words(call.query or "", expanded_query.text)
            return (yield from self._search_once("mixed", text, _with_vector(call, vector)))
        return (yield from self._search_by_both_vectors(call, question, vector))

    def _search_by_both_vectors(self, call: ConversationCall, question: Vector, mixed: Vector) -> Search[_SearchAnswer]:
        """Search with the mixed vector and the question's own, whose answer is used if :func:`is_new_topic`."""
        vectors = {"question": question, "conversation": mixed}
        searches = [
            self.retriever.search(
                name, call.query, call.k, _options_in_time(_with_vector(call, vector)), call.callbacks, level=call.level
            )
            for name, vector in vectors.items()
        ]
        answers = yield from together(searches)
        return _SearchAnswer("raw", answers[0]) if is_new_topic(*answers) else _SearchAnswer("mixed", answers[1])

    def _describe(
        self, answer: _SearchAnswer, call: ConversationCall, expanded_query: ExpandedQuery, trace: Trace
    ) -> Result:
        result, has_own_reasons = answer.result, bool(trace.reasons)
        trace.method = str(result.plan.get("method") or "other")
        for reason in result.degraded:
            trace.degrade(reason)
        documents, hits = list(result)[: call.k], result.hits[: call.k]
        if call.level == "all" and has_own_reasons:
            notes = {self.retriever.prefix + "degraded": list(trace.reasons)}
            if hits:  # these Documents were made for this answer, and some may already have been streamed
                for document in documents:
                    document.metadata |= notes
            else:
                documents = [with_notes(document, notes) for document in documents]
        plan = result.plan | {
            "query": call.query,
            "k": call.k,
            "expanded_query": expanded_query.text,
            "context": expanded_query.context,
            "weight": expanded_query.weight,
            "searched": answer.kind,
            "stages_ms": {name: round(ms, 3) for name, ms in trace.stages.items()} | result.plan.get("stages_ms", {}),
            "errors": trace.errors | result.plan.get("errors", {}),
        }
        return RetrievalResult(
            documents,
            hits=hits,
            degraded=trace.reasons,
            took_ms=trace.took_ms,
            plan=plan,
            answerability=result.answerability,
        )


class _SearchAnswer(NamedTuple):
    """An answer and the kind of query that produced it: "raw", "expanded", "both", "mixed" or "none"."""

    kind: str
    result: Result


def _expander_call(expander: Any, text: str, turns_before: Sequence[Turn], until: float | None) -> Effect:
    awaited = (lambda: expander.acall(text, turns_before)) if implements(expander, AsyncExpander) else None
    quick = isinstance(expander, (AppendHistory, HistoryTerms, StripQuestion))
    lane = lane_of("expander", expander)
    return Effect("expander", lambda: expander(text, turns_before), awaited, quick=quick, lane=lane, deadline=until)


def _embedding_call(embeddings: Embeddings, text: str, until: float | None) -> Effect:
    awaited = (lambda: embeddings.aembed_query(text)) if is_asynchronous(embeddings) else None
    lane = lane_of("embedding", embeddings)
    return Effect("expander", lambda: embeddings.embed_query(text), awaited, lane=lane, deadline=until)


def _with_context_words(query: str, expanded_query: str) -> str:
    """Return the query twice, to double its weight, and the first words that only the expanded query contains.

    >>> _with_context_words("and its price?", "and its price? red cars Tesla Roadster")
    'and its price? and its price? red cars Tesla Roadster'
    """
    words = query.lower().split()
    lacking = [word for word in expanded_query.split() if word.lower() not in words]
    return " ".join([query, query, *lacking[:CONTEXT_WORDS]]) if lacking else query


def _unit_vector(vector: Sequence[float] | Vector) -> Vector:
    array = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(array))
    return array / length if length else array


def _options_in_time(call: ConversationCall) -> Mapping[str, Any]:
    if call.deadline is None:
        return call.options
    return {**call.options, "deadline_ms": max(1.0, (call.deadline - time.monotonic()) * 1e3)}


def _with_vector(call: ConversationCall, vector: Vector) -> ConversationCall:
    return call._replace(options={**call.options, "vector": vector})


def _record_failure(trace: Trace, error: Exception) -> None:
    """Record an error that makes the search use the raw question, or raise it if a setting is invalid."""
    if isinstance(error, HybridGraphError) and isinstance(error, ValueError):
        raise error
    trace.record("expander", error, "expander-failed")
