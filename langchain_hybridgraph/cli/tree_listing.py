"""Directories of an index as a list of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.ingestion.summaries import name_of
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.search.hierarchy import target_nodes

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.protocols import Tree
    from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore


class Branch(NamedTuple):
    """Directory or document, with its depth below the requested directory and the number of its direct children."""

    uri: str
    name: str
    depth: int
    contains: int
    abstract: str


def branches(store: HybridGraphStore, under: str | None, depth: int) -> list[Branch]:
    """List the directories and documents of a tree, each directory before its contents.

    The first of the ``depth`` levels is the node at the URI ``under``. If ``under`` is None, the complete tree is
    listed to this depth. Raises ConfigurationError if there is nothing at the URI.
    """
    from langchain_hybridgraph.adapters.documents import resolve_as_of

    tree = store.scoped_tree(Scope(None, store.tenant, resolve_as_of(None)))
    tops = tree.top() if under is None else target_nodes(tree, [under])[0]
    lines = [line for top in tops for line in _branches_below(tree, top, 0, depth)]
    summaries = store.summaries.current()
    directories = [tree.uri(node) for node, _, contains in lines if contains]
    summary_of = {} if summaries is None else summaries.get(directories)
    abstracts = {uri: str(chunk.metadata["abstract"]) for uri, chunk in summary_of.items()}
    return [
        Branch(tree.uri(node), name_of(tree.uri(node)) if below else tree.uri(node), below, contains, "")._replace(
            abstract=_without_name(abstracts.get(tree.uri(node), ""))
        )
        for node, below, contains in lines
    ]


def _branches_below(tree: Tree, node: int, depth: int, deepest: int) -> Iterator[tuple[int, int, int]]:
    children = tree.children(node)
    yield node, depth, len(children)
    if depth + 1 < deepest:
        for child in children:
            yield from _branches_below(tree, child, depth + 1, deepest)


def _without_name(abstract: str) -> str:
    return abstract.partition(": ")[2] or abstract
