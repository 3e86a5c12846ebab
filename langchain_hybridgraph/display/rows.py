"""What any answer is made of: one hit per line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Chunk, Hit, RetrievalResult

if TYPE_CHECKING:
    from langchain_core.documents import Document


def hits_in(found: RetrievalResult[Any] | Iterable[Any], prefix: str = "") -> list[Hit]:
    """The hits of an answer, or those that the metadata of its Documents describe, in its order.

    ``prefix`` is the ``metadata_prefix`` of the retriever that gave the Documents. The score of a Document that no
    retriever of ours has scored is not a number. Raises ConfigurationError for what is not a Document.
    """
    if isinstance(found, RetrievalResult) and len(found.hits) == len(found):
        return list(found.hits)
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise ConfigurationError(f"an answer is wanted, or a list of Documents; not {type(found).__name__}: {found!r}")
    return [_hit(document, prefix) for document in found]


def is_ours(found: Sequence[Any]) -> bool:
    """Whether a list is one of Documents that a retriever of ours has scored, and nothing else."""
    from langchain_core.documents import Document

    return bool(found) and all(
        isinstance(each, Document) and {"score_breakdown", "retrieval_rank"} <= each.metadata.keys() for each in found
    )


def _hit(document: Document, prefix: str) -> Hit:
    if not hasattr(document, "page_content"):
        raise ConfigurationError(f"a list of Documents is wanted; one has a {type(document).__name__}: {document!r}")
    said = document.metadata
    score, id = said.get(f"{prefix}relevance_score"), document.id or ""
    return Hit(
        chunk=Chunk(id, document.page_content, said),
        score=math.nan if score is None else score,
        source=said.get(f"{prefix}retrieval_source", ""),
        parts=said.get(f"{prefix}score_breakdown", {}),
        vector_score=said.get(f"{prefix}vector_score"),
        bm25_score=said.get(f"{prefix}bm25_score"),
        rerank_score=said.get(f"{prefix}rerank_score"),
        hops=said.get(f"{prefix}hops", 0),
        path=tuple(said.get(f"{prefix}source_path", ())),
        graph_context=tuple(said.get(f"{prefix}graph_context", ())),
    )
