"""Presets: a graph traversal with a matching score."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.graph import GraphOptions, check_shorthand, shorthand_of
from langchain_hybridgraph.search.evidence import LinkEvidence
from langchain_hybridgraph.search.fusion import Fusion, ReciprocalRankFusion
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.scores import DistanceDecay, GraphScore, HopDecay, NoisyOr, Propagation, RingDecay
from langchain_hybridgraph.search.selection import TokenBudget
from langchain_hybridgraph.search.traversals import BFS, Beam, BestFirst, Traversal, WaterCircle


class GraphPreset(NamedTuple):
    """Graph traversal and graph score that fit together, with related search settings.

    ``keyword_weight`` is the weight of the keyword search in the search for seeds. If it is None, the weight depends on
    the embedding. ``fusion`` and ``budget`` are None if the preset does not set them.
    """

    traversal: Traversal
    score: GraphScore
    keyword_weight: float | None = None
    fusion: Fusion | None = None
    budget: TokenBudget | None = None


PRESETS: Mapping[str, GraphPreset] = MappingProxyType(
    {
        "evidence": GraphPreset(LinkEvidence(), NoisyOr()),
        "hop_decay": GraphPreset(BFS(), HopDecay(score_expanded=False), keyword_weight=0.0),
        "distance_decay": GraphPreset(
            BFS(direction="both"), DistanceDecay(), 0.5, ReciprocalRankFusion(), TokenBudget(max_tokens=4096)
        ),
        "propagation": GraphPreset(BestFirst(), Propagation()),
        "ring_decay": GraphPreset(WaterCircle(), RingDecay()),
        "beam": GraphPreset(Beam(), HopDecay()),
        "pagerank": GraphPreset(PersonalizedPageRank(direction="both"), NoisyOr()),
    }
)
"""The presets by name."""

# Default scores of traversals. BFS is missing, because two presets use it.
_OWN_SCORES: Mapping[type[Traversal], GraphScore] = MappingProxyType(
    {
        type(PRESETS[name].traversal): PRESETS[name].score
        for name in ("evidence", "propagation", "ring_decay", "beam", "pagerank")
    }
)

# Shorthand options of a retriever, and the parameters of BFS that they set.
_OF_BFS = MappingProxyType(
    {"max_hops": "max_hops", "relation_filter": "relations", "min_weight": "min_weight", "max_nodes": "max_nodes"}
)
_HOP_DECAY = HopDecay()
_OF_HOP_DECAY = ("vector_weight", "graph_weight", "hop_decay", "score_expanded")


def preset_of(preset: str | None, max_hops: int | None, options: GraphOptions) -> GraphPreset:
    """Return the preset with this name (by default ``evidence``), changed by ``max_hops`` and ``options``.

    A shorthand option, such as ``max_hops``, sets a parameter of BFS or HopDecay directly. If any shorthand option is
    set, the result is BFS with HopDecay.

    Raises ConfigurationError for an unknown preset, and for a shorthand option combined with a traversal, a score or a
    preset.

    >>> preset_of(None, None, GraphOptions(traversal="beam")).score == PRESETS["beam"].score
    True
    """
    base = PRESETS.get(preset or "evidence")
    if base is None:  # a copy from model_copy(update=…), which does not validate
        raise ConfigurationError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    check_shorthand(preset, max_hops, options)
    if short := shorthand_of(max_hops, options):
        bfs_options = {theirs: short[ours] for ours, theirs in _OF_BFS.items() if ours in short}
        score_options = {name: short[name] for name in _OF_HOP_DECAY if name in short}
        return GraphPreset(
            BFS(direction="both" if options.bidirectional else "out", **bfs_options), HopDecay(**score_options)
        )
    traversal = options.traversal or base.traversal
    score = options.score or (base.score if preset is not None else own_score(traversal))
    return base._replace(traversal=traversal, score=score)


def own_score(traversal: Traversal) -> GraphScore:
    """Return the score that a traversal uses if neither a score nor a preset is set.

    For BFS and for custom traversals, the score is HopDecay. Any other traversal uses the score of its preset.

    >>> own_score(LinkEvidence(sources=3)), own_score(BFS(max_hops=1)) == HopDecay()
    (NoisyOr(strength=1.0), True)
    """
    return next((score for kind, score in _OWN_SCORES.items() if isinstance(traversal, kind)), _HOP_DECAY)
