"""Equal texts that a vector store contains several times, under different ids."""

import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from tests.support.samples.document_lists import texts
from tests.support.stores.bare_store import BareStore
from tests.support.stores.document_stores import chroma
from tests.support.stores.words import Words

ANIMALS = ("ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay")
NOTES = [Document(f"The {name} E-{4700 + i} sleeps.", metadata={"page": i}) for i, name in enumerate(ANIMALS)]


def repeated(times, documents=NOTES):
    """Return a store to which these Documents were added several times, each time with other ids."""
    store = InMemoryVectorStore(Words())
    for time in range(times):
        store.add_documents(documents, ids=[f"{place}-{time}" for place in range(len(documents))])
    return store


@pytest.mark.parametrize("times", [2, 5, 40])
def test_k_texts_are_different(times):
    """A search for k hits returns k different texts, even if the store contains each of them many times."""
    retriever = HybridRetriever(repeated(times), k=3)
    assert len(set(texts(retriever.invoke("Where does the ant sleep?")))) == 3
    assert sorted(texts(retriever.invoke("Who sleeps?", k=len(NOTES)))) == sorted(texts(NOTES))


@pytest.mark.parametrize("fusion", ["convex", "rrf"])
@pytest.mark.parametrize("question", ["Where does the ant sleep?", "E-4703", "the fox and the hen"])
def test_copies_do_not_change_scores(question, fusion):
    """Texts and scores, and the verdict on the answer, are the same with and without copies."""
    once, often = (HybridRetriever(repeated(times), k=10, fusion=fusion).retrieve(question) for times in (1, 9))
    assert texts(often) == texts(once)
    assert [hit.score for hit in often.hits] == pytest.approx([hit.score for hit in once.hits])
    assert often.answerable is once.answerable


def test_each_copy_is_a_hit_on_request():
    """With ``equal_texts="each"``, every copy is a hit of its own."""
    result = HybridRetriever(repeated(5), k=5, index={"equal_texts": "each"}).invoke("E-4703")
    assert texts(result) == [NOTES[3].page_content] * 5
    assert len({document.id for document in result}) == 5


def test_hits_keep_their_ids_when_copies_are_added():
    """A hit has the id of the first copy in the keyword index, even if it is found only by a later copy's vector."""
    store = repeated(1)
    retriever = HybridRetriever(store, k=len(NOTES))
    ids = {document.id for document in retriever.invoke("dog")}
    store.add_documents(NOTES, ids=[f"-{place}" for place in range(len(NOTES))])
    assert {document.id for document in retriever.invoke("dog")} == ids


def test_new_copies_in_chroma_are_not_hits_of_their_own(tmp_path):
    """The first search after copies were added to Chroma still returns k different texts."""
    store = chroma([note.model_copy(update={"id": f"{place}"}) for place, note in enumerate(NOTES)], tmp_path)
    retriever = HybridRetriever(store, k=3)
    retriever.invoke("Who sleeps?")
    store.add_documents(NOTES, ids=[f"-{place}" for place in range(len(NOTES))])
    assert len(set(texts(retriever.invoke("Who sleeps?")))) == 3


def test_texts_with_different_metadata_are_not_copies():
    """Equal texts with different owners are both found, and a filter finds only the permitted one."""
    owned = [Document(page_content="The door code is 4711.", metadata={"owner": owner}) for owner in ("ada", "bob")]
    retriever = HybridRetriever(repeated(5, owned), k=4)
    for owner in ("ada", "bob"):
        result = retriever.invoke("door code", filter={"owner": owner})
        assert [document.metadata for document in result] == [{"owner": owner}]
    assert sorted(document.metadata["owner"] for document in retriever.invoke("door code")) == ["ada", "bob"]


def test_the_next_copy_is_found_when_one_is_deleted():
    """If a hit is deleted from the store, the next search finds another copy, and none after all are deleted."""
    store = repeated(5)
    retriever, deleted = HybridRetriever(store, k=1), []
    for _ in range(5):
        (hit,) = retriever.invoke("E-4703")
        assert hit.page_content == NOTES[3].page_content
        assert store.get_by_ids([hit.id])
        store.delete([hit.id])
        deleted.append(hit.id)
    assert len(set(deleted)) == 5
    assert NOTES[3].page_content not in texts(retriever.invoke("E-4703", k=10))


def test_a_copy_whose_owner_is_changed_stays_visible_to_the_new_owner():
    """A copy whose metadata is changed in place is found with a filter that only it matches, even without a refresh."""
    store = repeated(3, [Document(page_content="The door code is 4711.", metadata={"owner": "ada"})])
    retriever = HybridRetriever(store)
    last = list(store.store)[-1]
    store.add_documents([Document(id=last, page_content="The door code is 4711.", metadata={"owner": "bob"})])
    assert [document.id for document in retriever.invoke("door code", filter={"owner": "bob"})] == [last]


def test_given_documents_are_matched_with_all_copies():
    """Documents that were passed with their own ids are one hit each, however often the store contains them."""
    user_documents = [Document(note.page_content, id=name) for name, note in zip(ANIMALS, NOTES, strict=True)]
    bare = [Document(page_content=note.page_content) for note in NOTES]
    result = HybridRetriever(repeated(5, bare), user_documents, k=10).retrieve("the fox sleeps")
    assert sorted(document.id for document in result) == sorted(ANIMALS)
    assert result[0].id == "fox"
    assert result[0].metadata["retrieval_source"] == "fused"


def test_random_changes_keep_the_index_equal_to_a_new_one():
    """After any additions, changes and deletions of copies, the keyword index has the texts of a new retriever."""
    import random

    chance = random.Random(7)
    store = repeated(2, NOTES[:4])
    retriever = HybridRetriever(store)
    for _ in range(60):
        ids = list(store.store)
        action = chance.choice(["add", "delete", "change"])
        note = chance.choice(NOTES[:4])
        if action == "add" or len(ids) < 3:
            store.add_documents([note])
        elif action == "delete":
            store.delete(chance.sample(ids, 2))
        else:
            store.add_documents([note.model_copy(update={"id": chance.choice(ids)})])
        retriever.refresh()
        chunks, stored_texts = retriever.index.adapter.texts.chunks, {each["text"] for each in store.store.values()}
        assert sorted(chunk.text for chunk in chunks.values()) == sorted(stored_texts)
        assert all(store.store[id]["text"] == chunk.text for id, chunk in chunks.items())


def test_the_own_store_keeps_equal_texts():
    """In a HybridGraphStore, equal texts with different ids are different hits; the option is refused."""
    store = HybridGraphStore.from_texts(["The ant sleeps."] * 2, "lsa", ids=["a", "b"])
    assert sorted(document.id for document in HybridRetriever(store).invoke("ant")) == ["a", "b"]
    with pytest.raises(ValueError, match="a keyword index of its own"):
        HybridRetriever(store, index={"equal_texts": "each"})


@pytest.mark.filterwarnings("ignore:the texts of BareStore cannot be listed")
def test_a_store_that_cannot_be_listed_returns_each_text_once():
    """Copies also count once if the store cannot list its texts, and enough of them are requested."""
    retriever = HybridRetriever(BareStore(NOTES * 30, Words()), k=10)
    assert sorted(texts(retriever.invoke("Who sleeps?"))) == sorted(texts(NOTES))
