"""The entities that chunks mention."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.edges.entities import EntityEdges
from langchain_hybridgraph.ingestion.pipeline import ingest
from langchain_hybridgraph.ingestion.splitters import RecursiveSplitter
from langchain_hybridgraph.records import Chunk, Scope
from langchain_hybridgraph.text.entity_names import names_in
from langchain_hybridgraph.vectorstores.hybrid_graph_store import HybridGraphStore
from tests.support.stores.memory_store import MemoryStore

SECTIONS = RecursiveSplitter(join_sections=False)


def chunk(title, text, id=None, **metadata):
    return Chunk(id or title, text, {"title": title, **metadata})


def stored(*chunks, store=None, **options):
    store = MemoryStore() if store is None else store
    ingest(chunks, store, split=None, edges=[EntityEdges(**options)])
    return store


def mentions(store, source):
    """Return the entities that a chunk mentions, with their weights."""
    return {e.target: e.weight for e in store.edges.values() if e.source == source and e.target.startswith("entity:")}


def entities(*chunks, **options):
    """Return the entities that the last chunk mentions."""
    return set(mentions(stored(*chunks, **options), chunks[-1].id))


def embedded():
    return HybridGraphStore(None, DeterministicFakeEmbedding(size=8))


def all_edges(store):
    """Return every edge of a real store, in a comparable form."""
    return {(e.source, e.target, e.weight, e.description) for e in store.edges(store.find(Scope()))}


# -- titles and names --------------------------------------------------------------------------------------------------


def test_two_chunks_share_an_entity():
    """A name in both texts is one entity, and the edges say so in a sentence."""
    store = stored(chunk("A", "She met Ada Lovelace."), chunk("B", "It was Ada Lovelace’s engine."))
    edges = [e for e in store.edges.values() if e.target == "entity:ada lovelace"]
    assert [(e.source, e.relation, e.weight, e.description) for e in edges] == [
        ("A", "mentions", 0.8, "A mentions Ada Lovelace."),
        ("B", "mentions", 0.8, "B mentions Ada Lovelace."),
    ]


def test_the_own_title_has_weight_one():
    """A document is about its title: weight 1 from its first chunk, .5 from the others."""
    store = MemoryStore()
    page = Document("# Ada\n\none\n\n# Life\n\ntwo", metadata={"title": "Ada Lovelace", "source": "a"})
    ingest([page], store, split=SECTIONS, edges=[EntityEdges()])
    first, second = (e for e in store.edges.values() if e.target == "entity:ada lovelace")
    assert (first.source, first.weight, first.description) == ("a#0", 1.0, "Ada Lovelace is about Ada Lovelace.")
    assert (second.source, second.weight) == ("a#life", 0.5)


IN_OTHER_TEXTS = pytest.mark.parametrize(
    ("title", "text", "entity"),
    [
        ("Photosynthesis", "plants live by photosynthesis alone", "entity:photosynthesis"),
        ("Water cycle", "about the water cycle of the earth", "entity:water cycle"),
        ("The Water Cycle", "about a water cycle of the earth", "entity:water cycle"),
        ("Mercury (planet)", "the god Mercury and the wind", "entity:mercury"),
        ("Woodson, Arkansas", "they live in Woodson, Arkansas, still", "entity:woodson arkansas"),
        ("Pride and Prejudice", "she read Pride and Prejudice again", "entity:pride and prejudice"),
        ("Künstliche Intelligenz", "die künstliche intelligenz und der mensch", "entity:kunstliche intelligenz"),
        ("Energía solar", "hoy usan la energia solar en casa", "entity:energia solar"),
        ("北京大学", "他在北京大学学习物理。", "entity:北京大学"),
        ("東京", "彼は東京に住んでいる。", "entity:東京"),
        ("서울대학교", "그는 서울대학교에서 공부했다.", "entity:서울대학교"),
        ("กรุงเทพ", "เขาอยู่ในกรุงเทพมานาน", "entity:กรุงเทพ"),
        ("جامعة القاهرة", "درس في جامعة القاهرة ثم سافر", "entity:جامعه قاهره"),
        ("भारतीय रेल", "वह भारतीय रेल से गया।", "entity:भारतीय रेल"),
        ("Московский университет", "он окончил московский университет", "entity:московский университет"),
    ],
)


@IN_OTHER_TEXTS
def test_a_title_is_found_in_other_texts(title, text, entity):
    """Titles are found in any case and script, whichever document comes first."""
    assert entity in entities(chunk(title, "…"), chunk("", text, "other"))
    store = stored(chunk("", text, "other"), chunk(title, "…"))
    assert entity in mentions(store, "other")
    assert mentions(store, title)[entity] == 1.0


def test_a_common_word_as_title_weighs_little():
    """A title of one word in lower case is unlikely to be a mention, one of several words is one."""
    store = stored(chunk("Engine", "…"), chunk("Steam engine", "…"), chunk("", "the steam engine is loud", "other"))
    assert mentions(store, "other") == {"entity:engine": 0.4, "entity:steam engine": 0.8}


@pytest.mark.parametrize("title", ["The", "It", "And", "who", "42", "…", "", "A", "x" * 100_000, "word " * 20_000])
def test_titles_that_name_nothing(title):
    """A stop word, a number, punctuation, nothing and a book make no entity."""
    assert entities(chunk(title, "it is the thing and who has 42 of it", "a")) == set()


def test_descriptions_of_a_long_title():
    """A description shows a hundred letters of it."""
    store = stored(chunk("x" * 1_000, "She met Ada Lovelace.", "a"))
    assert [e.description for e in store.edges.values()] == [f"{'x' * 100}… mentions Ada Lovelace."]


def test_a_document_without_a_title():
    """Names in its text are its mentions."""
    assert entities(Chunk("a", "She met Ada Lovelace.")) == {"entity:ada lovelace"}


def test_a_title_with_a_nul_and_half_a_character():
    """Characters that cannot be stored are removed from a node's id."""
    store = embedded()
    stored(chunk("Ada\0Love\ud800lace", "Nobody \0 met her.", "a"), store=store)
    assert [edge.target for edge in store.edges(["a"])] == ["entity:ada love lace", "title:ada love lace"]


