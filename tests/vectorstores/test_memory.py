"""Memory methods of HybridGraphStore: accepted inputs, errors and search results."""

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_hybridgraph import HybridGraphSettings, HybridGraphStore, HybridRetriever, MilvusStore, open_store
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import SUPERSEDES, Scope
from langchain_hybridgraph.vectorstores.admission import Admission
from langchain_hybridgraph.vectorstores.hybrid_graph_store import store_from_settings
from tests.support.models.query_embeddings import QueryEmbeddings
from tests.support.stores.words import Words


@pytest.fixture
def store():
    with closing(HybridGraphStore(None)) as store:
        store.clock = lambda: 1_000.0
        yield store


def texts_found(store, text="Where does Ada live?", **times):
    return {document.id for document in store.similarity_search(text, k=9, **times)}


def test_messages_and_pairs_are_turns(store):
    """Messages and (role, text) pairs become turns; parts without text and blank turns are left out."""
    turns = [
        SystemMessage("Be kind."),
        HumanMessage([{"type": "text", "text": "Which car"}, {"type": "image_url", "image_url": "x"}]),
        AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}]),
        ToolMessage("the roadster", tool_call_id="1"),
        AIMessage("The roadster."),
        ("human", "thanks"),
        ("Ada", "bye"),
        ("user", "  "),
    ]
    store.sessions.add("s", turns)
    assert [(turn.metadata["role"], turn.text) for turn in reversed(store.sessions.turns("s", 9, Scope()))] == [
        ("system", "Be kind."),
        ("user", "Which car"),
        ("tool", "the roadster"),
        ("assistant", "The roadster."),
        ("user", "thanks"),
        ("Ada", "bye"),
    ]


def test_turns_of_another_time(store):
    """Turns accept created_at as a datetime and ttl as a timedelta."""
    store.sessions.add("s", [("user", "hello")], created_at=datetime(2024, 5, 1, tzinfo=UTC), ttl=timedelta(hours=1))
    [turn] = store.sessions.turns("s", 1, Scope())
    assert turn.metadata["created_at"] == "2024-05-01T00:00:00Z"
    assert turn.metadata["valid_until"] == "2024-05-01T01:00:00Z"


def test_texts_and_documents_are_memories(store):
    """remember() accepts documents and texts, and gives a text an id made from its content."""
    reports = store.memory.remember([Document("Ada lives in Paris.", id="home"), "Bo plays chess."])
    assert [record.outcome for record in reports] == ["added", "added"]
    assert reports[0] == Admission("home", "added")
    assert [document.page_content for document in store.get_by_ids([reports[1].id])] == ["Bo plays chess."]
    assert store.memory.remember([]) == []


def test_superseding_with_a_text(store):
    """The id of a new fact depends on its text and on the fact it supersedes, so a fact can become true again."""
    store.add_texts(["Ada lives in Paris."], ids=["paris"])
    rome = store.memory.supersede("paris", "Ada lives in Rome.", at="1970-01-02")
    again = store.memory.supersede(rome, "Ada lives in Paris.", at="1970-01-03")
    assert [texts_found(store, as_of=day) for day in ("1970-01-01T23:59", "1970-01-02", "1970-01-03")] == [
        {"paris"},
        {rome},
        {again},
    ]
    assert [(edge.source, edge.relation) for edge in store.edges(["paris"], backwards=True)] == [(rome, SUPERSEDES)]
    assert store.memory.supersede(rome, "Ada lives in Paris.", at="1970-01-03") == again


def test_a_superseded_fact_cannot_be_superseded_again(store):
    """Superseding a fact twice raises an error that names its successor, unless that was retracted."""
    store.add_texts(["Ed has a cat."], ids=["cat"])
    store.memory.supersede("cat", Document("Ed has a dog.", id="dog"), at="1970-01-03")
    hamster = Document("Ed has a hamster.", id="hamster")
    with pytest.raises(ValueError, match=r"'dog' has already superseded 'cat': call supersede\('dog', …\), or retract"):
        store.memory.supersede("cat", hamster, at="1970-01-02")
    assert texts_found(store, "Ed", as_of="1970-01-05") == {"dog"}
    store.memory.retract("dog")
    assert store.memory.supersede("cat", hamster, at="1970-01-02") == "hamster"
    assert texts_found(store, "Ed", as_of="1970-01-05") == {"hamster"}


BAD = Document("Ada lives in Rome.", id="rome", metadata={"confidence": 7})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda store: store.add_texts([3]), r"texts must be a list of texts as strings, got \[3\]"),
        (lambda store: store.memory.remember("Ada likes tea."), "documents must be a list .*, got 'Ada likes"),
        (lambda store: store.memory.remember(Document("Ada")), "documents must be a list .*, got Document"),
        (lambda store: store.memory.supersede("paris", 3), r"got 3 \(int\)"),
        (lambda store: store.memory.supersede("paris", " "), "is blank"),
        (lambda store: store.memory.remember([BAD]), "confidence: 7 is not a number from 0 to 1"),
        (lambda store: store.memory.supersede("paris", BAD), "confidence: 7"),
        (lambda store: store.sessions.add("s", [("user", "x")], metadata=BAD.metadata), "confidence: 7"),
        (lambda store: texts_found(store, known_at="then"), "'then' is not a time"),
        (lambda store: store.similarity_search("Ada", top_k=3), "does not take top_k; the options are k, filter"),
        (lambda store: HybridGraphStore(None, near_duplicate=0), "near_duplicate must be a number > 0 and ≤ 1, got 0"),
        (lambda store: store.similarity_search("Ada", k=-1), "k must be an integer ≥ 0"),
        (lambda store: store.add_texts(["a"], embeddings=[]), "does not take .*embeddings"),
        (lambda store: store.delete("ab"), r"write ids=\['ab'\]"),
        (lambda store: store.max_marginal_relevance_search("Ada", lambda_mult=1.5), "lambda_mult must .* got 1.5"),
    ],
)
def test_invalid_values(store, call, message):
    """Invalid arguments raise an error that contains the expected value, and nothing is stored."""
    store.add_texts(["Ada lives in Paris."], ids=["paris"])
    with pytest.raises((ValueError, TypeError), match=message):
        call(store)
    assert (texts_found(store), len(store)) == ({"paris"}, 1)


