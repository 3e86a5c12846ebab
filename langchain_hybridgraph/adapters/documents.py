"""Conversion between hits, chunks and LangChain Documents."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from langchain_core.documents import Document

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.records import ALL_TIME, Chunk, Hit, content_id
from langchain_hybridgraph.records.chunk_metadata import labels_of
from langchain_hybridgraph.registry import similar_name
from langchain_hybridgraph.times import parse_time

Annotate = Literal["all", "score", "none"]
"""Amount of detail in a Document's metadata about how the Document was found."""


def chosen_level(requested_level: Annotate | None, return_scores: bool | None, own: Annotate) -> Annotate:
    """Return the level of annotation for a call.

    The level is ``requested_level``. If this is None, it is ``own``, the retriever's level. With ``return_scores``, the
    level "none" becomes "score". Raises ConfigurationError for an unknown level.

    >>> chosen_level(None, True, "none"), chosen_level(None, True, "all"), chosen_level("none", None, "all")
    ('score', 'all', 'none')
    """
    level = own if requested_level is None else requested_level
    if level not in get_args(Annotate):
        near = similar_name(level, get_args(Annotate))
        hint = f"; did you mean {near!r}?" if near else ""
        raise ConfigurationError(f"annotate must be 'all', 'score' or 'none', got {quote_value(level)}{hint}")
    return "score" if return_scores and level == "none" else level


def to_document(chunk: Chunk) -> Document:
    """Convert a chunk to a Document with the same id, text and metadata."""
    return Document(id=chunk.id, page_content=chunk.text, metadata=dict(chunk.metadata))


def documents_from(data: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Rebuild Documents from the ``documents`` list in the output of ``RetrievalResult.to_dict``.

    Raises ValueError for an entry that does not describe a Document.
    """
    return [Document.model_validate(one) for one in data]


def chunk_id(document: Document, id_key: str | None = None) -> str:
    """Return a Document's id, or a hash of its text and source, which is the same in every run.

    With ``id_key``, the id is the value of this metadata key; raises ValueError if it is missing.
    """
    if id_key is not None:
        if document.metadata.get(id_key) is None:
            raise ValueError(
                f"id_key={quote_value(id_key)}: the document {quote_value(document.page_content[:60])} does not have "
                "this metadata key; add it, or pass another id_key"
            )
        return str(document.metadata[id_key])
    return document.id or content_id(*content_key(document))


def content_key(document: Document) -> tuple[str, str]:
    """Return the text and the source of a Document, which identify it if it has no id."""
    return document.page_content, str(document.metadata.get("source", ""))


def annotate(
    hits: Sequence[Hit], method: str, degraded: Sequence[str] = (), prefix: str = "", level: Annotate = "all"
) -> list[Document]:
    """Convert hits to new Documents whose metadata describe how they were found; stored objects are not changed.

    At the level ``"score"`` only the score is added, and at ``"none"`` the metadata are returned as stored. ``prefix``
    is put in front of each added key. An added key overwrites a stored key with the same name.
    """
    documents = []
    for rank, hit in enumerate(hits, start=1):
        ours = _annotations(hit, rank, method, degraded) if level == "all" else {}
        ours |= score_notes(hit.score) if level == "score" else {}
        metadata = _own_copy(hit.chunk.metadata) | {prefix + key: value for key, value in ours.items()}
        documents.append(Document(id=hit.chunk.id, page_content=hit.chunk.text, metadata=metadata))
    return documents


def score_notes(score: float) -> dict[str, Any]:
    """Return a mapping with the score under the two keys that LangChain's tools read."""
    return {"relevance_score": score, "score": score}


def _annotations(hit: Hit, rank: int, method: str, degraded: Sequence[str]) -> dict[str, Any]:
    matched_chunk = hit.child or hit.chunk
    labels = labels_of(hit.chunk.metadata)
    notes: dict[str, Any] = {
        "retrieval_rank": rank,
        **score_notes(hit.score),
        "retrieval_method": method,
        "retrieval_source": hit.source,
        "vector_score": hit.vector_score,
        "bm25_score": hit.bm25_score,
        "rerank_score": hit.rerank_score,
        "score_breakdown": dict(hit.parts),
        "hops": hit.hops,
        "source_path": list(hit.path),
        "graph_context": [dict(edge) for edge in hit.graph_context],
        "chunk_id": matched_chunk.id,
        "parent_id": matched_chunk.parent,
    }
    if labels:
        notes["label"] = labels[0]
    if degraded:
        notes["degraded"] = list(degraded)
    return notes


_PLAIN = frozenset((str, int, float, bool, type(None)))


def _own_copy(metadata: Any) -> dict[str, Any]:
    # Stored metadata is parsed again for each query, but a dict passed by the caller must not be shared.
    if isinstance(metadata, dict) and not _PLAIN.issuperset(map(type, metadata.values())):
        return copy.deepcopy(metadata)
    return dict(metadata)


def resolve_as_of(as_of: Any) -> float | None:
    """Return the time at which chunks have to be valid, in Unix seconds.

    None is converted to the current time. For ``ALL_TIME``, the result is None: chunks need not be valid at any
    particular time.
    """
    if as_of is ALL_TIME:
        return None
    return time.time() if as_of is None else parse_time(as_of)
