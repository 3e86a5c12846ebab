"""The catalogue's statements about what is learned: how sure, how useful, valid when, of which session.

Those that write run inside ``Catalogue.writing()``, the others on a connection of ``Catalogue.reading()``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.records import Learned
from langchain_hybridgraph.stores.catalog import Entry, listed, parsed, put_entries
from langchain_hybridgraph.stores.given import Given, reference

if TYPE_CHECKING:
    import sqlite3

_NAMES = (
    "valid_from, valid_until, learned_at, retracted_at, expires_at, confidence, utility, active_count, used_at, "
    "updated_at, created_at, memory_type, provenance_depth"
)
_TRUST = "l.confidence, l.utility"
_TRUST_THEN = "iif(t.node, t.confidence, l.confidence), iif(t.node, t.utility, l.utility)"
_VALID = "l.valid_from, l.valid_until"
_VALID_THEN = "iif(v.node, v.valid_from, l.valid_from), iif(v.node, v.valid_until, l.valid_until)"
_UNLEARNED = "kind <> 'graph' AND node NOT IN (SELECT node FROM learned)"
_OWNERLESS = "node NOT IN (SELECT node FROM nodes WHERE kind <> 'graph')"


def _then(table: str, name: str) -> str:
    """What held at a time: until the first change after it."""
    return (
        f"LEFT JOIN {table} {name} ON {name}.node = l.node AND {name}.known_until = "
        f"(SELECT min(known_until) FROM {table} WHERE node = l.node AND known_until > ?1) "
    )


_LEARNED = (
    "SELECT nodes.id, {trust}, active_count, used_at, updated_at, {valid}, created_at, learned_at, memory_type, "
    "provenance_depth, {end} IS NOT l.expires_at "
    # CROSS keeps the order: from the ids to the nodes to what is known of them.
    "FROM json_each(?3) asked CROSS JOIN nodes ON tenant = ?2 AND nodes.id = asked.value "
    "CROSS JOIN learned l ON l.node = nodes.node {joined} WHERE {known}"
)
_LEARNED_NOW = _LEARNED.format(trust=_TRUST, valid=_VALID, end="l.valid_until", joined="", known="retracted_at IS NULL")
_LEARNED_THEN = _LEARNED.format(
    trust=_TRUST_THEN,
    valid=_VALID_THEN,
    end="iif(v.node, v.valid_until, l.valid_until)",
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
    updated_at: float | None
    created_at: float | None
    memory_type: str | None
    provenance_depth: int


class Held(NamedTuple):
    """What is known of a chunk or parent, and of whom."""

    node: int
    row: int | None
    metadata: str
    kept: Kept

    @property
    def source(self) -> str | None:
        """Who said it."""
        source = (parsed(self.metadata) or {}).get("source")
        return None if source is None else reference(str(source))


def learned(
    connection: sqlite3.Connection, tenant: str, ids: Iterable[str], known_at: float | None
) -> dict[str, Learned]:
    """What is known of each of these chunks and parents, or was at a time; what was not known then is left out.

    Uses are counted and not logged: their number is today's.
    """
    statement = _LEARNED_NOW if known_at is None else _LEARNED_THEN
    found = connection.execute(statement, (known_at, tenant, listed(ids)))
    return {
        id: dataclasses.replace(Learned(*values), end_learned=bool(end_learned)) for id, *values, end_learned in found
    }


# Row, confidence, utility, active count, used at, updated at, began, valid until, provenance depth, memory type.
ByRow = tuple[
    int, float | None, float | None, int, float | None, float | None, float | None, float | None, int, str | None
]
_BY_ROW = (
    "SELECT row, confidence, utility, active_count, used_at, updated_at, coalesce(valid_from, created_at, learned_at), "
    "iif(valid_until IS expires_at, valid_until, NULL), "
    "provenance_depth, memory_type FROM {source} WHERE tenant = ?1 AND {wanted}"
)
_FROM_ROW = _BY_ROW.format(source="nodes CROSS JOIN learned USING (node)", wanted="row >= ?2 AND row < ?3")
_CHANGED = _BY_ROW.format(
    source="(SELECT DISTINCT node FROM learned_changes WHERE number > ?2) CROSS JOIN nodes USING (node) "
    "CROSS JOIN learned USING (node)",
    wanted="row NOT NULL",
)


def position(connection: sqlite3.Connection) -> int:
    """The number of the last change of what is learned."""
    return int(connection.execute("SELECT ifnull(max(number), 0) FROM learned_changes").fetchone()[0])


def is_forgotten(connection: sqlite3.Connection, number: int) -> bool:
    """Whether the log does not reach back to that change, so that all is to be read anew."""
    first = connection.execute("SELECT min(number) FROM learned_changes").fetchone()[0]
    return number < 0 or (first is not None and first > number + 1)


def next_row(connection: sqlite3.Connection) -> int:
    """One more than the largest row that was given out."""
    return int(connection.execute("SELECT value FROM about WHERE name = 'next_row'").fetchone()[0])


def by_row(connection: sqlite3.Connection, tenant: str, start: int, stop: int) -> list[ByRow]:
    """What is known of the chunks of a tenant in these rows."""
    return connection.execute(_FROM_ROW, (tenant, start, stop)).fetchall()


def changed(connection: sqlite3.Connection, tenant: str, number: int) -> list[ByRow]:
    """What is known of the chunks of a tenant of which something was learned after that change."""
    return connection.execute(_CHANGED, (tenant, number)).fetchall()


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
        id: _Before(node, text_hash, Given.of(parsed(metadata) or {}), Kept(*values))
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
        updated_at=given.updated_at,
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


def held(connection: sqlite3.Connection, tenant: str, ids: Iterable[str]) -> dict[str, Held]:
    """What is known of each of these chunks and parents now, retracted or not; unknown ids are left out."""
    found = connection.execute(
        f"SELECT id, node, row, metadata, {_NAMES} FROM nodes JOIN learned USING (node) "
        "WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, listed(ids)),
    ).fetchall()
    return {id: Held(node, row, metadata, Kept(*values)) for id, node, row, metadata, *values in found}


def mark_used(connection: sqlite3.Connection, tenant: str, ids: Iterable[str], now: float) -> int:
    """Count one more use of each of these; returns how many there are."""
    return connection.execute(
        "UPDATE learned SET active_count = active_count + 1, used_at = ? WHERE node IN "
        "(SELECT node FROM nodes WHERE tenant = ? AND id IN (SELECT value FROM json_each(?)))",
        (now, tenant, listed(ids)),
    ).rowcount


def credit(connection: sqlite3.Connection, tenant: str, source: str, ok: int, bad: int) -> None:
    """Note how often what a source said was confirmed and refuted."""
    connection.execute(
        "INSERT INTO credibility VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET ok = ok + excluded.ok, bad = bad + excluded.bad",
        (tenant, source, ok, bad),
    )


def credited(connection: sqlite3.Connection, tenant: str, source: str) -> tuple[int, int]:
    """How often what a source said was confirmed, and how often refuted."""
    found = connection.execute("SELECT ok, bad FROM credibility WHERE tenant = ? AND source = ?", (tenant, source))
    return found.fetchone() or (0, 0)


def over(connection: sqlite3.Connection, tenant: str, now: float) -> list[str]:
    """The ids of what was given as valid until a time that has passed."""
    found = connection.execute(
        "SELECT id FROM learned CROSS JOIN nodes USING (node) WHERE expires_at < ? AND tenant = ?", (now, tenant)
    )
    return [id for (id,) in found]


def sessions(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """How many turns each session has, by its id."""
    found = connection.execute(
        "SELECT session, count(*) FROM nodes WHERE tenant = ? AND session IS NOT NULL GROUP BY session", (tenant,)
    )
    return dict(found.fetchall())


def session_ids(connection: sqlite3.Connection, tenant: str, session: str) -> list[str]:
    """The ids of a session's turns, retracted or not."""
    found = connection.execute("SELECT id FROM nodes WHERE tenant = ? AND session = ?", (tenant, session))
    return [id for (id,) in found]


