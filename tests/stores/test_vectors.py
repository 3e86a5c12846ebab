"""Vector matrix with one float32 row per chunk version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.stores import vectors as vector_matrix
from langchain_hybridgraph.stores.generations import Generation, NoEmbedding
from langchain_hybridgraph.stores.vectors import GATHER_SHARE, GATHERED, VectorMatrix, unit


def random_units(seed, rows, dimension=8):
    return unit(np.random.default_rng(seed).normal(size=(rows, dimension)))


def test_scores_are_the_cosines_of_the_rows_in_their_order():
    """scores() returns the cosines of any rows in the requested order, and 0 for rows beyond the end."""
    matrix, vectors = VectorMatrix(None, 8), random_units(1, 400)
    matrix.write(0, vectors)
    rows = [*np.random.default_rng(2).integers(400, size=2 * GATHERED + 3).tolist(), 10_000]
    expected = [float(vectors[row] @ vectors[7]) if row < 400 else 0.0 for row in rows]
    assert matrix.scores(vectors[7], rows).tolist() == pytest.approx(expected, abs=1e-6)
    assert matrix.scores(vectors[7], []).tolist() == []


@given(
    seed=st.integers(0, 1000),
    rows=st.integers(1, 60),
    n=st.integers(0, 70),
    share=st.sampled_from([0.0, GATHER_SHARE / 2, 0.3, 1.0]),
)
def test_search_is_a_sort_of_all_cosines(seed, rows, n, share):
    """For any mask, a search returns the n allowed rows with the highest cosines."""
    generator = np.random.default_rng(seed)
    vectors = np.round(generator.normal(size=(rows, 2)) * 2)  # few directions: many ties
    matrix = VectorMatrix(None, 2)
    matrix.write(0, unit(vectors))
    allowed_rows = generator.random(rows) < share
    vector = unit(generator.normal(size=2))
    hits, scores = matrix.search(vector, n, allowed_rows)
    cosines = matrix.take(range(rows)) @ vector
    expected = sorted(np.flatnonzero(allowed_rows).tolist(), key=lambda row: (-cosines[row], row))[:n]
    assert sorted(hits.tolist()) == sorted(expected) or scores[-1] == pytest.approx(cosines[expected[-1]], abs=1e-6)
    assert scores.tolist() == pytest.approx(sorted(cosines[allowed_rows].tolist(), reverse=True)[:n], abs=1e-6)


def test_ties_are_broken_by_row_before_the_cut():
    """Among equal vectors, those with the lowest rows are returned, with masks that allow few or all rows."""
    matrix = VectorMatrix(None, 2)
    matrix.write(0, unit([[1.0, 0.0]] * 1000))
    few = np.zeros(1000, np.bool_)
    few[[900, 40, 70]] = True
    vector = np.array([1, 0], np.float32)
    assert matrix.search(vector, 2, few)[0].tolist() == [40, 70]
    assert matrix.search(vector, 2, np.ones(1000, np.bool_))[0].tolist() == [0, 1]


@pytest.fixture
def large(monkeypatch):
    """Treat every matrix as a large one in which only about 300 vectors are compared."""
    monkeypatch.setattr(vector_matrix, "EXACT_BYTES", 0)
    monkeypatch.setattr(vector_matrix, "LEAST_RESCORED", 300)


def test_a_large_matrix_gives_the_nearest_in_their_order(place, large):
    """An approximate search returns rows of the exact search, with the same cosines and in the same order."""
    matrix, vectors = VectorMatrix(place, 96), random_units(0, 4_000, 96)
    matrix.write(0, vectors)
    allowed_rows = np.arange(4_000) % 2 == 0
    near = unit(vectors[6] + 0.8 * vectors[8])
    rows, scores = matrix.search(near, 10, allowed_rows, approximate=True)
    exact = dict(zip(*(each.tolist() for each in matrix.search(near, 2_000, allowed_rows)), strict=True))
    assert rows[:2].tolist() == [6, 8]
    assert len(rows) == 10
    assert scores.tolist() == pytest.approx([exact[row] for row in rows.tolist()])
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)


def test_a_large_matrix_of_equal_vectors_is_searched_exactly(place, large):
    """In an approximate search over equal vectors, the lowest rows are returned."""
    matrix = VectorMatrix(place, 64)
    matrix.write(0, np.tile(random_units(0, 1, 64), (3_000, 1)))
    assert matrix.search(matrix.take([0])[0], 5, np.ones(3_000, np.bool_), approximate=True)[0].tolist() == [*range(5)]


def test_another_thread_may_replace_the_codes_during_a_search(place, large, monkeypatch):
    """A search ends with the binary codes with which it began, even if a damaged row makes another thread drop them."""
    matrix, vectors = VectorMatrix(place, 96), random_units(0, 4_000, 96)
    matrix.write(0, vectors)
    add_rows = vector_matrix.BinaryQuantizer.add_rows

    def interrupt(signs, rows):
        add_rows(signs, rows)
        matrix._forget_verified()

    monkeypatch.setattr(vector_matrix.BinaryQuantizer, "add_rows", interrupt)
    assert matrix.search(vectors[6], 1, np.ones(4_000, np.bool_), approximate=True)[0].tolist() == [6]


def test_a_packed_generation_has_the_remaining_rows(tmp_path, place):
    """After each packing, the remaining and new rows have their vectors and cosines under their numbers."""
    vectors, folder = random_units(0, 12), None if place is None else tmp_path
    generation = Generation(folder, 0, 8, NoEmbedding("words"))
    generation.matrix.write(0, vectors[:6])
    for end, numbers in ((6, [1, 2, 4]), (9, [1, 4, 7])):
        generation = generation.packed(end, numbers)
        generation.matrix.write(3, vectors[end : end + 3])
    alive = [1, 4, 7, 9, 10, 11]
    rows = generation.numbers.rows(range(12))
    assert rows.tolist() == [-1, 0, -1, -1, 1, -1, -1, 2, -1, 3, 4, 5]
    assert generation.numbers.of(range(6)).tolist() == alive
    assert generation.matrix.take(rows[alive]).tolist() == vectors[alive].tolist()
    assert generation.matrix.search(vectors[4], 1, np.ones(6, np.bool_))[0].tolist() == [1]
    assert not generation.matrix.lacks(np.ones(6, np.bool_))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_unit_refuses_infinite_values(bad):
    """unit() raises a ValueError for NaN, infinity and values too large for a float32."""
    with pytest.raises(ValueError, match="finite"):
        unit([[1.0, bad]])
