"""Settings from arguments, environment variables and one YAML file.

fields.py      the keys, generated from the options of stores and retrievers
value_forms.py the notation and validation of values
settings.py    HybridGraphSettings: the keys with their values
provenance.py  the origin of a value: an argument, a variable, or a line of a file
environment.py the environment variables and their prefix
file_path.py   the name and path of the file
file.py        the reader for the YAML file
schema.py      the JSON schema of the file, for editors
template.py    a template with all keys as comments
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_hybridgraph.config.settings import HybridGraphSettings as HybridGraphSettings

__all__ = ["HybridGraphSettings"]


def __getattr__(name: str) -> Any:
    if name != "HybridGraphSettings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The keys are generated from the options of all retrievers; importing these is slower than looking for a file.
    from langchain_hybridgraph.config.settings import HybridGraphSettings

    return HybridGraphSettings
