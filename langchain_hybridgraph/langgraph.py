"""LangGraph's long-term memory with hybrid search.

Needs ``pip install "langchain-hybridgraph[langgraph]"``. No other module of this package imports LangGraph.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NamedTuple, Self

from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.execution.effects import offload
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.filters.operators import ORDERINGS
from langchain_hybridgraph.records import Hit, Scope, check_texts, content_id
from langchain_hybridgraph.registry import is_factory, nearest
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore

with errors.needs_extra("HybridGraphMemory", "LangGraph", "langgraph"):
    from langgraph.store import base

Namespace = tuple[str, ...]
WHOLE_VALUE = ["$"]  # LangGraph's path for the complete value, as JSON
BUILT_IN = ("auto", "lsa", "minilm")  # embeddings of this package


class HybridGraphMemory(base.BaseStore):
    """LangGraph store whose items are kept in an index folder and found by vector and by keyword.

    - ``path``: folder of the index; None keeps the items in memory.
    - ``index``: LangGraph's ``IndexConfig``. ``embed`` (default: ``"lsa"``) is any embedding that
      :class:`HybridGraphStore` accepts, a function or a provider string such as ``"openai:text-embedding-3-small"``;
      ``fields`` (default: the complete value) are the paths of the texts that are searched; ``dims`` is checked. False
      indexes nothing, and searches ignore their query.
    - ``ttl``: LangGraph's ``TTLConfig``. Items are omitted as soon as they expire, unless
      ``omit_expired`` is False. They are deleted by :meth:`sweep_ttl`, and by writes, at most once every
      ``sweep_interval_minutes``.
    - ``tenant``: tenant of the folder; each tenant has its own items.
    - ``options``: options of :class:`HybridRetriever`, such as ``semantic_weight``.

    Items, order and namespaces are those of LangGraph's ``InMemoryStore``: without a query, a search returns the
    oldest namespace first, and in it the oldest item first; with a query, it returns the best items first, then items
    that the query does not find, and items without indexed texts last. A namespace exists as long as it contains an
    item. Replacing an item does not change its ``created_at``. A comparison such as ``$gt`` does not match a missing
    value. Scores are those of :class:`HybridRetriever`, and None for items that the query does not find.

    Several processes may use one folder; each batch of writes is one transaction.

    >>> memory = HybridGraphMemory(index={"fields": ["text"]})
    >>> memory.put(("ada", "notes"), "car", {"text": "Her roadster is red.", "year": 2024})
    >>> memory.put(("ada", "notes"), "tea", {"text": "She drinks green tea.", "year": 2025})
    >>> [item.key for item in memory.search(("ada",), query="Which car is red?", limit=1)]
    ['car']
    >>> [item.key for item in memory.search(("ada",), filter={"year": {"$gte": 2025}})]
    ['tea']
    """

    supports_ttl = True

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        index: base.IndexConfig | Mapping[str, Any] | Literal[False] | None = None,
        ttl: base.TTLConfig | None = None,
        tenant: str | None = None,
        **options: Any,
    ) -> None:
        settings = {} if index is False else _checked("index", index, base.IndexConfig)
        times = _checked("ttl", ttl, base.TTLConfig)
        for name in ("default_ttl", "sweep_interval_minutes"):
            _check_minutes(f"ttl[{name!r}]", times.get(name))
        self.ttl_config = ttl
        self.store = HybridGraphStore(path, _embedding(settings.get("embed")), tenant=tenant)
        self._retriever = HybridRetriever(self.store, **options)
        fields = settings.get("fields") or WHOLE_VALUE
        self._fields = None if index is False else check_texts("index['fields']", "paths", fields)
        if (dims := settings.get("dims")) is not None:
            _check_dims(self.store.embeddings, dims)
        self._lock = RLock()
        self._newest = 0
        self._next_sweep = 0.0

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Run operations and return their results in the same order; reads see the state before the writes.

        Raises ValueError for a value that is not JSON, a negative ttl, and an unknown operator in a filter.
        """
        results: list[base.Result] = []
        writes: dict[tuple[Namespace, str], base.PutOp] = {}
        with self._lock:
            for op in ops:
                result: base.Result = None
                if isinstance(op, base.SearchOp | base.ListNamespacesOp):
                    errors.check_whole_number("limit", op.limit, least=0)
                    errors.check_whole_number("offset", op.offset, least=0)
                if isinstance(op, base.ListNamespacesOp) and op.max_depth is not None:
                    errors.check_whole_number("max_depth", op.max_depth, least=0)
                if isinstance(op, base.GetOp):
                    stored = self._read([_id(op.namespace, op.key)], refresh=op.refresh_ttl)
                    result = base.Item(**stored[0].item()) if stored else None
                elif isinstance(op, base.SearchOp):
                    result = self._search(op)
                elif isinstance(op, base.ListNamespacesOp):
                    result = self._namespaces(op)
                elif isinstance(op, base.PutOp):
                    writes[tuple(op.namespace), op.key] = op
                else:
                    raise ValueError(f"op must be a GetOp, PutOp, SearchOp or ListNamespacesOp, got {quote_value(op)}")
                results.append(result)
            if writes:
                self._write(writes)
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Return the result of :meth:`batch` without blocking the event loop."""
        results: list[base.Result] = await offload(partial(self.batch, list(ops)))
        return results

    def sweep_ttl(self) -> int:
        """Delete all expired items, and return their number."""
        with self._lock:
            now = time.time()
            expired = [stored for stored in self._items_below((), expired=True) if stored.expires_at <= now]
            self.store.remove([id for stored in expired for id in stored.ids])
            return len(expired)

    def close(self) -> None:
        """Close the index folder."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, puts: Mapping[tuple[Namespace, str], base.PutOp]) -> None:
        """Write and delete items in this order; no two of them have the same namespace and key."""
        before = {chunk.id: _Stored(chunk) for chunk in self.store.get([_id(*key) for key in puts])}
        chunks: list[Chunk] = []
        outdated: set[str] = set()
        places: dict[Namespace, int] = {}
        for (namespace, key), op in puts.items():
            stored = before.get(_id(namespace, key))
            if stored is not None:
                outdated.update(stored.ids)
            if op.value is not None:
                chunks += self._chunks_for(op, stored, places)
        if chunks or outdated:
            self.store.upsert(chunks, removed=sorted(outdated.difference(chunk.id for chunk in chunks)))
            self.store.flush()
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        if minutes is not None and time.time() >= self._next_sweep:
            self._next_sweep = time.time() + 60 * minutes
            self.sweep_ttl()

    def _chunks_for(self, op: base.PutOp, before: _Stored | None, places: dict[Namespace, int]) -> list[Chunk]:
        """Return the chunk of an item, and one more for each of its texts after the first.

        ``places`` caches the places of namespaces that have been looked up.
        """
        errors.check_mapping("value", op.value)
        namespace, value = tuple(op.namespace), dict(op.value or {})
        _check_minutes(f"the ttl of {quote_value(op.key)} in {namespace!r}", op.ttl)
        try:
            if json.loads(json.dumps(value, allow_nan=False)) != value:
                raise ValueError("it has keys other than strings, or tuples")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the value of {quote_value(op.key)} in {namespace!r} must be JSON: {error}; convert it before put()"
            ) from error
        fields = self._fields if op.index is None else op.index and check_texts("index", "paths", op.index)
        texts: list[str] = []
        if self._fields is not None:
            for path in fields or ():
                texts += (text for text in base.get_text_at_path(value, path) if text.strip() and text not in texts)
        self._newest = max(self._newest + 1, time.time_ns())
        if before is None and namespace not in places:
            scope = Scope(parse_filter({"stored.namespace": {"$eq": list(namespace)}}), self.store.tenant)
            others = self.store.get(self.store.find(scope)[:1])
            places[namespace] = _Stored(others[0]).fields["order"][0] if others else self._newest
        own_id, now = _id(namespace, op.key), time.time()
        ids = [own_id, *(f"{own_id}#{place}" for place in range(1, len(texts)))]
        metadata = {
            "namespaces": [json.dumps(namespace[:depth]) for depth in range(len(namespace) + 1)],
            "item": own_id,
            "version": self._newest,
        }
        item = {
            "namespace": list(namespace),
            "key": op.key,
            "value": value,
            "order": [places[namespace], self._newest] if before is None else before.fields["order"],
            "texts": len(texts),
            "created_at": now if before is None else before.fields["created_at"],
            "updated_at": now,
            "ttl": op.ttl,
            "expires_at": None if op.ttl is None else now + 60 * op.ttl,
        }
        first = Chunk(own_id, texts[0] if texts else "", {**metadata, "stored": item}, own_id)
        return [first, *(Chunk(id, text, metadata, own_id) for id, text in zip(ids[1:], texts[1:], strict=True))]

    def _scope(self, prefix: Namespace) -> Scope:
        return Scope(parse_filter({"namespaces": {"$contains": json.dumps(prefix)}}), self.store.tenant)

    def _items_below(self, prefix: Namespace, *, expired: bool = False) -> list[_Stored]:
        """Return the items below a namespace in the order of a search without a query."""
        ids = [id for id in self.store.find(self._scope(prefix)) if "#" not in id]
        return sorted(self._read(ids, refresh=False, expired=expired), key=lambda stored: stored.fields["order"])

    def _read(self, ids: Sequence[str], *, refresh: bool, expired: bool = False) -> list[_Stored]:
        """Return the items with these ids, in this order; ``refresh`` postpones their expiry."""
        now = time.time()
        omit = not expired and (self.ttl_config or {}).get("omit_expired", True)
        items = [_Stored(chunk) for chunk in self.store.get(ids)]
        items = [stored for stored in items if not omit or stored.expires_at > now]
        if refresh and (postponed := [stored.postponed(now) for stored in items if stored.fields["ttl"] is not None]):
            self.store.upsert(postponed)
            self.store.flush()
        return items

    def _namespaces(self, op: base.ListNamespacesOp) -> list[Namespace]:
        namespaces = {each.namespace for each in self._items_below(())}
        matching = {each for each in namespaces if all(_is_in(each, one) for one in op.match_conditions or ())}
        return sorted({each[: op.max_depth] for each in matching})[op.offset : op.offset + op.limit]

    def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        errors.check_mapping("filter", {} if op.filter is None else op.filter)
        end = op.offset + op.limit
        is_ranked = bool(op.query) and self._fields is not None
        ranked = self._ranked(op, end) if is_ranked else []
        scores = {stored.id: score for stored, score in ranked}
        items = [stored for stored, _ in ranked]
        if len(items) < end:
            others = [each for each in self._items_below(tuple(op.namespace_prefix)) if each.matches(op.filter)]
            others.sort(key=lambda stored: is_ranked and not stored.fields["texts"])
            items += [each for each in others if each.id not in scores]
        page = items[op.offset : end]
        self._read([stored.id for stored in page if stored.fields["ttl"] is not None], refresh=op.refresh_ttl)
        return [base.SearchItem(**stored.item(), score=scores.get(stored.id)) for stored in page]

    def _ranked(self, op: base.SearchOp, n: int) -> list[tuple[_Stored, float]]:
        """Return the best ``n`` matching items with their best scores.

        The filter is applied after the search, which is repeated with a larger ``k`` until enough items match.
        """
        k = max(2 * n, 20)
        while True:
            scope = self._scope(op.namespace_prefix)
            hits = self._retriever.retrieve(op.query or "", k=k, filter=scope.filter).hits
            best: dict[str, Hit] = {}
            for hit in hits:
                best.setdefault(hit.chunk.metadata["item"], hit)
            ranked = []
            for stored in self._read(list(best), refresh=False):
                hit = best[stored.id]
                is_current = stored.chunk.metadata["version"] == hit.chunk.metadata["version"]
                if is_current and stored.fields["texts"] and stored.matches(op.filter):
                    ranked.append((stored, hit.score))
            if len(ranked) >= n or len(hits) < k:
                return ranked[:n]
            k *= 4


