"""How a chunk becomes a row of the catalogue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Edge, cleaned
from langchain_hybridgraph.stores.catalog import CHUNK, PARENT, Entry
from langchain_hybridgraph.stores.given import Given, session_of

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk


def entries(chunks: Sequence[Chunk], parents: Sequence[Chunk], tenant: str) -> list[Entry]:
    """Chunks and parents as the catalogue writes them, without rows; of several with one id the last counts.

    Raises ValueError for an id that is empty, holds a NUL or is no Unicode text, TypeError for metadata that JSON
    cannot hold.
    """
    made = {chunk.id: _entry(chunk, PARENT, tenant) for chunk in parents}
    made.update({chunk.id: _entry(chunk, CHUNK, tenant) for chunk in chunks})
    return list(made.values())


def storable(edges: Iterable[Edge]) -> list[Edge]:
    """The edges with descriptions that can be stored; raises ValueError for ends, relations and texts that cannot.

    ConfigurationError for what is no Edge, or no list of them.
    """
    return [_storable(edge) for edge in _only_edges(edges)]


def _storable(edge: Edge) -> Edge:
    for name, value in (("source", edge.source), ("target", edge.target), ("relation", edge.relation)):
        _check_id(value, f"an edge's {name}")
    if not isinstance(edge.description, str):
        raise ValueError(
            f"the description of the edge {edge.source!r} → {edge.target!r} ({edge.relation}) is "
            f'{edge.description!r}; it is a text, description="" for none'
        )
    described = cleaned(edge.description)
    return edge if described is edge.description else replace(edge, description=described)


def _only_edges(edges: Iterable[Edge]) -> list[Edge]:
    if isinstance(edges, Edge) or not isinstance(edges, Iterable):
        raise ConfigurationError(f'edges are {edges!r:.80}; wanted a list of them, such as [Edge("a", "b", "cites")]')
    given: list[Any] = list(edges)
    if others := [each for each in given if not isinstance(each, Edge)]:
        raise ConfigurationError(f'an edge is {others[0]!r:.80}; wanted an Edge, such as Edge("a", "b", "cites")')
    return given


def reference(name: str) -> str:
    """The name of a document or parent as the catalogue knows it: any text may stand in metadata, not all as a key."""
    return cleaned(name).replace("\0", "\ufffd")


def content_id(text: str, metadata: Mapping[str, Any]) -> str:
    """An id for a chunk that has none: the same text with the same metadata gets the same one in every run.

    >>> content_id("a", {"page": 1}) == content_id("a", {"page": 2})
    False
    """
    return _hash(cleaned(text), json.dumps(metadata, default=str, sort_keys=True)).hex()


def text_hash(text: str) -> bytes:
    """By what the catalogue recognises a text."""
    return _hash(cleaned(text))


def _entry(chunk: Chunk, kind: str, tenant: str) -> Entry:
    _check_id(chunk.id, "a chunk's id")
    if not isinstance(chunk.text, str):
        raise TypeError(f"the text of {chunk.id!r} is {chunk.text!r}; a text is a str")
    text = cleaned(chunk.text)
    metadata = _json(chunk.metadata, chunk.id)
    document = reference(chunk.document)
    session, turn = (None, None) if kind == PARENT else session_of(chunk.metadata)
    parent = None if kind == PARENT or chunk.parent is None else reference(chunk.parent)
    return Entry(
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
        content_hash=_hash(kind, document, parent or "", metadata, text),
        given=Given.of(chunk.metadata),
    )


def _check_id(id: Any, what: str) -> None:
    if not isinstance(id, str) or not id:
        raise ValueError(f"{what} is {id!r}; it is a text with at least one character")
    if cleaned(id) != id:
        raise ValueError(f"{what} is {id!r}, which holds half a surrogate pair; it is valid Unicode")
    if "\0" in id:
        raise ValueError(f"{what} is {id!r}; it holds no NUL character")


def _json(metadata: Mapping[str, Any], id: str) -> str:
    try:
        return json.dumps(dict(metadata), default=_more_than_json, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"the metadata of {id!r} cannot be stored as JSON: {error}; convert such values to text or numbers first"
        ) from error


def _more_than_json(value: Any) -> Any:
    """Dates and datetimes as ISO 8601, numpy's scalars as numbers, other mappings and sets as what they hold."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r}")


def _hash(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.digest()
