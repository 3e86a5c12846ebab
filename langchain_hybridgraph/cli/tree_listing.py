"""The directories of an index, as lines to be shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.ingestion.summaries import name_of
from langchain_hybridgraph.query.hierarchy.uri_lookup import targeted
from langchain_hybridgraph.records import Scope

if TYPE_CHECKING:
    from langchain_hybridgraph.retrievers.store import HybridGraphStore
    from langchain_hybridgraph.stores.protocols import Tree


class Branch(NamedTuple):
    """A directory or document: how deep it is below what was asked for, and how much stands in it."""

    uri: str
    name: str
    depth: int
    contains: int
    abstract: str


def branches(store: HybridGraphStore, under: str | None, depth: int) -> list[Branch]:
    """The tree below a uri (None: all of it), so many levels of it, each directory before what it contains.

    Raises ConfigurationError for a uri at which nothing stands.
    """
    from langchain_hybridgraph.adapters.documents import resolve_as_of

    tree = store.scoped_tree(Scope(None, store.tenant, resolve_as_of(None)))
    tops = tree.top() if under is None else targeted(tree, [under])[0]
    lines = [line for top in tops for line in _below(tree, top, 0, depth)]
    summaries = store.summaries()
    wanted = [tree.uri(node) for node, _, contains in lines if contains]
    found = {} if summaries is None else summaries.get(wanted)
    abstracts = {uri: str(chunk.metadata["abstract"]) for uri, chunk in found.items()}
    return [
        Branch(tree.uri(node), name_of(tree.uri(node)) if below else tree.uri(node), below, contains, "")._replace(
            abstract=_without_name(abstracts.get(tree.uri(node), ""))
        )
        for node, below, contains in lines
    ]


def _below(tree: Tree, node: int, depth: int, deepest: int) -> Iterator[tuple[int, int, int]]:
    children = tree.children(node)
    yield node, depth, len(children)
    if depth + 1 < deepest:
        for child in children:
            yield from _below(tree, child, depth + 1, deepest)


def _without_name(abstract: str) -> str:
    return abstract.partition(": ")[2] or abstract
