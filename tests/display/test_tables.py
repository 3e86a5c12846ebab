"""Tables of results, reports, stores and retrievers in notebooks."""

import dataclasses
import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, RetrievalResult, ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.evaluation import choose_setting, measure, vary_weight
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.samples.sample_hits import answer, graph_hit, search_hit


def html(result):
    return re.sub("<style>.*?</style>", "", result._repr_html_(), flags=re.DOTALL)


def words(result):
    return re.sub("<[^>]*>", "", html(result))


@pytest.mark.parametrize(
    ("parts", "widths"),
    [
        ({"vector": 0.5, "keyword": 0.25}, ["50.0", "25.0"]),
        ({"vector": 0.6, "keyword": 0.2, "novelty": -0.4}, ["30.0", "10.0"]),
        ({"vector": 1.5, "rerank": 0.5}, ["75.0", "25.0"]),
    ],
)
def test_the_bar_shows_the_parts_of_the_score(parts, widths):
    """The bar is as long as the score, and divided in the ratio of the positive parts."""
    page = html(answer(Hit(Chunk("a", "t"), sum(parts.values()), "fused", parts)))
    assert f"<strong>{sum(parts.values()):.3f}</strong>" in page
    assert re.findall(r'<span style="width:([\d.]+)%', page) == widths
    for name, value in parts.items():
        assert f"{name} {value:.3f}".replace("-", "−") in page


def test_each_part_has_its_own_colour():
    """Each part of the score has the same colour in every row, and different parts have different colours."""
    hits = [
        Hit(Chunk(id, "t"), 0.3, "fused", dict.fromkeys(names, 0.1))
        for id, names in (("a", ["vector", "time", "hotness"]), ("b", ["hotness", "vector"]))
    ]
    chips = re.findall(r'chip" style="background:(#\w+)"></span> (\w+)', html(answer(*hits)))
    assert len(chips) == 5
    assert len(set(chips)) == len({colour for colour, _ in chips}) == 3


def test_matched_words_are_marked():
    """Words of the query are highlighted in the text, compared as in the index."""
    store = HybridGraphStore.from_texts(["Parcels were lost."], "lsa", ids=["n"])
    assert "<mark>Parcels</mark> were <mark>lost</mark>" in html(HybridRetriever(store).retrieve("a lost parcel"))


@pytest.mark.parametrize(
    ("hit", "line"),
    [
        (
            graph_hit(("seed", "b", "c"), 0.4, ("entity:Elin", 0.8), ("depends_on", 0.5)),
            "–depends on 0.50→ b –“Elin” 0.80–",
        ),
        (graph_hit(("seed", "z"), 0.4, ("<cites", 0.6)), "↳ from Text of seed. ←cites 0.60–"),
        (graph_hit(("seed", "b"), 0.4), "↳ from Text of seed. –"),
    ],
    ids=["entity", "backward", "unknown edge"],
)
def test_the_path_of_a_hit(hit, line):
    """The path of a hit starts at its seed's title and has the name, weight and stored direction of each edge."""
    assert words(answer(search_hit("seed", 0.9), hit)).endswith(f"{line}2 hits in 2.0 ms")


def test_documents_of_others():
    """A Document without a score is shown with a dash instead of 0."""
    page = html(RetrievalResult([Document("Ada wrote it.", id="a")], plan={"query": "Who wrote it?"}))
    assert "<strong>–</strong>" in page
    assert "Ada <mark>wrote</mark> it." in page


def test_everything_is_escaped():
    """HTML in texts, ids, titles, edges and queries is escaped, in elements and attributes, and is not a formula."""
    evil = "<script>\"'&"
    hit = graph_hit((evil, "b" + evil), 0.5, ("r" + evil, 0.5), title=evil)
    hit.graph_context[0]["description"] = evil
    page = html(answer(hit, query=evil, degraded=[evil]))
    assert "<script" not in page
    assert 'title="&lt;script&gt;&quot;&#x27;&amp;"' in page
    assert 'class="hybridgraph tex2jax_ignore mathjax_ignore"' in page


@given(st.text("ab <>&\"'s数据\u0301", max_size=900), st.text("ab <&数据", max_size=30))
def test_nothing_is_lost_and_nothing_is_markup(text, query):
    """Without its highlighting, a passage is the escaped text or a part of it."""
    page = html(answer(Hit(Chunk("a", text, {"title": "T"}), 0.5, "vector", {}), query=query))
    passage = re.search("<div>(.*)</div></td>", page, re.DOTALL)[1].replace("<mark>", "").replace("</mark>", "")
    assert "<" not in passage
    assert unescape(passage).removeprefix("… ").removesuffix(" …").strip() in " ".join(text.split())


@pytest.mark.parametrize("hits", [[search_hit("a", 0.5)], []])
def test_degradation_is_shown(hits):
    """Reasons are shown below the table, including that of an empty result; a normal outcome is not a fault."""
    text = words(answer(*hits, degraded=["keyword-failed", "converged-early"]))
    assert ("Nothing found." in text) is (not hits)
    assert "Not as requested: keyword-failed (the keyword search failed; only the vector search was used)." in text
    assert text.count("Not as requested") == 1
    assert "so the traversal ended early; nothing is missing." in text


def test_many_hits_are_cut():
    """The table has at most 50 rows, and the number of the remaining hits."""
    page = html(answer(*[search_hit(str(n), 0.5) for n in range(53)]))
    assert page.count('<td class="rank">') == 50
    assert "… and 3 more" in page


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
