"""Migration of data between stores."""

from langchain_hybridgraph.migration.migration import MigrationReport, migrate

__all__ = ["MigrationReport", "migrate"]
