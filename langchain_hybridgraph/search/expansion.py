"""Expansion of candidates along the edges of the graph."""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_, attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from langchain_hybridgraph.chunks import labels_of
from langchain_hybridgraph.filters.expressions import Filter, has_labels
from langchain_hybridgraph.records import Edge, FusedCandidate, Hit, Query, SourceResult, filterable, name_of
from langchain_hybridgraph.registry import from_config
from langchain_hybridgraph.search import scores, traversals
from langchain_hybridgraph.search.evidence import LinkEvidence
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.sources import Source
from langchain_hybridgraph.stores.protocols import implements
from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.text.names import names_in

# Traversal of the graph from search hits.

Candidates = Literal["all", "reached"]
# Number of hops to a chunk that the traversal does not reach.
_NOWHERE = 1_000_000


class ScoreBounds(NamedTuple):
    """Bounds of scores: the lowest scores of seeds, the largest of candidates, and the largest of any other chunk."""

    low: Mapping[str, float]
    high: Mapping[str, float]
    other: float


@dataclass(frozen=True, slots=True)
class Expansion:
    """Settings of the ``expand`` stage.

    The traversal starts at the seeds: the chunks ``seed_ids`` or, if that is None, the best ``seed_k`` hits that pass
    ``seed_filter`` and have at least one of ``seed_labels``.

    With ``candidates="all"``, hits that are not seeds stay candidates. With ``"reached"``, and always with
    ``seed_ids``, the result contains only the seeds and the chunks that edges lead to, and names in the question are
    not used. ``is_requested`` is False for the default expansion.

    With a ``share``, the reached chunks are another list in a weighted reciprocal rank fusion. ``share`` is the weight
    of this list; all weights sum to 1.
    """

    traversal: traversals.Traversal
    score: scores.GraphScore
    seed_k: int = field(kw_only=True)
    seed_filter: Filter | None = None
    seed_labels: frozenset[str] = frozenset()
    seed_ids: tuple[str, ...] | None = None
    candidates: Candidates = "all"
    is_requested: bool = True
    share: float = 0.0
    rank_constant: float = 60

    def for_question(
        self, query: Query, seeds: Sequence[Hit], results: Mapping[Source, SourceResult], *, has_names: bool
    ) -> traversals.Traversal:
        """Return a traversal that uses the names and words of the question, if the traversal supports this.

        ``seeds`` are best first. The share of the words that a chunk contains is computed from its BM25 score, if there
        is a keyword search that knows the largest possible score. ``has_names`` is False if the graph has no names.
        """
        traversal, text = self.traversal, query.text
        if text is None or not implements(traversal, traversals.AsksQuestions):
            return traversal
        seed_texts = [
            f"{hit.chunk.metadata.get('title') or ''}\n{hit.chunk.text}" for hit in seeds[: traversal.sources]
        ]
        coverage = None
        for source, result in results.items():
            if source.name == "keyword" and result.bound:
                coverage = partial(_coverage, query, source, result, seed_texts)
        names = names_in(text) if has_names and not self.is_graph_only else ()
        question = traversals.Question(tuple(names), coverage, partial(missing_share, text, seed_texts))
        return traversal.for_question(question)

    def seeds(self, best: Sequence[Hit], strength: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return the seeds of the traversal as pairs of id and score (1 if unknown), best first.

        ``best`` are the hits that are seeds (:meth:`seed_hits`), ``strength`` is from :meth:`strengths`.
        """
        ids = [hit.id for hit in best] if self.seed_ids is None else dict.fromkeys(self.seed_ids)
        return sorted([(id, strength.get(id, 1.0)) for id in sorted(ids)], key=itemgetter(1), reverse=True)

    @property
    def is_graph_only(self) -> bool:
        """Whether the result contains only seeds and the chunks that edges lead to."""
        return self.candidates == "reached" or self.seed_ids is not None

    @property
    def source_filter(self) -> Filter | None:
        """Filter that limits the search to hits that can be seeds, or None.

        With the filter, a seed is found even if many other hits have better scores. It is None if every hit can be a
        seed, if the seeds are given by id, or if the result may also contain other hits.
        """
        if self.candidates == "all" or self.seed_ids is not None or not self.picks_seeds:
            return None
        labels = has_labels(any_of=sorted(self.seed_labels)) if self.seed_labels else None
        return reduce(and_, [each for each in (self.seed_filter, labels) if each is not None])

    @property
    def picks_seeds(self) -> bool:
        """Whether seeds are limited by a filter, by labels or by ids. If so, they may have any rank among the hits."""
        return self.seed_filter is not None or bool(self.seed_labels) or self.seed_ids is not None

    def seed_hits(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits that are seeds, best first."""
        if self.seed_ids is not None:
            return [hit for hit in hits if hit.chunk.id in self.seed_ids]
        seeds = list(hits)
        if self.seed_filter is not None:
            seeds = [hit for hit in seeds if self.seed_filter.matches(filterable(hit.chunk))]
        if self.seed_labels:
            labels = [map(str, labels_of(hit.chunk.metadata)) for hit in seeds]
            seeds = [hit for hit, own in zip(seeds, labels, strict=True) if not self.seed_labels.isdisjoint(own)]
        return seeds[: self.seed_k]

    def strengths(
        self, own: Mapping[str, FusedCandidate], candidates: Iterable[str], cosines: Mapping[str, float]
    ) -> dict[str, float]:
        """Return the score that each candidate has as a seed.

        This is its cosine, if it is known and the graph score uses cosines for seeds (``by_similarity``), or else
        the search score in ``own``. Candidates with neither score are left out.
        """
        if not getattr(self.score, "by_similarity", True):
            cosines = {}
        ids = own if self.uses_search_score else dict.fromkeys([*own, *filter(cosines.__contains__, candidates)])
        return {id: own[id].score if (c := cosines.get(id)) is None else min(1.0, max(0.0, c)) for id in ids}

    @property
    def uses_search_score(self) -> bool:
        """Whether the score of a reached chunk combines its search score with the graph score."""
        return hasattr(self.score, "mixed")

    def fuse(
        self,
        own: Mapping[str, FusedCandidate],
        strength: Mapping[str, float],
        chunks: Sequence[traversals.ReachedChunk],
    ) -> list[FusedCandidate]:
        """Return the candidates and the reached chunks with their scores after the traversal, best first.

        ``own`` contains the candidates' search scores, ``strength`` their scores as seeds, which order chunks with
        equal scores, before the id. ``chunks`` are the reached ones, best first; a graph-only expansion returns no
        others.
        """
        if self.is_graph_only:
            own, strength = {each.id: own[each.id] for each in chunks if each.id in own}, {}
        score: Any = self.score
        if self.uses_search_score:
            best = max(map(attrgetter("score"), own.values()), default=0.0)
            fused = {id: own[id] for id in strength}
            for each in chunks:
                before = own[each.id].score
                after = best * score.mixed(before / best, each.value) if best and each.value else each.value or before
                if after == before:
                    fused[each.id] = own[each.id]
                else:
                    part = "graph" if each.hops or each.seed == traversals.NO_SEED else "seed"
                    fused[each.id] = FusedCandidate(each.id, after, {**own[each.id].parts, part: after - before})
        else:
            fused = self._unreached(strength, {each.id for each in chunks})
            for each in chunks:
                parts = {"graph": each.value} if each.hops else scores.parts_of(score, each.value, 0, each.value)
                fused[each.id] = FusedCandidate(each.id, each.value, parts)
        if self.share:
            linked = [each for each in chunks if each.hops and each.value > 0]
            ranked = sorted(linked, key=lambda one: (-one.value, one.id))
            if ranked:
                return self._fused_by_rank(fused, own, [each.id for each in ranked])
        keys = [(-one.score, -strength.get(id, 0.0), id) for id, one in fused.items()]
        return [fused[id] for _, _, id in sorted(keys)]

    def _fused_by_rank(
        self, ids: Iterable[str], own: Mapping[str, FusedCandidate], ranked: Sequence[str]
    ) -> list[FusedCandidate]:
        first = self.rank_constant + 1
        graph = {id: self.share * first / (first + place) for place, id in enumerate(ranked)}
        fused = []
        for before in [own[id] for id in ids]:
            added = graph.get(before.id, 0.0)
            parts = {name: (1 - self.share) * part for name, part in before.parts.items()}
            parts |= {"graph": added} if added else {}
            fused.append(FusedCandidate(before.id, (1 - self.share) * before.score + added, parts))
        return sorted(fused, key=lambda one: (-one.score, one.id))

    def bounds(
        self,
        own: Mapping[str, FusedCandidate],
        strength: Mapping[str, float],
        seeds: Sequence[Hit],
        cosines: Mapping[str, float],
        *,
        is_complete: bool,
    ) -> ScoreBounds | None:
        """Return bounds of the scores that :meth:`fuse` computes after the traversal, or None if none are known.

        ``own``, ``strength`` and ``cosines`` map candidates to their search scores, scores as seeds, and cosines;
        ``seeds`` are best first. ``is_complete`` is True if all chunks that can be reached are candidates.
        """
        score: Any = self.score
        if self.uses_search_score and not self.share:
            best = max(map(attrgetter("score"), own.values()), default=0.0)
            most = score.strength if isinstance(score, scores.NoisyOr) else 1.0
            high = {id: best * score.mixed(one.score / best, most) if best else most for id, one in own.items()}
            return ScoreBounds({hit.id: own[hit.id].score for hit in seeds}, high, best or most)
        at_most = getattr(score, "at_most", None)
        if at_most is None or not getattr(self.traversal, "keeps_seeds", False):
            return None
        scored_seeds = dict(self.seeds(seeds, strength))
        best_seed = max(scored_seeds.values(), default=0.0)
        low = self._values(scored_seeds, is_reached=True)
        others = {} if self.is_graph_only else self._unreached(strength, low)
        alone = low | {id: fused.score for id, fused in others.items()}
        similar = dict.fromkeys(own, 1.0) | {id: min(1.0, max(0.0, cosine)) for id, cosine in cosines.items()}
        similar |= scored_seeds
        most = max(similar.values(), default=1.0) if is_complete else 1.0
        high = {id: max(alone.get(id, 0.0), at_most(best_seed, each, most)) for id, each in similar.items()}
        return ScoreBounds(low, high, at_most(best_seed, 1.0, 1.0))

    def in_parts(
        self,
        candidates: Sequence[FusedCandidate],
        reached_chunks: Mapping[str, traversals.ReachedChunk],
        seeds: Mapping[str, float],
        cosines: Mapping[str, float],
    ) -> list[FusedCandidate]:
        """Return the candidates, with the graph scores of those that edges led to split into parts."""
        result = list(candidates)
        for place, one in enumerate(candidates):
            if one.id in reached_chunks and (hops := reached_chunks[one.id].hops):
                own = seeds.get(one.id, min(1.0, max(0.0, cosines.get(one.id, 0.0))))
                result[place] = one._replace(parts=scores.parts_of(self.score, one.score, hops, own))
        return result

    def _unreached(self, strength: Mapping[str, float], skip: Container[str]) -> dict[str, FusedCandidate]:
        """Return the candidates that the traversal did not reach, scored by the graph score."""
        values = self._values(strength, is_reached=False)
        return {id: FusedCandidate(id, each, {"search": each}) for id, each in values.items() if id not in skip}

    def _values(self, strength: Mapping[str, float], *, is_reached: bool) -> dict[str, float]:
        """Return the values of hits that no edge led to: of seeds, or of hits that the traversal did not reach."""
        seed = np.array(list(strength.values()), np.float64)
        weight = np.full(len(seed), float(is_reached))
        hops = np.full(len(seed), 0 if is_reached else _NOWHERE)
        best = float(seed.max(initial=0.0))
        features = scores.PathFeatures(seed, best, hops, weight, weight, weight + np.nan, seed, seed * weight)
        values = np.nan_to_num(scores.path_values(self.score, features)).tolist()
        return dict(zip(strength, values, strict=True))


def _coverage(
    query: Query, source: Source, result: SourceResult, seed_texts: Sequence[str], ids: Sequence[str]
) -> Mapping[str, float]:
    words = uncovered_words(query.text or "", seed_texts)
    call = source.score(replace(query, text=words), result, ids) if words else None
    return {} if call is None else {id: score / (result.bound or 1.0) for id, score in call.run().items()}


def uncovered_words(question: str, texts: Sequence[str]) -> str:
    """Return the words of a question that at least half of the texts lack, separated by spaces.

    Only the beginning of each word is compared: all letters except the last two, but at least the first four.

    >>> uncovered_words("born director of Jaws", ["Jaws was directed by Steven Spielberg.", "Jaws, a film of 1975"])
    'born director of'
    """
    lowered = [text.lower() for text in texts]
    words = dict.fromkeys(re.findall(r"\w+", question))
    lacking = {word: sum(word.lower()[: max(4, len(word) - 2)] not in text for text in lowered) for word in words}
    return " ".join(word for word in words if 2 * lacking[word] >= len(texts))


def missing_share(question: str, texts: Sequence[str]) -> float:
    """Return the share of a question's words that is missing from the text with the most of them.

    Words are compared by their stems, and English stop words are left out. Without words or texts, the share is 1.

    >>> missing_share("Who directed Jaws?", ["Jaws was directed by Steven Spielberg.", "Jaws, a film of 1975"])
    0.0
    """
    analyzer = Analyzer()
    words = set(analyzer.words(question))
    return min((len(words.difference(analyzer.all_words(text))) / len(words) for text in texts if words), default=1.0)


# Descriptions of the edges on a hit's path.

# Number of edges at the end of a hit's path that ``graph_context`` describes.
CONTEXT = 3


def steps(hit: Hit) -> list[tuple[str, str]]:
    """Return the last ``CONTEXT`` steps of a hit's path as pairs of ids, the last step first."""
    return list(zip(hit.path[:-1], hit.path[1:], strict=True))[::-1][:CONTEXT]


def with_context(hit: Hit, edges: Sequence[Edge | tuple[Edge, Edge] | None]) -> Hit:
    """Return the hit with descriptions of the last steps of its path.

    ``edges`` has one entry for each of the :func:`steps`: an edge, a pair of edges through an entity, or None for a
    step that is not described.
    """
    pairs = zip(steps(hit), edges, strict=True)
    return replace(hit, graph_context=tuple(_described(one, edge) for (one, _), edge in pairs if edge is not None))


def _described(chunk: str, edge: Edge | tuple[Edge, Edge]) -> dict[str, Any]:
    details: dict[str, Any] = {"from_chunk_id": chunk}
    if isinstance(edge, Edge):
        details |= {"relation": edge.relation, "weight": edge.weight, "description": edge.description}
        return details if edge.source == chunk else {**details, "direction": "backward"}
    first, second = edge
    description = f"Both mention {name_of(first.target)}."
    details |= {"relation": first.relation, "weight": first.weight * second.weight, "description": description}
    return {**details, "entity": first.target}


TRAVERSALS: Mapping[str, Callable[..., traversals.Traversal]] = MappingProxyType(
    {
        "bfs": traversals.BFS,
        "beam": traversals.Beam,
        "water_circle": traversals.WaterCircle,
        "best_first": traversals.BestFirst,
        "evidence": LinkEvidence,
        "pagerank": PersonalizedPageRank,
    }
)


def traversal_from(form: str | Mapping[str, Any] | traversals.Traversal) -> traversals.Traversal:
    """Return the traversal for a name, or for a mapping with the name as ``type`` and parameters.

    A traversal is returned unchanged. Raises ConfigurationError for an unknown name or parameter, or an invalid value.

    >>> traversal_from({"type": "bfs", "max_hops": 3}).max_hops
    3
    """
    return from_config("traversal", form, TRAVERSALS, lambda one: callable(getattr(one, "traverse", None)))
