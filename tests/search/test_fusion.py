import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Ranking, best_first
from langchain_hybridgraph.search.fusion import (
    Concat,
    ConvexCombination,
    DistributionBased,
    Interleave,
    MaxWeighted,
    ReciprocalRankFusion,
    both_weights,
    fusion_from,
)

RAW = ReciprocalRankFusion(normalize="none")
BY_MAX = ConvexCombination(normalize="max", adaptive=False)
# Fusions whose scores do not depend on worse candidates.
SCORED = [ReciprocalRankFusion(), ConvexCombination(), BY_MAX, ConvexCombination(normalize="bound"), MaxWeighted()]
ALL = [*SCORED, RAW, ReciprocalRankFusion(normalize="max"), DistributionBased(), Interleave(), Concat(), Concat(2)]
IDS = "abcdefghijklmnop"


def ranked(source, weight, ids):
    """Return a ranking of ids with equal scores."""
    return Ranking(source, weight, ids, dict.fromkeys(ids, 1.0))


def scored(source, weight, scores, listed_ids=None, **options):
    """Return a list of candidates with scores, best first; ``listed_ids`` are the ids that the source found itself."""
    best = best_first((id, scores[id]) for id in (scores if listed_ids is None else listed_ids))
    return Ranking(source, weight, list(best), scores, **options)


def keyword(weight, scores, **options):
    return scored("keyword", weight, scores, bound=100.0, **options)


def ids_and_scores(fused):
    return [(one.id, pytest.approx(one.score, abs=1e-6)) for one in fused]


def ids(fused):
    return "".join(one.id for one in fused)


@st.composite
def two_sources(draw):
    """Draw the lists of a vector and a keyword source, each with its own score for all candidates."""
    cosines = draw(st.dictionaries(st.sampled_from(IDS), st.floats(-1, 1), max_size=16))
    words = draw(st.dictionaries(st.sampled_from(IDS), st.floats(0, 60), max_size=16))
    listed_ids = [id for id in cosines if draw(st.booleans())]
    matched = [id for id in words if words[id] > 0 and draw(st.booleans())]
    weight = draw(st.floats(0.05, 0.95))
    return [
        scored("vector", weight, {id: cosines.get(id, 0.0) for id in {*cosines, *matched}}, listed_ids, bound=1.0),
        scored("keyword", 1 - weight, words, matched, bound=60.0),
    ]


# -- reciprocal rank fusion ---------------------------------------------------------------------------------------


def test_weighted_reciprocal_ranks():
    """A raw score is Σ weight / (60 + rank); by default, it is divided by the largest possible value."""
    lists = [ranked("vector", 0.7, "abc"), ranked("keyword", 0.3, "cda")]
    raw = {"a": 0.016237315, "c": 0.016029144, "b": 0.011290323, "d": 0.004838710}
    assert {one.id: one.score for one in RAW(lists)} == pytest.approx(raw, abs=1e-9)
    expected = [("a", 0.990476), ("c", 0.977778), ("b", 0.688710), ("d", 0.295161)]
    assert ids_and_scores(ReciprocalRankFusion()(lists)) == expected
    assert ReciprocalRankFusion(normalize="max")(lists)[0].score == pytest.approx(1.0)


def test_an_empty_list_gives_its_weight_away():
    """If one list is empty, the other one has the full weight."""
    lists = [ranked("vector", 0.7, "ab"), ranked("keyword", 0.3, "")]
    assert ids_and_scores(ReciprocalRankFusion()(lists)) == [("a", 1.0), ("b", 0.983871)]


def test_a_duplicate_counts_at_its_best_rank():
    """A duplicate keeps only its best rank, and the candidates after it keep theirs."""
    assert {one.id: one.score for one in RAW([ranked("vector", 1, "aab")])} == pytest.approx({"a": 1 / 61, "b": 1 / 63})


def test_three_sources_tie_exactly():
    """Candidates with ranks 1, 2 and 3 in any order of sources have exactly equal scores, so they are ordered by id."""
    lists = [ranked("x", 1 / 3, "bca"), ranked("y", 1 / 3, "abc"), ranked("z", 1 / 3, "cab")]
    fused = ReciprocalRankFusion()(lists)
    assert ids(fused) == "abc"
    assert len({one.score for one in fused}) == 1


