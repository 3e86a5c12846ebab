"""Order-independent checksums of records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from langchain_hybridgraph.stores.transfer import ChunkRecord, EdgeRecord, Kind, SummaryRecord

_MODULUS = 1 << 128


class Checksum(NamedTuple):
    """Number of records, and the sum of their hashes (Clarke et al. 2003, "AdHash")."""

    records: int = 0
    total: int = 0

    def plus(self, *parts: bytes) -> Self:
        """Return the checksum after adding one record, which consists of these parts."""
        digest = hashlib.blake2b(digest_size=16)
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return type(self)(self.records + 1, (self.total + int.from_bytes(digest.digest(), "little")) % _MODULUS)


class Checksums:
    """Checksums of all records, one for each kind of content: chunks, vectors, memory, edges and others."""

    def __init__(self, stored_sums: Mapping[str, Any] | None = None) -> None:
        self._of = {
            name: Checksum(int(records), int(total, 16)) for name, (records, total) in (stored_sums or {}).items()
        }

    def add(self, tenant: str, kind: Kind, records: Iterable[Any]) -> None:
        """Add a tenant's records of one kind to the checksums."""
        for record in records:
            for name, parts in _parts(kind, record):
                self._of[name] = self._of.get(name, Checksum()).plus(tenant.encode(), *parts)

    def to_dict(self) -> dict[str, list[int | str]]:
        """Return a JSON-ready dict from which the checksums can be restored."""
        return {name: [records, f"{total:032x}"] for name, (records, total) in self._of.items()}

    def get(self, name: str) -> Checksum:
        """Return the checksum with this name, or an empty checksum if the name is unknown."""
        return self._of.get(name, Checksum())

    def names(self) -> list[str]:
        """Return the names of all checksums, sorted."""
        return sorted(self._of)


def _parts(kind: Kind, record: Any) -> Iterable[tuple[str, tuple[bytes, ...]]]:
    if isinstance(record, ChunkRecord):
        chunk = record.chunk
        yield kind, (_json([chunk.id, chunk.text, dict(chunk.metadata), chunk.document, chunk.parent]),)
        if record.vector is not None:
            yield "vectors", (chunk.id.encode(), np.ascontiguousarray(record.vector, "<f4").tobytes())
        if record.memory is not None:
            yield "memory", (_json([chunk.id, dict(record.memory.values), *record.memory[1:]]),)
    elif isinstance(record, SummaryRecord):
        # The metadata is left out because it contains a state that depends on the index.
        text = _json([record.chunk.id, record.chunk.text, record.is_current])
        yield kind, (text, np.ascontiguousarray(record.vector, "<f4").tobytes())
    elif isinstance(record, EdgeRecord):
        yield kind, (_json(record.edge.to_dict()),)
    else:
        yield kind, (_json(record),)


def _json(value: Any) -> bytes:
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), default=str).encode(
        "utf-8", "surrogatepass"
    )


def _plain(value: Any) -> Any:
    """Replace floats such as 1.0 by integers, because a store may return 1.0 for 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
