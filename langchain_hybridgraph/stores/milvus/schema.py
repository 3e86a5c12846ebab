"""Collections of a store in Milvus."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    FormatVersionError,
    NotAnIndexError,
    StoreError,
    StoreUnavailableError,
    TenantError,
)
from langchain_hybridgraph.stores.bm25 import K1, B
from langchain_hybridgraph.stores.milvus.limits import MOST_BYTES, MOST_ELEMENTS, MOST_NAME

if TYPE_CHECKING:
    from pymilvus import CollectionSchema

    from langchain_hybridgraph.stores.milvus.connection import MilvusConnection

COLLECTION = "hybridgraph"
"""Default prefix of the names of the collections."""

FORMAT = 3
PROPERTY = "hybridgraph"


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
        """Return the settings in a collection's description.

        Raises NotAnIndexError if the description is not one that this package writes, and FormatVersionError if this
        version of the package cannot read the collection.
        """
        try:
            facts = dict(json.loads(description))
            version = facts.pop("hybridgraph")
        except (ValueError, TypeError, KeyError):
            raise NotAnIndexError(
                f"{where} was not made by this package (its description is {description[:100]!r}); choose another name "
                'with collection="…", or drop the collection'
            ) from None
        if version != FORMAT:
            raise FormatVersionError(
                f"{where} has format {version}, but this version of the package reads format {FORMAT}; install the "
                "version that made it, or ingest the documents into a new collection"
            )
        try:
            return cls(**facts)
        except TypeError:
            raise NotAnIndexError(f"{where} has an incomplete description: {description[:200]!r}") from None

    def check(self, requested: CollectionSettings, where: str, *, language_given: bool) -> None:
        """Raise an error if the settings of an existing store differ from the requested ones.

        Raises EmbeddingMismatchError for another embedding or dimension, ConfigurationError for another language, and
        TenantError if the store has tenants and the requested settings do not, or the reverse. The language is ignored
        unless ``language_given`` is True.
        """
        if self.dimension != requested.dimension:
            raise EmbeddingMismatchError(
                f"{where} has vectors of {self.dimension} dimensions, but the embedding gives {requested.dimension}; "
                f'pass the embedding that it was made with ({self.embedding}), or another collection="…"'
            )
        if self.embedding != requested.embedding:
            raise EmbeddingMismatchError(
                f"{where} was made with the embedding {self.embedding!r}, but {requested.embedding!r} was passed; "
                'pass the embedding that it was made with, or another collection="…"'
            )
        if language_given and self.language != requested.language:
            raise ConfigurationError(
                f"{where} was made with language={self.language!r}, but language={requested.language!r} was passed: "
                'leave it out, or choose another collection="…"'
            )
        if self.has_tenants and not requested.has_tenants:
            raise TenantError(f"{where} has tenants: open it with tenant=…")
        if requested.has_tenants and not self.has_tenants:
            raise TenantError(f"{where} was made without tenants: leave tenant= out, or use a new collection")


class Collections(NamedTuple):
    """The names of the three collections of a store."""

    chunks: str
    parents: str
    edges: str

    @classmethod
    def of(cls, name: str) -> Collections:
        """Return the names of the collections of the store with this prefix."""
        return cls(f"{name}_chunks", f"{name}_parents", f"{name}_edges")


def fields_of(schema: CollectionSchema) -> dict[str, str]:
    """Return the type of each field of a schema."""
    return {field.name: field.dtype.name for field in schema.fields}


def input_fields(schema: CollectionSchema) -> dict[str, str]:
    """Return the type of each field that a row contains; fields that Milvus computes are left out."""
    computed = {name for function in schema.functions for name in function.output_field_names}
    return {name: kind for name, kind in fields_of(schema).items() if name not in computed}


def check_fields(described: Any, schema: CollectionSchema, where: str) -> None:
    """Raise NotAnIndexError if a collection lacks fields of the schema or has them with other types."""
    present = {field["name"]: getattr(field["type"], "name", str(field["type"])) for field in described["fields"]}
    expected = fields_of(schema)
    lacking = {name: kind for name, kind in expected.items() if present.get(name) != kind}
    if lacking:
        fields = ", ".join(
            f"{name} ({kind} expected, {present.get(name, 'none')} found)" for name, kind in lacking.items()
        )
        raise NotAnIndexError(
            f"{where} does not have the fields of a store: {fields}; let the store create its collections "
            '(choose another name with collection="…", or drop this one)'
        )


def collection_schemas(facts: CollectionSettings) -> tuple[CollectionSchema, CollectionSchema, CollectionSchema]:
    """Return the schemas of the collections, in the order of :class:`Collections`."""
    description = facts.description()
    return chunk_schema(facts.dimension, description), parent_schema(description), edge_schema(description)


def chunk_schema(dimension: int, description: str) -> CollectionSchema:
    """Return the schema of the chunk collection, including Milvus' BM25 function over the words of the chunks."""
    from pymilvus import DataType, Function, FunctionType

    schema = _schema(description)
    _add_chunk_fields(schema)
    words = {"max_length": MOST_BYTES, "enable_analyzer": True, "analyzer_params": {"tokenizer": "standard"}}
    schema.add_field("words", DataType.VARCHAR, **words)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    schema.add_field("bm25", DataType.SPARSE_FLOAT_VECTOR)
    schema.add_function(Function("words_to_bm25", FunctionType.BM25, ["words"], ["bm25"]))
    return schema