def test_the_name_behind_a_comma_comes_first_where_the_text_says_so():
    """ "Lovelace, Ada" is Ada Lovelace when the document says so, and Arkansas Woodson is nobody."""
    assert "entity:ada lovelace" in entities(chunk("Lovelace, Ada", "The work of Ada Lovelace is known."))
    assert "entity:arkansas woodson" not in entities(chunk("Woodson, Arkansas", "There is Woodson in Arkansas."))


# -- short names ------------------------------------------------------------------------------------------------


def pages(*texts):
    return [Chunk(str(place), text, {"document_id": "d"}) for place, text in enumerate(texts)]


def test_a_last_name_stands_for_the_whole_name_of_the_document():
    """ "Lovelace" alone also means the only name of the document that ends so."""
    store = stored(*pages("We met Ada Lovelace.", "It was Lovelace who said so."))
    assert mentions(store, "1") == {"entity:lovelace": 0.5, "entity:ada lovelace": 0.6}


def test_an_ambiguous_last_name_stands_for_itself():
    """A last name that two full names share is not completed."""
    store = stored(*pages("We met Ada Lovelace and Anne Lovelace.", "It was Lovelace who said so."))
    assert set(mentions(store, "1")) == {"entity:lovelace"}


def test_initials_stand_for_the_name():
    """An acronym means the name of the document with these initials."""
    store = stored(*pages("It is the Pakistan Super League.", "It was the PSL then."))
    assert mentions(store, "1") == {"entity:psl": 0.5, "entity:pakistan super league": 0.6}


