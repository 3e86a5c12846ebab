"""GraphRetriever over the embedded store and over other vector stores."""

from dataclasses import replace

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.models import PRESETS, GraphOptions
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.search.expansion import TRAVERSALS
from langchain_hybridgraph.search.scores import HopDecay
from langchain_hybridgraph.search.traversals import BFS
from langchain_hybridgraph.stores.graph import InMemoryGraph
from tests.support.models.cosine_table import CosineTable

COSINES = {"A": 0.9, "B": 0.5, "C": 0.1, "D": 0.1, "Z": 0.05}
ONLY_VECTORS = {"seed_k": 2, "seed_keyword_weight": 0}
BOTH_WAYS = {"traversal": BFS(direction="both"), "seed_k": 1, "score": "hop_decay"}
PINNED = [("A", "C", 0.8), ("B", "C", 1.0), ("C", "D", 0.9), ("Z", "A", 0.6)]


def edges(*triples, relation="cites", **metadata):
    return [Edge(one, other, relation, weight, f"{one} cites {other}.", **metadata) for one, other, weight in triples]


def drawing(*extra, **metadata):
    """Return a store with the graph drawn in SPEC: five chunks, four edges."""
    store = HybridGraphStore(None, CosineTable(COSINES))
    store.add_texts(list(COSINES), [metadata.get(name, {}) for name in COSINES], ids=list(COSINES))
    store.upsert([], edges=[*edges(*PINNED), *extra])
    return store


@pytest.fixture(scope="module")
def store():
    with drawing() as store:
        yield store


def plain_drawing(names=tuple(COSINES), graph=None):
    """Return arguments for a retriever with the drawing's edges over a store that has no edges."""
    documents = [Document(name, id=name) for name in names]
    plain = InMemoryVectorStore.from_documents(documents, CosineTable(COSINES))
    return {"vector_store": plain, "documents": documents, "edges": edges(*PINNED) if graph is None else graph}


def scores(result):
    return {document.id: document.metadata["relevance_score"] for document in result}


def pinned(**expected):
    return {id: pytest.approx(value, abs=1e-6) for id, value in expected.items()}


def hop_decay(store, graph=None, **settings):
    """Return a retriever with the hop_decay preset and two seeds, A and B."""
    arguments = store if isinstance(store, dict) else {"vector_store": store}
    defaults = {"k": 10, "preset": "hop_decay"} | arguments | settings
    return GraphRetriever(graph={"seed_k": 2} | (graph or {}), **defaults)


def edges_from(weight):
    """Return the options of a BFS that follows edges with at least this weight."""
    return {"traversal": BFS(min_weight=weight)}


DOCUMENTS = [
    Document(id="ada", page_content="Ada Lovelace wrote notes on the Analytical Engine.", metadata={"title": "Ada"}),
    Document("The Analytical Engine was to be driven by steam.", id="engine", metadata={"title": "Analytical Engine"}),
    Document(id="byron", page_content="Lord Byron was a poet.", metadata={"title": "Lord Byron"}),
    Document(id="loom", page_content="The loom of Jacquard wove silk by cards.", metadata={"title": "Jacquard loom"}),
]


def ingested():
    store = HybridGraphStore(None)
    ingest(DOCUMENTS, store, split=None, edges="auto")
    return store


# -- scores of the whole retriever ------------------------------------------------------------------------------


def test_hop_decay(store):
    """With seeds A and B, C is scored by its best edge and D through C, without their own similarity.

    In both directions, Z is reached from A. A list of edges next to a plain vector store gives the same scores.
    """
    expected = pinned(A=0.93, B=0.65, C=0.21, D=0.135)
    for score_of in (scores(hop_decay(each).retrieve("q")) for each in (store, plain_drawing())):
        assert {id: score_of[id] for id in expected} == expected
    both = {"traversal": BFS(direction="both"), "score": HopDecay(score_expanded=False)}
    assert scores(hop_decay(store, graph=both).retrieve("q"))["Z"] == pytest.approx(0.126)


