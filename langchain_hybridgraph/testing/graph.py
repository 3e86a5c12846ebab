"""Tests of graphs."""

from __future__ import annotations

import pytest

from langchain_hybridgraph.records import Edge, EdgeFilter, Scope
from langchain_hybridgraph.testing.base import FullStore, StoreTests
from langchain_hybridgraph.testing.samples import ANIMALS, EDGES, END, SECOND


class GraphTests(StoreTests):
    """Tests of edges and the graph that they form."""

    def test_has_a_graph_after_edges_were_written(self, full_store: FullStore) -> None:
        """A store has a graph as soon as it has an edge."""
        store = self._require("edges", full_store)
        assert not store.has_graph
        store.upsert([], edges=EDGES)
        assert store.has_graph

    @pytest.mark.parametrize(
        ("edge_filter", "scope", "neighbours"),
        [
            (EdgeFilter(), Scope(), {"dog", "bond", "old"}),
            (EdgeFilter("in"), Scope(), {"owl"}),
            (EdgeFilter("both"), Scope(), {"dog", "bond", "old", "owl"}),
            (EdgeFilter(relations=frozenset({"fears"})), Scope(), {"dog"}),
            (EdgeFilter(min_weight=0.6), Scope(), {"dog", "old"}),
            (EdgeFilter(), Scope(ANIMALS), {"dog"}),
            (EdgeFilter(), Scope(as_of=END + SECOND), {"dog", "bond"}),
        ],
        ids=["out", "in", "both", "relation", "weight", "filter", "time"],
    )
    def test_a_graph_has_the_edges_in_scope(
        self, full_store: FullStore, edge_filter: EdgeFilter, scope: Scope, neighbours: set[str]
    ) -> None:
        """Edges are restricted by direction, relation, weight, filter and time."""
        self._require("edges", full_store).upsert([], edges=EDGES)
        graph = full_store.scoped_graph(scope, edge_filter)
        assert set(graph.ids(graph.neighbours(graph.nodes(["cat"])).node)) == neighbours

    def test_chunks_that_share_an_entity_are_neighbours(self, full_store: FullStore) -> None:
        """Two chunks that mention the same entity are one hop apart; the entity itself is not a neighbour."""
        mentions = [Edge("cat", "entity:Tom", "mentions", 0.5), Edge("owl", "entity:Tom", "mentions", 0.8)]
        self._require("edges", full_store).upsert([], edges=mentions)
        graph = full_store.scoped_graph(Scope(), EdgeFilter())
        assert graph.has_entities
        hops = graph.neighbours(graph.nodes(["cat"]))
        assert graph.ids(hops.node) == ["owl"]
        assert graph.ids(hops.via) == ["entity:Tom"]
        assert hops.weight.tolist() == pytest.approx([0.4])
        assert graph.edges([("cat", "owl")]) == [tuple(mentions)]

    def test_the_heavier_of_two_equal_edges_is_kept(self, full_store: FullStore) -> None:
        """If several edges have the same source, target and relation, the heaviest is kept, with its description."""
        store = self._require("edges", full_store)
        for weight in (0.5, 0.9, 0.7):
            store.upsert([], edges=[Edge("cat", "dog", "fears", weight, f"weight {weight}")])
        assert [(edge.weight, edge.description) for edge in store.edges(["cat"])] == [(0.9, "weight 0.9")]

    def test_removing_a_chunk_removes_its_edges(self, full_store: FullStore) -> None:
        """Edges from and to a removed chunk are removed."""
        store = self._require("edges", full_store)
        store.upsert([], edges=EDGES)
        assert {edge.source for edge in store.edges(["cat"], backwards=True)} == {"owl"}
        store.remove(["dog", "owl"])
        assert {edge.target for edge in store.edges(["cat"])} == {"bond", "old"}
        assert store.edges(["cat"], backwards=True) == []
