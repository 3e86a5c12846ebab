"""AdvancedRetriever: questions of a conversation, over any retriever."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, PrivateAttr, field_validator

from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.query.calls import Call, Failure, Search, adrive, drive
from langchain_hybridgraph.query.expanders import (
    AppendHistory,
    AsyncExpander,
    ExpandedQuery,
    HistoryTerms,
    StripQuestion,
    expander_from,
)
from langchain_hybridgraph.query.fusion import ReciprocalRankFusion
from langchain_hybridgraph.query.history import Turn, turns
from langchain_hybridgraph.query.sources import VectorSource
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.records import Fused, Ranking, RetrievalResult, Scored
from langchain_hybridgraph.retrievers.base import PipelineRetriever, _one_by_one, _Statistics
from langchain_hybridgraph.retrievers.documents import chunk_id
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.stores.base import can

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector

DEFAULT_SESSION = "default"
REMEMBERED_QUERIES = 10
REMEMBERED_SESSIONS = 1_000
FUSED = 50  # hits of each of two searches that are fused, so that the answer for k is the head of that for a larger k

Result = RetrievalResult[Document]


class AdvancedRetriever(BaseRetriever):
    """What any retriever finds for a question that leans on a conversation.

    ``retriever`` is one of ours or any LangChain retriever. ``expander`` makes the question whole: by default
    :class:`HistoryTerms`, which needs no model and leaves alone what stands by itself; or another by its name
    (``{"type": "append_history", "turns": 2}``); or any function of the question and the turns before it that gives a
    text. Without a history the question is searched for as it is.

    ``fuse_raw`` searches for the raw question too, so that a change of topic does not hurt: over our own retrievers the
    expander's ``context`` moves the question's vector, which takes one more embedding, and the words stay those of the
    question (unless a reranker is to read it); otherwise raw and expanded question are searched for and fused by rank.
    Without it only the expanded question is searched for.

    A history is what :func:`~langchain_hybridgraph.query.history.turns` reads. It comes with the call
    (``conversation_history=``, or ``{"input": …, "chat_history": …}`` as input), else from ``get_session_history``, a
    function from a session's id to its chat history or messages. The id is that of the call (``session_id=``), else of
    the configuration (``{"configurable": {"session_id": …}}``), else ``"default"``. Nothing is written to a history.
    Other options of a call (``filter=``, …) go to the retriever as they are; TypeError for one that it does not take.

    An expander that fails leaves the raw question, and ``degraded`` says ``expander-failed``; a history that cannot be
    fetched, ``history-failed``. A history of another form raises ConfigurationError.

    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> texts = ["The red roadster costs 200,000.", "The blue van costs 9,000.", "Trains are slow."]
    >>> store = HybridGraphStore.from_texts(texts, "lsa", ids=["roadster", "van", "train"])
    >>> retriever = AdvancedRetriever(HybridRetriever(store), k=1)
    >>> history = ["User: Which car is red?", "Assistant: The roadster."]
    >>> result = retriever.retrieve_with_context("and its price?", history)
    >>> result[0].id, result.plan["expanded_query"]
    ('roadster', 'and its price? car red roadster')
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_default=True)

    retriever: BaseRetriever = Field(description="The retriever that is asked.")
    expander: Any = Field(default_factory=HistoryTerms, description="Makes a question whole.")
    fuse_raw: bool = Field(True, description="Whether the raw question is searched for too.")
    k: int | None = Field(None, ge=0, description="How many Documents come back; None: as many as the retriever gives.")
    get_session_history: Callable[[str], Any] | None = Field(None, description="The history of a session, by its id.")

    _queries: _Queries = PrivateAttr(default_factory=lambda: _Queries())  # noqa: PLW0108 - defined below
    _statistics: _Statistics = PrivateAttr(default_factory=_Statistics)

    def __init__(self, retriever: BaseRetriever, **settings: Any) -> None:
        super().__init__(**settings | {"retriever": retriever})

    @field_validator("expander")
    @classmethod
    def _named_expander(cls, value: Any) -> Any:
        return expander_from(value)

    # -- construction ---------------------------------------------------------------------------------------

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        embedding: Embeddings | str | None = None,
        *,
        path: str | Path | None = None,
        **settings: Any,
    ) -> Self:
        """Over a HybridRetriever with a new (or grown) store of these Documents."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever.from_documents(documents, embedding, path=path, **inner), **own)

    @classmethod
    def from_store(cls, store: VectorStore, **settings: Any) -> Self:
        """Over a HybridRetriever with this store."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever(store, **inner), **own)

    @classmethod
    def from_config(cls, path: str | Path | None = None, *, store: VectorStore | None = None, **settings: Any) -> Self:
        """Over a HybridRetriever whose settings come from a YAML file, the environment and these arguments."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever.from_config(path, store=store, **inner), **own)

    @classmethod
    def _own(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the conversation, and those of the retriever below, k among them."""
        names = {"expander", "fuse_raw", "get_session_history"}
        own = {name: value for name, value in settings.items() if name in names}
        return own, {name: value for name, value in settings.items() if name not in names}

    # -- retrieving -----------------------------------------------------------------------------------------

    def retrieve_with_context(
        self,
        query: str,
        conversation_history: Any = None,
        k: int | None = None,
        *,
        session_id: str | None = None,
        **options: Any,
    ) -> Result:
        """The k best Documents for a question after a conversation.

        The plan has the raw question (``query``), ``expanded_query``, the ``context`` and its ``weight``, and what was
        searched for how (``searched``: ``"raw"``, ``"expanded"``, ``"mixed"`` or ``"both"``). ``options`` are those of
        the retriever.
        """
        return self._run(_Asked(query, conversation_history, k, session_id, options))

    async def aretrieve_with_context(
        self,
        query: str,
        conversation_history: Any = None,
        k: int | None = None,
        *,
        session_id: str | None = None,
        **options: Any,
    ) -> Result:
        """What :meth:`retrieve_with_context` gives, without holding up the event loop."""
        return await self._arun(_Asked(query, conversation_history, k, session_id, options))

    def retrieve(self, query: str, k: int | None = None, **options: Any) -> Result:
        """What :meth:`retrieve_with_context` gives; a history is ``conversation_history=`` or the session's."""
        return self.retrieve_with_context(query, k=k, **options)

    async def aretrieve(self, query: str, k: int | None = None, **options: Any) -> Result:
        """What :meth:`retrieve` gives, without holding up the event loop."""
        return await self.aretrieve_with_context(query, k=k, **options)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """The Documents for a text, for ``{"input": …, "chat_history": …}``, or for messages that end in a question."""
        query, told = _read(input, config)
        return super().invoke(query, config, **told | kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """What :meth:`invoke` gives."""
        query, told = _read(input, config)
        return await super().ainvoke(query, config, **told | kwargs)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[list[Document]]:
        """One list of one Document after the other, best first."""
        yield from _one_by_one(self.invoke(input, config, **kwargs))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Document]]:
        """What :meth:`stream` gives."""
        for part in _one_by_one(await self.ainvoke(input, config, **kwargs)):
            yield part

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        conversation_history: Any = None,
        k: int | None = None,
        session_id: str | None = None,
        **options: Any,
    ) -> list[Document]:
        return list(self._run(_Asked(query, conversation_history, k, session_id, options, run_manager.get_child())))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        conversation_history: Any = None,
        k: int | None = None,
        session_id: str | None = None,
        **options: Any,
    ) -> list[Document]:
        asked = _Asked(query, conversation_history, k, session_id, options, run_manager.get_child())
        return list(await self._arun(asked))

    # -- what was asked, and how it went --------------------------------------------------------------------

    @property
    def query_history(self) -> list[str]:
        """The last 10 raw queries of the default session, oldest first."""
        return self.history_for(DEFAULT_SESSION)

    def history_for(self, session_id: str) -> list[str]:
        """The last 10 raw queries of a session, oldest first; those of the last 1,000 sessions are kept."""
        return self._queries.of(session_id)

    def get_retrieval_stats(self) -> dict[str, Any]:
        """Since construction: calls, errors, Documents per call, p50 and p95 in ms, how often each degradation."""
        return self._statistics.report()

    # -- the search -----------------------------------------------------------------------------------------

    def _run(self, asked: _Asked) -> Result:
        with self._statistics.counting_errors():
            trace = Trace()
            result: Result = drive(self._search(asked, trace))
        self._statistics.answered(trace, len(result))
        return result

    async def _arun(self, asked: _Asked) -> Result:
        with self._statistics.counting_errors():
            trace = Trace()
            result: Result = await adrive(self._search(asked, trace))
        self._statistics.answered(trace, len(result))
        return result

    def _search(self, asked: _Asked, trace: Trace) -> Search[Result]:
        k = self._check(asked)
        self._queries.add(asked.session_id or DEFAULT_SESSION, asked.query)
        said = yield from self._history(asked, trace)
        expanded = yield from self._expanded(asked.query, said, trace)
        how: Literal["raw", "expanded", "mixed", "both"] = self._way(asked, expanded)
        if how == "mixed":
            vector = yield from self._mixed(asked, expanded, trace)
            how = "raw" if vector is None else "mixed"
            options = asked.options if vector is None else {**asked.options, "vector": vector}
            # A reranker reads no vectors: it has to be told in words what the question leaves out.
            reranked = vector is not None and getattr(self.retriever, "reranker", None) is not None
            text = expanded.text if reranked and asked.query else asked.query
            (result,) = yield [self._call("retriever", text, k, options, asked)]
        elif how == "both":
            depth = None if k is None else max(k, FUSED)
            texts = {"question": asked.query, "conversation": expanded.text}
            answers = yield [self._call(name, text, depth, asked.options, asked) for name, text in texts.items()]
            result = _fused(texts, answers, expanded.weight, k, trace)
        else:
            text = asked.query if how == "raw" else expanded.text
            (result,) = yield [self._call("retriever", text, k, asked.options, asked)]
        if isinstance(result, Failure):
            raise result.error
        return self._described(result, asked, expanded, how=how, k=k, trace=trace)

    def _check(self, asked: _Asked) -> int | None:
        """How many Documents are wanted; complains of what cannot be asked."""
        query: Any = asked.query
        if not isinstance(query, str) and (query is not None or "vector" not in asked.options):
            raise ConfigurationError(f"the query is {asked.query!r}; it is a text, or None beside vector=")
        k: Any = self.k if asked.k is None else asked.k
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 0):
            raise ConfigurationError(f"k is {k!r}; it is how many Documents come back, a whole number from 0")
        unknown = [name for name in asked.options if not _takes(self.retriever, name)]
        if unknown:
            raise TypeError(f"{type(self.retriever).__name__} takes no {', '.join(unknown)} per call")
        return self.retriever.k if k is None and isinstance(self.retriever, PipelineRetriever) else k

    def _history(self, asked: _Asked, trace: Trace) -> Search[list[Turn]]:
        history, fetch = asked.history, self.get_session_history
        if history is None and fetch is not None:
            id = asked.session_id or DEFAULT_SESSION

            async def afetch() -> Any:
                found = fetch(id)
                return await found.aget_messages() if hasattr(found, "aget_messages") else found

            (history,) = yield [Call("history", lambda: fetch(id), afetch)]
            if isinstance(history, Failure):
                trace.note("history", history.error)
                trace.degrade(history.reason)
                history = None
        return turns(history, asked.query or "")

    def _expanded(self, query: str | None, said: Sequence[Turn], trace: Trace) -> Search[ExpandedQuery]:
        """The question made whole; as it is when nothing was said before, or when the expander fails."""
        text = query or ""
        raw = ExpandedQuery(text)
        if not said or not text.strip():
            return raw
        expander = self.expander
        awaited = (lambda: expander.acall(text, said)) if can(expander, AsyncExpander) else None
        quick = isinstance(expander, (AppendHistory, HistoryTerms, StripQuestion))
        with trace.stage("expand-query"):
            (answer,) = yield [Call("expander", lambda: expander(text, said), awaited, quick=quick)]
        if isinstance(answer, str) and answer.strip():
            return ExpandedQuery(answer)
        if isinstance(answer, ExpandedQuery):
            return answer
        error = answer.error if isinstance(answer, Failure) else TypeError(f"it gave {answer!r}, no text")
        _fail(trace, error)
        return raw

    def _way(self, asked: _Asked, expanded: ExpandedQuery) -> Literal["raw", "expanded", "mixed", "both"]:
        """What is searched for."""
        is_expanded = expanded.text != (asked.query or "") or bool(expanded.context)
        if not is_expanded or not expanded.weight:
            return "raw"
        if not self.fuse_raw:
            return "expanded"
        return "mixed" if expanded.context and _embeddings(self.retriever, asked.options) is not None else "both"

    def _mixed(self, asked: _Asked, expanded: ExpandedQuery, trace: Trace) -> Search[Vector | None]:
        """The vector of the question, moved towards that of what it leans on; None when there are no such vectors."""
        embeddings = _embeddings(self.retriever, asked.options)
        assert embeddings is not None, "looked up before"
        given = asked.options.get("vector")
        texts = [expanded.context] if given is not None else [expanded.context, asked.query or ""]
        with trace.stage("embed"):
            found = yield [_embed(embeddings, text) for text in texts]
        for one in found:
            if isinstance(one, Failure):
                _fail(trace, one.error)
                return None
        context, question = map(_unit, (found[0], given if given is not None else found[1]))
        return cast("Vector", (1 - expanded.weight) * question + expanded.weight * context)

    def _call(self, name: str, query: str | None, k: int | None, options: Mapping[str, Any], asked: _Asked) -> Call:
        """One search by the retriever; a run below this one's where there is one."""
        retriever = self.retriever
        counted = dict(options) if k is None or not _takes(retriever, "k") else {**options, "k": k}
        config: RunnableConfig = {"callbacks": asked.callbacks}
        prefix = getattr(retriever, "metadata_prefix", "")

        def run() -> Result:
            if asked.callbacks is None and isinstance(retriever, PipelineRetriever):
                return retriever.retrieve(query, **cast("Any", counted))
            return _result(retriever.invoke(query, config, **counted), prefix)  # type: ignore[arg-type]  # None beside vector=

        async def arun() -> Result:
            if asked.callbacks is None and isinstance(retriever, PipelineRetriever):
                return await retriever.aretrieve(query, **cast("Any", counted))
            return _result(await retriever.ainvoke(query, config, **counted), prefix)  # type: ignore[arg-type]  # as above

        return Call(name, run, arun)

    def _described(
        self, result: Result, asked: _Asked, expanded: ExpandedQuery, *, how: str, k: int | None, trace: Trace
    ) -> Result:
        """The first k, with what there is to say about them."""
        prefix = getattr(self.retriever, "metadata_prefix", "")
        mine = trace.reasons
        for reason in result.degraded:
            trace.degrade(reason)
        documents = list(result)[:k]
        if mine:
            noted = {prefix + "degraded": list(trace.reasons)}
            documents = [_with(document, noted) for document in documents]
        stages = {name: round(ms, 3) for name, ms in trace.stages.items()}
        plan = {
            **result.plan,
            "query": asked.query,
            "k": k,
            "expanded_query": expanded.text,
            "context": expanded.context,
            "weight": expanded.weight,
            "searched": how,
            "stages_ms": stages | result.plan.get("stages_ms", {}),
            "errors": trace.errors | result.plan.get("errors", {}),
        }
        return RetrievalResult(
            documents, hits=result.hits[:k], degraded=trace.reasons, took_ms=trace.took_ms, plan=plan
        )


