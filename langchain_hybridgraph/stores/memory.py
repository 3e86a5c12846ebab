"""What is learned of the chunks of an open index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from langchain_hybridgraph.stores import catalog_learned
from langchain_hybridgraph.stores.searching import is_in
from langchain_hybridgraph.stores.writing import WrittenIndex

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, Learned, Scope


class RememberingIndex(WrittenIndex):
    """An index that learns: how sure, how useful, valid when; and that keeps the turns of sessions."""

    def learned(self, ids: Sequence[str], scope: Scope) -> dict[str, Learned]:
        """What is known of each of these chunks and parents (see ``stores.base.Remembers``).

        With ``known_at`` validity, confidence and utility are as they were known then, and what was taken in later or
        retracted before is left out; uses are counted, not logged, so their number is today's.
        """
        self._check_scope(scope)
        with self._gate, self._catalogue.reading() as connection:
            return catalog_learned.learned(connection, self._rows.tenant, ids, scope.known_at)

    def session_turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """The last n turns of a session in the scope, the newest first (see ``stores.base.HasSessions``)."""
        self._check_scope(scope)
        with self._gate:
            turns = (
                entry.chunk()
                for entry in self._catalogue.turns(self._rows.tenant, session_id, scope.known_at)
                if is_in(entry, scope)
            )
            return list(islice(turns, max(n, 0)))
