"""GraphRetriever over the embedded store and over any other."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_text_splitters import CharacterTextSplitter
from pydantic import ValidationError

from langchain_hybridgraph import (
    Edge,
    GraphRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    by_meta,
    ingest,
)
from langchain_hybridgraph.errors import ConfigurationError, RetrievalError, StoreError
from langchain_hybridgraph.options.graph import GraphOptions
from langchain_hybridgraph.options.presets import PRESETS
from langchain_hybridgraph.query.budget import TokenBudget
from langchain_hybridgraph.query.fusion import ConvexCombination
from langchain_hybridgraph.query.graph import BFS, TRAVERSALS
from langchain_hybridgraph.query.graph.scores import HopDecay, RingDecay
from langchain_hybridgraph.stores.in_memory_graph import InMemoryGraph

COSINES = {"A": 0.9, "B": 0.5, "C": 0.1, "D": 0.1, "Z": 0.05}
PINNED = [("A", "C", 0.8), ("B", "C", 1.0), ("C", "D", 0.9), ("Z", "A", 0.6)]


class Angles(Embeddings):
    """Texts are their own names; the question's cosine with each is the one above."""

    def embed_documents(self, texts):
        return [[COSINES[text], float(np.sqrt(1 - COSINES[text] ** 2))] for text in texts]

    def embed_query(self, text):
        return [1.0, 0.0]


def edges(*triples, relation="cites", **metadata):
    return [Edge(one, other, relation, weight, f"{one} cites {other}.", **metadata) for one, other, weight in triples]


def drawing(*extra, **metadata):
    """The store of SPEC's drawing: five chunks, four edges."""
    store = HybridGraphStore(None, Angles())
    store.add_texts(list(COSINES), [metadata.get(name, {}) for name in COSINES], ids=list(COSINES))
    store.upsert([], edges=[*edges(*PINNED), *extra])
    return store


def scores(result):
    return {document.id: document.metadata["relevance_score"] for document in result}


def pinned(**expected):
    return {id: pytest.approx(value, abs=1e-6) for id, value in expected.items()}


def hop_decay(store, graph=None, **settings):
    """The preset that the pins belong to, begun at A and B."""
    defaults = {"k": 10, "preset": "hop_decay"} | settings
    return GraphRetriever(store, graph={"seed_k": 2} | (graph or {}), **defaults)


DOCUMENTS = [
    Document(id="ada", page_content="Ada Lovelace wrote notes on the Analytical Engine.", metadata={"title": "Ada"}),
    Document(
        id="engine",
        page_content="The Analytical Engine was to be driven by steam.",
        metadata={"title": "Analytical Engine"},
    ),
    Document(id="byron", page_content="Lord Byron was a poet.", metadata={"title": "Lord Byron"}),
    Document(id="loom", page_content="The loom of Jacquard wove silk by cards.", metadata={"title": "Jacquard loom"}),
]


def ingested():
    store = HybridGraphStore(None)
    ingest(DOCUMENTS, store, split=None, edges="auto")
    return store


class TestStandard(RetrieversIntegrationTests):
    """langchain-tests' suite, over the store."""

    @property
    def retriever_constructor(self):
        return GraphRetriever

    @property
    def retriever_constructor_params(self):
        return {"vector_store": ingested(), "k": 3}

    @property
    def retriever_query_example(self):
        return "Who wrote notes on the engine driven by steam?"


class TestStandardOverPlainStore(TestStandard):
    """langchain-tests' suite, over LangChain's own in-memory store with separate edges."""

    @property
    def retriever_constructor_params(self):
        plain = InMemoryVectorStore.from_documents(DOCUMENTS, ingested().embeddings)
        return {"vector_store": plain, "documents": DOCUMENTS, "edges": edges(("ada", "engine", 0.9))}


# -- pins through the whole retriever ------------------------------------------------------------------------------


def test_hop_decay():
    """SPEC's drawing with seeds A and B: C by its best edge, D over C; without their own similarity."""
    with drawing() as store:
        score_of = scores(hop_decay(store).retrieve("q"))
        expected = pinned(A=0.93, B=0.65, C=0.21, D=0.135)
        assert {id: score_of[id] for id in expected} == expected


def test_edges_are_walked_both_ways_when_asked():
    """Z leads to A, and so is reached from it."""
    with drawing() as store:
        walk = BFS(direction="both")
        score_of = scores(
            hop_decay(store, graph={"traversal": walk, "score": HopDecay(score_expanded=False)}).retrieve("q")
        )
        assert score_of["Z"] == pytest.approx(0.126)


def edges_of_retriever():
    """The drawing's edges over a store that has none."""
    plain = InMemoryVectorStore(Angles())
    documents = [Document(name, id=name) for name in COSINES]
    plain.add_documents(documents)
    return {"vector_store": plain, "documents": documents, "edges": edges(*PINNED)}


@pytest.mark.parametrize("has_own_edges", [False, True])
def test_an_edge_is_described_in_its_own_direction(has_own_edges):
    """Z cites A: walked from A, its step is backward, and nothing says that A cites Z. A cites C, forward."""
    with drawing() as store:
        arguments = edges_of_retriever() if has_own_edges else {"vector_store": store}
        retriever = GraphRetriever(
            **arguments, graph={"traversal": BFS(direction="both"), "seed_k": 1, "score": "hop_decay"}
        )
        result = retriever.retrieve("q")
        metadata = {document.id: document.metadata for document in result}
        assert (metadata["Z"]["source_path"], metadata["C"]["source_path"]) == (["A", "Z"], ["A", "C"])
        (back,), (onward,) = metadata["Z"]["graph_context"], metadata["C"]["graph_context"]
        assert (back["direction"], back["relation"], back["description"]) == ("backward", "cites", "Z cites A.")
        assert "direction" not in onward
        assert onward["description"] == "A cites C."
        explanations = {hit.id: hit.explain() for hit in result.hits}
        assert "1 hop from A to Z: Z cites A (walked backward, weight 0.60, “Z cites A.”)" in explanations["Z"]
        assert "1 hop from A to C: cites (weight 0.80, “A cites C.”)" in explanations["C"]
        assert "Z cites A (walked backward" in retriever.explain("q")


