"""List and delete the tenants of an index folder."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np

from langchain_hybridgraph.errors import NotAnIndexError, TenantError, as_path
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.catalog import Catalog
from langchain_hybridgraph.stores.check import Maintenance
from langchain_hybridgraph.stores.chunk_rows import MODE_PREFIX
from langchain_hybridgraph.stores.folder import CATALOG, IndexSettings, read_facts
from langchain_hybridgraph.stores.generations import BATCH, Generation, NoEmbedding
from langchain_hybridgraph.stores.index import IndexFolder
from langchain_hybridgraph.stores.summaries import FOLDER
from langchain_hybridgraph.stores.writing import Writer


def list_tenants(path: str | Path) -> dict[str, int]:
    """Return the number of chunks of each tenant in an index folder, for its administrator.

    Tenants with only other data have 0. Raises NotAnIndexError for a path without an index, and TenantError for an
    index without tenants.

    >>> from tempfile import TemporaryDirectory
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> with TemporaryDirectory() as folder:
    ...     HybridGraphStore.from_texts(["Ada likes tea."], path=f"{folder}/index", tenant="ada").close()
    ...     HybridGraphStore.from_texts(["Bo plays chess."], path=f"{folder}/index", tenant="bo").close()
    ...     deleted = drop_tenant(f"{folder}/index", "ada")
    ...     deleted["chunks"], list_tenants(f"{folder}/index")
    (1, {'bo': 1})
    """
    path = as_path("path", path)
    _check_tenancy(path)
    with closing(Catalog(path / CATALOG)) as catalog:
        results = catalog.query(
            "WITH named (tenant) AS (SELECT tenant FROM nodes UNION SELECT tenant FROM credibility "
            f"UNION SELECT substr(name, {len(MODE_PREFIX) + 1}) FROM about WHERE name GLOB '{MODE_PREFIX}*') "
            "SELECT tenant, (SELECT count(row) FROM nodes n WHERE n.tenant = named.tenant) FROM named ORDER BY tenant"
        )
    return dict(results)


def drop_tenant(path: str | Path, tenant: str) -> dict[str, int]:
    """Delete all data of a tenant from an index folder, and overwrite the deleted data on disk.

    Return the numbers of deleted ``chunks``, ``parents``, ``edges``, ``entities``, ``sessions`` and summaries
    (``layers``). The model of an LSA index still contains the tenant's words until ``store.admin.refit()``. An
    interrupted deletion is completed by the next call.

    Raises NotAnIndexError for a path without an index, TenantError for an index without tenants or an unknown tenant,
    and StoreLockedError after 30 seconds without the write lock, when only summaries may have been deleted.
    """
    path = as_path("path", path)
    names = list_tenants(path)
    if tenant not in names:
        raise TenantError(f"{path} contains no data of tenant {str(tenant)[:100]!r}; list_tenants() lists its tenants")
    with closing(_open(path, tenant)) as index:
        layers = 0
        for folder in sorted(path.glob(f"{FOLDER}-*")):
            try:
                with closing(_open(folder, tenant)) as summaries:
                    layers = _delete(summaries)["chunks"]  # only the last of several generations is in use
            except NotAnIndexError:  # damaged summaries may still contain the tenant's texts
                shutil.rmtree(folder)
        return {**_delete(index), "layers": layers}


def _check_tenancy(path: Path) -> None:
    facts = read_facts(path)
    if not facts:
        raise NotAnIndexError(f"{path} contains no index")
    if facts["tenancy"] != "multi":
        raise TenantError(f"{path} was made without tenants, so there are none to list or drop")


def _open(path: Path, tenant: str) -> IndexFolder:
    name = str(read_facts(path).get("embedding", ""))
    return IndexFolder(IndexSettings(path=path, embedding=NoEmbedding(), name=name, tenant=tenant))


def _delete(index: IndexFolder) -> dict[str, int]:
    with index.writer():
        stats = Maintenance(index, Writer(index)).stats()
        with index.catalog.writing() as connection:
            rows = catalog_writes.delete_tenant(connection, index.rows.tenant)
            catalog_writes.log_changes(connection, rows)
        index.snapshot()
        _blank(index.generation, rows)
        # Without a rebuild, the words of deleted texts would stay in Tantivy's segments until they are merged.
        index.keywords.rebuild(index.rows.version)
        index.sync_keywords()
    index.catalog.checkpoint()
    return {name: stats[name] for name in ("chunks", "parents", "edges", "entities", "sessions")}


def _blank(generation: Generation, rows: list[int]) -> None:
    matrix = generation.matrix
    if matrix is not None:
        parts = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        generation.fill(
            (part, np.zeros((len(part), matrix.dimension), np.float32), [b""] * len(part)) for part in parts
        )
