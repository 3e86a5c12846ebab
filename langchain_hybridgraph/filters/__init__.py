r"""Metadata filters: parsing, building and matching.

Filters are written as in Chroma and MongoDB, or built with functions such as :func:`by_source`; combine them with
``& | ~``:

>>> recent = parse_filter({"labels": {"$contains": "api"}, "year": {"$gte": 2020, "$lt": 2030}})
>>> recent.matches({"labels": ["api", "web"], "year": 2024})
True
>>> (recent & ~by_source("old.md")).matches({"labels": ["api"], "year": 2024, "source": "old.md"})
False

Meaning of each operator, for a metadata value v and an operand x:

==================  ========================================================================================
``$eq``             v equals x. ``{"key": x}`` is shorthand for it if x is a string, number, bool or time
``$ne``             not ``$eq``, so a missing key matches; x is not a list, except for the empty one
``$in``             v equals one of the elements of x; an empty list matches nothing
``$nin``            not ``$in``, so a missing key matches, and an empty list matches everything
``$gt $gte``        v is greater than x (``$gte``: or equal). Both must be numbers, both times, or both strings
                    that are not times; no other pair matches, not even two bools
``$lt $lte``        v is less than x (``$lte``: or equal), under the same condition
``$contains``       x (a string, number, bool or time) is an element of the list v, or a case-sensitive
                    substring of the string v; an object has no elements
``$not_contains``   shorthand for ``{"$not": {"key": {"$contains": x}}}``
``$exists``         true: v is present; false: v is missing
``$and $or $not``   ``$and`` and ``$or`` take a non-empty list of filters; ``$not`` takes one filter, or is used
                    inside a field: ``{"year": {"$not": {"$gt": 2020}}}``
``$nor``            shorthand for ``{"$not": {"$or": [...]}}``
``== != > >= < <=`` other spellings of ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt`` and ``$lte``; so are ``=``, ``<>``
several             several keys, or several operators on one key, must all match
==================  ========================================================================================

Details of missing values, equality, times and keys:

- A null value is treated as missing. A missing key matches only ``$ne``, ``$nin``, ``$not`` (and so ``$not_contains``)
  and ``{"$exists": false}``. An empty list, object or string is present.
- A bool never equals a number, at any depth. 1 equals 1.0, but the comparison is exact: 2**53 + 1 does not equal
  2.0**53. NaN is present but equals nothing and has no order. Infinity is the largest number.
- Two lists are equal if they have equal elements in the same order. Two objects are equal if they have equal keys and
  values. A list never equals one of its elements; use ``$contains``. Strings are compared by code points.
- A time is a ``datetime``, a ``date`` or a string such as ``2024-05-01``, ``2024-05-01T10:00``,
  ``2024-05-01 10:00:00.5+02:00``; a time without a time zone is in UTC. Times are ordered by instant. Two strings are
  equal only if they are identical, but a ``datetime`` on either side equals every time of the same instant. Inside a
  list or an object, a ``datetime`` is compared as an ISO 8601 string. In JSON, ``{"$date": "2024-05-01"}`` is a
  ``datetime``: ``{"created": {"$eq": {"$date": "2024-05-01"}}}``.
- Dots in a key lead into objects, never into lists. Write ``\.`` for a dot in a name, ``\\`` for a backslash and
  ``\$`` for a dollar sign.
- ``None`` and ``{}`` mean no filter: everything matches. ``{}`` inside a filter is an error.

No part of a filter is ever ignored. Unknown operators, operands that could never match (null, NaN, ordering by
bools), and lists or objects without an operator raise :class:`~langchain_hybridgraph.errors.FilterError`.
"""

from langchain_hybridgraph import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
