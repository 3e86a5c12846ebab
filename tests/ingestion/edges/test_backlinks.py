from functools import partial

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, LinkEdges
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter
from langchain_hybridgraph.records import Edge
from tests.support.stores.store_contents import changes, rows_about

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
    assert (edge.weight, edge.description) == (1.0, "a.md links to b.md as “the b”.")
    assert again(linked, page(B, "b.md")) == ["b.md#two"]


def test_a_link_is_restored_with_the_document(linked):
    """Deleting a document deletes the edge to it; ingesting only that document again restores the edge."""
    linked.delete(document="b.md")
    assert targets(linked, "a.md#0") == []
    assert rows_about(linked, "b.md#two") == rows_about(linked, "b.md#0") == 0
    assert again(linked, page("other", "c.md")) == []
    assert again(linked, page(B, "b.md")) == ["b.md#two"]


def test_a_wiki_link_is_restored_with_the_document():
    """A link by title or file name is restored when only its target is ingested again."""
    store = HybridGraphStore(None)
    again(store, page("[[cee]] [[My notes]]", "a.md"), page("# Cee\n\nx", "p/c.md"), page("x", "p/My_Notes.md"))
    for name, text in (("p/c.md", "# Cee\n\nnew"), ("p/My_Notes.md", "new")):
        store.delete(document=name)
        assert again(store, page(text, name)) == ["p/My_Notes.md#0", "p/c.md#0"]


def test_a_pending_link_finds_its_section_or_title():
    """A link to a missing document by id, section or title becomes an edge when the document is added."""
    store = HybridGraphStore(None)
    assert again(store, page("[b](b.md#two) [[Cee]]", "a.md")) == ["Cee#0", "b.md#0"]
    assert again(store, page(B, "b.md")) == ["Cee#0", "b.md#two"]
    assert again(store, page("# Cee\n\nx", "p/c.md")) == ["b.md#two", "p/c.md#0"]
    assert store.admin.check().ok


def test_older_links_lead_to_a_new_heading(linked):
    """A link to a missing heading leads to the document until the heading is added."""
    assert again(linked, page("see [the b](b.md#three)", "a.md")) == ["b.md#0"]
    assert again(linked, page(B + "\n\n## Three\n\nthird", "b.md")) == ["b.md#three"]


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


def test_other_edges_stay_when_links_are_read_again(linked):
    """Updating links does not change edges of the same relation from other sources, or links to other documents."""
    again(linked, page("[the b](b.md#two) [d](d.md)", "a.md"), page(B + "\n\n## Three\n\nthird", "b.md"))
    own = Edge("a.md#0", "b.md#three", "references", 0.3, "Said by hand.")
    linked.upsert([], edges=[own])
    assert again(linked, page("first\n\n## Three\n\nthird", "b.md")) == ["b.md#0", "b.md#three", "d.md#0"]
    assert own in linked.edges(["a.md#0"])


def test_links_to_other_documents_are_not_changed(linked):
    """A new document gets no edge from a text that only mentions its name, or from a link by an ambiguous title."""
    again(linked, page("c.md and [[Same]], [b](b.md)", "a.md"), page("# Same\n\nx", "p/1.md"))
    assert again(linked, page("x", "c.md")) == ["b.md#0", "p/1.md#0"]
    assert again(linked, page("# Same\n\nx", "p/2.md")) == ["b.md#0", "p/1.md#0"]


def test_chunks_with_their_own_ids_are_linked_again():
    """Links in the metadata of chunks with their own ids are updated, chunk by chunk."""
    store, edges = HybridGraphStore(None), [LinkEdges()]
    linking = [Chunk(id, "text", {"links": [to]}, "paper") for id, to in (("p1", "x"), ("p2", "Wheels"))]
    ingest(linking, store, split=None, edges=edges)
    assert targets(store, "p1", "p2") == ["Wheels", "x"]
    ingest([Chunk("w", "text", {"title": "Wheels"}, "w")], store, split=None, edges=edges)
    assert [(edge.source, edge.target) for edge in store.edges(["p1", "p2"])] == [("p1", "x"), ("p2", "w")]


def test_unchanged_documents_are_not_looked_up(linked):
    """Ingesting an unchanged document again writes nothing."""
    before = changes(linked)
    again(linked, page(B, "b.md"))
    assert changes(linked) == before
