"""HierarchicalRetriever: tree traversal, types and targets, conversations, and use through LangChain."""

import asyncio
import math

import numpy as np
import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage

from langchain_hybridgraph import HierarchicalRetriever, HybridGraphStore, HybridRetriever, build_layers, ingest
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import by_meta
from langchain_hybridgraph.ingestion.summaries import Summary
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.search.fusion import ConvexCombination
from langchain_hybridgraph.search.planner import QueryPlan, TypedQuery
from langchain_hybridgraph.search.rerankers import TextReranker
from tests.support.models.cosine_table import CosineTable

OWN = {
    "A": 0.8, "B": 0.7, "C": 0.6, "D": 0.5, "E": 0.4,
    "A/a1": 0.9, "A/a2": 0.6, "B/b1": 0.5, "C/c1": 0.5, "D/d1": 0.5, "E/e1": 0.99,
}  # fmt: skip


def pinned(tree=None, **settings):
    """Return a retriever over SPEC's tree: directories without texts, whose summaries have the cosines in OWN."""
    store = HybridGraphStore(None, CosineTable(OWN))
    leaves = [uri for uri in OWN if "/" in uri]
    ingest([Document(uri, metadata={"uri": uri}, id=uri) for uri in leaves], store, split=None)
    build_layers(store, lambda directory: Summary(directory.uri, ""))
    # The cosine itself is the score.
    defaults = {"keyword_weight": 0.0, "fusion": ConvexCombination("bound"), "k": 2} | settings
    return HierarchicalRetriever(store, tree={"start_documents": 0} | (tree or {}), **defaults)


TEXTS = {
    "lib/pets/cats.md": "Cats purr when they are content. A cat sleeps most of the day.",
    "lib/pets/dogs.md": "Dogs bark at strangers. A dog wants to be walked.",
    "lib/cars/roadster.md": "The red roadster has two seats and costs 200 coins.",
    "lib/cars/van.md": "A van carries nine people or a lot of furniture.",
    "lib/food/bread.md": "Bread is made of flour, water, yeast and salt.",
}


def library(texts=TEXTS, path=None, layers=True, **metadata):
    store = HybridGraphStore(path, "lsa")
    ingest([Document(text, metadata={"uri": uri, **metadata}, id=uri) for uri, text in texts.items()], store)
    if layers:
        build_layers(store)
    return store


def uris(contexts):
    return [each.uri for each in contexts]


@pytest.fixture(scope="module")
def shelf():
    return library()


@pytest.fixture
def store():
    return library()


# -- the numbers of the specification ---------------------------------------------------------------------------


def test_find_gives_the_scores_of_the_specification():
    """With k=2, A/a1 (.85) and A (.80) are found, with parts that add up, without opening E."""
    result = pinned().find("anything")
    assert [(each.uri, each.is_leaf) for each in result] == [("A/a1", True), ("A", False)]
    assert [each.score for each in result] == pytest.approx([0.85, 0.80], abs=1e-5)
    assert (result.degraded, result.query_results[0].opened) == (("converged-early",), 4)
    hit = result.contexts[0].hit
    assert math.fsum(hit.parts.values()) == pytest.approx(hit.score)
    assert hit.parts["hierarchy"] == pytest.approx(0.4, abs=1e-5)
    assert (hit.source, hit.found_by) == ("vector", ("vector",))


def test_a_document_that_is_a_start_keeps_its_score():
    """The best hit of the flat search keeps its own score, regardless of its directory's score."""
    result = pinned({"start_documents": 1}).find("anything")
    assert uris(result) == ["E/e1", "A/a1"]
    assert [each.score for each in result] == pytest.approx([0.99, 0.85], abs=1e-5)


def test_alpha_and_threshold():
    """With alpha=1, only a node's own score is used, and find returns only hits that exceed score_threshold."""
    alone = pinned({"alpha": 1.0, "max_rounds": 9}).find("x")
    assert [each.score for each in alone] == pytest.approx([0.99, 0.9], abs=1e-5)
    assert uris(pinned().find("x", score_threshold=0.82)) == ["A/a1"]
    assert uris(pinned().find("x", score_threshold=0.86)) == []


# -- find -------------------------------------------------------------------------------------------------------


