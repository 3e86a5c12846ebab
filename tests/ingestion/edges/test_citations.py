import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import CitationEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.store_contents import all_edges, memory, pairs

DOI = "10.1112/plms/s2-42.1.230"


def paper(id, *citations, **metadata):
    return Chunk(id, "1 0 | text", {"citations": list(citations), **metadata}, id)


def cited(store, *papers, **options):
    ingest(papers, store, split=None, edges=[CitationEdges(**options)])
    return pairs(store)


def test_by_id_title_doi_source_and_uri():
    """A document can be cited by its id, title, DOI, source or uri, even if it is ingested later."""
    new = paper("new", "one", "the second  paper", f"doi:{DOI.upper()}", "four.pdf", "https://x.org/5")
    old = [paper("one"), paper("two", title="The Second Paper"), paper("three", doi=f"https://doi.org/{DOI}")]
    more = [paper("four", source="four.pdf"), paper("five", uri="https://x.org/5")]
    assert cited(memory(), new, *old, *more) == {("new", id) for id in ("one", "two", "three", "four", "five")}


def test_cited_documents_of_earlier_ingests():
    """Documents of an earlier ingest can be cited by id, title and DOI."""
    store = memory()
    cited(store, paper("one"), paper("two", title="The Second Paper"), paper("three", doi=DOI))
    assert cited(store, paper("new", "one", "The Second Paper", f"https://dx.doi.org/{DOI}")) == {
        ("new", id) for id in ("one", "two", "three")
    }


@pytest.mark.parametrize("name", ["two", "The Second Paper", f"https://doi.org/{DOI.upper()}", "two.pdf"])
def test_citations_of_later_documents(name):
    """A citation of a missing document leads to it once it is ingested, without a pending edge."""
    store = memory()
    cited(store, paper("one", name))
    assert cited(store, paper("two", title="The Second Paper", doi=DOI, source="two.pdf")) == {("one", "two")}
    assert all_edges(store)["one", "two", "cites"].weight == 1


def test_pending_citations_of_split_documents():
    """A pending edge is redirected to the first chunk of a split document."""
    store = memory()
    for document in (
        Document("1 0 | a", metadata={"source": "a", "citations": ["b", DOI]}),
        Document("1 0 | b", id="b"),
    ):
        ingest([document], store, edges=[CitationEdges()])
    ingest([Document("1 0 | c", id="c", metadata={"doi": DOI})], store, edges=[CitationEdges()])
    assert pairs(store) == {("a#0", "b#0"), ("a#0", "c#0")}


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


def test_a_store_that_cannot_be_read():
    """In a store that only accepts chunks, citations by id lead to earlier documents as well."""
    store = MemoryStore()
    ingest([paper("b")], store, split=None, edges=None)
    ingest([paper("a", "b", "C paper"), paper("c", title="C paper")], store, split=None, edges=[CitationEdges()])
    assert store.links("cites") == {("a", "b"), ("a", "c")}


def test_an_empty_field_is_refused():
    """An empty field name raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match="field"):
        CitationEdges("")
