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

from typing import Any

from langchain_hybridgraph import lazy_names
from langchain_hybridgraph.errors import MissingExtraError

_import_name, __dir__, __all__ = lazy_names(__name__)


def __getattr__(name: str) -> Any:
    try:
        return _import_name(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "llama_index":
            raise
        raise MissingExtraError(
            f'{name} needs LlamaIndex, which cannot be imported: pip install "langchain-hybridgraph[llama-index]"'
        ) from missing
