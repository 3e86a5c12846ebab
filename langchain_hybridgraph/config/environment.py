"""Environment variables with settings, and their prefix."""

from __future__ import annotations

import os
from pathlib import Path

from langchain_hybridgraph.config.file_path import settings_path

PREFIX = "HYBRIDGRAPH_"


def set_variables() -> dict[str, str]:
    """Return the names of the environment variables that begin with ``PREFIX``, by key. The key is the rest of the name
    in lower case.

    Case is ignored, and an empty variable is treated as unset.
    """
    names = {name.lower().removeprefix(PREFIX.lower()): name for name, value in os.environ.items() if value}
    return {key: name for key, name in names.items() if name.lower() != key}


def has_settings(path: str | Path | None) -> bool:
    """Return whether there is a file or a variable with settings. If not, every setting has its default."""
    return settings_path(path) is not None or bool(set_variables())
