"""Pipeline over chunks that are named by a letter."""

from __future__ import annotations

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution.effects import Effect, Trace, drive
from langchain_hybridgraph.records import Query, ScoredId, SourceResult
from langchain_hybridgraph.search.context import Pipeline
from langchain_hybridgraph.search.fusion import ReciprocalRankFusion
from langchain_hybridgraph.search.pipeline import search


class Shelf:
    """Store with named chunks."""

    def __init__(self, *names: str, **metadata: dict):
        self.chunks = {name: Chunk(name, f"text of {name}", metadata.get(name, {})) for name in names}
        self.read_ids: list[str] = []

    def read(self, ids, scope, chunks):
        self.read_ids += ids
        admitted = {id: self.chunks[id] for id in ids if id in self.chunks}
        return {id: c for id, c in admitted.items() if scope.filter is None or scope.filter.matches(c.metadata)}


class ListSource:
    """Source that always returns the same list, with scores descending from 1."""

    def __init__(self, name: str, weight: float, names: str | Exception, reason: str | None = None):
        self.name, self.weight, self.names, self.reason = name, weight, names, reason

    def search(self, query, n):
        def run():
            if isinstance(self.names, Exception):
                raise self.names
            entries = [ScoredId(name, 1 - place / 10) for place, name in enumerate(self.names)]
            return SourceResult(entries[:n], reason=self.reason)

        return Effect(self.name, run)

    def score(self, query, result, ids):
        return None


def run(query: Query, **settings):
    trace = Trace()
    defaults = {"fusion": ReciprocalRankFusion(), "overfetch": 3, "rerank_depth": 50}
    return drive(search(query, Pipeline(**defaults | settings), trace)), trace


def ids(hits) -> str:
    return "".join(hit.id for hit in hits)


def hybrid(vector, keyword, **settings):
    sources = (ListSource("vector", 0.7, vector), ListSource("keyword", 0.3, keyword))
    return run(Query("q", 10), **{"store": Shelf(*"abcdefgh"), "sources": sources} | settings)
