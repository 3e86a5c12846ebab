"""Copies between stores that can be interrupted, and are verified."""

from langchain_hybridgraph.migration.migration import MigrationReport, migrate

__all__ = ["MigrationReport", "migrate"]
