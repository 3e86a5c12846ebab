"""Edges from metadata: shared values, the order of chunks, and directories."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph import MetadataEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.edges.metadata import HierarchyEdges, SequenceEdges
from langchain_hybridgraph.ingestion.splitting import CutDocument
from tests.support.samples.edge_documents import page, stored
from tests.support.stores.store_contents import all_edges, memory, pairs


def chunk(id, document=None, **metadata):
    return Chunk(id, "1 0 | text", metadata, document or id)


def edges_of(store, chunks, keys=("author",), **options):
    ingest(chunks, store, split=None, edges=[MetadataEdges(keys, **options)])
    return store


def test_equal_values_join_both_ways():
    """Two documents with the same author are connected in both directions, and the description names the author."""
    store = edges_of(
        memory(), [chunk("a", author="Ada Lovelace"), chunk("b", author="Ada Lovelace"), chunk("c", author="X")]
    )
    assert pairs(store) == {("a", "b"), ("b", "a")}
    edge = all_edges(store)["a", "b", "shares"]
    assert (edge.weight, edge.description) == (0.5, "Both have author Ada Lovelace.")


def test_list_values_match_by_any_element():
    """A value matches an element of a list, and two lists match if they have a common element."""
    lists = [chunk("a", labels=["x", "y"]), chunk("b", labels="x"), chunk("c", labels=["y", "z"])]
    assert pairs(edges_of(memory(), lists, ["labels"])) == {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}


def test_chunks_of_one_document_are_not_joined():
    """Every chunk of a document has an edge to the other document's first chunk, and none to its own document."""
    chunks = [chunk(f"{d}{n}", d, author="Ada", chunk_index=n) for d in "ab" for n in (1, 0)]
    assert pairs(edges_of(memory(), chunks)) == {("a0", "b0"), ("a1", "b0"), ("b0", "a0"), ("b1", "a0")}


def test_values_are_compared_as_in_filters():
    """The values 1 and 1.0 are equal but not true; missing, null and empty values, objects and NaN match nothing."""
    values = [1, 1.0, True, None, None, "", "", {"x": 1}, {"x": 1}, float("nan"), float("nan")]
    chunks = [chunk(f"c{n:02}", v=value) for n, value in enumerate(values)]
    assert pairs(edges_of(memory(), [*chunks, chunk("d"), chunk("e")], ["v"])) == {("c00", "c01"), ("c01", "c00")}


def test_a_common_value_stays_linear():
    """A value in 50 documents gives each of them 4 edges in a connected graph; a value in 5 connects all of them."""
    store = edges_of(memory(), [chunk(f"{n:02}", author="Ada") for n in range(50)])
    graph = nx.DiGraph(list(pairs(store)))
    assert set(dict(graph.out_degree()).values()) == {4}
    assert nx.is_strongly_connected(graph)
    assert len(pairs(edges_of(memory(), [chunk(str(n), author="Ada") for n in range(5)]))) == 20


def test_several_common_values_weigh_more():
    """Two common values of weight .5 give an edge of weight .75, whose description names both."""
    store = edges_of(memory(), [chunk(id, author="Ada", year=1843) for id in "ab"], ["author", "year"])
    edge = all_edges(store)["a", "b", "shares"]
    assert (edge.weight, edge.description) == (0.75, "Both have author Ada and year 1843.")


documents = st.dictionaries(
    st.sampled_from("abcdefghij"), st.lists(st.sampled_from(["x", "y", "z"]), max_size=2, unique=True), min_size=1
)


@given(st.lists(documents, min_size=1, max_size=4), st.integers(1, 4))
def test_one_by_one_equals_at_once(batches, n):
    """Documents that are added and changed in several ingests get the same edges as in one ingest of their final
    state.
    """
    store, whole, last = memory(), memory(), {}
    for batch in batches:
        edges_of(store, [chunk(id, v=values) for id, values in batch.items()], ["v"], per_value=n)
        last.update(batch)
    edges_of(whole, [chunk(id, v=values) for id, values in last.items()], ["v"], per_value=n)
    assert all_edges(store) == all_edges(whole)


