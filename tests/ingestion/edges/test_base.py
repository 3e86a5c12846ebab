"""Edge builders in combination."""

from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet
from langchain_hybridgraph.ingestion.edges.links import LinkEdges
from langchain_hybridgraph.ingestion.edges.sequence import HierarchyEdges, SequenceEdges
from langchain_hybridgraph.ingestion.splitting import CutDocument
from langchain_hybridgraph.records import Edge
from tests.support.samples.edge_documents import ingest, page, stored


def test_a_builder_can_be_used_again():
    """A builder that is used for a second ingest adds no edges from the first one."""
    links, tree, sequence = LinkEdges(), HierarchyEdges(), SequenceEdges()
    stored([page("# T\n\nx", "d/a.md")], [links, tree, sequence])
    other = stored([page("[[T]] [a](a.md)", "e/b.md")], [links, tree, sequence])
    assert not any("d/" in end for key in other.edges for end in key)


def test_builders_stay_within_a_tenant(tmp_path):
    """Edges never lead to another tenant's chunks, even if values, titles and vectors are equal."""
    builders = [{"type": "metadata", "keys": ["author"]}, "citations", "similarity"]
    for tenant, id in (("one", "a"), ("two", "b")):
        with HybridGraphStore(tmp_path / "index", DeterministicFakeEmbedding(size=4), tenant=tenant) as store:
            chunk = Chunk(id, "the same text", {"author": "Ada", "citations": ["Title"], "title": "Title"}, id)
            ingest([chunk], store, split=None, edges=builders)
            assert store.edges(["a", "b"]) == []


class FirstChunkEdges(EdgeBuilder):
    """Edges from the first chunk of each document to all others."""

    relations = ("begins",)

    def see(self, document):
        first, *others = [chunk.id for chunk in document.chunks]
        yield EdgeSet([Edge(first, other, "begins") for other in others], [first])


def test_a_builder_needs_one_method():
    """A subclass of EdgeBuilder with its relations and one method is a complete builder."""
    store = HybridGraphStore(None, DeterministicFakeEmbedding(size=4))
    chunks = (Chunk("d#0", "One.", {}, "d"), Chunk("d#1", "Two.", {}, "d"))
    ingest([CutDocument("d", {}, chunks)], store, edges=[FirstChunkEdges()])
    assert [(edge.source, edge.relation, edge.target) for edge in store.edges(["d#0"])] == [("d#0", "begins", "d#1")]