# -- convex combination -------------------------------------------------------------------------------------------


def test_scores_over_the_best_of_their_list():
    """With normalize="max", a score is .7 · cosine / best cosine + .3 · BM25 / best BM25."""
    lists = [scored("vector", 0.7, {"a": 0.8, "b": 0.4}), keyword(0.3, {"b": 10.0, "a": 5.0})]
    assert ids_and_scores(BY_MAX(lists)) == [("a", 0.85), ("b", 0.65)]


def test_scores_over_their_bounds():
    """With normalize="bound", a score is the weighted sum of the cosine and of BM25 over its largest possible value."""
    lists = [scored("vector", 0.7, {"a": 0.8, "b": 0.4}), scored("keyword", 0.3, {"b": 10.0}, bound=40.0)]
    assert ids_and_scores(ConvexCombination(normalize="bound")(lists)) == [("a", 0.56), ("b", 0.355)]


def test_a_cosine_is_measured_in_standard_deviations():
    """A cosine is measured in standard deviations above the background, of which twelve give 1: (.56 − .2) / (12 ·
    .05) = .6.
    """
    (one,) = ConvexCombination()([scored("vector", 1, {"a": 0.56}, background=(0.2, 0.05))])
    assert one.score == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("best", "share"), [(0.0, 0.0), (10.0, 0.15 / 0.85), (40.0, 0.3), (160.0, 0.6 / 1.3)], ids=lambda x: f"{x:.2f}"
)
def test_the_keyword_weight_depends_on_the_best_match(best, share):
    """The keyword weight is multiplied by √(best BM25 / 40), and the weights are scaled to sum to 1."""
    fused = ConvexCombination()([scored("vector", 0.7, {"v": 0.69}), keyword(0.3, {"k": best})])
    by_id = {one.id: one.score for one in fused}
    assert by_id["k"] == pytest.approx(share)
    assert by_id["v"] == pytest.approx((1 - share) * 0.5)


# -- exact matches ------------------------------------------------------------------------------------------------


def test_an_exact_match_takes_precedence_over_similarity():
    """An exact match of .6 gives its chunk a part of .6, and leaves .4 of every score for similarity."""
    lists = [scored("vector", 0.7, {"a": 0.69, "b": 0.0}), keyword(0.3, {}, exact={"b": 0.6})]
    first, second = ConvexCombination()(lists)
    assert (first.id, dict(first.parts)) == ("b", {"vector": 0.0, "exact": 0.6})
    assert second.score == pytest.approx(0.4 * 0.5)


def test_fixed_weights_and_a_weight_of_zero_leave_exact_matches_out():
    """Exact matches are ignored with fixed weights, and if the keyword source has weight 0."""
    vector = scored("vector", 0.7, {"a": 0.69, "b": 0.1})
    words = keyword(0.3, {"a": 5.0}, exact={"b": 0.9})
    assert ids(ConvexCombination(adaptive=False)([vector, words])) == "ab"
    assert ids(ConvexCombination()([vector, replace(words, weight=0.0)])) == "ab"


# -- other fusions ---------------------------------------------------------------------------------------------------


def test_three_deviations_around_the_mean():
    """Scores within three deviations of the mean are mapped to [0, 1]: 3 becomes .5 + 1 / (6 · .8165)."""
    (best, middle, last) = DistributionBased()([scored("vector", 1, {"a": 3.0, "b": 2.0, "c": 1.0})])
    assert (best.score, middle.score, last.score) == pytest.approx((0.704124, 0.5, 0.295876), abs=1e-6)


def test_the_larger_of_two_weighted_scores_wins():
    """The score is the larger of .5 · .8 and .25 · 1, divided by the largest weight, and the only part names its
    source.
    """
    vector, graph = ("vector", 0.5, {"a": 0.8, "b": 0.2}), ("graph", 0.25, {"a": 1.0, "b": 0.9})
    fused = MaxWeighted()([scored(*each, bound=1.0) for each in (vector, graph)])
    assert [(one.id, dict(one.parts)) for one in fused] == [("a", {"vector": 0.8}), ("b", {"graph": 0.45})]


