"""Chunks in the form that the catalog stores."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import (
    LONGEST_TITLE,
    Chunk,
    ParsedMetadata,
    chunk_uri,
    context_type_of,
    is_valid,
    metadata_json,
    reference,
    replace_surrogates,
    session_of,
    with_short_titles,
)
from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.records import MENTIONS, Scope, check_name, check_texts, digest, passes_filter

logger = logging.getLogger(__name__)

# Kinds of nodes. A node of the kind GRAPH is used only in edges: it is an entity, a directory, or a chunk that is not
# stored (yet).
CHUNK, PARENT, GRAPH = "chunk", "parent", "graph"
MODE_PREFIX = "mode "
LOST_EDGES = "source NOT IN (SELECT node FROM nodes) OR target NOT IN (SELECT node FROM nodes)"
POSITION = (
    "SELECT value, ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'graph_changes'), 0) "
    "FROM about WHERE name = 'version'"
)
IS_MENTIONED = f"EXISTS (SELECT 1 FROM edges m WHERE m.target = nodes.node AND m.relation = '{MENTIONS}')"
INVALID_EDGES = (
    "NOT weight BETWEEN 5e-324 AND 1 OR source = target OR valid_until < valid_from OR "
    "typeof(valid_from) NOT IN ('real', 'null') OR typeof(valid_until) NOT IN ('real', 'null') OR "
    "(SELECT tenant FROM nodes WHERE node = source) <> (SELECT tenant FROM nodes WHERE node = target)"
)


class ChunkRow(NamedTuple):
    """A chunk or parent in the form that the catalog writes. A parent has no ``row``."""

    tenant: str
    id: str
    kind: str
    row: int | None
    document: str
    parent: str | None
    session: str | None
    turn: int | None
    text: str
    metadata: str
    text_hash: bytes
    content_hash: bytes
    uri: str | None
    context_type: str | None
    metadata_values: ParsedMetadata


class StoredHashes(NamedTuple):
    """Kind, row and hashes that the catalog stores for an id."""

    kind: str
    row: int | None
    text_hash: bytes | None
    content_hash: bytes | None


class StoredChunk(NamedTuple):
    """A chunk or parent in the form that the catalog returns."""

    row: int | None
    tenant: str
    id: str
    document: str
    parent: str | None
    text: str
    metadata: str
    valid_from: float | None
    valid_until: float | None
    learned_at: float = -math.inf
    retracted_at: float | None = None

    @property
    def has_replacements(self) -> bool:
        """Whether the chunk contains U+FFFD, which replaces bytes that cannot be decoded."""
        return "\ufffd" in f"{self.id}{self.text}{self.metadata}"

    def chunk(self) -> Chunk:
        """Return the chunk as a public record; damaged metadata is treated as empty."""
        return Chunk(self.id, self.text, parse_metadata(self.metadata) or {}, self.document, self.parent)

    def valid(self, as_of: float | None, known_at: float | None = None) -> bool:
        """Return whether the chunk was known at ``known_at`` (None: now) and is valid at ``as_of`` (None: any time)."""
        if known_at is None:
            is_known = self.retracted_at is None
        else:
            is_known = self.learned_at <= known_at and (self.retracted_at is None or self.retracted_at > known_at)
        is_timed = self.valid_from is not None or self.valid_until is not None
        return is_known and (not is_timed or is_valid(self.valid_from, self.valid_until, as_of))


def chunk_in(entry: StoredChunk, scope: Scope) -> Chunk | None:
    """Return the chunk if it is in the scope, else None; both must belong to the same tenant."""
    if not entry.valid(scope.as_of, scope.known_at):
        return None
    chunk = entry.chunk()
    return chunk if scope.filter is None or passes_filter(chunk, scope) else None


# Columns of several chunks: their rows, ids, and the times between which they are valid and known (valid from, valid
# until, learned at and retracted at), ±infinity if missing.
RowStates = tuple[list[int], list[str], list[list[float]]]


def parse_metadata(metadata: str) -> dict[str, Any] | None:
    """Parse the metadata of a row; return None unless it is a JSON object. Log a warning if it is not valid JSON."""
    try:
        read = json.loads(metadata)
    except (ValueError, RecursionError, TypeError) as error:
        logger.warning("metadata in the catalog cannot be read: %s", error)
        return None
    return read if isinstance(read, dict) else None


def mode_name(tenant: str) -> str:
    """Return the name of the fact that stores a tenant's search mode."""
    return MODE_PREFIX + tenant


def json_list(texts: Iterable[str]) -> str:
    """Encode strings for SQLite's ``json_each``; strings with a NUL, which it would cut, are left out."""
    return json.dumps([text for text in check_texts("ids", "ids", texts) if "\0" not in text])


def catalog_rows(chunks: Sequence[Chunk], parents: Sequence[Chunk], tenant: str) -> list[ChunkRow]:
    """Return chunks and parents in the form that the catalog writes, without row numbers.

    The last chunk with an id is used; a parent with a chunk's id is left out. Raises ValueError or TypeError for an id,
    text or metadata that cannot be stored.
    """
    every: list[Any] = [*parents, *chunks]
    if others := [each for each in every if not isinstance(each, Chunk)]:
        raise TypeError(f"chunks and parents must be Chunks, got {quote_value(others[0])}")
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
    if (short := with_short_titles(chunk.metadata)) is not chunk.metadata:
        logger.warning(
            "the title or heading of %.200r has more than %d characters and is shortened", chunk.id, LONGEST_TITLE
        )
        chunk = replace(chunk, metadata=short)
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
