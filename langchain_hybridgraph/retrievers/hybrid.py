"""HybridRetriever, a weighted search by vectors and BM25."""

import logging
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, cast

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import Field

from langchain_hybridgraph.adapters import keyword_index
from langchain_hybridgraph.adapters.any_store import FreshKeywordSource, VectorStoreAdapter, adapter_of, pipeline_store
from langchain_hybridgraph.adapters.documents import Identity, chunk_of
from langchain_hybridgraph.adapters.vector_stores import StoreAdapter, in_pages
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError, NotAnIndexError, describe_error
from langchain_hybridgraph.execution.effects import offload
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.options import models
from langchain_hybridgraph.options.arguments import Options, check_documents, check_first, documents_of
from langchain_hybridgraph.options.base import groups_of
from langchain_hybridgraph.retrievers.any_retriever import RetrieverSource
from langchain_hybridgraph.retrievers.base import PipelineRetriever
from langchain_hybridgraph.search.context import Pipeline
from langchain_hybridgraph.search.fusion import both_weights
from langchain_hybridgraph.search.sources import KeywordSource, Source, VectorSource, hybrid_sources
from langchain_hybridgraph.settings import HybridGraphSettings, check_settings
from langchain_hybridgraph.stores import protocols
from langchain_hybridgraph.stores.index import CATALOG, is_folder
from langchain_hybridgraph.text.analyzer import language_name
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore, store_from_settings

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger(__name__)


