"""Searches of AdvancedRetriever, and their fusion."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.adapters.documents import annotate, chunk_id
from langchain_hybridgraph.chunks import Chunk
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
from langchain_hybridgraph.options.objects import ConversationCall
from langchain_hybridgraph.records import FusedCandidate, Hit, Ranking, ScoredId
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever, Result
from langchain_hybridgraph.search.conversation import ExpandedQuery, Turn, expander_call, is_small_talk, turns
from langchain_hybridgraph.search.fusion import ConvexCombination
from langchain_hybridgraph.search.planner import has_messages, messages_call
from langchain_hybridgraph.stores.generations import FittedEmbedding

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector

DEFAULT_SESSION = "default"
# Number of context words that are added to a keyword search if the embedding is LSA, whose vectors contain only
# relations that occur in the texts. nDCG@10 without and with five words, for conversations about three subjects: .301
# and .316, .574 and .584, .277 and .275.
CONTEXT_WORDS = 5
FUSED = 50  # number of hits of each search that are fused, so that a larger k only adds results at the end
# Ratio of the best scores above which two searches are considered equally good (benchmarks/README.md).
SIMILAR_SCORE = 0.9


@dataclass(slots=True)
class ConversationSearch:
    """Search in four stages: read the history, expand the question, run the search, describe the answer.

    ``expander``, ``fuse_raw`` and ``get_session_history`` are options of an AdvancedRetriever. The options of the call
    have been checked.
    """

    inner: AnyRetriever
    expander: Any
    fuse_raw: bool | None
    get_session_history: Callable[[str], Any] | None
    call: ConversationCall
    expanded_query: ExpandedQuery = field(init=False)
    until: float | None = field(init=False)

    def run(self) -> Search[Result]:
        """Return the answer. Reading the history and expanding the question take at most half of the time."""
        call, trace = self.call, self.call.trace
        self.expanded_query = ExpandedQuery(call.query or "")
        self.until = part_of_deadline(call.deadline, 0.5)
        turns_before = yield from self._read_history()
        last = turns_before[-1].text if turns_before else ""
        is_question = bool(self.expanded_query.text.strip())
        if is_question and call.options.get("vector") is None and is_small_talk(self.expanded_query.text, last):
            trace.degrade("small-talk")
            return self._describe("none", RetrievalResult([]))
        if turns_before and is_question:
            yield from self._expand(turns_before)
        searched, result = yield from self._search()
        return self._describe(searched, result)

    def _read_history(self) -> Search[list[Turn]]:
        call, trace, fetch = self.call, self.call.trace, self.get_session_history
        history = call.history
        if history is None and fetch is not None:
            run = partial(fetch, call.session_id or DEFAULT_SESSION)
            history = yield from ask(trace, Effect("history", run, lane=lane_of("history", fetch), deadline=self.until))
        if history is not None and not isinstance(history, (str, Sequence, Mapping)) and has_messages(history):
            history = yield from ask(trace, messages_call("history", history)._replace(deadline=self.until))
        try:
            turns_before = turns(history, call.query or "")
        except ConfigurationError as error:
            if history is call.history:  # the caller passed it
                raise
            trace.record("history", error, "history-failed")
            turns_before = []
        trace.has_context = bool(turns_before)
        return turns_before

    def _expand(self, turns_before: Sequence[Turn]) -> Search[None]:
        """Expand the question, which stays unchanged if the expander fails."""
        call = expander_call(self.expander, self.expanded_query.text, turns_before, deadline=self.until)
        try:
            with self.call.trace.stage("expand-query"):
                (answer,) = yield from ask_or_raise(call)
            answer = ExpandedQuery(answer) if isinstance(answer, str) and answer.strip() else answer
            if not isinstance(answer, ExpandedQuery):
                raise TypeError(f"the expander must return a string or an ExpandedQuery, got {answer!r}")
            self.expanded_query = answer
        except Exception as error:  # noqa: BLE001 - an expander may raise anything
            self._record_failure(error)

    def _search(self) -> Search[tuple[str, Result]]:
        """Search with the raw question, the expanded one, both or, with an embedding and context, a mixed vector.

        Return the kind of search as well: "raw", "expanded", "both" or "mixed".
        """
        raw, expanded_query = self.call.query, self.expanded_query
        if not expanded_query.weight or (expanded_query.text == (raw or "") and not expanded_query.context):
            return "raw", (yield from self._search_once(raw))
        stands_alone = expanded_query.sure and not expanded_query.context
        if self.fuse_raw is False or (self.fuse_raw is None and stands_alone):
            return "expanded", (yield from self._search_once(expanded_query.text))
        embeddings = self.inner.embeddings(self.call.options) if expanded_query.context else None
        if embeddings is None:
            return "both", (yield from self._search_twice())
        return (yield from self._search_near_context(embeddings))

    def _search_once(self, text: str | None, vector: Vector | None = None) -> Search[Result]:
        call = self.call
        return self.inner.search(
            "retriever", text, call.k, self._options(vector), call.callbacks, level=call.level, early=call.early
        )

    def _search_twice(self) -> Search[Result]:
        call, expanded_query = self.call, self.expanded_query
        min_score = self.inner.setting("min_score", call.options)
        # For this package's retrievers, the mean of both scores has to reach the minimum, not each score.
        options = self._options() if min_score is None else {**self._options(), "min_score": 0.0}
        depth = None if call.k is None else max(call.k, FUSED)
        texts = {"question": call.query, "conversation": expanded_query.text}
        searches = [
            attempt(name, self.inner.search(name, text, depth, options, call.callbacks)) for name, text in texts.items()
        ]
        answers = dict(zip(texts, (yield from together(searches)), strict=True))
        results = _successful(answers, call.trace)
        weight = expanded_query.weight if expanded_query.sure else expanded_query.weight / 2
        weights = {"question": 1 - weight, "conversation": weight}
        k = max(map(len, results.values())) if call.k is None else call.k
        hits = fused_hits(results, weights, k, min_score or 0.0)
        method = str(next(iter(results.values())).plan.get("method") or "other")
        documents = annotate(hits, method, prefix=self.inner.prefix, level=call.level)
        for reason in (reason for one in results.values() for reason in one.degraded):
            call.trace.degrade(reason)
        estimates = [one.answerability for one in results.values() if one.answerability is not None]
        return RetrievalResult(
            documents,
            hits=hits,
            plan=next(iter(results.values())).plan,
            answerability=max(estimates, key=lambda one: one.value, default=None),
        )

    def _search_near_context(self, embeddings: Embeddings) -> Search[tuple[str, Result]]:
        """Search with the weighted mean of the question's and its context's vectors, or the raw question on failure."""
        call, expanded_query = self.call, self.expanded_query
        own = None if (vector := call.options.get("vector")) is None else check_vector(vector)
        texts = [expanded_query.context] if own is not None else [expanded_query.context, call.query or ""]
        try:
            with call.trace.stage("embed"):
                vectors = yield from ask_or_raise(*(self._embedding_call(embeddings, text) for text in texts))
        except Exception as error:  # noqa: BLE001 - an embedding may raise anything; the question stays unchanged
            self._record_failure(error)
            return "raw", (yield from self._search_once(call.query))
        context, question = _unit_vector(vectors[0]), _unit_vector(own if own is not None else vectors[1])
        mixed = cast("Vector", (1 - expanded_query.weight) * question + expanded_query.weight * context)
        if getattr(self.inner.retriever, "reranker", None) is not None:
            # A reranker reads only text, so it needs the words that the follow-up question leaves out.
            return "mixed", (yield from self._search_once(expanded_query.text, mixed))
        if expanded_query.sure:
            is_fitted = isinstance(embeddings, FittedEmbedding)
            text = _with_context_words(call.query or "", expanded_query.text) if is_fitted else call.query
            return "mixed", (yield from self._search_once(text, mixed))
        searches = [
            self.inner.search(name, call.query, call.k, self._options(each), call.callbacks, level=call.level)
            for name, each in (("question", question), ("conversation", mixed))
        ]
        by_question, by_context = yield from together(searches)
        return ("raw", by_question) if is_new_topic(by_question, by_context) else ("mixed", by_context)

    def _options(self, vector: Vector | None = None) -> dict[str, Any]:
        """Return the options of the call, with the vector and the time that is left."""
        options = dict(self.call.options) if vector is None else {**self.call.options, "vector": vector}
        if self.call.deadline is not None:
            options["deadline_ms"] = max(1.0, (self.call.deadline - time.monotonic()) * 1e3)
        return options

    def _embedding_call(self, embeddings: Embeddings, text: str) -> Effect:
        awaited = partial(embeddings.aembed_query, text) if is_asynchronous(embeddings) else None
        lane = lane_of("embedding", embeddings)
        return Effect("expander", partial(embeddings.embed_query, text), awaited, lane=lane, deadline=self.until)

    def _record_failure(self, error: Exception) -> None:
        """Record an error that makes the search use the raw question, or raise it if a setting is invalid."""
        if isinstance(error, HybridGraphError) and isinstance(error, ValueError):
            raise error
        self.call.trace.record("expander", error, "expander-failed")

    def _describe(self, searched: str, result: Result) -> Result:
        call, trace = self.call, self.call.trace
        has_own_reasons = bool(trace.reasons)
        trace.method = str(result.plan.get("method") or "other")
        for reason in result.degraded:
            trace.degrade(reason)
        documents, hits = list(result)[: call.k], result.hits[: call.k]
        if call.level == "all" and has_own_reasons:
            notes = {self.inner.prefix + "degraded": list(trace.reasons)}
            if not hits:  # other retrievers may return stored Documents, which must not be changed
                documents = [document.model_copy(update={"metadata": {**document.metadata}}) for document in documents]
            for document in documents:
                document.metadata |= notes
        plan = result.plan | {
            "query": call.query,
            "k": call.k,
            "expanded_query": self.expanded_query.text,
            "context": self.expanded_query.context,
            "weight": self.expanded_query.weight,
            "searched": searched,
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


def is_new_topic(by_question: Result, by_context: Result) -> bool:
    """Return whether a question changes the topic of its conversation.

    This is so if the best score of the search with the question mixed with its context is clearly lower than that of
    the question alone: no chunk is then similar to both.
    """
    question, context = (one.hits[0].score / _unit(one) if one.hits else 0.0 for one in (by_question, by_context))
    return context < SIMILAR_SCORE * question


def _unit(result: Result) -> float:
    """Return the factor by which the scores of a result were calibrated, or 1 if they were not calibrated."""
    return 1.0 if result.answerability is None else result.answerability.unit


# Fusion of the answers of two searches.


def _successful(answers: Mapping[str, Result | Failure], trace: Trace) -> dict[str, Result]:
    """Return the successful answers, and record the failures; raise the first error if all searches failed.

    A TypeError or ValueError of the first search is always raised, because it means that the call was invalid.
    """
    results = {name: one for name, one in answers.items() if not isinstance(one, Failure)}
    first = next(iter(answers))
    for name, failure in answers.items():
        if isinstance(failure, Failure):
            if not results or (name == first and isinstance(failure.error, (TypeError, ValueError))):
                raise failure.error
            trace.note(failure.source, failure.error)
            trace.degrade(failure.reason)
    return results


def fused_hits(results: Mapping[str, Result], weights: Mapping[str, float], k: int, min_score: float) -> list[Hit]:
    """Return the k best hits by the weighted mean of their scores in the searches, which is at least ``min_score``.

    A hit has the score 0 in a search that did not find it. The mean is computed from the uncalibrated scores, and then
    calibrated. The Documents of other libraries' retrievers have the score 61 / (60 + rank), so the mean is that of
    weighted reciprocal rank fusion.
    """
    hits_by_id = {name: _hits_by_id(name, result) for name, result in results.items()}
    rankings = []
    for name, hits in hits_by_id.items():
        scores = {hit.id: hit.score / _unit(results[name]) for hit in hits.values()}
        entries = [ScoredId(id, score) for id, score in scores.items()]
        rankings.append(Ranking(name, weights[name], entries, scores, bound=1.0))
    firsts = {one.source: weights[one.source] * one.entries[0].score for one in rankings if one.entries}
    total = math.fsum(firsts.values())
    unit = math.fsum(first * _unit(results[name]) for name, first in firsts.items()) / total if total else 1.0
    best = ConvexCombination(normalize="bound")(rankings)
    return [
        _fused_hit(one, unit, {name: hits[one.id] for name, hits in hits_by_id.items() if one.id in hits})
        for one in best[:k]
        if min(1.0, unit * one.score) >= min_score
    ]


def _hits_by_id(name: str, result: Result) -> dict[str, Hit]:
    hits: dict[str, Hit] = {hit.id: hit for hit in result.hits}
    for rank, document in enumerate([] if hits else result, start=1):
        chunk = Chunk(chunk_id(document), document.page_content, document.metadata)
        score = 61 / (60 + rank)
        hits.setdefault(chunk.id, Hit(chunk, score, name, {name: score}, path=(chunk.id,), found_by=(name,)))
    return hits


def _fused_hit(fused: FusedCandidate, unit: float, hits: Mapping[str, Hit]) -> Hit:
    """Return the hit of the first search that found it, with the fused score and what only the other search knows.

    Its parts are those of each search, in proportion to the part of the search in the fused score.
    """
    first, other = next(iter(hits.values())), list(hits.values())[-1]
    parts: dict[str, float] = defaultdict(float)
    for name, hit in hits.items():
        for part, value in hit.parts.items() if hit.score else ():
            parts[part] += unit * fused.parts.get(name, 0.0) * value / hit.score
    return replace(
        first,
        score=min(1.0, unit * fused.score),
        source=first.source if first.source == other.source else "fused",
        parts=dict(parts),
        vector_score=other.vector_score if first.vector_score is None else first.vector_score,
        bm25_score=other.bm25_score if first.bm25_score is None else first.bm25_score,
        rerank_score=other.rerank_score if first.rerank_score is None else first.rerank_score,
        found_by=tuple(dict.fromkeys([*first.found_by, *other.found_by])),
    )