class _Stored(NamedTuple):
    """An item as it is stored, in the metadata of its first chunk."""

    chunk: Chunk

    @property
    def fields(self) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = self.chunk.metadata["stored"]
        return fields

    @property
    def id(self) -> str:
        return self.chunk.id

    @property
    def ids(self) -> list[str]:
        return [self.id, *(f"{self.id}#{place}" for place in range(1, self.fields["texts"]))]

    @property
    def namespace(self) -> Namespace:
        return tuple(self.fields["namespace"])

    @property
    def expires_at(self) -> float:
        at = self.fields["expires_at"]
        return float("inf") if at is None else at

    def postponed(self, now: float) -> Chunk:
        """Return the chunk, which now expires its full time to live after ``now``."""
        fields = {**self.fields, "expires_at": now + 60 * self.fields["ttl"]}
        return Chunk(self.id, self.chunk.text, {**self.chunk.metadata, "stored": fields}, self.id)

    def matches(self, filter: Mapping[str, Any] | None) -> bool:
        value = self.fields["value"]
        return all(_matches(value.get(key), condition) for key, condition in (filter or {}).items())

    def item(self) -> dict[str, Any]:
        """Return the arguments of LangGraph's ``Item``."""
        times = {name: datetime.fromtimestamp(self.fields[name], UTC) for name in ("created_at", "updated_at")}
        return {"namespace": self.namespace, "key": self.fields["key"], "value": dict(self.fields["value"]), **times}