class _Asked(NamedTuple):
    """One call."""

    query: str | None
    history: Any
    k: int | None
    session_id: str | None
    options: Mapping[str, Any]
    callbacks: Any = None


class _Queries:
    """The last raw queries of each session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: OrderedDict[str, deque[str]] = OrderedDict()

    def add(self, session_id: str, query: str | None) -> None:
        if query is None:
            return
        with self._lock:
            self._asked.setdefault(session_id, deque(maxlen=REMEMBERED_QUERIES)).append(query)
            self._asked.move_to_end(session_id)
            if len(self._asked) > REMEMBERED_SESSIONS:
                self._asked.popitem(last=False)

    def of(self, session_id: str) -> list[str]:
        with self._lock:
            return list(self._asked.get(session_id, ()))


def _read(input: Any, config: RunnableConfig | None) -> tuple[str, dict[str, Any]]:
    """The question of a Runnable's input, and what else the input and the configuration say."""
    configured = ensure_config(config).get("configurable", {}).get("session_id")
    told: dict[str, Any] = {} if configured is None else {"session_id": configured}
    if isinstance(input, Mapping):
        question = next(
            (input[key] for key in ("input", "query", "question", "messages") if input.get(key) is not None), None
        )
        history = next((input[key] for key in ("chat_history", "history") if input.get(key) is not None), None)
        if question is None:
            raise ConfigurationError(
                f"the input has the keys {', '.join(map(repr, input))}; wanted is a text, or "
                '{"input": "and its price?", "chat_history": [...]}'
            )
        told |= {} if history is None else {"conversation_history": history}
    else:
        question = input
    if question is None or isinstance(question, str):
        return cast("str", question), told
    messages = list(question) if isinstance(question, (list, tuple)) else [question]
    if not messages or not (last := turns(messages[-1:])):
        raise ConfigurationError(f"the input is {input!r:.200}; wanted is a text, or messages that end in a question")
    if messages[:-1]:
        told.setdefault("conversation_history", messages[:-1])
    return last[0].text, told


