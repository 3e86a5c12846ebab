"""Functions that make common filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.expressions import And, Filter, Or, compare, join_filters
from langchain_hybridgraph.times import iso_time, parse_time


def by_document(*ids: str, key: str = "document_id") -> Filter:
    """Return a filter that matches the chunks of the documents with these ids; without ids, it matches nothing.

    >>> by_document("a", "b").matches({"document_id": "b"})
    True
    """
    return compare(key, "$in", ids)


def exclude_document(*ids: str, key: str = "document_id") -> Filter:
    """Return a filter that matches all chunks except those of the documents with these ids.

    Without ids, it matches everything.

    >>> exclude_document("a").matches({"document_id": "b"})
    True
    """
    return compare(key, "$nin", ids)


def by_source(*sources: str, key: str = "source") -> Filter:
    """Return a filter that matches the chunks from these sources (paths or URLs); without sources, it matches nothing.

    Sources are compared as strings.

    >>> by_source("a.md").matches({"source": "a.md"})
    True
    """
    return compare(key, "$in", sources)


def by_meta(**equals: Any) -> Filter:
    """Return a filter that matches the chunks whose metadata has all of these values.

    Raises FilterError if no values are passed.

    >>> by_meta(lang="en", **{"author.name": "Ada"}).matches({"lang": "en", "author": {"name": "Ada"}})
    True
    """
    if not equals:
        raise FilterError('by_meta() got no values to compare; write by_meta(lang="en")')
    for key, value in equals.items():
        if isinstance(value, Mapping) and any(str(inner).startswith("$") for inner in value):
            raise FilterError(
                f"by_meta({key}={value!r}) tests for equality only; to use an operator, write {{{key!r}: {value!r}}}"
            )
    return join_filters(And, [compare(key, "$eq", value) for key, value in equals.items()])


def created_after(t: Any, *, key: str = "created_at") -> Filter:
    """Return a filter that matches the chunks created later than ``t``.

    ``t`` is a time in any form that :func:`~langchain_hybridgraph.times.parse_time` accepts. The comparison is strict
    (``$gt``). The metadata may contain an ISO time or Unix seconds.

    >>> created_after("2024-05-01").matches({"created_at": 1714525200.0})
    True
    """
    return _created("$gt", t, key)


def created_before(t: Any, *, key: str = "created_at") -> Filter:
    """Return a filter that matches the chunks created earlier than ``t`` (``$lt``).

    ``t`` and the time in the metadata may have the same forms as in :func:`created_after`.

    >>> created_before("2024-05-01").matches({"created_at": "2024-04-30T23:59:00Z"})
    True
    """
    return _created("$lt", t, key)


def has_labels(
    any_of: str | Iterable[str] | None = None,
    all_of: str | Iterable[str] = (),
    *,
    key: str = "labels",
) -> Filter:
    """Return a filter that matches the chunks whose labels include at least one of ``any_of`` and all of ``all_of``.

    If ``any_of`` is None, only ``all_of`` is required; an empty ``any_of`` matches nothing. Raises FilterError if
    ``any_of`` is None and ``all_of`` is empty. A string in the metadata counts as one label.

    >>> has_labels(any_of=["api", "web"], all_of=["public"]).matches({"labels": ["public", "web"]})
    True
    """
    parts: list[Filter] = [_has_label(key, label) for label in _several(all_of)]
    if any_of is not None:
        choices = [_has_label(key, label) for label in _several(any_of)]
        parts.append(join_filters(Or, choices) if choices else compare(key, "$in", ()))
    if not parts:
        raise FilterError('has_labels() got no labels; write has_labels(any_of=["a", "b"])')
    return join_filters(And, parts)


def _has_label(key: str, label: Any) -> Filter:
    """Return a filter for values that are equal to the label, or lists that contain it.

    ``$contains`` also matches a part of a string; every string is at least ``""`` or, if it is a time, the year 1.
    """
    no_string = [~compare(key, "$gte", least) for least in ("", "0001-01-01")]
    return compare(key, "$eq", label) | join_filters(And, [compare(key, "$contains", label), *no_string])


def _several(labels: str | Iterable[str]) -> Iterable[str]:
    return (labels,) if isinstance(labels, str) else labels


def _created(operator: str, t: Any, key: str) -> Filter:
    try:
        seconds = parse_time(t)
    except ValueError as error:
        raise FilterError(str(error)) from error
    return join_filters(Or, [compare(key, operator, iso_time(seconds)), compare(key, operator, seconds)])
