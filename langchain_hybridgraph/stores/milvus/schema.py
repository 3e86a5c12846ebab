"""Collections in Milvus, their rows, and filter expressions.

Milvus compares JSON by its own rules, which vary between versions. Therefore, each row also has an array of *marks*:
digests of statements that are true of the metadata, such as "year equals 2020", "labels contains api" or "title
exists". A filter becomes a combination of ``ARRAY_CONTAINS`` conditions on this array. For order comparisons, each row
stores its numbers and times as floats in a second field.

An expression selects every row that matches the filter, and possibly other rows, because marks represent neither
substrings nor the order of strings. The store therefore checks the rows with
:meth:`~langchain_hybridgraph.filters.Filter.matches`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, is_valid
from langchain_hybridgraph.filters import operators
from langchain_hybridgraph.filters.expressions import Dialect, Filter, superset
from langchain_hybridgraph.records import MENTIONS, Edge, Scope, digest, filterable
from langchain_hybridgraph.stores.bm25 import K1, B
from langchain_hybridgraph.stores.milvus.connection import MOST_BYTES, MOST_ELEMENTS, MOST_NAME, MilvusConnection

if TYPE_CHECKING:
    from pymilvus import CollectionSchema

    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.stores.chunk_rows import ChunkRow

COLLECTION = "hybridgraph"
"""Default prefix of the names of the collections."""

FORMAT = 3
PROPERTY = "hybridgraph"
# Stored as the end of a validity period without an end and, negated, as the start of one without a start, because
# Milvus has no infinite numbers.
ALWAYS = 1e300
# Limits for the ids that a row lists. A chunk's row lists the nodes to which its edges lead. An edge's row lists the
# entities of its source; as every mention of the same chunk repeats this list, its limit is lower.
MOST_NEIGHBOURS = 1_000
MOST_ENTITIES = 64
MOST_LISTED_BYTES = 40_000
# Value of the vector field that Milvus requires in the collections of parents and edges.
UNUSED = (0.0, 1.0)
# Values that JSON libraries other than Python's change or reject; metadata with such a value is stored as a string.
_UNUSUAL = re.compile(r"NaN|Infinity|[0-9]{16}|\\u(?:d[89a-f]|0000)|\"\$json\"", re.IGNORECASE)


class CollectionSettings(NamedTuple):
    """Settings of a store, which are stored as JSON in the description of its collections."""

    embedding: str
    dimension: int
    language: str
    has_tenants: bool

    def description(self) -> str:
        """Return the settings as JSON, for the description of a collection."""
        return json.dumps({"hybridgraph": FORMAT, **self._asdict()})

    @classmethod
    def read(cls, description: str, where: str) -> CollectionSettings:
        """Parse a description. Raises NotAnIndexError if it is not by this package, and FormatVersionError."""
        try:
            facts = dict(json.loads(description))
            version = facts.pop("hybridgraph")
            settings = cls(**facts) if version == FORMAT else None
        except (ValueError, TypeError, KeyError):
            raise errors.NotAnIndexError(
                f"{where} was not made by this package (its description is {description[:100]!r}); choose another name "
                'with collection="…", or drop the collection'
            ) from None
        if settings is None:
            raise errors.FormatVersionError(
                f"{where} has format {version}, but this version of the package reads format {FORMAT}; install the "
                "version that made it, or ingest the documents into a new collection"
            )
        return settings

    def check(self, requested: CollectionSettings, where: str, *, language_given: bool) -> None:
        """Raise EmbeddingMismatchError, TenantError, or (``language_given``) ConfigurationError for other settings."""
        if (self.embedding, self.dimension) != (requested.embedding, requested.dimension):
            raise errors.EmbeddingMismatchError(
                f"{where} was made with the embedding {self.embedding!r} ({self.dimension} dimensions), but "
                f"{requested.embedding!r} ({requested.dimension}) was passed; pass the embedding that it was made "
                'with, or another collection="…"'
            )
        if language_given and self.language != requested.language:
            raise errors.ConfigurationError(
                f"{where} was made with language={self.language!r}, but language={requested.language!r} was passed: "
                'leave it out, or choose another collection="…"'
            )
        if self.has_tenants and not requested.has_tenants:
            raise errors.TenantError(f"{where} has tenants: open it with tenant=…")
        if requested.has_tenants and not self.has_tenants:
            raise errors.TenantError(f"{where} was made without tenants: leave tenant= out, or use a new collection")


class Collections(NamedTuple):
    """The names of the three collections of a store."""

    chunks: str
    parents: str
    edges: str

    @classmethod
    def of(cls, name: str) -> Collections:
        """Return the names of the collections of the store with this prefix."""
        return cls(f"{name}_chunks", f"{name}_parents", f"{name}_edges")


def collection_schemas(facts: CollectionSettings) -> list[CollectionSchema]:
    """Return the schemas of the collections, in the order of :class:`Collections`.

    Milvus computes a chunk's ``bm25`` from its words. Parents and edges have an unused vector, which Milvus requires.
    """
    from pymilvus import DataType, Function, FunctionType, MilvusClient

    key = {"datatype": DataType.VARCHAR, "max_length": 64}
    name = {"datatype": DataType.VARCHAR, "max_length": MOST_NAME}
    text = {"datatype": DataType.VARCHAR, "max_length": MOST_BYTES}
    json_, double = {"datatype": DataType.JSON}, {"datatype": DataType.DOUBLE}
    marks = {"element_type": DataType.VARCHAR, "max_capacity": MOST_ELEMENTS, "max_length": 32}
    row: dict[str, dict[str, Any]] = {
        **dict.fromkeys(("id", "document", "parent"), name),
        "text": text,
        **dict.fromkeys(("text_hash", "content_hash"), key),
        **dict.fromkeys(("metadata", "numbers", "neighbours"), json_),
        "marks": {"datatype": DataType.ARRAY, **marks},
        **dict.fromkeys(("valid_from", "valid_until"), double),
        "added_at": {"datatype": DataType.INT64},
    }
    searched = {
        "words": {**text, "enable_analyzer": True, "analyzer_params": {"tokenizer": "standard"}},
        "vector": {"datatype": DataType.FLOAT_VECTOR, "dim": facts.dimension},
        "bm25": {"datatype": DataType.SPARSE_FLOAT_VECTOR},
    }
    edge = {
        **dict.fromkeys(("source_key", "target_key"), key),
        **dict.fromkeys(("source", "target", "relation"), name),
        "description": text,
        **dict.fromkeys(("weight", "valid_from", "valid_until"), double),
        "entities": json_,
    }
    unused = {"unused": {"datatype": DataType.FLOAT_VECTOR, "dim": 2}}
    schemas = []
    for fields in (row | searched, row | unused, edge | unused):
        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=facts.description())
        schema.add_field("key", is_primary=True, **key)
        schema.add_field("tenant", is_partition_key=True, **name)
        for field, arguments in fields.items():
            schema.add_field(field, **arguments)
        schemas.append(schema)
    schemas[0].add_function(Function("words_to_bm25", FunctionType.BM25, ["words"], ["bm25"]))
    return schemas


def open_collections(
    connection: MilvusConnection, names: Collections, requested: CollectionSettings, *, language_given: bool
) -> CollectionSettings:
    """Create the collections that do not exist, load all of them, and return the store's settings.

    Raises the errors of :meth:`CollectionSettings.read` and :meth:`CollectionSettings.check`.
    """
    stored = stored_facts(connection, names)
    facts = requested if stored is None else stored
    facts.check(requested, _where(names.chunks, connection), language_given=language_given)
    for name, schema in zip(names, collection_schemas(facts), strict=True):
        if not connection.call("has_collection", collection_name=name):
            _create_collection(connection, name, schema)
        state = connection.call("get_load_state", collection_name=name)["state"]
        if getattr(state, "name", state) != "Loaded":
            connection.call("load_collection", collection_name=name)
    return facts


def stored_facts(connection: MilvusConnection, names: Collections) -> CollectionSettings | None:
    """Return the stored settings, or None without a chunk collection. Raises as :meth:`CollectionSettings.read`."""
    uri = connection.address.uri
    if not uri.startswith("http") and not os.path.exists(uri):  # any call would create the file of milvus-lite
        return None
    if not connection.call("has_collection", collection_name=names.chunks):
        return None
    described = connection.call("describe_collection", collection_name=names.chunks)
    description = described.get("description") or described.get("properties", {}).get(PROPERTY, "")
    return CollectionSettings.read(description, _where(names.chunks, connection))


def _create_collection(connection: MilvusConnection, name: str, schema: CollectionSchema) -> None:
    from pymilvus import MilvusClient

    indexes = MilvusClient.prepare_index_params()
    for field in schema.fields:
        match field.name:
            case "vector" | "unused":
                indexes.add_index(field.name, index_type="AUTOINDEX", metric_type="COSINE")
            case "bm25":
                k1_and_b = {"bm25_k1": K1, "bm25_b": B}
                indexes.add_index("bm25", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=k1_and_b)
            case "source_key" | "target_key":
                indexes.add_index(field.name, index_type="INVERTED")
            case "marks" if not connection.is_lite:  # milvus-lite cannot index arrays
                indexes.add_index("marks", index_type="INVERTED")
    try:
        # milvus-lite does not keep descriptions.
        properties = {PROPERTY: schema.description} if connection.is_lite else None
        connection.call("create_collection", collection_name=name, schema=schema, properties=properties)
        # The call need not wait for the index (sync=True): that of an empty collection is ready immediately.
        connection.call("create_index", collection_name=name, index_params=indexes, sync=False)
    except errors.StoreError:
        if not connection.call("has_collection", collection_name=name):  # another process may have created it
            raise


def _where(name: str, connection: MilvusConnection) -> str:
    return f"the collection {name!r} on {connection.address}"


# -- chunks --------------------------------------------------------------------------------------------------


class StoredRow(NamedTuple):
    """A chunk as Milvus returns it; ``vector`` is None if it was not requested."""

    chunk: Chunk
    added_at: int  # nanoseconds since 1970
    vector: Vector | None = None
    neighbours: Sequence[str] = ()  # neighbours that the chunk had when the list was last written
    words: str = ""  # see words_of; "" if they were not requested

    def copied(self) -> StoredRow:
        """Return a copy with its own metadata, which the caller may change."""
        return self._replace(chunk=replace(self.chunk, metadata=deepcopy(self.chunk.metadata)))

    def is_in(self, scope: Scope, *, filtered: bool = True) -> bool:
        """Return whether the chunk is in a scope. If ``filtered`` is False, the scope's filter is ignored."""
        metadata = ParsedMetadata.of(self.chunk.metadata)
        if scope.known_at is not None and self.added_at > scope.known_at * 1e9:
            return False
        if not is_valid(metadata.valid_from, metadata.valid_until, scope.as_of):
            return False
        return not filtered or scope.filter is None or scope.filter.matches(filterable(self.chunk))


