"""Results as text."""

from dataclasses import replace

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.display import explain_result
from langchain_hybridgraph.display.explanation import quote, title
from tests.support.samples.sample_hits import answer, graph_hit, search_hit


def test_the_search_comes_first():
    """An explanation starts with the question, the sources and weights, the fusion, the traversal and the
    degradation.
    """
    expansion = {"traversal": "bfs", "score": "hop_decay"}
    plan = {"weights": {"vector": 0.7, "keyword": 0.3}, "fusion": "max", "walk": expansion, "method": "graph"}
    paragraph = explain_result(
        answer(
            search_hit("a", 0.9), degraded=("unknown-relation",), remarks={"unknown-relation": "no edge has it"}, **plan
        )
    ).split("\n\n")[0]
    assert paragraph.split("\n") == [
        "Who wrote it?",
        "1 hit in 2.0 ms, searched by vector (weight 0.7) and keyword (weight 0.3), fusion max, "
        "then expanded through edges (traversal bfs, score hop_decay).",
        "Not as requested: unknown-relation (no edge has it).",
    ]


def test_a_failed_source_is_explained():
    """The error of a failed source is quoted, and the summary lists neither this source nor a traversal."""
    plan = {"weights": {"vector": 0.7, "keyword": 0.3}, "errors": {"vector": "ConnectionError: refused"}}
    plan |= {"walk": {"traversal": "BFS", "score": "HopDecay"}, "method": "hybrid", "query": None}
    question, summary, reason = explain_result(answer(degraded=("vector-failed",), **plan)).split("\n")
    assert question == "(a vector, without words)"
    assert summary == "Nothing found in 2.0 ms, searched by keyword (weight 0.3)."
    assert reason.endswith("only the keyword search was used; ConnectionError: refused).")


@pytest.mark.parametrize("min_score", [0.0, 0.99])
def test_hits_below_min_score_are_mentioned(min_score):
    """The explanation and the table say that min_score left out hits, but only if it did."""
    with HybridGraphStore.from_texts(["Ada likes tea.", "Tom likes coffee."]) as store:
        retriever = HybridRetriever(store)
        table = retriever.retrieve("Who likes milk?", min_score=min_score)._repr_html_()
        for text in (table, retriever.explain("Who likes milk?", min_score=min_score)):
            assert ("hits with a score below 0.99 were left out" in text) is (min_score > 0)


def test_the_table_says_whether_the_question_is_answerable():
    """The table has the line with the estimate and its reasons, as the explanation has."""
    with HybridGraphStore.from_texts(["Ada likes tea.", "Tom likes coffee."]) as store:
        result = HybridRetriever(store).retrieve("Who likes tea?")
    assert result.answerability.explain() in result._repr_html_()


def test_every_hit_has_a_paragraph():
    """The explanation of a hit has its rank, title, id, text, reasons and seed."""
    hits = search_hit("a", 0.9), graph_hit(("a", "b"), 0.5, ("entity:ada", 0.8), title="The engine")
    _, _, second = explain_result(answer(*hits)).split("\n\n")
    assert second.split("\n   ") == [
        "2. The engine (b)",
        "“Text of b.”",
        hits[1].explain(),
    ]


def test_titles_and_quotes():
    """A title is that with the section, the start of the text, or the id; a quote leaves the title out."""
    hit = search_hit("a", 0.9)
    metadata = {"title": "Ada\nLovelace", "section_heading": "Notes"}
    assert title(replace(hit, chunk=Chunk("a", "Text.", metadata))) == "Ada Lovelace › Notes"
    assert title(hit) == "Text of a."
    assert title(replace(hit, chunk=Chunk("a", " "))) == "a"
    hit = replace(hit, chunk=Chunk("a", "Ada\nShe wrote the first program.", {"title": "Ada"}))
    assert quote(hit, 20) == "She wrote the first …"