def test_every_method_finds_the_same(shelf):
    """find, search, invoke and retrieve, and their async versions, return the matching document first."""
    retriever = HierarchicalRetriever(shelf, k=3, tree={"include_directories": False}, annotate="all")
    target = {"target_uri": "lib"}
    calls = {"find": target, "search": {"session": ["hello"]}, "invoke": target, "retrieve": target}

    def results_of(call):
        results = [call(name, "How much is the red roadster?", **options) for name, options in calls.items()]
        return [uris(results[0]), uris(results[1])[0], list(results[2]), list(results[3])]

    found_uris, first, documents, result = results_of(lambda name, *a, **b: getattr(retriever, name)(*a, **b))
    awaited = results_of(lambda name, *a, **b: asyncio.run(getattr(retriever, f"a{name}")(*a, **b)))
    assert awaited == [found_uris, first, documents, result]
    assert found_uris[0] == first == "lib/cars/roadster.md"
    assert [document.metadata["uri"] for document in documents] == found_uris
    names = ("is_leaf", "context_type", "retrieval_method", "abstract")
    assert [documents[0].metadata[name] for name in names] == [True, "resource", "hierarchical", TEXTS[first]]
    assert result == documents


def test_below_a_target(shelf):
    """find returns only hits below the target, which may be a directory, a document or a list of both."""
    retriever = HierarchicalRetriever(shelf, k=10)
    assert set(uris(retriever.find("cats and dogs and a van", "lib/cars/"))) <= {"lib/cars", *_below("lib/cars")}
    assert uris(retriever.find("cat", "lib/pets/cats.md")) == ["lib/pets/cats.md"]
    both = set(uris(retriever.find("cats, a van", ["lib/cars", "lib/pets"])))
    assert {"lib/cars/van.md", "lib/pets/cats.md"} <= both


PAGES = ("docs/api/get.md", "docs/api/put.md", "docs/Guide.md", "web://Site/page", "a/x", "A/y")


@pytest.mark.parametrize(
    ("target", "roots"),
    [
        ("docs/api", ("docs/api",)),
        ("./docs//api/../api/", ("docs/api",)),
        ("/home/me/project/docs/api", ("docs/api",)),
        ("../elsewhere/docs/Guide.md", ("docs/Guide.md",)),
        ("a", ("a",)),
        ("A", ("A",)),
        ("./", ("A", "a", "docs", "web://Site")),
        ("web://", ("web://Site",)),
    ],
)
def test_forms_of_a_target(target, roots):
    """A target can be any path that ingest accepts; a dot means the top, and a scheme everything under it."""
    retriever = HierarchicalRetriever(library({uri: f"A text of {uri}." for uri in PAGES}, layers=False))
    assert retriever.find("text", target).query_results[0].roots == roots


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere", "nothing under 'nowhere' in the scope.*'lib'"),
        (["lib/cars", "lib/nothing"], "nothing under 'lib/nothing' in the scope.*'lib'"),
        *((wrong, r"target_uri must be a uri such as 'docs/api'.*, got") for wrong in (7, [7], {"lib": 1}, b"lib", "")),
        ("docs://" + "a/" * 50_000, "at most 8,192 characters"),  # comparing its spellings would take seconds
    ],
    ids=repr,
)
def test_invalid_targets(shelf, target, message):
    """The error for an invalid target contains the value, and the top directories or an example of a uri."""
    with pytest.raises(ConfigurationError, match=message):
        HierarchicalRetriever(shelf).find("cats", target)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: HierarchicalRetriever(HybridGraphStore(None)).find("x", "docs"), "the tree is empty"),
        (lambda r: r.find(7), "query must be a string, got 7"),
        (lambda r: r.find("x", score_threshold=2), "score_threshold must be a number ≥ 0 and < 1, got 2"),
        (lambda r: r.find("x", k=-1), "k must be an integer ≥ 0, got -1"),
        (lambda r: r.find("x", mode="slow"), "mode must be .*quick.*, got 'slow'"),
        (lambda r: r.search("x", "a text"), "session must be"),
        (lambda r: r.search("x", {"history": []}), "session has"),
        (lambda r: HierarchicalRetriever(r.vector_store, tree={"roots": ["skills"]}), "must be a mapping such as"),
        (lambda r: HierarchicalRetriever(r.vector_store, fusion="rrf"), "ReciprocalRankFusion can only rank complete"),
    ],
)
def test_invalid_values(shelf, call, message):
    """The error for an invalid argument contains the value and the accepted values."""
    with pytest.raises(ValueError, match=message):
        call(HierarchicalRetriever(shelf))


