import pickle

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps, loads

from langchain_hybridgraph.ingestion.chunking import Cutter
from langchain_hybridgraph.ingestion.readers.files import read_files
from langchain_hybridgraph.ingestion.splitters import RecursiveSplitter, as_splitter

SOURCE = (
    "Settings\n========\n\nAll of them.\n\n.. confval:: theme\n\n   The theme.\n\n.. _more:\n\nMore\n----\n\nText.\n"
)


@pytest.fixture
def document(tmp_path):
    (tmp_path / "api.rst").write_text(SOURCE)
    (found,) = read_files(tmp_path / "api.rst")
    return found


def targets(splitter, document):
    chunks = Cutter(splitter, print).cut(document).chunks
    assert all(document.page_content[chunk.metadata["start_index"] :].startswith(chunk.text) for chunk in chunks)
    return [(chunk.text.partition("\n")[0], chunk.metadata.get("targets")) for chunk in chunks]


def test_chunks_have_the_anchors_but_their_text_has_not(document):
    """A chunk is a part of a text without anchors; its metadata name those in it, whichever splitter cuts."""
    expected = [("# Settings", None), ("## `theme`", ["confval-theme"]), ("## More", ["more"])]
    assert targets(RecursiveSplitter(join_sections=False), document) == expected
    assert (
        targets(
            as_splitter(lambda text: ["## " * (at > 0) + part for at, part in enumerate(text.split("## "))]), document
        )
        == expected
    )


def test_anchors_do_not_outlive_the_text(document):
    """Anchors at unknown places are none."""
    assert [anchor.name for anchor in document.anchors] == ["confval-theme", "more"]
    document.page_content = f"Before.\n\n{document.page_content}"
    assert document.anchors == ()


def test_anchors_go_to_other_processes(document):
    """A document is pickled and copied with its anchors."""
    assert pickle.loads(pickle.dumps(document)) == document.model_copy(deep=True) == document
    assert pickle.loads(pickle.dumps(document)).anchors == document.anchors


def test_langchain_loads_a_plain_document(document):
    """A saved document is loaded as a LangChain Document, without this package."""
    plain = loads(dumps(document), allowed_objects="core")
    assert plain == Document(page_content=document.page_content, metadata=document.metadata)
