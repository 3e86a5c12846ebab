"""Splitters, and the chunks made from their pieces."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion import ParentChildSplitter, RecursiveSplitter, SemanticSplitter
from langchain_hybridgraph.ingestion.splitting import Cutter, as_splitter
from langchain_hybridgraph.text.analyzer import token_weight
from tests.support.models.query_embeddings import QueryEmbeddings


def fail(note):
    raise AssertionError(note)


def split(splitter, text, note=fail, **metadata):
    return list(splitter.split(Document(page_content=text, metadata=metadata), note))


def texts(splitter, text, **metadata):
    return [piece.text for piece in split(splitter, text, **metadata)]


def sentence(number, words=9):
    return " ".join([f"S{number}"] + ["word"] * (words - 1)) + "."


prose = st.lists(
    st.sampled_from(
        ["word", "Longer", "end.", "Is", "it?", "- item", "\n", "\n\n", "# Head\n\n", "```\ncode\n```", "  "]
    ),
    max_size=120,
).map(" ".join)


# -- flat --------------------------------------------------------------------------------------------------------


def test_paragraphs_are_kept_whole_while_they_fit():
    """Complete paragraphs share a piece up to its size; the next paragraph starts a new piece."""
    paragraphs = [" ".join(["word"] * 30) for _ in range(3)]  # 39 tokens each
    assert texts(RecursiveSplitter(80, 0), "\n\n".join(paragraphs)) == ["\n\n".join(paragraphs[:2]), paragraphs[2]]


def test_the_overlap_is_whole_sentences_where_they_fit():
    """A piece starts with the last sentences of the previous piece, as many as fit into the overlap."""
    pieces = texts(RecursiveSplitter(36, 12), " ".join(sentence(n) for n in range(6)))
    assert pieces[0].startswith("S0")
    assert pieces[1].startswith("S2")
    assert pieces[0].endswith(sentence(2))


def test_small_sections_share_a_piece():
    """A section of less than half the size is joined with the next one if both fit; other sections are separate."""
    small, large = "## S\n\none two", f"## L\n\n{' '.join(['word'] * 8)}"  # 5.2 and 13 tokens with their headings
    splitter = RecursiveSplitter(20, 0)
    assert texts(splitter, f"{small}\n\n{large}\n\n{small}") == [f"{small}\n\n{large}", small]
    assert texts(splitter, f"{large}\n\n{large}") == [large, large]
    assert texts(splitter, "\n\n".join([small] * 4)) == ["\n\n".join([small] * 2)] * 2


@pytest.mark.parametrize("overlap", [0, 10])
def test_a_heading_stays_with_its_table(overlap):
    """A heading is in one piece with the first rows of a table that almost fills a piece."""
    rows = "".join(f"| part {row} | {row} EUR |\n" for row in range(12))
    text = f"# Guide\n\nShort.\n\n## All the parts\n\n| part | price |\n|---|---|\n{rows}"
    for size in range(40, 140):
        for splitter in (RecursiveSplitter(size, overlap), ParentChildSplitter(children=RecursiveSplitter(size, 0))):
            children = [child for piece in split(splitter, text) for child in piece.children or (piece,)]
            (with_heading,) = [child.text for child in children if "## All" in child.text]
            assert "| part 1 |" in with_heading


def test_comments_of_code_are_not_headings():
    """In a source file where # starts a comment, no line is a heading."""
    assert texts(RecursiveSplitter(), "# a\nx = 1\n# b\ny = 2", source="lib/x.py") == ["# a\nx = 1\n# b\ny = 2"]


def test_a_long_word_is_not_cut_and_a_blob_is():
    """A word may exceed the size of a piece, but a run that is too long to be a word is split."""
    assert texts(RecursiveSplitter(10, 0, counter=len), "abcdefghijklmnop qr") == ["abcdefghijklmnop", "qr"]
    assert max(map(len, texts(RecursiveSplitter(100, 0), "x" * 50_000))) <= 1_600


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1)])
def test_impossible_sizes(size, overlap):
    """A size that is not larger than the overlap, or a negative overlap, raises ConfigurationError at construction."""
    with pytest.raises(ConfigurationError, match=r"size must be|overlap must be"):
        RecursiveSplitter(size, overlap)
    with pytest.raises(ConfigurationError, match="percentile must be"):
        SemanticSplitter(None, percentile=250)