def test_a_query_for_a_type_without_documents(shelf):
    """A planned query for a type without documents scores no nodes, and the plan's other queries still find hits."""
    planned = QueryPlan([TypedQuery("cats"), TypedQuery("cats", "spell")])
    result = HierarchicalRetriever(shelf, planner=lambda *arguments: planned).search("cats", ["User: hello"])
    raw, spell = result.query_results
    assert (spell.hits, spell.scored, spell.opened) == ((), 0, 0)
    assert raw.hits
    assert result.total


def test_any_scheme_and_any_letters():
    """Uris may contain any scheme, spaces and other scripts, and a bare scheme is a target for all of its documents."""
    texts = {"viking://Käse & Brot/ein Text.md": "Käse schmeckt gut.", "note://日本/東京.md": "東京は大きい。"}
    retriever = HierarchicalRetriever(library(texts), k=5, tree={"include_directories": False})
    assert uris(retriever.find("Käse", "viking://Käse & Brot")) == ["viking://Käse & Brot/ein Text.md"]
    assert uris(retriever.find("東京", "note://")) == ["note://日本/東京.md"]


def test_relations():
    """A hit lists its five heaviest edges to other documents, without edges to directories or within the document."""
    store = library({**TEXTS, **{f"more/{n}.md": f"Text {n}." for n in range(20)}})
    edges = [Edge("lib/pets/cats.md#0", f"{uri}#0", "cites", 0.5 + n / 10, "why") for n, uri in enumerate(TEXTS) if n]
    edges += [Edge("lib/pets/cats.md#0", f"more/{n}.md#0", "cites", n / 100) for n in range(1, 20)]
    edges.append(Edge("lib/pets/cats.md#0", "lib/food/bread.md#0", "sequence", 1.0))
    store.upsert([], edges=edges)
    first = HierarchicalRetriever(store, k=1, tree={"include_directories": False}).find("cats purr").contexts[0]
    assert [(each.uri, each.relation, round(each.weight, 2)) for each in first.relations] == [
        ("lib/food/bread.md", "cites", 0.9),
        ("lib/cars/van.md", "cites", 0.8),
        ("lib/cars/roadster.md", "cites", 0.7),
        ("lib/pets/dogs.md", "cites", 0.6),
        ("more/19.md", "cites", 0.19),
    ]


def test_layers_on_demand(store):
    """abstract, overview and read return the layers of a directory or document, without repeating overlaps."""
    text = " ".join(f"Sentence number {n} is here." for n in range(600))
    ingest([Document(text, metadata={"uri": "lib/long"}, id="long")], store)
    assert len(store) > len(TEXTS) + 3
    retriever = HierarchicalRetriever(store)
    assert retriever.read("lib/long") == text
    assert retriever.abstract("lib/pets").startswith("pets: cats.md (Cats purr")
    assert "dogs.md: Dogs bark" in retriever.overview("lib/pets")
    assert retriever.read("lib/pets") == ""
    assert text.startswith(retriever.abstract("lib/long"))
    assert 0 < len(retriever.abstract("lib/long")) <= 256
    assert retriever.overview("lib/long") == text[:4_000]
    with pytest.raises(ConfigurationError, match="nothing under 'lib/none'"):
        retriever.read("lib/none")


# -- types ------------------------------------------------------------------------------------------------------

TYPED = {
    "ctx://user/memories/editor.md": "The user prefers the editor vim.",
    "ctx://agent/memories/case.md": "The editor crashed when the user opened a large log.",
    "ctx://resources/manual.md": "The manual of the editor explains buffers.",
    "ctx://agent/skills/edit.md": "Open the editor, then press i to insert text.",
    "ctx://elsewhere/free.md": "A free text about an editor.",
}


def typed(**settings):
    return HierarchicalRetriever(library(TYPED), **{"k": 10, "tree": {"include_directories": False}} | settings)


