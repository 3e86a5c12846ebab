"""The errors a caller may want to catch."""

from __future__ import annotations


class HybridGraphError(Exception):
    """The base of every error that this package raises on purpose."""


class RetrievalError(HybridGraphError):
    """Every source of a query failed, so there is no answer at all; the causes are in the message."""


class FilterError(HybridGraphError, ValueError):
    """A filter is malformed or names an operator that does not exist."""


class ConfigurationError(HybridGraphError, ValueError):
    """A setting has a value that cannot be used."""


class TenantError(HybridGraphError, ValueError):
    """A tenant is missing where one is needed, or is not the one the store was opened for."""


class StoreError(HybridGraphError):
    """The index folder cannot be used as asked."""


class NotAnIndexError(StoreError):
    """The folder holds something else than an index."""


class FormatVersionError(StoreError):
    """The index was written by a version of the package that this one cannot read."""


class StoreLockedError(StoreError):
    """Another process (or another open store in this one) is writing to the index."""


class ReadOnlyError(StoreError):
    """A write was asked of a store that is open for reading only."""


class EmbeddingMismatchError(StoreError, ValueError):
    """The index was made with another embedding model."""


class MissingExtraError(HybridGraphError, ImportError):
    """An optional dependency is not installed; the message holds the line that installs it."""
