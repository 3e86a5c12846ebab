"""Default parameters of the objects that settings name, and their limits."""

import pytest

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.memory_scores import Composite, Hotness, Novelty
from langchain_hybridgraph.options.models import MODES
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.search.conversation import AppendHistory, HistoryTerms
from langchain_hybridgraph.search.expansion import TRAVERSALS
from langchain_hybridgraph.search.fusion import FUSIONS
from langchain_hybridgraph.search.scores import GRAPH_SCORES

STEPS = "relations=None, min_weight=0.0, hub_degree=64, max_nodes=50"
KINDS = {kind.__name__: kind for kinds in (TRAVERSALS, GRAPH_SCORES, FUSIONS) for kind in kinds.values()}


@pytest.mark.parametrize(
    "default",
    [
        f"BFS(direction='out', {STEPS}, max_hops=2, max_frontier=None)",
        f"Beam(direction='out', {STEPS}, width=10, max_hops=2)",
        f"WaterCircle(direction='out', {STEPS}, max_hops=3, ring_decay=0.5, min_energy=0.05)",
        f"BestFirst(direction='out', {STEPS}, max_rounds=3, start_k=3, k=10)",
        "LinkEvidence(direction='both', relations=None, min_weight=0.0, hub_degree=None, max_nodes=100, sources=5, "
        "title=1.0, shared=0.3, uncovered=2.0, question_title=0.7, link=0.4, most_common=100)",
        f"PersonalizedPageRank(direction='out', {STEPS}, damping=0.5, rarity=0.5, tolerance=0.0001, max_touched=10000)",
        "HopDecay(vector_weight=0.7, graph_weight=0.3, hop_decay=(1.0, 0.7, 0.5), tail=0.5, seed_bonus=True, "
        "score_expanded=True)",
        "DistanceDecay(seed_weight=0.7, distance_weight=0.3, tau=2.0, assignment='nearest')",
        "Propagation(alpha=0.5)",
        "RingDecay(decay=0.5, min_energy=0.05)",
        "NoisyOr(strength=1.0)",
        "ReciprocalRankFusion(rank_constant=60, normalize='theoretical')",
        "ConvexCombination(normalize='standard', adaptive=True)",
        "Concat(quota=None)",
    ],
)
def test_traversals_scores_and_fusions(default):
    """An object that settings only name has the parameters of the documentation."""
    assert repr(KINDS[default.partition("(")[0]]()) == default


@pytest.mark.parametrize(
    ("mode", "traversal"),
    [
        ("general", f"WaterCircle(direction='both', {STEPS}, max_hops=3, ring_decay=0.5, min_energy=0.05)"),
        ("belief_system", f"WaterCircle(direction='both', {STEPS}, max_hops=4, ring_decay=0.5, min_energy=0.05)"),
        ("agent_memory", f"Beam(direction='both', {STEPS}, width=10, max_hops=2)"),
        ("procedural", f"BFS(direction='both', {STEPS}, max_hops=3, max_frontier=None)"),
    ],
)
def test_modes(mode, traversal):
    """A mode follows edges in both directions, with its own traversal."""
    assert repr(MODES[mode].traversal) == traversal


def test_parameters_cannot_be_changed():
    """The objects can be shared between retrievers, because they are frozen."""
    assert len({*(KINDS[name]() for name in KINDS), TokenBudget(), *MODES.values()}) == len(KINDS) + 1 + len(MODES)


FRACTIONS = """
    WaterCircle.ring_decay WaterCircle.min_energy WaterCircle.min_weight LinkEvidence.title LinkEvidence.shared
    LinkEvidence.question_title LinkEvidence.link PersonalizedPageRank.rarity HopDecay.tail
    Propagation.alpha RingDecay.decay RingDecay.min_energy NoisyOr.strength Hotness.alpha Novelty.above Novelty.floor
    HistoryTerms.weight"""
POSITIVE = """
    LinkEvidence.uncovered HopDecay.vector_weight HopDecay.graph_weight DistanceDecay.seed_weight Novelty.slope
    DistanceDecay.distance_weight ReciprocalRankFusion.rank_constant Composite.utility Composite.decay_per_hour"""
FROM_0 = "BFS.max_hops BFS.max_nodes Beam.max_hops WaterCircle.max_hops LinkEvidence.max_nodes LinkEvidence.most_common"
FROM_1 = """BFS.hub_degree BFS.max_frontier Beam.width BestFirst.max_rounds BestFirst.start_k BestFirst.k Concat.quota
    LinkEvidence.sources PersonalizedPageRank.max_touched AppendHistory.turns HistoryTerms.most"""


@pytest.mark.parametrize(
    ("names", "step", "accepted"),
    [(FRACTIONS, 1e-9, (0, 1)), (POSITIVE, 1e-9, (0,)), (FROM_0, 1, (0,)), (FROM_1, 1, (1,))],
)
def test_limits(names, step, accepted):
    """A parameter accepts its limits, and nothing beyond them."""
    kinds = KINDS | {kind.__name__: kind for kind in (Hotness, Novelty, Composite, HistoryTerms, AppendHistory)}
    for kind, parameter in (name.split(".") for name in names.split()):
        for limit, beyond in zip(accepted, (accepted[0] - step, accepted[-1] + step), strict=False):
            assert getattr(kinds[kind](**{parameter: limit}), parameter) == limit
            with pytest.raises(ConfigurationError, match=parameter):
                kinds[kind](**{parameter: beyond})