def parent_schema(description: str) -> CollectionSchema:
    """Return the schema of the parent collection; its vector field is unused, because parents are only read by id."""
    schema = _schema(description)
    _add_chunk_fields(schema)
    _add_unused_vector(schema)
    return schema


def edge_schema(description: str) -> CollectionSchema:
    """Return the schema of the edge collection."""
    from pymilvus import DataType

    schema = _schema(description)
    for name in ("source_key", "target_key"):
        schema.add_field(name, DataType.VARCHAR, max_length=64)
    for name in ("source", "target", "relation"):
        schema.add_field(name, DataType.VARCHAR, max_length=MOST_NAME)
    schema.add_field("description", DataType.VARCHAR, max_length=MOST_BYTES)
    for name in ("weight", "valid_from", "valid_until"):
        schema.add_field(name, DataType.DOUBLE)
    schema.add_field("entities", DataType.JSON)
    _add_unused_vector(schema)
    return schema


def index_params(schema: CollectionSchema, *, is_lite: bool) -> Any:
    """Return the index settings for a collection with this schema; milvus-lite cannot index arrays."""
    from pymilvus import MilvusClient

    params, names = MilvusClient.prepare_index_params(), fields_of(schema)
    if "bm25" in names:
        params.add_index("vector", index_type="AUTOINDEX", metric_type="COSINE")
        params.add_index(
            "bm25",
            index_type="SPARSE_INVERTED_INDEX",
            metric_type="BM25",
            params={"bm25_k1": K1, "bm25_b": B},
        )
    else:
        params.add_index("unused", index_type="AUTOINDEX", metric_type="COSINE")
    for name in ("marks", "source_key", "target_key"):
        if name in names and not (is_lite and name == "marks"):
            params.add_index(name, index_type="INVERTED")
    return params


def open_collections(
    connection: MilvusConnection, names: Collections, requested: CollectionSettings, *, language_given: bool
) -> CollectionSettings:
    """Create the collections that do not exist, load all of them, and return the store's settings.

    Raises the errors of :meth:`CollectionSettings.read`, :meth:`CollectionSettings.check` and :func:`check_fields`.
    """
    stored = stored_facts(connection, names)
    facts = requested if stored is None else stored
    facts.check(requested, _where(names.chunks, connection), language_given=language_given)
    for name, schema in zip(names, collection_schemas(facts), strict=True):
        if not connection.call("has_collection", collection_name=name):
            create_collection(connection, name, schema)
        check_fields(connection.call("describe_collection", collection_name=name), schema, _where(name, connection))
        _load(connection, name)
    return facts


def stored_facts(connection: MilvusConnection, names: Collections) -> CollectionSettings | None:
    """Return the stored settings, or None if the chunk collection does not exist.

    Raises the errors of :meth:`CollectionSettings.read`.
    """
    if connection.is_missing or not connection.call("has_collection", collection_name=names.chunks):
        return None
    described = connection.call("describe_collection", collection_name=names.chunks)
    description = described.get("description") or described.get("properties", {}).get(PROPERTY, "")
    return CollectionSettings.read(description, _where(names.chunks, connection))


def create_collection(connection: MilvusConnection, name: str, schema: CollectionSchema) -> None:
    """Create a collection with its indexes, unless another process has done so in the meantime."""
    indexes = index_params(schema, is_lite=connection.is_lite)
    try:
        # milvus-lite does not keep descriptions.
        properties = {PROPERTY: schema.description} if connection.is_lite else None
        connection.call("create_collection", collection_name=name, schema=schema, properties=properties)
        # The call need not wait for the index (sync=True): that of an empty collection is ready immediately.
        connection.call("create_index", collection_name=name, index_params=indexes, sync=False)
    except StoreUnavailableError:
        raise
    except StoreError:
        if not connection.call("has_collection", collection_name=name):  # another process may have created it
            raise


def _load(connection: MilvusConnection, name: str) -> None:
    state = connection.call("get_load_state", collection_name=name)["state"]
    if getattr(state, "name", state) != "Loaded":
        connection.call("load_collection", collection_name=name)


def _where(name: str, connection: MilvusConnection) -> str:
    return f"the collection {name!r} on {connection.address}"


def _schema(description: str) -> CollectionSchema:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
    schema.add_field("key", DataType.VARCHAR, max_length=64, is_primary=True)
    schema.add_field("tenant", DataType.VARCHAR, max_length=MOST_NAME, is_partition_key=True)
    return schema


def _add_chunk_fields(schema: CollectionSchema) -> None:
    from pymilvus import DataType

    for name, size in (("id", MOST_NAME), ("document", MOST_NAME), ("parent", MOST_NAME), ("text", MOST_BYTES)):
        schema.add_field(name, DataType.VARCHAR, max_length=size)
    for name in ("text_hash", "content_hash"):
        schema.add_field(name, DataType.VARCHAR, max_length=64)
    for name in ("metadata", "numbers", "neighbours"):
        schema.add_field(name, DataType.JSON)
    marks = {"element_type": DataType.VARCHAR, "max_capacity": MOST_ELEMENTS, "max_length": 32}
    schema.add_field("marks", DataType.ARRAY, **marks)
    for name in ("valid_from", "valid_until"):
        schema.add_field(name, DataType.DOUBLE)
    schema.add_field("added_at", DataType.INT64)


def _add_unused_vector(schema: CollectionSchema) -> None:
    """Add a vector field that is not used, because Milvus requires one in every collection."""
    from pymilvus import DataType

    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)
