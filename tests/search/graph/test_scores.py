"""Values of paths: formulas with literal results, and custom scores."""

import math

import numpy as np
import pytest

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.scores import (
    DistanceDecay,
    HopDecay,
    PathFeatures,
    Propagation,
    RingDecay,
    path_values,
)

NAN = math.nan


def paths(*, seed=1.0, best_seed=1.0, hops=0, weight=1.0, product=1.0, previous_value=NAN, own=NAN, flow=0.0):
    columns = np.broadcast_arrays(seed, hops, weight, product, previous_value, own, flow)
    seed, hops, weight, product, previous_value, own, flow = (np.atleast_1d(np.array(column)) for column in columns)
    return PathFeatures(seed, best_seed, hops, weight, product, previous_value, own, flow)


def values(score, **facts):
    return path_values(score, paths(**facts)).tolist()


def near(*expected):
    return pytest.approx(list(expected), abs=1e-6)


def test_hop_decay_of_seeds():
    """A seed has the full graph part, or none without the bonus; another chunk .7 · .4 + .3 · .7 · .8 = .448."""
    assert values(HopDecay(), own=[0.9, 0.5]) == near(0.93, 0.65)
    assert values(HopDecay(seed_bonus=False), own=[0.9, 0.5]) == near(0.63, 0.35)
    assert values(HopDecay(), hops=1, weight=0.8, own=0.4) == near(0.448)
    assert values(HopDecay(vector_weight=1, graph_weight=1), hops=[0, 1], own=[0.9, 0.5]) == near(0.95, 0.6)
    assert values(HopDecay(vector_weight=0.5, graph_weight=0.2), own=0.9) == near(0.65)


def test_hop_decay_without_the_similarity_of_expanded_chunks():
    """With score_expanded=False, the similarity of a chunk is ignored unless it is a seed."""
    assert values(HopDecay(score_expanded=False), hops=[0, 1], previous_value=[NAN, 0.9], own=0.5) == near(0.65, 0.21)


def test_distance_decay():
    """Values of a seed of norm 1 and one of norm .491935 decrease with the distances 0, 1 and 2."""
    assert values(DistanceDecay(), seed=0.8, best_seed=0.8, hops=[0, 1, 2]) == near(1.0, 0.881959, 0.810364)
    assert values(DistanceDecay(), seed=0.491935, hops=[0, 1, 2]) == near(0.644355, 0.526314, 0.454719)
    assert values(DistanceDecay(1, 1), hops=[0, 1]) == near(1.0, 0.803265)


def test_propagation():
    """A chunk's value is .5 · .8 + .5 · .6 = .7, and a root's value is its own score."""
    assert values(Propagation(), hops=1, own=0.8, previous_value=0.6) == near(0.7)
    assert values(Propagation(), own=0.8) == near(0.8)


def test_ring_decay():
    """Energy below min_energy becomes 0, except at a seed: .9 · .8 · .5 = .36, .9 · .72 · .25 = .162."""
    assert values(RingDecay(), seed=0.9, hops=[1, 2], product=[0.8, 0.72]) == near(0.36, 0.162)
    assert values(RingDecay(), seed=[0.04, 0.09], hops=[0, 1]) == near(0.04, 0.0)


def test_any_callable_is_a_score():
    """A function of arrays can be a score, and its values are clipped to [0, 1]."""
    assert values(lambda r: r.seed - 0.5 * r.hops, hops=[0, 1, 3]) == [1.0, 0.5, 0.0]


def test_a_callable_over_numbers_is_called_per_path():
    """A function with ``if`` or ``max``, which fail on arrays, is called once per path."""

    def by_hand(path):
        return max(path.weight, 0.5) if path.hops else 1.0

    assert values(by_hand, hops=[0, 1, 1], weight=[1.0, 0.2, 0.8]) == [1.0, 0.5, 0.8]


@pytest.mark.parametrize("score", [lambda r: r.seed * NAN, lambda r: np.ones(7)])
def test_a_score_that_gives_no_number_per_path_is_refused(score):
    """A score that returns NaN or a wrong number of values raises ConfigurationError."""
    with pytest.raises(ConfigurationError):
        values(score, hops=[0, 1], own=0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: HopDecay(hop_decay=(1.0, 1.5)),
        lambda: HopDecay(hop_decay=0.5),
        lambda: DistanceDecay(tau=0),
        lambda: DistanceDecay(assignment="first"),
        lambda: DistanceDecay(seed_weight="much"),
        lambda: Propagation(alpha=True),
    ],
)
def test_unusable_parameters_are_refused(make):
    """The error for an invalid parameter of a score contains the value."""
    with pytest.raises(ConfigurationError, match=r" must be .*, got "):
        make()