@pytest.mark.parametrize("has_own_edges", [False, True])
def test_an_edge_is_described_in_its_own_direction(store, has_own_edges):
    """An edge that is traversed backward is described as it points: Z cites A, not A cites Z."""
    arguments = plain_drawing() if has_own_edges else {"vector_store": store}
    retriever = GraphRetriever(**arguments, graph=BOTH_WAYS)
    result = retriever.retrieve("q")
    metadata = {document.id: document.metadata for document in result}
    assert (metadata["Z"]["source_path"], metadata["C"]["source_path"]) == (["A", "Z"], ["A", "C"])
    (back,), (onward,) = metadata["Z"]["graph_context"], metadata["C"]["graph_context"]
    assert (back["direction"], back["relation"], back["description"]) == ("backward", "cites", "Z cites A.")
    assert "direction" not in onward
    assert onward["description"] == "A cites C."
    explanations = {hit.id: hit.explain() for hit in result.hits}
    assert "1 hop from A to Z: Z cites A (followed backward, weight 0.60, “Z cites A.”)" in explanations["Z"]
    assert "1 hop from A to C: cites (weight 0.80, “A cites C.”)" in explanations["C"]
    assert "Z cites A (followed backward" in retriever.explain("q")


def test_the_tool_lists_the_edges_between_hits(store):
    """The tool's answer lists each edge in its own direction, with hits given by rank and with the edge's
    description.
    """
    retriever = GraphRetriever(store, k=5, graph=BOTH_WAYS, metadata_prefix="hg_")
    answer = retriever.as_tool().invoke("q")
    places = {document.id: rank for rank, document in enumerate(retriever.invoke("q"), start=1)}
    a, c, d, z = (places[id] for id in "ACDZ")
    assert f"\n↳ related: [{a}] –cites→ [{c}] (A cites C.)" in answer
    assert f"\n↳ related: [{z}] –cites→ [{a}] (Z cites A.)" in answer
    assert f"\n↳ related: [{a}] –cites→ [{c}] (A cites C.); [{c}] –cites→ [{d}] (C cites D.)" in answer
    assert answer.count("↳ related:") == len([hit for hit in retriever.retrieve("q").hits if hit.hops])


def test_the_tool_names_a_shared_entity_and_a_text_that_is_not_in_the_list(store):
    """The tool's answer names entities that two hits share, and refers to chunks outside the list by their ids."""
    with ingested() as entities:
        answer = GraphRetriever(entities, k=2).as_tool().invoke("Who wrote notes?")
        assert "↳ related: [1] and [2] both mention analytical engine" in answer
    short_answer = hop_decay(store, k=1, graph={"seed_k": 1, "slots": 1}).as_tool().invoke("q")
    assert "↳ related: A –cites→ [1] (A cites C.)" in short_answer


# -- metadata of hits -----------------------------------------------------------------------------------------------


def test_an_expanded_hit_has_its_path_and_edges(store):
    """An expanded hit's metadata has its path, its number of hops and the edges of the path, last edge first.

    The path of a seed contains only the seed.
    """
    metadata = {document.id: document.metadata for document in hop_decay(store).retrieve("q")}
    assert {each["retrieval_method"] for each in metadata.values()} == {"graph"}
    seed = metadata["A"]
    assert (seed["retrieval_source"], seed["source_path"], seed["hops"]) == ("vector", ["A"], 0)
    assert seed["graph_context"] == []
    assert metadata["D"]["source_path"] == ["B", "C", "D"]
    assert metadata["D"]["hops"] == 2
    assert [each["description"] for each in metadata["D"]["graph_context"]] == ["C cites D.", "B cites C."]
    step = {"from_chunk_id": "C", "relation": "cites", "weight": 0.9, "description": "C cites D."}
    assert metadata["D"]["graph_context"][0] == step


JAWS = [
    Document(id="jaws", page_content="Jaws is a film directed by Steven Spielberg.", metadata={"title": "Jaws"}),
    Document(id="steven", page_content="He is a native of Cincinnati.", metadata={"title": "Steven Spielberg"}),
    Document(id="alien", page_content="Alien is a film directed by Ridley Scott.", metadata={"title": "Alien"}),
]


@pytest.mark.parametrize("preset", [name for name in PRESETS if name not in ("hop_decay", "distance_decay", "beam")])
def test_the_graphs_part_of_a_seeds_score_has_a_reason(preset):
    """A seed whose score is raised by another seed's edge has that path and edge in its explanation."""
    with HybridGraphStore(None) as store:
        ingest(JAWS, store, split=None)
        hits = {hit.id: hit for hit in GraphRetriever(store, k=3, preset=preset).retrieve("director of Jaws").hits}
        assert hits["steven"].parts["graph"] > 0
        assert hits["steven"].path == ("jaws", "steven")
        assert hits["steven"].graph_context[0]["entity"] == "entity:steven spielberg"
        assert "1 hop from jaws to steven: both mention steven spielberg" in hits["steven"].explain()


