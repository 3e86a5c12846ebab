"""Edges as evidence for the relevance of a chunk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple, cast

import numpy as np

from langchain_hybridgraph.errors import setting
from langchain_hybridgraph.records import ENTITY, SEQUENCE, TITLE, Edge, EdgeFilter
from langchain_hybridgraph.search import traversals
from langchain_hybridgraph.search.scores import GraphScore, PathFeatures, is_mixed, path_values
from langchain_hybridgraph.stores.protocols import NeighborEdges

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import Graph, Nodes, Weights


# Traversal that treats links from hits as evidence.

# Maximum strength of one piece of evidence, so that two pieces are always stronger than one.
MAX_STRENGTH = 0.98
MIN_STRENGTH = 1e-9  # weaker evidence is a rounding error
CONFIDENCE_EXPONENT = 0.25  # exponent of a mention's weight
DEFAULT_COVERAGE = 0.05  # assumed share of the missing words that a chunk contains if the share is unknown
FROM_QUESTION = -1  # source of evidence that comes from the question
MAX_LINKS = 1_000
# In a small store, names that more than this share of the chunks mention say little (benchmarks/multihop.md).
COMMON_SHARE = 0.05
FEW_MENTIONS = 10  # number of mentions that are never too many
# Share of the question's words that every seed has to lack before links count fully (benchmarks/multihop.md).
MISSING = 0.5
LEAST_NEED = 0.05  # so that links still reach chunks if a seed has all words of the question
# Number of links up to which the relation of each link is looked up.
FEW_LINKS = 100


@dataclass(frozen=True)
class LinkEvidence(traversals.EdgeFilteredTraversal):
    """Traversal that scores chunks by how strongly the best ``sources`` seeds point to them.

    A seed can give three kinds of evidence for a chunk one hop away. In the formulas, ``title``, ``shared``,
    ``uncovered`` and ``link`` are the parameters:

    - ``title``: the seed names the title of another document. The strength is ``title`` · rarity of the name, divided
      by the number of documents with this title and by the fourth root of the number of documents that the seed names.
    - ``shared``: the seed and the chunk mention the same entity, which has at most ``most_common`` edges (with fewer
      than 2,000 chunks, at most 5 % of their number, but at least 10). The strength is (``shared`` + ``uncovered`` ·
      coverage) · squared rarity of the entity. Coverage is the chunk's share of the words of the question that are
      missing from at least half of the best seeds.
    - ``link``: any other edge connects the seed and the chunk. The strength is ``link`` · weight of the edge, divided
      by the fourth root of the number of chunks that such edges connect with the seed. If a seed contains more than
      half of the question's words, the question hardly needs other texts. The strength is then also multiplied by the
      square of (share of the words that are missing / 50 %), but at least by .05, except for ``sequence`` edges,
      because the next passage continues a text without repeating its words.

    All three strengths are multiplied by the ratio of the seed's score to the best seed's score, and those for
    ``title`` and ``shared`` by the fourth root of the weight of each mention. A title in the question itself is
    evidence for the documents with this title, of the strength ``question_title`` · rarity of the name, divided by
    their number.

    The rarity of a name that n of N chunks mention is ln(N / n) / ln N. For each chunk, the strongest evidence of each
    kind is used, and the kinds are joined as independent evidence: 1 − Π (1 − strength). The traversal reaches the
    seeds, and the ``max_nodes`` other chunks with the most evidence, of which similarity to the question is another
    kind.

    The formula for joining is MYCIN's (Shortliffe and Buchanan, A Model of Inexact Reasoning in Medicine, 1975). Rarity
    is inverse document frequency (Spärck Jones 1972). The default strengths were chosen by measurement
    (benchmarks/README.md).

    >>> from langchain_hybridgraph.search.scores import NoisyOr
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> edges = [Edge("a", "entity:ada", "mentions", 0.8), Edge("b", "entity:ada", "mentions")]
    >>> edges += [Edge("b", "title:ada", "mentions"), Edge("c", "entity:york", "mentions")]
    >>> evidence = LinkEvidence()
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), evidence.edge_filter)
    >>> result = evidence.traverse(graph, [("a", 1.0)], NoisyOr(), None)
    >>> [(chunk.path, round(chunk.value, 3)) for chunk in result.chunks]
    [(('a', 'b'), 0.383), (('a',), 0.0)]
    """

    direction: Literal["out", "in", "both"] = "both"
    hub_degree: int | None = None
    max_nodes: int = setting(100, least=0)
    sources: int = setting(5, least=1)
    title: float = setting(1.0, ge=0, le=1)
    shared: float = setting(0.3, ge=0, le=1)
    uncovered: float = setting(2.0, ge=0)
    question_title: float = setting(0.7, ge=0, le=1)
    link: float = setting(0.4, ge=0, le=1)
    most_common: int = setting(100, least=0)
    question: traversals.Question = field(default=traversals.Question(), repr=False, compare=False)
    keeps_seeds: ClassVar[bool] = False

    def traverse(
        self, graph: Graph, seeds: traversals.Seeds, score: GraphScore, vector: Vector | None
    ) -> traversals.TraversalResult:
        scores = {id: 0.0 if isnan(own) else float(own) for id, own in reversed(list(seeds))}
        best = max(scores.values(), default=0.0) or 1.0
        sources = sorted(sorted(scores), key=scores.__getitem__, reverse=True)[: self.sources]
        shared, *others = self._kinds(graph, sources, np.array([scores[source] for source in sources]) / best)
        evidence = _join([*others, self._with_coverage(shared, np.full(len(shared.node), DEFAULT_COVERAGE))])
        likely = self._best_chunks(graph, evidence, scores, vector)
        if likely is not evidence:
            shared, *others = [kind.at(np.isin(kind.node, likely.node)) for kind in (shared, *others)]
        if len(shared.node):
            ids, coverage = graph.ids(shared.node), self.question.coverage
            shares = dict.fromkeys(ids, DEFAULT_COVERAGE) if coverage is None else coverage(ids)
            likely = _join([*others, self._with_coverage(shared, np.array([shares.get(id, 0.0) for id in ids]))])
        return traversals.TraversalResult(_reached_chunks(graph, likely, sources, scores, score, vector))

    def for_question(self, question: traversals.Question) -> LinkEvidence:
        """Return a copy of this traversal that uses this question."""
        traversal = copy(self)  # unlike replace, it does not check the settings again for every search
        object.__setattr__(traversal, "question", question)
        return traversal

    def _kinds(self, graph: Graph, sources: Sequence[str], worth: Weights) -> list[_Evidence]:
        """Return the strongest evidence of each kind for each chunk, first that of shared entities.

        The strengths for shared entities do not include coverage yet; :meth:`_with_coverage` adds it.
        """
        # The names in the question are looked up together with the sources, so that a store on a server reads all of
        # them in one call.
        names = [kind + name for name in self.question.names for kind in (TITLE, ENTITY)]
        nodes = graph.nodes([*sources, *names])
        nodes, nodes_of_names = nodes[: len(sources)], nodes[len(sources) :]
        present = np.flatnonzero(nodes >= 0)
        links = graph.links(nodes[present])
        links = links._replace(origin=present[links.origin])
        if not graph.has_entities:
            linked = self._by_link(graph, _heaviest(links), sources)
            return [_NONE, _strongest(linked._replace(strength=linked.strength * worth[linked.source]))]
        is_chunk = graph.is_chunk(links.node)
        mentions = _EntityMentions.of(graph, _edges_at(links, ~is_chunk))
        kinds = [
            self._by_shared_entity(graph, mentions, nodes),
            self._by_title(graph, mentions, nodes),
            self._by_link(graph, _heaviest(_edges_at(links, is_chunk)), sources),
        ]
        kinds = [kind._replace(strength=kind.strength * worth[kind.source]) for kind in kinds]
        kinds.append(self._by_question(graph, nodes_of_names[::2], nodes_of_names[1::2]))
        return [_strongest(kind) for kind in kinds]

    def _with_coverage(self, evidence: _Evidence, coverage: Weights) -> _Evidence:
        """Return the evidence from shared entities, with strengths that include coverage."""
        return evidence._replace(strength=evidence.strength * (self.shared + self.uncovered * coverage))

    def _by_question(self, graph: Graph, titles: Nodes, entities: Nodes) -> _Evidence:
        """Return the evidence of the names in the question; both arrays have the node of each name, or -1."""
        present = np.flatnonzero(titles >= 0)
        if not len(present):
            return _NONE
        title_links = graph.links(titles[present])
        documents = np.bincount(title_links.origin, title_links.weight, len(present))
        share = _rarity(graph.degrees(entities[present]), len(graph)) / np.maximum(documents, 1.0)
        strength = self.question_title * share[title_links.origin] * title_links.weight
        return _Evidence(np.full(len(title_links.node), FROM_QUESTION), title_links.node, strength)

    def _by_title(self, graph: Graph, mentions: _EntityMentions, sources: Nodes) -> _Evidence:
        title_ids = [TITLE + id.removeprefix(ENTITY) if id.startswith(ENTITY) else "" for id in mentions.ids]
        titles = graph.nodes(title_ids)
        present = np.flatnonzero(titles >= 0)
        if not len(present):
            return _NONE
        title_links = graph.links(titles[present])
        title_links = title_links._replace(origin=present[title_links.origin])
        pairs = mentions.pairs(title_links, sources)
        share = mentions.rarity / np.maximum(np.bincount(title_links.origin, title_links.weight, len(titles)), 1.0)
        strength = self.title * pairs.mention**CONFIDENCE_EXPONENT * share[pairs.entity] * pairs.weight
        return _Evidence(pairs.source, pairs.node, strength * _divided_by_links(pairs.source, pairs.node))

    def _by_shared_entity(self, graph: Graph, mentions: _EntityMentions, sources: Nodes) -> _Evidence:
        most = min(self.most_common, max(FEW_MENTIONS, COMMON_SHARE * len(graph)))
        few = np.flatnonzero((mentions.degree > 1) & (mentions.degree <= most))
        if not len(few):
            return _NONE
        holders = graph.links(mentions.entity[few])
        pairs = mentions.pairs(holders._replace(origin=few[holders.origin]), sources)
        strength = mentions.rarity[pairs.entity] ** 2 * (pairs.mention * pairs.weight) ** CONFIDENCE_EXPONENT
        return _Evidence(pairs.source, pairs.node, strength)

    def _by_link(self, graph: Graph, links: NeighborEdges, sources: Sequence[str]) -> _Evidence:
        if not len(links.node):
            return _NONE
        missing = 1.0 if self.question.missing is None else self.question.missing()
        need = np.full(len(links.node), max(LEAST_NEED, min(1.0, missing / MISSING) ** 2))
        if missing < MISSING and len(need) <= FEW_LINKS:
            steps = zip([sources[place] for place in links.origin.tolist()], graph.ids(links.node), strict=True)
            need[[isinstance(edge, Edge) and edge.relation == SEQUENCE for edge in graph.edges(list(steps))]] = 1.0
        strength = need * self.link * links.weight * _divided_by_links(links.origin, links.node)
        return _Evidence(links.origin, links.node, strength)

    def _best_chunks(self, graph: Graph, evidence: _Evidence, seeds: Iterable[str], vector: Vector | None) -> _Evidence:
        """Return the evidence for the seeds and the ``max_nodes`` other chunks with the most support.

        The support of a chunk is its evidence joined with its similarity to the question.
        """
        if len(evidence.node) <= self.max_nodes:
            return evidence
        is_seed = np.isin(evidence.node, graph.nodes(list(seeds)))
        others = np.flatnonzero(~is_seed)
        if len(others) <= self.max_nodes:
            return evidence
        support = evidence.strength[others]
        if vector is not None:
            similar = np.nan_to_num(graph.cosines(vector, evidence.node[others]))
            support = 1 - (1 - support) * (1 - np.clip(similar, 0.0, 1.0))
        best = others[np.argsort(-support, kind="stable")[: self.max_nodes]]
        places = np.sort(np.concatenate([np.flatnonzero(is_seed), best]))
        return evidence.at(places)


class _Evidence(NamedTuple):
    """Evidence from one source for one chunk (``node``) per entry, as arrays of equal length.

    ``source`` is a position in the list of sources, or ``FROM_QUESTION``.
    """

    source: Nodes
    node: Nodes
    strength: Weights

    def at(self, places: Nodes | Mask) -> _Evidence:
        return _Evidence(self.source[places], self.node[places], self.strength[places])


_NONE: Final = _Evidence(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class _MentionPairs(NamedTuple):
    """Pairs of a source's mention of an entity and an edge from there to ``node``, as arrays of equal length.

    ``entity`` is a position in :class:`_EntityMentions`. ``mention`` and ``weight`` are the weights of the two edges.
    """

    source: Nodes
    entity: Nodes
    node: Nodes
    mention: Weights
    weight: Weights


class _EntityMentions(NamedTuple):
    """The entities that the sources mention, and their mentions.

    ``entity``, ``ids``, ``degree`` and ``rarity`` have one entry per entity. ``place`` (the position of the entity),
    ``source`` (a position) and ``weight`` have one per mention.
    """

    entity: Nodes
    ids: Sequence[str]
    degree: Nodes
    rarity: Weights
    place: Nodes
    source: Nodes
    weight: Weights

    @classmethod
    def of(cls, graph: Graph, mentions: NeighborEdges) -> _EntityMentions:
        """Collect the sources' mentions of entities. A source's mention of its own title is left out."""
        entity, place = np.unique(mentions.node, return_inverse=True)
        ids = graph.ids(entity)
        pairs = list(zip(mentions.origin.tolist(), [ids[number] for number in place.tolist()], strict=True))
        titles = {(source, id.removeprefix(TITLE)) for source, id in pairs if id.startswith(TITLE)}
        names = [(source, id.removeprefix(ENTITY)) if id.startswith(ENTITY) else None for source, id in pairs]
        is_counted = np.array([name is not None and name not in titles for name in names], np.bool_)
        counted = place[is_counted], mentions.origin[is_counted], mentions.weight[is_counted]
        degree = graph.degrees(entity)
        return cls(entity, ids, degree, _rarity(degree, len(graph)), *counted)

    def pairs(self, edges: NeighborEdges, sources: Nodes) -> _MentionPairs:
        """Pair every mention with every edge (``origin``: its entity's position), except back to the source."""
        order = np.argsort(edges.origin, kind="stable")
        count = np.bincount(edges.origin, minlength=len(self.entity))
        first = np.cumsum(count) - count
        mention = np.repeat(np.arange(len(self.place)), count[self.place])
        before = np.cumsum(count[self.place]) - count[self.place]
        within = np.arange(len(mention)) - np.repeat(before, count[self.place])
        edge = order[first[self.place[mention]] + within]
        other = edges.node[edge] != sources[self.source[mention]]
        mention, edge = mention[other], edge[other]
        return _MentionPairs(
            self.source[mention], self.place[mention], edges.node[edge], self.weight[mention], edges.weight[edge]
        )


def _heaviest(links: NeighborEdges) -> NeighborEdges:
    """Return the heaviest ``MAX_LINKS`` links of each source; if there are more, each is weak evidence."""
    if len(links.node) <= MAX_LINKS:
        return links
    order = np.lexsort((links.node, -links.weight, links.origin))
    first = np.searchsorted(links.origin[order], links.origin[order])
    return _edges_at(links, order[np.arange(len(order)) - first < MAX_LINKS])


def _edges_at(edges: NeighborEdges, places: Nodes | Mask) -> NeighborEdges:
    return NeighborEdges(edges.origin[places], edges.node[places], edges.weight[places], edges.via[places])


def _rarity(degree: Nodes, chunks: int) -> Weights:
    """Return the rarity of entities: 1 for a single mention, 0 for an entity that all chunks mention."""
    chunks = max(chunks, 2)
    return cast("Weights", np.clip(np.log(chunks / np.maximum(degree, 1)) / np.log(chunks), 0.0, 1.0))


def _divided_by_links(source: Nodes, node: Nodes) -> Weights:
    """Return, for each entry, 1 divided by the fourth root of the number of chunks that its source links to."""
    pairs = np.unique(source << 32 | node)
    return np.asarray(np.bincount(pairs >> 32)[source] ** -0.25)


def _join(kinds: Sequence[_Evidence]) -> _Evidence:
    """Join all evidence for each chunk into one entry, with the source of the strongest evidence."""
    strongest, *others = [kind for kind in kinds if len(kind.node)] or [_NONE]
    if others:
        strongest = _Evidence(*map(np.concatenate, zip(strongest, *others, strict=True)))
    if strongest.strength.min(initial=1.0) < MIN_STRENGTH:
        strongest = strongest.at(strongest.strength >= MIN_STRENGTH)
    order = np.lexsort((-strongest.strength, strongest.node))
    source, node, strength = strongest.source[order], strongest.node[order], strongest.strength[order]
    first = np.flatnonzero(np.diff(node, prepend=-1))
    if not len(first):
        return strongest
    strengths = 1 - np.multiply.reduceat(1 - np.minimum(strength, MAX_STRENGTH), first)
    return _Evidence(source[first], node[first], strengths)


def _strongest(evidence: _Evidence) -> _Evidence:
    if len(evidence.node) < 2:
        return evidence
    order = np.lexsort((evidence.source, -evidence.strength, evidence.node))
    return evidence.at(order[np.flatnonzero(np.diff(evidence.node[order], prepend=-1))])


def _reached_chunks(  # noqa: PLR0917
    graph: Graph,
    evidence: _Evidence,
    sources: Sequence[str],
    seeds: Mapping[str, float],
    score: GraphScore,
    vector: Vector | None,
) -> tuple[traversals.ReachedChunk, ...]:
    """Return the chunks that have evidence, and the seeds that have none, with their values, best first.

    If the graph score is combined with the search score, the path to a source may start at another source.
    """
    path_starts = () if is_mixed(score) else set(sources)
    origins: dict[str, str] = {}  # the source whose evidence is strongest, by chunk
    for id, origin in zip(graph.ids(evidence.node), evidence.source.tolist(), strict=True):
        own_path = id in path_starts
        origins[id] = traversals.NO_SEED if origin == FROM_QUESTION else id if own_path else sources[origin]
    origins |= {id: id for id in seeds if id not in origins}
    ids, begins = list(origins), [origin or id for id, origin in origins.items()]
    strength = np.append(evidence.strength, np.zeros(len(ids) - len(evidence.node)))
    has_source = np.array([id != begin for id, begin in zip(ids, begins, strict=True)], np.bool_)
    seed = np.array([seeds.get(begin, 0.0) for begin in begins])
    own = np.array([seeds.get(id, np.nan) for id in ids])
    if vector is not None and getattr(score, "needs_own", True):
        new = np.flatnonzero(np.isnan(own))
        nodes = graph.nodes([ids[place] for place in new.tolist()])
        own[new] = np.clip(graph.cosines(vector, nodes), 0.0, 1.0)
    weight = np.where(has_source, strength, 1.0)
    previous_value = np.where(has_source, seed, np.nan)
    flow = strength if is_mixed(score) else seed * weight
    best_seed = max(seeds.values(), default=0.0)
    features = PathFeatures(seed, best_seed, has_source.astype(np.int64), weight, weight, previous_value, own, flow)
    reached_chunks = []
    for id, begin, value in zip(ids, begins, path_values(score, features).tolist(), strict=True):
        path = (id,) if id == begin else (begin, id)
        reached_chunks.append(traversals.ReachedChunk(id, value, len(path) - 1, path, origins[id]))
    return tuple(sorted(reached_chunks, key=traversals.best_first))


@dataclass(frozen=True)
class CombinedTraversal:
    """Traversal that runs ``LinkEvidence`` and ``beyond``, and keeps the better result for each chunk.

    Both follow the edges selected by ``beyond.edge_filter`` and start at the best ``sources`` seeds. Results of
    ``beyond`` are used only for chunks that it reached through edges.

    >>> from langchain_hybridgraph.search.scores import NoisyOr
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> joined = CombinedTraversal()
    >>> edges = [Edge("a", "b", "cites"), Edge("b", "c", "cites")]
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), joined.edge_filter)
    >>> [(chunk.id, round(chunk.value, 3)) for chunk in joined.traverse(graph, [("a", 1.0)], NoisyOr(), None).chunks]
    [('b', 0.5), ('c', 0.25), ('a', 0.0)]
    """

    evidence: LinkEvidence = field(default_factory=LinkEvidence)
    beyond: traversals.Traversal = field(default_factory=lambda: traversals.WaterCircle(direction="both"))

    @property
    def edge_filter(self) -> EdgeFilter:
        return self.beyond.edge_filter

    @property
    def sources(self) -> int:
        return self.evidence.sources

    def for_question(self, question: traversals.Question) -> CombinedTraversal:
        """Return a copy of this traversal that uses this question."""
        return replace(self, evidence=self.evidence.for_question(question))

    def traverse(
        self, graph: Graph, seeds: traversals.Seeds, score: GraphScore, vector: Vector | None
    ) -> traversals.TraversalResult:
        near = self.evidence.traverse(graph, seeds, score, vector)
        first = sorted(seeds, key=lambda seed: (0.0 if isnan(seed[1]) else -seed[1], seed[0]))[: self.sources]
        nodes = graph.nodes([id for id, _ in first])
        if not graph.degrees(nodes[nodes >= 0]).any():
            return near
        far = self.beyond.traverse(graph, first, score, vector)
        best = {reached_chunk.id: reached_chunk for reached_chunk in near.chunks}
        for reached_chunk in far.chunks:
            other = best.get(reached_chunk.id)
            if reached_chunk.hops and (other is None or reached_chunk.value > other.value):
                best[reached_chunk.id] = reached_chunk
        chunks = sorted(best.values(), key=traversals.best_first)
        return traversals.TraversalResult(tuple(chunks), near.capped or far.capped, near.converged or far.converged)
