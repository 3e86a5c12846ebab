"""Signs of vectors, one bit per dimension: similar vectors agree in most of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.stores.vectors import BinaryQuantizer, _differing, _signs, unit


def random_vectors(rows, dimension, seed=0):
    return unit(np.random.default_rng(seed).normal(size=(rows, dimension)))


def taken_in(matrix):
    signs = BinaryQuantizer()
    signs.add_rows(matrix)
    return signs


def every(matrix):
    return np.ones(len(matrix), np.bool_)


@given(st.integers(1, 200), st.integers(1, 30), st.integers(0, 1_000))
def test_differing_bits_are_counted(dimension, rows, seed):
    """The number of differing signs is correct for vectors of any dimension."""
    matrix, (vector,) = random_vectors(rows, dimension, seed), random_vectors(1, dimension, seed + 1)
    counted = _differing(_signs(matrix).T.copy(), _signs(vector[None])[0])
    assert counted.tolist() == ((matrix > 0) != (vector > 0)).sum(axis=1).tolist()


@pytest.mark.parametrize("row", [0, 17, 299])
def test_a_vector_is_nearest_to_itself(row):
    """A row of the matrix is found by its own vector."""
    matrix = random_vectors(300, 96)
    assert row in taken_in(matrix).nearest(matrix[row], 1, every(matrix))


def test_most_of_the_nearest_are_found():
    """Among 10,000 clustered vectors, the 300 with the fewest differing signs contain over 90 % of the nearest 20."""
    dice = np.random.default_rng(0)
    matrix = unit(dice.normal(size=(200, 128))[dice.integers(200, size=10_000)] + dice.normal(size=(10_000, 128)))
    signs, shares = taken_in(matrix), []
    for vector in matrix[:50]:
        nearest = np.argsort(-(matrix @ vector))[:20]
        shares.append(np.isin(nearest, signs.nearest(vector, 300, every(matrix))).mean())
    assert np.mean(shares) > 0.9


def test_about_the_requested_number():
    """The number of rows returned is between half and twice the requested one."""
    matrix = random_vectors(20_000, 128)
    assert 500 < len(taken_in(matrix).nearest(matrix[5], 1_000, every(matrix))) < 2_000


def test_all_equal_vectors_are_returned():
    """All of a thousand equal vectors are returned, even if fewer were requested."""
    matrix = np.concatenate([random_vectors(3_000, 64), np.tile(random_vectors(1, 64, seed=5), (1_000, 1))])
    assert set(range(3_000, 4_000)) <= set(taken_in(matrix).nearest(matrix[3_500], 10, every(matrix)).tolist())


def test_rows_that_are_not_allowed_are_left_out():
    """Only allowed rows are returned, in ascending order."""
    matrix = random_vectors(1_000, 64)
    allowed_rows = np.arange(1_000) % 3 == 0
    rows = taken_in(matrix).nearest(matrix[0], 50, allowed_rows)
    assert allowed_rows[rows].all()
    assert rows.tolist() == sorted(rows.tolist())
    assert taken_in(matrix).nearest(matrix[0], 50, np.zeros(1_000, np.bool_)).tolist() == []


def test_rows_that_come_later_are_found():
    """Rows added later are found, and earlier rows are still found."""
    matrix, signs = random_vectors(3_000, 64), BinaryQuantizer()
    for stop in (1_000, 1_001, 3_000, 2_000):
        signs.add_rows(matrix[:stop])
    for row in (0, 999, 1_000, 2_999):
        assert row in signs.nearest(matrix[row], 1, every(matrix))


def test_signs_are_relative_to_the_mean():
    """Signs are relative to the mean of all vectors, so vectors that point in similar directions still differ."""
    matrix = unit(random_vectors(2_000, 64) + 5)
    assert len(taken_in(matrix).nearest(matrix[7], 20, every(matrix))) < 200
