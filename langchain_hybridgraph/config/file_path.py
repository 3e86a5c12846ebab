"""Name and path of the settings file."""

from __future__ import annotations

import os
from pathlib import Path

from langchain_hybridgraph.path_checks import as_path

FILE = "hybridgraph.yaml"


def settings_path(path: str | Path | None) -> Path | None:
    """Return ``path`` if it is set, or hybridgraph.yaml in the working directory if it exists, or None."""
    if path is None:
        return Path(FILE) if Path(FILE).exists() else None
    return Path(os.path.expanduser(as_path("path", path)))