def test_the_tool_says_how_hits_are_related():
    """Each edge as it points, between the places in the list, with its description."""
    with drawing() as store:
        walk = BFS(direction="both")
        retriever = GraphRetriever(
            store, k=5, graph={"traversal": walk, "score": "hop_decay", "seed_k": 1}, metadata_prefix="hg_"
        )
        answer = retriever.as_tool().invoke("q")
        places = {document.id: rank for rank, document in enumerate(retriever.invoke("q"), start=1)}
        a, c, d, z = (places[id] for id in "ACDZ")
        assert f"\n↳ related: [{a}] –cites→ [{c}] (A cites C.)" in answer
        assert f"\n↳ related: [{z}] –cites→ [{a}] (Z cites A.)" in answer
        assert f"\n↳ related: [{a}] –cites→ [{c}] (A cites C.); [{c}] –cites→ [{d}] (C cites D.)" in answer
        assert answer.count("↳ related:") == len([hit for hit in retriever.retrieve("q").hits if hit.hops])


def test_the_tool_names_a_shared_entity_and_a_text_that_is_not_in_the_list():
    """An entity has no direction; texts that did not come back are named by their ids."""
    with ingested() as store:
        answer = GraphRetriever(store, k=2).as_tool().invoke("Who wrote notes?")
        assert "↳ related: [1] and [2] both mention analytical engine" in answer
    with drawing() as store:
        short_answer = hop_decay(store, k=1, graph={"seed_k": 1, "slots": 1}).as_tool().invoke("q")
        assert "↳ related: A –cites→ [1] (A cites C.)" in short_answer


def test_ring_decay():
    """The energy of .9 at A is .36 at C and .162 at D."""
    with drawing() as store:
        retriever = GraphRetriever(
            store, preset="ring_decay", graph={"seed_k": 2, "seed_keyword_weight": 0}, fusion="rrf", k=10
        )
        score_of = scores(retriever.retrieve("q", graph={"score": RingDecay()}))
        assert score_of["D"] / score_of["C"] == pytest.approx(0.45)


def test_the_shorthand_is_bfs_with_hop_decay():
    """max_hops, hop_decay and the weights stand for the two objects."""
    with drawing() as store:
        short = GraphRetriever(
            store, max_hops=1, graph={"hop_decay": (1.0, 0.5), "vector_weight": 0.6, "graph_weight": 0.4, "seed_k": 2}
        )
        long = GraphRetriever(
            store,
            graph={
                "traversal": {"type": "bfs", "max_hops": 1},
                "score": {"type": "hop_decay", "hop_decay": [1.0, 0.5], "vector_weight": 0.6, "graph_weight": 0.4},
                "seed_k": 2,
            },
        )
        assert scores(short.retrieve("q")) == scores(long.retrieve("q"))


# -- what a hit says -----------------------------------------------------------------------------------------------


def test_an_expanded_hit_says_how_it_was_reached():
    """Path, hops, and the edges of its path, the last one first."""
    with drawing() as store:
        metadata = {document.id: document.metadata for document in hop_decay(store).retrieve("q")}
        assert metadata["D"]["source_path"] == ["B", "C", "D"]
        assert metadata["D"]["hops"] == 2
        assert [each["description"] for each in metadata["D"]["graph_context"]] == ["C cites D.", "B cites C."]
        assert metadata["D"]["graph_context"][0] == {
            "from_chunk_id": "C",
            "relation": "cites",
            "weight": 0.9,
            "description": "C cites D.",
        }


def test_a_seed_has_no_context():
    """A seed's path is itself."""
    with drawing() as store:
        metadata = hop_decay(store).retrieve("q")[0].metadata
        assert (metadata["source_path"], metadata["hops"], metadata["graph_context"]) == (["A"], 0, [])


def test_the_method_is_graph():
    """And the source says who brought each chunk."""
    with drawing() as store:
        result = hop_decay(store, graph={"seed_k": 1}).retrieve("q")
        assert {document.metadata["retrieval_method"] for document in result} == {"graph"}
        assert result[0].metadata["retrieval_source"] == "vector"


def test_a_shared_entity_is_named():
    """One hop over the entity, which appears in the context."""
    with ingested() as store:
        result = GraphRetriever(store, k=4, graph={"seed_k": 1}).retrieve("Who wrote notes on the Analytical Engine?")
        context = {document.id: document.metadata["graph_context"] for document in result}
        assert context["engine"][0]["from_chunk_id"] == "ada"
        assert context["engine"][0]["entity"] == "entity:analytical engine"
        assert "analytical engine" in context["engine"][0]["description"]


def test_the_parts_sum_to_the_score():
    """The search and the graph each contribute parts."""
    with ingested() as store:
        result = GraphRetriever(store, k=4).retrieve("Who wrote notes on the Analytical Engine?")
        assert "graph" in {name for document in result for name in document.metadata["score_breakdown"]}
        sums = [sum(document.metadata["score_breakdown"].values()) for document in result]
        assert sums == pytest.approx([document.metadata["relevance_score"] for document in result])


JAWS = [
    Document(id="jaws", page_content="Jaws is a film directed by Steven Spielberg.", metadata={"title": "Jaws"}),
    Document(id="steven", page_content="He is a native of Cincinnati.", metadata={"title": "Steven Spielberg"}),
    Document(id="alien", page_content="Alien is a film directed by Ridley Scott.", metadata={"title": "Alien"}),
]


@pytest.mark.parametrize("preset", [name for name in PRESETS if name not in ("hop_decay", "distance_decay", "beam")])
def test_the_graphs_part_of_a_seeds_score_has_a_reason(preset):
    """All are seeds; the one that another's edge lifts has the path from there, the edge, and says so."""
    with HybridGraphStore(None) as store:
        ingest(JAWS, store, split=None)
        hits = {hit.id: hit for hit in GraphRetriever(store, k=3, preset=preset).retrieve("director of Jaws").hits}
        assert hits["steven"].parts["graph"] > 0
        assert hits["steven"].path == ("jaws", "steven")
        assert hits["steven"].graph_context[0]["entity"] == "entity:steven spielberg"
        assert "1 hop from jaws to steven: both mention steven spielberg" in hits["steven"].explain()


