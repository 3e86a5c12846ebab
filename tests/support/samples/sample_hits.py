"""Answers as a walk leaves them, for what shows them."""

from langchain_hybridgraph.records import Chunk, Hit
from langchain_hybridgraph.result import RetrievalResult


def search_hit(id, score, **more):
    """A hit of the search alone."""
    return Hit(
        Chunk(id, f"Text of {id}."), score, "vector", {"vector": score}, path=(id,), found_by=("vector",), **more
    )


def graph_hit(path, score, *why, title=None):
    """A hit that edges led to, by (relation or "entity:name", weight) for its last steps, the very last first."""
    context = tuple(step(one, *each) for one, each in zip(path[-2::-1], why, strict=False))
    metadata = {} if title is None else {"title": title}
    parts = {"vector": score / 2, "graph": score / 2}
    chunk = Chunk(path[-1], f"Text of {path[-1]}.", metadata)
    hops = len(path) - 1
    return Hit(chunk, score, "graph", parts, hops=hops, path=path, graph_context=context, found_by=("graph",))


def step(one, what, weight, description=""):
    """A step over an edge; "<cites" is an edge that points back to where the walk came from."""
    entity = {"entity": what} if what.startswith("entity:") else {}
    relation = "mentions" if entity else what.removeprefix("<")
    direction = {"direction": "backward"} if what.startswith("<") else {}
    fields = {"from_chunk_id": one, "relation": relation, "weight": weight, "description": description}
    return {**fields, **direction, **entity}


def answer(*hits, query="Who wrote it?", degraded=(), **plan):
    return RetrievalResult(
        [hit.id for hit in hits], hits=hits, degraded=degraded, took_ms=2.0, plan={"query": query, **plan}
    )
