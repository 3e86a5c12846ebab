"""Tables of reports, stores and retrievers in notebooks."""

import dataclasses
import re

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.evaluation import choose_setting, measure, vary_weight
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever


@pytest.fixture(scope="module")
def store():
    with HybridGraphStore.from_texts(["The cat sleeps.", "A dog barks."], "lsa", ids=["cat", "dog"]) as store:
        yield store


def rows(item):
    """Return the heading and the rows of a table as text, and check that all other angle brackets are escaped."""
    html = re.sub("<style>.*?</style>", "", item._repr_html_(), flags=re.DOTALL)
    assert "<b>" not in html
    heading = re.search("<strong>(.*?)</strong>", html)[1]
    return heading, dict(re.findall('<tr><td class="name">(.*?)</td><td>(.*?)</td></tr>', html))


def test_an_ingest_report_shows_its_counts(store):
    """A report shows one row per count, without empty lists, and its warnings below; file names are escaped."""
    report = ingest([Document("A bird sings.", metadata={"source": "bird"})], HybridGraphStore(None, "lsa"))
    heading, fields = rows(report)
    assert heading == "IngestReport"
    assert (fields["documents"], fields["added"], "unread" in fields) == ("1", "1", False)
    report = dataclasses.replace(
        report, chunks=12_000, warnings=("left out <b>x</b>",), unread={f"<b>{n}</b>": "damaged" for n in range(25)}
    )
    _, fields = rows(report)
    assert fields["chunks"] == "12,000"
    assert fields["unread"].split("<br>")[0] == "&lt;b&gt;0&lt;/b&gt;: damaged"
    assert fields["unread"].endswith("… and 5 more")
    assert "left out &lt;b&gt;x&lt;/b&gt;" in report._repr_html_()


def test_a_tuning_result_shows_the_recommended_setting(store):
    """The result of choose_setting shows the recommended setting first."""
    questions = {"Which animal sleeps?": ["cat"], "Which animal barks?": ["dog"]}
    result = choose_setting(measure(vary_weight(HybridRetriever(store), [0, 1]), questions), "0", parts=2)
    heading, fields = rows(result)
    assert heading == "TuningResult"
    assert next(iter(fields.items())) == ("recommended", result.setting)


def test_a_store_shows_its_contents(store, tmp_path):
    """A store shows what it contains and, on disk, its size; a closed store says that it is closed."""
    heading, fields = rows(store)
    assert heading == "HybridGraphStore(None, &#x27;lsa&#x27;)"
    assert (fields["chunks"], fields["embedding"], fields["MB on disk"]) == ("2", "lsa", "–")
    on_disk = HybridGraphStore.from_texts(["a text"], path=tmp_path / "<b>")
    assert float(rows(on_disk)[1]["MB on disk"]) > 0
    on_disk.close()
    assert "the store is closed" in on_disk._repr_html_()


def test_a_retriever_shows_its_store_and_the_options_that_were_set(store):
    """A retriever shows its store, k and the options that were set, within groups only those that were set."""
    retriever = GraphRetriever(store, k=3, filter={"owner": "<b>"}, graph={"seed_k": 4})
    heading, fields = rows(retriever)
    assert heading == "GraphRetriever"
    assert list(fields) == ["vector_store", "k", "graph", "filter"]
    assert (fields["k"], fields["graph"]) == ("3", "seed_k: 4")
    assert "HybridGraphStore" in fields["vector_store"]
    _, fields = rows(AdvancedRetriever(retriever))
    assert fields["retriever"].startswith("GraphRetriever(")
    assert fields["k"] == "–"


def test_the_repr_of_a_retriever_has_only_options_that_were_set(store):
    """The repr of a retriever leaves out groups with default values, and defaults in other groups."""
    assert repr(HybridRetriever(store)) == f"HybridRetriever(vector_store={store!r})"
    assert "selection=SelectionOptions(mmr_lambda=0.7)," in repr(HybridRetriever(store, selection={"mmr_lambda": 0.7}))
