"""Edges from links to their targets."""

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.edges.links import CitationEdges, LinkEdges
from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter
from tests.support.samples.edge_documents import ingest, page, stored


def references(*documents, store=None, **options):
    return stored(documents, [LinkEdges()], store, **options).links("references")


def targets(store, *sources):
    return sorted(edge.target for edge in store.edges(sources) if edge.relation == "references")


def test_links_forward_and_backward():
    """A link becomes an edge whether its target is ingested before or after it."""
    assert references(page("[b](b.md)", "a.md"), page("[a](a.md)", "b.md"), batch_size=1) == {
        ("a.md#0", "b.md#0"),
        ("b.md#0", "a.md#0"),
    }


def test_a_link_leads_from_its_chunk_to_the_heading():
    """A link with an anchor leads from the chunk that contains it to the chunk below the linked heading."""
    one = page("hello\n\n## See\n\n[x](../c/b.md#how-to)", "docs/a/one.md")
    two = page("hello\n\n## How to\n\ndo", "docs/c/b.md")
    assert references(one, two) == {("docs/a/one.md#see", "docs/c/b.md#how-to")}


def test_links_lead_to_ids_of_headings():
    """Links find ids in attributes and ids made from headings, for any size of chunks."""
    links = (
        "[a](tutorial/body.md#import-field) [c](tutorial/body.md#use-it-now) [`d`][ref]\n\n"
        "[ref]: tutorial/body.md#second"
    )
    body = (
        "# Body { #body }\n\nintro\n\n## Import `Field` { #import-field }\n\na\n\n## Two { #second }\n\nb\n\n"
        "## Use it & now\n\nc"
    )
    edges = references(page(links, "index.md"), page(body, "tutorial/body.md"))
    assert edges == {("index.md#0", f"tutorial/body.md#{id}") for id in ("import-field", "use-it--now", "second")}
    store = HybridGraphStore(None)
    splitter = RecursiveSplitter(512, 0)  # all sections of the page are one chunk
    long = page(f"# First\n\n{'word ' * 390}\n\n{body}", "tutorial/body.md")
    ingest([page(links, "index.md"), long], store, split=splitter, edges=[LinkEdges()])
    (target,) = targets(store, "index.md#0")
    assert store.get([target])[0].metadata["anchors"] == ["body", "import-field", "second", "use-it--now"]


def test_anchors_inside_a_chunk_of_an_earlier_ingest():
    """A link finds an anchor inside a chunk of an earlier ingest."""
    store = HybridGraphStore(None)
    body = f"intro\n\n## Long\n\n{'word ' * 300}\n\n> ## Deep\n\nSee this."
    split = RecursiveSplitter(200, 0)
    ingest([page("x", "a.md"), page(body, "b.md")], store, split=split, edges=[LinkEdges()])
    ingest([page("[b](b.md#deep)", "a.md")], store, split=split, edges=[LinkEdges()])
    (target,) = targets(store, "a.md#0")
    assert "this." in store.get([target])[0].text


def test_anchors_within_a_document():
    """A link to a heading of the same document is an edge; a chunk never links to itself."""
    text = "[down](#below) [here](#0) [me](a.md)\n\n## Below\n\nx [up](a.md)"
    assert references(page(text, "a.md")) == {("a.md#0", "a.md#below"), ("a.md#below", "a.md#0")}


def test_percent_signs_and_published_names():
    """Links may encode a space as %20, name .html instead of .md, or name a folder instead of its README."""
    pages = [page("x", "my notes.md"), page("x", "sub/README.md"), page("[a](my%20notes.html) [b](sub/)", "a.md")]
    assert references(*pages) == {("a.md#0", "my notes.md#0"), ("a.md#0", "sub/README.md#0")}


def test_wiki_links_are_titles_or_file_names():
    """A wiki link leads to the only document with this title or file name in any case, or to none if there are two."""
    ada, notes = page("# Ada Lovelace\n\nx", "p/1.md"), page("x", "p/My_Notes.md")
    assert references(ada, notes, page("[[ada lovelace]] [[My notes|n]]", "a.md")) == {
        ("a.md#0", "p/1.md#0"),
        ("a.md#0", "p/My_Notes.md#0"),
    }
    twins = [page("# Same\n\nx", "p/1.md"), page("# Same\n\nx", "p/2.md")]
    assert ("a.md#0", "p/1.md#0") not in references(*twins, page("[[Same]]", "a.md"))


@pytest.mark.parametrize("link", ["Ada Lovelace", "ada lovelace", "ada Lovelace", "my notes", "1"])
def test_wiki_links_reach_documents_of_earlier_ingests(link):
    """A changed note that is ingested alone keeps its links by title and by file name."""
    store, others = HybridGraphStore(None), [page("# Ada Lovelace\n\nx", "p/1.md"), page("x", "p/My_Notes.md")]
    ingest([page(f"[[{link}]]", "a.md"), *others], store, edges=[LinkEdges()])
    before = targets(store, "a.md#0")
    ingest([page(f"now [[{link}]]", "a.md")], store, edges=[LinkEdges()])
    assert before == targets(store, "a.md#0") == ["p/My_Notes.md#0" if link == "my notes" else "p/1.md#0"]


def test_a_wiki_link_to_a_heading_of_an_earlier_document():
    """A wiki link with a heading leads to this section of an earlier document, and its description has the title."""
    store = HybridGraphStore(None)
    ingest([page("# Cee\n\nx\n\n## Two\n\ny", "notes/c.md")], store, edges=[LinkEdges()])
    ingest([page("[[Cee#Two]]", "a.md")], store, edges=[LinkEdges()])
    (edge,) = store.edges(["a.md#0"])
    assert (edge.target, edge.description) == ("notes/c.md#two", "a.md links to Cee.")


