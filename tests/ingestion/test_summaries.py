"""Summaries of directories: their content, their length, and when they are updated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridGraphStore, build_layers, ingest
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.summaries import (
    Directory,
    DirectoryEntry,
    Summary,
    extracted,
    name_of,
)
from langchain_hybridgraph.text.sentences import ABSTRACT_LENGTH, OVERVIEW_LENGTH

PAGES = {
    "docs/guide.md": "# Guide\n\n## Install\n\nRun the installer. It takes a minute.\n\n## Use\n\nOpen the window.",
    "docs/api/get.md": "Gets a thing by its id.",
    "docs/api/put.md": "Puts a thing into the store.",
    "notes/today.md": "Zebrafish were fed.",
}


def pages(**changed):
    contents = PAGES | changed
    texts = {uri: text for uri, text in contents.items() if text}
    return [Document(text, metadata={"uri": uri, "title": name_of(uri)}, id=uri) for uri, text in texts.items()]


def store_with_pages(path=None):
    store = HybridGraphStore(path, DeterministicFakeEmbedding(size=8))
    ingest(pages(), store)
    return store


def layer(store, uri):
    (chunk,) = store.summaries.index().get([uri])
    return chunk


class Noted:
    """Summariser that records the directories that it receives."""

    def __init__(self, failing=()):
        self.directories, self.failing = [], set(failing)

    def __call__(self, directory):
        self.directories.append(directory.uri)
        if directory.uri in self.failing:
            raise RuntimeError("no tokens left")
        return Summary(f"About {directory.uri}", "- " + "\n- ".join(part.name for part in directory.parts))


# -- without a model --------------------------------------------------------------------------------------------


def test_a_summary_consists_of_its_contents():
    """A summary consists of lead sentences of documents and abstracts of directories."""
    store = store_with_pages()
    build_layers(store)
    assert layer(store, "docs/api").metadata["abstract"] == (
        "api: get.md (Gets a thing by its id.), put.md (Puts a thing into the store.)"
    )
    assert layer(store, "docs").text.splitlines()[:3] == [
        "docs: api, guide.md (Run the installer. It takes a minute.)",
        "api: get.md (Gets a thing by its id.), put.md (Puts a thing into the store.)",
        "guide.md: Run the installer. It takes a minute.",
    ]


def test_a_directory_that_is_a_document_is_summarised_from_its_text():
    """The summary of a directory that is a document contains its lead sentences and headings."""
    summary = extracted(Directory("d", "Manual", PAGES["docs/guide.md"], (DirectoryEntry("x", "Of x."),)))
    assert summary.abstract == "Manual: Run the installer. It takes a minute."
    assert summary.overview.splitlines()[1:] == ["Sections: Install; Use", "x: Of x."]


@given(
    st.text(max_size=9_000),
    st.text(max_size=300),
    st.lists(st.tuples(st.text(max_size=400), st.text(max_size=400)), max_size=300),
)
def test_layers_are_short(text, title, parts):
    """For any content, the abstract (L0) and the overview (L1) stay within their maximum lengths."""
    summary = extracted(Directory("d", title, text, tuple(DirectoryEntry(*part) for part in parts)), ["term"] * 500)
    assert len(summary.abstract) <= ABSTRACT_LENGTH
    assert len(summary.overview) <= OVERVIEW_LENGTH


# -- updates ------------------------------------------------------------------------------------------------------


def test_only_changed_directories_are_summarised_again(tmp_path):
    """A changed document updates the summary of its directory, and of the directory above only if that summary
    changed.
    """
    store = store_with_pages(tmp_path)
    build_layers(store, first := Noted())
    assert first.directories == ["docs/api", "docs", "notes"]
    build_layers(store, again := Noted())
    assert again.directories == []
    ingest(pages(**{"docs/api/get.md": "Gets things by their ids."}), store)
    build_layers(store, changed := Noted())
    assert changed.directories == ["docs/api"]
    store.close()


def test_an_interrupted_run_continues(tmp_path):
    """Summaries written before an interruption are kept, and the next run makes only the others."""
    store = store_with_pages(tmp_path)

    class Dies(Noted):
        def __call__(self, directory):
            if len(self.directories) == 2:
                raise KeyboardInterrupt
            return super().__call__(directory)

    with pytest.raises(KeyboardInterrupt):
        build_layers(store, Dies())
    store.close()
    store = HybridGraphStore(tmp_path, DeterministicFakeEmbedding(size=8))
    build_layers(store, rest := Noted())
    assert rest.directories == ["notes"]
    store.close()


def test_summaries_of_deleted_directories_are_removed():
    """The summary of a directory without documents is deleted, and the directory above no longer mentions it."""
    store = store_with_pages()
    build_layers(store)
    store.delete(document=["docs/api/get.md", "docs/api/put.md"])
    report = build_layers(store)
    assert (report.removed, sorted(store.summaries.index().document_ids())) == (1, ["docs", "notes"])
    assert "api" not in layer(store, "docs").text


def test_a_change_of_metadata_calls_no_model():
    """A change of metadata does not call the model, because the texts are the same."""
    store = store_with_pages()
    build_layers(store, Noted())
    for page in (changed := pages()):
        page.metadata["year"] = 2024
    ingest(changed, store)
    build_layers(store, again := Noted())
    assert again.directories == []


# -- with a model -----------------------------------------------------------------------------------------------


class Model:
    """Replacement for a chat model."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []

    def with_structured_output(self, schema, **options):
        def respond(messages):
            self.requests.append(messages)
            return {"raw": None, "parsed": self.answer, "parsing_error": None}

        return RunnableLambda(respond)


