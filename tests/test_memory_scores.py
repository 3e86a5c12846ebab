"""Scores of memories: fixed values and invariants."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.memory_scores import (
    FEEDBACK,
    Composite,
    Hotness,
    MemoryColumns,
    Novelty,
    Scoring,
    TimeEvidence,
)
from langchain_hybridgraph.options.models import MODES
from langchain_hybridgraph.records import FusedCandidate, Hit, MemoryState, Query, Scope

HOUR, DAY = 3600.0, 86400.0
NOW = 1_700_000_000.0
GENERAL = MODES["general"]


def hit(id, score, **fields):
    return Hit(Chunk(id, id), score, "vector", {"vector": score}, **fields)


def parts_of(composite, similarity, **state):
    """Return the parts of the score of one memory."""
    parts = composite.parts(np.array([similarity]), MemoryColumns.of([MemoryState(**state)]), NOW)
    return {name: part.item() for name, part in parts.items()}


def total(composite, similarity, **state):
    return math.fsum(parts_of(composite, similarity, **state).values())


def scored(hits, learned=None, *, composite=GENERAL, **stages):
    return Scoring(composite, lambda ids, scope: learned or {}, **stages)(hits, Query("what?", 10, Scope(as_of=NOW)))


@pytest.mark.parametrize(
    ("mode", "score"),
    [("general", 0.700239), ("belief_system", 0.767350), ("agent_memory", 0.635299), ("procedural", 0.851443)],
)
def test_the_composite_of_each_mode(mode, score):
    """A day-old memory with similarity .8, confidence .9 and utility .5 has the expected score in each mode."""
    state = {"confidence": 0.9, "utility": 0.5, "valid_from": NOW - DAY}
    assert total(MODES[mode], 0.8, **state) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(
    ("state", "score"),
    [
        ({"provenance_depth": 3}, 0.816830),
        ({"valid_until": NOW + DAY}, 0.722928),
        ({"valid_until": NOW + 2 * DAY}, 0.786619),
    ],
)
def test_derivations_and_an_approaching_end_lower_confidence(state, score):
    """Each derivation multiplies the confidence by .9, and it falls as the end of validity approaches."""
    assert total(GENERAL, 0.8, confidence=0.9, valid_from=NOW, **state) == pytest.approx(score, abs=1e-6)


def test_unset_values_have_defaults():
    """An unset confidence is .5 and an unset utility is 1, but 0 stays 0."""
    unset = parts_of(GENERAL, 0)
    assert unset == pytest.approx({"similarity": 0, "confidence": 0.15, "recency": 0.2, "utility": 0.1})
    parts = parts_of(GENERAL, 0, confidence=0.0, utility=0.0)
    assert (parts["confidence"], parts["utility"]) == (0.0, 0.0)


def test_the_age_starts_at_validity_or_creation():
    """The age of a memory starts at valid_from, or without it at created_at or learned_at."""
    both = MemoryState(valid_from=2.0, created_at=1.0, learned_at=3.0)
    others = [MemoryState(created_at=1.0, learned_at=3.0), MemoryState(learned_at=3.0), MemoryState()]
    assert MemoryColumns.of([both, *others]).began_at.tolist() == pytest.approx([2.0, 1.0, 3.0, math.nan], nan_ok=True)


def test_memories_dated_after_the_search_have_no_recency():
    """A memory dated after the search gets no recency or hotness; one hour is tolerated."""
    assert total(GENERAL, 0.5, created_at=NOW + HOUR) == total(GENERAL, 0.5, created_at=NOW)
    assert total(GENERAL, 0.5, learned_at=NOW + DAY) == pytest.approx(total(GENERAL, 0.5, created_at=NOW) - 0.2)
    assert total(GENERAL, 0.5, created_at=NOW + DAY) < total(GENERAL, 0.5, valid_from=NOW - 10 * DAY)
    assert Hotness()(MemoryColumns.of([MemoryState(learned_at=NOW + DAY)]), NOW).tolist() == [0.0]


def test_an_end_set_by_superseding_does_not_lower_confidence():
    """An end set by superseding a memory does not lower its earlier confidence."""
    ending = {"confidence": 0.9, "valid_from": NOW, "valid_until": NOW + HOUR}
    assert total(GENERAL, 0.5, **ending, end_learned=True) == total(GENERAL, 0.5, confidence=0.9, valid_from=NOW)


DECAYS = {"working": 999.0, "episodic": 0.08, "semantic": 0.02, "procedural": 0.001, "general": 0.05}


@pytest.mark.parametrize(("kind", "decay"), DECAYS.items())
def test_the_type_of_a_memory_sets_its_decay(kind, decay):
    """The decay of a memory's type replaces the decay of the mode."""
    recency = parts_of(GENERAL, 0, memory_type=kind, created_at=NOW - 10 * HOUR)["recency"]
    assert recency == pytest.approx(GENERAL.recency * math.exp(-decay * 10))


def test_weights_are_divided_by_their_sum():
    """Weights of 2, 1, 1 and 0 are normalised to .5, .25, .25 and 0."""
    parts = parts_of(Composite(2, 1, 1, 0), 1.0, confidence=1.0)
    assert parts == {"similarity": 0.5, "confidence": 0.25, "recency": 0.25, "utility": 0.0}


def test_values_outside_the_range_are_clamped():
    """A similarity of 1.2 and a confidence of 7 are treated as 1, and a utility of -1 as 0."""
    parts = parts_of(GENERAL, 1.2, confidence=7, utility=-1)
    assert (parts["similarity"], parts["confidence"], parts["utility"]) == pytest.approx((0.4, 0.3, 0.0))