def test_an_ambiguous_title_of_earlier_documents_is_not_resolved():
    """A wiki link by a title that two earlier documents have leads to neither of them."""
    store = HybridGraphStore(None)
    ingest([page("# Same\n\nx", "p/1.md"), page("# Same\n\nx", "p/2.md")], store, edges=[LinkEdges()])
    ingest([page("[[Same]]", "a.md")], store, edges=[LinkEdges()])
    assert targets(store, "a.md#0") == ["Same#0"]


def test_links_metadata_names_ids_urls_and_titles():
    """The metadata field ``links`` may contain ids, URLs and titles; its edges start at the document's first chunk."""
    pages = [page("x", "s1", id="one"), page("x", "https://x.org/two"), page("# Three\n\nx", "s3")]
    source = page("a\n\n## B\n\nb", "a.md", links=["one", "https://x.org/two", "Three"])
    assert references(*pages, source) == {("a.md#0", "one#0"), ("a.md#0", "https://x.org/two#0"), ("a.md#0", "s3#0")}


def test_source_and_uri_identify_a_document():
    """Links find a document by its source or uri, even if its id is different."""
    two = page("x", "s.md", id="one", uri="docs/u.md")
    assert references(two, page("[s](s.md)", "a.md")) == {("a.md#0", "one#0")}
    assert references(two, page("[u](docs/u.md)", "b.md")) == {("b.md#0", "one#0")}


def test_kept_ids_can_be_linked():
    """With split=None, an id in ``links`` means the chunk with this id."""
    links = {"a": ["b"], "b": [], "c": ["a"]}
    chunks = [Document(page_content="t", id=id, metadata={"links": ids}) for id, ids in links.items()]
    assert references(*chunks, split=None) == {("a", "b"), ("c", "a")}


def test_a_link_to_a_missing_document_is_pending():
    """A relative link to a missing document is an edge that becomes valid once the document is ingested."""
    store = stored([page("[b](b.md)", "a.md")], [LinkEdges()])
    assert store.links("references") == {("a.md#0", "b.md#0")}
    stored([page("text", "b.md")], [LinkEdges()], store)
    assert store.chunks.keys() >= {"b.md#0"}
    assert store.links("references") == {("a.md#0", "b.md#0")}


def test_links_without_pending_edges():
    """Links to the web, images and parent folders get no edges."""
    text = "[w](https://x.org/b) [i](b.png) [m](mailto:a@b.c) [u](..) :func:`f`"
    assert references(page(text, "a.md")) == set()


@pytest.mark.parametrize("link", ["[x](b%00.md)", "[[a\0]]", "[[\ud800]]", "[[ ]]", "[[#x]]", "[x](%ED%A0%80.md)"])
def test_invalid_links_do_not_fail(link):
    """A link whose target cannot be an id does not make an ingest fail."""
    store = HybridGraphStore(None)
    for name in ("a.md", "b.md"):
        ingest([page(f"text {link}", name)], store, edges=[LinkEdges()])
    assert store.document_ids() == ["a.md", "b.md"]


def test_links_reach_documents_of_earlier_ingests():
    """A link finds a document of an earlier ingest and its headings."""
    store = stored([page("a\n\n## Use\n\nb", "b.md")], [LinkEdges()])
    assert references(page("[u](b.html#use)", "a.md"), store=store) == {("a.md#0", "b.md#use")}


@pytest.mark.parametrize("builder", [LinkEdges(), CitationEdges("links", "references")], ids=["links", "citations"])
@pytest.mark.parametrize("name", ["s.md", "docs/u.md", "doi:10.1000/X1", "10.1000/x1"])
def test_other_names_of_documents_of_earlier_ingests(builder, name):
    """An entry of ``links`` finds a document of an earlier ingest by its source, uri or DOI."""
    store = HybridGraphStore(None)
    ingest([page("x", "s.md", id="one", uri="docs/u.md", doi="10.1000/x1")], store, edges=[LinkEdges()])
    ingest([page("x", "a.md", links=[name])], store, edges=[builder])
    assert targets(store, "a.md#0") == ["one#0"]


def test_chunks_with_their_own_ids_are_found_later():
    """An entry of ``links`` finds a chunk of an earlier ingest by the id that the user chose."""
    store = HybridGraphStore(None)
    ingest([Chunk(id, "text", {}, "paper") for id in ("p1", "p2")], store, split=None, edges=[LinkEdges()])
    ingest([page("x", "a.md", links=["p2"])], store, edges=[LinkEdges()])
    assert targets(store, "a.md#0") == ["p2"]


def test_documents_of_kept_chunks_are_found_later():
    """A link to a document whose chunks have their own ids leads to the first of them."""
    chunks = [Chunk(id, "text", {"document_id": "paper"}) for id in ("p2", "p1")]
    store = stored(chunks, [LinkEdges()])
    assert references(page("x", "a.md", links=["paper"]), store=store) == {("a.md#0", "p1")}
    same_run = [*chunks, Document(page_content="x", metadata={"source": "a.md", "links": ["paper"]})]
    assert references(*same_run) == {("a.md#0", "p2")}


def test_the_description_of_a_link_edge():
    """The description of a link is one sentence with both titles."""
    store = stored([page("# Guide\n\n[the steps](b.md)", "a.md"), page("# Install\n\nx", "b.md")], [LinkEdges()])
    (edge,) = store.edges.values()
    assert edge.description == "Guide links to Install."