def test_names_of_one_document_complete_nothing_in_another():
    """A short name in one document may belong to another full name in the next."""
    first, second = pages("We met Ada Lovelace.", "It was Lovelace who said so.")
    assert entities(first, Chunk("x", second.text)) == {"entity:lovelace"}


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
    """Documents ingested one by one, in any order, get the same edges as documents ingested together."""
    whole, parts = embedded(), embedded()
    stored(*TEXTS, store=whole)
    for place in order:
        stored(TEXTS[place], store=parts)
    together = all_edges(whole)
    assert ("Plant", "entity:photosynthesis", 0.4, "Plant mentions Photosynthesis.") in together
    assert ("林", "entity:北京大学", 0.8, "林 mentions 北京大学.") in together
    assert all_edges(parts) == together


@IN_OTHER_TEXTS
def test_a_title_is_found_in_other_ingests(title, text, entity):
    """Old texts are searched for new titles, new texts for old ones."""
    for first, second in [(chunk(title, "…"), chunk("", text, "other")), (chunk("", text, "other"), chunk(title, "…"))]:
        store = embedded()
        stored(first, store=store)
        stored(second, store=store)
        assert entity in {edge.target for edge in store.edges(["other"])}


def test_the_same_again_changes_nothing():
    """A second ingest of some of the documents leaves all edges as they are."""
    store = embedded()
    stored(*TEXTS, store=store)
    before = all_edges(store)
    stored(*TEXTS[:2], store=store)
    assert all_edges(store) == before


def test_a_changed_text_has_new_mentions():
    """Mentions of the old text are gone."""
    store = stored(chunk("A", "She met Ada Lovelace."))
    stored(chunk("A", "She met Charles Babbage."), store=store)
    assert "entity:ada lovelace" not in mentions(store, "A")
    assert "entity:charles babbage" in mentions(store, "A")


def test_deleting_leaves_nothing_behind():
    """Deleting chunks deletes their mentions, and a deleted title does not count for later ingests."""
    store = embedded()
    stored(chunk("Photosynthesis", "…"), store=store)
    store.delete(["Photosynthesis"])
    assert store.edges(["entity:photosynthesis", "title:photosynthesis"], backwards=True) == []
    stored(Chunk("later", "they live by photosynthesis"), store=store)
    assert store.edges(["later"]) == []


def test_a_store_that_cannot_be_read():
    """In a store that cannot be read, earlier titles are unknown, but names are still nodes."""
    store = stored(chunk("Water cycle", "We met Ada Lovelace."))
    stored(Chunk("later", "the water cycle of Ada Lovelace"), store=store)
    assert set(mentions(store, "later")) == {"entity:ada lovelace"}


# -- names that are given ----------------------------------------------------------------------------------------------


def test_names_from_a_model():
    """``extract`` takes the place of the rules; titles are found as before."""
    edges = entities(
        chunk("Water cycle", "…"),
        chunk("B", "the water cycle of Ada Lovelace"),
        extract=lambda text: ["rain", "Rain’s"],
    )
    assert edges == {"entity:rain", "entity:water cycle"}


@pytest.mark.parametrize("names", ["Ada", None, [1], 7])
def test_the_extractor_must_return_names(names):
    """An extractor's answer other than a list of strings is an error that names the chunk."""
    with pytest.raises(ConfigurationError, match="'B'"):
        stored(chunk("B", "text"), extract=lambda text: names)


def test_extract_must_be_a_function():
    """An ``extract`` that is not callable is an error on construction."""
    with pytest.raises(ConfigurationError, match="extract"):
        EntityEdges(extract=["Ada"])