def _takes(retriever: BaseRetriever, option: str) -> bool:
    """Whether a retriever's calls take this option; LangChain drops silently what one does not declare."""
    if isinstance(retriever, PipelineRetriever):
        return option in {*retriever._call_options, "k"}
    declared = inspect.signature(type(retriever)._get_relevant_documents).parameters
    return option in declared or any(each.kind is each.VAR_KEYWORD for each in declared.values())


def _embeddings(retriever: BaseRetriever, options: Mapping[str, Any]) -> Embeddings | None:
    """What makes the vectors that the retriever searches by; None where no vector can be given to it."""
    if not isinstance(retriever, PipelineRetriever):
        return None
    if not any(isinstance(source, VectorSource) for source in retriever._sources(cast("Any", options))):
        return None
    found = getattr(getattr(retriever, "vector_store", None), "embeddings", None)
    return found if isinstance(found, Embeddings) else None


def _embed(embeddings: Embeddings, text: str) -> Call:
    return Call("expander", lambda: embeddings.embed_query(text), lambda: embeddings.aembed_query(text))


def _unit(vector: Sequence[float]) -> Vector:
    array = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(array))
    return array / length if length else array


def _fail(trace: Trace, error: Exception) -> None:
    """Note that the question stays as it was put; what the caller has set wrongly is raised."""
    if isinstance(error, HybridGraphError) and isinstance(error, ValueError):
        raise error
    trace.note("expander", error)
    trace.degrade("expander-failed")