def test_types_by_directory():
    """Documents get their type from their directory, and documents outside all typed directories are resources."""
    result = typed().find("the editor")
    assert {each.uri.rpartition("/")[2] for each in result.memories} == {"editor.md", "case.md"}
    assert {each.uri.rpartition("/")[2] for each in result.skills} == {"edit.md"}
    assert {each.uri.rpartition("/")[2] for each in result.resources} == {"manual.md", "free.md"}
    assert result.by_type == {}


def test_custom_types():
    """A document gets a custom type from its metadata, or from the directories in tree={"roots": …}."""
    store = library(TYPED)
    own = {"uri": "ctx://resources/ticket.md", "context_type": "ticket"}
    ingest([Document("A ticket about the editor.", metadata=own, id="ticket")], store)
    roots = {"note": ["elsewhere/"], "memory": ["user/memories"]}
    retriever = HierarchicalRetriever(store, k=20, tree={"roots": roots, "include_directories": False})
    result = retriever.find("editor ticket")
    assert uris(result.by_type["ticket"]) == ["ctx://resources/ticket.md"]
    assert "ctx://elsewhere/free.md" in uris(result.by_type["note"])
    assert "ctx://user/memories/editor.md" in uris(result.memories)


# -- search -----------------------------------------------------------------------------------------------------


def planned(*queries, **settings):
    calls = []

    def planner(summary, messages, query):
        calls.append((summary, messages, query))
        return list(queries)

    return typed(planner=planner, **settings), calls


def test_a_session_is_planned():
    """The planner receives the last five messages and 30,000 characters of the summary, and only with a session."""
    retriever, calls = planned(TypedQuery("buffers", "resource"))
    assert retriever.search("the editor").query_plan == (TypedQuery("the editor"),)
    assert calls == []
    session = {"summary": "s" * 90_000, "messages": [f"turn {n}" for n in range(10_000)]}
    documents = retriever.invoke("x", session=session, annotate="all")
    assert {document.metadata["context_type"] for document in documents} == {"resource"}
    assert calls == [("s" * 30_000, [f"turn {n}" for n in range(9_995, 10_000)], "x")]
    retriever.planner.reads_all_messages = True
    retriever.search("x", session)
    assert calls[1][1] == session["messages"]


@pytest.mark.parametrize(
    "session",
    [
        ["hello", ("user", "more")],
        [HumanMessage("hello"), AIMessage("more")],
        InMemoryChatMessageHistory(messages=[HumanMessage("hello"), AIMessage("more")]),
        {"summary": "", "messages": [HumanMessage("hello"), AIMessage("more")]},
    ],
)
def test_all_forms_of_a_session(session):
    """The planner receives the messages of a session in any of the accepted forms."""
    retriever, calls = planned(TypedQuery("buffers", "resource"))
    assert retriever.search("the editor", session).query_plan == (TypedQuery("buffers", "resource"),)
    assert (calls[0][0], len(calls[0][1]), calls[0][2]) == ("", 2, "the editor")


def test_a_typed_query_searches_the_directories_of_its_type():
    """A query with a type searches only the directories of that type, unless the call has explicit targets."""
    retriever, _ = planned(TypedQuery("the editor", "memory"))
    result = retriever.search("the editor", [])
    assert result.query_results[0].roots == ("ctx://user/memories", "ctx://agent/memories")
    assert len(result.memories) == result.total == 2
    assert uris(retriever.search("x", [], "ctx://user")) == ["ctx://user/memories/editor.md"]
    assert uris(retriever.search("x", [], "ctx://resources")) == []


def test_scores_are_weighted_by_priority():
    """A query's scores are multiplied by (6 − priority) / 5, and their parts still add up."""
    alone, _ = planned(TypedQuery("editor buffers", "resource"))
    weighed, _ = planned(TypedQuery("editor buffers", "resource", priority=4))
    one, other = alone.search("x", ["hi"]), weighed.search("x", ["hi"])
    assert [each.score for each in other] == pytest.approx([0.4 * each.score for each in one])
    hit = other.contexts[0].hit
    assert math.fsum(hit.parts.values()) == pytest.approx(hit.score)


