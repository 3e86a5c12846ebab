"""Creating index folders and reading their facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_hybridgraph.errors import NotAnIndexError, ReadOnlyError, TenantError
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
from langchain_hybridgraph.stores.embedded.catalog.migrations import is_older
from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
from langchain_hybridgraph.stores.embedded.folder.shared_folder import CATALOG, LOCK
from langchain_hybridgraph.stores.embedded.folder.writer_lock import WriterLock, check_locks

# Seconds to wait for another process that is creating or converting the index in the same folder.
CREATION_PATIENCE = 10.0


def read_facts(path: Path | None, *, read_only: bool = False) -> dict[str, Any]:
    """Return the facts of the index in this folder, keyed by name, or {} if there is no index yet.

    An index created by an earlier version of the package is converted to the current format. With ``read_only``, or in
    a folder without write permission, FormatVersionError is raised instead; its message explains how to convert the
    index. Raises NotAnIndexError for a folder with other contents or a path that is not a folder, and StoreLockedError
    if the index has to be converted while another process is writing to it. On a system without file locks, raises
    StoreError.
    """
    if path is not None:
        check_locks(path)
    if path is None or not path.exists():
        return {}
    if not path.is_dir():
        raise NotAnIndexError(f"{path} is a file; pass a folder")
    if (path / CATALOG).exists():
        if not read_only:
            for outdated in filter(
                is_older, (path / CATALOG, *path.glob(f"*/{CATALOG}"))
            ):  # the index and its summaries
                _bring_up_to_date(outdated.parent)
        catalog = Catalog(path / CATALOG)
        try:
            return catalog.facts()
        finally:
            catalog.close()
    if (path / "chroma.sqlite3").exists():
        raise NotAnIndexError(
            f"{path} contains a Chroma collection, not an index: search it with "
            f"HybridRetriever(Chroma(…, persist_directory={str(path)!r})), or use another folder for a new index"
        )
    if any(not entry.name.startswith((LOCK, CATALOG)) for entry in path.iterdir()):
        raise NotAnIndexError(
            f"{path} is not empty and contains no index ({CATALOG} is missing): check the path, or use a new folder"
        )
    return {}


def _bring_up_to_date(path: Path) -> None:
    try:
        with WriterLock(path / LOCK).turn(CREATION_PATIENCE):
            Catalog(path / CATALOG, create=True).close()
    except ReadOnlyError:
        return  # reading the catalog then raises an error that explains what to do


def create_index(settings: IndexSettings) -> None:
    """Create a new index in the folder of these settings.

    If several processes try at the same time, one of them creates the index, and the others wait until it is complete.
    Raises NotAnIndexError for settings with ``read_only``, and ReadOnlyError for a folder that cannot be written to.
    """
    path = settings.path
    assert path is not None, "an index in memory has no folder"
    if settings.read_only:
        raise NotAnIndexError(
            f"{path} contains no index, and a store opened with read_only=True cannot create one: "
            "check the path, or open it without read_only"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReadOnlyError(f"cannot create the folder {path}: {error.strerror}") from error
    with WriterLock(path / LOCK).turn(CREATION_PATIENCE):
        if not read_facts(path):
            for leftover in path.glob(f"{CATALOG}.new*"):
                leftover.unlink()
            unfinished = path / f"{CATALOG}.new"
            create_catalog(unfinished, settings).close()
            unfinished.rename(path / CATALOG)


def create_catalog(path: Path | None, settings: IndexSettings) -> Catalog:
    """Create the catalog of a new index in this file, or in memory if ``path`` is None."""
    catalog = Catalog(path, create=True)
    with catalog.writing() as connection:
        tenancy = "single" if settings.tenant is None else "multi"
        catalog_outbox.set_facts(connection, tenancy=tenancy, language=settings.language)
    return catalog


def check_tenancy(facts: Mapping[str, Any], settings: IndexSettings) -> None:
    """Raise TenantError if the index has tenants but the settings have no tenant, or the other way round."""
    if facts["tenancy"] == "multi" and settings.tenant is None:
        raise TenantError(f"{settings.path} has tenants: open it with tenant=…")
    if facts["tenancy"] == "single" and settings.tenant is not None:
        raise TenantError(
            f"{settings.path} was made without tenants, so it cannot be opened for tenant {settings.tenant!r}: leave "
            "tenant= out, or make a new folder with a tenant from the start"
        )
