"""Stores by path or URI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers.store import HybridGraphStore
from langchain_hybridgraph.stores.milvus.connection import is_milvus_uri

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_hybridgraph.retrievers.milvus_store import MilvusStore


def open_store(
    location: str | Path, embedding: Embeddings | str | None = None, **options: Any
) -> HybridGraphStore | MilvusStore:
    """Open the store at a path or URI; create it if there is none.

    A path is the folder of a :class:`HybridGraphStore`; ``milvus://host:19530/database``, ``https://host:19530`` and
    ``milvus:notes.db`` name a :class:`MilvusStore`, for which an embedding is required. ``options`` are those of the
    class, such as ``tenant`` and ``language``. Raises ConfigurationError for a Milvus store without an embedding, and
    whatever the class raises.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, open_store(f"{folder}/index", "lsa") as store:
    ...     type(store).__name__
    'HybridGraphStore'
    """
    if not isinstance(location, str) or not is_milvus_uri(location):
        return HybridGraphStore(location, embedding, **options)
    if embedding is None:
        raise ConfigurationError(
            f'a store in Milvus needs an embedding: open_store("{location}", "minilm"), '
            '"package.module:factory" or a LangChain Embeddings'
        )
    from langchain_hybridgraph.retrievers.milvus_store import MilvusStore

    return MilvusStore(location, embedding, **options)