def test_a_seed_whose_score_no_edge_raises_has_no_path():
    """The best hit has no path, although another seed leads to it, because the edge does not raise its score."""
    pages = [
        Document(id="models", page_content="Declare query parameters in a model.", metadata={"title": "Models"}),
        Document(id="headers", page_content="Declare header parameters. First read [Models](models)."),
    ]
    with HybridGraphStore(None) as store:
        ingest(pages, store, split=None)
        best, other = GraphRetriever(store, k=2).retrieve("declare query parameters in a model").hits
        assert (best.id, best.hops, best.path) == ("models", 0, ("models",))
        assert "graph" not in best.found_by
        assert other.id == "headers"


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, {"A": {"search": 0.63, "seed": 0.3}, "C": {"graph": 0.21}, "Z": {"search": 0.035}}),
        ({"preset": None, "graph": ONLY_VECTORS | {"traversal": "bfs"}}, {"C": {"search": 0.07, "graph": 0.21}}),
        ({"preset": "propagation"}, {"A": {"search": 0.9}, "C": {"search": 0.05, "graph": 0.45}}),
        ({"preset": "distance_decay", "semantic_weight": 1.0}, {"A": {"search": 0.7, "seed": 0.3}}),
    ],
)
def test_a_graph_score_has_parts(store, settings, parts):
    """The parts of a graph score are the chunk's own score, its share as a seed, and the share from edges."""
    hits = {hit.id: dict(hit.parts) for hit in hop_decay(store, **settings).retrieve("q").hits}
    assert {id: hits[id] for id in parts} == {id: pytest.approx(part, abs=1e-6) for id, part in parts.items()}


def test_equal_scores_are_ordered_by_similarity(store):
    """Seeds with equal scores are ordered by similarity to the question, not by id."""
    options = {
        "graph": {
            "traversal": {"type": "bfs", "max_hops": 0},
            "score": {"type": "hop_decay", "graph_weight": 5.0, "vector_weight": 0.0},
            "seed_k": 5,
        },
        "k": 5,
    }
    result = GraphRetriever(store, **options).retrieve("q")
    assert [document.id for document in result] == ["A", "B", "C", "D", "Z"]
    assert set(scores(result).values()) == {1.0}


# -- which chunks are reached ------------------------------------------------------------------------------------------


def test_expired_chunks_are_not_traversed():
    """An expired chunk is traversed only if as_of is a time at which it was valid, and an expired edge never is."""
    with drawing(C={"valid_until": "2020-06-01T00:00:00Z"}) as store:
        retriever = hop_decay(store)
        assert "D" in retriever.retrieve("q", as_of="2020-01-01T00:00:00Z")[3].id
        assert scores(retriever.retrieve("q"))["D"] == pytest.approx(0.07)
        store.upsert([], edges=[Edge("A", "Z", "cites", 1.0, "", valid_until=1.0)])
        assert "Z" not in {hit.id for hit in retriever.retrieve("q").hits if hit.hops}


def test_seeds_can_be_given(store):
    """With seed_ids, the traversal starts only at the given seeds and returns only them and what they lead to.

    Without a question, each given seed has the score 1.
    """
    assert scores(hop_decay(store).retrieve("q", seed_ids=["B"])) == pinned(B=0.65, C=0.21, D=0.135)
    assert scores(hop_decay(store).retrieve(None, seed_ids=["B"])) == pinned(B=1.0, C=0.21, D=0.135)


@pytest.mark.parametrize("stored", [["start", "other"], "start"])
@pytest.mark.parametrize("requested", [["start"], "start"])
def test_seeds_of_a_label(stored, requested):
    """With seed_labels, only chunks with the label are seeds, while other chunks stay candidates."""
    with drawing(A={"labels": "starting"}, B={"labels": stored}) as store:
        metadata = {d.id: d.metadata for d in hop_decay(store, graph={"seed_labels": requested}).retrieve("q")}
        assert metadata["C"]["source_path"] == ["B", "C"]
        assert metadata["A"]["relevance_score"] == pytest.approx(0.63)


