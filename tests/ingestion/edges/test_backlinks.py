from functools import partial

import pytest
from held import changes, rows_about
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, LinkEdges
from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
from langchain_hybridgraph.ingestion.splitters import RecursiveSplitter
from langchain_hybridgraph.records import Chunk, Edge

ingest = partial(ingest_documents, split=RecursiveSplitter(join_sections=False))  # each section is a chunk
B = "first\n\n## Two\n\nsecond"


def page(text, source):
    return Document(text, metadata={"source": source})


def targets(store, *sources):
    return sorted(edge.target for edge in store.edges(sources) if edge.relation == "references")


@pytest.fixture
def linked():
    """A store with a.md, which links to the section Two of b.md, and b.md."""
    store = HybridGraphStore(None)
    again(store, page("see [the b](b.md#two)", "a.md"), page(B, "b.md"))
    return store


def again(store, *pages, **options):
    """Ingest these pages alone; returns where the links of a.md lead then."""
    ingest(pages, store, edges=[LinkEdges()], **options)
    return targets(store, "a.md#0")


def test_a_link_to_a_section_that_goes_leads_to_the_document(linked):
    """The document is ingested alone without the heading, and with it again: the edge follows."""
    assert targets(linked, "a.md#0") == ["b.md#two"]
    assert again(linked, page("first\n\n## Three\n\nthird", "b.md")) == ["b.md#0"]
    (edge,) = linked.edges(["a.md#0"])
    assert (edge.weight, edge.description) == (1.0, "a.md links to b.md as “the b”.")
    assert again(linked, page(B, "b.md")) == ["b.md#two"]


def test_a_link_comes_back_with_the_document(linked):
    """After a deletion nothing is left of the document, and the link is there again when it comes alone."""
    linked.delete(document="b.md")
    assert targets(linked, "a.md#0") == []
    assert rows_about(linked, "b.md#two") == rows_about(linked, "b.md#0") == 0
    assert again(linked, page("other", "c.md")) == []
    assert again(linked, page(B, "b.md")) == ["b.md#two"]


def test_a_wiki_link_comes_back_with_the_document():
    """Links by title and by file name are updated, too, in any case."""
    store = HybridGraphStore(None)
    again(store, page("[[cee]] [[My notes]]", "a.md"), page("# Cee\n\nx", "p/c.md"), page("x", "p/My_Notes.md"))
    for name, text in (("p/c.md", "# Cee\n\nnew"), ("p/My_Notes.md", "new")):
        store.delete(document=name)
        assert again(store, page(text, name)) == ["p/My_Notes.md#0", "p/c.md#0"]


def test_a_link_that_waits_goes_to_its_section_or_its_title():
    """A missing target is found when it is added, by its id, by its section and by its title."""
    store = HybridGraphStore(None)
    assert again(store, page("[b](b.md#two) [[Cee]]", "a.md")) == ["Cee#0", "b.md#0"]
    assert again(store, page(B, "b.md")) == ["Cee#0", "b.md#two"]
    assert again(store, page("# Cee\n\nx", "p/c.md")) == ["b.md#two", "p/c.md#0"]
    assert store.admin.check().ok


def test_a_new_heading_is_what_older_links_meant(linked):
    """A link to a heading that comes later leads to the document until then."""
    assert again(linked, page("see [the b](b.md#three)", "a.md")) == ["b.md#0"]
    assert again(linked, page(B + "\n\n## Three\n\nthird", "b.md")) == ["b.md#three"]


def test_a_link_follows_its_heading_from_chunk_to_chunk():
    """The heading is inside one chunk, then begins another, then is inside one again that is named by its text."""
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
        (found,) = again(store, page(text, "b.md"), split=split)
        assert found == expected or expected in store.get([found])[0].text


def test_edges_that_are_no_links_stay_when_a_document_is_read_again(linked):
    """Edges of the same relation from elsewhere, and links to other documents, are left as they are."""
    again(linked, page("[the b](b.md#two) [d](d.md)", "a.md"), page(B + "\n\n## Three\n\nthird", "b.md"))
    own = Edge("a.md#0", "b.md#three", "references", 0.3, "Said by hand.")
    linked.upsert([], edges=[own])
    assert again(linked, page("first\n\n## Three\n\nthird", "b.md")) == ["b.md#0", "b.md#three", "d.md#0"]
    assert own in linked.edges(["a.md#0"])


def test_links_to_other_documents_are_not_changed(linked):
    """A text that has the name of a new document and links elsewhere gets no edge, nor does an ambiguous title."""
    again(linked, page("c.md and [[Same]], [b](b.md)", "a.md"), page("# Same\n\nx", "p/1.md"))
    assert again(linked, page("x", "c.md")) == ["b.md#0", "p/1.md#0"]
    assert again(linked, page("# Same\n\nx", "p/2.md")) == ["b.md#0", "p/1.md#0"]


def test_chunks_with_their_own_ids_are_linked_again():
    """Documents that were added as chunks are read again chunk by chunk, with the links in their metadata."""
    store, edges = HybridGraphStore(None), [LinkEdges()]
    linking = [Chunk(id, "text", {"links": [to]}, "paper") for id, to in (("p1", "x"), ("p2", "Wheels"))]
    ingest(linking, store, split=None, edges=edges)
    assert targets(store, "p1", "p2") == ["Wheels", "x"]
    ingest([Chunk("w", "text", {"title": "Wheels"}, "w")], store, split=None, edges=edges)
    assert [(edge.source, edge.target) for edge in store.edges(["p1", "p2"])] == [("p1", "x"), ("p2", "w")]


def test_unchanged_documents_are_not_looked_up(linked):
    """Documents that are ingested again without a change write nothing."""
    before = changes(linked)
    again(linked, page(B, "b.md"))
    assert changes(linked) == before