def test_a_seed_whose_score_no_edge_raises_has_no_path():
    """The best hit stays the best, although another seed leads to it, so there is nothing for a path to explain."""
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
        ({"preset": None, "max_hops": 1}, {"C": {"search": 0.07, "graph": 0.21}}),
        ({"preset": "propagation"}, {"A": {"search": 0.9}, "C": {"search": 0.05, "graph": 0.45}}),
        ({"preset": "distance_decay", "semantic_weight": 1.0}, {"A": {"search": 0.7, "seed": 0.3}}),
    ],
)
def test_a_score_of_the_walk_has_parts(settings, parts):
    """The parts are the chunk's own score, its share as a seed, and the share from edges."""
    with drawing() as store:
        hits = {hit.id: dict(hit.parts) for hit in hop_decay(store, **settings).retrieve("q").hits}
        assert {id: hits[id] for id in parts} == {id: pytest.approx(part, abs=1e-6) for id, part in parts.items()}


def test_equal_scores_are_ordered_by_similarity():
    """Among seeds with equal scores, the one nearest to the question comes first, not the first by id."""
    with drawing() as store:
        options = {"max_hops": 0, "graph": {"graph_weight": 5.0, "vector_weight": 0.0, "seed_k": 5}, "k": 5}
        result = GraphRetriever(store, **options).retrieve("q")
        assert [document.id for document in result] == ["A", "B", "C", "D", "Z"]
        assert set(scores(result).values()) == {1.0}


# -- who may be walked to ------------------------------------------------------------------------------------------


def test_a_filter_holds_on_every_hop():
    """C is filtered out, so it is neither found nor walked through to D."""
    kinds = {name: {"kind": "open"} for name in "ABDZ"} | {"C": {"kind": "secret"}}
    with drawing(**kinds) as store:
        score_of = scores(hop_decay(store, filter=by_meta(kind="open")).retrieve("q"))
        assert "C" not in score_of
        assert score_of["D"] == pytest.approx(0.07)


def test_expired_chunks_are_not_walked_through():
    """C was valid until 2020: as of then it leads to D, as of now it does not."""
    with drawing(C={"valid_until": "2020-06-01T00:00:00Z"}) as store:
        retriever = hop_decay(store)
        assert "D" in retriever.retrieve("q", as_of="2020-01-01T00:00:00Z")[3].id
        assert scores(retriever.retrieve("q"))["D"] == pytest.approx(0.07)


def test_an_expired_edge_is_not_traversed():
    """The only edge to Z was valid until 1970."""
    with drawing() as store:
        store.upsert([], edges=[Edge("A", "Z", "cites", 1.0, "", valid_until=1.0)])
        assert "Z" not in {d.id for d in hop_decay(store).retrieve("q") if d.metadata["hops"]}


def test_seeds_can_be_given():
    """The walk begins at B alone: its own score, and what it leads to."""
    with drawing() as store:
        result = hop_decay(store).retrieve("q", seed_ids=["B"])
        assert scores(result) == pinned(B=0.65, C=0.21, D=0.135)


def test_seeds_can_be_given_without_a_question():
    """Nothing is embedded; a seed counts 1."""
    with drawing() as store:
        result = hop_decay(store).retrieve(None, seed_ids=["B"])
        assert scores(result) == pinned(B=1.0, C=0.21, D=0.135)


def test_seeds_of_a_label():
    """Only B has the label, so only B is a seed; A stays a candidate."""
    with drawing(B={"labels": ["start", "other"]}) as store:
        metadata = {d.id: d.metadata for d in hop_decay(store, graph={"seed_labels": ["start"]}).retrieve("q")}
        assert metadata["C"]["source_path"] == ["B", "C"]
        assert metadata["A"]["relevance_score"] == pytest.approx(0.63)


def test_a_filter_of_seeds_is_theirs_alone():
    """C may come back although it could not be a seed."""
    with drawing(B={"kind": "start"}) as store:
        metadata = {d.id: d.metadata for d in hop_decay(store, graph={"seed_filter": {"kind": "start"}}).retrieve("q")}
        assert metadata["C"]["hops"] == 1


def test_places_can_be_kept_for_what_edges_lead_to():
    """One of two places is reserved for C."""
    with drawing() as store:
        assert list(scores(hop_decay(store, k=2).retrieve("q"))) == ["A", "B"]
        assert list(scores(hop_decay(store, k=2).retrieve("q", graph={"slots": 1}))) == ["A", "C"]


def test_min_traversal_score_is_the_least_weight_of_an_edge():
    """At .85 the edge from A is not walked: C comes from B over 1, D from C over .9."""
    with drawing() as store:
        hits = {hit.id: hit for hit in hop_decay(store, graph={"min_traversal_score": 0.85}).retrieve("q").hits}
        assert {id: hits[id].score for id in "CD"} == pinned(C=0.21, D=0.135)
        assert (hits["C"].path, hits["D"].path) == (("B", "C"), ("B", "C", "D"))


def test_min_traversal_score_includes_the_weight_itself():
    """At .9 the edge of .9 to D is walked; at .95 only that of 1 to C."""
    with drawing() as store:
        ids = [
            {d.id for d in hop_decay(store, graph={"min_traversal_score": least}).retrieve("q") if d.metadata["hops"]}
            for least in (0.9, 0.95)
        ]
        assert ids == [{"C", "D"}, {"C"}]


@pytest.mark.parametrize("preset", PRESETS)
def test_min_traversal_score_holds_for_every_preset(preset):
    """No edge is as heavy as 1 but that from B, so nothing else is walked."""
    with drawing() as store:
        hits = GraphRetriever(store, preset=preset, graph={"seed_k": 2, "min_traversal_score": 1.0}).retrieve("q").hits
        walked = {step for hit in hits for step in zip(hit.path, hit.path[1:], strict=False)}
        assert walked
        assert walked <= {("B", "C"), ("C", "B")}


# -- what may come back ---------------------------------------------------------------------------------------------


def test_only_seeds_and_what_edges_reached_come_back():
    """The search finds all five; the seed is B, from which edges lead to C and D."""
    with drawing(B={"labels": ["Claim"]}) as store:
        retriever = GraphRetriever(store, graph={"seed_labels": ["Claim"]}, preset="hop_decay")
        assert set(scores(retriever.retrieve("q"))) == set(COSINES)
        result = retriever.retrieve("q", graph={"candidates": "reached"})
        assert scores(result) == pinned(B=0.65, C=0.21, D=0.135)


