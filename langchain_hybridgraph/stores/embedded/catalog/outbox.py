"""Logs of changes in the catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

# The log of graph changes is cut when it exceeds _KEPT_CHANGES plus the number of nodes divided by _KEPT_SHARE. A
# reader that has missed more changes reads the full graph, which is faster than following such a long log.
_KEPT_CHANGES, _KEPT_SHARE = 2_000, 4


def set_facts(connection: sqlite3.Connection, **facts: Any) -> None:
    """Insert or replace facts of the index."""
    connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", facts.items())


def log_changes(connection: sqlite3.Connection, rows: Iterable[int]) -> int:
    """Start a new version of the catalog and return its number.

    The outbox records ``rows`` as changed by this version.
    """
    connection.execute("UPDATE about SET value = value + 1 WHERE name = 'version'")
    version = int(connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()[0])
    connection.executemany("INSERT INTO changes VALUES (?, ?)", ((version, row) for row in set(rows)))
    return version


def trim_changes(connection: sqlite3.Connection, floor: int) -> None:
    """Delete the changes up to version ``floor`` from the outbox.

    A reader that has not applied them must read all rows again.
    """
    connection.execute("DELETE FROM changes WHERE version <= ?", (floor,))
    set_facts(connection, floor=floor)


def trim_graph_changes(connection: sqlite3.Connection) -> None:
    """Delete the older half of the log of graph changes if the log is too long."""
    first, last, nodes = connection.execute(
        "SELECT (SELECT min(number) FROM graph_changes), (SELECT max(number) FROM graph_changes), "
        "(SELECT max(node) FROM nodes)"
    ).fetchone()
    if first is not None and last - first >= _KEPT_CHANGES + (nodes or 0) // _KEPT_SHARE:
        forget_graph_changes(connection, (first + last) // 2)


def forget_graph_changes(connection: sqlite3.Connection, floor: int) -> None:
    """Delete the graph changes up to number ``floor`` from the log.

    A reader that has not applied them must read the graph again.
    """
    connection.execute("DELETE FROM graph_changes WHERE number <= ?", (floor,))
    set_facts(connection, graph_floor=floor)
