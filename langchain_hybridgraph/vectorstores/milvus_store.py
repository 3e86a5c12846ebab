"""The Milvus store as a LangChain VectorStore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings, embedding_name, resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from langchain_hybridgraph.vectorstores.document_store import DocumentStore


class MilvusStore(MilvusChunkStore, DocumentStore):
    """A LangChain VectorStore that keeps Documents, vectors, keywords and edges in Milvus. All retrievers can use it.

    ``uri`` is ``milvus://[user:password@]host[:19530][/database]`` (or the same with ``http://`` or ``https://``), or
    ``milvus:notes.db`` for milvus-lite, which runs in this process and stores its data at that path. ``embedding`` is a
    LangChain ``Embeddings``, ``"minilm"`` or ``"package.module:factory"``; LSA cannot be used because it is fitted to
    the texts on one machine. The collections, whose names start with ``collection``, are created if they do not exist.
    If they are created with a ``tenant``, every store that is opened on them later must specify its tenant.
    ``language`` determines stemming and stop words (None: the language of existing collections, or English for new
    ones).

    ``consistency`` is Milvus' level for reads: ``"Session"`` includes every write of this process, ``"Strong"`` those
    of all processes; ``"Bounded"`` and ``"Eventually"`` are fastest but may lag by seconds. ``timeout`` is the limit in
    seconds for each request, including retries.

    Any number of processes may read and write at the same time; the last write of a chunk is kept. A write is not a
    transaction: after a failure, repeat it. A store can be pickled, and it can be used after a fork.

    Raises StoreUnavailableError if the server cannot be reached or refuses access, MissingExtraError without pymilvus,
    NotAnIndexError, FormatVersionError, EmbeddingMismatchError, TenantError and ConfigurationError.

    >>> store = MilvusStore("milvus://localhost:19530/notes", "minilm", token="root:Milvus")  # doctest: +SKIP
    """

    def _named_model(self, embedding: Any, language: str) -> tuple[Embeddings, str]:
        model = resolve_embedding(embedding, language=language)
        if isinstance(model, LSAEmbeddings):
            raise ConfigurationError(
                'embedding="lsa" is fitted to the corpus of one machine and cannot be used with Milvus; pass '
                '"minilm", "package.module:factory" or a LangChain Embeddings'
            )
        return model, embedding_name(model)

    @property
    def embeddings(self) -> Embeddings:
        """Embedding that the store uses."""
        return cast("Embeddings", self._index.embedding)

    def _overview(self) -> Mapping[str, Any]:
        return {"chunks": len(self), "embedding": embedding_name(self.embeddings), "tenant": self.tenant}

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | str,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        uri: str | None = None,
        ids: list[str] | None = None,
        **options: Any,
    ) -> Self:
        """Return a store with these texts; ``options`` are the options of the constructor."""
        if uri is None:
            raise ConfigurationError('a Milvus store needs a uri; pass uri="milvus://localhost:19530"')
        store = cls(uri, embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store