@given(prose, st.integers(4, 40), st.integers(0, 3))
def test_pieces_are_slices_that_cover_every_word(text, size, overlap):
    """Pieces are slices of the text in order; they cover every word, split none, and are not too large."""
    pieces = split(RecursiveSplitter(size, overlap), text)
    covered = set()
    for piece in pieces:
        assert text[piece.start : piece.start + len(piece.text)] == piece.text
        assert token_weight(piece.text) <= size
        covered.update(range(piece.start, piece.start + len(piece.text)))
    assert [p.start for p in pieces] == sorted(p.start for p in pieces)
    for word in re.finditer(r"\S+", text):
        assert covered.issuperset(range(*word.span()))
    edges = {edge for p in pieces for edge in (p.start, p.start + len(p.text))}
    assert not any(0 < e < len(text) and not text[e - 1].isspace() and not text[e].isspace() for e in edges)


@given(prose, prose, st.integers(4, 40))
def test_a_section_does_not_depend_on_the_text_before_it(before, text, size):
    """The pieces of a section do not depend on the text above its heading."""
    section = f"## Here\n\n{text}".replace("```", "")
    splitter = RecursiveSplitter(size, 2, join_sections=False)
    alone = texts(splitter, section)
    below = texts(splitter, before.replace("```", "") + "\n\nend of it\n" + section)
    assert below[-len(alone) :] == alone


# -- parents and children --------------------------------------------------------------------------------------------


def test_parents_hold_their_children():
    """Each child is a part of one parent, and the children equal the pieces of the child splitter alone."""
    text = "\n\n".join(" ".join(sentence(10 * p + n) for n in range(5)) for p in range(6))
    parents = split(ParentChildSplitter(RecursiveSplitter(400, 0, counter=len), RecursiveSplitter(30, 0)), text)
    assert len(parents) > 2
    for parent in parents:
        assert len(parent.children) > 1
        assert len(parent.text) <= 400
        for child in parent.children:
            assert child.text in parent.text
            assert text[child.start : child.start + len(child.text)] == child.text
    assert [child.text for parent in parents for child in parent.children] == texts(RecursiveSplitter(30, 0), text)


def test_the_default_parents_and_children_do_not_overlap():
    """By default, parents have up to 1,024 tokens, and children up to 256 tokens of one section."""
    children = RecursiveSplitter(256, 0, join_sections=False)
    assert ParentChildSplitter() == ParentChildSplitter(RecursiveSplitter(1024, 0), children)


def test_a_parent_of_several_sections_has_what_they_share():
    """The heading of a parent with several short sections is the common part of their paths."""
    (parent,) = split(ParentChildSplitter(), "# T\nx\n## A\n### B\nb\n### C\nc")
    assert "section_heading" not in parent.metadata
    assert [child.metadata.get("section_heading") for child in parent.children] == [None, "A > B", "A > C"]
    (inner,) = split(ParentChildSplitter(), "# T\n## A\n### B\nb\n### C\nc")
    assert inner.metadata["section_heading"] == "A"


def test_parents_and_children_by_any_splitters():
    """With other splitters, children are split from the parents, and their offsets refer to the full text."""
    text = "a ba a|cc dd|ee"
    pieces = split(ParentChildSplitter(lambda text: text.split("|"), str.split), text)
    assert [(p.text, p.start, [(c.text, c.start) for c in p.children]) for p in pieces] == [
        ("a ba a", 0, [("a", 0), ("ba", 2), ("a", 5)]),
        ("cc dd", 7, [("cc", 7), ("dd", 10)]),
        ("ee", 13, [("ee", 13)]),
    ]


# -- semantic ------------------------------------------------------------------------------------------------------


class Topics(QueryEmbeddings):
    """Embedding that gives texts about the same animal the same direction."""

    def embed_query(self, text):
        return [1.0, 0.1] if "cat" in text else [0.1, 1.0]


class Broken(Topics):
    def embed_documents(self, texts):
        raise RuntimeError("no model")


