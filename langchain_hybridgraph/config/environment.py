"""Settings in environment variables."""

from __future__ import annotations

import os
from pathlib import Path

from langchain_hybridgraph.config.file_path import settings_path

PREFIX = "HYBRIDGRAPH_"


def set_variables() -> dict[str, str]:
    """Map each key set in the environment to the name of its variable.

    The name is ``PREFIX`` followed by the key, in any combination of upper and lower case. Keys are returned in lower
    case. An empty variable is treated as unset.
    """
    names = {name.lower().removeprefix(PREFIX.lower()): name for name, value in os.environ.items() if value}
    return {key: name for key, name in names.items() if name.lower() != key}


def has_settings(path: str | Path | None) -> bool:
    """Return whether there is a settings file or a variable with settings. If not, all settings have their defaults."""
    return settings_path(path) is not None or bool(set_variables())
