"""Streams an answer, its certain hits first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_hybridgraph.execution.worker_threads import Job, lane_of, submit

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

EARLY = "_early"
"""Option of ``invoke`` by which a stream receives Documents before the answer is complete."""


class StreamingRetriever(BaseRetriever):
    """Retriever that streams its answer Document by Document."""

    @property
    def _streams_early(self) -> bool:
        """Whether ``invoke`` takes :data:`EARLY`, and slow stages may follow hits that are already certain."""
        return False

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[list[Document]]:
        """Yield the answer in lists of one Document each.

        First come the hits of the search that are certain to be in the answer, before edges are walked and before a
        reranker reads them. Their ``retrieval_rank`` is None where it is not known yet, and their scores are those of
        the search. The other Documents follow when the answer is complete, best first. From then on all have the
        metadata that ``invoke`` gives, the early ones too, so that sorting by ``retrieval_rank`` gives its order. (In a
        chain they come in that order, see :meth:`transform`.)

        The search runs on another thread, and completes even if the stream is not read to its end.
        """
        if not self._streams_early:
            yield from _one_by_one(self.invoke(input, config, **kwargs), ())
            return
        parts: SimpleQueue[Document | None] = SimpleQueue()
        search = partial(self.invoke, input, config, **kwargs, **{EARLY: parts.put})
        answer = Job(search, lane_of("stream", self), copy_context())
        answer.add_done_callback(lambda _: parts.put(None))
        submit(answer)
        early = []
        while (document := parts.get()) is not None:
            early.append(document)
            yield [document]
        yield from _one_by_one(answer.result(), early)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Document]]:
        """Yield what :meth:`stream` yields; closing the stream cancels the search."""
        if not self._streams_early:
            for part in _one_by_one(await self.ainvoke(input, config, **kwargs), ()):
                yield part
            return
        loop = asyncio.get_running_loop()
        parts: asyncio.Queue[Document | None] = asyncio.Queue()

        def hand_out(document: Document) -> None:
            with suppress(RuntimeError):  # the loop is closed: there is no reader any more
                loop.call_soon_threadsafe(parts.put_nowait, document)

        search = asyncio.create_task(self.ainvoke(input, config, **kwargs, **{EARLY: hand_out}))
        search.add_done_callback(lambda _: parts.put_nowait(None))
        early = []
        try:
            while (document := await parts.get()) is not None:
                early.append(document)
                yield [document]
            for part in _one_by_one(await search, early):
                yield part
        finally:
            search.cancel()

    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[list[Document]]:
        """Yield the answer in the order of ``invoke``, in lists of one Document each, when it is complete.

        This is how a chain streams: its next step gets the sum of the parts, so their order must be the final one.
        """
        parts = list(input)
        if parts:
            yield from _one_by_one(self.invoke(_sum(parts), config, **kwargs), ())

    async def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Document]]:
        """Yield what :meth:`transform` yields."""
        parts = [part async for part in input]
        if parts:
            for each in _one_by_one(await self.ainvoke(_sum(parts), config, **kwargs), ()):
                yield each


class EarlyDocuments:
    """Documents of one call that were handed out before its answer was complete."""

    def __init__(self, hand_out: Callable[[Document], None]) -> None:
        self._hand_out = hand_out
        self._documents: dict[str | None, Document] = {}

    def hand_out(self, documents: Sequence[Document]) -> None:
        """Pass on each Document that was not passed on before."""
        for document in documents:
            if document.id not in self._documents:
                self._documents[document.id] = document
                self._hand_out(document)

    def completed(self, documents: Sequence[Document]) -> list[Document]:
        """Return the answer; the Documents in it that were handed out early now have all metadata."""
        return [self._completed(document) for document in documents]

    def _completed(self, document: Document) -> Document:
        early = self._documents.get(document.id)
        if early is None:
            return document
        early.page_content, early.metadata = document.page_content, document.metadata
        return early


def _sum(parts: Sequence[Any]) -> Any:
    """Return the sum of the parts, or the last one if they cannot be added, as LangChain does."""
    whole, *others = parts
    for part in others:
        try:
            whole = whole + part
        except TypeError:
            whole = part
    return whole


def _one_by_one(documents: Sequence[Document], early: Sequence[Document]) -> list[list[Document]]:
    """Return the Documents that were not handed out before, in lists of one; an empty list for an empty answer."""
    early_ids = {id(document) for document in early}
    return [[document] for document in documents if id(document) not in early_ids] or ([] if early else [[]])
