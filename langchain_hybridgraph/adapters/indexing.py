"""LangChain's indexing API with ids kept."""

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

# LangChain passes over Documents whose key the record manager knows. With ids as keys a changed text would be
# passed over for ever, so everything is handed on; the store itself passes over what is unchanged.
_KEPT = {"force_update": True}


def index(
    documents: Iterable[Document] | BaseLoader,
    record_manager: RecordManager,
    store: VectorStore,
    *,
    batch_size: int = 1_000,
    **options: Any,
) -> IndexingResult:
    """``langchain_core.indexing.index`` that keeps the Documents' ids, which edges and parents hang on.

    ``options`` are LangChain's (``cleanup``, ``source_id_key`` …). A changed Document is updated, an unchanged one
    costs a look at the catalogue. Raises ValueError for a Document without an id.

    >>> from langchain_core.indexing import InMemoryRecordManager
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> manager = InMemoryRecordManager("example")
    >>> manager.create_schema()
    >>> index([Document(id="a", page_content="text")], manager, HybridGraphStore())["num_added"]
    1
    """
    return langchain_index(
        documents, record_manager, store, batch_size=batch_size, key_encoder=kept_id, **_KEPT | options
    )


async def aindex(
    documents: Iterable[Document] | BaseLoader,
    record_manager: RecordManager,
    store: VectorStore,
    *,
    batch_size: int = 1_000,
    **options: Any,
) -> IndexingResult:
    """What :func:`index` does, through ``langchain_core.indexing.aindex``."""
    return await langchain_aindex(
        documents, record_manager, store, batch_size=batch_size, key_encoder=kept_id, **_KEPT | options
    )


def kept_id(document: Document) -> str:
    """The Document's own id, as LangChain's ``key_encoder``; raises ValueError when it has none."""
    if not document.id:
        raise ValueError(
            f"a document without an id cannot be indexed with ids kept: {quote_value(document.page_content[:60])}; "
            "give every Document(id=…)"
        )
    return document.id