def key_of(tenant: str, *names: str) -> str:
    """Return the primary key of a chunk, a parent or an edge. Unlike an id, a key is unique across tenants."""
    return digest(tenant, *names).hex()


def check_row(row: ChunkRow) -> None:
    """Raise ValueError if the row's text or metadata is too large for Milvus."""
    for field, value, advice in (
        ("text", row.text, "cut it into smaller chunks"),
        ("metadata", row.metadata, "move large values into the text, or leave them out"),
    ):
        size = len(value.encode())
        if size > MOST_BYTES:
            raise ValueError(
                f"the {field} of {errors.quote_value(row.id)} has {size:,} bytes; Milvus stores up to {MOST_BYTES:,}: "
                f"{advice}"
            )


def chunk_row(row: ChunkRow, added_at: int, neighbours: Iterable[str]) -> dict[str, Any]:
    """Return the Milvus fields of a chunk or parent, except the vector and words of a chunk."""
    look_ups = [mark("document", row.document), mark("hash", row.text_hash.hex())]
    look_ups += [mark(name, id) for name, id in (("parent", row.parent), ("session", row.session)) if id is not None]
    marks, numbers = marks_of({"document_id": row.document, **json.loads(row.metadata)}, look_ups)
    return {
        "key": key_of(row.tenant, row.id),
        "tenant": row.tenant,
        "id": row.id,
        "text": row.text,
        "metadata": json.dumps({"$json": row.metadata}) if _UNUSUAL.search(row.metadata) else row.metadata,
        "document": row.document,
        "parent": row.parent or "",
        "marks": marks,
        "numbers": json.dumps(numbers),
        **_period(row.metadata_values),
        "added_at": added_at,
        "text_hash": row.text_hash.hex(),
        "content_hash": row.content_hash.hex(),
        "neighbours": neighbours_field(neighbours),
    }


