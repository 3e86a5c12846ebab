"""Any LangChain retriever as a source of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig

from langchain_hybridgraph.query.calls import Call
from langchain_hybridgraph.records import Chunk, Found, Query, Scored
from langchain_hybridgraph.retrievers.documents import chunk_id, content_key
from langchain_hybridgraph.stores.base import KnowsContents

SCORE_KEYS = ("bm25_score", "score", "relevance_score")


@dataclass(frozen=True, slots=True, eq=False)
class RetrieverSource:
    """The Documents of another retriever, in its order.

    Their score is what the metadata of all of them says, in falling order, under ``bm25_score``, ``score`` or
    ``relevance_score``, else 1 − place/n. A Document without an id gets the one under which ``store`` holds its text
    and source. ``callbacks`` make the retriever's run a child of the caller's.
    """

    retriever: BaseRetriever
    weight: float
    id_key: str | None = None
    store: KnowsContents | None = None
    callbacks: Any = None
    name: str = "keyword"

    def search(self, query: Query, n: int) -> Call | None:
        """Ask the retriever; how many Documents it gives is its own setting."""
        text = query.text
        if text is None:
            return None

        config: RunnableConfig = {"callbacks": self.callbacks, "tags": [self.name]}

        async def awaited() -> Found:
            return self._found(await self.retriever.ainvoke(text, config))

        lane = (id(self.retriever), self.name)
        return Call(self.name, lambda: self._found(self.retriever.invoke(text, config)), awaited, lane=lane)

    def score(self, query: Query, found: Found, ids: Sequence[str]) -> Call | None:
        """A retriever cannot be asked for the scores of given Documents."""
        return None

    def _found(self, documents: Sequence[Document]) -> Found:
        named = {} if self.id_key else self._stored_ids([document for document in documents if document.id is None])
        chunks = [
            Chunk(named.get(content_key(d)) or chunk_id(d, self.id_key), d.page_content, d.metadata) for d in documents
        ]
        entries = zip(chunks, _scores(documents), strict=True)
        return Found([Scored(chunk.id, score, chunk) for chunk, score in entries])

    def _stored_ids(self, documents: Sequence[Document]) -> dict[tuple[str, str], str]:
        if self.store is None or not documents:
            return {}
        return self.store.ids_of_contents([content_key(document) for document in documents])


def _scores(documents: Sequence[Document]) -> list[float]:
    for key in SCORE_KEYS:
        given = [score for d in documents if isinstance(score := d.metadata.get(key), int | float)]
        if len(given) == len(documents) and given == sorted(given, reverse=True):
            return [float(score) for score in given]
    return [1.0 - place / len(documents) for place in range(len(documents))]
