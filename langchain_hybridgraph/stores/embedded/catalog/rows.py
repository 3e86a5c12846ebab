"""Conversion of chunks and edges to SQL rows."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.records import Edge, replace_surrogates
from langchain_hybridgraph.records.chunk_metadata import MOST_NESTED, ParsedMetadata, reference, session_of
from langchain_hybridgraph.stores.embedded.catalog.records import CHUNK, PARENT, ChunkRow

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk


def catalog_rows(chunks: Sequence[Chunk], parents: Sequence[Chunk], tenant: str) -> list[ChunkRow]:
    """Return chunks and parents in the form that the catalog writes, without row numbers.

    If several chunks have the same id, the last one is used; a parent with the id of a chunk is left out. Raises
    ValueError for an id that is empty, contains a NUL or is not valid Unicode, and TypeError for a text that is not a
    string and for metadata that cannot be stored.
    """
    by_id = {chunk.id: _entry(chunk, PARENT, tenant) for chunk in parents}
    by_id.update({chunk.id: _entry(chunk, CHUNK, tenant) for chunk in chunks})
    return list(by_id.values())


def checked_edges(edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges as a list, with characters in descriptions replaced if they cannot be stored.

    Raises ValueError for an id or relation that cannot be stored and for a description that is not a string, and
    ConfigurationError unless ``edges`` is an iterable of Edge.
    """
    return [_storable(edge) for edge in _checked_edges(edges)]


def _storable(edge: Edge) -> Edge:
    for name, value in (("source", edge.source), ("target", edge.target), ("relation", edge.relation)):
        check_name(value, f"an edge's {name}")
    if not isinstance(edge.description, str):
        raise ValueError(
            f"the description of the edge {quote_value(edge.source)} → {quote_value(edge.target)} ({edge.relation}) is "
            f'{quote_value(edge.description)}; it must be a string; pass description="" for none'
        )
    described = replace_surrogates(edge.description)
    return edge if described is edge.description else replace(edge, description=described)


def _checked_edges(edges: Iterable[Edge]) -> list[Edge]:
    if isinstance(edges, Edge) or not isinstance(edges, Iterable):
        raise ConfigurationError(f'edges must be a list of Edge, such as [Edge("a", "b", "cites")], got {edges!r:.80}')
    edge_list: list[Any] = list(edges)
    if others := [each for each in edge_list if not isinstance(each, Edge)]:
        raise ConfigurationError(f'an edge must be an Edge, such as Edge("a", "b", "cites"), got {others[0]!r:.80}')
    return edge_list


def content_id(text: str, metadata: Mapping[str, Any]) -> str:
    """Return an id for a chunk without an id; the same text and metadata give the same id in every run.

    >>> content_id("a", {"page": 1}) == content_id("a", {"page": 2})
    False
    """
    try:
        serialized = json.dumps(metadata, default=str, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_storable(f"the text {reprlib.repr(text)}", str(error)) from error
    return _hash(replace_surrogates(text), serialized).hex()


def text_hash(text: str) -> bytes:
    """Return the hash by which the catalog identifies a text."""
    return _hash(replace_surrogates(text))


def _entry(chunk: Chunk, kind: str, tenant: str) -> ChunkRow:
    check_name(chunk.id, "a chunk's id")
    if not isinstance(chunk.text, str):
        raise TypeError(f"the text of {quote_value(chunk.id)} must be a str, got {quote_value(chunk.text)}")
    text = replace_surrogates(chunk.text)
    metadata = _json(chunk.metadata, chunk.id)
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
        content_hash=_hash(kind, document, parent or "", metadata, text),
        metadata_values=ParsedMetadata.of(chunk.metadata),
    )


def check_name(value: Any, what: str) -> None:
    """Raise ValueError unless the value can be an id: a non-empty string of valid Unicode without NUL characters."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a string with at least one character, got {reprlib.repr(value)}")
    if replace_surrogates(value) != value:
        raise ValueError(
            f"{what} must be valid Unicode, got {reprlib.repr(value)} with half a surrogate pair; "
            'value.encode("utf-8", "replace").decode() replaces such characters'
        )
    if "\0" in value:
        raise ValueError(
            f"{what} must not contain a NUL character, got {reprlib.repr(value)}; "
            'remove it with value.replace("\\0", "")'
        )


def _json(metadata: Mapping[str, Any], id: str) -> str:
    try:
        return json.dumps(_storable_value(metadata, "", 0), separators=(",", ":"))
    except ValueError as error:  # raised for an integer with more than 4,300 digits
        raise _not_storable(repr(id), str(error)) from error
    except _NotStorableError as error:
        raise _not_storable(repr(id), str(error)) from None


class _NotStorableError(Exception):
    """Raised for a value in the metadata that cannot be stored."""


def _not_storable(whose: str, why: str) -> TypeError:
    return TypeError(
        f"the metadata of {whose} cannot be stored as JSON: {why}; use strings as keys, and convert other "
        "values to strings, numbers, or lists or dicts of these"
    )


def _storable_value(value: Any, path: str, depth: int) -> Any:
    """Convert a value to its JSON form.

    Dates and datetimes become ISO 8601 strings (pandas' NaT becomes None), numpy's scalars become numbers, tuples
    become lists, and sets become sorted lists. NaN and infinities are kept, because Python's JSON can write and read
    them.
    """
    if type(value) in _SCALARS:
        return value
    if depth > MOST_NESTED:
        raise _NotStorableError(
            f"{quote_value(path[:40])}… is nested more than {MOST_NESTED} levels deep or contains itself"
        )
    if isinstance(value, Mapping):
        return {
            _key(key, path): _storable_value(item, f"{path}.{key}" if path else key, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_storable_value(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return _storable_value(_in_order(value, path), path, depth)
    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        plain = value.item()
        if isinstance(value, np.datetime64) and isinstance(plain, int):  # nanoseconds, which Python's datetime lacks
            plain = value.astype("datetime64[us]").item()
        return _storable_value(plain, path, depth + 1)
    return _storable_scalar(value, path)


def _storable_scalar(value: Any, path: str) -> Any:
    if isinstance(value, date):
        return value.isoformat() if value == value else None  # noqa: PLR0124 - NaT does not equal itself
    if isinstance(value, str | int | float):  # a subclass, such as a StrEnum
        return value
    raise _not_a_value(value, path)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        where = f" in {quote_value(path)}" if path else ""
        raise _NotStorableError(f"the key {reprlib.repr(key)}{where} is not a string")
    return key


def _in_order(values: set[Any] | frozenset[Any], path: str) -> list[Any]:
    try:
        return sorted(values)
    except TypeError as error:
        raise _not_a_value(values, path) from error


def _not_a_value(value: Any, path: str) -> _NotStorableError:
    return _NotStorableError(f"{quote_value(path)} contains {reprlib.repr(value)} ({type(value).__name__})")


def _hash(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.digest()
