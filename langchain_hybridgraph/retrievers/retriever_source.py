"""Any LangChain retriever as a source of candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_hybridgraph.query.calls import Call
from langchain_hybridgraph.records import Chunk, Found, Query, Scored
from langchain_hybridgraph.retrievers.documents import chunk_id, content_key

SCORE_KEYS = ("bm25_score", "score", "relevance_score")


@dataclass(frozen=True, slots=True, eq=False)
class RetrieverSource:
    """The Documents of another retriever, in its order.

    Their score is what their metadata says under ``bm25_score``, ``score`` or ``relevance_score``, else
    1 − place/n. A Document without an id gets the one that ``ids`` knows for its text and source.
    """

    retriever: BaseRetriever
    weight: float
    id_key: str | None = None
    ids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    name: str = "keyword"

    def search(self, query: Query, n: int) -> Call | None:
        """Ask the retriever; how many Documents it gives is its own setting."""
        text = query.text
        if text is None:
            return None

        async def awaited() -> Found:
            return self._found(await self.retriever.ainvoke(text))

        return Call(
            self.name, lambda: self._found(self.retriever.invoke(text)), awaited, lane=(id(self.retriever), self.name)
        )

    def score(self, query: Query, found: Found, ids: Sequence[str]) -> Call | None:
        """A retriever cannot be asked for the scores of given Documents."""
        return None

    def _found(self, documents: Sequence[Document]) -> Found:
        entries = []
        for place, document in enumerate(documents):
            named = self.id_key is not None or document.id is not None
            id = chunk_id(document, self.id_key) if named else self.ids.get(content_key(document)) or chunk_id(document)
            chunk = Chunk(id, document.page_content, document.metadata)
            entries.append(Scored(id, _score(document, 1.0 - place / len(documents)), chunk))
        return Found(entries)


def _score(document: Document, otherwise: float) -> float:
    for key in SCORE_KEYS:
        if isinstance(score := document.metadata.get(key), int | float):
            return float(score)
    return otherwise
