"""Calls of any LangChain retriever."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.vectorstores import VectorStoreRetriever

from langchain_hybridgraph.adapters.documents import Annotate
from langchain_hybridgraph.execution.asynchronous import is_asynchronous
from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.options.calls import unknown_options
from langchain_hybridgraph.query.sources import VectorSource
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.base import PipelineRetriever
from langchain_hybridgraph.retrievers.streaming import COMPLETE, EARLY

Result = RetrievalResult[Document]


class AnyRetriever(NamedTuple):
    """A retriever, and what can be known of it."""

    retriever: BaseRetriever

    @property
    def k(self) -> int | None:
        """How many it gives by itself; None where that is not known."""
        return self.retriever.k if isinstance(self.retriever, PipelineRetriever) else None

    @property
    def prefix(self) -> str:
        """What stands before the keys that it writes into metadata."""
        return str(getattr(self.retriever, "metadata_prefix", ""))

    @property
    def has_reranker(self) -> bool:
        """Whether something reads the words of the question after the search."""
        return getattr(self.retriever, "reranker", None) is not None

    @property
    def has_sessions(self) -> bool:
        """Whether its calls are told a session, as a memory's are."""
        return isinstance(self.retriever, PipelineRetriever) and self.takes("session_id")

    def takes(self, option: str) -> bool:
        """Whether its calls take this option; LangChain drops silently what a retriever does not declare.

        Of a vector store's retriever these are the options of the store's searches. One whose calls take any keyword
        takes any option.
        """
        if isinstance(self.retriever, PipelineRetriever):
            return option in {*self.retriever._call_options, "k"}
        if isinstance(self.retriever, VectorStoreRetriever):
            return option in {name for each in _searches(self.retriever) for name in each}
        declared = inspect.signature(type(self.retriever)._get_relevant_documents).parameters
        return option in declared or any(each.kind is each.VAR_KEYWORD for each in declared.values())

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises TypeError for options that its calls do not take."""
        if unknown := {name: value for name, value in options.items() if not self.takes(name)}:
            known = {*self.retriever._call_options, "k"} if isinstance(self.retriever, PipelineRetriever) else ()
            raise unknown_options(type(self.retriever), unknown, known)

    def least(self, options: Mapping[str, Any]) -> float | None:
        """The score that a hit of a call needs; None where scores cannot be compared, as those of others."""
        if not isinstance(self.retriever, PipelineRetriever):
            return None
        given = options.get("min_score")
        return float(self.retriever.min_score if given is None else given)

    def deadline_seconds(self, options: Mapping[str, Any]) -> float | None:
        """The time that a call may take; None where it has no limit, or none that is known."""
        if not isinstance(self.retriever, PipelineRetriever):
            return None
        given = options.get("deadline_ms")
        deadline_ms = self.retriever.deadline_ms if given is None else given
        return deadline_ms / 1e3 if isinstance(deadline_ms, int | float) else None

    def embeddings(self, options: Mapping[str, Any]) -> Embeddings | None:
        """What makes the vectors that it searches by; None where no vector can be given to it."""
        if not isinstance(self.retriever, PipelineRetriever):
            return None
        if not any(isinstance(source, VectorSource) for source in self.retriever._sources(cast("Any", options))):
            return None
        found = getattr(getattr(self.retriever, "vector_store", None), "embeddings", None)
        return found if isinstance(found, Embeddings) else None

    def search(
        self,
        name: str,
        query: str | None,
        k: int | None,
        options: Mapping[str, Any],
        callbacks: Any,
        *,
        level: Annotate = "all",
        early: Callable[[Document], object] | None = None,
    ) -> Effect:
        """One search by it, called ``name`` where it fails; a run below that of ``callbacks`` where there are any.

        Of a retriever of ours, Documents say how they were found as ``level`` wants it, and those that are certain are
        handed to ``early``.
        """
        retriever, config = self.retriever, cast("RunnableConfig", {"callbacks": callbacks, "tags": [name]})
        counted = dict(options) if k is None or not self.takes("k") else {**options, "k": k}
        asked: Any = query  # None beside vector=
        if isinstance(retriever, PipelineRetriever):
            counted |= {"annotate": level} | ({} if early is None else {EARLY: early})

        def run() -> Result:
            if not isinstance(retriever, PipelineRetriever):
                return RetrievalResult(retriever.invoke(asked, config, **counted))
            if callbacks is None:
                return retriever.retrieve(query, **cast("Any", counted))
            whole: list[Result] = []
            documents = retriever.invoke(asked, config, **counted, **{COMPLETE: whole.append})
            return whole[0] if whole else RetrievalResult(documents)

        async def arun() -> Result:
            if not isinstance(retriever, PipelineRetriever):
                return RetrievalResult(await retriever.ainvoke(asked, config, **counted))
            if callbacks is None:
                return await retriever.aretrieve(query, **cast("Any", counted))
            whole: list[Result] = []
            documents = await retriever.ainvoke(asked, config, **counted, **{COMPLETE: whole.append})
            return whole[0] if whole else RetrievalResult(documents)

        awaited = arun if is_asynchronous(retriever) else None
        return Effect(name, run, awaited, lane=lane_of("retriever", retriever))

    def method(self, result: Result) -> str:
        """How it has found its Documents; "other" where it does not say."""
        return str(result.plan.get("method") or "other")


def _searches(retriever: VectorStoreRetriever) -> Iterator[Mapping[str, inspect.Parameter]]:
    """The parameters of a vector store's searches, which hand what they do not know from one to the next."""
    kind = type(retriever.vectorstore)
    methods: list[Callable[..., Any]] = [getattr(kind, name) for name in dir(kind) if "search" in name]
    for method in filter(inspect.isfunction, methods):
        found = inspect.signature(method).parameters
        yield {name: each for name, each in found.items() if each.kind is not each.VAR_KEYWORD}