@pytest.mark.parametrize("preset", PRESETS)
def test_seeds_restrict_the_answer_of_every_preset(preset):
    """From B an edge leads to C, and every path begins at B; a filter does what a label does."""
    with drawing(B={"labels": ["Claim"], "kind": "claim"}) as store:
        retriever = GraphRetriever(store, preset=preset, graph={"candidates": "reached", "seed_labels": ["Claim"]})
        hits = retriever.retrieve("q").hits
        assert {"B", "C"} <= {hit.id for hit in hits}
        assert {hit.path[0] for hit in hits} == {"B"}
        filtered = GraphRetriever(
            store, preset=preset, graph={"candidates": "reached", "seed_filter": {"kind": "claim"}}
        )
        assert [hit.id for hit in filtered.retrieve("q").hits] == [hit.id for hit in hits]


def test_a_label_that_nobody_has_gives_no_hits_and_a_reason():
    """With the search's hits kept the reason is there, too: no edge was walked."""
    with drawing() as store:
        none = GraphRetriever(store, graph={"seed_labels": ["Claim"], "candidates": "reached"}).retrieve("q")
        assert (list(none), none.degraded) == ([], ("no-seeds",))
        assert "'Claim'" in none.plan["remarks"]["no-seeds"]
        every = GraphRetriever(store, graph={"seed_labels": ["Claim"]}).retrieve("q")
        assert (len(every), every.degraded) == (len(COSINES), ("no-seeds",))


def test_seeds_are_found_below_any_number_of_better_hits():
    """300 texts are more similar than the one with the label, and the search has 100 candidates."""
    with HybridGraphStore(None, Angles()) as store:
        store.add_texts(["A"] * 300, ids=[f"c{n}" for n in range(300)])
        store.add_texts(["B"], [{"labels": ["Claim"]}], ids=["claim"])
        store.upsert([], edges=[Edge("claim", "c7", "supports")])
        retriever = GraphRetriever(store, graph={"seed_labels": ["Claim"], "candidates": "reached"})
        assert set(scores(retriever.retrieve("q"))) == {"claim", "c7"}


async def test_candidates_may_be_set_for_one_call():
    """Sync and async give the same; another value is refused by the constructor and by the call."""
    with drawing(B={"labels": ["Claim"]}) as store:
        retriever = hop_decay(store, graph={"seed_labels": ["Claim"]})
        result = retriever.retrieve("q", graph={"candidates": "reached"})
        assert set(scores(result)) == {"B", "C", "D"}
        assert (await retriever.aretrieve("q", graph={"candidates": "reached"})).hits == result.hits
        assert retriever.invoke("q", graph={"candidates": "reached"}, annotate="all") == list(result)
        assert set(
            scores(hop_decay(store, graph={"candidates": "reached"}).retrieve("q", graph={"candidates": "all"}))
        ) == set(COSINES)
        with pytest.raises(ValidationError, match="'all' or 'reached'"):
            hop_decay(store, graph={"candidates": "seeds"})
        with pytest.raises(ConfigurationError, match="must be 'all' or 'reached', got 'seeds'"):
            retriever.retrieve("q", graph={"candidates": "seeds"})


def test_without_edges_only_the_seeds_come_back():
    """The reason is the missing graph."""
    with HybridGraphStore(None, Angles()) as store:
        store.add_texts(list(COSINES), [{"labels": ["Claim"] if name == "B" else []} for name in COSINES])
        result = GraphRetriever(store, graph={"seed_labels": ["Claim"], "candidates": "reached"}).retrieve("q")
        assert [document.page_content for document in result] == ["B"]
        assert result.degraded == ("no-graph-store",)


def test_only_reached_texts_come_back_over_any_vector_store():
    """LangChain's own in-memory store, with edges of the caller's."""
    plain = InMemoryVectorStore(Angles())
    documents = [Document(name, id=name, metadata={"labels": ["Claim"]} if name == "B" else {}) for name in COSINES]
    plain.add_documents(documents)
    retriever = GraphRetriever(
        plain, documents, edges=edges(*PINNED), graph={"seed_labels": ["Claim"], "candidates": "reached"}, max_hops=2
    )
    assert {document.id for document in retriever.invoke("q")} == {"B", "C", "D"}


@pytest.mark.parametrize("settings", [{}, {"memory": {"source_weights": {"vector": 1.0}}}, {"fusion": "rrf"}])
def test_only_reached_memories_come_back(settings):
    """MemoryRetriever scores by confidence and age what the walk left; without the graph's weight, too."""
    with drawing(B={"labels": ["Claim"]}) as store:
        retriever = MemoryRetriever(store, graph={"seed_labels": ["Claim"], "candidates": "reached"}, **settings)
        hits = retriever.retrieve("q").hits
        assert {"B", "C"} <= {hit.id for hit in hits}
        assert {hit.path[0] for hit in hits} == {"B"}


@pytest.mark.parametrize("preset", PRESETS)
def test_without_conditions_the_best_seeds_are_kept(preset):
    """Each hit is one of the best seed_k or on a path from one; the head of the answer for a larger k."""
    with large() as store:
        retriever = GraphRetriever(
            store, preset=preset, graph={"candidates": "reached", "seed_k": 3}, selection={"budget": None}
        )
        hits = retriever.retrieve("gamma eta mu", k=30, max_tokens=10_000).hits
        seeds = {hit.path[0] for hit in hits}
        assert 0 < len(seeds) <= 3
        assert retriever.retrieve("gamma eta mu", k=5, max_tokens=10_000).hits == hits[:5]


def test_other_candidates_are_measured_by_the_best_of_all():
    """Z alone is a seed. B, second of all, is three edges away: .7 of its score over that of A, the best."""
    with drawing(Z={"labels": ["start"]}) as store:
        retriever = GraphRetriever(
            store, preset="distance_decay", graph={"seed_keyword_weight": 0.0, "seed_labels": ["start"]}
        )
        assert scores(retriever.retrieve("q"))["B"] == pytest.approx(0.7 * 61 / 62)


# -- ladders -------------------------------------------------------------------------------------------------------


def test_a_store_without_edges_answers_as_hybrid():
    """And says so."""
    with HybridGraphStore(None) as store:
        store.add_documents(DOCUMENTS)
        result = GraphRetriever(store, k=3).retrieve("Who wrote notes?")
        assert result.degraded == ("no-graph-store",)
        assert scores(result) == scores(HybridRetriever(store, k=3).retrieve("Who wrote notes?"))