def test_several_queries_are_merged():
    """Hits of several planned queries are returned once, with the best score, and each query keeps its own result."""
    queries = TypedQuery("the editor", "memory"), TypedQuery("the editor", priority=2), TypedQuery("editor", "skill")
    retriever, _ = planned(*queries)
    results = retriever.search("x", ["hi"], k=3)
    assert len(results) == len(set(uris(results))) == 5
    assert [each.score for each in results] == sorted((each.score for each in results), reverse=True)
    best = {}
    for result in results.query_results:
        for each in result.hits:
            best[each.uri] = max(best.get(each.uri, 0.0), each.score * result.query.weight)
    assert {each.uri: pytest.approx(each.score) for each in results} == {uri: best[uri] for uri in uris(results)}
    assert results.query_plan == (queries[0], queries[2], queries[1])


MANUALS = {f"ctx://resources/{n}.md": f"The editor manual {n}: the editor and its editor keys." for n in range(30)}
MEMORY = {"ctx://user/memories/key.md": "The user binds a key of their own."}


def crowded(**settings):
    """Return a retriever over many resources about the editor and one memory that has little to do with it."""
    return HierarchicalRetriever(library(MANUALS | MEMORY), **{"tree": {"include_directories": False}} | settings)


def test_a_planned_memory_is_found_among_better_resources():
    """search limits each type separately, so resources with higher scores do not displace a planned memory."""
    queries = [TypedQuery("editor manual"), TypedQuery("user's own key", "memory", priority=5)]
    result = crowded(planner=lambda *_: queries).search("editor manual", ["hi"], k=5)
    assert uris(result.memories) == ["ctx://user/memories/key.md"]
    assert len(result.resources) == 5
    assert result.memories[0].score < min(each.score for each in result.resources)
    assert [each.score for each in result] == sorted((each.score for each in result), reverse=True)
    by_rules = crowded().search("Which key of my editor manual did I bind?", ["hello"], k=5)
    assert (uris(by_rules.memories), len(by_rules.resources)) == (uris(result.memories), 5)
    raw = crowded().search("editor manual key", k=2)
    assert (len(raw.memories), len(raw.resources), raw.total) == (1, 2, 3)
    assert raw.query_results[0].hits == raw.contexts
    assert len(crowded().find("editor manual key", k=5)) == 5
    assert len(crowded().invoke("Which key of my editor manual did I bind?", session=["hello"], k=5)) == 5


def test_each_type_is_limited_after_a_reranker_and_mmr():
    """A reranker, MMR and max_per_document each leave up to k hits of each type."""
    reranker, _ = counting(lambda text: 0.5)
    diverse, capped = {"selection": {"mmr_lambda": 0.5}}, {"selection": {"max_per_document": 1}}
    for settings in ({"reranker": reranker}, diverse, capped):
        result = crowded(**settings).search("editor manual key", ["hello"], k=3)
        assert (len(result.memories), len(result.resources)) == (1, 3), settings


# -- modes ------------------------------------------------------------------------------------------------------


def counting(scores):
    read = []

    def rerank(query, texts):
        read.append(list(texts))
        return [scores(text) for text in texts]

    return TextReranker(rerank), read