@pytest.mark.parametrize("wrong", [{"keys": []}, {"keys": ["a"], "per_value": 0}, {"keys": ["a"], "weight": 0}])
def test_unusable_settings(wrong):
    """Missing keys, a per_value of 0 or a weight of 0 raise ConfigurationError."""
    with pytest.raises(ConfigurationError, match=list(wrong)[-1].rstrip("s")):
        MetadataEdges(**wrong)


def sequence(document):
    """Return the set of edges of a single document."""
    builder = SequenceEdges()
    builder.start(None)
    (edge_set,) = [*builder.see(document), *builder.finish()]
    return edge_set


def test_pin_neighbours_of_the_same_parent():
    """Chunks 0 and 1 of one parent and 2 and 3 of another give only the edges 0→1 and 2→3, with weight 1."""
    chunks = [
        Chunk(str(n), "text", {"document_id": "d", "chunk_index": n}, parent_id=p)
        for n, p in enumerate(["p1", "p1", "p2", "p2"])
    ]
    edge_set = sequence(CutDocument("d", {}, tuple(chunks)))
    assert [(e.source, e.target, e.relation, e.weight) for e in edge_set.edges] == [
        ("0", "1", "sequence", 1.0),
        ("2", "3", "sequence", 1.0),
    ]
    assert stored(chunks, [SequenceEdges()]).links("sequence") == {("0", "1"), ("2", "3")}


def test_chunk_index_determines_the_order():
    """The order of a document's chunks is their chunk_index, not the order of ingestion."""
    chunks = [Chunk(id, "t", {"document_id": "d", "chunk_index": n}) for id, n in (("b", 1), ("a", 0), ("c", 2))]
    edge_set = sequence(CutDocument("d", {}, tuple(chunks)))
    assert {(e.source, e.target) for e in edge_set.edges} == {("a", "b"), ("b", "c")}


@pytest.mark.parametrize(
    ("metadata", "indexes", "description"),
    [
        ({"title": "The guide"}, (3, 2), "In “The guide”, part 4 follows part 3."),
        ({}, (0, 7), "In “guide.md”, part 8 follows part 1."),
        ({}, (None, None), "In “guide.md”, part 2 follows part 1."),
    ],
)
def test_an_edge_names_the_document_and_the_positions(metadata, indexes, description):
    """The description of an edge has the document's title or id and both positions, counted from 1."""
    own = [{} if index is None else {"chunk_index": index} for index in indexes]
    chunks = tuple(Chunk(str(n), "text", each, "guide.md") for n, each in enumerate(own))
    edge_set = sequence(CutDocument("guide.md", metadata, chunks))
    assert [edge.description for edge in edge_set.edges] == [description]


def contains(*documents, store=None, **options):
    return stored(documents, [HierarchyEdges()], store, **options).links("contains")


def test_directories_contain_files_and_directories():
    """A directory has edges to its documents and subdirectories; the top directory has no parent."""
    assert contains(page("x", "docs/guide/a.md"), page("x", "docs/b.md"), page("x", "c.md")) == {
        ("docs", "docs/guide"),
        ("docs/guide", "docs/guide/a.md#0"),
        ("docs", "docs/b.md#0"),
    }


def test_a_document_can_be_a_directory():
    """A document whose uri is a directory replaces the directory's node, even if it is ingested last."""
    package = page("package", "f1", uri="python://asyncio")
    method = page("method", "f2", uri="python://asyncio/Queue/put")
    assert contains(method, package) == {
        ("f1#0", "python://asyncio/Queue"),
        ("python://asyncio/Queue", "f2#0"),
    }


def test_directories_of_earlier_ingests():
    """A directory from an earlier ingest is found if its document's id is its uri."""
    store = stored([page("package", "p", uri="p")], [HierarchyEdges()])
    assert contains(page("x", "p/a", uri="p/a"), store=store) == {("p#0", "p/a#0")}
    assert contains(page("x", "q", uri="q/r")) == set()  # q represents its directory