def test_a_plain_store_without_edges_says_so():
    """No graph ability, vectors and words alone."""
    plain = InMemoryVectorStore.from_documents(DOCUMENTS, ingested().embeddings)
    with pytest.warns(UserWarning, match=r"InMemoryVectorStore has no edges.*edges=\[Edge\(…\), …\]") as caught:
        retriever = GraphRetriever(plain, DOCUMENTS)
    assert len(caught) == 1
    assert retriever.retrieve("notes").degraded == ("no-graph-store",)


def test_edges_are_not_missed_where_they_are_optional():
    """There is no warning with edges, nor for memories."""
    plain = InMemoryVectorStore.from_documents(DOCUMENTS, ingested().embeddings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GraphRetriever(plain, DOCUMENTS, edges=[])
        MemoryRetriever(plain, DOCUMENTS)


@pytest.mark.parametrize(
    "settings",
    [
        {"graph": {"relation_filter": ["cite", "cites"]}},
        {"graph": {"traversal": {"type": "best_first", "relations": ["cites", "cite"]}}},
        {"graph": {"traversal": {"type": "evidence", "relations": ["cite", "cites"]}}},
        {"graph": {"traversal": {"type": "pagerank", "relations": ["cite", "cites"]}}},
    ],
)
@pytest.mark.parametrize("has_own_edges", [False, True])
def test_a_relation_that_no_edge_has_is_reported(settings, has_own_edges):
    """The walk takes the others, and plan and explanation say which there are; where all are known nothing is said."""
    with drawing(Edge("A", "D", "likes")) as store:
        graph = {"edges": [*edges(*PINNED), Edge("A", "D", "likes")]} if has_own_edges else {}
        options = {"k": 5} | graph
        result = GraphRetriever(store, **options, **settings).retrieve("q")
        message = "no edge is 'cite'; did you mean 'cites'? there are cites, likes"
        assert result.degraded == ("unknown-relation",)
        assert result.plan["remarks"] == {"unknown-relation": message}
        assert f"Not as requested: unknown-relation ({message})." in GraphRetriever(
            store, **options, **settings
        ).explain("q")
        right = GraphRetriever(store, **options, graph={"relation_filter": ["cites", "likes"]}).retrieve("q")
        assert (right.degraded, right.plan["remarks"]) == ((), {})


def test_some_of_many_relations_are_named():
    """Twenty stand for all."""
    with drawing(*(Edge("A", "B", f"r{n:02}") for n in range(30))) as store:
        message = (
            GraphRetriever(store, graph={"relation_filter": ["zzz"]}).retrieve("q").plan["remarks"]["unknown-relation"]
        )
    assert message == "no edge is 'zzz'; there are cites, " + ", ".join(f"r{n:02}" for n in range(19)) + ", …"


def test_edges_can_be_shared_by_stores():
    """Each sees its own chunks: the second has no C."""
    shared = InMemoryGraph(edges(*PINNED))
    results = []
    for names in (COSINES, ["A", "B", "D"]):
        documents = [Document(id=name, page_content=name) for name in names]
        plain = InMemoryVectorStore(Angles())
        plain.add_documents(documents)
        answer = hop_decay(plain, documents=documents, edges=shared).retrieve("q")
        results.append({d.id for d in answer if d.metadata["hops"]})
    assert results == [{"C", "D"}, set()]


def test_edges_next_to_a_plain_store():
    """A list of edges gives the same walk."""
    plain = InMemoryVectorStore(Angles())
    documents = [Document(id=name, page_content=name) for name in COSINES]
    plain.add_documents(documents)
    score_of = scores(hop_decay(plain, documents=documents, edges=edges(*PINNED)).retrieve("q"))
    expected = pinned(A=0.93, B=0.65, C=0.21, D=0.135)
    assert {id: score_of[id] for id in expected} == expected


class Broken:
    """A graph that is gone when it is walked."""

    has_graph = True

    def scoped_graph(self, scope, ways):
        raise OSError("the graph has disappeared")


class Breaking(Broken):
    """A graph that is gone after the first hop."""

    def __init__(self):
        self.hops_left = 1

    def scoped_graph(self, scope, ways):
        walked = InMemoryGraph(edges(("ada", "engine", 0.8), ("engine", "loom", 0.8))).scoped_graph(scope, ways)
        return Ending(walked, self)


class Ending:
    """Hits of a walk over a graph that is unavailable after the first hop."""

    def __init__(self, walked, graph):
        self._walked, self._graph = walked, graph

    def __len__(self):
        return len(self._walked)

    def __getattr__(self, name):
        return getattr(self._walked, name)

    def restricted_to(self, nodes):
        return self

    def neighbours(self, nodes):
        if not self._graph.hops_left:
            raise OSError("the graph has disappeared")
        self._graph.hops_left -= 1
        return self._walked.neighbours(nodes)


@pytest.mark.parametrize("broken", [Broken, Breaking])
def test_a_graph_that_disappears_leaves_the_hits(broken):
    """graph-failed, and the search's own answer, whether it is gone before the walk or in the middle of it."""
    with HybridGraphStore(None) as store:
        store.add_documents(DOCUMENTS)
        retriever = GraphRetriever(store, edges=broken(), max_hops=2, graph={"seed_k": 1})
        result = retriever.retrieve("Who wrote notes?")
        assert result.degraded == ("graph-failed",)
        assert result[0].id == "ada"
        assert "disappeared" in result.plan["errors"]["graph"]


def test_a_graph_that_is_set_later_is_walked():
    """As one that the constructor was given, and None is the store's own again."""
    with drawing() as store:
        retriever = hop_decay(store)
        own = [(hit.id, hit.metadata.get("path")) for hit in retriever.retrieve("q")]
        retriever.edges = InMemoryGraph(edges(("A", "Z", 1.0)))
        path = {hit.id: hit.metadata.get("source_path") for hit in retriever.retrieve("q")}
        assert path["Z"] == ["A", "Z"]
        retriever.edges = None
        assert [(hit.id, hit.metadata.get("path")) for hit in retriever.retrieve("q")] == own


def test_visited_chunks_that_are_not_hits_leave_no_gap():
    """From an entity, which is none itself: each answer is the head of that for a larger k, as long as there is any."""
    with drawing(*[Edge(id, "entity:q", "mentions", 1.0 - place / 10) for place, id in enumerate("ABCD")]) as store:
        retriever = hop_decay(store, semantic_weight=0.0, keyword_weight=1.0)
        ids = [[hit.id for hit in retriever.retrieve("A", k=k, seed_ids=["entity:q"])] for k in range(1, 6)]
        assert ids == [ids[-1][:k] for k in range(1, 6)]
        assert len(ids[-1]) == 4


class Slow(InMemoryGraph):
    """A separate graph that blocks until it is released."""

    has_fast_lookups = True
    let = threading.Event()

    def for_store(self, visible, cosines):
        return self

    def scoped_graph(self, scope, ways):
        self.let.wait(60)
        return super().scoped_graph(scope, ways)


def test_a_slow_graph_is_not_waited_for():
    """The hits of the search come back in time, wherever the graph is."""
    with drawing() as store:
        result = hop_decay(store, edges=Slow(edges(*PINNED)), deadline_ms=100).retrieve("q")
        Slow.let.set()
        assert "deadline-exceeded:graph" in result.degraded
        assert len(result) == len(COSINES)


def test_a_failing_graph_can_raise():
    """on_error='raise' goes for the graph, too."""
    with HybridGraphStore(None) as store:
        store.add_documents(DOCUMENTS)
        retriever = GraphRetriever(store, edges=Broken(), on_error="raise")
        with pytest.raises(RetrievalError, match="disappeared"):
            retriever.retrieve("Who wrote notes?")


def test_a_cap_that_bites_is_named():
    """Only one of C and D fits."""
    with drawing() as store:
        result = hop_decay(store, graph={"traversal": BFS(max_nodes=1)}).retrieve("q")
        assert "node-cap-reached" in result.degraded


# -- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_answers(preset):
    """And brings both ends of the link."""
    with ingested() as store:
        result = GraphRetriever(store, preset=preset, k=4).retrieve("Who wrote notes on the Analytical Engine?")
        assert {"ada", "engine"} <= set(scores(result))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_shorter_answer_is_the_head_of_a_longer_one(preset):
    """For every preset."""
    with ingested() as store:
        retriever = GraphRetriever(store, preset=preset)
        longest = [document.id for document in retriever.retrieve("notes on the Engine", k=4)]
        assert [[d.id for d in retriever.retrieve("notes on the Engine", k=k)] for k in (1, 2, 3)] == [
            longest[:1],
            longest[:2],
            longest[:3],
        ]


def large():
    """A hundred short texts, joined at random."""
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
    "settings", [{}, {"fusion": "rrf"}, {"graph": {"min_traversal_score": 0.4}}, {"selection": {"mmr_lambda": 0.7}}]
)
def test_a_shorter_answer_is_the_head_of_any_longer_one(settings, options):
    """For every preset, with many more candidates than seeds, and so is each score."""
    with large() as store:
        for preset in PRESETS:
            selection = {"budget": TokenBudget(max_tokens=10_000)} | settings.get("selection", {})
            retriever = GraphRetriever(store, preset=preset, **settings | {"selection": selection})
            longest = list(scores(retriever.retrieve("gamma eta mu", k=33, **options)).items())
            assert longest
            for k in (2, 10, 25):
                shorter = scores(retriever.retrieve("gamma eta mu", k=k, **options))
                assert list(shorter.items()) == longest[:k], (preset, k)


