"""Embedding protocols, and a check of an index's embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.engines.vector_matrix import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.stores.engines.vector_matrix import VectorMatrix

# Smallest cosine between the stored and the computed vector of the probe text at which the embeddings are considered
# to be the same.
SAME_VECTOR = 0.99


class Embedding(Protocol):
    """Methods that a store calls on its embedding. LangChain's ``Embeddings`` has these methods."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        ...


class NoEmbedding:
    """Placeholder for the embedding of an index that is opened without its model. It cannot embed texts."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Raise StoreError, so that :func:`is_embedding_of` compares only the names of the embeddings."""
        raise StoreError("this index was opened without its embedding, so nothing can be embedded")

    def embed_query(self, text: str) -> list[float]:
        """Raise StoreError."""
        raise StoreError("this index was opened without its embedding, so nothing can be embedded")


@runtime_checkable
class FittedEmbedding(Embedding, Protocol):
    """An embedding that is fitted to the texts and stored in the index folder."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Return an embedding fitted to these texts."""
        ...

    def save(self, path: Path) -> None:
        """Write the fitted model to a file. When this method returns, the file is safely on disk."""
        ...

    def needs_refit(self, texts: Sequence[str]) -> bool:
        """Return whether texts that were added since the fit differ too much from the fitted texts."""
        ...


@runtime_checkable
class TransformsFitted(FittedEmbedding, Protocol):
    """A fitted embedding that can return the vectors of the fitted texts without analysing them again."""

    def fit_transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Fit the embedding to the texts and return their vectors."""
        ...


def probe_facts(name: str, matrix: VectorMatrix | None, row: int, text: str) -> dict[str, Any]:
    """Return the facts that identify an embedding: its name, its dimension, and a probe.

    The probe is the text of a row together with its vector. :func:`is_embedding_of` uses it to recognise the embedding.
    """
    assert matrix is not None, "rows with vectors belong to a matrix"
    return {
        "embedding": name,
        "dimension": matrix.dimension,
        "probe_text": text,
        "probe_vector": matrix.take([row])[0].tobytes(),
    }


def is_embedding_of(facts: Mapping[str, Any], name: str, embedding: Embedding) -> bool:
    """Return whether an embedding is the one with which the index was created.

    The embedding is accepted if its vector for the probe text is nearly the same as the one in ``facts``. An embedding
    with the same name is also accepted if the vectors cannot be compared. This is the case if there is no probe text,
    if the embedding is fitted (a new fit changes its vectors), if it cannot embed now, or if it gives the same text a
    different vector each time.
    """
    has_same_name = bool(facts["embedding"] == name)
    if has_same_name and (isinstance(embedding, FittedEmbedding) or "probe_text" not in facts):
        return True
    try:
        first, second = unit(embedding.embed_documents([facts["probe_text"]] * 2))
    except Exception:  # noqa: BLE001 - queries raise the error of a model that cannot embed now
        return has_same_name
    if _similar(first, np.frombuffer(facts["probe_vector"], np.float32)):
        return True
    # A model that gives the same text different vectors, such as random test vectors, cannot be checked.
    return has_same_name and not _similar(first, second)


def _similar(one: Vector, other: Vector) -> bool:
    return one.shape == other.shape and (float(one @ other) >= SAME_VECTOR or not (one.any() or other.any()))
