"""Embeddings of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.engines.vector_matrix import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.engines.vector_matrix import VectorMatrix

# Cosine from which the probe text's vector counts as the one that the index was made with.
SAME_VECTOR = 0.99


class Embedding(Protocol):
    """The methods of an embedding that a store calls; LangChain's ``Embeddings`` has them."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        ...


class NoEmbedding:
    """Placeholder for an embedding, for an open index that embeds no texts; its name identifies the model."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Raise StoreError; an index whose embedding cannot embed is recognised by its name."""
        raise StoreError("this index was opened without its embedding, so nothing can be embedded")

    def embed_query(self, text: str) -> list[float]:
        """Raise StoreError."""
        raise StoreError("this index was opened without its embedding, so nothing can be embedded")


@runtime_checkable
class FittedEmbedding(Embedding, Protocol):
    """An embedding that is fitted to the corpus and kept in the index folder."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn from the texts."""
        ...

    def save(self, path: Path) -> None:
        """Write the fitted model to a file, durably."""
        ...

    def needs_refit(self, texts: Sequence[str]) -> bool:
        """Return whether these texts, added since the fit, differ too much from the texts it was fitted to."""
        ...


@runtime_checkable
class TransformsFitted(FittedEmbedding, Protocol):
    """A fitted embedding that returns the vectors of the texts it is fitted to without analysing them again."""

    def fit_transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Learn from the texts and return their vectors."""
        ...


def probe_facts(name: str, matrix: VectorMatrix | None, row: int, text: str) -> dict[str, Any]:
    """Return the facts by which a model other than ``name`` is recognised: the text of a row and its vector."""
    assert matrix is not None, "rows with vectors belong to a matrix"
    return {
        "embedding": name,
        "dimension": matrix.dimension,
        "probe_text": text,
        "probe_vector": matrix.take([row])[0].tobytes(),
    }


def is_embedding_of(facts: Mapping[str, Any], name: str, embedding: Embedding) -> bool:
    """Return whether the embedding called ``name`` gives the probe text the vector that the index's facts record.

    Some embeddings are recognised by their name only: a fitted embedding, because a new fit changes its vectors; an
    embedding that cannot embed now; and one that gives the same text different vectors.
    """
    has_same_name = bool(facts["embedding"] == name)
    if has_same_name and (isinstance(embedding, FittedEmbedding) or "probe_text" not in facts):
        return True
    try:
        first, second = unit(embedding.embed_documents([facts["probe_text"]] * 2))
    except Exception:  # noqa: BLE001 - the error of a model that cannot embed now is raised by queries
        return has_same_name
    if _similar(first, np.frombuffer(facts["probe_vector"], np.float32)):
        return True
    # A model that disagrees with itself (random test vectors) cannot be told apart from another.
    return has_same_name and not _similar(first, second)


def _similar(one: Vector, other: Vector) -> bool:
    return one.shape == other.shape and (float(one @ other) >= SAME_VECTOR or not (one.any() or other.any()))