def test_another_traversal_keeps_the_requested_score():
    """By a preset, by ``score`` or by shorthand; by default it is the traversal's own."""
    with drawing() as store:
        results = [
            {"preset": "ring_decay"},
            {"graph": {"score": "ring_decay"}},
            {"graph": {"vector_weight": 0.6}},
            {},
            {"graph": {"traversal": "bfs"}},
        ]
        walks = [
            GraphRetriever(store, **one).retrieve("q", graph={"traversal": "beam"}).plan["walk"] for one in results
        ]
        assert [walk["score"] for walk in walks] == ["RingDecay", "RingDecay", "HopDecay", "HopDecay", "HopDecay"]
        assert (
            GraphRetriever(store, preset="ring_decay", graph={"traversal": "beam"}).retrieve("q").plan["walk"]
            == walks[0]
        )


OWN_SCORES = {
    "evidence": "NoisyOr",
    "pagerank": "NoisyOr",
    "best_first": "Propagation",
    "water_circle": "RingDecay",
    "beam": "HopDecay",
    "bfs": "HopDecay",
}


@pytest.mark.parametrize("traversal", TRAVERSALS)
def test_a_traversal_alone_has_the_score_of_its_preset(traversal):
    """Given to the constructor, to a call and to a copy, by name or with parameters."""
    with large() as store:
        plain, form = GraphRetriever(store), {"type": traversal, "max_nodes": 50}
        result = GraphRetriever(store, graph={"traversal": traversal}).retrieve("gamma eta")
        assert result.plan["walk"]["score"] == OWN_SCORES[traversal]
        called = plain.retrieve("gamma eta", graph={"traversal": traversal})
        copied = plain.model_copy(update={"graph": GraphOptions(traversal=form)}).retrieve("gamma eta")
        over = GraphRetriever(store, graph={"traversal": "bfs"}).retrieve("gamma eta", graph={"traversal": form})
        assert [scores(each) for each in (called, copied, over)] == [scores(result)] * 3


def test_the_default_traversal_by_name_is_the_default():
    """To the last digit."""
    with large() as store:
        plain = GraphRetriever(store)
        default = plain.retrieve("gamma eta mu").hits
        assert GraphRetriever(store, graph={"traversal": "evidence"}).retrieve("gamma eta mu").hits == default
        assert plain.retrieve("gamma eta mu", graph={"traversal": "evidence"}).hits == default


