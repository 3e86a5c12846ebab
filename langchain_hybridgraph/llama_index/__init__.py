"""Retrievers and rerankers for LlamaIndex programs.

>>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
>>> from langchain_hybridgraph.llama_index import LlamaIndexRetriever, ingest_nodes
>>> from llama_index.core.schema import TextNode
>>> store = HybridGraphStore()
>>> _ = ingest_nodes([TextNode(text="the cat sat", id_="cat"), TextNode(text="dogs bark", id_="dog")], store)
>>> retriever = LlamaIndexRetriever(HybridRetriever(store), k=1)
>>> [found.node_id for found in retriever.retrieve("Where is the cat?")]
['cat']

Needs ``pip install "langchain-hybridgraph[llama-index]"``. No other package of this library imports LlamaIndex.
"""

from __future__ import annotations

from langchain_hybridgraph.errors import MissingExtraError

try:
    from langchain_hybridgraph.llama_index.nodes import filter_from as filter_from
    from langchain_hybridgraph.llama_index.nodes import ingest_nodes as ingest_nodes
    from langchain_hybridgraph.llama_index.retriever import LlamaIndexRetriever as LlamaIndexRetriever
    from langchain_hybridgraph.llama_index.retriever import QueryWithOptions as QueryWithOptions
    from langchain_hybridgraph.llama_index.retriever import RerankPostprocessor as RerankPostprocessor
    from langchain_hybridgraph.llama_index.retriever import RetrievalReportEvent as RetrievalReportEvent
    from langchain_hybridgraph.llama_index.vector_store import LlamaIndexChatModel as LlamaIndexChatModel
    from langchain_hybridgraph.llama_index.vector_store import LlamaIndexEmbeddings as LlamaIndexEmbeddings
    from langchain_hybridgraph.llama_index.vector_store import LlamaIndexVectorStore as LlamaIndexVectorStore
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("llama_index", "llama_index_instrumentation"):
        raise
    raise MissingExtraError(
        'LlamaIndex cannot be imported; install the extra: pip install "langchain-hybridgraph[llama-index]"'
    ) from missing
