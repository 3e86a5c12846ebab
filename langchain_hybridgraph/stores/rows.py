"""The rows that a store can see, mirrored in memory."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import ge, neg
from typing import TYPE_CHECKING, Self

import numpy as np

from langchain_hybridgraph.records import Scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Mask
    from langchain_hybridgraph.stores.catalog import Stored


class Rows:
    """Which row holds which id, which rows live, and from when until when they are valid.

    Knows one tenant: the rows of others count as dead. ``version`` is the catalogue's version that it mirrors. A
    search works on one of these from beginning to end: a change makes a new one, and leaves this one as it was. Only
    :meth:`rows` always knows the latest row of an id.
    """

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.version = -1
        self.living = 0
        self.has_parents = False
        self._end = 0
        self._alive: Mask = np.zeros(0, np.bool_)
        self._timed = False
        # Shared with the ones before and after: what is known of a row never changes, new rows come at the end.
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._valid_from: NDArray[np.float64] = np.zeros(0)
        self._valid_until: NDArray[np.float64] = np.zeros(0)

    def __len__(self) -> int:
        """One more than the largest row ever seen."""
        return self._end

    @property
    def full(self) -> bool:
        """Whether every row that was ever given out lives, in this tenant and at all times."""
        return self.living == self._end and not self._timed

    def updated(
        self, touched: Iterable[int], stored: Iterable[Stored], *, end: int, version: int, has_parents: bool
    ) -> Self:
        """The rows after a change: ``touched`` rows died unless ``stored`` holds them; rows up to ``end`` exist."""
        made = type(self)(self.tenant)
        made.version, made.has_parents, made._timed = version, has_parents, self._timed
        made._ids, made._row_of = self._ids, self._row_of
        made._valid_from, made._valid_until = self._valid_from, self._valid_until
        made._alive = self._alive.copy()
        made._grow(max(end, self._end))
        died = {row for row in touched if row < self._end and made._alive[row]}
        for entry in stored:
            if entry.tenant == self.tenant and entry.row is not None:
                made._take(entry, entry.row)
                died.discard(entry.row)
        for row in died:
            made._drop(row)
        made.living = int(np.count_nonzero(made._alive))
        return made

    def allowed(self, as_of: float | None) -> Mask:
        """A fresh mask of the rows that live and are valid at this time."""
        mask = self._alive[: self._end].copy()
        if self._timed and as_of is not None:
            mask &= self._valid_from[: self._end] <= as_of
            mask &= self._valid_until[: self._end] >= as_of
        return mask

    def rows(self, ids: Iterable[str]) -> list[int]:
        """The rows of these ids, in their order; ids without one are left out."""
        known = self._row_of
        return [row for id in ids if (row := known.get(id)) is not None]

    def ids(self, rows: Iterable[int]) -> list[str]:
        """The ids of these rows."""
        known = self._ids
        return [known[row] for row in rows]

    def scored(self, rows: Iterable[int], scores: Iterable[float]) -> list[Scored]:
        """Rows and scores as ids and scores, best first, ties by id."""
        known = self._ids
        ids, listed = [known[row] for row in rows], list(scores)
        if any(map(ge, listed[1:], listed)):  # not yet in order, or with ties
            ordered = sorted(zip(map(neg, listed), ids, strict=True))
            ids, listed = [id for _, id in ordered], [-score for score, _ in ordered]
        return list(map(Scored._make, zip(ids, listed, repeat(None))))

    def _take(self, entry: Stored, row: int) -> None:
        self._ids[row] = entry.id
        self._valid_from[row] = -np.inf if entry.valid_from is None else entry.valid_from
        self._valid_until[row] = np.inf if entry.valid_until is None else entry.valid_until
        self._timed = self._timed or entry.valid_from is not None or entry.valid_until is not None
        self._alive[row] = True
        self._row_of[entry.id] = row

    def _drop(self, row: int) -> None:
        self._alive[row] = False
        if self._row_of.get(self._ids[row]) == row:
            del self._row_of[self._ids[row]]

    def _grow(self, end: int) -> None:
        if end > len(self._alive):
            more = max(end, 2 * len(self._alive), 1024) - len(self._alive)
            self._valid_from = np.concatenate([self._valid_from, np.full(more, -np.inf)])
            self._valid_until = np.concatenate([self._valid_until, np.full(more, np.inf)])
            self._alive = np.concatenate([self._alive, np.zeros(more, np.bool_)])
        self._ids.extend([""] * (end - len(self._ids)))
        self._end = end
