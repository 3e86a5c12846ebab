"""Index folders opened once and shared within a process."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from langchain_hybridgraph.errors import (
    ConfigurationError,
    NotAnIndexError,
    ReadOnlyError,
    TenantError,
    quote_value,
)
from langchain_hybridgraph.execution.threads import keep_alive_forever
from langchain_hybridgraph.records import check_name
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.catalog import Catalog
from langchain_hybridgraph.stores.keyword_engine import KeywordEngine
from langchain_hybridgraph.stores.vectors import sync_path
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT, WriterLock, check_locks

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.generations import Embedding


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """Settings of one open index.

    ``name`` identifies the model of ``embedding``; ``load`` reads a fitted one from an open file. ``path`` None means
    in memory. An index created with a ``tenant`` is opened only with a tenant, and shows only its data. A write that
    waits ``write_timeout`` seconds raises StoreLockedError.

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
        timeout: Any = self.write_timeout
        if not isinstance(timeout, int | float) or not timeout >= 0:
            raise ConfigurationError(
                f"write_timeout must be a number of seconds, at least 0, got {quote_value(timeout)}: it is "
                "how long a change waits while others write"
            )
        if self.path is not None:
            # The real path stays the same if the working directory or a link changes.
            object.__setattr__(self, "path", Path(os.path.realpath(self.path)))


# Seconds to wait for another process that is creating the index in the same folder.
CREATION_PATIENCE = 10.0


def read_facts(path: Path | None) -> dict[str, Any]:
    """Return the facts of the index in this folder, keyed by name, or {} if there is no index yet.

    Raises NotAnIndexError for other contents, FormatVersionError, and StoreError on a system without file locks.
    """
    if path is None:
        return {}
    check_locks(path)
    try:
        os.fspath(path).encode()  # Tantivy needs a path in UTF-8
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it contains a NUL or is not valid Unicode"
        raise NotAnIndexError(f"{quote_value(str(path))} cannot contain an index: {cause}") from None
    if not path.is_dir():
        raise NotAnIndexError(f"{path} is a file; pass a folder")
    if (path / CATALOG).exists():
        with closing(Catalog(path / CATALOG)) as catalog:
            return catalog.facts()
    if any(not entry.name.startswith((LOCK, CATALOG)) for entry in path.iterdir()):
        raise NotAnIndexError(
            f"{path} is not empty and contains no index ({CATALOG} is missing): check the path, use a new folder, or "
            "search a collection of Chroma with HybridRetriever(Chroma(…))"
        )
    return {}


def create_index(settings: IndexSettings) -> None:
    """Create a new index; if several processes try, the others wait for the first.

    Raises NotAnIndexError for settings with ``read_only``, and ReadOnlyError for a folder that cannot be written to.
    """
    path = settings.path
    assert path is not None, "an index in memory has no folder"
    if settings.read_only:
        raise NotAnIndexError(
            f"{path} contains no index, and a store opened with read_only=True cannot create one: "
            "check the path, or open it without read_only"
        )
    new_folders = [folder for folder in (path, *path.parents) if not folder.exists()]
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
            for folder in (path, *(folder.parent for folder in new_folders)):
                sync_path(folder)


def create_catalog(path: Path | None, settings: IndexSettings) -> Catalog:
    """Create the catalog of a new index in this file, or in memory if ``path`` is None."""
    catalog = Catalog(path, create=True)
    with catalog.writing() as connection:
        tenancy = "single" if settings.tenant is None else "multi"
        catalog_writes.set_facts(connection, tenancy=tenancy, language=settings.language)
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


CATALOG, KEYWORDS, LOCK = "catalogue.sqlite", "keywords", "writer.lock"
SUMMARIES = "layers-*"


def copy_index(source: Path, destination: Path, *ignored: str) -> None:
    """Copy an index and its summaries to a new folder, with everything on disk; nobody may write to them meanwhile.

    Files that are never changed in place, those of Tantivy and fitted models, become hard links if possible.
    """
    ignore = shutil.ignore_patterns(f"{LOCK}*", f"{CATALOG}-*", f"{CATALOG}.new*", ".tantivy-*", *ignored)
    shutil.copytree(source, destination, ignore=ignore, copy_function=_copy_file)
    for path in (*destination.rglob("*"), destination):
        sync_path(path)


def _copy_file(source: str, destination: str) -> None:
    path = Path(source)
    if path.name == CATALOG:
        with closing(Catalog(path)) as catalog:
            catalog.copy_to(Path(destination))
        return
    if path.parent.name == KEYWORDS or path.suffix == ".npz":
        with suppress(OSError):  # another file system, or one without hard links
            os.link(source, destination)
            return
    shutil.copy2(source, destination)


class OpenFolder:
    """Catalog, engines and write lock of one folder, shared by the stores of a process until the last one is closed."""

    def __init__(self, path: Path | None, catalog: Catalog) -> None:
        self.path = path
        self.catalog = catalog
        self.language = str(catalog.facts()["language"])
        self.lock = WriterLock(path and path / LOCK)
        self.keywords = KeywordEngine(path and path / KEYWORDS, self.language, catalog)
        self.flushed_version = -1
        """Version of the catalog at which the engines and the model were last brought up to date."""
        self.pending_rows = 0
        """Number of rows written since the engines were last brought up to date."""
        self.is_tidy = path is None
        """Whether this process has deleted the files that a crash may have left in the folder."""
        self._holders = 0 if path else 1  # an index in memory is never shared between stores

    @classmethod
    def of(cls, path: Path) -> OpenFolder:
        """Return the open folder at this path, opening it if necessary; each call needs one of :meth:`release`."""
        with _guard:
            key = _key(path)
            folder = _open.get(key)
            if folder is None:
                folder = _open[key] = cls(path, Catalog(path / CATALOG))
            folder._holders += 1
            return folder

    def release(self) -> None:
        """Record that a store no longer uses the folder. When no store uses it, close the engines and the catalog."""
        with _guard:
            self._holders -= 1
            if self._holders:
                return
            for key in [key for key, folder in _open.items() if folder is self]:
                del _open[key]
        self.keywords.close()
        self.catalog.close()


def _key(path: Path) -> tuple[Path, int, int]:
    """Return the key under which a folder is shared; each mount of it has its own."""
    catalog = (path / CATALOG).stat()
    return path.resolve(), catalog.st_dev, catalog.st_ino


_guard = threading.RLock()  # the finaliser of a store may run inside it
_open: dict[tuple[Path, int, int], OpenFolder] = {}


def leave_folders_to_parent() -> None:
    """In a forked child, stop using the parent's folders."""
    global _guard  # noqa: PLW0603 - a thread of the parent may hold it, which the child does not have
    _guard = threading.RLock()
    keep_alive_forever(list(_open.values()))
    _open.clear()
