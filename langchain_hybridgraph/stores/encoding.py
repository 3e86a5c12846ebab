"""How a chunk becomes a row of the catalogue."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.records import cleaned
from langchain_hybridgraph.stores.catalog import CHUNK, PARENT, Entry
from langchain_hybridgraph.times import parse_time

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk

logger = logging.getLogger(__name__)
_named: set[str] = set()


def entries(chunks: Sequence[Chunk], parents: Sequence[Chunk], tenant: str) -> list[Entry]:
    """Chunks and parents as the catalogue writes them, without rows; of several with one id the last counts.

    Raises ValueError for an id that is empty or no Unicode text, TypeError for metadata that JSON cannot hold.
    """
    made = {chunk.id: _entry(chunk, PARENT, tenant) for chunk in parents}
    made.update({chunk.id: _entry(chunk, CHUNK, tenant) for chunk in chunks})
    return list(made.values())


def content_id(text: str, metadata: Mapping[str, Any]) -> str:
    """An id for a chunk that has none: the same text with the same metadata gets the same one in every run.

    >>> content_id("a", {"page": 1}) == content_id("a", {"page": 2})
    False
    """
    return _hash(cleaned(text), json.dumps(metadata, default=str, sort_keys=True)).hex()


def _entry(chunk: Chunk, kind: str, tenant: str) -> Entry:
    _check_id(chunk.id)
    text = cleaned(chunk.text)
    metadata = _json(chunk.metadata, chunk.id)
    parent = chunk.parent if kind == CHUNK else None
    return Entry(
        tenant=tenant,
        id=chunk.id,
        kind=kind,
        row=None,
        document=cleaned(chunk.document),
        parent=None if parent is None else cleaned(parent),
        text=text,
        metadata=metadata,
        text_hash=_hash(text),
        content_hash=_hash(kind, chunk.document, parent or "", metadata, text),
        valid_from=_time(chunk.metadata, "valid_from"),
        valid_until=_time(chunk.metadata, "valid_until"),
    )


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not id:
        raise ValueError(f"a chunk has the id {id!r}; an id is a text with at least one character")
    if cleaned(id) != id:
        raise ValueError(f"the id {id!r} holds half a surrogate pair; an id is valid Unicode")


def _json(metadata: Mapping[str, Any], id: str) -> str:
    try:
        return json.dumps(dict(metadata), default=_more_than_json, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the metadata of {id!r} cannot be stored as JSON: {error}; convert such values to text or numbers first"
        ) from error


def _more_than_json(value: Any) -> Any:
    """Datetimes as ISO 8601, numpy's scalars as numbers, other mappings and sets as what they hold."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r}")


def _time(metadata: Mapping[str, Any], key: str) -> float | None:
    """A known key's time; a value that is no time is left uninterpreted and named once."""
    value = metadata.get(key)
    if value is None:
        return None
    try:
        return parse_time(value)
    except ValueError as error:
        if key not in _named:
            _named.add(key)
            logger.warning("metadata %r is not used as a time: %s", key, error)
        return None


def _hash(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.digest()