def test_semantic_breaks_where_the_topic_changes():
    """Semantic splitting separates sentences on different topics and keeps the others together."""
    text = "A cat sat. The cat ran. My cat ate. A dog barked. The dog slept."
    expected = ["A cat sat. The cat ran. My cat ate.", "A dog barked. The dog slept."]
    assert texts(SemanticSplitter(Topics()), text) == expected


def test_a_failing_embedding_falls_back_with_a_note():
    """If the embedding fails, the text is split recursively, and a note names the document and the error."""
    notes = []
    text = "A cat sat. A dog barked."
    assert [piece.text for piece in split(SemanticSplitter(Broken()), text, notes.append, source="a.md")] == [text]
    assert notes == ["semantic splitting fell back to recursive splitting for 'a.md': RuntimeError: no model"]


# -- any splitter ---------------------------------------------------------------------------------------------------


def test_langchain_splitters_cut_as_they_do_alone():
    """A wrapped LangChain splitter gives the same pieces as alone, with their offsets in the text."""
    splitters = pytest.importorskip("langchain_text_splitters")
    text = "\n\n".join(" ".join(sentence(10 * p + n) for n in range(4)) for p in range(5))
    for options in ({}, {"add_start_index": True}):
        theirs = splitters.RecursiveCharacterTextSplitter(chunk_size=90, chunk_overlap=20, **options)
        pieces = split(as_splitter(theirs), text)
        assert [piece.text for piece in pieces] == theirs.split_text(text)
        assert all(text[piece.start : piece.start + len(piece.text)] == piece.text for piece in pieces)


def test_names_of_strategies():
    """The strategy flat has size 256 and overlap 50, parent_child has sizes 1024 and 256, and None does not split."""
    assert as_splitter("flat") == RecursiveSplitter(256, 50)
    both = as_splitter("parent_child")
    assert (both.parents.size, both.children.size) == (1024, 256)
    assert as_splitter(None) is None
    assert as_splitter(both) is both


@pytest.mark.parametrize("wrong", ["sentences", 512, RecursiveSplitter])
def test_other_objects_are_not_splitters(wrong):
    """A misspelt strategy, a number or a class raises ConfigurationError, which lists what can be passed."""
    with pytest.raises(ConfigurationError, match="parent_child"):
        as_splitter(wrong)
    with pytest.raises(ConfigurationError, match="'falt' is not a splitter; did you mean 'flat'"):
        as_splitter("falt")


def test_a_small_section_is_not_joined_with_a_higher_one():
    """A section on a higher heading level starts a new piece; one on the same or a lower level may be joined."""
    text = "# Guide\n\n## Install\n\na\n\n### Later\n\nb\n\n## Use\n\nc"
    starts = [piece.text.partition("\n")[0] for piece in RecursiveSplitter().split(Document(page_content=text), print)]
    assert starts == ["# Guide", "## Use"]


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


def test_chunks_inherit_metadata():
    """A chunk has its document's metadata, and document_id, chunk_index, start_index, title, heading and anchors."""
    assert cut("# T\n\n## H\n\ntext", source="a.md", labels=["x"], year=2024).chunks[0].metadata == {
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


def test_without_a_splitter_documents_stay_as_they_are():
    """With split=None, a document keeps its id, text and metadata; a missing id becomes a hash of text and source."""
    cutter = Cutter(None, print)
    (only,) = cutter.cut(document("text", "my/id", source="a", page=3)).chunks
    assert (only.id, only.text, only.metadata) == ("my/id", "text", {"source": "a", "page": 3})
    assert only.document == "my/id"
    one, two = (cutter.cut(document("text", source=source)).chunks[0] for source in ("a", "b"))
    assert one.id != two.id
    assert one.document == "a"


@given(st.lists(st.text(alphabet="ab .\n#", max_size=60), min_size=1, max_size=6), st.integers(2, 20))
def test_ids_are_unique_and_repeatable(texts, size):
    """For any parts of two documents, all chunk ids are distinct and the same in every run."""

    def run():
        cutter = Cutter(RecursiveSplitter(size, 1), print)
        parts = (cutter.cut(document(text, source=str(n % 2))) for n, text in enumerate(texts))
        return [chunk.id for part in parts for chunk in part.chunks]

    documents = run()
    assert len(set(documents)) == len(documents)
    assert documents == run()
