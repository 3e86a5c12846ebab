"""Dotted metadata keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Path = tuple[str, ...]
"""Keys that lead to a value in nested objects, outermost first."""


def value_getter(path: Path) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads the unconverted value at ``path`` from metadata; a missing value is None."""
    if len(path) == 1:
        (key,) = path
        return lambda metadata: metadata.get(key)

    def nested_value(metadata: Mapping[str, Any]) -> Any:
        value: Any = metadata
        for key in path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    return nested_value


def split_key(key: str) -> Path:
    r"""Split a dotted key into its names, resolving escapes.

    >>> split_key("author.name"), split_key(r"v1\.2")
    (('author', 'name'), ('v1.2',))
    """
    if "." not in key and "\\" not in key:
        return (key,)
    names, name, characters = [], "", iter(key)
    for character in characters:
        if character == ".":
            names.append(name)
            name = ""
        elif character == "\\":
            follower = next(characters, "")
            name += follower if follower in (".", "\\", "$") else character + follower
        else:
            name += character
    return (*names, name)


def join_key(path: Path) -> str:
    r"""Join names into a dotted key, the inverse of :func:`split_key`.

    >>> join_key(("author", "v1.2"))
    'author.v1\\.2'
    """
    key = ".".join(name.replace("\\", r"\\").replace(".", r"\.") for name in path)
    return "\\" + key if key.startswith("$") else key