CALLS = {
    "find": lambda retriever, **options: retriever.find("cats", **options),
    "search": lambda retriever, **options: retriever.search("cats", ["hi"], **options),
    "retrieve": lambda retriever, **options: retriever.retrieve("cats", **options),
    "invoke": lambda retriever, **options: retriever.invoke("cats", **options),
    "stream": lambda retriever, **options: list(retriever.stream("cats", **options)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_reranker_reranks_in_every_call(shelf, call):
    """Every call uses the reranker, except with mode="quick"; the mode of a call replaces that of the retriever."""
    reranker, read = counting(lambda text: 0.5)
    quick = HierarchicalRetriever(shelf, reranker=reranker, mode="quick")
    call(quick)
    call(HierarchicalRetriever(shelf, reranker=reranker), mode="quick")
    assert read == []
    call(HierarchicalRetriever(shelf, reranker=reranker))
    once = len(read)
    call(quick, mode="thinking")
    assert len(read) == 2 * once > 0


def test_the_reranker_scores_directories_and_documents(shelf):
    """The reranker scores overviews of directories and texts of documents, and its scores direct the traversal."""
    reranker, read = counting(lambda text: 0.9 if "van" in text.casefold() else 0.1)
    retriever = HierarchicalRetriever(shelf, k=1, reranker=reranker, tree={"include_directories": False})
    result = retriever.find("cats purr")
    assert uris(result) == ["lib/cars/van.md"]
    assert result.contexts[0].hit.rerank_score == pytest.approx(0.9)
    assert math.fsum(result.contexts[0].hit.parts.values()) == pytest.approx(result.contexts[0].score)
    assert len(read) >= 2
    assert any("cars" in text for text in read[0])


# -- scope ------------------------------------------------------------------------------------------------------


def test_every_hit_passes_the_filter(store):
    """A directory is not a hit if the filter excludes any document below it."""
    ingest([Document("Cats are secret.", metadata={"uri": "lib/pets/secret.md", "level": 9}, id="s")], store)
    build_layers(store)
    retriever = HierarchicalRetriever(store, k=20)
    assert "lib/pets" in uris(retriever.find("cats purr"))
    open_to_all = uris(retriever.find("cats purr", filter={"level": {"$ne": 9}}))
    assert "lib/pets/cats.md" in open_to_all
    assert not {"lib/pets", "lib", "lib/pets/secret.md"} & set(open_to_all)
    assert uris(retriever.find("cats", filter=by_meta(level=9))) == ["lib/pets/secret.md"]
    assert retriever.find("cats", filter={"level": 8}).total == 0


def test_deleted_documents_are_not_found(store):
    """Neither deleted documents nor their directory, whose summary still exists, are found."""
    store.delete(document=_below("lib/pets"))
    assert not {"lib/pets", *_below("lib/pets")} & set(uris(HierarchicalRetriever(store, k=20).find("cats purr")))


# -- degradation ------------------------------------------------------------------------------------------------


def test_without_summaries_or_a_tree():
    """Without summaries or any directory, documents are still found, and no-layers or no-tree is reported."""
    result = HierarchicalRetriever(library(layers=False), k=1).find("Which cats purr?")
    assert (uris(result), "no-layers" in result.degraded) == (["lib/pets/cats.md"], True)
    store = HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=["a", "b", "c", "d", "e"])
    result = HierarchicalRetriever(store, k=1).find("Which cats purr?")
    assert (uris(result), "no-tree" in result.degraded) == (["a"], True)


def test_a_thousand_children():
    """The matching document is found among a thousand siblings without scoring all of them."""
    texts = {f"d/{n:04}.md": f"Text number {n} about thing{n}." for n in range(1_000)}
    result = HierarchicalRetriever(library(texts), k=3, tree={"include_directories": False}).find("thing123")
    assert uris(result)[0] == "d/0123.md"
    assert result.query_results[0].scored < 600


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "no-query-text"),
        ("   ", "no-query-text"),
        ("zzzz qqqq", "query-out-of-vocabulary"),
        ('C++ "x a AND', "query-out-of-vocabulary"),
        ("\ud800", "query-out-of-vocabulary"),
    ],
)
def test_queries_without_known_words(shelf, query, reason):
    """A blank query, or one without any word of the index, gives no hits, and the result reports the reason."""
    result = HierarchicalRetriever(shelf).find(query)
    assert (list(result), result.degraded) == ([], (reason,))


def test_a_vector_alone(shelf):
    """retrieve accepts a vector without a question."""
    vector = shelf.vectors(["lib/cars/van.md#0"])[0]
    result = HierarchicalRetriever(shelf, k=1, tree={"include_directories": False}).retrieve(None, vector=vector)
    assert result[0].metadata["uri"] == "lib/cars/van.md"
    assert "no-query-text" in result.degraded


# -- settings ---------------------------------------------------------------------------------------------------


def test_empty_results(shelf):
    """A plan without queries, k=0 and an empty store give no hits, without a reason for degradation."""
    retriever, _ = planned()
    result = retriever.search("thanks!", ["hi"])
    assert (result.total, result.query_plan, result.query_results, result.degraded) == (0, (), (), ())
    result = HierarchicalRetriever(shelf).find("cats", k=0)
    assert (result.total, result.degraded) == (0, ())
    result = HierarchicalRetriever(HybridGraphStore(None)).find("anything")
    assert not result.total
    assert not {"no-tree", "no-layers"} & set(result.degraded)


