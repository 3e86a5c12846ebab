"""The embedded store as a LangChain VectorStore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from langchain_hybridgraph.adapters.documents import resolve_as_of, to_document
from langchain_hybridgraph.config import HybridGraphSettings
from langchain_hybridgraph.embeddings import LSAEmbeddings, embedding_name, resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError, FilterError, quote_value
from langchain_hybridgraph.filters import parse_filter
from langchain_hybridgraph.memory.admission import check_near_duplicate
from langchain_hybridgraph.memory.contradictions import NEAREST
from langchain_hybridgraph.query.selection import Selection, select_hits
from langchain_hybridgraph.records import Hit, Query, Scope, ScoredId, TimeRange
from langchain_hybridgraph.retrievers.store_memory import DocumentMemory, MessageSessions, chunk_from
from langchain_hybridgraph.retrievers.validation import check_documents, check_vector
from langchain_hybridgraph.stores.embedded import tenants
from langchain_hybridgraph.stores.embedded.index_folder import WRITE_TIMEOUT, read_facts
from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
from langchain_hybridgraph.text.analyzer import language_name
from langchain_hybridgraph.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from langchain_hybridgraph.filters import Filter
    from langchain_hybridgraph.stores.embedded.index_folder import IndexFolder

BATCH = 1_000
NAMED = ("lsa", "minilm")


class HybridGraphStore(EmbeddedStore, VectorStore):
    """Documents, their vectors, their words and their edges in one folder; a full LangChain VectorStore.

    ``path`` None keeps everything in memory. ``embedding`` is a LangChain ``Embeddings``, ``"lsa"`` (made from the
    corpus, nothing to download), ``"minilm"`` or ``"package.module:factory"``; None takes the one that the folder
    was made with, and ``"lsa"`` for a new one. A ``tenant`` given for a new folder makes it multi-tenant.
    ``language`` decides stemming and stop words of a new folder's keyword index (None: English); of a folder that is
    there it may be left out, and another one raises ConfigurationError. A store that is opened with
    ``read_only`` never writes. ``near_duplicate`` is the cosine from which ``memory.remember`` joins memories that say
    the same.

    Documents come back exactly as they were given; scores are cosines, higher is better. Any number of threads and
    processes may read and write: they take turns, one change at a time, and a change that has waited ``write_timeout``
    seconds for its turn raises StoreLockedError. The stores of one process share what they have open of a folder. A
    store on disk may be pickled, copied and used in a forked process, where it opens its folder again; its embedding
    must be one that can be pickled, or be given by its name.

    Raises NotAnIndexError, FormatVersionError, EmbeddingMismatchError, TenantError.

    >>> store = HybridGraphStore(None)
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
        near_duplicate: float = NEAREST,
    ) -> None:
        check_near_duplicate(near_duplicate)
        self._near_duplicate = near_duplicate
        folder = None if path is None else Path(path)
        facts = read_facts(folder, read_only=read_only)
        language = _language(language, facts.get("language"), folder)
        chosen = _chosen(embedding, facts.get("embedding"), folder)
        model = resolve_embedding(chosen, language=language)
        self._named_embedding = (chosen, language) if isinstance(chosen, str) else None
        super().__init__(
            folder,
            embedding=model,
            name=embedding_name(model),
            load=LSAEmbeddings.load if isinstance(model, LSAEmbeddings) else None,
            tenant=tenant,
            language=language,
            read_only=read_only,
            write_timeout=write_timeout,
        )

    def _assemble(self, index: IndexFolder) -> None:
        super()._assemble(index)
        self.sessions: MessageSessions = MessageSessions(index, self._writer)
        self.memory: DocumentMemory = DocumentMemory(index, self._writer, self._intake, self._near_duplicate)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings; a model that was given by its name is found by it again."""
        state = super().__getstate__() | {"near_duplicate": self._near_duplicate, "named": self._named_embedding}
        if self._named_embedding is not None:
            state["index"].unfitted_embedding = None
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._near_duplicate, self._named_embedding = state["near_duplicate"], state["named"]
        if self._named_embedding is not None:
            name, language = self._named_embedding
            state["index"].unfitted_embedding = resolve_embedding(name, language=language)
        super().__setstate__(state)

    @property
    def embeddings(self) -> Embeddings:
        """The embedding that the store uses."""
        model = self.embedding
        assert isinstance(model, Embeddings)
        return model

    # -- writing --------------------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        vectors: Sequence[Sequence[float]] | None = None,
        batch_size: int = BATCH,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, each durable with its batch; returns their ids.

        A text without an id gets one made from its content, so adding it twice adds it once. An id that is there is
        replaced; what is unchanged is not embedded again. ``vectors`` (one per text) are taken instead of embedding.
        Raises ValueError for lists of different lengths.
        """
        if kwargs:
            raise TypeError(f"add_texts does not take {sorted(kwargs)}; it takes metadatas, ids, vectors, batch_size")
        if isinstance(texts, str):
            raise ValueError(f"add_texts takes a list: add_texts([{quote_value(texts)}])")
        given: list[Any] = list(texts)
        if wrong := [text for text in given if not isinstance(text, str)]:
            raise ValueError(f"a text is a str, not {quote_value(wrong[0])} ({type(wrong[0]).__name__})")
        _same_length(given, metadatas=metadatas, ids=ids, vectors=vectors)
        chunks = [
            chunk_from(text, metadatas[place] if metadatas else {}, ids[place] if ids else None)
            for place, text in enumerate(given)
        ]
        for start in range(0, len(chunks), batch_size):
            part = slice(start, start + batch_size)
            self.upsert(chunks[part], vectors=None if vectors is None else vectors[part])
        if chunks:
            self.flush()
        return [chunk.id for chunk in chunks]

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Add Documents, each durable with its batch; return their ids. Takes what :meth:`add_texts` takes.

        Raises ConfigurationError for what is not a list of Documents, such as texts.
        """
        return super().add_documents(check_documents(documents), **kwargs)

    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Do what :meth:`add_documents` does, awaited."""
        return await super().aadd_documents(check_documents(documents), **kwargs)

    @classmethod
    def from_documents(cls, documents: list[Document], embedding: Any = None, **kwargs: Any) -> Self:
        """Make a store of Documents; ``kwargs`` are as in :meth:`from_texts`.

        Raises ConfigurationError for what is not a list of Documents, such as texts.
        """
        return super().from_documents(check_documents(documents), embedding, **kwargs)

    @classmethod
    async def afrom_documents(cls, documents: list[Document], embedding: Any = None, **kwargs: Any) -> Self:
        """Do what :meth:`from_documents` does, awaited."""
        return await super().afrom_documents(check_documents(documents), embedding, **kwargs)

    def delete(
        self,
        ids: list[str] | None = None,
        *,
        document: str | Sequence[str] | None = None,
        filter: Filter | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> bool | None:
        """Delete by id, by document or by filter (or all three); their edges and childless parents go with them.

        Ids that are not there are passed over. Raises ValueError when nothing says what to delete.
        """
        if kwargs:
            raise TypeError(f"delete does not take {sorted(kwargs)}; it takes ids, document, filter")
        if ids is None and document is None and filter is None:
            raise ValueError("delete() needs ids=[…], document=… or filter={…}; nothing is deleted without one")
        doomed = list(ids or [])
        if document is not None:
            documents = [document] if isinstance(document, str) else list(document)
            doomed += [id for found in self.document_chunks(documents).values() for id in sorted(found)]
        if filter is not None:
            parsed = parse_filter(filter)
            if parsed is None:
                raise FilterError("delete(filter={}) would delete everything: name what is to go")
            doomed += self.find(Scope(filter=parsed, tenant=self.tenant))
        self.remove(doomed)
        return True

    # -- reading --------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The Documents with these ids, in their order; missing ones are left out."""
        return [to_document(chunk) for chunk in self.get(ids)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The k Documents of largest cosine; takes ``filter=``, ``as_of=`` and ``known_at=``.

        For a blank query with a filter it is the first k that the filter matches, in the order in which they were added
        or last changed; each has the score 1.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """The k Documents of largest cosine, with it, best first."""
        return self._nearest_documents(self._query(query, None, k, **kwargs), k)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The k Documents whose vectors are nearest to this one."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The k Documents whose vectors are nearest to this one, with their cosines, best first."""
        return self._nearest_documents(self._query(None, embedding, k, **kwargs), k)

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """k Documents that are near to the query and far from each other (Carbonell and Goldstein 1998)."""
        return self._diverse(self._query(query, None, k, **kwargs), k, fetch_k, lambda_mult)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """k Documents that are near to the vector and far from each other."""
        return self._diverse(self._query(None, embedding, k, **kwargs), k, fetch_k, lambda_mult)

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
        """A store with these texts; in memory unless ``path`` names a folder."""
        store = cls(path, embedding, tenant=tenant, language=language)
        store.add_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    @classmethod
    def from_config(cls, path: str | Path | None = None) -> Self:
        """The store that a YAML file and the environment name (see :class:`HybridGraphSettings`)."""
        return cls.from_settings(HybridGraphSettings.from_file(path))

    @classmethod
    def from_settings(cls, settings: HybridGraphSettings) -> Self:
        """The store that the settings name; raises ConfigurationError when they name none."""
        if settings.store_path is None:
            raise ConfigurationError("store_path is not set, so there is no index to open: set it, or pass a store")
        arguments = settings.arguments("store")
        if isinstance(settings.store_embedding, Mapping):
            arguments["embedding"] = _configured(settings.store_embedding, settings)
        return cls(**arguments)

    # -- the tenants of a folder ------------------------------------------------------------------------------

    @staticmethod
    def tenants(path: str | Path) -> dict[str, int]:
        """Number of chunks of each tenant of a folder, by name.

        This is for the administrator of the folder: a store that is opened for a tenant sees no other. Raises
        NotAnIndexError for a path without an index, TenantError for an index that was made without tenants.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     HybridGraphStore.from_texts(["Ada likes tea."], path=f"{folder}/index", tenant="ada").close()
        ...     HybridGraphStore.from_texts(["Bo plays chess."], path=f"{folder}/index", tenant="bo").close()
        ...     dropped = HybridGraphStore.drop_tenant(f"{folder}/index", "ada")
        ...     dropped["chunks"], HybridGraphStore.tenants(f"{folder}/index")
        (1, {'bo': 1})
        """
        return tenants.tenants(Path(path))

    @staticmethod
    def drop_tenant(path: str | Path, tenant: str) -> dict[str, int]:
        """Delete everything that a folder keeps of a tenant; return how much of each kind that was.

        Chunks, parents, edges, entities, sessions, summaries, what was learned, credibility, the mode, vectors and
        words go, and are overwritten on disk; other tenants stay as they are. The model of an LSA index keeps words
        that it has learned from the tenant until it is fitted again (:meth:`refit`). A store that is open for the
        tenant finds nothing from then on. Raises what :meth:`tenants` does, TenantError for a tenant that is not
        there, and StoreLockedError after waiting 30 seconds for the turn to write.
        """
        return tenants.drop_tenant(Path(path), tenant)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(1.0, max(0.0, cosine))

    def _query(
        self,
        text: str | None,
        vector: Sequence[float] | None,
        k: int,
        *,
        filter: Filter | Mapping[str, Any] | None = None,
        as_of: float | str | datetime | TimeRange | None = None,
        known_at: float | str | datetime | None = None,
    ) -> Query:
        known = None if known_at is None else parse_time(known_at)
        scope = Scope(parse_filter(filter), self.tenant, resolve_as_of(as_of), known)
        return Query(text, k, scope, None if vector is None else check_vector(vector))

    def _nearest_documents(self, query: Query, k: int) -> list[tuple[Document, float]]:
        found = self._entries(query, k)
        chunks = self.read([entry.id for entry in found], query.scope, {})
        return [(to_document(chunks[entry.id]), entry.score) for entry in found if entry.id in chunks]

    def _entries(self, query: Query, k: int) -> Sequence[ScoredId]:
        return (self.list_chunks(query.scope, k) if _is_filter_only(query) else self.vector_search(query, k)).entries

    def _diverse(self, query: Query, k: int, fetch_k: int, lambda_mult: float) -> list[Document]:
        if _is_filter_only(query):
            return [document for document, _ in self._nearest_documents(query, k)]
        found = self.vector_search(query, max(k, fetch_k)).entries
        chunks = self.read([entry.id for entry in found], query.scope, {})
        hits = [Hit(chunks[e.id], e.score, "vector", {"vector": e.score}) for e in found if e.id in chunks]
        vectors = self.vectors([hit.id for hit in hits])
        return [to_document(hit.chunk) for hit in select_hits(hits, Selection(mmr_lambda=lambda_mult), k, vectors)]


def _chosen(given: Embeddings | str | None, made_with: str | None, path: Path | None) -> Embeddings | str:
    if given is not None:
        return given
    if made_with is None:
        return "lsa"
    if made_with not in NAMED:
        raise EmbeddingMismatchError(
            f"{path} was made with the embedding {made_with!r}, which cannot be made from its name: "
            "pass it as embedding=…"
        )
    return made_with


def _is_filter_only(query: Query) -> bool:
    return query.vector is None and not (query.text or "").strip() and query.scope.filter is not None


def _language(given: str | None, made_with: Any, path: Path | None) -> str:
    if made_with is None:
        return given or "english"
    if given is not None and language_name(given) != language_name(made_with):
        raise ConfigurationError(
            f"{path} was made with language={made_with!r}, got {given!r}: leave language= out, or ingest the documents "
            "into a new folder"
        )
    return str(made_with)


def _configured(form: Mapping[str, Any], settings: HybridGraphSettings) -> Embeddings:
    """The embedding that a mapping names, with its parameters; LSA is of the index's language, or of the setting's."""
    options = dict(form)
    made_for = read_facts(settings.store_path).get("language", settings.store_language or "english")
    return resolve_embedding(options.pop("type"), language=str(made_for), **options)


def _same_length(texts: Sequence[str], **others: Sequence[Any] | None) -> None:
    for name, values in others.items():
        if values is not None and len(values) != len(texts):
            raise ValueError(f"{name} has {len(values)} entries for {len(texts)} texts; give one per text")
