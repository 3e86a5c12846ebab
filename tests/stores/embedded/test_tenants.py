"""Listing and dropping the tenants of a folder."""

import shutil
import sqlite3

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import EmbeddingMismatchError, NotAnIndexError, TenantError
from langchain_hybridgraph.ingestion.summaries import build_layers
from langchain_hybridgraph.records import Edge, Query
from langchain_hybridgraph.stores.check import drop_tenant, list_tenants
from tests.support.stores.words import chunk, open_words

SECRET = "xylophonist"
MODEL = DeterministicFakeEmbedding(size=16)


def opened(path, tenant, **options):
    return HybridGraphStore(path, MODEL, tenant=tenant, **options)


def fill(path, tenant, word):
    """Write every kind of data of a tenant: chunks, edges, a session, feedback, a mode, summaries."""
    with opened(path, tenant) as store:
        chunks = [
            Chunk(f"{word}-{n}", f"The {word} plays piece {n}.", {"source": f"{word}.md", "uri": f"{word}/{n}.md"},
                  parent_id=f"{word}-parent")
            for n in range(5)
        ]  # fmt: skip
        edges = [
            Edge(f"{word}-0", f"{word}-1", "cites", description=f"by the {word}"),
            Edge(f"{word}-0", f"entity:{word}", "mentions"),
        ]
        store.upsert(chunks, parents=[Chunk(f"{word}-parent", f"All about the {word}.")], edges=edges)
        store.flush()
        store.sessions.add(f"session-{word}", [("user", f"Who is the {word}?")])
        store.memory.feedback(f"{word}-0", "validate")
        store.memory.supersede(f"{word}-4", f"The {word} has retired.")
        store.memory.set_mode("procedural")
        build_layers(store)
        return store.admin.stats()


@pytest.fixture(scope="module")
def both_and_alone(tmp_path_factory):
    """Return a folder with two tenants, and one that never contained the first of them."""
    both, alone = tmp_path_factory.mktemp("both") / "index", tmp_path_factory.mktemp("alone") / "index"
    fill(both, "ada", SECRET)
    fill(both, "bo", "drummer")
    fill(alone, "bo", "drummer")
    return both, alone


@pytest.fixture
def folder(both_and_alone, tmp_path):
    """Return a folder with two tenants."""
    return shutil.copytree(both_and_alone[0], tmp_path / "index")


def rows(path, table):
    with sqlite3.connect(path / "catalogue.sqlite") as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def everything(path):
    """Return the bytes of all files."""
    return b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())


