"""Opening the source and destination of a migration."""

from __future__ import annotations

from pathlib import Path

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings import embedding_name, resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError
from langchain_hybridgraph.migration.chroma_collection import ChromaCollectionSource
from langchain_hybridgraph.migration.chroma_server import ChromaServer
from langchain_hybridgraph.path_checks import as_path
from langchain_hybridgraph.stores.index_copy import EmbeddedDestination, EmbeddedSource
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.milvus.transfer import MilvusDestination, MilvusSource
from langchain_hybridgraph.stores.transfer import CopyDestination, CopySource


def open_source(
    location: str | Path | ChromaServer,
    collection: str | None,
    embedding: Embeddings | str | None,
    language: str,
    token: str,
) -> CopySource:
    """Open an index folder, a store in Milvus, a Chroma folder or a Chroma server as the source of a migration."""
    if is_milvus(location):
        return _check_source(MilvusSource(str(location), token=token, collection=collection or COLLECTION), embedding)
    if isinstance(location, str) and location.startswith(("http://", "https://")):
        location = ChromaServer(location, token=token or None)
    if isinstance(location, ChromaServer) or (Path(location) / "chroma.sqlite3").exists():
        if embedding is None:
            raise ConfigurationError(
                "a Chroma collection does not record which model made its vectors; pass embedding=… or --embedding"
            )
        if embedding == "lsa":
            raise ConfigurationError(
                "'lsa' cannot be the model of a Chroma collection: it is fitted to the texts of one index; pass the "
                "model that computed the vectors"
            )
        model = resolve_embedding(embedding)
        place = location if isinstance(location, ChromaServer) else Path(location)
        return ChromaCollectionSource(place, collection, model, embedding_name(model), language)
    if collection is not None:
        raise ConfigurationError(
            f"{location} is not in Milvus or Chroma, so it has no collection {collection!r}: leave the collection out"
        )
    return _check_source(EmbeddedSource(Path(location)), embedding)


def open_destination(location: str | Path, collection: str | None, token: str) -> CopyDestination:
    """Open an index folder or a store in Milvus as the destination of a migration; create it if it does not exist."""
    if is_milvus(location):
        return MilvusDestination(str(location), token=token, collection=collection or COLLECTION)
    if "://" in str(location):
        raise ConfigurationError(
            f"{location} cannot be the destination of a copy; pass an index folder or milvus://HOST:PORT"
        )
    if collection is not None:
        raise ConfigurationError(
            f"{location} is not in Milvus, so it has no collection {collection!r}: leave the collection out"
        )
    return EmbeddedDestination(Path(location))


def check_distinct(
    source: str | Path | ChromaServer, destination: str | Path, collection: str | None, new_collection: str | None
) -> None:
    """Raise ConfigurationError if source and destination are the same store, or if one of them has the wrong type."""
    as_path("destination", destination)
    if isinstance(source, ChromaServer):
        return
    as_path("source", source)
    if is_milvus(source) or is_milvus(destination):
        is_same = source == destination and (collection or COLLECTION) == (new_collection or COLLECTION)
        advice = "another destination, or another destination collection"
    else:
        is_same = Path(source).resolve() == Path(destination).resolve()
        advice = "a new folder as the destination"
    if is_same:
        raise ConfigurationError(f"{destination} is both the source and the destination: choose {advice}")


def is_milvus(location: object) -> bool:
    """Return whether a location is the URI of a store in Milvus or the path of a milvus-lite file."""
    return isinstance(location, str) and (location.startswith("milvus:") or location.endswith(".db"))


def _check_source(source: CopySource, embedding: Embeddings | str | None) -> CopySource:
    """Return the source, after checking that it was made with ``embedding``.

    Raises EmbeddingMismatchError if it was made with another embedding. If ``embedding`` is None, nothing is checked.
    """
    own = source.facts().embedding
    if embedding is not None and (new_name := embedding_name(resolve_embedding(embedding))) != own:
        source.close()
        raise EmbeddingMismatchError(
            f"{source.name} was made with the embedding {own!r}, not {new_name!r}, and vectors are copied unchanged: "
            f"leave the embedding out, or ingest the documents into a new store to use {new_name!r}"
        )
    return source
