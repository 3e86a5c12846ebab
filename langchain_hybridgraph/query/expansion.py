"""From the hits of a search over edges to chunks that it did not find."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.names import ENTITY, TITLE
from langchain_hybridgraph.query.graph_scores import (
    GraphScore,
    Reached,
    by_similarity,
    is_mixed,
    parts_of,
    valued,
)
from langchain_hybridgraph.query.traversal.walk import DECIMALS, NO_SEED, Arrived, AsksQuestions, Question, Traversal
from langchain_hybridgraph.records import Edge, Fused, Hit
from langchain_hybridgraph.stores.base import can

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter

# So many edges of its path, from its end on, stand in a hit's ``graph_context``.
CONTEXT = 3
# The share of the question that chunks have of some of its words, by id.
Covered = Callable[[str, Sequence[str]], Mapping[str, float]]
# Where a chunk would be that no walk comes to.
_NOWHERE = 1_000_000


@dataclass(frozen=True, slots=True)
class Expansion:
    """How a search goes on over edges.

    The walk begins at the best ``seed_k`` hits, of those that pass ``seed_filter`` and have any of ``seed_labels``, or
    at ``seed_ids`` and nothing else instead: then nothing is there but these and what they lead to, and the question
    leads nowhere by the names in it. The hits that are no seeds stay candidates. What the walk led to needs
    ``min_score``; a candidate that has less is as if it had not been led to. ``names`` gives the normalised names in a
    question to a traversal that wants them. Raises ConfigurationError for a seed_k below 1.
    """

    traversal: Traversal
    score: GraphScore
    seed_k: int = 10
    seed_filter: Filter | None = None
    seed_labels: frozenset[str] = frozenset()
    seed_ids: tuple[str, ...] | None = None
    min_score: float = 0.0
    names: Callable[[str], Iterable[str]] | None = None

    def __post_init__(self) -> None:
        if self.seed_k < 1:
            raise ConfigurationError(f"seed_k is {self.seed_k}; the walk begins at so many hits, at least 1")
        if self.seed_ids is not None and not self.seed_ids:
            raise ConfigurationError("seed_ids is empty; wanted ids to begin at, or leave it out to begin at the hits")

    def for_question(
        self, text: str | None, seeds: Sequence[Hit], covered: Covered | None, *, has_names: bool = True
    ) -> Traversal:
        """The traversal for this question; ``covered`` gives the share of it that chunks have, for some of its words.

        ``seeds`` are best first; the words are those that half of the best or more of them lack. Without ``has_names``
        no name leads anywhere, and the question's are not looked for.
        """
        traversal = self.traversal
        if text is None or not can(traversal, AsksQuestions):
            return traversal
        best = seeds[: traversal.sources]

        def covers(ids: Sequence[str]) -> Mapping[str, float]:
            return {} if covered is None else covered(left_open(text, [_read(hit) for hit in best]), ids)

        names = self.names(text) if has_names and self.names is not None and self.seed_ids is None else ()
        return traversal.asked(Question(tuple(names), None if covered is None else covers))

    def seeds(self, best: Sequence[Hit], strength: Mapping[str, float]) -> list[tuple[str, float]]:
        """The ids and scores, best first, at which the walk begins.

        ``best`` are the :meth:`seed_hits`, ``strength`` is that of the candidates; a given seed that is none counts 1.
        """
        ids = [hit.id for hit in best] if self.seed_ids is None else dict.fromkeys(self.seed_ids)
        return sorted(((id, strength.get(id, 1.0)) for id in ids), key=_by_score)

    @property
    def picks_seeds(self) -> bool:
        """Whether the seeds may stand anywhere among the hits."""
        return self.seed_filter is not None or bool(self.seed_labels) or self.seed_ids is not None

    def seed_hits(self, hits: Sequence[Hit]) -> list[Hit]:
        """The hits among the seeds, best first."""
        if self.seed_ids is not None:
            return [hit for hit in hits if hit.id in self.seed_ids]
        return (list(filter(self._is_seed, hits)) if self.picks_seeds else list(hits))[: self.seed_k]

    def strengths(
        self, own: Mapping[str, Fused], candidates: Iterable[str], cosines: Mapping[str, float]
    ) -> dict[str, float]:
        """What each candidate counts as a seed.

        It is the cosine for a graph score that compares it with those of expanded chunks, else the search's ``own``
        score; what has neither is left out.
        """
        if not by_similarity(self.score):
            cosines = {}
        there = own if self.asks_search else dict.fromkeys([*own, *filter(cosines.__contains__, candidates)])
        return {id: own[id].score if (c := cosines.get(id)) is None else min(1.0, max(0.0, c)) for id in there}

    def _is_seed(self, hit: Hit) -> bool:
        metadata = hit.chunk.metadata
        if self.seed_filter is not None and not self.seed_filter.matches(
            {"document_id": hit.chunk.document, **metadata}
        ):
            return False
        labels = metadata.get("labels")
        return not self.seed_labels or (isinstance(labels, list) and not self.seed_labels.isdisjoint(map(str, labels)))

    def mixed(self, own: Sequence[float], graph: Sequence[float], best: float) -> list[float]:
        """The search's scores after a walk that says ``graph``, where ``best`` is the best of the search."""
        score = self.score
        if not is_mixed(score):
            return list(own)
        each = zip(own, graph, strict=True)
        if not best:
            return [walked or one for one, walked in each]
        return [best * score.mixed(one / best, walked) if walked else one for one, walked in each]

    @property
    def asks_search(self) -> bool:
        """Whether the search's own score of what the walk led to counts."""
        return is_mixed(self.score)

    @property
    def asks_cosines(self) -> bool:
        """Whether the similarity of candidates, and not the search's own score, is what counts beside the walk."""
        return by_similarity(self.score) and not self.asks_search and self.seed_ids is None

    @property
    def keeps_order(self) -> bool:
        """Whether scores only grow by the walk: then candidates that it does not come to stay in their order."""
        return self.asks_search and self.seed_ids is None and not self.min_score

    def fused(
        self, own: Mapping[str, Fused], strength: Mapping[str, float], reached: Sequence[Arrived], n: int
    ) -> tuple[list[Fused], dict[str, Arrived]]:
        """Every chunk with its score after the walk, best first, ties by strength, then by id; and what was reached.

        ``own`` is what the search alone says of each, ``strength`` that of the candidates, those that it found; what
        was ``reached`` comes best first. At least the best n are there.
        """
        if self.seed_ids is not None:
            own, strength = {each.id: own[each.id] for each in reached if each.id in own}, {}
        if not is_mixed(self.score):
            arrived = {each.id: each for each in reached if not each.hops or each.value >= self.min_score}
            fused = self._unreached(strength, arrived, n) | {each.id: self._alone(each) for each in _head(arrived, n)}
        else:
            best = max((one.score for one in own.values()), default=0.0)
            graph = [each.value for each in reached]
            whole = self.mixed([own[each.id].score for each in reached], graph, best)
            both = list(zip(reached, whole, strict=True))
            arrived = {each.id: each for each, value in both if not each.hops or value >= self.min_score}
            walked = {each.id: _with_graph(own[each.id], value, each) for each, value in both if each.id in arrived}
            fused = {id: own[id] for id in strength} | walked
        return sorted(fused.values(), key=lambda one: (-one.score, -strength.get(one.id, 0.0), one.id)), arrived

    def in_parts(self, hit: Hit, seeds: Mapping[str, float]) -> Hit:
        """The hit with its score after a walk in parts; ``seeds`` are the scores of the seeds.

        A score that is mixed into the search's own has them already, as has a seed's, and one that a later stage gave.
        """
        if self.asks_search or not hit.hops or hit.parts.keys() != {"graph"}:
            return hit
        own = seeds.get(hit.id, hit.vector_score or 0.0)
        return replace(hit, parts=parts_of(self.score, hit.score, hit.hops, own))

    def _alone(self, arrived: Arrived) -> Fused:
        """What a walk whose score takes the place of the search's own says of a chunk; a seed's has its parts."""
        value = arrived.value
        parts = {"graph": value} if arrived.hops else parts_of(self.score, value, 0, value)
        return Fused(arrived.id, value, parts)

    def _unreached(self, strength: Mapping[str, float], arrived: Container[str], n: int) -> dict[str, Fused]:
        """What candidates are worth where the walk does not come to them: the best n, and those that tie with them."""
        seed = np.array(list(strength.values()), np.float64)
        zero = np.zeros(len(seed))
        nowhere = np.full(len(seed), _NOWHERE)
        there = Reached(seed, float(seed.max(initial=0.0)), nowhere, zero, zero, zero + np.nan, seed, zero)
        values = np.nan_to_num(valued(self.score, there))
        values[[id in arrived for id in strength]] = -1.0
        least = max(0.0, np.partition(values, -n)[-n]) if 0 < n < len(values) else 0.0
        best = values >= least
        chosen = zip(compress(strength, best.tolist()), values[best].tolist(), strict=True)
        return {id: Fused(id, value, {"search": value}) for id, value in chosen}


