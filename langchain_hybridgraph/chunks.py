"""Chunks and their metadata."""

from __future__ import annotations

import json
import logging
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from langchain_hybridgraph.errors import ConfigurationError, quote_value, shorten
from langchain_hybridgraph.times import parse_end, parse_time

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    Mask = NDArray[np.bool_]
    Time = float | str | date  # a datetime is a date


# Conversion of records to JSON-ready dicts and back.


class Serializable:
    """Base class of frozen dataclasses that can be converted to JSON and back.

    >>> from langchain_hybridgraph.records import Edge
    >>> edge = Edge("a", "b", "cites", 0.5)
    >>> Edge.from_dict(edge.to_dict()) == edge
    True
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values (see :func:`to_json`)."""
        return cast("dict[str, Any]", to_json(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a record from the output of :meth:`to_dict`; unknown keys are ignored.

        Raises ValueError for a missing key and for a value of the wrong type.
        """
        from pydantic import ValidationError

        try:
            record: Self = _type_adapter(cls).validate_python(data)  # type: ignore[arg-type]  # a class is hashable
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the top"
            raise ConfigurationError(
                f"this is not a {cls.__name__}: {first['msg']} at {place}; pass the output of {cls.__name__}.to_dict()"
            ) from error
        return record


_UNCHANGED = frozenset({str, int, bool, type(None)})


def to_json(value: Any) -> Any:  # noqa: PLR0911 - one conversion per type
    """Return a value converted to JSON types: dicts, lists, strings, numbers, booleans and None.

    Records and Pydantic models become dicts, NumPy values become Python numbers and lists, and enums become their
    values. Times become ISO 8601 strings, and timedeltas become seconds. Sets become sorted lists, and other iterables
    become lists. NaN and infinity become None. Any other value becomes its ``str``.

    >>> import numpy as np
    >>> to_json({"at": date(2024, 5, 1), "score": np.float32(0.5), "tags": {"b", "a"}, "gap": math.nan})
    {'at': '2024-05-01', 'score': 0.5, 'tags': ['a', 'b'], 'gap': None}
    """
    if type(value) in _UNCHANGED:
        return value
    if isinstance(value, Enum):
        return to_json(value.value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str | bytes | bytearray):
        return str(value)
    if isinstance(value, Mapping):
        # Most keys and values stay as they are; without this check, a result takes 1.7 times as long.
        return {
            key if type(key) is str else str(to_json(key)): each if type(each) in _UNCHANGED else to_json(each)
            for key, each in value.items()
        }
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Set):
        return sorted(map(to_json, value), key=str)
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    for method in ("_asdict", "model_dump", "tolist"):  # of a NamedTuple, a Pydantic model, and a NumPy value
        if callable(convert := getattr(value, method, None)):
            return to_json(convert())
    return list(map(to_json, value)) if isinstance(value, Iterable) else str(value)


@cache
def _type_adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


# Chunks of text, the units of search.


@dataclass(frozen=True, slots=True)
class Chunk(Serializable):
    """An indexed piece of text, or a parent to which child chunks refer.

    ``metadata`` is the user's JSON, unchanged. If ``parent_id`` is None, the parent is ``metadata["parent_id"]``. If
    ``document_id`` is None, the document is the first of these that exists: ``metadata["document_id"]``,
    ``metadata["source"]``, or the chunk's id.

    >>> Chunk("a#1", "text", {"source": "a.md"}).document
    'a.md'
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    document_id: str | None = None
    parent_id: str | None = None

    @property
    def document(self) -> str:
        """Id of the document that the chunk belongs to."""
        for id in (self.document_id, self.metadata.get("document_id"), self.metadata.get("source")):
            if id is not None:
                return str(id)
        return self.id

    @property
    def content(self) -> tuple[str, str]:
        """Text and metadata, in a form that is equal for copies of a text under several ids.

        The ids that some stores add to metadata (``_id``, ``pk``, and ``id`` if it is the chunk's id) are left out.

        >>> copies = Chunk("1", "text", {"year": 2024, "_id": "1"}), Chunk("2", "text", {"_id": "2", "year": 2024})
        >>> copies[0].content == copies[1].content
        True
        """
        return self.text, repr(sorted((str(key), repr(value)) for key, value in self.own_metadata.items()))

    @property
    def own_metadata(self) -> dict[str, Any]:
        """Metadata without the ids that some stores add to them."""
        ids = ("_id", "pk", "id") if str(self.metadata.get("id")) == self.id else ("_id", "pk")
        return {key: value for key, value in self.metadata.items() if key not in ids}

    @property
    def headings(self) -> str:
        """``title`` and ``section_heading`` in the metadata, or ""; a keyword index searches them besides the text.

        >>> Chunk("a#1", "text", {"title": "Guide", "section_heading": "Install > Linux"}).headings
        'Guide > Install > Linux'
        """
        headings = (self.metadata.get(key) for key in ("title", "section_heading"))
        return replace_surrogates(" > ".join(heading for heading in headings if isinstance(heading, str)))

    @property
    def parent(self) -> str | None:
        """Id of the parent, or None if the chunk has no parent."""
        if self.parent_id is not None:
            return self.parent_id
        parent_id = self.metadata.get("parent_id")
        return None if parent_id in (None, "") else str(parent_id)


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates, which files and engines cannot store, replaced by U+FFFD.

    >>> replace_surrogates("a\\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# Validity of chunks and edges, from valid_from to valid_until.


def is_valid(valid_from: float | None, valid_until: float | None, as_of: float | None) -> bool:
    """Return whether a chunk or an edge with this period of validity is valid at ``as_of``; True if that is None.

    Both ends belong to the period; None stands for no start or no end. Times are in Unix seconds, UTC.

    >>> is_valid(None, 5.0, 5.0), is_valid(6.0, None, 5.0)
    (True, False)
    """
    if as_of is None:
        return True
    return (valid_from is None or valid_from <= as_of) and (valid_until is None or valid_until >= as_of)


def validity_of(metadata: Mapping[str, Any]) -> tuple[float, float]:
    """Return the start of a chunk's validity, or −∞ if it has none, and the end, or ∞."""
    start, end = _read(metadata, "valid_from", parse_time), _read(metadata, "valid_until", parse_end)
    return -math.inf if start is None else start, math.inf if end is None else end


# Metadata of chunks: known keys and storable values.

logger = logging.getLogger(__name__)
_warned_keys: set[str] = set()

# Maximum depth of nested lists and objects in metadata. Python's own limit (about 900) depends on the depth of the call
# stack: metadata written with a short call stack could not be read with a deep one.
MOST_NESTED = 100


class ParsedMetadata(NamedTuple):
    """The values of the known metadata keys; None means missing or unusable. Times are in Unix seconds, UTC.

    A ``valid_until`` that is a date without a time means the end of that day: "until 5 February" includes the 5th.
    """

    valid_from: float | None = None
    valid_until: float | None = None
    confidence: float | None = None
    utility: float | None = None
    active_count: int | None = None
    updated_at: float | None = None
    created_at: float | None = None
    memory_type: str | None = None
    provenance_depth: int | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> ParsedMetadata:
        """Return the values in the metadata; an unusable value is ignored, and a warning is logged once per key.

        >>> ParsedMetadata.of({"confidence": 0.9, "utility": 7, "valid_from": "1970-01-02"})[:4]
        (86400.0, None, 0.9, None)
        """
        parsed_metadata = cls(*(_read(metadata, key, read) for key, read in _KEYS.items()))
        if contradiction := _contradiction(metadata, parsed_metadata):
            _warn_once("valid_until before valid_from", contradiction)
        return parsed_metadata

    @classmethod
    def check(cls, metadata: Mapping[str, Any]) -> ParsedMetadata:
        """Return the values; raise ValueError for an unusable one or an end of validity before the start.

        >>> ParsedMetadata.check({"confidence": 7})
        Traceback (most recent call last):
        langchain_hybridgraph.errors.ConfigurationError: confidence: 7 is not a number from 0 to 1
        """
        labels = metadata.get("labels")
        if not isinstance(labels, str | list | tuple | set | frozenset | None):
            value = quote_value(labels)
            raise ConfigurationError(f"labels: {value} is not a list of strings; write [{value}]")
        parsed_metadata = cls(*(_read(metadata, key, read, is_strict=True) for key, read in _KEYS.items()))
        if contradiction := _contradiction(metadata, parsed_metadata):
            raise ConfigurationError(contradiction)
        return parsed_metadata


LONGEST_TITLE = 500
"""Maximum length of titles and headings in metadata, in characters; every chunk of a document has a copy of them."""


def with_short_titles(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata with ``title`` and ``section_heading`` shortened; the same object if neither is too long."""
    for key in ("title", "section_heading"):
        title = metadata.get(key)
        if isinstance(title, str) and len(title) > LONGEST_TITLE:
            metadata = {**metadata, key: shorten(title, LONGEST_TITLE)}
    return metadata


def is_nested_too_deeply(metadata: Mapping[str, Any]) -> bool:
    """Return whether JSON metadata is nested more deeply than a store accepts.

    >>> is_nested_too_deeply({"a": [[1]]})
    False
    """
    containers: list[Any] = [metadata]
    for _ in range(MOST_NESTED + 1):
        items = (item for each in containers for item in (each.values() if isinstance(each, dict) else each))
        containers = [item for item in items if isinstance(item, dict | list)]
        if not containers:
            return False
    return True


def metadata_json(metadata: Mapping[str, Any], id: str) -> str:
    """Return a chunk's metadata as JSON for a store; raise TypeError for a value that cannot be stored."""
    try:
        return json.dumps(_storable_value(metadata, "", 0), separators=(",", ":"))
    except ValueError as error:  # also raised for an integer with more than 4,300 digits
        raise not_storable(repr(id), str(error)) from error


def not_storable(whose: str, why: str) -> TypeError:
    """Return a TypeError that says whose metadata cannot be stored as JSON, and why."""
    return TypeError(
        f"the metadata of {whose} cannot be stored as JSON: {why}; use strings as keys, and convert other "
        "values to strings, numbers, or lists or dicts of these"
    )


def _storable_value(value: Any, path: str, depth: int) -> Any:  # noqa: PLR0911 - one conversion per type
    """Convert a value to its JSON form.

    Dates and datetimes become ISO 8601 strings (pandas' NaT becomes None), numpy's scalars become numbers, tuples
    become lists, and sets become sorted lists. NaN and infinities are kept: Python's JSON can write and read them.
    """
    if type(value) in _SCALARS:
        return value
    if depth > MOST_NESTED:
        raise ValueError(f"{quote_value(path[:40])}… is nested more than {MOST_NESTED} levels deep or contains itself")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                where = f" in {quote_value(path)}" if path else ""
                raise ValueError(f"the key {reprlib.repr(key)}{where} is not a string")
        return {key: _storable_value(item, f"{path}.{key}" if path else key, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable_value(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        with suppress(TypeError):  # values that cannot be sorted
            return _storable_value(sorted(value), path, depth)
    if isinstance(value, date):
        return value.isoformat() if value == value else None  # noqa: PLR0124 - NaT does not equal itself
    if isinstance(value, str | int | float):  # a subclass, such as a StrEnum
        return value
    import numpy as np  # only here, because processes that read files do not need it

    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        plain = value.item()
        if isinstance(value, np.datetime64) and isinstance(plain, int):  # nanoseconds, which Python's datetime lacks
            plain = value.astype("datetime64[us]").item()
        return _storable_value(plain, path, depth + 1)
    raise ValueError(f"{quote_value(path)} contains {reprlib.repr(value)} ({type(value).__name__})")


_SCALARS = frozenset({str, int, float, bool, type(None)})


def session_of(metadata: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the session id in the metadata and the number of the chunk's turn in that session; either may be None."""
    session = metadata.get("session_id")
    if session is None:
        return None, None
    return _read(metadata, "session_id", _name), _read(metadata, "turn", _count)


def context_type_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the context type in the metadata, or None if there is none or it is not a string."""
    context_type = metadata.get("context_type")
    return reference(context_type) if isinstance(context_type, str) and context_type else None


def labels_of(metadata: Mapping[str, Any]) -> list[Any]:
    """Return the labels in the metadata; a string is one label.

    >>> labels_of({"labels": "home"}), labels_of({"labels": ["home", "tea"]}), labels_of({})
    (['home'], ['home', 'tea'], [])
    """
    labels = metadata.get("labels")
    if isinstance(labels, str):
        return [labels]
    return list(labels) if isinstance(labels, list | tuple | set | frozenset) else []


def reference(name: str) -> str:
    """Return the name of a document, parent, session or source as the catalog stores it, without lone surrogates.

    Raises TypeError unless the name is a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"the id of a document, parent or session must be a string, got {quote_value(name)}")
    return replace_surrogates(name).replace("\0", "\ufffd")


def share(value: Any) -> float:
    """Return a number from 0 to 1 as a float; raise ValueError for any other value.

    >>> share(1)
    1.0
    """
    number = _number(value)
    if not 0.0 <= number <= 1.0:
        raise ConfigurationError(f"{quote_value(value)} is not a number from 0 to 1")
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigurationError(f"{quote_value(value)} is not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigurationError(f"{reprlib.repr(value)} is too large") from error


def _count(value: Any) -> int:
    number = _number(value)
    if not (0 <= number < 1e15 and number.is_integer()):
        raise ConfigurationError(f"{quote_value(value)} is not an integer ≥ 0")
    return int(number)


def _name(value: Any) -> str:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ConfigurationError(f"{reprlib.repr(value)} is not a string or an int")
    return reference(str(value))


_KEYS: Mapping[str, Callable[[Any], Any]] = {
    "valid_from": parse_time,
    "valid_until": parse_end,
    "confidence": share,
    "utility": share,
    "active_count": _count,
    "updated_at": parse_time,
    "created_at": parse_time,
    "memory_type": _name,
    "provenance_depth": _count,
}


def _read(metadata: Mapping[str, Any], key: str, read: Callable[[Any], Any], *, is_strict: bool = False) -> Any:
    value = metadata.get(key)
    try:
        return None if value is None else read(value)
    except ValueError as error:
        if is_strict:
            raise ConfigurationError(f"{key}: {error}") from error
        _warn_once(key, f"metadata {key!r} is not used: {error}")
        return None


def _warn_once(key: str, message: str) -> None:
    if key not in _warned_keys:
        _warned_keys.add(key)
        logger.warning("%s", message)


def _contradiction(metadata: Mapping[str, Any], parsed: ParsedMetadata) -> str:
    """Return a message if the end of validity is before its start, otherwise ""."""
    if parsed.valid_from is None or parsed.valid_until is None or parsed.valid_from <= parsed.valid_until:
        return ""
    first, last = metadata["valid_from"], metadata["valid_until"]
    return (
        f"valid_until ({quote_value(last)}) is before valid_from ({quote_value(first)}), so the text "
        "would never be valid, and never be found: correct one of them"
    )


# URIs of directories and documents.

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def directory_of(uri: str) -> str:
    """Return the URI of the directory that contains this URI (the page of a section), or "" if there is none.

    >>> directory_of("python://asyncio/Queue"), directory_of("python://asyncio"), directory_of("docs/a.md")
    ('python://asyncio', '', 'docs')
    >>> directory_of("https://docs.org/use#install")
    'https://docs.org/use'
    """
    scheme, path = _split_uri(uri)
    is_section = scheme.lower() in ("http://", "https://") and "#" in path
    parent = (path.partition("#")[0] if is_section else path.rpartition("/")[0]).rstrip("/")
    return f"{scheme}{parent}" if parent else ""


def plain_uri(uri: str) -> str:
    """Return the URI without trailing slashes and without an empty section.

    >>> plain_uri("docs/api/"), plain_uri("python://"), plain_uri("https://docs.org/use/#")
    ('docs/api', 'python://', 'https://docs.org/use')
    """
    scheme, path = _split_uri(uri)
    if scheme:
        path = path.removesuffix("#")
    return scheme + (path.rstrip("/") or path[:1])


def _split_uri(uri: str) -> tuple[str, str]:
    """Return the scheme of a URI, such as "https://", or "", and the rest."""
    match = _SCHEME.match(uri)
    scheme = match[0] if match else ""
    return scheme, uri[len(scheme) :]


def chunk_uri(id: str, document: str, metadata: Mapping[str, Any]) -> str:
    """Return the URI under which a chunk is found in the directory tree: the first of these that exists.

    - ``uri``, then ``url`` in the metadata
    - the id of the document, if it is a URI
    - ``source`` in the metadata, followed by the id of the document if the two differ
    - the id of the document, or the id of the chunk if the document's is empty

    >>> chunk_uri("c1", "doc", {"uri": "docs/a.md/"}), chunk_uri("c1", "a.md#2", {"source": "docs"})
    ('docs/a.md', 'docs/a.md#2')
    """
    for key in ("uri", "url"):
        uri = metadata.get(key)
        if isinstance(uri, str) and uri.strip():
            return plain_uri(reference(uri))
    document = document or id
    source = metadata.get("source")
    if "://" in document or not (isinstance(source, str) and source.strip()):
        return plain_uri(document)
    source = reference(source)
    return plain_uri(source if source == document else f"{source.rstrip('/')}/{document}")