def test_a_seed_is_found_below_more_hits_than_seed_k():
    """With seed_filter and seed_k=1, the seed is the best hit that passes the filter, and other hits are kept."""
    with drawing(B={"kind": "start"}) as store:
        result = hop_decay(store, graph={"seed_k": 1, "seed_filter": {"kind": "start"}}).retrieve("q")
        assert set(scores(result)) == set(COSINES)
        assert {hit.id: hit.path for hit in result.hits}["C"] == ("B", "C")


def test_slots_reserve_results_for_graph_hits(store):
    """With slots=1, one of the two results is reserved for a chunk reached through edges."""
    assert list(scores(hop_decay(store, k=2).retrieve("q"))) == ["A", "B"]
    assert list(scores(hop_decay(store, k=2).retrieve("q", graph={"slots": 1}))) == ["A", "C"]


def test_min_weight_is_the_minimum_weight_of_an_edge(store):
    """With min_weight=.85, the edge of weight .8 from A is not traversed, so C is reached from B.

    An edge whose weight equals min_weight is traversed.
    """
    hits = {hit.id: hit for hit in hop_decay(store, graph=edges_from(0.85)).retrieve("q").hits}
    assert {id: hits[id].score for id in "CD"} == pinned(C=0.21, D=0.135)
    assert (hits["C"].path, hits["D"].path) == (("B", "C"), ("B", "C", "D"))
    for least, expected in ((0.9, {"C", "D"}), (0.95, {"C"})):
        hits = hop_decay(store, graph=edges_from(least)).retrieve("q").hits
        assert {hit.id for hit in hits if hit.hops} == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_min_weight_applies_to_every_preset(store, preset):
    """With min_weight=1, every preset traverses only the edge of weight 1, from B to C."""
    traversal = replace(PRESETS[preset].traversal, min_weight=1.0)
    hits = GraphRetriever(store, preset=preset, graph={"seed_k": 2, "traversal": traversal}).retrieve("q").hits
    steps = {step for hit in hits for step in zip(hit.path, hit.path[1:], strict=False)}
    assert steps
    assert steps <= {("B", "C"), ("C", "B")}


# -- what is returned ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_seeds_restrict_the_answer_of_every_preset(preset):
    """With candidates="reached", every path starts at the labelled seed in every preset, and a seed filter gives the
    same hits.
    """
    with drawing(B={"labels": ["Claim"], "kind": "claim"}) as store:
        retriever = GraphRetriever(store, preset=preset, graph={"candidates": "reached", "seed_labels": ["Claim"]})
        hits = retriever.retrieve("q").hits
        assert {"B", "C"} <= {hit.id for hit in hits}
        assert {hit.path[0] for hit in hits} == {"B"}
        of_filter = {"candidates": "reached", "seed_filter": {"kind": "claim"}}
        filtered = GraphRetriever(store, preset=preset, graph=of_filter)
        assert [hit.id for hit in filtered.retrieve("q").hits] == [hit.id for hit in hits]


def test_a_label_that_no_chunk_has_is_reported(store):
    """If no chunk has the seed label, the result reports no-seeds, whether or not the search's own hits are kept."""
    none = GraphRetriever(store, graph={"seed_labels": ["Claim"], "candidates": "reached"}).retrieve("q")
    assert (list(none), none.degraded) == ([], ("no-seeds",))
    assert "'Claim'" in none.plan["remarks"]["no-seeds"]
    every = GraphRetriever(store, graph={"seed_labels": ["Claim"]}).retrieve("q")
    assert (len(every), every.degraded) == (len(COSINES), ("no-seeds",))


def test_seeds_are_found_below_any_number_of_better_hits():
    """A seed with the label is found although 300 other texts are more similar and the search has 100 candidates."""
    with HybridGraphStore(None, CosineTable(COSINES)) as store:
        store.add_texts(["A"] * 300, ids=[f"c{n}" for n in range(300)])
        store.add_texts(["B"], [{"labels": ["Claim"]}], ids=["claim"])
        store.upsert([], edges=[Edge("claim", "c7", "supports")])
        retriever = GraphRetriever(store, graph={"seed_labels": ["Claim"], "candidates": "reached"})
        assert set(scores(retriever.retrieve("q"))) == {"claim", "c7"}


