"""``ingest`` with the embedded store: SQLite, Chroma and Tantivy agree."""

from functools import partial

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
from langchain_hybridgraph.ingestion.splitting import RecursiveSplitter
from langchain_hybridgraph.records import Query, Scope
from tests.support.stores.words import open_named

ingest = partial(ingest_documents, split=RecursiveSplitter(join_sections=False))  # each section is a chunk
GUIDE = "# Guide\n\nhello\n\n## Install\n\nrun the [setup](setup.md)\n\n## Use\n\nask anything"


class Counting(Embeddings):
    """Embedding whose vectors depend on the length of a text; it records the texts."""

    def __init__(self):
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return np.eye(8)[[len(text) % 8 for text in texts]].tolist()

    def embed_query(self, text):
        return np.eye(8)[len(text) % 8].tolist()


def page(text, source):
    return Document(page_content=text, metadata={"source": source, "uri": f"docs/{source}"})


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "index"
    store = open_named(path, Counting(), "counting")
    yield store
    store.close()


def edges(store, *ids):
    return {(edge.source, edge.relation, edge.target) for edge in store.edges(ids)}


def hit_ids(store, text):
    return [entry.id for entry in store.keyword_search(Query(text, 5, Scope()), 5).entries]


def test_an_unchanged_ingest_writes_nothing(store):
    """Ingesting an unchanged document again embeds nothing and writes no row."""
    first = ingest([page(GUIDE, "a.md")], store, split="parent_child")
    version = store.admin.stats()["version"]
    again = ingest([page(GUIDE, "a.md")], store, split="parent_child")
    assert (first.added, first.embedded, first.parents) == (4, 3, 1)
    assert (again.added, again.updated, again.unchanged, again.embedded) == (0, 0, 4, 0)
    assert len(store.embedding.texts) == 3
    assert store.admin.stats()["version"] == version


def test_an_edit_is_found_and_the_old_text_is_not(store):
    """After an edit, new words are found, deleted words are not, and the engines agree with the catalog."""
    ingest([page(GUIDE, "a.md")], store)
    report = ingest([page(GUIDE.replace("## Use\n\nask anything", "## Ask\n\nquestions"), "a.md")], store)
    assert (report.added, report.removed, report.embedded) == (1, 1, 1)
    assert hit_ids(store, "questions") == ["a.md#ask"]
    assert hit_ids(store, "anything") == []
    assert store.admin.check().ok


def test_parents_are_deleted_with_their_children(store):
    """Shortening a document deletes its old chunks and their parents."""
    ingest([page(GUIDE + " word" * 1_000, "a.md")], store, split="parent_child")
    assert len(store.document_chunks(["a.md"])["a.md"]) > 6
    ingest([page("short", "a.md")], store, split="parent_child")
    assert len(store.document_chunks(["a.md"])["a.md"]) == 2
    assert store.has_parents


def test_pruning_removes_whole_documents(store):
    """Chunks of pruned documents are deleted, along with their postings and edges."""
    ingest([page(GUIDE, "a.md"), page("# Setup\n\nsteps", "setup.md")], store)
    report = ingest([page("# Setup\n\nsteps", "setup.md")], store, prune_documents=True)
    assert (report.removed, report.unchanged) == (3, 1)
    assert hit_ids(store, "anything") == []
    assert edges(store, "a.md#0", "a.md#install") == set()
    assert store.admin.check().ok