def test_a_bfs_alone_is_the_shorthand():
    """HopDecay with its own defaults, over the same seeds."""
    with large() as store:
        long = GraphRetriever(store, graph={"traversal": {"type": "bfs", "max_hops": 2}}).retrieve("gamma eta mu")
        assert long.hits == GraphRetriever(store, max_hops=2).retrieve("gamma eta mu").hits


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_hops": 2, "graph": {"traversal": "bfs"}}, "shorthand"),
        ({"graph": {"graph_weight": 0.2}, "preset": "hop_decay"}, "shorthand"),
        ({"graph": {"traversal": "dfs"}}, "bfs"),
        ({"graph": {"score": {"type": "hop_decay", "decay": 1}}}, "hop_decay"),
        ({"preset": "best"}, "evidence"),
        ({"graph": {"seed_k": 0}}, "an integer ≥ 1, got 0"),
        ({"edges": ["a", "b"]}, "list of Edge"),
        ({"graph": {"hop_decay": 0.5}}, r"must be a list of numbers by hop, such as \[1, 0.7, 0.5\]"),
        ({"graph": {"seed_keyword_weight": 2}}, "number from 0 to 1, or None, got 2"),
        ({"max_hops": -1}, "an integer ≥ 0, or None, got -1"),
        ({"graph": {"min_weight": 3}}, "number from 0 to 1, or None, got 3"),
        ({"max_hop": 2}, "max_hop"),
    ],
)
def test_an_unusable_setting_says_what_would_do(settings, message):
    """At construction, not in a query."""
    with HybridGraphStore(None) as store, pytest.raises(ValidationError, match=message):
        GraphRetriever(store, **settings)


def test_a_setting_may_be_changed():
    """Values set after construction apply from then on."""
    with drawing() as store:
        retriever = GraphRetriever(store, preset="hop_decay", graph={"seed_k": 2}, k=10)
        retriever.graph = {"traversal": "beam", "score": HopDecay(score_expanded=False)}
        assert retriever.retrieve("q").plan["walk"]["traversal"] == "Beam"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("preset", "nope", "'evidence', 'hop_decay'"),
        ("max_hops", 2, "shorthand"),
        ("filter", {"$no": 1}, "not an operator"),
    ],
)
def test_an_unusable_setting_cannot_be_set(name, value, message):
    """The error is that of the constructor, and the retriever does not change."""
    with drawing() as store:
        retriever = GraphRetriever(store, graph={"traversal": "beam"})
        before = retriever.retrieve("q").hits
        with pytest.raises(ValidationError, match=message):
            setattr(retriever, name, value)
        assert (getattr(retriever, name), retriever.retrieve("q").hits) == (None, before)


def test_a_setting_is_read_when_it_is_set():
    """A filter that is a mapping becomes one, as in the constructor."""
    with drawing(C={"kind": "secret"}) as store:
        retriever = GraphRetriever(store)
        retriever.filter = {"kind": "secret"}
        assert [document.id for document in retriever.retrieve("q")] == ["C"]


def test_a_copy_with_an_unknown_preset_says_which_there_are():
    """Pydantic does not look at what a copy is updated with."""
    with (
        drawing() as store,
        pytest.raises(ConfigurationError, match=r"preset must be one of evidence, hop_decay.*got 'nope'"),
    ):
        GraphRetriever(store).model_copy(update={"preset": "nope"}).retrieve("q")


@pytest.mark.parametrize(("value", "expected"), [(5.0, 1.0), (-1.0, 0.0)])
def test_a_score_of_ones_own_is_held_between_0_and_1(value, expected):
    """However much it says."""
    with drawing() as store:
        result = GraphRetriever(store, graph={"score": lambda walk: 0 * walk.seed + value}).retrieve("q")
        assert set(scores(result).values()) == {expected}


def test_unknown_seeds_are_named():
    """The walk begins at the others; of no seeds at all nothing can be asked."""
    with drawing() as store:
        result = hop_decay(store).retrieve("q", seed_ids=["B", "nobody"])
        assert result.degraded == ("seeds-missing",)
        assert [document.id for document in result] == ["B", "C", "D"]
        with pytest.raises(ValueError, match="seed_ids must contain ids to begin at"):
            hop_decay(store).retrieve("q", seed_ids=[])


@pytest.mark.parametrize("settings", [{}, {"preset": "evidence"}])
def test_without_any_given_seed_nothing_is_found(settings):
    """Neither by edges nor by a title in the question: that no seed is there is said, not covered up."""
    with ingested() as store:
        result = GraphRetriever(store, **settings).retrieve("When did Lord Byron live?", seed_ids=["nobody"])
        assert (list(result), result.degraded) == ([], ("seeds-missing",))


NUMBERED = {f"n{n}": f"word{n} of many" for n in range(5)}


def numbered():
    """Texts without an edge."""
    store = HybridGraphStore(None)
    store.add_texts(list(NUMBERED.values()), [{"year": n} for n in range(5)], ids=list(NUMBERED))
    return store


def plain_numbered():
    """A store of LangChain returns the same Documents."""
    documents = [Document(id=id, page_content=text) for id, text in NUMBERED.items()]
    return InMemoryVectorStore.from_documents(documents, DeterministicFakeEmbedding(size=16)), documents


@pytest.mark.parametrize(
    "settings", [{}, {"max_hops": 2}, {"preset": "distance_decay"}, {"selection": {"mmr_lambda": 0.5}}]
)
@pytest.mark.parametrize("query", ["word0", None])
def test_given_seeds_without_edges_are_the_whole_answer(query, settings):
    """With the search's own scores, best first, each once, and the reason; without a question each counts 1."""
    with numbered() as store:
        retriever = GraphRetriever(store, **settings)
        result = retriever.retrieve(query, seed_ids=["n2", "n0", "n2"])
        assert [document.id for document in result] == ["n0", "n2"]
        assert "no-graph-store" in result.degraded
        searched = scores(retriever.retrieve(query)) if query else {"n0": 1.0, "n2": 1.0}
        assert "selection" in settings or scores(result) == pytest.approx({id: searched[id] for id in ("n0", "n2")})


def test_given_seeds_without_edges_are_admitted_as_any_hit():
    """Those that are filtered out or nowhere are left out; of none at all there is no answer."""
    with numbered() as store:
        result = GraphRetriever(store).retrieve("word0", seed_ids=["n1", "n3", "x"], filter={"year": {"$gte": 2}})
        assert [document.id for document in result] == ["n3"]
        assert set(result.degraded) == {"no-graph-store", "seeds-missing"}
        assert not GraphRetriever(store).retrieve("word0", seed_ids=["x"])


@pytest.mark.parametrize("graph", [None, Broken(), InMemoryGraph([])])
def test_given_seeds_over_a_plain_store_are_the_whole_answer(graph):
    """A store without separate edges degrades like a graph that fails."""
    plain, documents = plain_numbered()
    for texts in (documents, None):
        result = GraphRetriever(plain, texts, edges=graph).retrieve("word0", seed_ids=["n2"])
        assert [document.id for document in result] == ["n2"]
        assert ("graph-failed" if isinstance(graph, Broken) else "no-graph-store") in result.degraded


