"""Presets of graph search, and modes of memory search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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


_DEFAULT_SCORE = HopDecay()


def own_score(traversal: Traversal) -> GraphScore:
    """Return the score that a traversal uses if neither a score nor a preset is set.

    For BFS and for custom traversals, the score is HopDecay. Any other traversal uses the score of its preset.

    >>> own_score(LinkEvidence(sources=3)), own_score(BFS(max_hops=1)) == HopDecay()
    (NoisyOr(strength=1.0), True)
    """
    for preset in PRESETS.values():
        if isinstance(traversal, type(preset.traversal)) and not isinstance(traversal, BFS):
            return preset.score
    return _DEFAULT_SCORE


@dataclass(frozen=True)
class Mode:
    """Settings of a memory search: the weights in a memory's score, and the graph traversal."""

    composite: Composite
    traversal: Traversal

    def changed(
        self,
        *,
        similarity: float | None = None,
        confidence: float | None = None,
        recency: float | None = None,
        utility: float | None = None,
        decay_per_hour: float | None = None,
        traversal: Any = None,
    ) -> Mode:
        """Return a copy with other weights, another decay or traversal; arguments that are None change nothing."""
        weights = {
            "similarity": similarity,
            "confidence": confidence,
            "recency": recency,
            "utility": utility,
            "decay_per_hour": decay_per_hour,
        }
        composite = replace(self.composite, **{name: value for name, value in weights.items() if value is not None})
        return Mode(composite, self.traversal if traversal is None else traversal_from(traversal))


MODES: Mapping[str, Mode] = MappingProxyType(
    {
        "general": Mode(Composite(), WaterCircle(max_hops=3, direction="both")),
        "belief_system": Mode(Composite(0.30, 0.45, 0.20, 0.05, 0.03), WaterCircle(max_hops=4, direction="both")),
        "agent_memory": Mode(Composite(0.35, 0.20, 0.25, 0.20, 0.05), Beam(max_hops=2, direction="both")),
        "procedural": Mode(Composite(0.40, 0.40, 0.15, 0.05, 0.001), BFS(max_hops=3, direction="both")),
    }
)
"""Modes by name. All of them follow edges in both directions."""

CHANGES: Mapping[str, Callable[..., Mode]] = MappingProxyType({name: mode.changed for name, mode in MODES.items()})
"""Functions that return a changed mode, by the name of the mode."""


def mode_from(form: str | Mapping[str, Any] | Mode) -> Mode:
    """Return a Mode, or the mode for a name or a mapping of its ``type`` and the values to change.

    Raises ConfigurationError for an unknown name or parameter and for an invalid value.

    >>> mode_from({"type": "procedural", "recency": 0.3}).composite.recency
    0.3
    """
    if isinstance(form, str) and form in MODES:
        return MODES[form]
    return from_config("mode", form, CHANGES, lambda value: isinstance(value, Mode))
