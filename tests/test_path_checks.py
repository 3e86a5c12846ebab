"""Arguments that are paths: anything but a string or a Path is a clear error."""

import pytest

from langchain_hybridgraph import HybridGraphSettings, HybridGraphStore, drop_tenant, list_tenants, open_store
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion import read_files
from langchain_hybridgraph.migration import migrate

CALLS = {
    "store": HybridGraphStore,
    "open": open_store,
    "tenants": list_tenants,
    "tenant": lambda value: drop_tenant(value, "ada"),
    "settings": HybridGraphSettings.from_file,
    "files": read_files,
    "one of several files": lambda value: read_files(["a.md", value]),
    "source": lambda value: migrate(value, "new"),
    "destination": lambda value: migrate("milvus:other.db", value),
    "destination of a server": lambda value: migrate("milvus:old.db", value),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_number_is_not_a_path(name):
    """A number instead of a path raises ConfigurationError with the name of the argument and the value."""
    with pytest.raises(ConfigurationError, match=r"(path|source|destination) must be a string or a Path .*, got 5"):
        CALLS[name](5)
