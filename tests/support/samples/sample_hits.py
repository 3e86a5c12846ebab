"""Sample results of a traversal, for tests of their display."""

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.result import RetrievalResult


def search_hit(id, score, **more):
    """Return a hit found by search alone."""
    return Hit(
        Chunk(id, f"Text of {id}."), score, "vector", {"vector": score}, path=(id,), found_by=("vector",), **more
    )


def graph_hit(path, score, *why, title=None):
    """Return a hit found along edges.

    ``why`` are (relation or "entity:name", weight) of its last steps, the last one first.
    """
    context = tuple(step(one, *each) for one, each in zip(path[-2::-1], why, strict=False))
    metadata = {} if title is None else {"title": title}
    parts = {"vector": score / 2, "graph": score / 2}
    chunk = Chunk(path[-1], f"Text of {path[-1]}.", metadata)
    hops = len(path) - 1
    return Hit(chunk, score, "graph", parts, hops=hops, path=path, graph_context=context, found_by=("graph",))


def step(one, what, weight, description=""):
    """Return a step along an edge; "<cites" is an edge that is traversed from its target to its source."""
    entity = {"entity": what} if what.startswith("entity:") else {}
    relation = "mentions" if entity else what.removeprefix("<")
    direction = {"direction": "backward"} if what.startswith("<") else {}
    fields = {"from_chunk_id": one, "relation": relation, "weight": weight, "description": description}
    return {**fields, **direction, **entity}


def answer(*hits, query="Who wrote it?", degraded=(), **plan):
    return RetrievalResult(
        [hit.id for hit in hits], hits=hits, degraded=degraded, took_ms=2.0, plan={"query": query, **plan}
    )
