"""The embedded store as a LangChain VectorStore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage, convert_to_messages

from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings, default_embedding, embedding_name, resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError, as_path, check_number, quote_value
from langchain_hybridgraph.memory_scores import NEAR_DUPLICATE
from langchain_hybridgraph.records import memory_id
from langchain_hybridgraph.settings import HybridGraphSettings, ServerFields, StoreFields, check_settings
from langchain_hybridgraph.stores.generations import NoEmbedding
from langchain_hybridgraph.stores.index import IndexFolder, IndexSettings, read_facts
from langchain_hybridgraph.stores.memory import EmbeddedMemory, MemoryIntake
from langchain_hybridgraph.stores.milvus.connection import check_scheme, is_milvus_uri
from langchain_hybridgraph.stores.store import EmbeddedStore, Sessions
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT
from langchain_hybridgraph.text.analyzer import language_name
from langchain_hybridgraph.vectorstores.admission import Admission, admit
from langchain_hybridgraph.vectorstores.document_store import DocumentStore, chunk_from

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from langchain_hybridgraph.stores.access import Writer
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore


class DocumentMemory(EmbeddedMemory):
    """The memories of a store, with methods to add and replace them and to record feedback about them."""

    def __init__(self, index: IndexFolder, writer: Writer, near_duplicate: float) -> None:
        super().__init__(index, writer)
        self._intake, self._near_duplicate = MemoryIntake(index, writer, self), near_duplicate

    def remember(
        self,
        documents: Iterable[Document | str],
        llm: Any = None,
        *,
        contradictions: bool = True,
        near_duplicate: float | None = None,
    ) -> list[Admission]:
        """Add new memories in one transaction. Return one :class:`Admission` per memory, in the same order.

        Near duplicates, with a cosine of at least ``near_duplicate`` (None: the store's), join. The chat model ``llm``
        judges contradictions, or else the labels do; see :func:`langchain_hybridgraph.vectorstores.admission.admit`.
        Raises ValueError for a string instead of a list.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> from langchain_hybridgraph.records import Scope
        >>> _ = store.memory.remember([Document("Ada likes tea.", id="tea"), Document("Bo plays chess.", id="chess")])
        >>> [admission] = store.memory.remember(["Ada likes tea!"])
        >>> admission.outcome, admission.id, store.memory.states(["tea"], Scope())["tea"].active_count
        ('joined', 'tea', 1)
        """
        if isinstance(documents, str | Document) or not isinstance(documents, Iterable):
            raise ConfigurationError(f"documents must be a list of Documents or texts, got {quote_value(documents)}")
        each = map(_document, documents)
        chunks = [chunk_from(document.page_content, document.metadata, document.id) for document in each]
        if not chunks:
            return []
        near = self._near_duplicate if near_duplicate is None else near_duplicate
        return admit(chunks, self._intake, llm, contradictions=contradictions, near_duplicate=near)

    def supersede(self, old_id: str, document: Document | str, *, at: float | str | datetime | None = None) -> str:
        """Replace an old fact with a new one in one transaction; return the id of the new fact.

        The new fact is valid from its ``valid_from``, else from ``at``, else from now, and inherits no metadata. The
        old one ends a microsecond before; searches with an earlier ``as_of`` or ``known_at`` still find it. An edge
        ``supersedes`` leads to it.

        Raises ValueError if ``old_id`` does not exist, has been superseded or begins no earlier, for a blank text and
        for invalid times.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> _ = store.add_texts(["Ada lives in Paris."], ids=["paris"])
        >>> new = store.memory.supersede("paris", Document("Ada lives in Rome.", id="rome"), at="2024-05-01")
        >>> [document.id for document in store.similarity_search("Where does Ada live?", k=5)]
        ['rome']
        >>> [document.id for document in store.similarity_search("Where does Ada live?", k=5, as_of="2024-04-30")]
        ['paris']
        """
        fact = _document(document)
        if not fact.page_content.strip():
            raise ConfigurationError(
                f"the text that replaces {quote_value(old_id)} is blank; pass a text, or end the old fact with "
                f"retract({quote_value(old_id)})"
            )
        new_id = memory_id(fact.page_content, {**fact.metadata, "supersedes": old_id}) if fact.id is None else fact.id
        self.replace_fact(old_id, chunk_from(fact.page_content, fact.metadata, new_id), at)
        return new_id

    def set_mode(self, mode: str | Mapping[str, Any] | None) -> None:
        """Set the default mode for searching this tenant's memories; None restores the default of ``MemoryRetriever``.

        The ``mode`` of a retriever or a call takes precedence. Raises ConfigurationError for an unknown mode.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> store.memory.set_mode("procedural")
        >>> store.memory.mode
        'procedural'
        """
        from langchain_hybridgraph.options.models import mode_from

        if mode is not None:
            mode_from(mode)
        super().set_mode(mode)


def _document(memory: Any) -> Document:
    if not isinstance(memory, str | Document):
        raise ConfigurationError(
            f"a memory must be a string or a Document, got {quote_value(memory)} ({type(memory).__name__})"
        )
    return memory if isinstance(memory, Document) else Document(memory)


ROLES = {"human": "user", "ai": "assistant"}


class MessageSessions(Sessions):
    """The sessions of a store; their turns can be added as LangChain messages."""

    def add(
        self,
        session_id: str,
        turns: Iterable[BaseMessage | tuple[str, str]],
        *,
        created_at: float | str | datetime | None = None,
        ttl: float | timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Append turns to a session in one transaction and return their ids.

        A turn is a LangChain message with text or a (role, text) pair, stored as a chunk. To ``metadata`` are added
        ``session_id``, ``turn`` (its number), ``role``, ``created_at`` (default: now) and ``memory_type`` (default:
        "episodic"). ``memory.expire`` deletes turns older than ``ttl`` (seconds or a timedelta). Raises ValueError for
        a ``ttl`` that is not above 0 or exceeds 100 years, and for metadata that cannot be stored.

        >>> from langchain_hybridgraph import HybridGraphStore
        >>> store = HybridGraphStore(None)
        >>> from langchain_hybridgraph.records import Scope
        >>> store.sessions.add("monday", [("user", "Which car is red?"), ("assistant", "The roadster.")])
        ['session:monday#1', 'session:monday#2']
        >>> [turn.text for turn in store.sessions.turns("monday", 1, Scope())]
        ['The roadster.']
        """
        if isinstance(turns, str | Mapping) or not isinstance(turns, Iterable):
            raise ConfigurationError(
                f"turns must be a list of messages or (role, text) pairs, got {quote_value(turns)}; write "
                "[('user', 'hi')]"
            )
        pairs = [pair for turn in turns if (pair := _role_and_text(turn))[1].strip()]
        return self.add_pairs(session_id, pairs, created_at=created_at, ttl=ttl, metadata=metadata)


def _role_and_text(turn: Any) -> tuple[str, str]:
    """Return the role and text of a message or a (role, text) pair. The role in a pair may be any string."""
    if isinstance(turn, (tuple, list)) and len(turn) == 2 and all(isinstance(part, str) for part in turn):
        role = str(turn[0])
        return ROLES.get(role.lower(), role), str(turn[1])
    try:
        [message] = convert_to_messages([turn])
    except (NotImplementedError, ValueError):
        raise ConfigurationError(f"a turn must be a message or a (role, text) pair, got {quote_value(turn)}") from None
    return ROLES.get(message.type, message.type), str(message.text)


class HybridGraphStore(EmbeddedStore, DocumentStore):
    """LangChain VectorStore that keeps Documents, vectors, a keyword index and edges in one folder.

    A missing index at ``path`` is created, unless ``read_only``; None means in memory. ``embedding`` is a LangChain
    ``Embeddings``, ``"lsa"`` (fitted to the texts, nothing to download; the default), ``"minilm"`` or
    ``"package.module:factory"``; a folder created with ``"lsa"`` or ``"minilm"`` needs none. ``language`` (None:
    English, or the folder's) determines stemming and stop words; another one than the folder's raises
    ConfigurationError. A folder created with a ``tenant`` is multi-tenant. ``near_duplicate`` is the smallest cosine at
    which ``memory.remember`` merges memories.

    Scores are cosines. Threads and processes may read and write; writes happen one at a time, and one that waits
    ``write_timeout`` seconds raises StoreLockedError. A store on disk works after a fork, and can be pickled and copied
    if its embedding can be or was set by name.

    Raises NotAnIndexError, FormatVersionError, EmbeddingMismatchError, TenantError, and ConfigurationError.

    >>> store = HybridGraphStore(None)
    >>> store
    HybridGraphStore(None, 'lsa')
    >>> store.add_texts(["the cat sat", "dogs bark"], ids=["cat", "dog"])
    ['cat', 'dog']
    >>> [document.id for document in store.similarity_search("a cat", k=1)]
    ['cat']
    """

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
        if isinstance(path, str):
            if is_milvus_uri(path):
                raise ConfigurationError(
                    f"path must be a folder, got {quote_value(path)}; open_store(uri, embedding) opens one in Milvus"
                )
            check_scheme(path)
        check_number("near_duplicate", near_duplicate, gt=0, le=1)
        self._near_duplicate = near_duplicate
        folder = None if path is None else as_path("path", path)
        facts = read_facts(folder)
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
        self.memory: DocumentMemory = DocumentMemory(index, self._writer, self._near_duplicate)

    def _renew_summaries(self) -> None:
        from langchain_hybridgraph.ingestion.summaries import build_layers

        super()._renew_summaries()
        build_layers(self)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__() | {"near_duplicate": self._near_duplicate, "named": self._named_embedding}
        if self._named_embedding is not None:
            state["index"].change_embedding(NoEmbedding(self.name))
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._near_duplicate, self._named_embedding = state["near_duplicate"], state["named"]
        if self._named_embedding is not None:
            name, language = self._named_embedding
            state["index"].change_embedding(resolve_embedding(name, language=language))
        super().__setstate__(state)

    @property
    def embeddings(self) -> Embeddings:
        """Embedding that the store uses."""
        model = self._index.generation.embedding
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
        check_settings(settings)
        if settings.store_path is None:
            raise ConfigurationError("store_path is not set, so there is no index to open: set it, or pass a store")
        arguments = settings.arguments("store")
        if isinstance(settings.store_embedding, Mapping):
            language = read_facts(settings.store_path).get("language") or settings.store_language or "english"
            arguments["embedding"] = configured_embedding(settings.store_embedding, language)
        return cls(**arguments)


def _language(language: str | None, made_with: Any, path: Path | None) -> str:
    if made_with is None:
        language_name(language)
        return "english" if language is None else language
    if language is not None and language_name(language) != language_name(made_with):
        raise ConfigurationError(
            f"{path} was made with language={made_with!r}, but language={language!r} was passed: leave it out, or "
            "ingest the documents into a new folder"
        )
    return str(made_with)


def configured_embedding(form: Mapping[str, Any], language: str = "english") -> Embeddings:
    """Return the embedding that a mapping describes; LSA gets the language of the index or settings."""
    options = dict(form)
    return resolve_embedding(options.pop("type"), language=language, **options)


# Settings that apply only to a store on a server, or only to a store in a folder.
_OF_A_SERVER = ServerFields.model_fields.keys() - {"uri"}
_OF_A_FOLDER = StoreFields.model_fields.keys() - {"embedding", "language", "tenant"}


def open_store(
    location: str | Path, embedding: Embeddings | str | None = None, **options: Any
) -> HybridGraphStore | MilvusStore:
    """Open the store at a path or URI; create it if it does not exist.

    A path is the folder of a :class:`HybridGraphStore`, a URI such as ``milvus://host:19530/database``,
    ``https://host:19530`` or ``milvus:notes.db`` a :class:`MilvusStore`; ``options`` and errors are those of the class.
    Raises ConfigurationError for a Milvus store without an embedding.

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
    """Open the store in the folder ``store_path`` or on the server ``store_uri``, as the settings specify.

    Raises ConfigurationError unless exactly one is set, or for a setting of the other kind, and as :func:`open_store`.
    """
    options = settings.arguments("store")
    uri = options.pop("uri", None)
    kind, needed, others = ("server", "folder", _OF_A_FOLDER) if uri else ("folder", "server", _OF_A_SERVER)
    if wrong := sorted(options.keys() & others):
        raise ConfigurationError(
            f"store_{wrong[0]} applies only to a {needed}, but the settings specify a {kind}; leave it out, or set "
            "either store_uri or store_path"
        )
    if uri is None:
        return HybridGraphStore.from_settings(settings)
    embedding = options.pop("embedding", None)
    if isinstance(embedding, Mapping):
        embedding = configured_embedding(embedding)
    return open_store(uri, embedding, **options)