def _result(documents: Sequence[Document], prefix: str) -> Result:
    """What a retriever's Documents say of how they were found."""
    noted = documents[0].metadata.get(prefix + "degraded") if documents else None
    return RetrievalResult(documents, degraded=tuple(noted) if isinstance(noted, list) else ())


def _fused(
    names: Iterable[str], answers: Sequence[Result | Failure], weight: float, k: int | None, trace: Trace
) -> Result | Failure:
    """One list of what raw and expanded question found; where one of the searches failed, what the other found."""
    found = {name: one for name, one in zip(names, answers, strict=True) if not isinstance(one, Failure)}
    for failure in (one for one in answers if isinstance(one, Failure)):
        is_asked_wrongly = failure.source == "question" and isinstance(failure.error, (TypeError, ValueError))
        if is_asked_wrongly or not found:
            return failure
        trace.note(failure.source, failure.error)
        trace.degrade(failure.reason)
    weights = {"question": 1 - weight, "conversation": weight}
    rankings = [_ranking(name, weights[name], one) for name, one in found.items()]
    fused = ReciprocalRankFusion()(rankings)[:k]
    documents: dict[str, Document] = {}
    hits = {hit.id: hit for one in found.values() for hit in one.hits}
    for one in found.values():
        for document in one:
            documents.setdefault(chunk_id(document), document)
    for one in found.values():
        for reason in one.degraded:
            trace.degrade(reason)
    return RetrievalResult(
        [_placed(documents[one.id], rank, one) for rank, one in enumerate(fused, start=1)],
        hits=[replace(hits[one.id], score=one.score, parts=one.parts) for one in fused if one.id in hits],
        plan=next(iter(found.values())).plan,
    )


def _ranking(name: str, weight: float, found: Result) -> Ranking:
    entries = [Scored(chunk_id(document), 1.0) for document in found]
    return Ranking(name, weight, entries, {entry.id: 1.0 for entry in entries})


def _placed(document: Document, rank: int, fused: Fused) -> Document:
    return _with(
        document,
        {
            "retrieval_rank": rank,
            "relevance_score": fused.score,
            "score": fused.score,
            "score_breakdown": dict(fused.parts),
            "retrieval_source": "fused" if len(fused.parts) > 1 else next(iter(fused.parts)),
        },
    )


def _with(document: Document, notes: Mapping[str, Any]) -> Document:
    """A copy with further metadata; the retriever's own Document stays as it is."""
    return document.model_copy(update={"metadata": {**document.metadata, **notes}})
