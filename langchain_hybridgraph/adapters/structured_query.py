"""Translation of LangChain's structured queries to filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery, Visitor

from langchain_hybridgraph.errors import FilterError

_WORDS = {Comparator.CONTAIN: "$contains"}


class FilterTranslator(Visitor):
    """Translator for the structured queries that LangChain's SelfQueryRetriever creates from questions.

    :meth:`visit_structured_query` returns a query and call options: ``filter``, and ``k`` if the question has a limit.
    The comparator ``like`` raises FilterError, because filters do not support it; do not offer it to the query
    constructor.

    >>> recent = Comparison(Comparator.GTE, "year", 2020)
    >>> FilterTranslator().visit_structured_query(StructuredQuery("cats", recent, limit=3))
    ('cats', {'filter': {'year': {'$gte': 2020}}, 'k': 3})
    """

    allowed_operators: Sequence[Operator] | None = tuple(Operator)
    allowed_comparators: Sequence[Comparator] | None = tuple(each for each in Comparator if each != Comparator.LIKE)

    def visit_operation(self, operation: Operation) -> dict[str, Any]:
        """Return a filter with ``$and``, ``$or`` or ``$not``."""
        parts = [part.accept(self) for part in operation.arguments]
        if operation.operator == Operator.NOT:
            return {"$not": parts[0] if len(parts) == 1 else {"$and": parts}}
        return {f"${operation.operator.value}": parts}

    def visit_comparison(self, comparison: Comparison) -> dict[str, Any]:
        """Return a filter that compares one metadata key with a value."""
        comparator, value = comparison.comparator, comparison.value
        if comparator == Comparator.LIKE:
            raise FilterError(
                f"{comparator.value} is not supported by filters; use another comparator, such as eq, in or contain"
            )
        if isinstance(value, Mapping):  # a date is a mapping with its type
            value = value.get("date") or value.get("datetime") or value
        return {comparison.attribute: {_WORDS.get(comparator, f"${comparator.value}"): value}}

    def visit_structured_query(self, structured_query: StructuredQuery) -> tuple[str, dict[str, Any]]:
        """Return the query, and the options ``filter`` and ``k`` if the structured query sets them."""
        options: dict[str, Any] = {}
        if structured_query.filter is not None:
            options["filter"] = structured_query.filter.accept(self)
        if structured_query.limit is not None:
            options["k"] = structured_query.limit
        return structured_query.query, options
