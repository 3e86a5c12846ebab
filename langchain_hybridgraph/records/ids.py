"""Validation of ids, and derivation of ids from contents."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping
from typing import Any

from langchain_hybridgraph.records.chunk_metadata import not_storable
from langchain_hybridgraph.records.chunks import replace_surrogates


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


def check_ids(values: Any, name: str) -> None:
    """Raise TypeError if ``values`` is a single string instead of a list of ids.

    Without this check, each letter of the string would be an id.

    >>> check_ids("a.md", "ids")
    Traceback (most recent call last):
    TypeError: ids must be a list of strings, got 'a.md'; write ids=['a.md']
    """
    if isinstance(values, str):
        raise TypeError(f"{name} must be a list of strings, got {values!r}; write {name}={[values]!r}")


def content_id(text: str, source: str) -> str:
    """Return an id for a text without an id: a hash of text and source, which is the same in every run."""
    content = f"{source}\x00{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def memory_id(text: str, metadata: Mapping[str, Any]) -> str:
    """Return an id for a memory without an id; the same text and metadata give the same id in every run.

    >>> memory_id("a", {"page": 1}) == memory_id("a", {"page": 2})
    False
    """
    try:
        serialized = json.dumps(metadata, default=str, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise not_storable(f"the text {reprlib.repr(text)}", str(error)) from error
    return digest(replace_surrogates(text), serialized).hex()


def digest(*parts: str) -> bytes:
    """Return a hash of the parts, 16 bytes long.

    Dividing the same text into different parts gives a different hash.
    """
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        hashed.update(len(raw).to_bytes(8, "little"))
        hashed.update(raw)
    return hashed.digest()
