"""Edges from directories to their contents."""

from langchain_core.documents import Document

from langchain_hybridgraph.ingestion.edges.metadata import HierarchyEdges
from tests.support.samples.edge_documents import page, stored


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


def test_the_first_page_represents_the_file():
    """If several Documents have one uri, only the first chunk of the first one is in the directory."""
    assert contains(page("one", "d/a.pdf"), page("two", "d/a.pdf")) == {("d", "d/a.pdf#0")}


def test_documents_without_uri_are_in_no_hierarchy():
    """A document without a uri is not in any directory."""
    assert contains(Document(page_content="x", metadata={"source": "a/b"})) == set()