async def test_candidates_may_be_set_for_one_call():
    """candidates can be set for one call, sync and async, and an invalid value is rejected."""
    with drawing(B={"labels": ["Claim"]}) as store:
        retriever = hop_decay(store, graph={"seed_labels": ["Claim"]})
        result = retriever.retrieve("q", graph={"candidates": "reached"})
        assert scores(result) == pinned(B=0.65, C=0.21, D=0.135)
        assert set(scores(retriever.retrieve("q"))) == set(COSINES)
        assert (await retriever.aretrieve("q", graph={"candidates": "reached"})).hits == result.hits
        assert retriever.invoke("q", graph={"candidates": "reached"}, annotate="all") == list(result)
        all_again = hop_decay(store, graph={"candidates": "reached"}).retrieve("q", graph={"candidates": "all"})
        assert set(scores(all_again)) == set(COSINES)
        with pytest.raises(ConfigurationError, match="must be all or reached, got 'seeds'"):
            retriever.retrieve("q", graph={"candidates": "seeds"})


@pytest.mark.parametrize("preset", PRESETS)
def test_without_conditions_the_best_seeds_are_kept(large, preset):
    """With candidates="reached", every path starts at one of the best seed_k seeds, and a smaller k gives a prefix."""
    retriever = GraphRetriever(
        large, preset=preset, graph={"candidates": "reached", "seed_k": 3}, selection={"budget": None}
    )
    hits = retriever.retrieve("gamma eta mu", k=30, max_tokens=10_000).hits
    assert 0 < len({hit.path[0] for hit in hits}) <= 3
    assert retriever.retrieve("gamma eta mu", k=5, max_tokens=10_000).hits == hits[:5]


def test_other_candidates_are_scaled_by_the_best_candidate():
    """A candidate that is not a seed is scored relative to the best of all candidates, not the best seed."""
    with drawing(Z={"labels": ["start"]}) as store:
        graph = {"seed_keyword_weight": 0.0, "seed_labels": ["start"]}
        retriever = GraphRetriever(store, preset="distance_decay", graph=graph)
        assert scores(retriever.retrieve("q"))["B"] == pytest.approx(0.7 * 61 / 62)


# -- degradation -------------------------------------------------------------------------------------------------------


def test_a_store_without_edges_answers_as_hybrid():
    """Over a store without edges, GraphRetriever gives HybridRetriever's scores and reports no-graph-store."""
    with HybridGraphStore(None) as store:
        store.add_documents(DOCUMENTS)
        result = GraphRetriever(store, k=3).retrieve("Who wrote notes?")
        assert result.degraded == ("no-graph-store",)
        assert scores(result) == scores(HybridRetriever(store, k=3).retrieve("Who wrote notes?"))


@pytest.mark.parametrize("kind", ["bfs", "best_first", "evidence", "pagerank"])
@pytest.mark.parametrize("has_own_edges", [False, True])
def test_a_relation_that_no_edge_has_is_reported(kind, has_own_edges):
    """A relation that no edge has is reported with the existing relations, and the other relations are traversed."""
    with drawing(Edge("A", "D", "likes")) as store:
        options = {"edges": [*edges(*PINNED), Edge("A", "D", "likes")]} if has_own_edges else {}
        traversal = {"type": kind, "relations": ["cite", "cites"]}
        retriever = GraphRetriever(store, graph={"traversal": traversal}, **options)
        result = retriever.retrieve("q")
        message = "no edge has the relation 'cite'; there are cites, likes"
        assert result.degraded == ("unknown-relation",)
        assert result.plan["remarks"] == {"unknown-relation": message}
        assert f"Not as requested: unknown-relation ({message})." in retriever.explain("q")
        right = retriever.retrieve("q", graph={"traversal": {"type": "bfs", "relations": ["cites", "likes"]}})
        assert (right.degraded, right.plan["remarks"]) == ((), {})


def test_edges_can_be_shared_by_stores():
    """Stores that share a graph each reach only their own chunks."""
    shared = InMemoryGraph(edges(*PINNED))
    results = []
    for names in (COSINES, ["A", "B", "D"]):
        answer = hop_decay(plain_drawing(names, shared)).retrieve("q")
        results.append({d.id for d in answer if d.metadata["hops"]})
    assert results == [{"C", "D"}, set()]


