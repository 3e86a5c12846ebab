"""Opening a store in Milvus by its URI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from langchain_hybridgraph.cli.settings import configured
from langchain_hybridgraph.cli.stderr_messages import say
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError, NotAnIndexError

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore


def milvus_uri(index: Path) -> str | None:
    """Return the URI of a store in Milvus, or None for a folder. Raises ConfigurationError for a misspelt scheme.

    >>> from pathlib import Path
    >>> milvus_uri(Path("milvus://localhost/notes")), milvus_uri(Path("notes.hybridgraph"))
    ('milvus://localhost/notes', None)
    """
    from langchain_hybridgraph.stores.milvus.uri import check_scheme, is_milvus_uri

    # Path removes a slash from milvus://HOST, but not from milvus:/FOLDER/NAME.db, a milvus-lite file.
    uri = re.sub(r"^(milvus|https?):/(?!/)(?!.*\.db$)", r"\1://", str(index))
    check_scheme(uri)
    return uri if is_milvus_uri(uri) else None


def open_milvus(
    uri: str,
    embedding: str | None,
    *,
    tenant: str | None,
    config: Path | None,
    language: str | None = None,
    is_new_allowed: bool = False,
    quiet: bool = False,
) -> MilvusStore:
    """Open a store in Milvus with the collection, token and limits from the settings.

    If ``embedding`` is None, the embedding in the settings is used or, without one, the embedding of the store. Unless
    ``quiet``, the embedding chosen for a new store is printed to stderr.

    Raises NotAnIndexError if the store does not exist and ``is_new_allowed`` is false, EmbeddingMismatchError if the
    store has a custom embedding and none was passed or configured, ConfigurationError if no pretrained model is
    available for a new store, and the errors of MilvusStore.
    """
    from langchain_hybridgraph.embeddings import choose_embedding
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

    settings = configured(config)
    server = {"token": settings.store_token or "", "collection": settings.store_collection}
    if embedding is None and isinstance(settings.store_embedding, str):
        embedding = settings.store_embedding
    made_with = MilvusStore.embedding_of(uri, **server)
    if made_with is None and not is_new_allowed:
        raise NotAnIndexError(
            f"{uri} contains no store in the collection {settings.store_collection!r}: create one with "
            f"hybridgraph ingest PATHS --index {uri}"
        )
    if embedding is None and made_with not in (None, "minilm"):
        raise EmbeddingMismatchError(
            f"{uri} was made with the embedding {made_with}; pass it as --embedding package.module:factory, or set "
            "it once, as store_embedding in hybridgraph.yaml or HYBRIDGRAPH_STORE_EMBEDDING"
        )
    model = embedding or made_with
    if model is None:
        model, why = choose_embedding("auto")
        if model == "lsa":
            raise ConfigurationError(
                f"a new store in Milvus needs a pretrained model, and all-MiniLM-L6-v2 cannot be downloaded to this "
                f"machine now; pass --embedding package.module:factory, or run once with a network (for {uri})"
            )
        if not quiet:
            say(f"embedding {why}")
    return MilvusStore(
        uri,
        model,
        tenant=tenant,
        language=language,
        consistency=settings.store_consistency,
        timeout=settings.store_timeout,
        **server,
    )
