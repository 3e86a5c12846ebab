"""A store in Milvus as a LangChain VectorStore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings import LSAEmbeddings, embedding_name, resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.stores.milvus.connection import TIMEOUT
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from langchain_hybridgraph.vectorstores.document_store import DocumentStore

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.milvus.index import Consistency
    from langchain_hybridgraph.vectorstores.document_store import ChunkStore


class MilvusStore(MilvusChunkStore, DocumentStore):
    """Documents, their vectors, words and edges in Milvus; a full LangChain VectorStore for all retrievers.

    ``uri`` is ``milvus://[user:password@]host[:19530][/database]`` (also ``http://`` and ``https://``), or
    ``milvus:notes.db`` for milvus-lite, which runs in this process and stores its data in that folder. ``embedding`` is
    a LangChain ``Embeddings``, ``"minilm"`` or ``"package.module:factory"``; LSA is fitted to one machine's corpus and
    cannot be used. The collections, whose names begin with ``collection``, are created if they do not exist. A
    ``tenant`` at creation makes them multi-tenant: from then on every store opened on them names its tenant, which is
    their partition key. ``language`` determines stemming and stop words (None: that of existing collections, English
    for new ones).

    ``consistency`` is Milvus' consistency level of reads: ``"Session"`` sees every write of this process, ``"Strong"``
    those of all processes, ``"Bounded"`` and ``"Eventually"`` may lag behind by seconds and are the fastest.
    :meth:`with_consistency` selects another level for a call. ``timeout`` is in seconds and applies to each request to
    the server, including retries.

    Any number of processes may read and write at once; if several processes write one chunk, the last write is kept. A
    write is not a transaction: after a failure, repeat it. A store can be pickled, and used after a fork.

    Raises StoreUnavailableError when the server cannot be reached or refuses access, NotAnIndexError,
    FormatVersionError, EmbeddingMismatchError, TenantError, MissingExtraError without pymilvus, and ConfigurationError.

    >>> store = MilvusStore("milvus://localhost:19530/notes", "minilm", token="root:Milvus")  # doctest: +SKIP
    """

    def __init__(
        self,
        uri: str,
        embedding: Embeddings | str,
        *,
        token: str = "",
        database: str = "",
        tenant: str | None = None,
        collection: str = COLLECTION,
        language: str | None = None,
        consistency: Consistency = "Session",
        timeout: float = TIMEOUT,
    ) -> None:
        model = resolve_embedding(embedding, language=language or "english")
        if isinstance(model, LSAEmbeddings):
            raise ConfigurationError(
                'embedding="lsa" is fitted to the corpus of one machine and cannot be used with Milvus; pass '
                '"minilm", "package.module:factory" or a LangChain Embeddings'
            )
        super().__init__(
            uri,
            embedding=model,
            name=embedding_name(model),
            token=token,
            database=database,
            tenant=tenant,
            collection=collection,
            language=language,
            consistency=consistency,
            timeout=timeout,
        )

    @property
    def _chunks(self) -> ChunkStore:
        return self

    @property
    def embeddings(self) -> Embeddings:
        """The embedding that the store uses."""
        model: Embeddings = self._index.embedding
        return model

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
        """Return a store with these texts; ``options`` are those of the constructor."""
        if uri is None:
            raise ConfigurationError('a Milvus store needs a server: uri="milvus://localhost:19530"')
        store = cls(uri, embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store
