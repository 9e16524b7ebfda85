import math

import numpy as np
import pytest

from recency.core.sizing import (
    capacity_for_count,
    capacity_for_ranks,
    kept_rank_error,
    kept_relative_error,
    poisson_at_most,
    poisson_interval,
)


def at_most(k, mean):
    """P[Poi(mean) ≤ k], term by term."""
    return math.fsum(
        math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in range(int(k) + 1)
    )


@pytest.mark.parametrize("mean", [0.01, 0.7, 3, 40, 1000, 5000])
def test_poisson_probabilities_against_plain_sums(mean):
    spread = math.sqrt(mean)
    ks = sorted({max(0, math.floor(mean + z * spread)) for z in (-5, -2, -0.5, 0, 0.5, 2, 5)})
    result = poisson_at_most(np.array(ks, dtype=float), np.full(len(ks), float(mean)))
    assert result == pytest.approx([at_most(k, mean) for k in ks], rel=1e-9, abs=1e-14)
    assert poisson_at_most(np.array([-1.0]), np.array([float(mean)])).tolist() == [0.0]


@pytest.mark.parametrize("n", [0, 1, 2, 7, 50, 1000])
@pytest.mark.parametrize("doubt", [0.2, 0.05, 0.01, 1e-4])
def test_poisson_intervals_are_garwoods(n, doubt):
    lower, upper = poisson_interval(n, doubt)
    assert at_most(n, upper) == pytest.approx(doubt / 2, rel=1e-6)
    if n:
        assert 1 - at_most(n - 1, lower) == pytest.approx(doubt / 2, rel=1e-6)
    else:
        assert lower == 0


def test_capacity_and_error_are_inverse():
    for error, doubt in [(0.3, 0.05), (0.1, 0.01)]:
        capacity = capacity_for_count(error, doubt)
        assert kept_relative_error(capacity, error, doubt) == error
        assert kept_relative_error(capacity, 0.5, doubt) <= error
        # the failure probability has small steps, so "smallest" is exact to a few per cent
        assert kept_relative_error(capacity * 9 // 10, error, doubt) > error
    capacity = capacity_for_ranks(0.1, 0.05)
    assert kept_rank_error(capacity, 0.5, 0.05) <= 0.1 < kept_rank_error(capacity - 2, 0.5, 0.05)
    assert kept_relative_error(1, 0.1, 0.05) > 0.5


@pytest.mark.parametrize(("error", "doubt"), [(0.5, 1e-4), (0.3, 0.2), (0.2, 0.05), (0.7, 1e-6)])
def test_coarse_samples_keep_their_promise_between_the_grid_points_too(error, doubt):
    capacity = capacity_for_count(error, doubt)
    worst = 0.0
    for octave in np.geomspace(0.71, 1.41, 500):
        means = capacity * octave * 2.0 ** np.arange(-2, 4)
        low, high = np.floor(means * (1 - error)), np.ceil(means * (1 + error)) - 1
        # errors above ε: exactly ε is allowed
        low = np.where(low == means * (1 - error), low - 1, low)
        misses = poisson_at_most(low, means) + 1 - poisson_at_most(high, means)
        overflows = 1 - poisson_at_most(np.full(means.size, float(capacity)), means)
        worst = max(worst, np.minimum(misses, overflows).sum())
    assert worst <= doubt * 1.001


def test_large_samples_are_scaled_and_impossible_ones_refused():
    assert capacity_for_count(0.001, 0.05) < 1.1 * (1.96 / 0.001) ** 2
    assert 0 < kept_relative_error(2**31, 0.5, 0.05) < 1e-4
    assert kept_relative_error(5, 1e-170, 0.05) > 0.5
    for error in (1e-6, 5e-324):
        with pytest.raises(ValueError, match="relative_error must be larger"):
            capacity_for_count(error, 0.05)
        with pytest.raises(ValueError, match="rank_error must be larger"):
            capacity_for_ranks(error, 0.05)