def left_open(question: str, texts: Sequence[str]) -> str:
    """The words of a question that half of the texts or more lack; a word is there when its beginning is.

    >>> left_open("born director of Jaws", ["Jaws was directed by Steven Spielberg.", "Jaws, a film of 1975"])
    'born director of'
    """
    lowered = [text.lower() for text in texts]
    words = dict.fromkeys(re.findall(r"\w+", question))
    lacking = {word: sum(word.lower()[: max(4, len(word) - 2)] not in text for text in lowered) for word in words}
    return " ".join(word for word in words if 2 * lacking[word] >= len(texts))


def _read(hit: Hit) -> str:
    return f"{hit.chunk.metadata.get('title') or ''}\n{hit.chunk.text}"


def _head(arrived: Mapping[str, Arrived], n: int) -> Iterable[Arrived]:
    """The first n of what came best first, and those that tie with them."""
    each = list(arrived.values())
    least = round(each[n - 1].value, DECIMALS) if 0 < n < len(each) else -1.0
    return takewhile(lambda one: round(one.value, DECIMALS) >= least, each)


def _with_graph(own: Fused, whole: float, arrived: Arrived) -> Fused:
    if whole == own.score:
        return own
    by = "graph" if arrived.hops or arrived.seed == NO_SEED else "seed"
    return Fused(own.id, whole, {**own.parts, by: whole - own.score})