def test_interleaving_in_turn():
    """The lists alternate, and a duplicate uses up its list's turn."""
    fused = Interleave()([ranked("vector", 0.7, "abcde"), ranked("keyword", 0.3, "xbyz")])
    assert ids(fused)[:4] == "axbc"
    assert ids(fused) == "axbcydze"
    assert [one.score for one in fused] == [pytest.approx(1 - i / 8) for i in range(8)]


def test_concatenating_by_quota():
    """The quota is k // 2 + 1 candidates of each list: for k=4 three of the first list, then those of the second."""
    assert ids(Concat().for_k(4)([ranked("vector", 0.7, "abcde"), ranked("keyword", 0.3, "xbyz")]))[:4] == "abcx"


# -- all fusions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ALL, ids=str)
def test_empty_lists_give_an_empty_list(fusion):
    """Every fusion of no lists, or of empty lists, is an empty list."""
    assert fusion([]) == []
    assert fusion([ranked("vector", 0.7, ""), ranked("keyword", 0.3, "")]) == []


@given(two_sources())
def test_invariants_of_every_fusion(lists):
    """Each candidate appears once, ordered by score and then id, with a score in [0, 1] that its parts sum to."""
    candidates = sorted({id for each in lists for id in each.ids})
    assume(candidates)
    for fusion in ALL:
        fused = fusion(lists)
        assert sorted(one.id for one in fused) == candidates
        assert fused == sorted(fused, key=lambda one: (-one.score, one.id))
        for one in fused:
            assert 0 <= one.score <= 1
            assert sum(one.parts.values()) == pytest.approx(one.score, abs=1e-12)


@given(two_sources())
def test_the_order_of_the_sources_does_not_matter(lists):
    """Reversing the order of the sources does not change the scores or their order."""
    for fusion in [*SCORED, RAW, DistributionBased()]:
        assert [one[:2] for one in fusion(lists)] == [one[:2] for one in fusion(lists[::-1])]


@given(two_sources())
def test_a_score_depends_on_no_worse_candidate(lists):
    """Leaving out the last candidate of each list does not change the scores of the others."""
    shorter = [replace(ranking, ids=ranking.ids[: max(len(ranking.ids) - 1, 1)]) for ranking in lists]
    ranks = [{id: place for place, id in enumerate(ranking.ids)} for ranking in (*lists, *shorter)]
    unmoved = [
        id
        for id in ranks[0] | ranks[1]
        if ranks[0].get(id) == ranks[2].get(id) and ranks[1].get(id) == ranks[3].get(id)
    ]
    assume(unmoved)
    for fusion in SCORED:
        before = {one.id: one.score for one in fusion(lists)}
        after = {one.id: one.score for one in fusion(shorter)}
        assert before.keys() >= set(unmoved)
        assert {id: after[id] for id in unmoved} == {id: before[id] for id in unmoved}


# -- names and weights --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["rff", {"type": "borda"}, {"rank_constant": 10}, {}, 3, None])
def test_the_error_of_an_unknown_fusion_lists_the_names(form):
    """The error for an unknown fusion lists the names of all fusions."""
    with pytest.raises(ConfigurationError, match="rrf, convex, distribution, max, interleave, concat"):
        fusion_from(form)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"type": "rrf", "c": 60}, "no parameter 'c'; expected rank_constant, normalize"),
        ({"type": "interleave", "k": 3}, "no parameter 'k'; it takes none"),
        ({"type": "rrf", "normalize": "l2"}, "must be 'theoretical' or 'max' or 'none'"),
        ({"type": "rrf", "rank_constant": "many"}, "rank_constant must be a number ≥ 0, got 'many'"),
    ],
)
def test_an_unusable_parameter_names_usable_values(form, message):
    """The error for an invalid parameter contains its name, its value and the expected values."""
    with pytest.raises(ConfigurationError, match=message):
        fusion_from(form)


@pytest.mark.parametrize("weights", [[-0.1, 0.3], [0.0, 0.0], [math.nan, 1], [math.inf, 1]])
def test_unusable_weights_are_refused(weights):
    """Negative or non-finite weights, and only zeros, raise ConfigurationError."""
    with pytest.raises(ConfigurationError, match=r"weights? must be .*, got"):
        both_weights(*weights)
