"""Listing and dropping the tenants of an index folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from langchain_hybridgraph.errors import NotAnIndexError, TenantError
from langchain_hybridgraph.stores.embedded import catalog
from langchain_hybridgraph.stores.embedded.catalog import Catalogue
from langchain_hybridgraph.stores.embedded.generation import BATCH, NoEmbedding
from langchain_hybridgraph.stores.embedded.index_folder import read_facts
from langchain_hybridgraph.stores.embedded.maintenance import CaredIndex
from langchain_hybridgraph.stores.embedded.shared_folder import CATALOGUE
from langchain_hybridgraph.stores.embedded.summaries import FOLDER


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
    name = str(read_facts(path).get("embedding", ""))
    with closing(_EmptiedIndex(path, embedding=NoEmbedding(), name=name, tenant=tenant)) as index:
        return index.empty()


class _EmptiedIndex(CaredIndex):
    """An index that is opened only to be emptied: nothing is embedded."""

    def empty(self) -> dict[str, int]:
        """Delete all data of the tenant; return the number deleted, by kind."""
        with self._writer():
            stats = self.stats()
            with self._catalogue.writing() as connection:
                rows = catalog.delete_tenant(connection, self._rows.tenant)
                catalog.log_changes(connection, rows)
            self._refresh()
            self._step()
            self._blank(rows)
            # The words of deleted texts stay in Tantivy's segments until these are merged.
            self._keywords.rebuild(self._rows.version)
        self._catalogue.checkpoint()
        return {name: stats[name] for name in ("chunks", "parents", "edges", "entities", "sessions")}

    def _blank(self, rows: list[int]) -> None:
        """Overwrite the vectors of these rows, which no longer belong to any chunk, with zeros."""
        matrix = self._generation.matrix
        if matrix is not None:
            parts = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
            zeros = ((part, np.zeros((len(part), matrix.dimension), np.float32), [b""] * len(part)) for part in parts)
            self._generation.fill(zeros)
