"""Edges from links and citations to their targets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.edges.links import CitationEdges, LinkEdges, candidates
from langchain_hybridgraph.ingestion.markdown import find_definitions, find_links, split_fragment
from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter
from tests.support.samples.edge_documents import ingest, page, stored
from tests.support.stores.store_contents import all_edges, memory, pairs


def references(*documents, store=None, **options):
    return stored(documents, [LinkEdges()], store, **options).links("references")


def targets(store, *sources):
    return sorted(edge.target for edge in store.edges(sources) if edge.relation == "references")


def test_a_link_leads_from_its_chunk_to_the_heading():
    """A link with an anchor leads from the chunk that contains it to the chunk below the linked heading."""
    one = page("hello\n\n## See\n\n[x](../c/b.md#how-to)", "docs/a/one.md")
    two = page("hello\n\n## How to\n\ndo", "docs/c/b.md")
    assert references(one, two) == {("docs/a/one.md#see", "docs/c/b.md#how-to")}


def test_links_lead_to_ids_of_headings():
    """Links find ids in attributes and ids made from headings, for any size of chunks."""
    links = (
        "[a](tutorial/body.md#import-field) [c](tutorial/body.md#use-it-now) [`d`][r]\n\n[r]: tutorial/body.md#second"
    )
    body = "# Body { #body }\n\nintro\n\n## Import `Field` { #import-field }\n\na\n\n## Two { #second }\n\nb\n\n"
    body += "## Use it & now\n\nc"
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
    pages = [page("x", "my o\u0308.md"), page("x", "sub/README.md"), page("[a](my%20\u00f6.html) [b](sub/)", "a.md")]
    assert references(*pages) == {("a.md#0", "my o\u0308.md#0"), ("a.md#0", "sub/README.md#0")}


def test_wiki_links_are_titles_or_file_names():
    """A wiki link leads to the only document with this title or file name in any case, or to none if there are two."""
    ada, notes = page("# Ada Lovelace\n\nx", "p/1.md"), page("x", "p/My_Notes.md")
    expected = {("a.md#0", "p/1.md#0"), ("a.md#0", "p/My_Notes.md#0")}
    assert references(ada, notes, page("[[ada lovelace]] [[My notes|n]]", "a.md")) == expected
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


def test_a_link_to_a_missing_document_is_pending():
    """A relative link to a missing document is an edge that becomes valid once the document is ingested."""
    store = stored([page("[b](b.md)", "a.md")], [LinkEdges()])
    assert store.links("references") == {("a.md#0", "b.md#0")}
    stored([page("text", "b.md")], [LinkEdges()], store)
    assert store.chunks.keys() >= {"b.md#0"}
    assert store.links("references") == {("a.md#0", "b.md#0")}


def test_links_without_pending_edges():
    """Links to the web, images and parent folders get no edges."""
    assert references(page("[w](https://x.org/b) [i](b.png) [m](mailto:a@b.c) [u](..) :func:`f`", "a.md")) == set()


@pytest.mark.parametrize("link", ["[x](b%00.md)", "[[a\0]]", "[[\ud800]]", "[[ ]]", "[[#x]]", "[x](%ED%A0%80.md)"])
def test_invalid_links_do_not_fail(link):
    """A link whose target cannot be an id does not make an ingest fail."""
    store = HybridGraphStore(None)
    for name in ("a.md", "b.md"):
        ingest([page(f"text {link}", name)], store, edges=[LinkEdges()])
    assert store.document_ids() == ["a.md", "b.md"]


@pytest.mark.parametrize("builder", [LinkEdges(), CitationEdges("links", "references")], ids=["links", "citations"])
@pytest.mark.parametrize("name", ["s.md", "docs/\u00fc.md", "10.1000/x1"])
def test_other_names_of_documents_of_earlier_ingests(builder, name):
    """An entry of ``links`` finds a document of an earlier ingest by its source, uri or DOI."""
    store = HybridGraphStore(None)
    ingest([page("x", "s.md", id="one", uri="docs/u\u0308.md", doi="10.1000/x1")], store, edges=[LinkEdges()])
    ingest([page("x", "a.md", links=[name])], store, edges=[builder])
    assert targets(store, "a.md#0") == ["one#0"]


B = "first\n\n## Two\n\nsecond"


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


def test_chunks_with_their_own_ids_are_linked_again():
    """Links in the metadata of chunks with their own ids are updated, chunk by chunk."""
    store, edges = HybridGraphStore(None), [LinkEdges()]
    linking = [Chunk(id, "text", {"links": [to]}, "paper") for id, to in (("p1", "x"), ("p2", "R\u00e4der"))]
    ingest(linking, store, split=None, edges=edges)
    assert targets(store, "p1", "p2") == ["R\u00e4der", "x"]
    ingest([Chunk("w", "text", {"title": "Ra\u0308der"}, "w")], store, split=None, edges=edges)
    assert [(edge.source, edge.target) for edge in store.edges(["p1", "p2"])] == [("p1", "x"), ("p2", "w")]


DOI = "10.1112/plms/s2-42.1.230"


def paper(id, *citations, **metadata):
    return Chunk(id, "1 0 | text", {"citations": list(citations), **metadata}, id)


def cited(store, *papers, **options):
    ingest(papers, store, split=None, edges=[CitationEdges(**options)])
    return pairs(store)


def test_by_id_title_doi_source_and_uri():
    """A document can be cited by its id, title, DOI, source or uri, even if it is ingested later."""
    new = paper("new", "one", "the second  paper", DOI, "four.pdf", "https://x.org/5")
    old = [paper("one"), paper("two", title="The Second Paper"), paper("three", doi=DOI)]
    more = [paper("four", source="four.pdf"), paper("five", uri="https://x.org/5")]
    assert cited(memory(), new, *old, *more) == {("new", id) for id in ("one", "two", "three", "four", "five")}


@pytest.mark.parametrize("name", ["two", "The Second Paper", DOI, "two.pdf"])
def test_citations_of_later_documents(name):
    """A citation of a missing document leads to it once it is ingested, without a pending edge."""
    store = memory()
    cited(store, paper("one", name))
    assert cited(store, paper("two", title="The Second Paper", doi=DOI, source="two.pdf")) == {("one", "two")}
    assert all_edges(store)["one", "two", "cites"].weight == 1


def test_an_ambiguous_title_cites_nothing():
    """A title that two documents have cites neither of them, and no document cites itself."""
    papers = [paper("a", title="Same"), paper("b", title="Same"), paper("c", "Same", "c", title="C")]
    assert not {target for _, target in cited(memory(), *papers)} & {"a", "b", "c"}


@pytest.mark.parametrize("value", ["b", ["b", "b"], [{"title": "B paper"}], {"id": "b"}, [{"doi": DOI, "title": "?"}]])
def test_forms_of_the_field(value):
    """Citations may be a string, a list, or objects with an id, a DOI or a title."""
    store = memory()
    chunks = [Chunk("a", "1 0 | a", {"refs": value}, "a"), Chunk("b", "1 0 | b", {"title": "B paper", "doi": DOI}, "b")]
    assert cited(store, *chunks, field="refs", relation="quotes") == {("a", "b")}
    assert [edge.relation for edge in store.edges(["a"])] == ["quotes"]


@pytest.mark.parametrize("value", [None, [], "", " ", [None], {}, {"pages": 3}, "\ud800\0"])
def test_invalid_citations_do_not_fail(value):
    """Empty citations create no edge, and citations that cannot be ids do not make the ingest fail."""
    assert len(cited(memory(), Chunk("a", "1 0 | a", {"citations": value}, "a"))) <= 1


def parsed(text):
    return [(link.kind, link.target) for link in find_links(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](b.md)", [("path", "b.md")]),
        ('[a](b.md "the title")', [("path", "b.md")]),
        ("[a](<my notes.md>)", [("path", "my notes.md")]),
        ("[a](b_(c).md) and [d](e.md)", [("path", "b_(c).md"), ("path", "e.md")]),
        ("![image](a.png)", []),
        ("`[a](b.md)` and ``[c](d.md)``", []),
        ("```\n[a](b.md)\n```\n[c](d.md)", [("path", "d.md")]),
        ("<A class='x' HREF=\"a.html?x=1&amp;y=2\">", [("path", "a.html?x=1&y=2")]),
        ("[`a.b` *c*](d.md)", [("path", "d.md")]),
        ("[![logo](a.png)](b.md)", [("path", "b.md")]),
        ("[one][ref]\n\n[ref]: b.md#c 'title'", [("path", "b.md#c")]),
        ("::: note\n[a](b.md)\n:::", [("path", "b.md")]),
        ("    [code](no.md)", []),
        ("[[Ada Lovelace]] and [[Turing|him]]", [("wiki", "Ada Lovelace"), ("wiki", "Turing")]),
    ],
)
def test_links_of_all_kinds(text, expected):
    """Markdown, HTML and wiki links are found; images and code are not."""
    assert parsed(text) == expected


def test_references_use_the_definitions_of_the_document():
    """Reference links in all three forms lead to their definition, in any case; undefined ones are not links."""
    text = "[the guide][G], [g][], [g], [unknown]"
    definitions = find_definitions("x\n\n[G]: docs/a.md 'title'\n[g]: docs/later.md\n")
    assert {name: definition["href"] for name, definition in definitions.items()} == {"G": "docs/a.md"}
    assert [link.target for link in find_links(text, definitions)] == ["docs/a.md"] * 3


@given(st.text(alphabet="[]()<>`#|!:\"' ab\n./h", max_size=200))
def test_any_text_can_be_searched(text):
    """No text makes the link parser fail, and every target it finds can be resolved."""
    for link in find_links(text, find_definitions(text)):
        candidates(split_fragment(link.target)[0], "docs/a.md")