def test_a_tenants_mode(tmp_path):
    """Each tenant's memory mode is kept in the folder; None removes it, and an unknown mode is refused."""
    folder = tmp_path / "index"
    with closing(HybridGraphStore(folder, tenant="one")) as store:
        store.memory.set_mode({"type": "procedural", "recency": 0.3})
        with pytest.raises(ConfigurationError, match="procedurall"):
            store.memory.set_mode("procedurall")
    with closing(HybridGraphStore(folder, tenant="two")) as store:
        assert store.memory.mode is None
    with closing(HybridGraphStore(folder, tenant="one")) as store:
        assert store.memory.mode == {"type": "procedural", "recency": 0.3}
        store.memory.set_mode(None)
        assert store.memory.mode is None


class Turned(QueryEmbeddings):
    """Embedding with a cosine of 0.9 between texts whose first letters are in different halves of the alphabet."""

    def embed_query(self, text):
        return [1.0, 0.0] if text[0] < "N" else [0.9, 0.19**0.5]


@pytest.mark.parametrize(
    ("of_store", "of_call", "outcome"),
    [(0.95, None, "added"), (0.85, None, "joined"), (0.95, 0.85, "joined"), (0.85, 0.95, "added")],
)
def test_near_duplicate_of_the_call_takes_precedence(of_store, of_call, outcome):
    """near_duplicate passed to remember takes precedence over the store's."""
    with closing(HybridGraphStore(None, Turned(), near_duplicate=of_store)) as store:
        store.memory.remember(["In May Ada sings."])
        [report] = store.memory.remember(["ada sings in May."], near_duplicate=of_call)
        assert report.outcome == outcome


# -- open_store -------------------------------------------------------------------------------------------------------


def test_a_path_opens_a_folder(tmp_path):
    """open_store() with a path, as a string or a Path, opens the index in that folder."""
    for location in (tmp_path / "index", str(tmp_path / "index")):
        with open_store(location, "lsa", language="german") as store:
            assert isinstance(store, HybridGraphStore)
            assert store.language == "german"


def test_settings_open_milvus(tmp_path):
    """Settings with store_uri give a retriever that searches that Milvus server."""
    pytest.importorskip("pymilvus")
    fake = {"type": "langchain_core.embeddings:DeterministicFakeEmbedding", "size": 8}
    settings = HybridGraphSettings(
        store_uri=f"milvus:{tmp_path / 'lite.db'}", store_embedding=fake, store_tenant="ada", retriever_k=1
    )
    retriever = HybridRetriever.from_settings(settings)
    assert isinstance(retriever.vector_store, MilvusStore)
    assert retriever.vector_store.tenant == "ada"
    retriever.vector_store.add_texts(["A parcel takes two days."], ids=["parcel"])
    assert [document.id for document in retriever.invoke("parcel")] == ["parcel"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"store_uri": "milvus://db", "store_path": "index"}, "store_path applies only to a folder.* specify a server"),
        ({"store_uri": "milvus://db", "store_read_only": True}, "store_read_only applies only to a folder"),
        (
            {"store_path": "index", "store_collection": "notes"},
            "store_collection applies only to a server, .* set either store_uri",
        ),
        ({"store_uri": "milvus://db"}, "needs an embedding"),
        ({}, "store_path is not set"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else None,
)
def test_settings_of_two_kinds_of_store_are_refused(settings, message):
    """Settings that do not apply to the configured kind of store raise a ConfigurationError."""
    with pytest.raises(ConfigurationError, match=message):
        store_from_settings(HybridGraphSettings(**settings))


@pytest.mark.parametrize("location", ["milvs:notes.db", "Milvus:notes.db", "htps://db"])
def test_a_misspelt_scheme_does_not_become_a_folder(tmp_path, monkeypatch, location):
    """The error names the schemes that exist, and nothing is created."""
    monkeypatch.chdir(tmp_path)
    for opened in (open_store, HybridGraphStore):
        with pytest.raises(ConfigurationError, match="scheme of a store must be milvus, http or https"):
            opened(location, Words())
    with pytest.raises(ConfigurationError, match=re.escape(location)):
        MilvusStore(location, Words())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_have_a_colon_in_its_name(tmp_path, monkeypatch):
    """Only what resembles a scheme is refused, and never an absolute path."""
    monkeypatch.chdir(tmp_path)
    for location in ("notes:2024", str(tmp_path / "milvs:notes")):
        open_store(location, "lsa").close()
    assert {path.name for path in tmp_path.iterdir()} == {"notes:2024", "milvs:notes"}


def test_the_other_kind_of_store_is_suggested():
    """A Milvus URI without an embedding, or as the path of HybridGraphStore, raises an error that helps."""
    with pytest.raises(ConfigurationError, match=r'needs an embedding: open_store\("milvus://db", "minilm"\)'):
        open_store("milvus://db")
    with pytest.raises(ConfigurationError, match=r"path must be a folder, got 'milvus://db'; open_store\(uri"):
        HybridGraphStore("milvus://db", "lsa")