def _id(namespace: Sequence[str], key: str) -> str:
    return content_id(json.dumps([*namespace, key]), "")


def _check_dims(embeddings: Embeddings, dims: int) -> None:
    is_fitted = isinstance(embeddings, LSAEmbeddings)
    actual = "as many numbers as its texts allow" if is_fitted else len(embeddings.embed_query("dimension"))
    if dims != actual:
        raise ConfigurationError(f"index['dims'] is {dims}, but the embedding returns {actual}; leave dims out")


def _checked(name: str, config: Any, kind: type) -> dict[str, Any]:
    config = {} if config is None else config
    errors.check_mapping(name, config)
    if unknown := [key for key in config if key not in kind.__annotations__]:
        advice = f"{nearest(unknown[0], kind.__annotations__)}It takes {', '.join(kind.__annotations__)}"
        raise ConfigurationError(f"{name} has no key {quote_value(unknown[0])}; {advice}")
    return dict(config)


def _check_minutes(name: str, minutes: Any) -> None:
    if minutes is not None:
        errors.check_number(f"{name} (minutes, or None for never)", minutes, ge=0)


def _embedding(embed: Any) -> Embeddings | str | None:
    """Return an embedding for a store: one that it accepts, or else LangGraph's conversion of ``embed``."""
    if isinstance(embed, Embeddings | None):
        return embed
    if isinstance(embed, str) and (embed in BUILT_IN or ("." in embed.partition(":")[0] and is_factory(embed))):
        return embed
    try:
        if ":" not in embed if isinstance(embed, str) else not callable(embed):
            raise TypeError("it is neither a known name nor a function")
        embeddings: Embeddings = base.ensure_embeddings(embed)
    except (ImportError, TypeError, ValueError) as error:
        if isinstance(error, ValueError) and isinstance(embed, str) and is_factory(embed):
            return embed  # not a provider of LangChain, so a factory such as langchain_openai:OpenAIEmbeddings
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"index['embed'] is {quote_value(embed)}, which cannot be used ({reason}): {nearest(embed, BUILT_IN)}Write "
            "'auto', 'lsa', 'minilm', 'package.module:factory' or LangChain's 'provider:model', or pass an Embeddings "
            "object or a function"
        ) from error
    return embeddings


def _is_in(namespace: Namespace, condition: base.MatchCondition) -> bool:
    """Return whether a namespace begins or ends with the path of a condition, in which ``*`` matches any label."""
    path = condition.path
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return len(namespace) >= len(path) and all(
        pattern in ("*", label) for label, pattern in zip(labels, path, strict=True)
    )


def _matches(value: Any, condition: Any) -> bool:
    """Return whether a value meets a condition of LangGraph's filters: a value, nested conditions or operators."""
    if isinstance(condition, Mapping):
        if any(str(key).startswith("$") for key in condition):
            return all(_compares(value, *each) for each in condition.items())
        return isinstance(value, Mapping) and all(_matches(value.get(key), each) for key, each in condition.items())
    if isinstance(condition, list | tuple):
        return isinstance(value, list) and len(value) == len(condition) and all(map(_matches, value, condition))
    return bool(value == condition)


def _compares(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return (value == operand) is (name == "$eq")
    if name not in ORDERINGS:
        raise ValueError(f"{name!r} is not an operator; a filter takes $eq $ne {' '.join(ORDERINGS)}")
    try:
        return ORDERINGS[name].holds(float(value), float(operand))
    except (OverflowError, TypeError, ValueError):
        return False
