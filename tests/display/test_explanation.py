"""Results as text."""

from dataclasses import replace

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.display import excerpt, explain_result, matches, quote, title
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.retrievers.graph import GraphRetriever
from tests.support.samples.sample_hits import answer, graph_hit, search_hit


def test_the_search_comes_first():
    """An explanation starts with the question, the sources and weights, the fusion, the traversal and the
    degradation.
    """
    expansion = {"traversal": "bfs", "score": "hop_decay"}
    plan = {"weights": {"vector": 0.7, "keyword": 0.3}, "fusion": "max", "walk": expansion, "method": "graph"}
    plan |= {"degraded": ("unknown-relation",), "remarks": {"unknown-relation": "no edge has it"}}
    assert explain_result(answer(search_hit("a", 0.9), **plan)).split("\n\n")[0].split("\n") == [
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
    assert second.split("\n   ") == ["2. The engine (b)", "“Text of b.”", hits[1].explain()]


def test_titles_and_quotes():
    """A title is that with the section, the start of the text, or the id; a quote leaves the title out."""
    hit = search_hit("a", 0.9)
    metadata = {"title": "Ada\nLovelace", "section_heading": "Notes"}
    assert title(replace(hit, chunk=Chunk("a", "Text.", metadata))) == "Ada Lovelace › Notes"
    assert title(hit) == "Text of a."
    assert title(replace(hit, chunk=Chunk("a", " "))) == "a"
    hit = replace(hit, chunk=Chunk("a", "Ada\nShe wrote the first program.", {"title": "Ada"}))
    assert quote(hit, 20) == "She wrote the first …"


TEXTS = {"ada": "Ada wrote the first program.", "engine": "A machine of brass and steam.", "tea": "How to brew tea."}
QUESTION = "Who wrote the first program?"


@pytest.fixture(scope="module")
def store():
    vector_store = HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS))
    vector_store.upsert([], edges=[Edge("ada", "engine", "references", 0.8, "For which machine she wrote.")])
    return vector_store


def test_the_plan_uses_the_names_of_the_settings(store):
    """``plan`` names the fusion and both parts of a combined traversal as settings do, and explain says the same."""
    assert HybridRetriever(store).retrieve(QUESTION).plan["walk"] is None
    plan = MemoryRetriever(store).retrieve(QUESTION).plan
    walk = {"traversal": "evidence and water_circle", "score": "noisy_or"}
    assert (plan["fusion"], plan["walk"]) == ("convex", walk)
    retriever = GraphRetriever(store, graph={"traversal": {"type": "bfs", "max_hops": 1}, "seed_k": 1})
    explanation = retriever.explain(QUESTION, k=2, filter={"chunk_id": {"$ne": "none"}})
    assert explanation.startswith(f"{QUESTION}\n2 hits in ")
    assert "then expanded through edges (traversal bfs, score hop_decay)." in explanation
    assert "1 hop from ada to engine: references (weight 0.80, “For which machine she wrote.”)" in explanation


def words(text, query, language="english"):
    return [text[start:end] for start, end in matches(text, query, language)]


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("The parcels are lost.", "Where is my lost parcel?", ["parcels", "lost"]),
        ("It is what it is.", "What is it that is lost?", []),
        ("Ask os.path.join first.", "joining a path", ["path", "join"]),
        ("A ThreadPoolExecutor waits.", "a pool of threads", ["ThreadPoolExecutor"]),
        ("Ada's café", "cafe of Ada", ["Ada", "café"]),
        ("数据库很快", "数据", ["数据"]),
        ("数据库很快", "据库很", ["据库很"]),
        ("हिन्दी भाषा", "भाषा", ["भाषा"]),
        ("Nothing at all", "", []),
        ("", "parcel", []),
    ],
)
def test_words_are_compared_as_an_index_compares_them(text, query, marked):
    """Words match by stem, without accents and stop words, and in parts of identifiers."""
    assert words(text, query) == marked


def test_another_language():
    """German words match by German stems, and an unknown language raises an error."""
    assert words("Die Rechnungen kommen.", "Rechnung", "german") == ["Rechnungen"]
    with pytest.raises(ConfigurationError, match="klingon"):
        matches("text", "text", "klingon")


def test_the_passage_has_the_most_matches():
    """The passage of a long text has the most words of the query and starts at a word, else at the beginning."""
    text = "parcel " + "filler " * 100 + "the lost parcel came back " + "filler " * 100
    best = passage(text, 100, "lost parcel")
    assert best.startswith("… filler")
    assert "lost parcel" in best
    assert len(best) < 110
    assert excerpt("word " * 100, "parcel", "english", 10) == [("word word", False), (" …", False)]


def passage(text, size, query="quokkas"):
    return "".join(piece for piece, _ in excerpt(text, query, "english", size))


CODE = "results = store.search(k=5) " * 20 + "name = 'quokka' " + "print(results) " * 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A quokka sleeps. It eats leaves.", "A quokka sleeps. …"),
        ("It eats leaves. A quokka sleeps.", "… A quokka sleeps."),
        ("It has long ears.", "It has long ears."),
    ],
)
def test_a_passage_begins_with_a_sentence(text, expected):
    """The passage begins with the sentence that contains the words, or with the first one."""
    assert passage(text, 18) == expected


def test_a_word_inside_a_long_sentence_is_shown():
    """A word far from the beginning of its sentence, as in a block of code, is shown with its surroundings."""
    text = f"It searches the store. {CODE}"
    assert passage(text, 60) == "… = store.search(k=5) name = 'quokka' print(results) …"
    assert [piece for piece, is_match in excerpt(text, "quokkas", "english", 60) if is_match] == ["quokka"]


def test_a_word_inside_a_text_without_blanks_is_shown():
    """In a text without blanks, the passage begins with the word."""
    assert "quokka" in passage(f"{'x-' * 500}quokka", 60)
