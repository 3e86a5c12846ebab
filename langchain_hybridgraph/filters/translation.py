"""Translation of filters to the filter languages of stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from langchain_hybridgraph.filters.expressions import And, Comparison, Filter, Not, Or
from langchain_hybridgraph.filters.operators import NEGATIONS, Path

Condition = TypeVar("Condition")


class Dialect(ABC, Generic[Condition]):
    """The filter language of one store, whose conditions may match more than the filter that they translate.

    None, for a condition that cannot be written, matches everything.
    """

    @abstractmethod
    def key(self, path: Path) -> str | None:
        """Return the store's name for the metadata at a path, or None if the store cannot filter by it."""

    @abstractmethod
    def holds(self, key: str, operator: str, operand: Any) -> Condition | None:
        """Return a condition that is true for all values that pass the comparison, and possibly for others.

        ``operator`` is ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``, ``$contains`` or ``$exists``. An ``$eq``
        comparison is passed as ``$in``. The operand of ``$exists`` is always True.
        """

    @abstractmethod
    def fails(self, key: str, operator: str, operand: Any) -> Condition | None:
        """Return a condition that is true for all values that fail the comparison, and possibly for others."""

    @abstractmethod
    def every(self, parts: list[Condition]) -> Condition:
        """Return a condition that is true if all ``parts`` (at least two) are true."""

    @abstractmethod
    def some(self, parts: list[Condition]) -> Condition:
        """Return a condition that is true if any of the ``parts`` (at least two) is true."""

    def all_of(self, parts: Sequence[Condition | None]) -> Condition | None:
        """Return a condition that is true if all parts are true. Parts that are None are left out."""
        expressible = [part for part in parts if part is not None]
        if not expressible:
            return None
        return self.every(expressible) if len(expressible) > 1 else expressible[0]

    def any_of(self, parts: Sequence[Condition | None]) -> Condition | None:
        """Return a condition that is true if at least one part is true. Return None if any part is None."""
        expressible = [part for part in parts if part is not None]
        if len(expressible) < len(parts) or not expressible:
            return None
        return self.some(expressible) if len(expressible) > 1 else expressible[0]


def superset(filter: Filter, dialect: Dialect[Condition], outcome: bool = True) -> Condition | None:
    """Return a condition that covers all metadata, and possibly more, for which ``filter.matches`` is ``outcome``.

    The result is None if the dialect cannot express any such condition.
    """
    if isinstance(filter, Comparison):
        return _comparison(filter, dialect, outcome)
    if isinstance(filter, Not):
        return superset(filter.part, dialect, not outcome)
    parts = [superset(part, dialect, outcome) for part in parts_of(filter)]
    return dialect.all_of(parts) if isinstance(filter, And) is outcome else dialect.any_of(parts)


def _comparison(comparison: Comparison, dialect: Dialect[Condition], outcome: bool) -> Condition | None:
    key = dialect.key(comparison.path)
    if key is None:
        return None
    operator, operand = comparison.operator, comparison.operand
    if operator in NEGATIONS or operand is False:  # only $exists has a Python bool for an operand
        outcome = not outcome
    operator = NEGATIONS.get(operator, operator)
    if operator == "$eq":
        operator, operand = "$in", (operand,)
    return dialect.holds(key, operator, operand) if outcome else dialect.fails(key, operator, operand)


def parts_of(filter: Filter) -> Sequence[Filter]:
    """Return the filters that a filter combines; a comparison combines none."""
    if isinstance(filter, Not):
        return (filter.part,)
    return filter.parts if isinstance(filter, And | Or) else ()
