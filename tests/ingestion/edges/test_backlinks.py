from functools import partial

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, LinkEdges
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter

ingest = partial(ingest_documents, split=RecursiveSplitter(join_sections=False))  # each section is a chunk
B = "first\n\n## Two\n\nsecond"


def page(text, source):
    return Document(text, metadata={"source": source})


def targets(store, *sources):
    return sorted(edge.target for edge in store.edges(sources) if edge.relation == "references")


@pytest.fixture
def linked():
    """Return a store with two pages: a.md, which links to section Two of b.md, and b.md."""
    store = HybridGraphStore(None)
    again(store, page("see [the b](b.md#two)", "a.md"), page(B, "b.md"))
    return store


def again(store, *pages, **options):
    """Ingest only these pages, and return the targets of the links of a.md."""
    ingest(pages, store, edges=[LinkEdges()], **options)
    return targets(store, "a.md#0")


def test_a_link_to_a_removed_section_leads_to_the_document(linked):
    """An edge leads to the document while the linked heading is missing, and to the section when it is back."""
    assert targets(linked, "a.md#0") == ["b.md#two"]
    assert again(linked, page("first\n\n## Three\n\nthird", "b.md")) == ["b.md#0"]
    (edge,) = linked.edges(["a.md#0"])
    assert (edge.weight, edge.description) == (1.0, "a.md links to b.md.")
    assert again(linked, page(B, "b.md")) == ["b.md#two"]


def test_a_link_follows_its_heading_from_chunk_to_chunk():
    """An edge follows its heading from the middle of one chunk to the start of another and back."""
    store, split = HybridGraphStore(None), RecursiveSplitter(40, 0)
    filler = " ".join(["word"] * 20) + "."  # 26 tokens
    inside = f"{filler}\n\n{filler}\n\n## One\n\nx\n\n## Two\n\ny"
    again(store, page("see [the b](b.md#two)", "a.md"), page(inside, "b.md"), split=split)
    for text, expected in (
        (inside, "b.md#one"),
        (inside.replace("x", filler), "b.md#two"),
        (inside, "b.md#one"),
        (inside.replace("## One", "One").replace("x", "x and more"), "Two"),
        (inside, "b.md#one"),
    ):
        (edge,) = again(store, page(text, "b.md"), split=split)
        assert edge == expected or expected in store.get([edge])[0].text


def test_chunks_with_their_own_ids_are_linked_again():
    """Links in the metadata of chunks with their own ids are updated, chunk by chunk."""
    store, edges = HybridGraphStore(None), [LinkEdges()]
    linking = [Chunk(id, "text", {"links": [to]}, "paper") for id, to in (("p1", "x"), ("p2", "Wheels"))]
    ingest(linking, store, split=None, edges=edges)
    assert targets(store, "p1", "p2") == ["Wheels", "x"]
    ingest([Chunk("w", "text", {"title": "Wheels"}, "w")], store, split=None, edges=edges)
    assert [(edge.source, edge.target) for edge in store.edges(["p1", "p2"])] == [("p1", "x"), ("p2", "w")]
