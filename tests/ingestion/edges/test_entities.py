"""Entities that chunks mention."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.edges.entities import EntityEdges
from langchain_hybridgraph.ingestion.pipeline import ingest
from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore
from tests.support.stores.store_contents import all_edges

SECTIONS = RecursiveSplitter(join_sections=False)


def chunk(title, text, id=None, **metadata):
    return Chunk(id or title, text, {"title": title, **metadata})


def stored(*chunks, store=None, **options):
    store = embedded() if store is None else store
    ingest(chunks, store, split=None, edges=[EntityEdges(**options)])
    return store


def mentions(store, source):
    """Return the entities that a chunk mentions, with their weights."""
    return {edge.target: edge.weight for edge in store.edges([source]) if edge.target.startswith("entity:")}


def entities(*chunks, **options):
    """Return the entities that the last chunk mentions."""
    return set(mentions(stored(*chunks, **options), chunks[-1].id))


def mentions_of_ada(store):
    return sorted(store.edges(["entity:ada lovelace"], backwards=True), key=lambda edge: edge.source)


def embedded():
    return HybridGraphStore(None, DeterministicFakeEmbedding(size=8))


# -- titles and names --------------------------------------------------------------------------------------------------


def test_two_chunks_share_an_entity():
    """A name in two chunks is one entity, and the descriptions of the edges are sentences with the name."""
    store = stored(chunk("A", "She met Ada Lovelace."), chunk("B", "It was Ada Lovelace’s engine."))
    assert [(e.source, e.relation, e.weight, e.description) for e in mentions_of_ada(store)] == [
        ("A", "mentions", 0.8, "A mentions Ada Lovelace."),
        ("B", "mentions", 0.8, "B mentions Ada Lovelace."),
    ]


def test_the_weight_of_a_documents_own_title():
    """A document's title is an entity with weight 1 in its first chunk and .5 in the others."""
    store = embedded()
    page = Document("# Ada\n\none\n\n# Life\n\ntwo", metadata={"title": "Ada Lovelace", "source": "a"})
    ingest([page], store, split=SECTIONS, edges=[EntityEdges()])
    first, second = mentions_of_ada(store)
    assert (first.source, first.weight, first.description) == ("a#0", 1.0, "Ada Lovelace is about Ada Lovelace.")
    assert (second.source, second.weight) == ("a#life", 0.5)


def test_a_title_with_a_nul_and_half_a_character():
    """Characters of a title that cannot be stored are left out of the entity's id."""
    store = embedded()
    stored(chunk("Ada\0Love\ud800lace", "Nobody \0 met her.", "a"), store=store)
    assert [edge.target for edge in store.edges(["a"])] == ["entity:ada love lace", "title:ada love lace"]


def test_a_title_with_a_comma_is_inverted_only_if_the_text_confirms_it():
    """The title "Lovelace, Ada" is read as Ada Lovelace because the text has this name; "Woodson, Arkansas" is not
    inverted.
    """
    assert "entity:ada lovelace" in entities(chunk("Lovelace, Ada", "The work of Ada Lovelace is known."))
    assert "entity:arkansas woodson" not in entities(chunk("Woodson, Arkansas", "There is Woodson in Arkansas."))


# -- short names ------------------------------------------------------------------------------------------------


def pages(*texts):
    return [Chunk(str(place), text, {"document_id": "d"}) for place, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("first", "second", "short", "full"),
    [
        ("We met Ada Lovelace.", "It was Lovelace who said so.", "lovelace", "Ada Lovelace"),
        ("It is the Pakistan Super League.", "It was the PSL then.", "psl", "Pakistan Super League"),
    ],
)
def test_a_short_name_also_means_the_full_name(first, second, short, full):
    """A last name or an acronym also mentions the only full name in the document that it can stand for."""
    store = stored(*pages(first, second))
    assert mentions(store, "1") == {f"entity:{short}": 0.5, f"entity:{full.lower()}": 0.6}
    assert f"d mentions {full}." in {edge.description for edge in store.edges(["1"])}


