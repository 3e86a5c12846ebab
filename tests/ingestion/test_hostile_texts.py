"""Texts without words or sentences are ingested in linear time."""

import signal

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, ingest
from langchain_hybridgraph.ingestion.markdown import find_links, outline
from langchain_hybridgraph.text.names import read

MEGABYTE = 1_000_000
MARKDOWN = 50_000  # the Markdown parser is linear, too, but slower because it is written in Python
HANG = 120  # seconds: quadratic work over a megabyte takes far longer, linear work about one


@pytest.fixture(autouse=True)
def alarm():
    """Fail a test that hangs."""

    def hangs(number, frame):
        raise AssertionError(f"not done after {HANG} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def repeated(unit, size=MEGABYTE):
    return unit * (size // len(unit))


@pytest.mark.parametrize("unit", ["-", ",", " ", "\n", "[", "<", "`", "“", "。", "😀", "é ", "A-", "\u0301"])
def test_names_are_found_in_linear_time(unit):
    """A long run of one character is searched for names in linear time."""
    assert read([repeated(unit)])


@pytest.mark.parametrize("unit", ["```x\n", "~~~~x\n~~~y\n", "`", "[", "[[", "[](", "<a ", "`a<", ":a:`", "https://"])
def test_links_are_found_in_linear_time(unit):
    """Long runs of unclosed fences, brackets and tags are searched for links in linear time."""
    assert len(list(find_links(repeated(unit, MARKDOWN), {"A": {"href": "b", "title": ""}}))) < MARKDOWN


@pytest.mark.parametrize("unit", ["# a\n", f"# a{' ' * 900}b\n", "# {.\n", "===\n", "a\n---\n", "```x\n"])
def test_headings_are_found_in_linear_time(unit):
    """Many headings, or headings with much space inside, are found in linear time."""
    assert outline(repeated(unit, MARKDOWN)).sections


@pytest.mark.parametrize("split", ["flat", "parent_child", None])
@pytest.mark.parametrize("unit", ["-", ",", "a"])
def test_a_text_without_words_is_ingested_in_linear_time(unit, split):
    """A megabyte without words is split, indexed and searched for edges in linear time."""
    with HybridGraphStore(None, embedding=DeterministicFakeEmbedding(size=4)) as store:
        report = ingest([Document(repeated(unit), metadata={"source": "a.md"})], store, split=split)
        assert report.documents == 1
        assert report.chunks > (0 if split is None else 100)
