"""LlamaIndex's indexes and models as LangChain's classes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.llms.llm import LLM
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from langchain_hybridgraph.adapters.vector_stores import NearestDocuments, StoreAdapter
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.llama_index.nodes import node_id, relationship_edges, to_document
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.stores.vectors import unit


class LlamaIndexEmbeddings(Embeddings):
    """Adapter from a LlamaIndex embedding model to LangChain's ``Embeddings``, for use in a store or retriever.

    >>> from llama_index.core.embeddings import MockEmbedding
    >>> LlamaIndexEmbeddings(MockEmbedding(embed_dim=2)).embed_query("any")
    [0.5, 0.5]
    """

    def __init__(self, embed_model: BaseEmbedding) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise ConfigurationError(
                f"LlamaIndexEmbeddings cannot wrap {embed_model!r:.80}; pass a LlamaIndex embedding model such as "
                "Settings.embed_model"
            )
        self.embed_model = embed_model

    @property
    def model_name(self) -> str:
        """Class and name of the model, which an index records."""
        return f"{self.embed_model.class_name()}/{self.embed_model.model_name}"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return self.embed_model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self.embed_model.get_query_embedding(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, asynchronously."""
        return await self.embed_model.aget_text_embedding_batch(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question, asynchronously."""
        return await self.embed_model.aget_query_embedding(text)


class LlamaIndexChatModel(Runnable[Any, str]):
    """Adapter through which ``LLMReranker``, ``QueryPlanner`` and other stages use a LlamaIndex language model.

    Structured answers are requested in the prompt, so any model works; an answer in another form fails the stage.
    """

    def __init__(self, llm: LLM) -> None:
        if not isinstance(llm, LLM):
            raise ConfigurationError(
                f"LlamaIndexChatModel was given {llm!r:.80}; pass a LlamaIndex LLM such as Settings.llm"
            )
        self.llm = llm

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:
        """Return the model's answer to a list of (role, text) pairs."""
        return self.llm.chat(_messages(input)).message.content or ""

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:
        """Return the model's answer, asynchronously."""
        return (await self.llm.achat(_messages(input))).message.content or ""


def _messages(turns: Iterable[tuple[str, str]]) -> list[ChatMessage]:
    roles = {"human": "user", "ai": "assistant"}
    return [ChatMessage(role=roles.get(role, role), content=text) for role, text in turns]


class LlamaIndexVectorStore(VectorStore):
    """LangChain VectorStore that reads a LlamaIndex ``VectorStoreIndex`` and the nodes in its docstore.

    The index is read through ``index.as_retriever()`` and never written to. Scores come from the vector store or, if it
    returns none, from the rank. The search methods ignore filters: this package's retrievers apply them to the results,
    and request more results until enough match. ``documents()`` and ``edges()`` supply a retriever's keyword and graph
    search.
    """

    def __init__(self, index: VectorStoreIndex) -> None:
        if not isinstance(index, VectorStoreIndex):
            raise ConfigurationError(
                f"LlamaIndexVectorStore was given {type(index).__name__}; pass a VectorStoreIndex, such as "
                "VectorStoreIndex(nodes) or VectorStoreIndex.from_vector_store(vector_store)"
            )
        self.index = index

    @property
    def embeddings(self) -> Embeddings:
        """Embedding model of the index."""
        return LlamaIndexEmbeddings(self.index._embed_model)

    def nodes(self) -> list[BaseNode]:
        """Return the nodes that the index searches, from the docstore or the vector store; [] if neither lists them."""
        ids = list(self.index.index_struct.nodes_dict.values())
        vectors = self.stored_vectors
        if vectors is not None:
            # LlamaIndex's delete_nodes leaves a node in the index's structure and in the docstore.
            ids = [id for id in ids if id in vectors]
        if ids:
            return self.index.docstore.get_nodes(ids, raise_error=False)
        try:
            get_nodes: Any = self.index.vector_store.get_nodes
            return list(get_nodes(None))
        except (AttributeError, NotImplementedError):
            return []

    @property
    def stored_vectors(self) -> dict[str, list[float]] | None:
        """Vectors of a SimpleVectorStore by node id, or None for other vector stores."""
        store = self.index.vector_store
        return store.data.embedding_dict if isinstance(store, SimpleVectorStore) else None

    def adapter(self) -> StoreAdapter:
        """Return the adapter through which this package's retrievers read the index."""
        return LlamaIndexAdapter(self)

    def documents(self) -> list[Document]:
        """Return the nodes that contain text, as Documents."""
        return [document for node in self.nodes() if (document := to_document(node)).page_content.strip()]

    def edges(self) -> list[Edge]:
        """Return the relationships of the nodes as edges."""
        return [edge for node in self.nodes() for edge in relationship_edges(node)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k Documents nearest to the query."""
        return [document for document, _ in self.similarity_search_with_score(query, k)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Return the k Documents nearest to the query with the vector store's scores, best first."""
        return _documents(self.index.as_retriever(similarity_top_k=k).retrieve(query))

    def similarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the k Documents nearest to a vector, with the vector store's scores, best first."""
        query = QueryBundle("", embedding=list(embedding))
        return _documents(self.index.as_retriever(similarity_top_k=k).retrieve(query))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the Documents with these ids, leaving out missing ids."""
        requested = set(ids)
        return [to_document(node) for node in self.nodes() if node_id(node) in requested]

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings, metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> NoReturn:
        """Raise ConfigurationError, because the index has to be created with LlamaIndex."""
        raise ConfigurationError(
            "LlamaIndexVectorStore reads an existing index: create one with VectorStoreIndex(nodes)"
        )


class LlamaIndexAdapter(StoreAdapter):
    """Adapter for a LlamaIndex index; only a SimpleVectorStore has vectors and scores that are known to be cosines."""

    is_in_memory = True

    def __init__(self, store: LlamaIndexVectorStore) -> None:
        super().__init__(store)
        self._vector_store: Any = store.index.vector_store
        # The nodes are in the docstore, or the vector store can list them.
        own = getattr(type(self._vector_store), "get_nodes", BasePydanticVectorStore.get_nodes)
        self.can_list = not self._vector_store.stores_text or own is not BasePydanticVectorStore.get_nodes

    def convert_scores(self, results: Sequence[tuple[Document, float]]) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.convert_scores`."""
        return NearestDocuments(list(results), are_cosines=isinstance(self._vector_store, SimpleVectorStore))

    def vectors(self, ids: Sequence[str]) -> dict[str, Any]:
        """Implement :meth:`StoreAdapter.vectors`."""
        vectors = self._store.stored_vectors or {}
        return {id: unit(np.asarray(vectors[id], np.float32)) for id in ids if id in vectors}

    def count(self) -> int | None:
        """Implement :meth:`StoreAdapter.count`."""
        if (vectors := self._store.stored_vectors) is not None:
            return len(vectors)
        return None if self._vector_store.stores_text else len(self._store.index.index_struct.nodes_dict)

    def documents(self) -> Iterator[Document]:
        """Implement :meth:`StoreAdapter.documents`."""
        return iter(self._store.documents())


def _documents(nodes: Sequence[NodeWithScore]) -> list[tuple[Document, float]]:
    scores = [each.score for each in nodes]
    if None in scores:
        scores = [1.0 - place / len(nodes) for place in range(len(nodes))]
    return [(to_document(each.node), float(score or 0.0)) for each, score in zip(nodes, scores, strict=True)]
