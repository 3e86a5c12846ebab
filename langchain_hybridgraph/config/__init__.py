"""Settings from arguments, environment variables and one YAML file.

fields.py      the keys, generated from the options of store and retrievers
settings.py    HybridGraphSettings: the keys with their values
provenance.py  the origin of a value: an argument, a variable, or a line of a file
file.py        reading of the YAML file
schema.py      JSON schema of the file, for editors
template.py    a file with all keys as comments
"""

from langchain_hybridgraph.config.settings import HybridGraphSettings

__all__ = ["HybridGraphSettings"]
