"""Opening of what SOURCE and DESTINATION of a migration name."""

from __future__ import annotations

from pathlib import Path

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.embeddings import embedding_name, resolve_embedding
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError
from langchain_hybridgraph.stores.embedded.transfer import EmbeddedDestination, EmbeddedSource
from langchain_hybridgraph.stores.engines.chroma_client import ChromaServer
from langchain_hybridgraph.stores.engines.chroma_collection import ChromaCollectionSource
from langchain_hybridgraph.stores.transfer import Destination, Source


def open_source(
    location: str | Path | ChromaServer, collection: str | None, embedding: Embeddings | str | None, language: str
) -> Source:
    """Open an index folder, a Chroma folder or a Chroma server for reading."""
    if isinstance(location, str) and location.startswith(("http://", "https://")):
        location = ChromaServer(location)
    if isinstance(location, ChromaServer) or (Path(location) / "chroma.sqlite3").exists():
        if embedding is None:
            raise ConfigurationError(
                "a Chroma collection does not say which model made its vectors: name it, embedding=… or --embedding"
            )
        model = resolve_embedding(embedding)
        place = location if isinstance(location, ChromaServer) else Path(location)
        return ChromaCollectionSource(place, collection, model, embedding_name(model), language)
    if collection is not None:
        raise ConfigurationError(f"collection={collection!r} is for a Chroma source, and {location} is not one")
    source = EmbeddedSource(Path(location))
    if embedding is not None and (given := embedding_name(resolve_embedding(embedding))) != source.facts().embedding:
        source.close()
        raise EmbeddingMismatchError(
            f"{location} was made with the embedding {source.facts().embedding!r}, and its vectors are copied: leave "
            f"the embedding out; to use {given!r}, ingest the documents into a new index"
        )
    return source


def open_destination(location: str | Path) -> Destination:
    """Open an index folder for writing, or make one."""
    if "://" in str(location):
        raise ConfigurationError(f"{location} cannot receive a copy; name an index folder")
    return EmbeddedDestination(Path(location))
