"""Lookup of uris: paths, schemes and unknown uris."""

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.search.hierarchy import target_nodes

PAGES = ("docs/api/get.md", "docs/api/put.md", "docs/Guide.md", "web://Site/page", "a/x", "A/y")


def tree_of(*uris):
    store = HybridGraphStore(None, DeterministicFakeEmbedding(size=8))
    store.upsert([Chunk(uri, "text", {"uri": uri}, uri) for uri in uris])
    return store.scoped_tree(Scope())


def uris_of(tree, target):
    return [tree.uri(node) for node in target_nodes(tree, target)]


@pytest.mark.parametrize(
    ("target", "nodes"),
    [
        ("docs/api", ["docs/api"]),
        ("./docs//api/../api/", ["docs/api"]),
        ("/home/me/project/docs/api", ["docs/api"]),
        ("../elsewhere/docs/Guide.md", ["docs/Guide.md"]),
        ("a", ["a"]),
        ("A", ["A"]),
        ("./", ["A", "a", "docs", "web://Site"]),
        ("web://", ["web://Site"]),
    ],
)
def test_forms(target, nodes):
    """A target can be any path that ingest accepts; a dot means the top, and a scheme everything under it."""
    assert uris_of(tree_of(*PAGES), target) == nodes


def test_an_empty_tree():
    """The error for a target in an empty tree reports that the tree is empty."""
    with pytest.raises(ConfigurationError, match="the tree is empty"):
        uris_of(HybridGraphStore(None).scoped_tree(Scope()), "docs")
