"""Edges between neighbouring chunks."""

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.edges.metadata import SequenceEdges
from langchain_hybridgraph.ingestion.splitting import CutDocument, ParentChildSplitter, RecursiveSplitter
from tests.support.samples.edge_documents import page, stored


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


def test_without_parents_the_document_is_the_sequence():
    """Consecutive chunks of one document are connected; chunks of different documents are not."""
    store = stored([page("a\n\n## B\n\nb", "x"), page("c\n\n## D\n\nd", "y")], [SequenceEdges()])
    assert store.links("sequence") == {("x#0", "x#b"), ("y#0", "y#d")}


def test_chunk_index_determines_the_order():
    """The order of a document's chunks is their chunk_index, not the order of ingestion."""
    chunks = [Chunk(id, "t", {"document_id": "d", "chunk_index": n}) for id, n in (("b", 1), ("a", 0), ("c", 2))]
    edge_set = sequence(CutDocument("d", {}, tuple(chunks)))
    assert {(e.source, e.target) for e in edge_set.edges} == {("a", "b"), ("b", "c")}


def test_pages_follow_each_other():
    """The first chunk of a page follows the last chunk of the page before it."""
    pages = [Document(page_content=f"page {n}", metadata={"source": "a.pdf", "page": n}) for n in range(3)]
    store = stored(pages, [SequenceEdges()], batch_size=2)
    order = sorted(store.chunks.values(), key=lambda chunk: chunk.metadata["chunk_index"])
    assert store.links("sequence") == {(order[0].id, order[1].id), (order[1].id, order[2].id)}


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


def test_an_inserted_chunk_breaks_the_old_edge():
    """Inserting a chunk new between a and b replaces the edge a→b by a→new→b."""
    store = stored([page("a\n\n## B\n\nb", "x")], [SequenceEdges()])
    stored([page("a\n\n## N\n\nn\n\n## B\n\nb", "x")], [SequenceEdges()], store)
    assert store.links("sequence") == {("x#0", "x#n"), ("x#n", "x#b")}


def test_sequence_stays_within_parents_of_the_pipeline():
    """In a parent-child index, sequence edges connect only children of the same parent."""
    splitter = ParentChildSplitter(RecursiveSplitter(40, 0), RecursiveSplitter(15, 0))
    store = stored(
        [page("\n\n".join(["one two three four five six seven"] * 9), "x")], [SequenceEdges()], split=splitter
    )
    assert len(store.parents) > 1
    assert store.links("sequence")
    for source, target in store.links("sequence"):
        assert store.chunks[source].parent == store.chunks[target].parent
