"""Conversion of chunks to rows of a store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_hybridgraph.chunks import (
    ParsedMetadata,
    chunk_uri,
    context_type_of,
    metadata_json,
    reference,
    replace_surrogates,
    session_of,
)
from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.records import check_name, digest
from langchain_hybridgraph.stores.embedded.catalog.records import CHUNK, PARENT, ChunkRow

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Chunk


def catalog_rows(chunks: Sequence[Chunk], parents: Sequence[Chunk], tenant: str) -> list[ChunkRow]:
    """Return chunks and parents in the form that the catalog writes, without row numbers.

    If several chunks have the same id, the last one is used; a parent with the id of a chunk is left out. Raises
    ValueError for an id that is empty, contains a NUL or is not valid Unicode, and TypeError for a text that is not a
    string and for metadata that cannot be stored.
    """
    by_id = {chunk.id: _entry(chunk, PARENT, tenant) for chunk in parents}
    by_id.update({chunk.id: _entry(chunk, CHUNK, tenant) for chunk in chunks})
    return list(by_id.values())


def text_hash(text: str) -> bytes:
    """Return the hash by which the catalog identifies a text."""
    return digest(replace_surrogates(text))


def _entry(chunk: Chunk, kind: str, tenant: str) -> ChunkRow:
    check_name(chunk.id, "a chunk's id")
    if not isinstance(chunk.text, str):
        raise TypeError(f"the text of {quote_value(chunk.id)} must be a str, got {quote_value(chunk.text)}")
    text = replace_surrogates(chunk.text)
    metadata = metadata_json(chunk.metadata, chunk.id)
    stored_metadata = json.loads(metadata)  # for the tree, which must be the same as that of a migrated catalog
    document = reference(chunk.document)
    session, turn = (None, None) if kind == PARENT else session_of(chunk.metadata)
    parent = None if kind == PARENT or chunk.parent is None else reference(chunk.parent)
    return ChunkRow(
        tenant=tenant,
        id=chunk.id,
        kind=kind,
        row=None,
        document=document,
        parent=parent,
        session=session,
        turn=turn,
        text=text,
        metadata=metadata,
        text_hash=text_hash(text),
        content_hash=digest(kind, document, parent or "", metadata, text),
        uri=None if kind == PARENT else chunk_uri(chunk.id, document, stored_metadata),
        context_type=None if kind == PARENT else context_type_of(stored_metadata),
        metadata_values=ParsedMetadata.of(chunk.metadata),
    )