def test_a_graph_that_is_set_later_is_traversed(store):
    """Assigning ``edges`` after construction replaces the graph, and assigning None restores the store's own edges."""
    retriever = hop_decay(store)
    own = [(hit.id, hit.metadata.get("path")) for hit in retriever.retrieve("q")]
    retriever.edges = InMemoryGraph(edges(("A", "Z", 1.0)))
    path = {hit.id: hit.metadata.get("source_path") for hit in retriever.retrieve("q")}
    assert path["Z"] == ["A", "Z"]
    retriever.edges = None
    assert [(hit.id, hit.metadata.get("path")) for hit in retriever.retrieve("q")] == own


def test_visited_chunks_that_are_not_hits_leave_no_gap():
    """Starting at an entity, which cannot be a hit, an answer for a smaller k is a prefix of that for a larger k."""
    with drawing(*[Edge(id, "entity:q", "mentions", 1.0 - place / 10) for place, id in enumerate("ABCD")]) as store:
        retriever = hop_decay(store, semantic_weight=0.0, keyword_weight=1.0)
        ids = [[hit.id for hit in retriever.retrieve("A", k=k, seed_ids=["entity:q"])] for k in range(1, 6)]
        assert ids == [ids[-1][:k] for k in range(1, 6)]
        assert len(ids[-1]) == 4


def test_an_exceeded_node_cap_is_reported(store):
    """A traversal cut short by max_nodes reports node-cap-reached."""
    assert "node-cap-reached" in hop_decay(store, graph={"traversal": BFS(max_nodes=1)}).retrieve("q").degraded


# -- settings ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """Return a store with a hundred short texts and random edges."""
    rng = np.random.default_rng(3)
    words = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "mu"])
    ids = [f"d{number:02}" for number in range(100)]
    store = HybridGraphStore(None, DeterministicFakeEmbedding(size=16))
    store.add_texts([" ".join(rng.choice(words, 5)) for _ in ids], ids=ids)
    pairs = [(ids[one], ids[other]) for one, other in rng.integers(0, 100, (300, 2)) if one != other]
    mentions = [(ids[one], f"entity:{rng.choice(words)}") for one in rng.integers(0, 100, 150)]
    links = [Edge(one, other, "cites", float(rng.uniform(0.2, 1))) for one, other in pairs]
    store.upsert([], edges=[*links, *(Edge(one, name, "mentions", 0.8) for one, name in mentions)])
    return store


@pytest.mark.parametrize("options", [{}, {"seed_ids": ["d01", "d50", "d77"]}])
@pytest.mark.parametrize(
    "settings", [{}, {"fusion": "rrf"}, {"graph": edges_from(0.4)}, {"selection": {"mmr_lambda": 0.7}}]
)
def test_a_smaller_k_gives_a_prefix_of_the_hits_and_scores(large, settings, options):
    """A smaller k gives a prefix of the hits and scores in every preset, even with many more candidates than seeds."""
    for preset in PRESETS:
        selection = {"budget": TokenBudget(max_tokens=10_000)} | settings.get("selection", {})
        retriever = GraphRetriever(large, preset=preset, **settings | {"selection": selection})
        longest = list(scores(retriever.retrieve("gamma eta mu", k=33, **options)).items())
        assert longest
        for k in (2, 10, 25):
            shorter = scores(retriever.retrieve("gamma eta mu", k=k, **options))
            assert list(shorter.items()) == longest[:k], (preset, k)


def test_another_traversal_keeps_the_requested_score(store):
    """A traversal given in the call keeps the graph score that the constructor chose by preset or score."""
    for settings, score in (
        ({"preset": "ring_decay"}, "ring_decay"),
        ({"graph": {"score": "ring_decay"}}, "ring_decay"),
        ({"graph": {"score": {"type": "hop_decay", "vector_weight": 0.6}}}, "hop_decay"),
        ({}, "hop_decay"),
        ({"graph": {"traversal": "bfs"}}, "hop_decay"),
    ):
        result = GraphRetriever(store, **settings).retrieve("q", graph={"traversal": "beam"})
        assert result.plan["walk"] == {"traversal": "beam", "score": score}


OWN_SCORES = {
    "evidence": "noisy_or",
    "pagerank": "noisy_or",
    "best_first": "propagation",
    "water_circle": "ring_decay",
    "beam": "hop_decay",
    "bfs": "hop_decay",
}


