"""Extraction of hits from results or Documents."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Answerability, Hit

if TYPE_CHECKING:
    from langchain_core.documents import Document


@runtime_checkable
class SearchResult(Protocol):
    """Search result that can be displayed, such as a :class:`~langchain_hybridgraph.RetrievalResult`."""

    # This is a protocol so that the result class can import this module without an import cycle.

    hits: tuple[Hit, ...]
    degraded: tuple[str, ...]
    took_ms: float
    plan: dict[str, Any]
    answerability: Answerability | None

    def __len__(self) -> int: ...


def hits_in(result: SearchResult | Iterable[Any], prefix: str = "") -> list[Hit]:
    """Return the hits of a result, or rebuild them from the metadata of Documents, in the same order.

    ``prefix`` is the ``metadata_prefix`` of the retriever that returned the Documents. A Document without a score gets
    the score NaN. Raises ConfigurationError for anything that is not a result or a list of Documents.
    """
    if isinstance(result, SearchResult) and len(result.hits) == len(result):
        return list(result.hits)
    if isinstance(result, str) or not isinstance(result, Iterable):
        raise ConfigurationError(
            f"expected a RetrievalResult or a list of Documents, got {type(result).__name__}: {result!r}"
        )
    return [_hit(document, prefix) for document in result]


def _hit(document: Document, prefix: str) -> Hit:
    if not hasattr(document, "page_content"):
        raise ConfigurationError(
            f"expected a list of Documents, but the list contains a {type(document).__name__}: {document!r}"
        )
    metadata = document.metadata
    score, id = metadata.get(f"{prefix}relevance_score"), document.id or ""
    return Hit(
        chunk=Chunk(id, document.page_content, metadata),
        score=math.nan if score is None else score,
        source=metadata.get(f"{prefix}retrieval_source", ""),
        parts=metadata.get(f"{prefix}score_breakdown", {}),
        vector_score=metadata.get(f"{prefix}vector_score"),
        bm25_score=metadata.get(f"{prefix}bm25_score"),
        rerank_score=metadata.get(f"{prefix}rerank_score"),
        hops=metadata.get(f"{prefix}hops", 0),
        path=tuple(metadata.get(f"{prefix}source_path", ())),
        graph_context=tuple(metadata.get(f"{prefix}graph_context", ())),
    )