def test_triples_of_a_chunk():
    """Both ends of a triple are mentioned, and the edge says the triple."""
    triples = {"B": [("Ada Lovelace", "wrote to", "Charles Babbage"), ("it", "began in", "1843")]}
    store = stored(chunk("", "a letter", "B"), triples=triples)
    assert mentions(store, "B") == {"entity:ada lovelace": 0.9, "entity:charles babbage": 0.9}
    assert {e.description for e in store.edges.values()} == {"Ada Lovelace wrote to Charles Babbage."}


def test_triples_of_a_document():
    """Triples of a document belong to the chunks with their words, else to the first chunk."""
    store = MemoryStore()
    page = Document("# A\n\nthe first\n\n# B\n\nthe pond", id="d")
    ingest([page], store, split=SECTIONS, edges=[EntityEdges(triples={"d": [["pond", "is in", "Delft"]]})])
    assert mentions(store, "d#b")["entity:pond"] == 0.9
    assert mentions(store, "d#0")["entity:delft"] == 0.9


def test_the_subject_of_three_triples_names_the_document():
    """The subject of three triples is what the document is about; two are too few."""
    triples = [("Ada", "wrote to", "Charles"), ("Ada", "was a", "countess"), ("Ada", "lived in", "London")]
    store = stored(chunk("Letter", "a letter", "B"), triples={"B": [*triples, *[("Charles", "built", "engines")] * 2]})
    assert [
        (e.source, e.target, e.weight) for e in store.edges.values() if e.target in ("title:ada", "title:charles")
    ] == [("B", "title:ada", 0.8)]


@pytest.mark.parametrize("triple", [("a", "b"), "abc", ("a", "b", 3), 7, None, {"a", "b", "c"}])
def test_invalid_triples(triple):
    """Invalid triples are an error on construction that names their document."""
    with pytest.raises(ConfigurationError, match="'d'"):
        EntityEdges(triples={"d": [triple]})


@pytest.mark.parametrize("triples", [[("a", "r", "b")], "abc", 7, {"d": None}, {"d": "abc"}], ids=repr)
def test_triples_without_their_document(triples):
    """A list of triples without document ids is an error that shows the expected form."""
    with pytest.raises(ConfigurationError, match=r'expected .*: triples=\{"doc": \[\("Ada Lovelace"'):
        EntityEdges(triples=triples)


# -- questions ---------------------------------------------------------------------------------------------------------


def test_possible_names_in_a_question():
    """The nodes of a question's names are found by its words, in any case and script."""
    store = embedded()
    stored(chunk("Water cycle", "We met Ada Lovelace."), chunk("北京大学", "…"), store=store)
    for question, node in [
        ("how does the water cycle work?", "title:water cycle"),
        ("Who met Ada Lovelace’s friend?", "entity:ada lovelace"),
        ("谁在北京大学学习？", "title:北京大学"),
    ]:
        kind = node.partition(":")[0]
        assert node in {f"{kind}:{name}" for name in names_in(question)}
        assert store.edges([node], backwards=True)


# -- what may come -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["entity:ada", "title:ada"])
def test_a_chunk_with_the_id_of_an_entity(id):
    """A chunk whose id looks like the id of an entity is an error."""
    with pytest.raises(ConfigurationError, match=id):
        stored(Chunk(id, "text"))


def test_a_chunk_keeps_at_most_a_hundred_names():
    """The hundred most certain names of a chunk with 301 names are kept."""
    names = [f"Ada Number{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(300)]
    store = stored(Chunk("a", "the names " + ", ".join(["Single", *names]) + " are here"))
    assert len(mentions(store, "a")) == 100
    assert set(mentions(store, "a").values()) == {0.8}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=30), st.text(min_size=1, max_size=100)), min_size=1, max_size=4))
def test_any_documents(documents):
    """For any titles and texts, ingesting them twice writes the same valid edges both times."""
    chunks = [chunk(title, text, f"c{place}") for place, (title, text) in enumerate(documents)]
    store = embedded()
    stored(*chunks, store=store)
    before = all_edges(store)
    stored(*chunks, store=store)
    assert all_edges(store) == before