@pytest.mark.parametrize("call", [list_tenants, lambda path: drop_tenant(path, "ada")])
def test_a_folder_without_tenants_refuses(tmp_path, call):
    """Listing or dropping tenants of a folder without tenants, or of a path without an index, raises an error."""
    HybridGraphStore.from_texts(["one"], MODEL, path=tmp_path / "single").close()
    with pytest.raises(TenantError, match="without tenants"):
        call(tmp_path / "single")
    with pytest.raises(NotAnIndexError, match="no index"):
        call(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_listing_and_dropping(folder):
    """A tenant with only a memory mode is listed; drop_tenant() returns the tenant's statistics, or names a typo."""
    with opened(folder, "cy") as store:
        store.memory.set_mode("procedural")
    with opened(folder, "ada", read_only=True) as store:
        before = store.admin.stats()
    with pytest.raises(TenantError, match="no data of tenant 'adda'"):
        drop_tenant(folder, "adda")
    assert list_tenants(folder) == {"ada": 7, "bo": 7, "cy": 0}
    dropped = drop_tenant(folder, "ada")
    assert dropped == {name: before[name] for name in ("chunks", "parents", "edges", "entities", "sessions", "layers")}
    assert dropped["layers"] > 0
    assert list_tenants(folder) == {"bo": 7, "cy": 0}


def test_nothing_of_a_dropped_tenant_is_left(folder, both_and_alone):
    """After drop_tenant(), all tables are as they would be without the tenant, and no file contains its words."""
    alone = both_and_alone[1]
    assert SECRET.encode() in everything(folder)
    drop_tenant(folder, "ada")
    for table in ("nodes", "learned", "past_validity", "past_trust", "credibility", "edges"):
        assert rows(folder, table) == rows(alone, table), table
    assert rows(folder / "layers-0", "nodes") == rows(alone / "layers-0", "nodes")
    assert SECRET.encode() not in everything(folder)
    with opened(folder, "ada") as store:
        assert store.memory.mode is None
        assert store.memory.credibility(f"{SECRET}.md") == 0.5
        assert store.sessions.counts() == {}
        assert store.summaries.index() is None or len(store.summaries.index()) == 0


def test_no_vector_of_a_dropped_tenant_is_left(folder):
    """drop_tenant() overwrites the tenant's rows of the matrix with zeros, also those of replaced texts."""
    own = MODEL.embed_query(f"The {SECRET} plays piece 1.")
    with opened(folder, "ada") as store:
        [there] = store.similarity_search_with_score_by_vector(own, 1)
        assert there[1] == pytest.approx(1.0, abs=1e-5)
        [row] = store._index.rows.rows([f"{SECRET}-1"])
        store.add_texts(["Something else."], ids=[f"{SECRET}-1"])
    drop_tenant(folder, "ada")
    with opened(folder, "bo", read_only=True) as store:
        assert not store._index.generation.matrix.take([row]).any()


def test_other_tenants_stay_as_they_are(folder):
    """Dropping a tenant changes no statistics, hits, edges or memory state of another tenant."""

    def snapshot():
        with opened(folder, "bo") as store:
            stats = {name: value for name, value in store.admin.stats().items() if name not in ("version", "bytes")}
            hits = store.similarity_search_with_score("The drummer plays piece 2.", k=5)
            edges = store.edges([f"drummer-{n}" for n in range(5)])
            assert store.admin.check().problems == ()
            memory = store.memory.mode, store.memory.credibility("drummer.md"), store.sessions.counts()
            return stats, hits, edges, memory

    before = snapshot()
    drop_tenant(folder, "ada")
    assert snapshot() == before


def test_a_tenant_can_be_dropped_while_stores_are_open(folder):
    """A tenant can be dropped while its store and another tenant's store are open and writing."""
    with opened(folder, "bo") as bo, opened(folder, "ada") as ada:
        bo.add_texts(["Before."], ids=["before"])
        ada.add_texts(["Of no use any more."])
        drop_tenant(folder, "ada")
        bo.add_texts(["After."], ids=["after"])
        assert {"before", "after"} <= {hit.id for hit in bo.similarity_search("Before. After.", k=20)}
        assert ada.similarity_search("piece 2", k=3) == []
        assert bo.admin.check().problems == ()


def test_the_embedding_is_still_recognised(folder):
    """After the tenant whose text identified the embedding is dropped, another embedding is still refused."""
    drop_tenant(folder, "ada")
    with opened(folder, "bo") as store:
        store.add_texts(["A later text."])
    with pytest.raises(EmbeddingMismatchError):
        HybridGraphStore(folder, DeterministicFakeEmbedding(size=17), tenant="bo")


def test_a_tenant_of_a_fitted_model_can_be_dropped(tmp_path):
    """With an LSA model, dropping a tenant leaves another tenant's search results unchanged."""
    for tenant, word in (("ada", SECRET), ("bo", "drummer")):
        with HybridGraphStore(tmp_path, "lsa", tenant=tenant) as store:
            store.add_texts([f"The {word} plays piece {n}." for n in range(4)])
    with HybridGraphStore(tmp_path, tenant="bo", read_only=True) as store:
        before = store.similarity_search_with_score("drummer")
    drop_tenant(tmp_path, "ada")
    with HybridGraphStore(tmp_path, tenant="bo") as store:
        assert store.similarity_search_with_score("drummer") == before
        assert store.admin.check().problems == ()


# -- shared statistics ------------------------------------------------------------------------------------------------


def test_a_score_depends_on_other_tenants_only_by_the_frequency_of_the_word(tmp_path):
    """A word that another tenant uses scores lower, no text of that tenant is found, and a new folder hides it."""
    scores = []
    for folder, text in ((tmp_path / "shared", "merger layoffs"), (tmp_path / "alone", "harmless words")):
        with open_words(folder, tenant="ada") as ada, open_words(folder, tenant="other") as other:
            ada.upsert([chunk("probe", "merger"), *(chunk(f"a{n}", f"other{n}") for n in range(8))])
            other.upsert([chunk(f"b{n}", text) for n in range(8)])
            other.flush()
            result = ada.keyword_search(Query("merger", 10), 10)
        assert list(result.ids) == ["probe"]
        scores.append(result.scores["probe"])
    assert scores[0] < scores[1]
