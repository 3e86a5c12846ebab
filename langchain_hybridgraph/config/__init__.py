"""Settings from arguments, environment and one YAML file.

keys.py        the one table: every key with its default, what is allowed, what it means
settings.py    HybridGraphSettings: the keys with their values
origins.py     where a value comes from: argument, variable, line of a file
file.py        reads the YAML file
schema.py      a JSON schema of the file, for editors
template.py    a file with all keys as comments, and the table as Markdown
"""

from langchain_hybridgraph.config.settings import HybridGraphSettings

__all__ = ["HybridGraphSettings"]
