"""The embedded store as a LangChain VectorStore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings import default_embedding, embedding_name, resolve_embedding
from langchain_hybridgraph.embeddings.lsa_embeddings import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, as_path, quote_value
from langchain_hybridgraph.memory.admission import check_near_duplicate
from langchain_hybridgraph.memory.duplicates import NEAR_DUPLICATE
from langchain_hybridgraph.options.groups import check_store_arguments
from langchain_hybridgraph.settings import HybridGraphSettings
from langchain_hybridgraph.stores.embedded.folder.creation import read_facts
from langchain_hybridgraph.stores.embedded.folder.embedding_check import NoEmbedding
from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
from langchain_hybridgraph.stores.embedded.folder.writer_lock import WRITE_TIMEOUT
from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
from langchain_hybridgraph.stores.milvus.uri import check_scheme, is_milvus_uri
from langchain_hybridgraph.text.analyzer import language_name
from langchain_hybridgraph.vectorstores.document_store import DocumentStore
from langchain_hybridgraph.vectorstores.memory import DocumentMemory
from langchain_hybridgraph.vectorstores.sessions import MessageSessions

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
    from langchain_hybridgraph.vectorstores.document_store import ChunkStore


class HybridGraphStore(EmbeddedStore, DocumentStore):
    """A LangChain VectorStore that keeps Documents, vectors, a keyword index and edges in one folder.

    If there is no index at ``path``, a new one is created. If ``path`` is None, the store is kept in memory. With
    ``read_only``, the store never writes, and a missing index raises NotAnIndexError.

    ``embedding`` is a LangChain ``Embeddings``, ``"lsa"`` (fitted to the texts, nothing to download), ``"minilm"`` or
    ``"package.module:factory"``. It may be left out for a new store, which then uses ``"lsa"``, and for a folder that
    was created with ``"lsa"`` or ``"minilm"``. ``language`` determines stemming and stop words of a new keyword index
    (None: English). It may be left out for an existing folder; a different language raises ConfigurationError. A folder
    that is created with a ``tenant`` is multi-tenant. ``near_duplicate`` is the smallest cosine at which
    ``memory.remember`` merges a memory with an existing one.

    Documents are returned as they were added. Scores are cosines; higher is better. Any number of threads and processes
    may read and write. Writes happen one at a time; a write that has waited ``write_timeout`` seconds for the write
    lock raises StoreLockedError. The stores that one process opens on the same folder share files and connections. A
    store on disk can be pickled and copied if its embedding can be pickled or was set by name. It keeps working in a
    forked process, which opens the folder again.

    Raises NotAnIndexError, FormatVersionError, EmbeddingMismatchError, TenantError, and ConfigurationError.

    >>> store = HybridGraphStore(None)
    >>> store
    HybridGraphStore(None, 'lsa')
    >>> store.add_texts(["the cat sat", "dogs bark"], ids=["cat", "dog"])
    ['cat', 'dog']
    >>> [document.id for document in store.similarity_search("a cat", k=1)]
    ['cat']
    """

    if not TYPE_CHECKING:  # type checkers check the arguments of __init__

        def __new__(cls, *arguments: Any, **options: Any) -> Self:
            """Raise TypeError for arguments of other vector stores, with the line to write."""
            check_store_arguments(cls.__name__, options)
            return super().__new__(cls)

    def __init__(
        self,
        path: str | Path | None = None,
        embedding: Embeddings | str | None = None,
        *,
        tenant: str | None = None,
        language: str | None = None,
        read_only: bool = False,
        write_timeout: float = WRITE_TIMEOUT,
        near_duplicate: float = NEAR_DUPLICATE,
    ) -> None:
        if isinstance(path, str) and is_milvus_uri(path):
            raise ConfigurationError(
                f"path must be a folder, got {quote_value(path)}; open_store(uri, embedding) and "
                "MilvusStore(uri, embedding) open a store in Milvus"
            )
        if isinstance(path, str):
            check_scheme(path)
        check_near_duplicate(near_duplicate)
        self._near_duplicate = near_duplicate
        folder = None if path is None else as_path("path", path)
        facts = read_facts(folder, read_only=read_only)
        language = _language(language, facts.get("language"), folder)
        choice = default_embedding(facts.get("embedding"), folder) if embedding is None else embedding
        model = resolve_embedding(choice, language=language)
        self._named_embedding = (choice, language) if isinstance(choice, str) else None
        super().__init__(
            IndexSettings(
                path=folder,
                embedding=model,
                name=embedding_name(model),
                load=LSAEmbeddings.load if isinstance(model, LSAEmbeddings) else None,
                tenant=tenant,
                language=language,
                read_only=read_only,
                write_timeout=write_timeout,
            )
        )

    def _assemble(self, index: IndexFolder) -> None:
        super()._assemble(index)
        self.sessions: MessageSessions = MessageSessions(index, self._writer)
        self.memory: DocumentMemory = DocumentMemory(index, self._writer, self._intake, self._near_duplicate)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings to pickle. An embedding that was set by name is pickled as its name."""
        state = super().__getstate__() | {"near_duplicate": self._near_duplicate, "named": self._named_embedding}
        if self._named_embedding is not None:
            state["index"].change_embedding(NoEmbedding())
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._near_duplicate, self._named_embedding = state["near_duplicate"], state["named"]
        if self._named_embedding is not None:
            name, language = self._named_embedding
            state["index"].change_embedding(resolve_embedding(name, language=language))
        super().__setstate__(state)

    @property
    def _chunks(self) -> ChunkStore:
        return self

    @property
    def embeddings(self) -> Embeddings:
        """Embedding that the store uses."""
        model = self.embedding
        assert isinstance(model, Embeddings)
        return model

    def _overview(self) -> Mapping[str, Any]:
        stats = self.admin.stats()
        names = ("chunks", "parents", "edges", "entities", "sessions", "embedding", "dimension", "language", "tenant")
        size = None if self.path is None else stats["bytes"] / 1e6
        return {name: stats[name] for name in names} | {"MB on disk": size}

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | str | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | Path | None = None,
        tenant: str | None = None,
        language: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Add texts to the store in the folder ``path`` (None: in memory), and return the store."""
        check_store_arguments(f"{cls.__name__}.from_texts", kwargs, "texts")
        store = cls(path, embedding, tenant=tenant, language=language)
        store.add_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    @classmethod
    def from_config(cls, path: str | Path | None = None) -> Self:
        """Return the store configured by a YAML file and the environment (see :class:`HybridGraphSettings`)."""
        return cls.from_settings(HybridGraphSettings.from_file(path))

    @classmethod
    def from_settings(cls, settings: HybridGraphSettings) -> Self:
        """Return the store configured by the settings; raise ConfigurationError if ``store_path`` is not set."""
        if settings.store_path is None:
            raise ConfigurationError("store_path is not set, so there is no index to open: set it, or pass a store")
        arguments = settings.arguments("store")
        if isinstance(settings.store_embedding, Mapping):
            arguments["embedding"] = _configured(settings.store_embedding, settings)
        return cls(**arguments)


def _language(language: str | None, made_with: Any, path: Path | None) -> str:
    if made_with is None:
        return language or "english"
    if language is not None and language_name(language) != language_name(made_with):
        raise ConfigurationError(
            f"{path} was made with language={made_with!r}, but language={language!r} was passed: leave it out, or "
            "ingest the documents into a new folder"
        )
    return str(made_with)


def _configured(form: Mapping[str, Any], settings: HybridGraphSettings) -> Embeddings:
    """Return the embedding that a mapping describes.

    An LSA embedding gets the language of the index. If there is no index yet, it gets the language in the settings.
    """
    options = dict(form)
    made_for = read_facts(settings.store_path).get("language", settings.store_language or "english")
    return resolve_embedding(options.pop("type"), language=str(made_for), **options)