def _period(valid: ParsedMetadata | Edge) -> dict[str, float]:
    begin, end = valid.valid_from, valid.valid_until
    return {"valid_from": -ALWAYS if begin is None else begin, "valid_until": ALWAYS if end is None else end}


def neighbours_field(ids: Iterable[str]) -> str:
    """Return ids as a JSON list without duplicates. Ids that do not fit in the field are left out."""
    listed_ids, bytes_left = list[str](), MOST_LISTED_BYTES
    for id in dict.fromkeys(ids):
        bytes_left -= len(json.dumps(id)) + 2
        if bytes_left >= 0 and len(listed_ids) < MOST_NEIGHBOURS:
            listed_ids.append(id)
    return json.dumps(listed_ids)


def stored_row(entity: Mapping[str, Any]) -> StoredRow:
    """Convert an entity returned by Milvus to a row."""
    metadata = entity["metadata"]
    if "$json" in metadata:
        metadata = json.loads(metadata["$json"])
    chunk = Chunk(entity["id"], entity["text"], metadata, entity["document"], entity["parent"] or None)
    vector = entity.get("vector")
    return StoredRow(
        chunk,
        int(entity["added_at"]),
        None if vector is None else np.asarray(vector, np.float32),
        entity.get("neighbours") or (),
        entity.get("words") or "",
    )