def test_later_stages_work(shelf):
    """min_score, MMR and the token budget apply to the hits."""
    retriever = HierarchicalRetriever(shelf, k=3, tree={"include_directories": False})
    scores = [document.metadata["score"] for document in retriever.retrieve("cats and dogs")]
    assert len(retriever.invoke("cats and dogs", min_score=scores[1])) == 2
    assert len(HierarchicalRetriever(shelf, k=3, selection={"mmr_lambda": 0.5}).invoke("cats and dogs")) == 3
    small = HierarchicalRetriever(shelf, k=3, selection={"budget": TokenBudget(max_tokens=16)})
    assert len(small.invoke("cats and dogs")) == 1


# -- LangChain --------------------------------------------------------------------------------------------------


def test_invoke_returns_directories_on_request(shelf):
    """invoke returns directories without text of their own only on request."""
    for included, leaves in ((None, {True}), (True, {True, False})):
        retriever = HierarchicalRetriever(shelf, k=3, tree={"include_directories": included}, annotate="all")
        assert {one.metadata["is_leaf"] for one in retriever.invoke("pets: cats and dogs")} == leaves


def test_an_awaited_planner():
    """In an event loop, the planner's coroutine method is awaited."""

    class Planner:
        def __call__(self, summary, messages, query):
            raise AssertionError("not in the loop")

        async def acall(self, summary, messages, query):
            return [TypedQuery("the editor", "skill")]

    assert [each.context_type for each in asyncio.run(typed(planner=Planner()).asearch("x", ["hi"]))] == ["skill"]


def test_the_plan_lists_queries_roots_and_node_counts(shelf):
    """The plan of a result lists the queries, their roots and the number of nodes scored."""
    (query,) = HierarchicalRetriever(shelf, k=2).retrieve("cats", target_uri="lib/pets").plan["queries"]
    assert (query["query"]["query"], query["roots"], query["nodes"]) == ("cats", ["lib/pets"], 9)
    assert 0 < query["scored"] <= 9
    assert HierarchicalRetriever(shelf).get_retrieval_stats()["calls"] == 0


def test_a_full_traversal_equals_a_flat_search(store):
    """With alpha=1, a complete traversal returns the documents of the hybrid search, in its order and with its
    scores.
    """
    tree = HierarchicalRetriever(store, k=5, tree={"alpha": 1.0, "max_rounds": 99})
    flat = HybridRetriever(store, k=5)
    for question in ("cats purr", "a red roadster", "flour and water"):
        expected = [hit.id.partition("#")[0] for hit in flat.retrieve(question).hits if hit.score > 0]
        assert [document.metadata["uri"] for document in tree.retrieve(question)] == expected
        scores, hits = [document.metadata["score"] for document in tree.retrieve(question)], flat.retrieve(question)
        own = [hit.score / hits.answerability.unit for hit in hits.hits if hit.score > 0]
        assert np.allclose(scores, own, atol=1e-6)


def _below(directory):
    return [uri for uri in TEXTS if uri.startswith(f"{directory}/")]


# -- stale summaries -----------------------------------------------------------------------


HOUNDS = Document("Hounds.", metadata={"uri": "lib/pets/dogs.md"}, id="lib/pets/dogs.md")


@pytest.mark.parametrize(
    "change", [lambda store: ingest([HOUNDS], store), lambda store: store.delete(document=HOUNDS.id)]
)
def test_no_summary_repeats_an_old_text(change, store):
    """After a document is changed or deleted, no hit or abstract contains its old text, and layers-stale is
    reported.
    """
    change(store)
    retriever = HierarchicalRetriever(store, k=10)
    result = retriever.find("Do dogs bark at strangers?")
    assert "layers-stale" in result.degraded
    assert not [each for each in result if "bark" in each.abstract or "bark" in each.hit.chunk.text]
    assert {"lib", "lib/pets"}.isdisjoint(uris(result))
    assert (retriever.abstract("lib/pets"), retriever.overview("lib/pets")) == ("", "")
    assert retriever.abstract("lib/cars")