def next_turn(connection: sqlite3.Connection, tenant: str, session: str) -> int:
    """The number after the last turn of a session; 1 for a new one."""
    found = connection.execute("SELECT max(turn) FROM nodes WHERE tenant = ? AND session = ?", (tenant, session))
    return int(found.fetchone()[0] or 0) + 1


def count(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """How many sessions a tenant has, and how many of its chunks are retracted."""
    retracted = connection.execute(
        "SELECT count(*) FROM learned CROSS JOIN nodes USING (node) WHERE retracted_at NOT NULL AND tenant = ?",
        (tenant,),
    ).fetchone()[0]
    return {"sessions": len(sessions(connection, tenant)), "retracted": int(retracted)}


def faults(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with the tables; empty when all is well."""
    missing, lost = connection.execute(
        f"SELECT (SELECT count(*) FROM nodes WHERE {_UNLEARNED}), (SELECT count(*) FROM learned WHERE {_OWNERLESS}) "
        f"+ (SELECT count(*) FROM past_validity WHERE {_OWNERLESS}) "
        f"+ (SELECT count(*) FROM past_trust WHERE {_OWNERLESS})"
    ).fetchone()
    found = [f"{missing} chunks have no learned values, so no search finds them; repair() gives them their first"]
    return (found if missing else []) + ([f"{lost} learned values belong to nothing"] if lost else [])


def mend(connection: sqlite3.Connection, now: float) -> list[int]:
    """Give what has no learned values those of its metadata, and delete those that belong to nothing.

    Returns the rows of chunks that are found again.
    """
    unlearned = connection.execute(f"SELECT node, row, metadata FROM nodes WHERE {_UNLEARNED}").fetchall()
    connection.executemany(
        f"INSERT INTO learned (node, {_NAMES}) VALUES (?{', ?' * len(Kept._fields)})",
        ((node, *_founded(Given.of(parsed(metadata) or {}), now)) for node, _, metadata in unlearned),
    )
    connection.executemany("INSERT INTO learned_changes (node) VALUES (?)", ((node,) for node, _, _ in unlearned))
    for table in ("learned", "past_validity", "past_trust"):
        connection.execute(f"DELETE FROM {table} WHERE {_OWNERLESS}")
    return [row for _, row, _ in unlearned if row is not None]


def revise(connection: sqlite3.Connection, known: Held, after: Kept, now: float) -> list[int]:
    """Write what is known now; returns the row of a chunk whose times have changed."""
    replace(connection, known.node, known.kept, after, now)
    return [known.row] if known.row is not None and known.kept[:4] != after[:4] else []


def replace(connection: sqlite3.Connection, node: int, before: Kept, after: Kept, now: float) -> None:
    """Write what is known of a node now, and note what was known until now."""
    if before == after:
        return
    if after.learned_at != before.learned_at:  # another statement, of which nothing was known before
        connection.execute("DELETE FROM past_validity WHERE node = ?", (node,))
        connection.execute("DELETE FROM past_trust WHERE node = ?", (node,))
    elif now > before.learned_at:  # what held for no time at all was never known
        if (before.valid_from, before.valid_until) != (after.valid_from, after.valid_until):
            _note(connection, "past_validity", node, now, before.valid_from, before.valid_until)
        if (before.confidence, before.utility) != (after.confidence, after.utility):
            _note(connection, "past_trust", node, now, before.confidence, before.utility)
    places = ", ".join(f"{name} = ?" for name in Kept._fields)
    connection.execute(f"UPDATE learned SET {places} WHERE node = ?", (*after, node))


def _note(connection: sqlite3.Connection, table: str, node: int, now: float, *values: float | None) -> None:
    connection.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)", (node, now, *values))
