"""Environment variables with settings, and their prefix."""

from __future__ import annotations

import os
from pathlib import Path

from langchain_hybridgraph.config.file_path import settings_path

PREFIX = "HYBRIDGRAPH_"


def set_variables() -> dict[str, str]:
    """Map the key of each environment variable that begins with ``PREFIX`` to the variable's name.

    The key is the rest of the name in lower case. The case of the prefix is ignored, and an empty variable is treated
    as unset.
    """
    names = {name.lower().removeprefix(PREFIX.lower()): name for name, value in os.environ.items() if value}
    return {key: name for key, name in names.items() if name.lower() != key}


def has_settings(path: str | Path | None) -> bool:
    """Return whether there is a file or a variable with settings. If not, every setting has its default."""
    return settings_path(path) is not None or bool(set_variables())
