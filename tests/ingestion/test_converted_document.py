import pickle
import re

import pytest

from langchain_hybridgraph import HybridGraphStore, LinkEdges, ingest
from langchain_hybridgraph.ingestion.converted_document import ConvertedDocument
from langchain_hybridgraph.ingestion.files import read_files
from langchain_hybridgraph.ingestion.splitting import Cutter, RecursiveSplitter, as_splitter

# Headings as in FastAPI's documentation.
PAGE = (
    "# Features { #features }\n\n## FastAPI features { #fastapi-features }\n\nSee <a id='it'></a> it.\n\n"
    "```markdown\n## Not a heading { #code }\n```\n\n"
    "### Just `Modern` Python { #just-python .wide }\n\nNo new syntax.\n\n## Recap\n\nThat is all.\n\n"
    "## Recap { #more }\n\nAnd more.\n"
)


@pytest.fixture
def document(tmp_path):
    return read(tmp_path / "features.md", PAGE)


def read(file, text):
    file.write_text(text)
    (document,) = read_files(file)
    return document


def test_anchors_are_in_the_metadata_and_not_in_the_text(document):
    """With any splitter, the text of a chunk has no anchors and its metadata lists them."""
    for splitter in (
        RecursiveSplitter(join_sections=False),
        as_splitter(lambda text: re.split(r"(?=^#+ )", text, flags=re.M)),
    ):
        chunks = Cutter(splitter, print).cut(document).chunks
        anchors = {chunk.text.partition("\n")[0]: chunk.metadata.get("anchors") for chunk in chunks}
        assert anchors["### Just `Modern` Python"][0] == "just-python"
        assert not any("{ #" in chunk.text for chunk in chunks if "```" not in chunk.text)


def test_anchors_are_pickled_and_copied(document):
    """A document keeps its anchors when it is pickled or copied."""
    assert pickle.loads(pickle.dumps(document)) == document.model_copy(deep=True) == document
    assert pickle.loads(pickle.dumps(document)).anchors == document.anchors


def test_ids_of_markdown_headings_are_anchors_outside_the_text(tmp_path):
    """Ids at the end of Markdown headings, except in code, are removed from the text and become anchors."""
    document = read(tmp_path / "features.md", PAGE)
    assert document.page_content == (
        "# Features\n\n## FastAPI features\n\nSee <a id='it'></a> it.\n\n"
        "```markdown\n## Not a heading { #code }\n```\n\n"
        "### Just `Modern` Python\n\nNo new syntax.\n\n## Recap\n\nThat is all.\n\n"
        "## Recap\n\nAnd more.\n"
    )
    places = {anchor.name: document.page_content[anchor.start :][:10] for anchor in document.anchors}
    assert places["fastapi-features"] == "## FastAPI"
    assert places["it"] == "<a id='it'"
    assert places["just-python"] == "### Just `"
    assert document.metadata["title"] == "Features"


def test_links_lead_to_ids_of_markdown_headings(tmp_path):
    """A link leads to the section with the linked id, even if another section has the same heading."""
    pages = [
        read(tmp_path / "features.md", PAGE),
        read(tmp_path / "index.md", "[a](features.md#just-python) [b](features.md#recap) [c](features.md#more)"),
    ]
    for page in pages:
        page.metadata["source"] = page.metadata["uri"] = page.metadata["source"].rpartition("/")[2]
    store = HybridGraphStore(None)
    ingest(pages, store, split=RecursiveSplitter(join_sections=False), edges=[LinkEdges()])
    link_targets = {edge.target for edge in store.edges(["index.md#0"]) if edge.relation == "references"}
    assert link_targets == {"features.md#just-python", "features.md#recap", "features.md#more"}


@pytest.mark.parametrize(
    "text",
    [
        "# Use\n\nRun `{ #it }` {#here}.\n",
        "# Use\n\n```\n# Run { #it }\n```\n\n    # Run { #it }\n",
        "# GET /items/{#item}\n\n## GET {item.id}\n\n## Color {color=#fff}\n\n## Wide {: .wide }\n",
        "# Use \\{#id\\}\n\n# { #id }\n\n## {{ #if }}\n",
    ],
)
def test_other_braces_of_markdown_stay_in_the_text(tmp_path, text):
    """Only an attribute list with an id at the end of a heading is removed."""
    document = read(tmp_path / "page.md", text)
    assert document.page_content == text
    assert not isinstance(document, ConvertedDocument)
