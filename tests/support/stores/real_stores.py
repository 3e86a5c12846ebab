"""Vector stores of every supported kind, each created with its own package."""

import itertools
import warnings

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from tests.support.stores.bare_store import BareStore

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # langchain-community warns on import that it is sunset
    from langchain_community.vectorstores.faiss import FAISS
    from langchain_community.vectorstores.utils import DistanceStrategy

TEXTS = {
    "ada": "Ada wrote the first program for a machine.",
    "engine": "The machine of brass was never finished.",
    "zebra": "A zebra has black and white stripes.",
}
# The vectors do not have length 1, so no distance in a store equals the cosine by chance.
VECTORS = {"ada": [3.0, 0.0, 0.0], "engine": [1.0, 1.0, 0.0], "zebra": [0.0, 0.5, 2.0]}
QUESTION, QUERY_VECTOR = "Which program was written for the machine?", [2.0, 0.0, 0.0]
COSINES = {"ada": 1.0, "engine": 0.70710678, "zebra": 0.0}


class Fixed(Embeddings):
    """Embedding with the vectors above; any other text is close to the zebra."""

    def embed_query(self, text):
        return QUERY_VECTOR if text == QUESTION else self._of(text)

    def embed_documents(self, texts):
        return [self._of(text) for text in texts]

    def _of(self, text):
        return next((VECTORS[id] for id, text_of_id in TEXTS.items() if text_of_id == text), [0.0, 0.0, 1.0])


def documents(**metadata):
    """Return the texts as documents with the application's ids."""
    return [Document(id=id, page_content=text, metadata=dict(metadata)) for id, text in TEXTS.items()]


_numbers = itertools.count()


def chroma(texts, folder, *, space="cosine"):
    from langchain_chroma import Chroma

    place, configuration = str(folder / f"c{next(_numbers)}"), {"hnsw": {"space": space}}
    return Chroma.from_texts(texts, Fixed(), persist_directory=place, collection_configuration=configuration)


def faiss(texts, folder, *, distance="EUCLIDEAN_DISTANCE", normalize=False):
    return FAISS.from_texts(texts, Fixed(), distance_strategy=DistanceStrategy[distance], normalize_L2=normalize)


def qdrant(texts, folder, *, distance="Cosine", on_disk=False):
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client.models import Distance

    place = {"path": str(folder / f"q{next(_numbers)}")} if on_disk else {"location": ":memory:"}
    return QdrantVectorStore.from_texts(
        texts, Fixed(), collection_name="notes", distance=Distance(distance), vector_name="text", **place
    )


def milvus(texts, folder, *, metric="L2", auto_id=True):
    from langchain_milvus import Milvus

    ids = None if auto_id else [f"pk{n}" for n in range(len(texts))]
    return Milvus.from_texts(
        texts,
        Fixed(),
        connection_args={"uri": str(folder / "milvus.db")},
        collection_name=f"notes{next(_numbers)}",
        index_params={"metric_type": metric, "index_type": "FLAT", "params": {}},
        auto_id=auto_id,
        ids=ids,
        consistency_level="Strong",
    )


def in_memory(texts, folder):
    return InMemoryVectorStore.from_texts(texts, Fixed())


def llama_index(texts, folder):
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import TextNode

    from langchain_hybridgraph.llama_index import LlamaIndexVectorStore

    class Model(BaseEmbedding):
        def _get_text_embedding(self, text):
            return Fixed().embed_query(text)

        async def _aget_query_embedding(self, query):
            return Fixed().embed_query(query)

        _get_query_embedding = _get_text_embedding

    return LlamaIndexVectorStore(VectorStoreIndex([TextNode(text=text) for text in texts], embed_model=Model()))


def bare(texts, folder):
    return BareStore([Document(page_content=text) for text in texts], Fixed())


# Functions that create a store of texts with ids chosen by the store.
STORES = {
    "chroma": (chroma, {}),
    "chroma l2": (chroma, {"space": "l2"}),
    "chroma ip": (chroma, {"space": "ip"}),
    "faiss l2": (faiss, {}),
    "faiss l2 normalized": (faiss, {"normalize": True}),
    "faiss ip": (faiss, {"distance": "MAX_INNER_PRODUCT"}),
    "qdrant": (qdrant, {}),
    "qdrant euclid": (qdrant, {"distance": "Euclid"}),
    "qdrant dot on disk": (qdrant, {"distance": "Dot", "on_disk": True}),
    "milvus l2": (milvus, {}),
    "milvus ip": (milvus, {"metric": "IP"}),
    "milvus cosine": (milvus, {"metric": "COSINE", "auto_id": False}),
    "in memory": (in_memory, {}),
    "llama_index": (llama_index, {}),
    "bare": (bare, {}),
}
CLOSED = ("bare",)  # gives no access to its texts and does not define its scores


def close(store):
    """Close the client of a store, if it has one."""
    client = getattr(store, "client", None)
    if client is not None:
        client.close()