@pytest.mark.parametrize("traversal", TRAVERSALS)
def test_a_traversal_alone_has_the_score_of_its_preset(large, traversal):
    """A traversal given without a score uses the score of its preset, in the constructor, a call or a copy."""
    plain, form = GraphRetriever(large), {"type": traversal, "max_nodes": 50}
    result = GraphRetriever(large, graph={"traversal": traversal}).retrieve("gamma eta")
    assert result.plan["walk"]["score"] == OWN_SCORES[traversal]
    call_result = plain.retrieve("gamma eta", graph={"traversal": traversal})
    copied = plain.model_copy(update={"graph": GraphOptions(traversal=form)}).retrieve("gamma eta")
    over = GraphRetriever(large, graph={"traversal": "bfs"}).retrieve("gamma eta", graph={"traversal": form})
    assert [scores(each) for each in (call_result, copied, over)] == [scores(result)] * 3


def test_unknown_seeds_are_reported(store):
    """Unknown seed ids are skipped and reported as seeds-missing, and an empty list of seed_ids raises ValueError."""
    result = hop_decay(store).retrieve("q", seed_ids=["B", "nobody"])
    assert result.degraded == ("seeds-missing",)
    assert [document.id for document in result] == ["B", "C", "D"]
    with pytest.raises(ValueError, match="seed_ids must not be empty"):
        hop_decay(store).retrieve("q", seed_ids=[])


NUMBERED = {f"n{n}": f"word{n} of many" for n in range(5)}


@pytest.fixture(scope="module")
def numbered():
    """Return a store with five texts and no edges."""
    store = HybridGraphStore(None)
    store.add_texts(list(NUMBERED.values()), [{"year": n} for n in range(5)], ids=list(NUMBERED))
    return store


@pytest.mark.parametrize(
    "settings", [{}, {"graph": {"traversal": "bfs"}}, {"preset": "distance_decay"}, {"selection": {"mmr_lambda": 0.5}}]
)
@pytest.mark.parametrize("query", ["word0", None])
def test_given_seeds_without_edges_are_the_whole_answer(numbered, query, settings):
    """In a store without edges only the given seeds are returned, with the search's scores, or 1 without a question."""
    retriever = GraphRetriever(numbered, **settings)
    result = retriever.retrieve(query, seed_ids=["n2", "n0", "n2"])
    assert [document.id for document in result] == ["n0", "n2"]
    assert "no-graph-store" in result.degraded
    searched = scores(retriever.retrieve(query)) if query else {"n0": 1.0, "n2": 1.0}
    assert "selection" in settings or scores(result) == pytest.approx({id: searched[id] for id in ("n0", "n2")})


def test_given_seeds_without_edges_must_pass_the_filter(numbered):
    """In a store without edges, given seeds that the filter excludes or that do not exist are left out."""
    result = GraphRetriever(numbered).retrieve("word0", seed_ids=["n1", "n3", "x"], filter={"year": {"$gte": 2}})
    assert [document.id for document in result] == ["n3"]
    assert set(result.degraded) == {"no-graph-store", "seeds-missing"}
    assert not GraphRetriever(numbered).retrieve("word0", seed_ids=["x"])


def test_a_document_as_a_seed_is_all_of_its_chunks():
    """A document's id in seed_ids makes all of its chunks seeds."""
    with HybridGraphStore(None) as store:
        ingest(
            [Document(id="poem", page_content="Ada wrote it.\n\nByron read it.")],
            store,
            split=CharacterTextSplitter(chunk_size=15, chunk_overlap=0),
        )
        result = GraphRetriever(store).retrieve("it", seed_ids=["poem"])
        assert {document.page_content for document in result} == {"Ada wrote it.", "Byron read it."}
        assert "seeds-missing" not in result.degraded


def test_given_seeds_are_weighted_by_similarity(store):
    """A given seed far from the question scores lower than a near one, whether or not the search found either."""
    own_score = {"score": HopDecay(score_expanded=False)}
    score_of = scores(hop_decay(store).retrieve("q", seed_ids=["Z", "A"], graph=own_score))
    assert (score_of["A"], score_of["Z"]) == (pytest.approx(0.93), pytest.approx(0.335))


@pytest.mark.parametrize(
    ("seed_ids", "message"), [("A", r"write seed_ids=\['A'\]"), ([1], "got .1.; write"), (["A", None], "as strings")]
)
def test_seed_ids_must_be_a_list_of_strings(store, seed_ids, message):
    """A single string, a number or a list of non-strings as seed_ids raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match=message):
        hop_decay(store).retrieve("q", seed_ids=seed_ids)
