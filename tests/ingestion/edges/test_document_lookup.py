"""Documents that a link can mean."""

import pytest

from langchain_hybridgraph.ingestion.edges.links import candidates


@pytest.mark.parametrize(
    ("path", "base", "first"),
    [
        ("b.md", "a.md", "b.md"),
        ("../b.md", "docs/guide/a.md", "docs/b.md"),
        ("./b.md", "docs/a.md", "docs/b.md"),
        ("/b.md", "docs/a.md", "b.md"),
        ("", "docs/a.md", "docs/a.md"),
        ("https://x.org/b", "docs/a.md", "https://x.org/b"),
        ("b", "https://x.org/docs/a", "https://x.org/docs/b"),
        ("../c/", "python://a/b/d", "python://a/c"),
    ],
)
def test_paths_are_read_from_their_document(path, base, first):
    """A path is relative to the folder of its document, even below a URL; an absolute path starts at the root."""
    assert candidates(path, base)[0] == first


def test_a_page_is_known_by_its_published_name():
    """A link to .html may mean the source file, and a link to a folder may mean a file or the folder's index."""
    assert "docs/b.md" in candidates("b.html", "docs/a.md")
    assert {"docs/b.md", "docs/b/index.md", "docs/b/README.md"} <= set(candidates("b/", "docs/a.md"))


def test_links_such_as_mailto_lead_to_no_document():
    """Links such as mailto: lead to no document."""
    assert [candidates(f"{scheme}:x", "a.md") for scheme in ("mailto", "javascript", "data")] == [[], [], []]
