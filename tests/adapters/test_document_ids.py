"""Assignment of one id to each text of a vector store and the given Documents."""

from hypothesis import given as for_all
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.documents import Identity, metadata_id


def doc(text, id=None, **metadata):
    return Document(id=id, page_content=text, metadata=metadata)


def test_the_precedence_of_ids():
    """An id is taken from id_key, the given Document, the store, the metadata or the content, in this order."""
    stored = [doc("t", "store")]
    assert Identity([doc("t", "own", key="k")], stored, "key").ids == ["k"]
    assert Identity([Document("t", id="own", metadata={"id": "m"})], stored).ids == ["own"]
    assert Identity([Document("t", metadata={"id": "m"})], stored).ids == ["store"]
    assert Identity([Document("t", metadata={"id": "m"})]).ids == ["m"]
    assert len(Identity([Document("t")]).ids[0]) == 32


def test_ids_in_metadata_come_in_an_order():
    assert metadata_id({"id": 3, "pk": 2, "_id": 1}) == "1"
    assert metadata_id({"id": 3, "pk": 0}) == "0"
    assert metadata_id({"id": None}) is None


def test_an_id_takes_precedence_over_a_text():
    """A given Document is matched to the stored text with its id, even if another one has its text."""
    stored = [doc("changed", "a"), doc("text", "b")]
    identity = Identity([doc("text", "a")], stored)
    assert [identity.of_stored(each) for each in stored] == ["a", "b"]
    assert identity.stored_id("a") == "a"


def test_equal_texts_are_matched_by_metadata():
    """Stored texts that are equal are matched to given Documents by their metadata."""
    stored = [doc("t", "s1", year=1), doc("t", "s2", year=2)]
    identity = Identity([doc("t", "two", year=2), doc("t", "one", year=1)], stored)
    assert {each.id: identity.of_stored(each) for each in stored} == {"s1": "one", "s2": "two"}


def test_other_sources_are_other_texts():
    """Equal texts with different sources are not matched, but a missing source matches any source."""
    identity = Identity([doc("t", "a", source="a.md")])
    assert identity.of_stored(doc("t", "s1", source="b.md")) == "s1"
    assert identity.of_stored(doc("t", "s2")) == "a"


def test_the_same_source_takes_precedence_over_a_missing_one():
    """A Document is matched to the equal text with the same source before one without a source."""
    stored = [doc("t", "s1", source="a.md"), doc("t", "s2")]
    identity = Identity([doc("t", "bare", kind=1), doc("t", "a", source="a.md")], stored)
    assert [identity.of_stored(each) for each in stored] == ["a", "bare"]


def test_a_stored_text_that_is_recognised_later():
    """A stored text matched later keeps its id, and a second one with the same text gets another id."""
    identity = Identity([doc("t", "a")])
    assert [identity.of_stored(doc("t", id)) for id in ("s1", "s2", "s1")] == ["a", "s2", "a"]
    assert (identity.stored_id("a"), identity.stored_id("s2")) == ("s1", "s2")


def test_deleted_texts_are_forgotten():
    identity = Identity([doc("t", "a")], [doc("t", "s1")])
    assert identity.forget(["s1", "unknown"]) == ["a"]
    assert identity.stored_id("a") is None


def test_keys_that_only_the_documents_have():
    """extra_keys contains the metadata keys that only the given Documents have; the store cannot filter by them."""
    assert Identity([doc("t", "a", kind=1, n=2)], [doc("t", "s", n=2)]).extra_keys == {"kind"}


texts = st.sampled_from(["x", "y", "z"])
sources = st.none() | st.sampled_from(["one", "two"])


@for_all(st.lists(st.tuples(texts, sources), max_size=6, unique=True), st.permutations(range(6)))
def test_as_many_ids_as_texts(contents, order):
    """If both sides have the same texts, in any order, each id is assigned to one stored text."""

    def create(side, places):
        return [
            Document(
                id=f"{side}{n}",
                page_content=contents[n][0],
                metadata={"source": contents[n][1]} if contents[n][1] else {},
            )
            for n in places
        ]

    user_documents = list(create("given", range(len(contents))))
    stored = list(create("stored", [n for n in order if n < len(contents)]))
    identity = Identity(user_documents, stored)
    assert {identity.of_stored(each) for each in stored} == set(identity.ids)