def led(hit: Hit, arrived: Arrived | None) -> Hit:
    """The hit with the path that the walk came by; a seed that another lifts has that one's."""
    if arrived is None or not arrived.hops:
        return hit
    path = tuple(id for id in arrived.path if not id.startswith((ENTITY, TITLE)))
    found_by = (*hit.found_by, "graph")
    source = "fused" if hit.found_by else "graph"
    return replace(hit, hops=arrived.hops, path=path, found_by=found_by, source=source)


def steps(hit: Hit) -> list[tuple[str, str]]:
    """The last steps of a hit's path, the very last first."""
    return list(zip(hit.path[:-1], hit.path[1:], strict=True))[::-1][:CONTEXT]


def with_context(hit: Hit, walked: Sequence[Edge | tuple[Edge, Edge] | None]) -> Hit:
    """The hit with the edges of :func:`steps` described."""
    pairs = zip(steps(hit), walked, strict=True)
    return replace(hit, graph_context=tuple(_described(one, edge) for (one, _), edge in pairs if edge is not None))


def _described(chunk: str, edge: Edge | tuple[Edge, Edge]) -> dict[str, Any]:
    if isinstance(edge, Edge):
        return {
            "from_chunk_id": chunk,
            "relation": edge.relation,
            "weight": edge.weight,
            "description": edge.description,
        }
    here, there = edge
    entity = here.target
    return {
        "from_chunk_id": chunk,
        "relation": here.relation,
        "weight": here.weight * there.weight,
        "description": f"Both mention {entity.partition(':')[2] or entity}.",
        "entity": entity,
    }


def _by_score(seed: tuple[str, float]) -> tuple[float, str]:
    return -seed[1], seed[0]
