"""Streaming of answers before they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.threads import Job, lane_of, submit

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

EARLY = "_early"
"""Name of an option of ``invoke``: a function that receives Documents before the answer is complete."""

HandOut = Callable[[Document], None]
"""Function that receives a Document before the answer is complete."""


class StreamingRetriever(BaseRetriever):
    """Retriever that streams its answer, one Document at a time."""

    @property
    def _streams_early(self) -> bool:
        """Whether ``invoke`` accepts :data:`EARLY` and may hand out Documents before its slow stages run."""
        return False

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the Documents for a question; ``kwargs`` are the options of a call."""
        check_config(config)
        query, options = self._read(input, config, kwargs)
        return super().invoke(query, config, **options)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the same result as :meth:`invoke`, without blocking the event loop."""
        check_config(config)
        query, options = self._read(input, config, kwargs)
        return await super().ainvoke(query, config, **options)

    def _read(self, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return input, options

    def batch(self, inputs: list[Any], config: Any = None, **kwargs: Any) -> list[list[Document]]:
        """Return the Documents for each of several questions."""
        check_config(config)
        return super().batch(inputs, config, **kwargs)

    async def abatch(self, inputs: list[Any], config: Any = None, **kwargs: Any) -> list[list[Document]]:
        """Return the same result as :meth:`batch`, without blocking the event loop."""
        check_config(config)
        return await super().abatch(inputs, config, **kwargs)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[list[Document]]:
        """Yield the answer in lists of one Document each.

        Some hits are certain to be in the answer before edges are followed or a reranker runs. These are yielded first,
        with their search scores; their ``retrieval_rank`` is None if it is not known yet. When the answer is complete,
        the other Documents follow, best first. From then on, all Documents, including the early ones, have the metadata
        that ``invoke`` returns, such as its ``retrieval_rank``. (In a chain, they are yielded in its order; see
        :meth:`transform`.)

        If early hits are possible, the search runs in another thread, and completes even if the stream is not read to
        its end.
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
        """Yield the same lists as :meth:`stream`. Closing the stream cancels the search."""
        if not self._streams_early:
            for part in _one_by_one(await self.ainvoke(input, config, **kwargs), ()):
                yield part
            return

        def search(hand_out: HandOut) -> Coroutine[Any, Any, Sequence[Document]]:
            return self.ainvoke(input, config, **kwargs, **{EARLY: hand_out})

        async with aclosing(stream_documents(search)) as parts:
            async for part in parts:
                yield part

    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[list[Document]]:
        """Yield the complete answer in lists of one Document each, in the order of ``invoke``.

        LangChain calls this method when a chain is streamed. The next step of the chain receives the sum of the lists,
        so the Documents must already be in their final order.
        """
        parts = list(input)
        if parts:
            yield from _one_by_one(self.invoke(_sum(parts), config, **kwargs), ())

    async def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Document]]:
        """Yield the same lists as :meth:`transform`."""
        parts = [part async for part in input]
        if parts:
            for each in _one_by_one(await self.ainvoke(_sum(parts), config, **kwargs), ()):
                yield each


async def stream_documents(
    search: Callable[[HandOut], Coroutine[Any, Any, Sequence[Document]]],
) -> AsyncGenerator[list[Document], None]:
    """Yield the Documents that ``search`` hands out early, and then the others in its answer, one at a time.

    Closing the generator cancels the search.
    """
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[Document | None] = asyncio.Queue()

    def hand_out(document: Document) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing reads the stream
            loop.call_soon_threadsafe(parts.put_nowait, document)

    answer = asyncio.create_task(search(hand_out))
    answer.add_done_callback(lambda _: parts.put_nowait(None))
    early = []
    try:
        while (document := await parts.get()) is not None:
            early.append(document)
            yield [document]
        for part in _one_by_one(await answer, early):
            yield part
    finally:
        answer.cancel()


def check_config(config: object) -> None:
    """Raise ConfigurationError for k or another value instead of LangChain's config."""
    if isinstance(config, int | float | str):
        raise ConfigurationError(
            f"the second argument is LangChain's config, a mapping, got {config!r:.80}; options are passed by name: "
            f"write k={config!r:.80}"
        )


class EarlyDocuments:
    """Documents of one call that were handed out before its answer was complete."""

    def __init__(self, hand_out: HandOut) -> None:
        self._hand_out = hand_out
        self._documents: dict[str | None, Document] = {}

    def hand_out(self, documents: Sequence[Document]) -> None:
        """Pass the Documents to the caller's function, except those that were handed out before."""
        for document in documents:
            if document.id not in self._documents:
                self._documents[document.id] = document
                self._hand_out(document)

    def completed(self, documents: Sequence[Document]) -> list[Document]:
        """Return the answer, reusing the early Documents, which receive all of its metadata."""
        answer = []
        for document in documents:
            early = self._documents.get(document.id, document)
            early.page_content, early.metadata = document.page_content, document.metadata
            answer.append(early)
        return answer


def _sum(parts: Sequence[Any]) -> Any:
    """Return the sum of the parts, or the last part if they cannot be added, as in LangChain."""
    whole, *others = parts
    for part in others:
        try:
            whole = whole + part
        except TypeError:
            whole = part
    return whole


def _one_by_one(documents: Sequence[Document], early: Sequence[Document]) -> list[list[Document]]:
    """Return the remaining Documents in lists of one, or one empty list for an empty answer."""
    early_ids = {id(document) for document in early}
    return [[document] for document in documents if id(document) not in early_ids] or ([] if early else [[]])