# -- later ingests -----------------------------------------------------------------------------------------------------

TEXTS = [
    chunk("Plant", "Green things live by photosynthesis. The Royal Society knows."),
    chunk("Photosynthesis", "Discovered by Jan Ingenhousz, who used pond plant leaves."),
    chunk("Jan Ingenhousz", "He was at the Royal Society in London."),
    chunk("北京大学", "在中国。"),
    chunk("林", "他在北京大学学习。"),
]


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (1, 0, 2, 4, 3)])
def test_one_by_one_equals_all_at_once(order):
    """Documents ingested one by one, in any order, get the same edges as in a single ingest."""
    whole, parts = embedded(), embedded()
    stored(*TEXTS, store=whole)
    for place in order:
        stored(TEXTS[place], store=parts)
    together = all_edges(whole)
    assert together["Plant", "entity:photosynthesis", "mentions"].description == "Plant mentions Photosynthesis."
    assert together["林", "entity:北京大学", "mentions"].weight == 0.8
    assert all_edges(parts) == together


@pytest.mark.parametrize(
    ("title", "text", "entity"),
    [
        ("The Water Cycle", "about a water cycle of the earth", "entity:water cycle"),
        ("Sin City", "vimos sin city en el cine y la película es muy buena", "entity:sin city"),
        ("Mercury (planet)", "the god Mercury and the wind", "entity:mercury"),
        ("Woodson, Arkansas", "they live in Woodson, Arkansas, still", "entity:woodson arkansas"),
        ("Pride and Prejudice", "she read Pride and Prejudice again", "entity:pride and prejudice"),
        ("Künstliche Intelligenz", "die künstliche intelligenz und der mensch", "entity:kunstliche intelligenz"),
        ("北京大学", "他在北京大学学习物理。", "entity:北京大学"),
        ("서울대학교", "그는 서울대학교에서 공부했다.", "entity:서울대학교"),
        ("กรุงเทพ", "เขาอยู่ในกรุงเทพมานาน", "entity:กรุงเทพ"),
        ("جامعة القاهرة", "درس في جامعة القاهرة ثم سافر", "entity:جامعه قاهره"),
        ("भारतीय रेल", "वह भारतीय रेल से गया।", "entity:भारतीय रेल"),
        ("Московский университет", "он окончил московский университет", "entity:московский университет"),
    ],
)
def test_a_title_is_found_in_other_ingests(title, text, entity):
    """Titles are found in documents of earlier and later ingests."""
    for order in (1, -1):
        store = embedded()
        for each in [chunk(title, "It was made in the city."), chunk("", text, "other")][::order]:
            stored(each, store=store)
        assert entity in {edge.target for edge in store.edges(["other"])}


def test_deleting_leaves_nothing_behind():
    """Deleting a chunk deletes its mentions, and its title is not found in later ingests."""
    store = embedded()
    stored(chunk("Photosynthesis", "…"), store=store)
    store.delete(["Photosynthesis"])
    assert store.edges(["entity:photosynthesis", "title:photosynthesis"], backwards=True) == []
    stored(Chunk("later", "they live by photosynthesis"), store=store)
    assert store.edges(["later"]) == []


# -- hostile input -----------------------------------------------------------------------------------------------------


def test_a_chunk_keeps_at_most_a_hundred_names():
    """A chunk with 301 names keeps the hundred with the highest weights."""
    names = [f"Ada Number{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(300)]
    store = stored(Chunk("a", "the names " + ", ".join(["Single", *names]) + " are here"))
    assert len(mentions(store, "a")) == 100
    assert set(mentions(store, "a").values()) == {0.8}


@given(st.lists(st.tuples(st.text(max_size=30), st.text(min_size=1, max_size=100)), min_size=1, max_size=4))
def test_any_documents(documents):
    """Ingesting any titles and texts a second time does not change their edges."""
    chunks = [chunk(title, text, f"c{place}") for place, (title, text) in enumerate(documents)]
    store = embedded()
    stored(*chunks, store=store)
    before = all_edges(store)
    stored(*chunks, store=store)
    assert all_edges(store) == before
