"""HybridRetriever: vectors and BM25 in one weighted list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import Field, field_validator, model_validator

from langchain_hybridgraph.config import HybridGraphSettings
from langchain_hybridgraph.embeddings import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.fusion import ConvexCombination, Fusion, check_weights
from langchain_hybridgraph.query.sources import KeywordSource, Source, VectorSource
from langchain_hybridgraph.retrievers.base import CallOptions, PipelineRetriever
from langchain_hybridgraph.retrievers.mistakes import check_store
from langchain_hybridgraph.retrievers.plain import Engine, PlainStore, Texts, plain_store, read_all, read_those
from langchain_hybridgraph.retrievers.retriever_source import RetrieverSource
from langchain_hybridgraph.retrievers.store import HybridGraphStore
from langchain_hybridgraph.stores.base import KnowsContents, Reads, SearchesKeywords, SearchesVectors, can

# Weights of (vector, keyword) when none are given: benchmarks/README.md says how they were chosen.
WEIGHTS = (0.7, 0.3)
LSA_WEIGHTS = (0.4, 0.6)


class HybridRetriever(PipelineRetriever):
    """The best of a vector search and a keyword search, fused by weight.

    ``vector_store`` is a :class:`HybridGraphStore`, or any LangChain VectorStore. For the latter a BM25 index is built
    over ``documents``; without them, an existing Chroma collection is read page by page and indexed;
    ``keyword_retriever`` takes any other retriever as the keyword side. One weight alone gives the other 1 − it;
    without any they suit the embedding. If one side fails or is missing the other answers, and ``degraded`` says so.

    Raises ValueError (pydantic's ValidationError) for a setting that does not exist or has no usable value.

    >>> from langchain_hybridgraph import HybridGraphStore
    >>> store = HybridGraphStore.from_texts(["the cat sat", "dogs bark"], "lsa", ids=["cat", "dog"])
    >>> [document.id for document in HybridRetriever(store, k=1).invoke("Where is the cat?")]
    ['cat']
    """

    vector_store: VectorStore
    texts: Texts | None = Field(None, repr=False, exclude=True, description="The keyword index, built once.")
    plain: PlainStore | None = Field(
        None, repr=False, exclude=True, description="A vector store that is not ours as the pipeline's, made once."
    )
    keyword_retriever: BaseRetriever | None = Field(None, description="The keyword side, instead of an own index.")
    semantic_weight: float | None = Field(None, description="Weight of the vector side.")
    keyword_weight: float | None = Field(None, description="Weight of the keyword side.")
    weights: Literal["adaptive", "fixed"] = Field(
        "adaptive", description="Whether the default fusion weighs the words by what they say about this question."
    )
    keyword_engine: Engine = Field("tantivy", description="Engine of an index built over documents.")
    language: str = Field("english", description="Language of an index built over documents.")
    id_key: str | None = Field(None, description="Metadata key that holds the id of a Document.")

    _sections: ClassVar[tuple[str, ...]] = ("retriever",)

    def __init__(self, vector_store: VectorStore, documents: Iterable[Document] | None = None, **settings: Any) -> None:
        super().__init__(**settings | {"vector_store": vector_store})
        if isinstance(vector_store, SearchesVectors) and isinstance(vector_store, Reads):
            if documents is not None:
                raise ConfigurationError(
                    f"{type(vector_store).__name__} has a keyword index of its own: add the documents to it "
                    "with add_documents() or ingest(), and leave documents= out"
                )
            if (self.keyword_engine, self.language, self.id_key) != ("tantivy", "english", None):
                raise ConfigurationError(
                    "keyword_engine, language and id_key are for an index over documents=; this store has its own, "
                    "whose language is chosen when the store is made: leave them out"
                )
            return
        if documents is not None and self.keyword_retriever is not None:
            raise ConfigurationError("documents= and keyword_retriever= are two keyword sides: give one of them")
        if self.texts is None and self.keyword_retriever is None:
            self.texts = self._index(documents)
        if self.plain is None or not self.plain.is_of(vector_store, self.texts, self.id_key):
            self.plain = plain_store(vector_store, self.texts, id_key=self.id_key)

    @field_validator("vector_store", mode="before")
    @classmethod
    def _is_a_store(cls, value: Any) -> Any:
        check_store(cls, value)
        return value

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        self._weights({})
        return self

    # -- construction ---------------------------------------------------------------------------------------

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        embedding: Embeddings | str | None = None,
        *,
        path: str | Path | None = None,
        **settings: Any,
    ) -> Self:
        """A retriever over a new (or grown) store with these Documents; in memory unless ``path`` names a folder."""
        store = HybridGraphStore(path, embedding, language=settings.pop("language", "english"))
        cls._fill(store, list(documents))
        return cls(store, **settings)

    @staticmethod
    def _fill(store: HybridGraphStore, documents: list[Document]) -> None:
        store.add_documents(documents)

    @classmethod
    def from_store(cls, store: VectorStore, **settings: Any) -> Self:
        """A retriever over a store that is there."""
        return cls(store, **settings)

    @classmethod
    def from_config(cls, path: str | Path | None = None, *, store: VectorStore | None = None, **settings: Any) -> Self:
        """A retriever whose settings and store come from a YAML file, the environment and these arguments.

        The later is overruled by the earlier: arguments, environment (``HYBRIDGRAPH_…``), file, default. Without a
        path ``hybridgraph.yaml`` in the working directory is read if there is one. Raises ConfigurationError naming
        file, key and what is allowed.
        """
        return cls.from_settings(HybridGraphSettings.from_file(path), store=store, **settings)

    @classmethod
    def from_settings(
        cls, configured: HybridGraphSettings, *, store: VectorStore | None = None, **settings: Any
    ) -> Self:
        """A retriever with these settings; the arguments go before them."""
        named = HybridGraphStore.from_settings(configured) if store is None else store
        given = {name: value for section in cls._sections for name, value in configured.arguments(section).items()}
        return cls(named, **(given | settings))

    def _index(self, documents: Iterable[Document] | None) -> Texts | None:
        stored = read_all(self.vector_store)
        indexed = stored if documents is None else list(documents)
        if indexed is None:
            return None
        return Texts(
            indexed,
            engine=self.keyword_engine,
            language=self.language,
            id_key=self.id_key,
            stored=read_those(self.vector_store, indexed) if stored is None else stored,
        )

    # -- settings of the pipeline ---------------------------------------------------------------------------

    def _default_fusion(self) -> Fusion:
        return ConvexCombination(adaptive=self.weights == "adaptive")

    @property
    def _store(self) -> Reads:
        return self.plain if self.plain is not None else self.vector_store  # type: ignore[return-value]  # checked at construction

    def _sources(self, options: CallOptions, callbacks: Any = None) -> tuple[Source, ...]:
        vector, keyword = self._weights(options)
        store = self._store
        sources: list[Source] = []
        if can(store, SearchesVectors) and vector > 0:
            sources.append(VectorSource(store, vector))
        if self.keyword_retriever is not None and keyword > 0:
            knows = store if can(store, KnowsContents) else None
            sources.append(RetrieverSource(self.keyword_retriever, keyword, self.id_key, knows, callbacks))
        elif can(store, SearchesKeywords) and keyword > 0:
            sources.append(KeywordSource(store, keyword))
        return tuple(sources)

    def _weights(self, options: CallOptions) -> tuple[float, float]:
        """(vector, keyword), the call's before the constructor's; one alone gives the other 1 − it."""
        called = (options.get("semantic_weight"), options.get("keyword_weight"))
        vector, keyword = called if called != (None, None) else (self.semantic_weight, self.keyword_weight)
        if vector is None and keyword is None:
            return LSA_WEIGHTS if _is_lsa(self.vector_store) else WEIGHTS
        alone = next((weight for weight, other in ((vector, keyword), (keyword, vector)) if other is None), None)
        if alone is not None and not 0 <= alone <= 1:
            raise ConfigurationError(f"one weight alone is {alone:g}; wanted a number from 0 to 1, or both weights")
        vector = 1.0 - (keyword or 0.0) if vector is None else vector
        keyword = 1.0 - vector if keyword is None else keyword
        check_weights([vector, keyword])
        return vector, keyword


def _is_lsa(store: VectorStore) -> bool:
    return isinstance(store.embeddings, LSAEmbeddings)
