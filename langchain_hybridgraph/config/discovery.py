"""Finds the settings file and the environment variables."""

from __future__ import annotations

import os
from pathlib import Path

FILE = "hybridgraph.yaml"
PREFIX = "HYBRIDGRAPH_"


def settings_path(path: str | Path | None) -> Path | None:
    """Return the given path, else that of hybridgraph.yaml in the working directory if it exists, else None."""
    if path is None:
        return Path(FILE) if Path(FILE).exists() else None
    return Path(os.path.expanduser(path))


def set_variables() -> dict[str, str]:
    """Return the environment variables that may be settings: the names of those with the prefix, by key.

    Case is ignored, and an empty variable counts as unset.
    """
    names = {name.lower().removeprefix(PREFIX.lower()): name for name, value in os.environ.items() if value}
    return {key: name for key, name in names.items() if name.lower() != key}


def has_settings(path: str | Path | None) -> bool:
    """Return whether a file or a variable may set anything; without them every setting has its default."""
    return settings_path(path) is not None or bool(set_variables())
