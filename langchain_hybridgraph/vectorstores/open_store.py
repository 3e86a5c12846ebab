"""Opening stores by path or URI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.embeddings import resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.settings import HybridGraphSettings, ServerFields, StoreFields
from langchain_hybridgraph.stores.milvus.connection import is_milvus_uri
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

# Settings that apply only to a store on a server, or only to a store in a folder.
_OF_A_SERVER = ServerFields.model_fields.keys() - {"uri"}
_OF_A_FOLDER = StoreFields.model_fields.keys() - {"embedding", "language", "tenant"}


def open_store(
    location: str | Path, embedding: Embeddings | str | None = None, **options: Any
) -> HybridGraphStore | MilvusStore:
    """Open the store at a path or URI; create it if it does not exist.

    A path is the folder of a :class:`HybridGraphStore`. A URI such as ``milvus://host:19530/database``,
    ``https://host:19530`` or ``milvus:notes.db`` is the location of a :class:`MilvusStore`, for which an embedding is
    required. ``options`` are the options of the class, such as ``tenant`` and ``language``. Raises ConfigurationError
    for a Milvus store without an embedding, and the errors of the class.

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
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

    return MilvusStore(location, embedding, **options)


def store_from_settings(settings: HybridGraphSettings) -> HybridGraphStore | MilvusStore:
    """Open the store that the settings specify: the folder ``store_path``, or the server ``store_uri``.

    Raises ConfigurationError if both or neither of them are set, or if a setting applies only to the other kind of
    store. Also raises the errors of :func:`open_store`.
    """
    options = settings.arguments("store")
    uri = options.pop("uri", None)
    for_the_other = _OF_A_SERVER if uri is None else _OF_A_FOLDER
    if wrong := sorted(options.keys() & for_the_other):
        kind, needed = ("a folder", "a server") if uri is None else ("a server", "a folder")
        raise ConfigurationError(
            f"store_{wrong[0]} applies only to {needed}, but the settings specify {kind}; leave it out, or set "
            f"{'store_uri' if uri is None else 'store_path instead of store_uri'}"
        )
    if uri is None:
        return HybridGraphStore.from_settings(settings)
    embedding = options.pop("embedding", None)
    if isinstance(embedding, Mapping):
        embedding = resolve_embedding(embedding["type"], **{k: v for k, v in embedding.items() if k != "type"})
    return open_store(uri, embedding, **options)
