"""Filter translation for other vector stores.

A translated filter matches everything that the original filter matches, and possibly more. ``filter.matches`` is always
applied to the returned metadata afterwards; the translation only reduces the number of hits that are fetched and then
dropped. A translation of None means that the store cannot express the filter (or that nothing would be gained), so
every hit has to be fetched and checked.

Many conditions are left out of the translation, because stores have different rules for comparison, order and missing
values. The dialect of each store is in the module of its adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_hybridgraph.filters import CanonicalBool, Comparison, Filter
from langchain_hybridgraph.filters.translation import Condition, Dialect, parts_of, superset

_EXACT = 2**53  # every smaller integer can be represented exactly as a float
_MOST_OPERANDS = 10_000  # SQLite in Chroma allows 32,766 variables, and an operand takes two
_MOST_COMPARISONS = 200  # SQLite in Chroma allows expressions of 1,000 levels
_DEEPEST = 30  # Chroma rejects 64 levels


def translate(filter: Filter, dialect: Dialect[Condition]) -> Condition | None:
    """Return a store's condition for a filter, or None if the filter is too large or cannot be expressed."""
    comparisons = list(_comparisons(filter))
    operands = sum(len(each.operand) if isinstance(each.operand, tuple) else 1 for each in comparisons)
    if len(comparisons) > _MOST_COMPARISONS or operands > _MOST_OPERANDS or _depth(filter) > _DEEPEST:
        return None
    return superset(filter, dialect)


def is_text(value: Any) -> bool:
    """Return whether a value is a string that every store accepts, without lone surrogates or NUL."""
    return type(value) is str and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def is_number(value: Any) -> bool:
    """Return whether a value is a number between −2⁵³ and 2⁵³. In this range, every integer is exact as a float."""
    return type(value) in (int, float) and -_EXACT < value < _EXACT


def by_kind(operands: Sequence[Any]) -> tuple[list[str], list[bool], list[float]]:
    """Return the operands that every store can compare, in three lists: strings, bools and numbers."""
    texts = [operand for operand in operands if is_text(operand)]
    truths = [operand.value for operand in operands if isinstance(operand, CanonicalBool)]
    return texts, truths, [operand for operand in operands if is_number(operand)]


def _comparisons(filter: Filter) -> list[Comparison]:
    if isinstance(filter, Comparison):
        return [filter]
    return [comparison for part in parts_of(filter) for comparison in _comparisons(part)]


def _depth(filter: Filter) -> int:
    return 1 + max(map(_depth, parts_of(filter)), default=0)
