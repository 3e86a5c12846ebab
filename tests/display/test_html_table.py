"""Results as HTML tables."""

import re

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.display import Table
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Hit
from tests.support.samples.sample_hits import answer, graph_hit, search_hit


def html(result, *args, **options):
    return re.sub("<style>.*?</style>", "", Table(result, *args, **options)._repr_html_(), flags=re.DOTALL)


def scored(parts):
    return Hit(Chunk("a", "t"), sum(parts.values()), "fused", parts)


def test_a_result_shows_itself():
    """A notebook displays a result as its table."""
    result = answer(search_hit("a", 0.5))
    assert result._repr_html_() == Table(result)._repr_html_()


def test_score_and_parts():
    """A bar has one segment for each part of the score, as wide as its share of 1, with the numbers below."""
    page = html(answer(scored({"vector": 0.5, "keyword": 0.25})))
    assert "<strong>0.750</strong>" in page
    assert re.findall(r'<span style="width:([\d.]+)%', page) == ["50.0", "25.0"]
    assert "vector 0.500" in page


def test_deductions_cover_the_end_of_the_bar():
    """A negative part covers the end of the bar, so the remaining length is the score."""
    page = html(answer(scored({"similarity": 0.6, "novelty": -0.2})))
    assert 'class="less" style="left:40.0%;width:20.0%"' in page
    assert "novelty −0.200" in page


def test_parts_beyond_one_still_fit():
    """If the positive parts add up to more than 1, the bar is scaled to their sum."""
    page = html(answer(scored({"vector": 1.2, "rerank": -0.6})))
    assert re.findall(r'<span style="width:([\d.]+)%', page) == ["100.0"]
    assert "left:50.0%;width:50.0%" in page


def test_each_part_has_its_own_colour():
    """Each part of the score has the same colour in every row, and different parts have different colours."""
    both = answer(scored({"vector": 0.1, "time": 0.1, "hotness": 0.1}), scored({"hotness": 0.1, "vector": 0.1}))
    chips = re.findall(r'chip" style="background:(#\w+)"></span> (\w+)', html(both))
    assert len(set(chips)) == 3
    assert len({colour for colour, _ in chips}) == 3


def test_matched_words_are_marked():
    """Words of the query are highlighted in the text, compared as in the index."""
    store = HybridGraphStore.from_texts(["Parcels were lost."], "lsa", ids=["n"])
    assert "<mark>Parcels</mark> were <mark>lost</mark>" in html(HybridRetriever(store).retrieve("a lost parcel"))


def test_the_path_of_a_hit():
    """The path of a hit starts at its seed's title and has the name and weight of each edge."""
    far = graph_hit(("seed", "b", "c"), 0.4, ("entity:name:Elin", 0.8), ("depends_on", 0.5), title="Far")
    page = re.sub("<[^>]*>", "", html(answer(search_hit("seed", 0.9), far)))
    assert "↳ from Text of seed. –depends on 0.50→ b –“name:Elin” 0.80–".replace("name:", "") in page.replace(
        "name:", ""
    )


def test_an_arrow_points_as_the_edge_is_stored():
    """The arrow of an edge traversed backward points back, and an unknown edge has no arrow."""
    page = re.sub("<[^>]*>", "", html(answer(search_hit("a", 0.9), graph_hit(("a", "z"), 0.4, ("<cites", 0.6)))))
    assert "↳ from Text of a. ←cites 0.60–" in page
    page = re.sub("<[^>]*>", "", html(answer(search_hit("a", 0.9), graph_hit(("a", "b"), 0.4))))
    assert "↳ from Text of a. –" in page
    assert "→" not in page


def test_documents_show_the_same():
    """The Documents of a result give the same table as the result if the query is passed."""
    store = HybridGraphStore.from_texts(["Parcels were lost.", "Trains are late."], "lsa", ids=["n", "m"])
    result = HybridRetriever(store, metadata_prefix="x_").retrieve("a lost parcel")
    table = re.search("<table>.*</table>", html(result))
    assert re.search("<table>.*</table>", html(list(result), "a lost parcel", metadata_prefix="x_"))[0] == table[0]


def test_documents_of_others():
    """A Document without a score is shown with a dash instead of 0."""
    page = html([Document("Ada wrote it.", id="a")])
    assert "<strong>–</strong>" in page
    assert "Ada wrote it." in page


def test_everything_is_escaped():
    """HTML in texts, ids, titles, edges and queries is escaped, in elements and attributes."""
    evil = "<script>\"'&"
    hit = graph_hit((evil, "b" + evil), 0.5, ("r" + evil, 0.5), title=evil)
    hit.graph_context[0]["description"] = evil
    page = html(answer(hit, query=evil, degraded=[evil]))
    assert "<script" not in page
    assert 'title="&lt;script&gt;&quot;&#x27;&amp;"' in page


def test_dollar_signs_are_not_formulas():
    """The table tells MathJax to ignore it, so dollar signs are not read as formulas."""
    assert 'class="hybridgraph tex2jax_ignore mathjax_ignore"' in html(answer(search_hit("a", 0.5)))


def test_degradation_is_shown():
    """Reasons for degradation are shown below the table, including the table of an empty result."""
    assert "Not as requested: keyword-failed (the keyword search failed; only the vector search was used)." in html(
        answer(search_hit("a", 0.5), degraded=["keyword-failed"])
    )
    assert "Nothing found." in html(answer(degraded=["keyword-failed"]))
    assert "Not as requested: keyword-failed (the keyword search failed; only the vector search was used)." in html(
        answer(degraded=["keyword-failed"])
    )


def test_an_early_end_is_not_a_fault():
    """An early end of the traversal is shown with the remark that nothing is missing."""
    page = html(answer(search_hit("a", 0.5), degraded=["converged-early"]))
    assert "Not as requested" not in page
    assert "so the traversal ended early; nothing is missing." in page


def test_many_hits_are_cut():
    """With rows=2, the table has two rows and the number of the remaining hits."""
    page = html(answer(*[search_hit(str(n), 0.5) for n in range(5)]), rows=2)
    assert page.count('<td class="rank">') == 2
    assert "… and 3 more" in page


def test_the_text_form_of_a_table():
    """Outside a notebook a table is printed as one line per hit."""
    assert repr(Table(answer(search_hit("a", 0.5)))) == "1  0.500  a  Text of a."
    assert repr(Table([])) == "Nothing found."


@pytest.mark.parametrize("wrong", ["text", 7, ["text"], [7]])
def test_invalid_results_are_rejected(wrong):
    """A value that is not a result or a list of Documents raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match="expected a"):
        Table(wrong)


def test_wrong_settings():
    """An unknown language or an invalid number of rows raises ConfigurationError at construction."""
    with pytest.raises(ConfigurationError, match="klingon"):
        Table(answer(search_hit("a", 0.5)), language="klingon")
    for rows in (0, "x", 2.5):
        with pytest.raises(ConfigurationError, match="rows"):
            Table(answer(search_hit("a", 0.5)), rows=rows)
