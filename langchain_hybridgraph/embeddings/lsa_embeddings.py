"""Latent semantic analysis as a LangChain embedding."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings.lsa import LSAModel


class LSAEmbeddings(LSAModel, Embeddings):
    """LangChain embedding that learns vectors of 200 dimensions from the indexed texts. Nothing is downloaded.

    :class:`~langchain_hybridgraph.embeddings.lsa.LSAModel` describes the arguments and how vectors are computed.

    >>> lsa = LSAEmbeddings().fit(["Cats purr.", "A cat purrs at home.", "Rain falls.", "The rain falls at night."])
    >>> purr, cat, fall = lsa.vectors(["it purrs", "a cat", "falling"])
    >>> bool(purr @ cat > 0.9), bool(abs(fall @ cat) < 0.1)
    (True, True)
    """
