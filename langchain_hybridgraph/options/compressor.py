"""LangChain document compressors as rerankers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from langchain_core.documents import BaseDocumentCompressor, Document

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.execution.effects import is_asynchronous
from langchain_hybridgraph.options.conversations import RERANKERS
from langchain_hybridgraph.registry import create_or_import
from langchain_hybridgraph.search.rerankers import Reranker, TextReranker

if TYPE_CHECKING:
    from langchain_core.callbacks import Callbacks

    from langchain_hybridgraph.records import Hit

_ID = "_hybridgraph_id"
_SCORE = "relevance_score"


@dataclass(frozen=True)
class CompressorReranker:
    """Reranker that wraps any LangChain compressor.

    The compressor receives copies of the chunks as Documents. Only the compressor's selection, order and scores are
    used: each hit keeps the full text of its chunk, even if the compressor shortens it. A returned Document is matched
    to its chunk by an id in its metadata, or by ``Document.id``.

    If every returned Document has a number as ``relevance_score`` in its metadata, these numbers are the scores.
    Otherwise, the i-th of n chunks, counting from 0, has the score 1 − i/n. A repeated chunk has its highest score.

    With ``filters=False``, hits that the compressor leaves out are kept and ranked below the others. The constructor
    raises ConfigurationError if ``compressor`` is not a compressor. ``rerank`` raises ValueError if the compressor
    returns a Document that it did not receive.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> class First(BaseDocumentCompressor):
    ...     def compress_documents(self, documents, query, callbacks=None):
    ...         return documents[:1]
    >>> CompressorReranker(First()).rerank("any", [Hit(Chunk(id, id), 0.5, "vector", {}) for id in "ab"])
    [1.0, None]
    """

    compressor: BaseDocumentCompressor
    filters: bool = True
    callbacks: Callbacks = None

    def __post_init__(self) -> None:
        if not isinstance(self.compressor, BaseDocumentCompressor):
            raise ConfigurationError(
                f"cannot wrap {self.compressor!r}; pass an instance of langchain_core's BaseDocumentCompressor"
            )

    @property
    def is_asynchronous(self) -> bool:
        """Whether the compressor implements an asynchronous method; if so, it is awaited in the event loop."""
        return is_asynchronous(self.compressor)

    def rerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return one score per hit, or None for hits that the compressor left out."""
        compress = self.compressor.compress_documents
        return _scores(hits, compress(_documents(hits), query, **self._passed_on(compress)))

    async def arerank(self, query: str, hits: Sequence[Hit]) -> Sequence[float | None]:
        """Return the same scores as :meth:`rerank`, computed with the compressor's asynchronous method."""
        compress = self.compressor.acompress_documents
        return _scores(hits, await compress(_documents(hits), query, **self._passed_on(compress)))

    def _passed_on(self, compress: Callable[..., Any]) -> dict[str, Any]:
        # Many compressors do not have this argument; LangChain's own pipeline also checks for it.
        accepted = self.callbacks is not None and "callbacks" in inspect.signature(compress).parameters
        return {"callbacks": self.callbacks} if accepted else {}


def as_reranker(value: Any) -> Reranker:
    """Convert a LangChain compressor or a scoring function to a reranker.

    A scoring function takes a query and a list of texts and returns one score per text. A name (``"cross_encoder"``), a
    mapping (``{"type": "score", "min_score": 0.3}``) or a reranker is also accepted. Raises ConfigurationError for
    anything else.

    >>> as_reranker(lambda query, texts: [1.0 for _ in texts]).filters
    False
    """
    if isinstance(value, BaseDocumentCompressor):
        return CompressorReranker(value)
    if isinstance(value, Reranker) and not isinstance(value, type):
        return value
    if callable(value) and not isinstance(value, type):
        return TextReranker(value)
    if isinstance(value, str | Mapping):
        return as_reranker(create_or_import("reranker", value, RERANKERS))
    raise ConfigurationError(
        f"{value!r} cannot rerank; give a reranker such as ScoreReranker(min_score=0.3), a LangChain "
        "BaseDocumentCompressor, or a function (query, texts) -> scores"
    )


def _documents(hits: Iterable[Hit]) -> list[Document]:
    documents = []
    for hit in hits:
        # A relevance_score in the user's metadata would be mistaken for the compressor's score.
        metadata = {key: deepcopy(value) for key, value in hit.chunk.metadata.items() if key != _SCORE}
        documents.append(Document(hit.chunk.text, id=hit.id, metadata=metadata | {_ID: hit.id}))
    return documents


def _scores(hits: Sequence[Hit], answer: Sequence[Document]) -> list[float | None]:
    hit_ids, returned = {hit.id for hit in hits}, dict[str, list[Any]]()
    for document in answer:
        id = next((each for each in (document.metadata.get(_ID), document.id) if each in hit_ids), None)
        if id is None:
            raise ValueError(
                f"the compressor returned {quote_value(document.page_content[:80])}, which it did not receive: neither "
                "its metadata nor its id matches a hit"
            )
        returned.setdefault(id, []).append(document.metadata.get(_SCORE))
    if all(isinstance(each, Real) and not isinstance(each, bool) for own in returned.values() for each in own):
        scores = {id: max(own) for id, own in returned.items()}
    else:
        scores = {id: 1 - i / len(returned) for i, id in enumerate(returned)}
    return [scores.get(hit.id) for hit in hits]
