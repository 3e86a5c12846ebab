"""LangChain's indexing API with the Documents' own ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.indexing import IndexingResult, RecordManager
from langchain_core.indexing import aindex as langchain_aindex
from langchain_core.indexing import index as langchain_index

from langchain_hybridgraph.errors import quote_value

if TYPE_CHECKING:
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.vectorstores import VectorStore

# LangChain skips Documents whose key the record manager contains. With ids as keys, it would never update a changed
# text, so all Documents are passed on; the store itself skips unchanged Documents.
_CONSTANT_OPTIONS = {"force_update": True}


def index(
    documents: Iterable[Document] | BaseLoader,
    record_manager: RecordManager,
    store: VectorStore,
    *,
    batch_size: int = 1_000,
    **options: Any,
) -> IndexingResult:
    """Run LangChain's ``index`` and keep the Documents' own ids, so that edges and ``parent_id`` remain valid.

    ``options`` are passed to LangChain (``cleanup``, ``source_id_key`` …). A changed Document is updated. For an
    unchanged Document, a HybridGraphStore does only one lookup in its catalog. Raises ValueError for a Document without
    an id.

    >>> from langchain_core.indexing import InMemoryRecordManager
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> manager = InMemoryRecordManager("example")
    >>> manager.create_schema()
    >>> index([Document(id="a", page_content="text")], manager, HybridGraphStore())["num_added"]
    1
    """
    return langchain_index(
        documents, record_manager, store, batch_size=batch_size, key_encoder=kept_id, **_CONSTANT_OPTIONS | options
    )


async def aindex(
    documents: Iterable[Document] | BaseLoader,
    record_manager: RecordManager,
    store: VectorStore,
    *,
    batch_size: int = 1_000,
    **options: Any,
) -> IndexingResult:
    """Run :func:`index` asynchronously, through ``langchain_core.indexing.aindex``."""
    return await langchain_aindex(
        documents, record_manager, store, batch_size=batch_size, key_encoder=kept_id, **_CONSTANT_OPTIONS | options
    )


def kept_id(document: Document) -> str:
    """Return the Document's own id. Pass this function to LangChain as ``key_encoder``.

    Raises ValueError for a Document without an id.
    """
    if not document.id:
        raise ValueError(
            f"a document without an id cannot be indexed by its id: {quote_value(document.page_content[:60])}; "
            "give every Document an id"
        )
    return document.id
