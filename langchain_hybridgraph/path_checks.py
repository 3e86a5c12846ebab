"""Validation of arguments that are paths."""

from __future__ import annotations

import os
from pathlib import Path

from langchain_hybridgraph.errors import ConfigurationError, quote_value


def as_path(name: str, value: object) -> Path:
    """Return a string or path as a Path. Raise ConfigurationError for anything else.

    >>> as_path("path", 5)
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: path must be a string or a Path, got 5
    """
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise ConfigurationError(f"{name} must be a string or a Path, got {quote_value(value)}")
