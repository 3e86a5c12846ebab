import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.splitting import Cutter, RecursiveSplitter, as_splitter


def id_of(document):
    return Cutter(None, print).cut(document).id


def document(text, id=None, **metadata):
    return Document(page_content=text, metadata=metadata, id=id)


def cut(text, splitter=None, **metadata):
    return Cutter(splitter or RecursiveSplitter(join_sections=False), print).cut(document(text, **metadata))


def ids(text, **metadata):
    return [chunk.id for chunk in cut(text, **metadata).chunks]


def test_the_order_of_names():
    """The id of a document is its document_id, its id, its source or a hash of its content, in this order of
    preference.
    """
    assert id_of(document("t", "b", document_id="a", source="c")) == "a"
    assert id_of(document("t", "b", source="c")) == "b"
    assert id_of(document("t", source="c")) == "c"
    assert id_of(document("t")) == id_of(document("t")) != id_of(document("u"))
    assert id_of(document("t", document_id=7)) == "7"


def test_ids_consist_of_document_and_heading():
    """The first chunk of a document is #0, and the first chunk below a heading has the heading's anchor."""
    assert ids("hello\n\n## Install it\n\na\n\n## Use\n\nb", source="a.md") == ["a.md#0", "a.md#install-it", "a.md#use"]


def test_chunks_of_any_splitter_have_anchors():
    """A piece from a LangChain splitter has the anchors inside it; where two pieces overlap, the later one has them."""
    splitters = pytest.importorskip("langchain_text_splitters")
    theirs = splitters.RecursiveCharacterTextSplitter(chunk_size=34, chunk_overlap=10)
    document_cut = cut("## First\n\none two three\n\n## Next\n\nfour", as_splitter(theirs), source="a.md")
    assert [(chunk.text, chunk.metadata.get("anchors")) for chunk in document_cut.chunks] == [
        ("## First\n\none two three\n\n## Next", ["first"]),
        ("## Next\n\nfour", ["next"]),
    ]


def test_links_are_found_in_the_full_text():
    """A chunk has the links that start in it, even if the definition of a link is in another chunk."""
    text = "[one][ref] and\n\n```\n[no](no.md)\n\n[no](no.md)\n```\n\n[two](two.md)\n\n[ref]: one.md"
    document_cut = cut(text, RecursiveSplitter(4, 0), source="a.md")
    assert len(document_cut.chunks) == 3
    assert [link.target for links in document_cut.links.values() for link in links] == ["one.md", "two.md"]


def test_other_ids_are_hashes_of_the_text():
    """The id of a chunk without its own anchor is made from its text, even below repeated headings."""
    first = ids("x\n\n## Returns\n\na\n\n## Returns\n\nb", source="a.md")
    later = ids("x, changed\n\n## Returns\n\na\n\n## New\n\nn\n\n## Returns\n\nb", source="a.md")
    assert first[0] == later[0] == "a.md#0"
    assert [first[1], first[2]] == [later[1], later[3]]


def test_chunks_inherit_metadata():
    """A chunk has its document's metadata, and document_id, chunk_index, start_index, title, heading and anchors."""
    chunk = cut("# T\n\n## H\n\ntext", source="a.md", labels=["x"], year=2024).chunks[0]
    assert chunk.metadata == {
        "source": "a.md",
        "labels": ["x"],
        "year": 2024,
        "title": "T",
        "section_heading": "H",
        "start_index": 0,
        "anchors": ["t", "h"],
        "document_id": "a.md",
        "chunk_index": 0,
    }


def test_the_parts_of_one_document_are_numbered_consecutively():
    """Documents that share a source form one document, with consecutive chunk indexes and distinct chunk ids."""
    cutter = Cutter(RecursiveSplitter(), print)
    pages = [cutter.cut(document(f"## Page\n\ntext {n % 2}", source="a.pdf", page=n)) for n in range(3)]
    chunks = [chunk for page in pages for chunk in page.chunks]
    assert [chunk.metadata["chunk_index"] for chunk in chunks] == [0, 1, 2]
    assert len({chunk.id for chunk in chunks}) == 3
    assert [page.continues for page in pages] == [False, True, True]


def test_the_last_document_with_an_id_is_used():
    """A second Document with the same id replaces the first and gives a warning."""
    notes = []
    cutter = Cutter(RecursiveSplitter(), notes.append)
    first, second = (cutter.cut(document(text, "x")) for text in ("old", "new"))
    assert (first.chunks[0].id, second.chunks[0].id) == ("x#0", "x#0")
    assert not second.continues
    assert notes == ["several documents have the id 'x': the last one counts"]


def test_without_a_splitter_documents_stay_as_they_are():
    """With split=None, a document keeps its id, text and metadata; a missing id becomes a hash of text and source."""
    cutter = Cutter(None, print)
    (only,) = cutter.cut(document("text", "my/id", source="a", page=3)).chunks
    assert (only.id, only.text, only.metadata) == ("my/id", "text", {"source": "a", "page": 3})
    assert only.document == "my/id"
    (one,) = cutter.cut(document("text", source="a")).chunks
    (two,) = cutter.cut(document("text", source="b")).chunks
    assert one.id != two.id
    assert one.document == "a"


def test_chunks_are_not_split():
    """A Chunk is not split or changed by any splitter."""
    chunk = Chunk("c", "## not\n\n## split", {"document_id": "d"}, parent_id="p")
    document_cut = Cutter(RecursiveSplitter(), print).cut(chunk)
    assert (document_cut.chunks, document_cut.id) == ((chunk,), "d")


def test_other_objects_are_errors():
    """An object that is not a document raises ConfigurationError, which names its type and the expected attribute."""
    with pytest.raises(ConfigurationError, match=r"not dict.*page_content"):
        Cutter(RecursiveSplitter(), print).cut({"text": "x"})


@given(st.lists(st.text(alphabet="ab .\n#", max_size=60), min_size=1, max_size=6), st.integers(2, 20))
def test_ids_are_unique_and_repeatable(texts, size):
    """For any parts of a document, all chunk ids are distinct and the same in every run."""

    def run():
        cutter = Cutter(RecursiveSplitter(size, 1), print)
        return [chunk.id for text in texts for chunk in cutter.cut(document(text, source="s")).chunks]

    documents = run()
    assert len(set(documents)) == len(documents)
    assert documents == run()
