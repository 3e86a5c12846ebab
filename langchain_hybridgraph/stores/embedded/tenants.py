"""Lists and drops the tenants of an index folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from langchain_hybridgraph.errors import NotAnIndexError, TenantError
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog import writes as catalog_writes
from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalogue
from langchain_hybridgraph.stores.embedded.folder.creation import read_facts
from langchain_hybridgraph.stores.embedded.folder.embedding import NoEmbedding
from langchain_hybridgraph.stores.embedded.folder.engine_sync import EngineSync, open_index
from langchain_hybridgraph.stores.embedded.folder.generation import BATCH, Generation
from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
from langchain_hybridgraph.stores.embedded.folder.shared_folder import CATALOGUE
from langchain_hybridgraph.stores.embedded.maintenance import Maintenance
from langchain_hybridgraph.stores.embedded.summaries import FOLDER
from langchain_hybridgraph.stores.embedded.writer import Writer


def tenants(path: Path) -> dict[str, int]:
    """Return the number of chunks of each tenant, by name.

    A tenant without chunks that still has a mode or a source's credibility has 0. Raises NotAnIndexError for a path
    without an index, TenantError for an index that was made without tenants.
    """
    _facts(path)
    with closing(Catalogue(path / CATALOGUE)) as catalogue:
        return catalogue.tenants()


def drop_tenant(path: Path, tenant: str) -> dict[str, int]:
    """Delete everything that the folder holds of a tenant; return the number deleted, by kind.

    Summaries go first, then chunks, parents, edges, entities, sessions, learned values, credibility and mode in one
    transaction, then vectors and words. After a crash in between, the next call deletes the rest. Raises the errors of
    :func:`tenants`, and TenantError for an unknown tenant.
    """
    known = tenants(path)
    if tenant not in known:
        near = get_close_matches(str(tenant)[:100], known, 1)
        raise TenantError(
            f"{path} holds nothing of a tenant {str(tenant)[:100]!r}"
            + (f": did you mean {near[0]!r}?" if near else "; tenants() lists its tenants")
        )
    layers = 0
    for folder in sorted(path.glob(f"{FOLDER}-*")):
        if (folder / CATALOGUE).exists():
            layers = _emptied(folder, tenant)["chunks"]  # of several generations only the last one is shown
    return {**_emptied(path, tenant), "layers": layers}


def _facts(path: Path) -> Mapping[str, Any]:
    facts = read_facts(path)
    if not facts:
        raise NotAnIndexError(f"{path} holds no index")
    if facts["tenancy"] != "multi":
        raise TenantError(f"{path} was made without tenants, so there are none to list or drop")
    return facts


def _emptied(path: Path, tenant: str) -> dict[str, int]:
    """Delete all data of the tenant; return the number deleted, by kind."""
    name = str(read_facts(path).get("embedding", ""))
    index = open_index(IndexSettings(path=path, embedding=NoEmbedding(), name=name, tenant=tenant))
    sync = EngineSync(index)
    with closing(index):
        with index.writer():
            stats = Maintenance(index, Writer(index, sync), sync).stats()
            with index.catalog.writing() as connection:
                rows = catalog_writes.delete_tenant(connection, index.rows.tenant)
                catalog_outbox.log_changes(connection, rows)
            index.snapshot()
            sync.step()
            _blank(index.generation, rows)
            # The words of deleted texts stay in Tantivy's segments until these are merged.
            sync.rebuild("keywords")
        index.catalog.checkpoint()
    return {name: stats[name] for name in ("chunks", "parents", "edges", "entities", "sessions")}


def _blank(generation: Generation, rows: list[int]) -> None:
    """Overwrite the vectors of these rows, which no longer belong to any chunk, with zeros."""
    matrix = generation.matrix
    if matrix is not None:
        parts = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        generation.fill(
            (part, np.zeros((len(part), matrix.dimension), np.float32), [b""] * len(part)) for part in parts
        )
