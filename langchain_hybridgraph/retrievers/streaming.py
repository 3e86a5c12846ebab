"""Answers as a stream: one Document after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


class StreamingRetriever(BaseRetriever):
    """A retriever whose stream adds up to its answer."""

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[list[Document]]:
        """One list of one Document after the other, best first: a chain's ``stream`` adds up to its ``invoke``.

        The first place is certain only when all stages are done, so the parts come at once, after the search.
        """
        yield from _one_by_one(self.invoke(input, config, **kwargs))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Document]]:
        """What :meth:`stream` gives."""
        for part in _one_by_one(await self.ainvoke(input, config, **kwargs)):
            yield part


def _one_by_one(documents: list[Document]) -> list[list[Document]]:
    return [[document] for document in documents] or [[]]
