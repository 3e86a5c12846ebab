"""Stores of several kinds, each created in a folder from the same Documents."""

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridGraphStore
from tests.support.stores.real_stores import FAISS
from tests.support.stores.words import Words


def faiss(documents, folder):
    return FAISS.from_documents(documents, Words(), ids=[each.id for each in documents])


def chroma(documents, folder):
    from langchain_chroma import Chroma

    # In memory, Chroma returns lists in the metadata of deleted collections with the texts of new ones.
    return Chroma.from_documents(documents, Words(), persist_directory=str(folder / "chroma"))


def milvus(documents, folder):
    pytest.importorskip("milvus_lite")
    from langchain_hybridgraph import MilvusStore

    return MilvusStore.from_documents(documents, Words(), uri=f"milvus:{folder / 'lite.db'}")


FOREIGN = {
    "chroma": chroma,
    "faiss": faiss,
    "in_memory": lambda documents, folder: InMemoryVectorStore.from_documents(documents, Words()),
}
DOCUMENT_STORES = {
    "memory": lambda documents, folder: HybridGraphStore.from_documents(documents, Words()),
    "folder": lambda documents, folder: HybridGraphStore.from_documents(documents, Words(), path=folder / "index"),
    "milvus": milvus,
} | FOREIGN