class HybridRetriever(PipelineRetriever, models.HybridFields):
    """Retriever that fuses the results of a vector search and a keyword search, with a weight for each.

    ``vector_store`` is a :class:`HybridGraphStore` or any other LangChain VectorStore. For any other store, the
    retriever builds a BM25 index of ``documents`` or, without them, of all texts in the store, if they can be listed.
    The setting ``refresh`` in ``index`` determines when it is updated after changes in the store.
    ``keyword_retriever`` replaces the keyword search with any other retriever. A text has the same id in both searches:
    the id of the passed Document or, if that has no id, the store's id.

    If only one weight is set, the other is 1 minus that weight. If neither is set, the weights depend on the embedding.
    If one search fails or is missing, the result contains the hits of the other, and ``degraded`` reports it.

    Warns if the keyword search has a weight but nothing to search, because no ``documents`` were passed and the store
    cannot list its texts or failed to. After a failure, the next searches try again.

    >>> from langchain_hybridgraph import HybridGraphStore
    >>> store = HybridGraphStore.from_texts(["the cat sat", "dogs bark"], "lsa", ids=["cat", "dog"])
    >>> [document.id for document in HybridRetriever(store, k=1).invoke("Where is the cat?")]
    ['cat']
    """

    vector_store: VectorStore = Field(kw_only=False)
    if TYPE_CHECKING:  # type checkers derive the arguments of the constructor from the fields
        documents: InitVar[Iterable[Document] | None] = Field(default=None, kw_only=False)
    else:

        def __init__(
            self, vector_store: VectorStore, documents: Iterable[Document] | None = None, **settings: Any
        ) -> None:
            check_first(type(self), vector_store, VectorStore)
            super().__init__(**{**settings, "vector_store": vector_store})
            self._set_up(documents)

    _sections: ClassVar[tuple[str, ...]] = ("retriever", "selection", "index")

    def _set_up(self, documents: Iterable[Document] | None) -> None:
        """Build the keyword index of a new retriever."""
        self._weights({})  # raises an error for contradictory weights
        vector_store, is_default = self.vector_store, self.index == models.IndexOptions()
        if isinstance(vector_store, protocols.SearchesVectors) and isinstance(vector_store, protocols.ReadsChunks):
            if documents is not None or not is_default:
                raise ConfigurationError(
                    f"{type(vector_store).__name__} has a keyword index of its own, in the language that was chosen "
                    "when the store was created: leave documents= and index= out, and add documents with "
                    f"add_documents() or ingest(); got {f'index={self.index!r}' if documents is None else 'documents='}"
                )
            return
        ways = {
            "documents=": documents is not None,
            "keyword_retriever=": self.keyword_retriever is not None,
            "index={'path': …}": self.index.path is not None,
        }
        if sum(ways.values()) > 1:
            raise ConfigurationError(
                f"{' and '.join(name for name in ways if ways[name])} both define the keyword search: pass only one of "
                "them"
            )
        built = self.index.adapter
        if documents is not None or self.keyword_retriever is not None:
            self.index = self.index.built(self._adapter(None if documents is None else check_documents(documents)))
        elif built is None or built.vector_store is not vector_store:
            self.index = self.index.built(self._shared_adapter())

    def _shared_adapter(self) -> VectorStoreAdapter:
        """Return the up-to-date adapter that retrievers of this vector store share."""
        options, path = self.index, self.index.path
        if path is not None:
            path = Path(os.path.expanduser(path))
            is_folder(path)
            path = path.resolve()
        key = options.engine, language_name(options.language), options.id_key, options.equal_texts, path
        shared = _SharedAdapters.of(self.vector_store)
        with shared.lock:
            adapter = shared.adapters.get(key)
            if adapter is not None and (freshness := adapter.freshness) is not None:
                try:
                    freshness.renew()
                    if not getattr(freshness.texts, "has_left_folder", False):
                        return adapter
                except (HybridGraphError, OSError):  # the folder cannot be used any more
                    if path is None:
                        raise
            shared.adapters[key] = self._adapter(None)
            return shared.adapters[key]

    def _adapter(self, documents: Sequence[Document] | None) -> VectorStoreAdapter:
        """Return the adapter of ``vector_store``, with a keyword index if there are texts for one and it is needed."""
        adapter, options = adapter_of(self.vector_store), self.index
        if self.keyword_retriever is not None:
            own_documents = _documents_of(self.keyword_retriever, options.id_key, only_with_ids=not adapter.can_list)
            identity = Identity(own_documents, _stored_of(own_documents, adapter), options.id_key)
            chunks = {id: chunk_of(document, id) for document, id in zip(own_documents, identity.ids, strict=True)}
            return pipeline_store(self.vector_store, identity=identity, extra_chunks=chunks)
        merges_copies = options.equal_texts == "once"
        if options.path is not None and (with_folder := self._kept_adapter(adapter, options.path)) is not None:
            return with_folder
        if documents is None and not adapter.can_list:
            if self._weights({})[1] > 0:
                warnings.warn(
                    f"the texts of {type(self.vector_store).__name__} cannot be listed, so the keyword search finds "
                    f"nothing; pass them: {type(self).__name__}(vector_store, documents=[…])",
                    stacklevel=5,
                )
            return pipeline_store(self.vector_store, identity=Identity([], id_key=options.id_key))
        is_given, engine, language = documents is not None, options.engine, options.language
        build = partial(
            keyword_index.DocumentIndex, is_given=is_given, engine=engine, language=language, id_key=options.id_key
        )
        contents, is_read = keyword_index.StoreContents(), adapter.can_list
        reading = contents.reading(adapter, merges_copies=merges_copies) if is_read else iter(())
        if documents is None:
            try:
                # ``contents`` grows while the index is built.
                texts = build(reading, stored_documents=contents.documents.values())
            except Exception as error:  # noqa: BLE001 - a server may fail with anything
                contents = keyword_index.StoreContents(size=keyword_index.UNREAD)
                texts = build(())
                warnings.warn(
                    f"the texts of {type(self.vector_store).__name__} could not be listed ({describe_error(error)}), "
                    "so only the vector search finds texts until a later search can list them; to search by keyword "
                    f"without listing, pass the texts: {type(self).__name__}(vector_store, documents=[…])",
                    stacklevel=5,
                )
        else:
            try:
                deque(reading, maxlen=0)
            except Exception:  # noqa: BLE001 - a server may fail with anything
                contents, is_read = keyword_index.StoreContents(), False
            stored = list(contents.documents.values()) if is_read else _read_by_id(documents, adapter)
            texts = build(documents, stored_documents=stored)
        freshness = keyword_index.Freshness(texts, adapter, contents if is_read else None, merges_copies=merges_copies)
        stored_documents = () if documents is None else contents.documents.values()
        return pipeline_store(self.vector_store, freshness=freshness, documents=stored_documents)

    def _kept_adapter(self, adapter: StoreAdapter, path: Path) -> VectorStoreAdapter | None:
        """Return the adapter with the keyword index in this folder, or None if the folder or the store fails."""
        options, folder = self.index, Path(os.path.expanduser(path))
        if not adapter.can_list:
            raise ConfigurationError(
                f"the texts of {type(self.vector_store).__name__} cannot be listed, so index={{'path': …}} cannot "
                "keep an index of them: leave the path out and pass documents=[…]"
            )
        names = {each.name for each in folder.iterdir()} if is_folder(folder) else set()
        if names and (CATALOG in names or not names & {"current", "writer.lock", "writer.lock.queue"}):
            raise NotAnIndexError(
                f"{folder} is not empty and contains no keyword index of a vector store: check the path, or use a "
                "new folder, such as index={'path': 'keyword-index'}"
            )
        try:
            index_options = options.model_dump(include={"language", "id_key", "equal_texts"})
            folder_index = keyword_index.KeptIndex(folder, collection=adapter.collection, **index_options)
            merges_copies = options.equal_texts == "once"
            freshness = keyword_index.Freshness.in_folder(folder_index, adapter, merges_copies=merges_copies)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a full disk, a write-protected folder, or a server that fails
            logger.warning(keyword_index.IN_MEMORY, folder, describe_error(error))
            return None
        return pipeline_store(self.vector_store, freshness=freshness)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an option, except ``index``; ``vector_store`` only if neither store needs an index."""
        is_refused = name == "index" and getattr(value, "adapter", None) is None
        if name == "vector_store":
            is_refused = self.index.adapter is not None or not isinstance(value, protocols.SearchesVectors)
        if is_refused:
            raise ConfigurationError(
                f"{name} cannot be set to {value!r:.80}: the store's texts are read when the retriever is created, so "
                f"create another retriever: {type(self).__name__}(vector_store)"
            )
        super().__setattr__(name, value)

    # -- construction ---------------------------------------------------------------------------------------

    @classmethod
    def from_documents(
        cls: Callable[Concatenate[VectorStore, P], R],
        documents: Sequence[Document],
        embedding: Embeddings | str | None = None,
        path: str | Path | None = None,
        language: str = "english",
        *arguments: P.args,
        **settings: P.kwargs,
    ) -> R:
        """Add these Documents to a store in the folder ``path``, or in memory, and return a retriever for it."""
        document_list = check_documents(documents)
        store = HybridGraphStore(path, embedding, language=language)
        cast(Any, cls)._fill(store, document_list)
        return cls(store, *arguments, **settings)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        embedding: Embeddings | str | None = None,
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str] | None = None,
        path: str | Path | None = None,
        language: str = "english",
        **settings: Any,
    ) -> Self:
        """Add these texts to a new or existing store, and return a retriever for it.

        ``metadatas`` and ``ids`` contain one entry per text. ``settings`` are the options of the constructor. The other
        arguments are those of :meth:`from_documents`. Raises ConfigurationError for lists of different lengths.

        >>> retriever = HybridRetriever.from_texts(["The cat sat.", "Dogs bark."], ids=["cat", "dog"], k=1)
        >>> [document.id for document in retriever.invoke("Where is the cat?")]
        ['cat']
        """
        return cls.from_documents(documents_of(texts, metadatas, ids), embedding, path, language, **settings)

    @staticmethod
    def _fill(store: HybridGraphStore, documents: list[Document]) -> None:
        store.add_documents(documents)

    @classmethod
    def from_store(
        cls: Callable[Concatenate[VectorStore, P], R], store: VectorStore, *arguments: P.args, **settings: P.kwargs
    ) -> R:
        """Return a retriever for an existing store."""
        return cls(store, *arguments, **settings)

    @classmethod
    def from_config(
        cls: Callable[Concatenate[VectorStore, P], R],
        path: str | Path | None = None,
        store: VectorStore | None = None,
        *arguments: P.args,
        **settings: P.kwargs,
    ) -> R:
        """Return a retriever whose settings and store come from a YAML file, the environment and these arguments.

        Sources, precedence and errors are those of :meth:`HybridGraphSettings.from_file`.
        """
        configured = HybridGraphSettings.from_file(path)
        return cast("R", cast(Any, cls).from_settings(configured, *arguments, store=store, **settings))

    @classmethod
    def from_settings(
        cls, configured: HybridGraphSettings, *, store: VectorStore | None = None, **settings: Any
    ) -> Self:
        """Return a retriever with these settings; arguments take precedence over ``configured``."""
        check_settings(configured)
        if "vector_store" in settings:
            raise ConfigurationError(
                f"the argument of from_config and from_settings is store, not vector_store: "
                f"{cls.__name__}.from_config(path, store=vector_store)"
            )
        vector_store = store_from_settings(configured) if store is None else store
        options = {name: value for section in cls._sections for name, value in configured.arguments(section).items()}
        for name, group in groups_of(cls).items():
            if name in options and name in settings:
                settings[name] = group(**options[name]).changed(settings[name])
        return cls(vector_store, **(options | settings))

    # -- keeping up -----------------------------------------------------------------------------------------

    def refresh(self, documents: Iterable[Document] | None = None) -> keyword_index.RefreshReport:
        """Update the keyword index with all changes in the vector store, including texts that were changed in place.

        ``documents`` replace the Documents in the index; they are required for a store whose texts cannot be listed.
        Returns how many texts were added, changed and removed. Raises ConfigurationError for a store with its own
        keyword index, and with ``keyword_retriever=``.
        """
        adapter = self.index.adapter
        if adapter is None or adapter.freshness is None:
            raise ConfigurationError(
                "there is no keyword index to refresh: a HybridGraphStore keeps its own index up to date, and a "
                "keyword_retriever= manages its own texts"
            )
        if documents is None:
            return cast("keyword_index.RefreshReport", adapter.freshness.refresh())
        if self.index.path is not None:
            raise ConfigurationError(
                "refresh(documents) cannot replace a keyword index that is kept in a folder, which contains the texts "
                "of the vector store: call refresh()"
            )
        self.index = self.index.built(self._adapter(check_documents(documents)))
        before, after = adapter.texts.chunks, self.index.adapter.texts.chunks
        added, removed = after.keys() - before.keys(), before.keys() - after.keys()
        changed = [id for id in after.keys() - added if before[id] != after[id]]
        return keyword_index.RefreshReport(len(added), len(changed), len(removed))

    async def arefresh(self, documents: Iterable[Document] | None = None) -> keyword_index.RefreshReport:
        """Return the same result as :meth:`refresh`, without blocking the event loop."""
        return await offload(lambda: self.refresh(documents))

    # -- settings of the pipeline ---------------------------------------------------------------------------

    @property
    def _store(self) -> protocols.ReadsChunks:
        return self.index.adapter or self.vector_store  # type: ignore[return-value]  # checked at construction

    def _sources(self, options: Options, callbacks: Any = None) -> tuple[Source, ...]:
        vector, keyword = self._weights(options)
        index, adapter, sources = self.index, self.index.adapter, list[Source]()
        store: Any = adapter or self.vector_store
        if vector > 0 and protocols.implements(store, protocols.SearchesVectors):
            sources.append(VectorSource(store, vector))
        if not keyword > 0:
            return tuple(sources)
        if self.keyword_retriever is not None:
            contents = store if protocols.implements(store, protocols.FindsContents) else None
            sources.append(RetrieverSource(self.keyword_retriever, keyword, index.id_key, contents, callbacks))
        elif sources and protocols.implements(store, protocols.SearchesHybrid):
            return hybrid_sources(store, vector, keyword)
        elif adapter is not None:
            sources.append(FreshKeywordSource(adapter, keyword, refresh=index.refresh))
        elif protocols.implements(store, protocols.SearchesKeywords):
            sources.append(KeywordSource(store, keyword))
        return tuple(sources)

    def _pipeline(self, options: Options, callbacks: Any) -> Pipeline:
        pipeline, index = super()._pipeline(options, callbacks), self.index
        adapter = index.adapter
        if adapter is None:
            return pipeline
        is_unread = adapter.freshness is not None and adapter.freshness.is_unread
        return replace(
            pipeline,
            listing=partial(adapter.list_chunks, refresh=index.refresh),
            count=None if adapter.texts is None or is_unread else partial(len, adapter.texts.chunks),
            merges_copies=index.equal_texts == "once",
        )

    def _weights(self, options: Options) -> tuple[float, float]:
        """Return the weights (vector, keyword) of the call or the retriever, or those for the embedding."""
        call_weights = (options.get("semantic_weight"), options.get("keyword_weight"))
        vector, keyword = call_weights if call_weights != (None, None) else (self.semantic_weight, self.keyword_weight)
        if vector is None and keyword is None:
            embeddings = self.vector_store.embeddings
            if not isinstance(embeddings, LSAEmbeddings):
                return models.WEIGHTS
            return models.SMALL_STORE_WEIGHTS if embeddings.learned_texts <= models.SMALL_STORE else models.LSA_WEIGHTS
        return both_weights(vector, keyword)


class _SharedAdapters:
    """Adapters that the retrievers of one vector store share, in an attribute of the store.

    In a WeakKeyDictionary, they would keep the store alive, because they refer to it. A copy of the store has none.
    """

    def __init__(self) -> None:
        self.lock = ForkSafeLock()
        self.adapters: dict[Any, VectorStoreAdapter] = {}

    @classmethod
    def of(cls, store: VectorStore) -> Self:
        """Return the adapters of a store. They are not kept for a store that has no other attributes."""
        own: Self | None = getattr(store, _SHARED, None)
        if own is None or any(adapter.vector_store is not store for adapter in own.adapters.values()):
            own = cls()
            with suppress(AttributeError, TypeError, ValueError):
                object.__setattr__(store, _SHARED, own)
        return own

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


_SHARED = "_hybridgraph_adapters"


def _documents_of(retriever: BaseRetriever, id_key: str | None, *, only_with_ids: bool) -> list[Document]:
    """Return the ``docs`` of a keyword retriever such as BM25Retriever, if required only those with ids."""
    docs = getattr(retriever, "docs", None)
    documents = docs if isinstance(docs, list) and all(isinstance(each, Document) for each in docs) else []
    with_ids = [d for d in documents if (d.id if id_key is None else d.metadata.get(id_key)) is not None]
    return with_ids if only_with_ids or id_key is not None else documents


def _read_by_id(documents: Sequence[Document], adapter: StoreAdapter) -> list[Document]:
    """Return the stored versions of these Documents that can be found by id."""
    ids = [document.id for document in documents if document.id is not None]
    with suppress(Exception):  # not implemented, asynchronous only or unavailable: the passed Documents are used
        return [document for page in in_pages(ids) for document in adapter.get(page)]
    return []


def _stored_of(documents: Sequence[Document], adapter: StoreAdapter) -> list[Document]:
    """Return the stored versions of these Documents by id or, if some are missing, all Documents that can be listed."""
    stored = _read_by_id(documents, adapter)
    if len(stored) < len(documents) and adapter.can_list:
        with suppress(Exception):  # unavailable now: texts are matched when a search finds them
            return list(adapter.documents())
    return stored
