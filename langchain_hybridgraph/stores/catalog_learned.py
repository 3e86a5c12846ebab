"""The catalogue's statements about what is learned: how sure, how useful, valid when, of which session.

Those that write run inside ``Catalogue.writing()``, the others on a connection of ``Catalogue.reading()``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.records import Learned
from langchain_hybridgraph.stores.catalog import Entry, listed, put_entries
from langchain_hybridgraph.stores.given import Given

if TYPE_CHECKING:
    import sqlite3

_NAMES = (
    "valid_from, valid_until, learned_at, retracted_at, expires_at, confidence, utility, active_count, used_at, "
    "created_at, memory_type, provenance_depth"
)
_TRUST = "l.confidence, l.utility"
_TRUST_THEN = "iif(t.node, t.confidence, l.confidence), iif(t.node, t.utility, l.utility)"
_VALID = "l.valid_from, l.valid_until"
_VALID_THEN = "iif(v.node, v.valid_from, l.valid_from), iif(v.node, v.valid_until, l.valid_until)"


def _then(table: str, name: str) -> str:
    """What held at a time: until the first change after it."""
    return (
        f"LEFT JOIN {table} {name} ON {name}.node = l.node AND {name}.known_until = "
        f"(SELECT min(known_until) FROM {table} WHERE node = l.node AND known_until > ?1) "
    )


_LEARNED = (
    "SELECT nodes.id, {trust}, active_count, used_at, {valid}, created_at, learned_at, memory_type, provenance_depth "
    # CROSS keeps the order: from the ids to the nodes to what is known of them.
    "FROM json_each(?3) asked CROSS JOIN nodes ON tenant = ?2 AND nodes.id = asked.value "
    "CROSS JOIN learned l ON l.node = nodes.node {joined} WHERE {known}"
)
_LEARNED_NOW = _LEARNED.format(trust=_TRUST, valid=_VALID, joined="", known="retracted_at IS NULL")
_LEARNED_THEN = _LEARNED.format(
    trust=_TRUST_THEN,
    valid=_VALID_THEN,
    joined=_then("past_trust", "t") + _then("past_validity", "v"),
    known="learned_at <= ?1 AND ifnull(retracted_at, 9e999) > ?1",
)


class Kept(NamedTuple):
    """One row of the table ``learned``."""

    valid_from: float | None
    valid_until: float | None
    learned_at: float
    retracted_at: float | None
    expires_at: float | None
    confidence: float | None
    utility: float | None
    active_count: int
    used_at: float | None
    created_at: float | None
    memory_type: str | None
    provenance_depth: int


def learned(
    connection: sqlite3.Connection, tenant: str, ids: Iterable[str], known_at: float | None
) -> dict[str, Learned]:
    """What is known of each of these chunks and parents, or was at a time; what was not known then is left out.

    Uses are counted and not logged: their number is today's.
    """
    statement = _LEARNED_NOW if known_at is None else _LEARNED_THEN
    found = connection.execute(statement, (known_at, tenant, listed(ids)))
    return {id: Learned(*values) for id, *values in found}


def take_in(connection: sqlite3.Connection, entries: Sequence[Entry], now: float) -> None:
    """Insert or replace chunks and parents with what their metadata give.

    What was learned of one that is there already stays, unless its metadata give another value than before; a text
    that changed is another statement, not known before ``now``.
    """
    kept = _kept(connection, entries)
    put_entries(connection, entries)
    new = [entry for entry in entries if entry.id not in kept]
    fresh = {entry.id: _founded(entry.given, now) for entry in new}
    again = {entry.id: _taken_in_again(entry, kept[entry.id], now) for entry in entries if entry.id in kept}
    connection.executemany(
        f"INSERT INTO learned (node, {_NAMES}) VALUES "
        f"((SELECT node FROM nodes WHERE tenant = ? AND id = ?){', ?' * len(Kept._fields)})",
        ((entry.tenant, entry.id, *fresh[entry.id]) for entry in new),
    )
    for id, after in again.items():
        replace(connection, kept[id].node, kept[id].kept, after, now)


class _Before(NamedTuple):
    """A chunk as it was before it is replaced."""

    node: int
    text_hash: bytes
    given: Given
    kept: Kept


def _kept(connection: sqlite3.Connection, entries: Sequence[Entry]) -> dict[str, _Before]:
    """What is kept of those of these entries that are there already."""
    if not entries:
        return {}
    found = connection.execute(
        f"SELECT id, node, text_hash, metadata, {_NAMES} FROM nodes JOIN learned USING (node) "
        "WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (entries[0].tenant, listed(entry.id for entry in entries)),
    )
    return {
        id: _Before(node, text_hash, Given.of(json.loads(metadata)), Kept(*values))
        for id, node, text_hash, metadata, *values in found
    }


def _founded(given: Given, now: float) -> Kept:
    """What is known at first."""
    return Kept(
        valid_from=given.valid_from,
        valid_until=given.valid_until,
        learned_at=now,
        retracted_at=None,
        expires_at=given.valid_until,
        confidence=given.confidence,
        utility=given.utility,
        active_count=given.active_count or 0,
        used_at=None,
        created_at=given.created_at,
        memory_type=given.memory_type,
        provenance_depth=given.provenance_depth or 0,
    )


def _taken_in_again(entry: Entry, before: _Before, now: float) -> Kept:
    """What is known once these metadata are taken in."""
    first, last = _founded(before.given, now)._asdict(), _founded(entry.given, now)._asdict()
    kept = before.kept._asdict()
    given = {name: last[name] for name in last if last[name] != first[name] and _is_said(name, last, first, kept)}
    after = before.kept._replace(**given)
    if entry.text_hash == before.text_hash:
        return after
    return after._replace(learned_at=now, retracted_at=None)


def _is_said(name: str, last: Mapping[str, Any], first: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    """Whether metadata that changed decide: a value that is no longer given takes back only itself."""
    return last[name] is not None or kept[name] == first[name]


def replace(connection: sqlite3.Connection, node: int, before: Kept, after: Kept, now: float) -> None:
    """Write what is known of a node now, and note what was known until now."""
    if before == after:
        return
    if after.learned_at != before.learned_at:  # another statement, of which nothing was known before
        connection.execute("DELETE FROM past_validity WHERE node = ?", (node,))
        connection.execute("DELETE FROM past_trust WHERE node = ?", (node,))
    else:
        if (before.valid_from, before.valid_until) != (after.valid_from, after.valid_until):
            _note(connection, "past_validity", node, now, before.valid_from, before.valid_until)
        if (before.confidence, before.utility) != (after.confidence, after.utility):
            _note(connection, "past_trust", node, now, before.confidence, before.utility)
    places = ", ".join(f"{name} = ?" for name in Kept._fields)
    connection.execute(f"UPDATE learned SET {places} WHERE node = ?", (*after, node))


def _note(connection: sqlite3.Connection, table: str, node: int, now: float, *values: float | None) -> None:
    # What held for no time at all was never known.
    connection.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)", (node, now, *values))