# -- edges ---------------------------------------------------------------------------------------------------

EDGE_FIELDS = ("source", "target", "relation", "weight", "description", "valid_from", "valid_until")


def edge_rows(edges: Iterable[Edge], tenant: str) -> list[dict[str, Any]]:
    """Return the Milvus rows of edges, with the entities that a chunk mentions, if not more than ``MOST_ENTITIES``."""
    edges, entities = list(edges), dict[str, list[str]]()
    for edge in edges:
        if edge.relation == MENTIONS:
            entities.setdefault(edge.source, []).append(edge.target)
    fields = {id: neighbours_field(each) for id, each in entities.items() if len(each) <= MOST_ENTITIES}
    return [
        {
            **{name: getattr(edge, name) for name in EDGE_FIELDS},
            **_period(edge),
            "key": key_of(tenant, edge.source, edge.target, edge.relation),
            "tenant": tenant,
            "source_key": key_of(tenant, edge.source),
            "target_key": key_of(tenant, edge.target),
            "entities": fields.get(edge.source, "[]") if edge.relation == MENTIONS else "[]",
            "unused": UNUSED,
        }
        for edge in edges
    ]


def stored_edge(entity: Mapping[str, Any]) -> Edge:
    """Convert an entity returned by Milvus to an edge."""
    begins, ends = entity["valid_from"], entity["valid_until"]
    return Edge(
        entity["source"],
        entity["target"],
        entity["relation"],
        min(1.0, entity["weight"]),
        entity["description"],
        None if begins <= -ALWAYS else begins,
        None if ends >= ALWAYS else ends,
    )


# Filters.

# The only mark of a row that would need more than MOST_ELEMENTS marks; every expression selects such rows.
UNMARKED = "*"
NOTHING, EVERYTHING = 'key == ""', 'key != ""'
# Floats cannot represent every integer above this one.
_INEXACT = 2.0**53
_LARGEST = 1.7976931348623157e308


def marks_of(metadata: Mapping[str, Any], others: Iterable[str]) -> tuple[list[str], dict[str, float]]:
    """Return the marks of a chunk's metadata, and the numbers needed for comparisons such as ``$gt``.

    ``UNMARKED`` replaces more than ``MOST_ELEMENTS`` marks. The numbers are each number and time as a float, and 0 for
    each string that is not a time, by marks of the metadata key and the kind of value.
    """
    marks, numbers = dict.fromkeys(others), dict[str, float]()
    for path, own_value in operators.metadata_values(metadata):
        key, value = operators.join_key(path), operators.canonical(own_value)
        statements = [("exists", key), *(("equals", key, form) for form in _equals(value))]
        if isinstance(value, tuple):
            statements += [("contains", key, form) for element in value for form in _equals(element)]
        elif isinstance(value, str):
            statements.append(("text", key, ""))
        marks |= dict.fromkeys(mark(*statement) for statement in statements)
        kind, number = _order_of(value)
        if number is not None:
            marks[mark(kind, key)] = None
            numbers[mark(kind, key)] = number
    return list(marks) if len(marks) <= MOST_ELEMENTS else [UNMARKED], numbers


