"""Fingerprint of the options and code of an ingest."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

_PACKAGE = __name__.partition(".")[0]
# Libraries used to read files or parse text.
_READERS = ("markdown-it-py", "mdit-py-plugins", "pypdf", "python-docx", "python-pptx", "openpyxl")


class _NoNameError(Exception):
    """Error for an option that has no name by which another process could identify it."""


def fingerprint(splitter: Any, builders: Iterable[Any], as_text: Sequence[str] = ()) -> bytes | None:
    """Return a digest of the options and code of an ingest, or None if there is an option that other processes cannot
    identify.

    The digest covers the options of the splitter and of the edge builders, ``as_text`` of the files, the package's
    ingestion code, and the versions of Python and of the libraries that read files. Options that other processes cannot
    identify are models, lambdas, and functions or classes that are local or defined in ``__main__``.

    >>> from langchain_hybridgraph.ingestion import RecursiveSplitter
    >>> fingerprint(RecursiveSplitter(512, 50), []) == fingerprint(RecursiveSplitter(512, 40), [])
    False
    >>> fingerprint(RecursiveSplitter(counter=lambda text: len(text)), []) is None
    True
    """
    digest = blake2b(_code(), digest_size=16)
    try:
        for word in (*_words(splitter), *_words(as_text)):
            digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
        for builder in builders:
            for word in _options(builder):
                digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
    except (_NoNameError, RecursionError):
        return None
    return digest.digest()


@functools.cache
def _code() -> bytes:
    digest = blake2b(f"{sys.version_info}".encode())
    for name in (_PACKAGE.replace("_", "-"), *_READERS):
        digest.update(f"{name} {_version(name)}\0".encode())
    package = Path(__file__).parents[1]
    for file in sorted([*(package / "ingestion").rglob("*.py"), *(package / "text").rglob("*.py")]):
        digest.update(file.read_bytes())
    return digest.digest()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _options(builder: Any) -> Iterator[str]:
    """Yield strings that identify a builder by its class, its relations and its constructor arguments. The arguments
    are read from attributes with the same names, with or without an underscore.
    """
    yield _kind(builder)
    yield from _words(tuple(builder.relations))
    for name in inspect.signature(type(builder)).parameters:
        if name != "relation":  # already included in the relations
            value = next((getattr(builder, each) for each in (name, f"_{name}") if hasattr(builder, each)), builder)
            yield name
            yield from _words(value)


def _words(value: Any) -> Iterator[str]:
    """Yield strings that identify a value: equal values yield equal strings, and different values yield different
    strings. Raise _NoNameError if other processes cannot identify the value.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}"
        for key, each in value.items():
            yield from _words(key)
            yield from _words(each)
    elif isinstance(value, list | tuple):
        yield f"sequence {len(value)}"
        for each in value:
            yield from _words(each)
    elif isinstance(value, Set):
        yield f"set {sorted(map(repr, value))}"
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        if "<" in value.__qualname__ or value.__module__ == "__main__":
            raise _NoNameError
        yield f"{value.__module__}.{value.__qualname__}"
    elif is_dataclass(value):
        yield _kind(value)
        for field in fields(value):
            yield field.name
            yield from _words(getattr(value, field.name))
    elif type(value).__module__.partition(".")[0] in ("langchain_text_splitters", _PACKAGE):
        yield _kind(value)
        yield from _words(vars(value))
    else:
        raise _NoNameError


def _kind(value: Any) -> str:
    kind = type(value)
    if "<" in kind.__qualname__ or kind.__module__ == "__main__":
        raise _NoNameError
    package = sys.modules.get(kind.__module__.partition(".")[0])
    return f"{kind.__module__}.{kind.__qualname__} {getattr(package, '__version__', '')}"
