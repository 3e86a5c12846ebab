"""Search that takes the conversation into account."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.adapters.conversation_input import ConversationCall
from langchain_hybridgraph.adapters.documents import annotate
from langchain_hybridgraph.errors import HybridGraphError
from langchain_hybridgraph.execution.asynchronous import is_asynchronous
from langchain_hybridgraph.execution.effects import Effect, Search, ask, ask_or_raise, part_of_deadline
from langchain_hybridgraph.execution.nested import attempt, together
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.options.arguments import check_vector
from langchain_hybridgraph.query.conversation import (
    AppendHistory,
    AsyncExpander,
    ExpandedQuery,
    HistoryTerms,
    StripQuestion,
)
from langchain_hybridgraph.query.conversation.history import Turn, turns
from langchain_hybridgraph.query.hierarchy.planning import messages_call
from langchain_hybridgraph.query.planning import is_small_talk
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.advanced.result_fusion import fuse_by_rank, fuse_by_score, with_notes
from langchain_hybridgraph.retrievers.advanced.topic_change import is_new_topic
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever, Result
from langchain_hybridgraph.stores.embedded.folder.embedding_check import FittedEmbedding
from langchain_hybridgraph.stores.protocols import implements

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector

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
        if _is_small_talk(call, turns_before):
            trace.degrade("small-talk")
            nothing: Result = RetrievalResult([], hits=[], degraded=())
            return self._describe(_SearchAnswer("none", nothing), call, ExpandedQuery(call.query or ""), trace)
        expanded_query = yield from self._expand(call.query, turns_before, trace, until)
        answer = yield from self._search(call, expanded_query, trace, until)
        return self._describe(answer, call, expanded_query, trace)

    def _read_history(self, call: ConversationCall, trace: Trace, until: float | None) -> Search[list[Turn]]:
        """Return the turns before the question, or [] if there are none."""
        history, fetch = call.history, self.get_session_history
        if history is None and fetch is not None:
            run = partial(fetch, call.session_id or DEFAULT_SESSION)
            history = yield from ask(trace, Effect("history", run, lane=lane_of("history", fetch), deadline=until))
        if hasattr(history, "aget_messages"):
            history = yield from ask(trace, messages_call("history", history)._replace(deadline=until))
        turns_before = turns(history, call.query or "")
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
        """Search with the raw question, the expanded question, both, or a mixed vector, and return the answer.

        A mixed vector is used instead of both questions if the expanded question has a context and the retriever's
        embedding is known. It is the weighted mean of the vectors of the question and the context.
        """
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
        """Run one search. ``kind`` is "raw", "expanded" or "mixed" and appears in the plan."""
        result = yield from self.retriever.search(
            "retriever", text, call.k, _options_in_time(call), call.callbacks, level=call.level, early=call.early
        )
        return _SearchAnswer(kind, result)

    def _search_twice(
        self, call: ConversationCall, expanded_query: ExpandedQuery, trace: Trace
    ) -> Search[_SearchAnswer]:
        """Search with the raw question and with the expanded question, and return the fused answer."""
        k = call.k
        min_score = self.retriever.min_score(call.options)
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
        """Search with the weighted mean of the question's vector and its context's vector.

        If the embedding fails, search with the raw question.
        """
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
        if self.retriever.has_reranker:
            # A reranker reads only text, so it needs the words that the follow-up question leaves out.
            return (yield from self._search_once("mixed", expanded_query.text, _with_vector(call, vector)))
        if expanded_query.sure:
            text = call.query
            if isinstance(embeddings, FittedEmbedding):
                text = _with_context_words(call.query or "", expanded_query.text)
            return (yield from self._search_once("mixed", text, _with_vector(call, vector)))
        return (yield from self._search_by_both_vectors(call, question, vector))

    def _search_by_both_vectors(self, call: ConversationCall, question: Vector, mixed: Vector) -> Search[_SearchAnswer]:
        """Search once with the question's own vector and once with the mixed vector, and return one of the answers.

        The answer for the mixed vector is returned, unless the question changes the topic (:func:`is_new_topic`).
        """
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
        """Return the first k Documents with the degradations, the plan and the answerability."""
        result, has_own_reasons = answer.result, bool(trace.reasons)
        trace.method = self.retriever.method(result)
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
        plan = {**result.plan, **_plan_entries(answer, call, expanded_query, trace)}
        return RetrievalResult(
            documents,
            hits=hits,
            degraded=trace.reasons,
            took_ms=trace.took_ms,
            plan=plan,
            answerability=result.answerability,
        )


class _SearchAnswer(NamedTuple):
    """An answer and the kind of query that produced it (``kind``): "raw", "expanded", "both", "mixed" or "none"."""

    kind: str
    result: Result


def _is_small_talk(call: ConversationCall, turns_before: Sequence[Turn]) -> bool:
    text = call.query or ""
    last = [turn.line for turn in turns_before[-1:]]
    return bool(text.strip()) and call.options.get("vector") is None and is_small_talk(text, last)


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
    """Return the query twice, followed by the first words that only the expanded query contains.

    The repetition gives the words of the query twice the weight of the added words in a keyword search. If there are no
    words to add, the query is returned unchanged.

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
    """Return the options for the retriever, with the remaining time as ``deadline_ms``."""
    if call.deadline is None:
        return call.options
    return {**call.options, "deadline_ms": max(1.0, (call.deadline - time.monotonic()) * 1e3)}


def _with_vector(call: ConversationCall, vector: Vector) -> ConversationCall:
    return call._replace(options={**call.options, "vector": vector})


def _record_failure(trace: Trace, error: Exception) -> None:
    """Record an error that makes the search use the raw question.

    If the error was caused by an invalid setting, raise it instead.
    """
    if isinstance(error, HybridGraphError) and isinstance(error, ValueError):
        raise error
    trace.record("expander", error, "expander-failed")


def _plan_entries(
    answer: _SearchAnswer, call: ConversationCall, expanded_query: ExpandedQuery, trace: Trace
) -> dict[str, Any]:
    """Return the entries to add to the wrapped retriever's plan."""
    inner_plan = answer.result.plan
    return {
        "query": call.query,
        "k": call.k,
        "expanded_query": expanded_query.text,
        "context": expanded_query.context,
        "weight": expanded_query.weight,
        "searched": answer.kind,
        "stages_ms": {name: round(ms, 3) for name, ms in trace.stages.items()} | inner_plan.get("stages_ms", {}),
        "errors": trace.errors | inner_plan.get("errors", {}),
    }
