"""Log of changes in the catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

# Smallest number of graph changes kept in the log, and the share of the number of nodes added to it. A reader that
# has missed more reads the graph again, which is faster than following the log.
_KEPT_CHANGES, _KEPT_SHARE = 2_000, 4


def set_facts(connection: sqlite3.Connection, **facts: Any) -> None:
    """Write facts of the index."""
    connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", facts.items())


def log_changes(connection: sqlite3.Connection, rows: Iterable[int]) -> int:
    """Record in the outbox that these rows changed, as a new version; return its number."""
    connection.execute("UPDATE about SET value = value + 1 WHERE name = 'version'")
    version = int(connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()[0])
    connection.executemany("INSERT INTO changes VALUES (?, ?)", ((version, row) for row in set(rows)))
    return version


def trim_changes(connection: sqlite3.Connection, floor: int) -> None:
    """Delete the changes up to version ``floor``; a reader that has not applied them reads everything again."""
    connection.execute("DELETE FROM changes WHERE version <= ?", (floor,))
    set_facts(connection, floor=floor)


def trim_graph_changes(connection: sqlite3.Connection) -> None:
    """Delete the older half of the graph's changes if there are too many."""
    first, last, nodes = connection.execute(
        "SELECT (SELECT min(number) FROM graph_changes), (SELECT max(number) FROM graph_changes), "
        "(SELECT max(node) FROM nodes)"
    ).fetchone()
    if first is not None and last - first >= _KEPT_CHANGES + (nodes or 0) // _KEPT_SHARE:
        forget_graph_changes(connection, (first + last) // 2)


def forget_graph_changes(connection: sqlite3.Connection, floor: int) -> None:
    """Delete the graph's changes up to number ``floor``; a reader that has missed them reads the graph again."""
    connection.execute("DELETE FROM graph_changes WHERE number <= ?", (floor,))
    set_facts(connection, graph_floor=floor)