@lru_cache(maxsize=1 << 16)
def mark(*parts: str) -> str:
    """Return the mark of a statement, a digest of 20 characters: ``mark("equals", "year", "n2020")``."""
    statement = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(statement.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def expression(filter: Filter) -> str:
    """Return an expression that is true for every row that matches the filter, and possibly for other rows.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> expression(parse_filter({"year": 2020}) & ~parse_filter({"labels": {"$exists": True}})).count("ARRAY_CONTAINS")
    3
    """
    condition: str | None = superset(filter, _MarkDialect())
    return f'({condition or EVERYTHING} or ARRAY_CONTAINS(marks, "{UNMARKED}"))'


def has_any(marks: Sequence[str]) -> str:
    """Return an expression that is true for rows with at least one of these marks."""
    if not marks:
        return NOTHING
    if len(marks) == 1:
        return f'ARRAY_CONTAINS(marks, "{marks[0]}")'
    return f"ARRAY_CONTAINS_ANY(marks, {texts(marks)})"


def texts(values: Iterable[str]) -> str:
    """Return strings as a list literal for an expression."""
    return "[" + ", ".join(map(text, values)) + "]"


def text(value: str) -> str:
    r"""Return a string as a literal for an expression, with quotes and escapes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


# Statements about metadata.


def _equals(value: Any) -> Iterator[str]:
    """Yield a value's strings for tests for equality; a string that is a time also has that of its instant."""
    form = _form(value)
    if form is not None:
        yield form
    if (seconds := operators.canonical_to_seconds(value)) is not None:
        yield f"t{seconds!r}"


def _form(value: Any) -> str | None:
    """Return a string that only equal values share; None for NaN, a ``CanonicalTime``, and values that contain them."""
    form: str | None = "z"  # null in a list
    match value:
        case str():
            form = f"s{value}"
        case operators.CanonicalBool():
            form = f"b{value.value}"
        case operators.CanonicalTime():
            form = None
        case float():
            form = None if math.isnan(value) else f"n{int(value) if value.is_integer() else value}"
        case int():
            form = f"n{value}"
        case tuple():
            form = _join_forms("l", map(_form, value))
        case frozenset():
            forms = [_join_forms("i", (key, _form(element))) for key, element in value]
            form = None if None in forms else _join_forms("o", sorted(map(str, forms)))
    return form


def _join_forms(kind: str, forms: Iterable[str | None]) -> str | None:
    form_list = list(forms)
    return None if None in form_list else kind + "".join(f"{len(form or '')}:{form}" for form in form_list)


def _order_of(value: Any) -> tuple[str, float | None]:
    """Return a value's kind ("number", "time", "ordered text") and number (0 for a text); None without an order."""
    if isinstance(value, str | operators.CanonicalTime):
        seconds = operators.canonical_to_seconds(value)
        return ("ordered text", 0.0) if seconds is None else ("time", seconds)
    if isinstance(value, int) or (isinstance(value, float) and not math.isnan(value)):
        return "number", float(min(max(value, -_LARGEST), _LARGEST))  # JSON has no infinite numbers
    return "number", None


# Translation of filters.


class _MarkDialect(Dialect[str]):
    """Dialect of marks; only ``ARRAY_CONTAINS`` may be negated, because other conditions are null without a value."""

    def key(self, path: operators.Path) -> str:
        return operators.join_key(path)

    def holds(self, key: str, operator: str, operand: Any) -> str:
        if operator in operators.ORDERINGS:
            return _order(operator, operand, key, negated=False)
        marks = _operand_marks(key, operator, operand)
        if operator == "$contains" and isinstance(operand, str):
            marks.append(mark("text", key, ""))  # the operand may be a substring of any string
        return has_any(marks)

    def fails(self, key: str, operator: str, operand: Any) -> str:
        if operator in operators.ORDERINGS:
            return _order(operator, operand, key, negated=True)
        marks = _operand_marks(key, operator, operand)
        return f"not {has_any(marks)}" if marks else EVERYTHING

    def every(self, parts: list[str]) -> str:
        return "(" + " and ".join(parts) + ")"

    def some(self, parts: list[str]) -> str:
        return "(" + " or ".join(parts) + ")"


def _operand_marks(key: str, operator: str, operand: Any) -> list[str]:
    """Return marks of which every row that satisfies the comparison has one, except for ``$contains`` with a string."""
    if operator == "$exists":
        return [mark("exists", key)]
    kind, marks = "contains" if operator == "$contains" else "equals", list[str]()
    for each in operand if operator == "$in" else (operand,):
        # A string is compared only as a string, even if it is a time.
        forms = [f"s{each}"] if isinstance(each, str) else _equals(each)
        marks += [mark(kind, key, form) for form in forms]
    return marks


def _order(operator: str, operand: Any, key: str, *, negated: bool) -> str:
    kind, number = _order_of(operand)
    kind_mark = mark(kind, key)
    if kind == "ordered text" or number is None:
        return EVERYTHING if negated else has_any([kind_mark])
    ordering = operators.ORDERINGS[operator]
    sign = operators.ORDERINGS[ordering.negation].symbol if negated else ordering.symbol
    if abs(number) >= _INEXACT and len(sign) == 1:
        sign += "="  # two different numbers may be stored as the same float
    comparison = f'(ARRAY_CONTAINS(marks, "{kind_mark}") and numbers["{kind_mark}"] {sign} {number!r})'
    return f"({comparison} or not {has_any([kind_mark])})" if negated else comparison
