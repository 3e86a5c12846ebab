"""Settings with which an index folder is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.records import check_name
from langchain_hybridgraph.stores.embedded.folder.writer_lock import WRITE_TIMEOUT

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.embedded.folder.embedding_check import Embedding


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """Settings of one open index.

    ``embedding`` computes the vectors, ``name`` identifies its model, and ``load`` reads the model of a fitted
    embedding from an open file. ``language`` is the language of the keyword index of a new folder.

    If ``path`` is None, the index is kept in memory. If an index is created with a ``tenant``, every store on its
    folder must be opened with a tenant, and can access only that tenant's data. A change that has waited
    ``write_timeout`` seconds for the write lock raises StoreLockedError. If ``check_embedding`` is False, the embedding
    is not compared with the one with which the index was created.

    Raises ValueError for a tenant name that cannot be stored, and ConfigurationError for an invalid timeout.
    """

    path: Path | None
    embedding: Embedding
    name: str
    load: Callable[[BinaryIO], Embedding] | None = None
    tenant: str | None = None
    language: str = "english"
    read_only: bool = False
    write_timeout: float = WRITE_TIMEOUT
    check_embedding: bool = True

    def __post_init__(self) -> None:
        if self.tenant is not None:
            check_name(self.tenant, "tenant")
        _check_timeout(self.write_timeout)
        if self.path is not None:
            # The real path stays the same if the working directory or a link changes.
            object.__setattr__(self, "path", Path(os.path.realpath(self.path)))


def _check_timeout(seconds: Any) -> None:
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ConfigurationError(
            f"write_timeout must be a number of seconds, at least 0, got {quote_value(seconds)}: it is how long a "
            "change waits while others write"
        )