@pytest.mark.parametrize("broken", [Broken, Breaking])
def test_a_graph_that_disappears_leaves_the_given_seeds(broken):
    """And nothing that the search alone has found."""
    with HybridGraphStore(None) as store:
        store.add_documents(DOCUMENTS)
        retriever = GraphRetriever(store, edges=broken(), max_hops=2)
        result = retriever.retrieve("Who wrote notes?", seed_ids=["ada"])
        assert ([document.id for document in result], result.degraded) == (["ada"], ("graph-failed",))


def test_memories_begin_at_given_seeds_without_edges():
    """The one that is given, with a score as a memory."""
    with numbered() as store:
        result = MemoryRetriever(store).retrieve("word0", seed_ids=["n2"])
        assert [document.id for document in result] == ["n2"]
        assert "recency" in result[0].metadata["score_breakdown"]


def test_a_missing_seed_changes_nothing_for_the_others():
    """It does not set the scale for the others."""
    with ingested() as store:
        question, retriever = "Who wrote notes on it?", GraphRetriever(store)
        both = retriever.retrieve(question, seed_ids=["ada", "nobody"])
        assert scores(both) == scores(retriever.retrieve(question, seed_ids=["ada"]))


def test_a_document_as_a_seed_is_all_of_its_chunks():
    """Its id is what the caller has given it; those of its chunks are the store's."""
    with HybridGraphStore(None) as store:
        ingest(
            [Document(id="poem", page_content="Ada wrote it.\n\nByron read it.")],
            store,
            split=CharacterTextSplitter(chunk_size=15, chunk_overlap=0),
        )
        result = GraphRetriever(store).retrieve("it", seed_ids=["poem"])
        assert {document.page_content for document in result} == {"Ada wrote it.", "Byron read it."}
        assert "seeds-missing" not in result.degraded


def test_given_seeds_count_by_their_likeness():
    """Z, far from the question, is worth less than A, whether or not the search had found them."""
    with drawing() as store:
        score_of = scores(
            hop_decay(store).retrieve("q", seed_ids=["Z", "A"], graph={"score": HopDecay(score_expanded=False)})
        )
        assert (score_of["A"], score_of["Z"]) == (pytest.approx(0.93), pytest.approx(0.335))


def test_a_context_names_the_rarest_shared_name():
    """Both mention the film and its country; the film is what joins them."""
    mentions = [("A", "entity:jaws"), ("C", "entity:jaws"), *((name, "entity:usa") for name in "ABCDZ")]
    with drawing(*(Edge(one, other, "mentions", 0.8) for one, other in mentions)) as store:
        walk = {"type": "evidence", "relations": ["mentions"], "sources": 1}
        result = GraphRetriever(store, k=5, graph={"traversal": walk, "score": "noisy_or"}).retrieve("q")
        context = {document.id: document.metadata["graph_context"] for document in result}
        assert context["C"][0]["entity"] == "entity:jaws"


@pytest.mark.parametrize(
    ("seed_ids", "message"),
    [
        ("A", r"seed_ids must be a list of ids, got the string 'A'; write seed_ids=\['A'\]"),
        ([1], r"as strings, got \[1\]; write seed_ids=\['1'\]"),
        (["A", None], "ids as strings"),
        (7, r"seed_ids must be a list of ids, got 7; write seed_ids=\['7'\]"),
    ],
)
def test_seed_ids_are_a_list_of_texts(seed_ids, message):
    """A text would be taken letter by letter; a number is not an id."""
    with drawing() as store, pytest.raises(ConfigurationError, match=message):
        hop_decay(store).retrieve("q", seed_ids=seed_ids)


def test_other_retrievers_refuse_seeds():
    """An option that does nothing would be a lie."""
    with drawing() as store, pytest.raises(TypeError, match="seed_ids"):
        HybridRetriever(store).retrieve("q", seed_ids=["A"])


@pytest.mark.parametrize("hops", [0, 50])
def test_no_hops_and_many(hops):
    """Over a cycle: none leaves the seeds, fifty end where everything is reached."""
    with drawing(*edges(("D", "A", 1.0))) as store:
        result = GraphRetriever(store, max_hops=hops, graph={"seed_k": 1, "seed_keyword_weight": 0}).retrieve("q")
        assert {d.id for d in result if d.metadata["hops"]} == (set() if hops == 0 else {"C", "D"})


async def test_sync_and_async_agree():
    """Documents and metadata are the same."""
    with ingested() as store:
        retriever = GraphRetriever(store, k=4)
        question = "Who wrote notes on the Analytical Engine?"
        assert list(await retriever.aretrieve(question)) == list(retriever.retrieve(question))


class Whole:
    """The default fusion, but for saying which candidates can be among the best: all of them are scored."""

    calibrates = True

    def __init__(self):
        self._fusion = ConvexCombination()

    def __call__(self, rankings):
        return self._fusion(rankings)

    def others(self, rankings, ids):
        return self._fusion.others(rankings, ids)


@pytest.mark.parametrize("settings", [{"max_hops": 2}, {"max_hops": 1, "graph": {"min_traversal_score": 0.4}}, {}])
def test_candidates_without_a_score_change_nothing(settings):
    """Hits and scores, including BM25, are those of scoring every candidate by BM25."""
    dice = np.random.default_rng(0)
    store = HybridGraphStore(None, DeterministicFakeEmbedding(size=16))
    words = [f"w{number}" for number in range(40)]
    store.add_texts([" ".join(dice.choice(words, 12)) for _ in range(300)], ids=[f"c{n}" for n in range(300)])
    pairs = dice.integers(300, size=(900, 2)).tolist()
    store.upsert([], edges=edges(*((f"c{one}", f"c{other}", 0.9) for one, other in pairs if one != other)))
    for k in (1, 10):
        for question in ("w1 w2 w3", "w4", "w5 w6 w7 w8 w9"):
            some = GraphRetriever(store, k=k, **settings).retrieve(question)
            every = GraphRetriever(store, k=k, fusion=Whole(), **settings).retrieve(question)
            assert some.hits == every.hits


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_retriever_over_a_store_in_memory_is_not_copied(copied):
    """The error says that a store with a folder can be."""
    with drawing() as store, pytest.raises(StoreError, match=r"cannot be copied or pickled: give it a folder"):
        copied(GraphRetriever(store))
