"""Presets of graph search, and modes of memory search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from langchain_hybridgraph.memory_scores import Composite
from langchain_hybridgraph.registry import from_config
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.search.evidence import LinkEvidence
from langchain_hybridgraph.search.expansion import traversal_from
from langchain_hybridgraph.search.fusion import Fusion, ReciprocalRankFusion
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.scores import DistanceDecay, GraphScore, HopDecay, NoisyOr, Propagation, RingDecay
from langchain_hybridgraph.search.traversals import BFS, Beam, BestFirst, Traversal, WaterCircle


class GraphPreset(NamedTuple):
    """Graph traversal and graph score that fit together, with related search settings.

    ``keyword_weight`` is that of the search for seeds; None: it depends on the embedding.
    """

    traversal: Traversal
    score: GraphScore
    keyword_weight: float | None = None
    fusion: Fusion | None = None
    budget: TokenBudget | None = None


Preset = Literal["evidence", "hop_decay", "distance_decay", "propagation", "ring_decay", "beam", "pagerank"]
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


def own_score(traversal: Traversal) -> GraphScore:
    """Return the score that a traversal uses if neither a score nor a preset is set.

    For BFS and for custom traversals, the score is HopDecay. Any other traversal uses the score of its preset.

    >>> own_score(LinkEvidence(sources=3)), own_score(BFS(max_hops=1)) == HopDecay()
    (NoisyOr(strength=1.0), True)
    """
    for preset in PRESETS.values():
        if isinstance(traversal, type(preset.traversal)) and not isinstance(traversal, BFS):
            return preset.score
    return HopDecay()


@dataclass(frozen=True)
class Mode:
    """Settings of a memory search: the weights in a memory's score, and the graph traversal."""

    composite: Composite
    traversal: Traversal


def _mode(
    *,
    similarity: float = 0.40,
    confidence: float = 0.30,
    recency: float = 0.20,
    utility: float = 0.10,
    decay_per_hour: float = 0.05,
    traversal: Any,
) -> Mode:
    return Mode(Composite(similarity, confidence, recency, utility, decay_per_hour), traversal_from(traversal))


_belief = partial(_mode, similarity=0.30, confidence=0.45, utility=0.05, decay_per_hour=0.03)
_agent = partial(_mode, similarity=0.35, confidence=0.20, recency=0.25, utility=0.20)
_procedural = partial(_mode, confidence=0.40, recency=0.15, utility=0.05, decay_per_hour=0.001)
CHANGES: Mapping[str, Callable[..., Mode]] = MappingProxyType(
    {
        "general": partial(_mode, traversal=WaterCircle(max_hops=3, direction="both")),
        "belief_system": partial(_belief, traversal=WaterCircle(max_hops=4, direction="both")),
        "agent_memory": partial(_agent, traversal=Beam(max_hops=2, direction="both")),
        "procedural": partial(_procedural, traversal=BFS(max_hops=3, direction="both")),
    }
)
"""Functions that return a mode with some of its values changed, by the name of the mode."""
MODES: Mapping[str, Mode] = MappingProxyType({name: create() for name, create in CHANGES.items()})
"""Modes by name. All of them follow edges in both directions."""


def mode_from(form: str | Mapping[str, Any] | Mode) -> Mode:
    """Return a Mode, or the mode for a name or a mapping of its ``type`` and the values to change.

    Raises ConfigurationError for an unknown name or parameter and for an invalid value.

    >>> mode_from({"type": "procedural", "recency": 0.3}).composite.recency
    0.3
    """
    return from_config("mode", form, CHANGES, lambda value: isinstance(value, Mode))