def test_a_model_writes_the_summaries():
    """A model receives the parts of each directory and writes its abstract and overview."""
    store = store_with_pages()
    model = Model({"abstract": "All about things.", "overview": "Things are got and put."})
    build_layers(store, model)
    assert len(model.requests) == 3
    assert "Gets a thing by its id." in str(model.requests[0])
    assert layer(store, "docs/api").metadata["abstract"] == "All about things."
    assert layer(store, "docs/api").text.splitlines()[:2] == ["All about things.", "Things are got and put."]


def test_summaries_of_a_model_are_kept():
    """A run without a model replaces only outdated summaries, and the next run with a model replaces those."""
    store = store_with_pages()
    build_layers(store, Noted())
    assert build_layers(store).summarised == 0
    ingest(pages(**{"notes/today.md": "Okapis were fed."}), store)
    assert build_layers(store).summarised == 1
    assert layer(store, "docs").metadata["abstract"] == "About docs"
    assert layer(store, "notes").metadata["abstract"] == "notes: today.md (Okapis were fed.)"
    build_layers(store, again := Noted())
    assert again.directories == ["notes"]


@pytest.mark.parametrize("answer", ["prose", {"overview": "x"}, {"abstract": "  "}, None, 7])
def test_an_unusable_answer(answer):
    """After an unusable answer the extracted summary is used with a warning, and the next run calls the model again."""
    store = store_with_pages()
    report = build_layers(store, Model(answer) if answer is not None else Noted(failing=["docs", "docs/api", "notes"]))
    assert len(report.warnings) == 3
    assert layer(store, "notes").metadata["abstract"] == "notes: today.md (Zebrafish were fed.)"
    build_layers(store, again := Noted())
    assert len(again.directories) == 3


# -- bad input --------------------------------------------------------------------------------------------------


def test_a_store_without_a_tree():
    """A store without a directory tree raises ConfigurationError, which names it and a suitable store."""
    with pytest.raises(ConfigurationError, match="InMemoryVectorStore has none; ingest into a HybridGraphStore"):
        build_layers(InMemoryVectorStore(DeterministicFakeEmbedding(size=8)))


def test_expired_texts_are_not_summarised():
    """Chunks that are not valid now are not summarised."""
    store = store_with_pages()
    old = {"uri": "notes/old.md", "valid_until": 100.0}
    ingest([Document("An old secret.", metadata=old, id="old")], store)
    build_layers(store)
    assert "secret" not in layer(store, "notes").text