@pytest.mark.parametrize("wrong", [{"recency": -1}, {"similarity": "much"}, {"decay_per_hour": math.inf}])
def test_invalid_weights_are_refused(wrong):
    """A weight that is negative, infinite or not a number raises a ConfigurationError that names it."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Composite(**wrong)


def test_hotness():
    """Hotness is blended with the score by alpha."""
    used = MemoryState(active_count=9, used_at=NOW - 7 * DAY)
    (result,) = scored([hit("a", 0.8)], {"a": used}, composite=Composite(1, 0, 0, 0), hotness=Hotness(alpha=0.2))
    assert result.score == pytest.approx(0.730909, abs=1e-6)


@pytest.mark.parametrize(
    ("used", "updated", "hotness"), [(None, 7, 0.454545), (7, 70, 0.454545), (7, 0, 0.909091), (None, None, 0.000888)]
)
def test_hotness_counts_from_the_last_use_or_update(used, updated, hotness):
    """Hotness halves every week since the last use or update, or since the memory began."""
    times = {"used_at": used, "updated_at": updated}
    state = {name: NOW - days * DAY for name, days in times.items() if days is not None}
    columns = MemoryColumns.of([MemoryState(active_count=9, created_at=NOW - 70 * DAY, **state)])
    assert Hotness()(columns, NOW) == pytest.approx([hotness], abs=1e-6)


@pytest.mark.parametrize(("similarity", "left"), [(0.5, 1.0), (0.9, 0.75), (1.0, 0.5)])
def test_novelty(similarity, left):
    """A similarity to the session above .8 lowers the score, by up to a half."""
    assert Novelty(slope=9)(np.array([1.0])).tolist() == [0.5]
    (result,) = scored([hit("a", 0.8)], novelty=Novelty(), session_similarity=lambda ids, scope: [similarity])
    (other,) = scored([hit("a", 0.8)])
    assert result.score == pytest.approx(other.score * left, abs=1e-6)
    assert result.parts.get("novelty", 0.0) == pytest.approx(other.score * (left - 1), abs=1e-6)


def test_a_named_time_raises_its_memories():
    """A date named in the query raises the score of memories of that date."""
    learned = {"that day": MemoryState(created_at=NOW - 100 * DAY), "another": MemoryState(created_at=NOW - 300 * DAY)}
    evidence = TimeEvidence([(NOW - 100.5 * DAY, NOW - 99.5 * DAY)], 0.3)
    results = scored([hit("another", 0.5), hit("that day", 0.5)], learned, time_evidence=lambda query: evidence)
    assert [one.id for one in results] == ["that day", "another"]
    assert results[0].parts["time"] == pytest.approx(0.4 * 0.075)
    assert "time" not in results[1].parts


def all_stages(repeats):
    repeats = list(repeats)
    return {
        "hotness": Hotness(),
        "novelty": Novelty(),
        "session_similarity": lambda ids, scope: repeats,
        "time_evidence": lambda query: TimeEvidence([(NOW - DAY, NOW)], 0.3),
    }


SHARES = st.floats(0, 1)
LEARNED = st.builds(
    MemoryState,
    confidence=st.none() | SHARES,
    utility=st.none() | SHARES,
    active_count=st.integers(0, 10**6),
    used_at=st.none() | st.floats(0, 2e9),
    valid_from=st.none() | st.floats(0, 2e9),
    valid_until=st.none() | st.floats(0, 4e9),
    created_at=st.none() | st.floats(0, 2e9),
    memory_type=st.sampled_from([None, "working", "semantic", "other"]),
    provenance_depth=st.integers(0, 50),
)


@given(st.lists(st.tuples(SHARES, LEARNED, SHARES), min_size=1, max_size=8), st.sampled_from(sorted(MODES)))
def test_the_breakdown_sums_to_the_score(items, mode):
    """For any memories, the parts sum to the score, scores are between 0 and 1, and the best is first."""
    hits = [hit(str(n), similarity) for n, (similarity, _, _) in enumerate(items)]
    learned = {str(n): state for n, (_, state, _) in enumerate(items)}
    results = scored(hits, learned, composite=MODES[mode], **all_stages(repeats for _, _, repeats in items))
    assert sorted(results, key=lambda one: (-one.score, one.id)) == results
    for one in results:
        assert math.fsum(one.parts.values()) == pytest.approx(one.score, abs=1e-9)
        assert -1e-9 <= one.score <= 1 + 1e-9


@given(st.lists(st.tuples(SHARES, SHARES, LEARNED), min_size=1, max_size=12), st.integers(1, 4))
def test_the_best_n_are_the_first_of_all(items, n):
    """The best n candidates are the first n of the full ranking, including ties with the last."""
    scoring = Scoring(
        GENERAL,
        lambda ids, scope: {},
        **all_stages(repeats for _, repeats, _ in items),
        state_columns=lambda ids, scope: MemoryColumns.of([state for _, _, state in items]),
    )
    fused = [FusedCandidate(str(place), similarity, {}) for place, (similarity, _, _) in enumerate(items)]
    scores = scoring.before_reading([one.id for one in fused], Query("what?", n, Scope(as_of=NOW)))
    best, all_of_them = scores.best(fused, n), scores.best(fused, len(fused))
    assert len(best) >= min(n, len(fused))
    assert all_of_them[: len(best)] == best


@given(st.lists(st.sampled_from(sorted(FEEDBACK))))
def test_confidence_and_utility_stay_between_0_and_1(verbs):
    """Confidence and utility stay between 0 and 1 after any sequence of feedback."""
    confidence = utility = None
    for verb in verbs:
        confidence, utility = FEEDBACK[verb].applied_to(confidence, utility)
    assert all(value is None or 0 <= value <= 1 for value in (confidence, utility))
