"""Synchronisation of the keyword index with the catalog."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from langchain_hybridgraph.errors import ReadOnlyError, StoreError, StoreLockedError
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings

logger = logging.getLogger(__name__)

# Number of versions kept in the outbox for readers in other processes. A reader that lacks more versions reads all
# rows again.
KEPT_VERSIONS = 64
# Number of seconds after a commit at which a keyword index without this commit is reported as out of date.
BEHIND_SECONDS = 5.0


def open_index(settings: IndexSettings) -> IndexFolder:
    """Open an index folder and bring its keyword index up to date.

    It is also brought up to date when a copy or a forked process opens the folder again.
    """
    return IndexFolder(settings, on_open=catch_up)


def sync_keywords(index: IndexFolder) -> None:
    """Bring the keyword index up to the catalog's version, then shorten the outbox if it is long.

    The caller must hold the write lock.
    """
    facts = index.catalog.facts()
    version, floor = int(facts["version"]), int(facts["floor"])
    try:
        index.keywords.follow(version, floor)
    except StoreError as error:
        raise StoreError(
            f"all changes are in the catalog, but a search engine is not up to date: {error}; "
            "the next write, or opening the store again, updates it"
        ) from error
    index.shared.pending_rows = 0
    if version - floor > 2 * KEPT_VERSIONS:
        with index.catalog.writing() as connection:
            catalog_outbox.trim_changes(connection, version - KEPT_VERSIONS)


def catch_up(index: IndexFolder) -> None:
    """Bring the keyword index up to date, unless the index is read-only or another process is writing.

    A failure is logged.
    """
    if index.settings.read_only or not index.keywords.lags(index.rows.version):
        return
    try:
        with index.writer(timeout=0):
            sync_keywords(index)
    except (StoreLockedError, ReadOnlyError):
        # The process that holds the write lock brings the keyword index up to date.
        return
    except StoreError:
        logger.warning(
            "the index %s can be read, but its search engines could not be brought up to date",
            index.settings.path,
            exc_info=True,
        )
