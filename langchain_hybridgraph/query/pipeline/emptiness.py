"""Reasons why a search has no hits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_hybridgraph.errors import shorten
from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.filters import And, Comparison, Filter, Or, Path, compare, join_key, value_getter
from langchain_hybridgraph.filters.messages import as_json
from langchain_hybridgraph.filters.translation import parts_of
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import Chunk, Scope
from langchain_hybridgraph.records.queries import filterable
from langchain_hybridgraph.registry import similar_name
from langchain_hybridgraph.stores.protocols import HasFastLookups, implements

FILTER_MATCHES_NOTHING = "filter-matches-nothing"
# Number of texts from which keys and values are suggested.
SAMPLED = 1_000
# Maximum number of keys or values that a message lists.
FEW = 8
# If a store on a server has more texts than this, they are not listed to explain a filter.
MOST_LISTED = 20_000

ReadTexts = Callable[[Scope, int], Sequence[Chunk]]


def report_emptiness(context: SearchContext, candidates: Candidates | None = None) -> Search[None]:
    """Add ``empty-index`` or ``filter-matches-nothing`` to ``degraded`` if it is the reason why a search has no hits.

    The pipeline calls this only if a search has no hits. Nothing is added after an error, because the store may not be
    able to count or list its chunks.
    """
    query, pipeline, trace = context
    if trace.errors:
        return
    store, scope, count = pipeline.store, query.scope, None
    is_quick = implements(store, HasFastLookups) and store.has_fast_lookups
    if pipeline.count is not None:
        count = yield from context.ask(Effect("catalog", pipeline.count, quick=is_quick))
        if count == 0:
            trace.degrade("empty-index")
    by_vector = [r for source, r in candidates.results.items() if source.name == "vector"] if candidates else []
    has_matches = any(result.entries for result in by_vector)
    if count == 0 or has_matches or (scope.filter is None and scope.tenant is None):
        return
    is_large = count is not None and count > MOST_LISTED and implements(store, HasFastLookups) and not is_quick
    if pipeline.listing is None or count is None or is_large:
        # The texts cannot be listed, or only slowly; the vector search has found that none of them is in the scope.
        if by_vector and scope.filter is not None:
            trace.degrade(FILTER_MATCHES_NOTHING, _unmet(scope.filter))
        return
    explain = partial(_explain, partial(_read, context), scope, pipeline.own_filter)
    (remark,) = yield [Effect("catalog", explain, lane=lane_of("catalog", store))]
    if isinstance(remark, str):
        trace.degrade(FILTER_MATCHES_NOTHING, remark)


def _read(context: SearchContext, scope: Scope, n: int) -> Sequence[Chunk]:
    """Return up to n chunks of a scope."""
    assert context.pipeline.listing is not None
    result = context.pipeline.listing(scope, n)
    return list(context.pipeline.store.read([entry.id for entry in result.entries], scope, result.chunks).values())


def _explain(read: ReadTexts, scope: Scope, own: Filter | None) -> str | None:
    """Explain why no text is in the scope; return None if a text is, or if no text is valid at its time.

    Keys and values are taken only from texts that the caller may see. These texts belong to the tenant, pass the
    retriever's own filter ``own`` and are valid at the time of the call.
    """
    if read(scope, 1):
        return None
    sample = read(replace(scope, filter=own), SAMPLED)
    if not sample:
        if scope.tenant is not None and not read(Scope(tenant=scope.tenant), 1):
            return f"no text has the tenant {scope.tenant!r} in its metadata"
        return _unmet(own) if own is not None and read(replace(scope, filter=None), 1) else None
    assert scope.filter is not None, "without a filter, the sample is in the scope"

    def is_met(part: Filter) -> bool:
        return bool(read(replace(scope, filter=part if own is None else own & part), 1))

    parts = scope.filter.parts if isinstance(scope.filter, And) else (scope.filter,)
    unmet = next((part for part in parts if not is_met(part)), None)
    if unmet is None:
        return f"each condition is met by some text, but no text meets all of {as_json(scope.filter.to_dict())}"
    paths = sorted(unmet.keys())
    unknown = [path for path in paths if not is_met(compare(join_key(path), "$exists", True))]
    if unknown:
        keys = sorted({join_key(path) for chunk in sample for path in _paths(filterable(chunk), ())})
        return "; ".join(_unknown_key(join_key(path), keys) for path in unknown)
    return "; ".join([_unmet(unmet), *(hint for path in paths if (hint := _values(path, unmet, sample)))])


def _unmet(filter: Filter) -> str:
    while isinstance(filter, Or) and len(filter.keys()) == 1:  # a filter for a label compares in several ways
        filter = filter.parts[0]
    return f"no text in scope meets {as_json(filter.to_dict())}"


def _unknown_key(key: str, keys: Sequence[str]) -> str:
    """Return the message about a key that no text has; ``keys`` are the keys of the texts."""
    by_name = {each.casefold(): each for each in keys}
    name = key.casefold()
    near = similar_name(name, by_name) or similar_name(name.removeprefix("metadata."), by_name)
    if name.removeprefix("metadata.") in by_name:
        near = name.removeprefix("metadata.")
    message = f"no text in scope has the key {key!r}"
    if near is not None:
        return f"{message}; did you mean {by_name[near]!r}?"
    return f"{message}; the keys are {', '.join(map(repr, keys))}" if len(keys) <= FEW else message


def _values(path: Path, unmet: Filter, sample: Sequence[Chunk]) -> str | None:
    """Return a hint about the values of a key: the right operator, all values if they are few, or the nearest value."""
    key, read, operands = join_key(path), value_getter(path), list(_operands(unmet, path))
    values = [value for chunk in sample if (value := read(filterable(chunk))) is not None]
    elements = [element for value in values if isinstance(value, list | tuple) for element in value]
    for operand in operands:
        if operand in elements:
            return f"the values of {key!r} are lists; write {as_json({key: {'$contains': operand}})}"
    texts = {as_json(value): value for value in [*elements, *(v for v in values if not isinstance(v, list | tuple))]}
    if len(texts) <= FEW and len(sample) < SAMPLED:
        return f"the values of {key!r} are {', '.join(shorten(text, 60) for text in sorted(texts))}"
    by_name = {value.casefold(): value for value in texts.values() if isinstance(value, str)}
    for operand in operands:
        if isinstance(operand, str) and (near := similar_name(operand.casefold(), by_name)) is not None:
            return f"did you mean {shorten(repr(by_name[near]), 60)}?"
    return None


def _operands(filter: Filter, path: Path) -> Iterator[Any]:
    """Yield the values with which a filter compares the values at a path."""
    if isinstance(filter, Comparison) and filter.path == path:
        yield from filter.operand if filter.operator in ("$in", "$nin") else (filter.operand,)
    for part in parts_of(filter):
        yield from _operands(part, path)


def _paths(metadata: Mapping[str, Any], above: Path) -> Iterator[Path]:
    """Yield the path of each value in metadata, including the values in objects."""
    for key, value in metadata.items():
        if value is not None:
            yield (*above, key)
            if isinstance(value, Mapping):
                yield from _paths(value, (*above, key))
